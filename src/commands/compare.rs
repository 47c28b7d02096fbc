//! `holdback compare`: scenarios times policies, run by run on the same luck.

use std::path::Path;

use holdback_reports::stats::CONFIDENCE;
use holdback_reports::stats::proportion::wilson;
use holdback_reports::summary::Summary;
use holdback_scenarios::{Scenario, Study};
use holdback_sim::campaign::{Campaign, RunSet};
use holdback_sim::part::Part;
use holdback_sim::workload::Prepared;

use super::show;
use super::study::{Setting, prepare, run_scenario, scenario_info};
use crate::cli::Compare;
use crate::failure::{Failure, Verdict, print};
use crate::inputs;
use crate::output::{Folder, Identity, RowFile, RowListener, RowNames};
use crate::parts::{Found, Header, Parts};
use crate::progress::{self, Progress};
use crate::shard::Shard;

/// Runs of a cell that `--precision` never goes beyond.
const MOST_RUNS: u64 = inputs::MAX_RUNS;
/// The finest `--precision`, in percentage points: the most runs just reach it.
const FINEST: f64 = 0.01;

pub(super) fn run(args: &Compare) -> Result<Verdict, Failure> {
    let study = inputs::study(args)?;
    let work = inputs::work(&args.shared.work)?;
    if let Some(precision) = args.precision
        && !(FINEST..=50.0).contains(&precision)
    {
        return Err(Failure::Usage(format!(
            "--precision: found {precision}, expected {FINEST} to 50 percentage points"
        )));
    }
    let shard = match &args.shard {
        None => Shard::WHOLE,
        Some(text) => Shard::read(text, |name| std::env::var(name).ok())?,
    };
    let setting = Setting {
        study: &study,
        work,
        command: command(args, &study),
        explain_options: explain_options(args, &study),
        runs_per_month: args.shared.runs_per_month,
    };
    // Everything that can be wrong with the input is found before anything is written.
    let prepared: Vec<Prepared<'_>> = study
        .scenarios
        .iter()
        .map(|scenario| prepare(scenario, &study))
        .collect::<Result<_, _>>()?;
    let store = args
        .shared
        .out
        .as_deref()
        .map(|path| Store::open(path, args, &setting, shard))
        .transpose()?;
    progress::catch_interrupts();
    let cells = (study.scenarios.len() * study.policies.len()) as u64;
    let progress = Progress::new(
        cells.saturating_mul(study.runs) / shard.count,
        args.shared.quiet,
    );
    let mut result = setting.empty_result();
    for (at, (scenario, prepared)) in study.scenarios.iter().zip(&prepared).enumerate() {
        progress.scenario(&scenario.name);
        let work = Work {
            args,
            setting: &setting,
            scenario,
            prepared,
            progress: &progress,
            shard,
        };
        let (campaign, runs) = match &store {
            Some(store) => store.part(at as u64, &work)?,
            None => work.measure(None)?,
        };
        result
            .scenarios
            .push(scenario_info(scenario, &study, campaign, runs));
    }
    let (done, elapsed) = progress.finish();
    show::timing(&args.shared, done, elapsed);
    if shard != Shard::WHOLE {
        return shard_done(args, shard);
    }
    let summary = Summary::new(&result);
    let folder = store.as_ref().map(|store| &store.folder);
    if let Some(store) = &store {
        store.complete(&summary, study.scenarios.len() as u64)?;
    }
    show::summary(&summary, args.shared.format, folder)?;
    Ok(Verdict::Holds)
}

fn shard_done(args: &Compare, shard: Shard) -> Result<Verdict, Failure> {
    let folder = args
        .shared
        .out
        .as_deref()
        .map_or_else(String::new, |path| path.display().to_string());
    print(&format!(
        "Shard {} of {} is done in {folder}; put all of them together with: holdback merge FOLDER... --out DIR\n",
        shard.number, shard.count
    ))?;
    Ok(Verdict::Holds)
}

/// The runs of one scenario.
struct Work<'w> {
    args: &'w Compare,
    setting: &'w Setting<'w>,
    scenario: &'w Scenario,
    prepared: &'w Prepared<'w>,
    progress: &'w Progress,
    shard: Shard,
}

impl Work<'_> {
    /// Runs the scenario, with `--precision` until its answered rates are known well enough.
    fn measure(&self, mut rows: Option<&mut RowFile>) -> Result<(Campaign, u64), Failure> {
        let study = self.setting.study;
        let mut runs = study.runs;
        let mut campaign = Campaign::empty(study.policies.len());
        let mut from = 0;
        loop {
            let set = if self.shard == Shard::WHOLE {
                RunSet::range(from, runs)
            } else {
                RunSet::shard(self.shard.number - 1, self.shard.count, runs)
            };
            campaign.merge(&self.campaign(set, rows.as_deref_mut())?);
            if progress::interrupted() {
                return Err(self.interrupted());
            }
            let known = self.args.precision.is_none_or(|precision| {
                campaign.cells.iter().all(|cell| {
                    let interval = wilson(cell.tally.answered, cell.tally.runs, CONFIDENCE);
                    (interval.hi - interval.lo) * 50.0 <= precision
                })
            });
            if known || runs > MOST_RUNS / 2 {
                return Ok((campaign, runs));
            }
            from = runs;
            runs *= 2;
            self.progress
                .extend((runs - from) * study.policies.len() as u64);
        }
    }

    fn campaign(&self, set: RunSet, rows: Option<&mut RowFile>) -> Result<Campaign, Failure> {
        let Some(file) = rows else {
            return run_scenario(
                self.prepared,
                self.setting,
                self.scenario,
                set,
                self.progress,
            );
        };
        let names = RowNames {
            scenario: &self.scenario.name,
            policies: self
                .setting
                .study
                .policies
                .iter()
                .map(|policy| policy.name.as_str())
                .collect(),
            run_ids: Vec::new(),
            first_run: 0,
        };
        let listener = RowListener::new(self.progress, names, file);
        let campaign = run_scenario(self.prepared, self.setting, self.scenario, set, &listener)?;
        listener.finish()?;
        Ok(campaign)
    }

    fn interrupted(&self) -> Failure {
        Failure::Interrupted(match &self.args.shared.out {
            Some(out) => format!(
                "the finished scenarios are in {}; go on with the same command and --resume",
                out.display()
            ),
            None => "nothing was written, since there is no --out".to_owned(),
        })
    }
}

/// The output folder with the parts of the study.
struct Store {
    folder: Folder,
    parts: Parts,
    identity: String,
    shard: Shard,
    per_run: bool,
}

impl Store {
    fn open(
        path: &Path,
        args: &Compare,
        setting: &Setting<'_>,
        shard: Shard,
    ) -> Result<Store, Failure> {
        let study = setting.study;
        let header = Header {
            schema: 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            study: study.name.clone(),
            summary: study.summary.clone(),
            seed: study.seed,
            runs: study.runs,
            precision: args.precision,
            baseline: study
                .policies
                .get(study.baseline)
                .map_or_else(String::new, |policy| policy.name.clone()),
            command: setting.command.clone(),
            explain_options: setting.explain_options.clone(),
            runs_per_month: setting.runs_per_month,
            per_run: args.shared.per_run,
            shard: (shard.number, shard.count),
            scenarios: study
                .scenarios
                .iter()
                .map(|scenario| scenario.document.clone())
                .collect(),
            policies: study
                .policies
                .iter()
                .map(|policy| policy.document.clone())
                .collect(),
            skipped: study
                .skipped
                .iter()
                .map(|skipped| (skipped.name.clone(), skipped.reason.clone()))
                .collect(),
        };
        let identity = Identity {
            study: study.name.clone(),
            seed: study.seed,
            runs: study.runs,
            command: setting.command.clone(),
        };
        let folder = Folder::open(path, &identity)?;
        let parts = Parts::of(path);
        let same = parts.header()?.is_some_and(|there| there == header);
        if !(args.resume && same) {
            parts.remove()?;
        }
        parts.write_header(&header)?;
        Ok(Store {
            folder,
            parts,
            identity: header.identity(),
            shard,
            per_run: args.shared.per_run,
        })
    }

    /// The part of a scenario: as it was left by an interrupted run, else measured and written.
    fn part(&self, scenario: u64, work: &Work<'_>) -> Result<(Campaign, u64), Failure> {
        if let Found::Whole(part) = self.parts.read(scenario)?
            && part.identity == self.identity
            && part.campaign.cells.len() == work.setting.study.policies.len()
            && (!self.per_run || self.parts.has_rows_of(&part)?)
        {
            return Ok((part.campaign, part.runs));
        }
        let mut rows = if self.per_run {
            Some(RowFile::create(&self.parts.rows(scenario))?)
        } else {
            None
        };
        let (campaign, runs) = work.measure(rows.as_mut())?;
        let part = Part {
            identity: self.identity.clone(),
            shard: (self.shard.number, self.shard.count),
            scenario,
            runs,
            rows: rows.map(RowFile::finish).transpose()?,
            campaign,
        };
        self.parts.write(&part)?;
        Ok((part.campaign, runs))
    }

    /// Writes the report; the parts have done their work.
    fn complete(&self, summary: &Summary, scenarios: u64) -> Result<(), Failure> {
        if self.per_run {
            let rows: Vec<_> = (0..scenarios)
                .map(|scenario| self.parts.rows(scenario))
                .collect();
            self.folder.join_rows(&rows)?;
        }
        self.folder.report(summary, self.per_run)?;
        self.parts.remove()
    }
}

/// The command that reproduces the study.
fn command(args: &Compare, study: &Study) -> String {
    let mut words = vec!["holdback compare".to_owned()];
    words.extend(args.study.as_deref().map(quoted));
    for (option, values) in [
        ("--scenario", &args.scenarios),
        ("--policy", &args.policies),
    ] {
        words.extend(
            values
                .iter()
                .map(|value| format!("{option} {}", quoted(value))),
        );
    }
    words.extend(
        args.baseline
            .as_deref()
            .map(|name| format!("--baseline {}", quoted(name))),
    );
    words.push(format!("--runs {} --seed {}", study.runs, study.seed));
    words.extend(
        args.precision
            .map(|precision| format!("--precision {precision}")),
    );
    words.extend(
        args.prices
            .as_deref()
            .map(|path| format!("--prices {}", quoted(&path.display().to_string()))),
    );
    words.join(" ")
}

/// What `explain` needs to find the same names and the same luck.
fn explain_options(args: &Compare, study: &Study) -> String {
    let mut words = Vec::new();
    let mut option = |name: &str, value: &str| words.push(format!("{name} {}", quoted(value)));
    if let Some(study) = &args.study {
        option("--study", study);
    }
    let is_file = |word: &&String| std::path::Path::new(word).is_file();
    for file in args.scenarios.iter().filter(is_file) {
        option("--scenario-file", file);
    }
    for file in args.policies.iter().filter(is_file) {
        option("--policy-file", file);
    }
    if let Some(prices) = &args.prices {
        option("--prices", &prices.display().to_string());
    }
    if args.seed.is_some() {
        option("--seed", &study.seed.to_string());
    }
    words.join(" ")
}

fn quoted(word: &str) -> String {
    holdback_reports::numbers::shell(word)
}
