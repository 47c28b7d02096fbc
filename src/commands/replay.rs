//! `holdback replay`: recorded runs under policies.

use std::collections::BTreeMap;
use std::path::Path;

use holdback_reports::study::{Kind, ScenarioInfo, StudyResult, Twin};
use holdback_reports::summary::Summary;
use holdback_scenarios::import::Traces;
use holdback_scenarios::policy::Policy;
use holdback_scenarios::price::Price;
use holdback_scenarios::trace::Names;
use holdback_scenarios::{FileError, library};
use holdback_sim::campaign::{Campaign, Listener, Work};
use holdback_sim::luck::LuckKey;
use holdback_sim::policy::{CompiledPolicy, ToolNames, compile};
use holdback_sim::records::{CONTINUE, LeftOut, Recorder};
use holdback_sim::workload::{Replay as Workload, replay_ledger};
use holdback_sim::world::Record;

use super::show;
use super::study::{cells, policy_info};
use crate::cli::Replay;
use crate::defect;
use crate::failure::{Failure, Verdict, remark};
use crate::inputs;
use crate::output::{Folder, Identity, RowFile, RowListener, RowNames};
use crate::parts::Parts;
use crate::progress::Progress;

/// Records that are held in memory at a time.
const BATCH: usize = 2048;

/// The policies of a replay that names none.
const DEFAULT_POLICIES: [&str; 5] = [
    "interactive, no reserve",
    "interactive defaults",
    "interactive, announced",
    "no reserve",
    "steps reserve 1",
];

pub(super) fn run(args: &Replay) -> Result<Verdict, Failure> {
    let setting = Setting::new(args)?;
    let identity = Identity {
        study: setting.name(),
        seed: args.seed,
        runs: 0,
        command: setting.command(),
    };
    let folder = args
        .shared
        .out
        .as_deref()
        .map(|path| Folder::open(path, &identity))
        .transpose()?;
    let rows_path = folder
        .as_ref()
        .filter(|_| args.shared.per_run)
        .map(|folder| Parts::of(folder.path()).rows(0));
    let mut rows = rows_path.as_deref().map(RowFile::create).transpose()?;
    let progress = Progress::new(0, args.shared.quiet);
    let mut replayed = Replayed::new(&setting);
    if args.traces.is_empty() {
        replayed.read(library::sample_runs().into(), &progress, rows.as_mut())?;
    }
    for path in &args.traces {
        replayed.read(
            Traces::open(path, args.input_tokens.into())?,
            &progress,
            rows.as_mut(),
        )?;
    }
    replayed.flush(&progress, rows.as_mut())?;
    if replayed.played == 0 {
        return Err(replayed.nothing_usable());
    }
    if let (Some(rows), Some(path), Some(folder)) = (rows, rows_path, &folder) {
        rows.finish()?;
        folder.join_rows(&[path])?;
        Parts::of(folder.path()).remove()?;
    }
    replayed.remarks();
    let result = replayed.result();
    let (done, elapsed) = progress.finish();
    let summary = Summary::new(&result);
    if let Some(folder) = &folder {
        folder.report(&summary, args.shared.per_run)?;
    }
    show::summary(&summary, args.shared.format, folder.as_ref())?;
    show::timing(&args.shared, done, elapsed);
    Ok(Verdict::Holds)
}

/// What a replay was asked for.
struct Setting<'a> {
    args: &'a Replay,
    policies: Vec<Policy>,
    compiled: Vec<CompiledPolicy>,
    baseline: usize,
    work: Work,
    price: Option<Price>,
    names: ToolNames,
    key: LuckKey,
}

impl<'a> Setting<'a> {
    fn new(args: &'a Replay) -> Result<Setting<'a>, Failure> {
        let loader = inputs::loader(args.prices.as_deref())?;
        let names: Vec<String> = if args.policies.is_empty() {
            DEFAULT_POLICIES.map(str::to_owned).to_vec()
        } else {
            args.policies.clone()
        };
        let (policies, _) = inputs::policies(&names, &[], &loader)?;
        let baseline = inputs::baseline(&policies, args.baseline.as_deref())?;
        let price = inputs::price(args.price.as_deref(), &loader)?;
        let mut tools = ToolNames::of_records();
        let ledger = replay_ledger(price, None);
        let compiled = policies
            .iter()
            .map(|policy| compile(policy, &mut tools, &ledger))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Setting {
            args,
            policies,
            compiled,
            baseline,
            work: inputs::work(&args.shared.work)?,
            price,
            names: tools,
            key: LuckKey::new(args.seed, "replay"),
        })
    }

    fn name(&self) -> String {
        match self.args.traces.as_slice() {
            [] => "replay of the built-in sample".to_owned(),
            [one] => format!("replay of {}", file_name(one)),
            [first, rest @ ..] => format!("replay of {} and {} more", file_name(first), rest.len()),
        }
    }

    /// How `explain` is told of the traces.
    fn explain_traces(&self) -> String {
        let shell = holdback_reports::numbers::shell;
        let files = self.args.traces.iter();
        let files = files.map(|path| format!(" {}", shell(&path.display().to_string())));
        format!("--traces{}", files.collect::<String>())
    }

    /// What `explain` needs to play a run as it was played here.
    fn explain_options(&self) -> String {
        let shell = holdback_reports::numbers::shell;
        let args = self.args;
        let mut words = Vec::new();
        for file in args
            .policies
            .iter()
            .filter(|word| Path::new(word).is_file())
        {
            words.push(format!("--policy-file {}", shell(file)));
        }
        words.extend(args.input_tokens.option());
        words.extend(self.how_played());
        words.join(" ")
    }

    /// The options that decide how a record is played, as words of a command.
    fn how_played(&self) -> Vec<String> {
        let shell = holdback_reports::numbers::shell;
        let args = self.args;
        let mut words = Vec::new();
        if let Some(price) = &args.price {
            words.push(format!("--price {}", shell(price)));
        }
        if let Some(prices) = &args.prices {
            words.push(format!("--prices {}", shell(&prices.display().to_string())));
        }
        if args.compliance != 1.0 {
            words.push(format!("--compliance {}", args.compliance));
        }
        if args.skip_dialogue {
            words.push("--skip-dialogue".to_owned());
        }
        words.push(format!("--seed {}", args.seed));
        words
    }

    /// The command that reproduces the replay.
    fn command(&self) -> String {
        let shell = holdback_reports::numbers::shell;
        let args = self.args;
        let mut words = vec!["holdback replay".to_owned()];
        words.extend(
            args.traces
                .iter()
                .map(|path| shell(&path.display().to_string())),
        );
        words.extend(
            args.policies
                .iter()
                .map(|policy| format!("--policy {}", shell(policy))),
        );
        words.extend(
            args.baseline
                .iter()
                .map(|name| format!("--baseline {}", shell(name))),
        );
        words.extend(args.input_tokens.option());
        words.extend(self.how_played());
        words.join(" ")
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// The replay as far as it has come: a campaign a source, in the order in which sources appear.
struct Replayed<'a> {
    setting: &'a Setting<'a>,
    recorder: Recorder,
    sources: Vec<Source>,
    read: u64,
    played: u64,
    ignored: BTreeMap<String, u64>,
    imported: Vec<String>,
}

struct Source {
    name: String,
    campaign: Campaign,
    left_out: BTreeMap<LeftOut, u64>,
    waiting: Vec<Record>,
    played: u64,
}

impl<'a> Replayed<'a> {
    fn new(setting: &'a Setting<'a>) -> Replayed<'a> {
        Replayed {
            setting,
            recorder: Recorder::new(
                setting.names.clone(),
                setting.price,
                setting.args.skip_dialogue,
            ),
            sources: Vec::new(),
            read: 0,
            played: 0,
            ignored: BTreeMap::new(),
            imported: Vec::new(),
        }
    }

    fn read(
        &mut self,
        mut reader: Traces,
        progress: &Progress,
        mut rows: Option<&mut RowFile>,
    ) -> Result<(), Failure> {
        self.recorder.forget_names();
        while let Some(run) = reader.next_run()? {
            self.read += 1;
            let at = self.source(reader.names(), run.source);
            match self.recorder.record(&run, reader.names()) {
                Ok(record) => self.sources[at].waiting.push(record),
                Err(reason) => *self.sources[at].left_out.entry(reason).or_default() += 1,
            }
            if self.sources[at].waiting.len() >= BATCH {
                self.play(at, progress, rows.as_deref_mut())?;
            }
        }
        self.imported.extend_from_slice(reader.remarks());
        for (key, count) in reader.ignored() {
            *self.ignored.entry(key.clone()).or_default() += count;
        }
        Ok(())
    }

    fn source(&mut self, names: &Names, id: holdback_scenarios::trace::NameId) -> usize {
        let name = names.get(id);
        if let Some(at) = self.sources.iter().position(|source| source.name == name) {
            return at;
        }
        self.sources.push(Source {
            name: name.to_owned(),
            campaign: Campaign::empty(self.setting.policies.len()),
            left_out: BTreeMap::new(),
            waiting: Vec::new(),
            played: 0,
        });
        self.sources.len() - 1
    }

    fn flush(
        &mut self,
        progress: &Progress,
        mut rows: Option<&mut RowFile>,
    ) -> Result<(), Failure> {
        for at in 0..self.sources.len() {
            self.play(at, progress, rows.as_deref_mut())?;
        }
        Ok(())
    }

    /// Plays the waiting records of a source.
    fn play(
        &mut self,
        at: usize,
        progress: &Progress,
        rows: Option<&mut RowFile>,
    ) -> Result<(), Failure> {
        let setting = self.setting;
        let source = &mut self.sources[at];
        let records = std::mem::take(&mut source.waiting);
        let workload = Workload {
            records: &records,
            offset: source.played,
            compliance: setting.args.compliance,
            price: setting.price,
            key: setting.key,
        };
        progress.scenario(&source.name);
        progress.extend((records.len() * setting.compiled.len()) as u64);
        let again = || {
            let (traces, options) = (setting.explain_traces(), setting.explain_options());
            format!(
                "holdback explain {traces} --source {} {options}",
                holdback_reports::numbers::shell(&source.name)
            )
        };
        let play = |listener: &dyn Listener| {
            let campaign =
                || workload.campaign(&setting.compiled, setting.baseline, setting.work, listener);
            defect::told(campaign, again)
        };
        let campaign = match rows {
            None => play(progress)?,
            Some(file) => {
                let names = RowNames {
                    scenario: &source.name,
                    policies: setting
                        .policies
                        .iter()
                        .map(|policy| policy.name.as_str())
                        .collect(),
                    run_ids: records
                        .iter()
                        .map(|record| record.run_id.as_str())
                        .collect(),
                    first_run: source.played,
                };
                let listener = RowListener::new(progress, names, file);
                let campaign = play(&listener)?;
                listener.finish()?;
                campaign
            }
        };
        source.campaign.merge(&campaign);
        source.played += records.len() as u64;
        self.played += records.len() as u64;
        Ok(())
    }

    fn nothing_usable(&self) -> Failure {
        let file = match self.setting.args.traces.as_slice() {
            [one] => one.display().to_string(),
            _ => "the traces".to_owned(),
        };
        let mut reasons: BTreeMap<LeftOut, u64> = BTreeMap::new();
        for source in &self.sources {
            for (reason, count) in &source.left_out {
                *reasons.entry(*reason).or_default() += count;
            }
        }
        let why: Vec<String> = reasons
            .iter()
            .map(|(reason, count)| format!("{count}: {}", reason.as_str()))
            .collect();
        let found = if self.read == 0 {
            "no run at all".to_owned()
        } else {
            format!(
                "{} runs, none of which can be played ({})",
                self.read,
                why.join("; ")
            )
        };
        let mut error = FileError::of_file(&file, found, "at least one run with costs");
        if reasons.contains_key(&LeftOut::NoCost) {
            error = error.with_hint(
                "give --price MODEL or --price input=..,output=.. to price runs by their tokens",
            );
        }
        Failure::File(error)
    }

    /// Says on stderr what was left out and ignored.
    fn remarks(&self) {
        if self.setting.args.shared.quiet {
            return;
        }
        for source in &self.sources {
            for (reason, count) in &source.left_out {
                remark(&format!(
                    "{}: {count} runs left out: {}",
                    source.name,
                    reason.as_str()
                ));
            }
        }
        for text in &self.imported {
            remark(text);
        }
        for (key, count) in &self.ignored {
            remark(&format!("ignored the key `{key}` {count} times"));
        }
    }

    fn result(self) -> StudyResult {
        let setting = self.setting;
        let several = self
            .sources
            .iter()
            .filter(|source| source.played > 0)
            .count()
            > 1;
        let explain = |source: &str| match several {
            true => format!(
                "{} --source {}",
                setting.explain_traces(),
                holdback_reports::numbers::shell(source)
            ),
            false => setting.explain_traces(),
        };
        let policies = &setting.policies;
        let played = self.sources.into_iter().filter(|source| source.played > 0);
        let scenarios = played
            .map(|source| ScenarioInfo {
                summary: format!("{} recorded runs, played again", source.played),
                explain: explain(&source.name),
                name: source.name,
                definition: serde_json::Value::Null,
                budget: None,
                runs: source.played,
                left_out: source
                    .left_out
                    .iter()
                    .map(|(reason, count)| (reason.as_str().to_owned(), *count))
                    .collect(),
                twin: Some(Twin {
                    evidence: source.campaign.twin_evidence,
                    groups: source.campaign.twin_groups.clone(),
                }),
                cells: cells(policies, setting.baseline, source.campaign.cells, |_| None),
            })
            .collect();
        StudyResult {
            name: setting.name(),
            kind: Kind::Replayed,
            seed: setting.args.seed,
            runs: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            baseline: policies
                .get(setting.baseline)
                .map_or_else(String::new, |policy| policy.name.clone()),
            command: setting.command(),
            explain_options: setting.explain_options(),
            runs_per_month: setting.args.shared.runs_per_month,
            policies: policies.iter().map(policy_info).collect(),
            scenarios,
            skipped: Vec::new(),
            notes: vec![format!(
                "A recorded turn without calls that is not the last counts as one call of the pseudo-tool `{CONTINUE}`."
            )],
        }
    }
}
