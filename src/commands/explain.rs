//! `holdback explain`: one run, event by event, under one policy or two.

use holdback_reports::explain::{Explained, Subject};
use holdback_reports::table::Style;
use holdback_scenarios::import::Traces;
use holdback_scenarios::policy::Policy;
use holdback_scenarios::price::Price;
use holdback_scenarios::read::Loader;
use holdback_scenarios::{FileError, Study, library};
use holdback_sim::explain::{Timeline, tell, tell_prepared};
use holdback_sim::luck::LuckKey;
use holdback_sim::policy::{CompiledPolicy, ToolNames, compile};
use holdback_sim::records::Recorder;
use holdback_sim::workload::{Prepared, Replay, replay_ledger};
use holdback_sim::world::Record;

use super::show;
use crate::cli::Explain;
use crate::failure::{Failure, Verdict, print};
use crate::inputs;

pub(super) fn run(args: &Explain) -> Result<Verdict, Failure> {
    if args.scenario.is_some() && args.price.is_some() {
        return Err(Failure::Usage(
            "--price: found beside --scenario, expected --traces; a scenario has its own price"
                .to_owned(),
        ));
    }
    let loader = inputs::loader(args.names.prices.as_deref())?;
    let study = inputs::named(&args.names, &loader)?;
    let policies = policies(args, &study, &loader)?;
    let (subject, timelines) = match &args.scenario {
        Some(name) => simulated(args, name, &study, &policies, &loader)?,
        None => recorded(args, &policies, &loader)?,
    };
    let definitions = policies.iter().map(|policy| policy.document.clone());
    let explained = Explained::new(
        env!("CARGO_PKG_VERSION"),
        subject,
        definitions.zip(timelines).collect(),
    );
    let text = if args.json {
        explained
            .to_json()
            .map_err(|error| Failure::Internal(error.to_string()))?
    } else {
        explained.render(style(args)?)
    };
    print(&text)?;
    Ok(Verdict::Holds)
}

fn style(args: &Explain) -> Result<Style, Failure> {
    const WIDTHS: std::ops::RangeInclusive<usize> = 60..=400;
    let style = show::style();
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    match args.width {
        None => Ok(Style {
            width: terminal().unwrap_or(style.width),
            ..style
        }),
        Some(width) if WIDTHS.contains(&width) => Ok(Style { width, ..style }),
        Some(width) => Err(Failure::Usage(format!(
            "--width: found {width}, expected {} to {}",
            WIDTHS.start(),
            WIDTHS.end()
        ))),
    }
}

/// The policy, and the one beside it.
fn policies(args: &Explain, study: &Study, loader: &Loader) -> Result<Vec<Policy>, Failure> {
    let mut policies = vec![inputs::policy("--policy", &args.policy, study, loader)?];
    if let Some(against) = &args.against {
        policies.push(inputs::policy("--against", against, study, loader)?);
    }
    Ok(policies)
}

fn simulated(
    args: &Explain,
    name: &str,
    study: &Study,
    policies: &[Policy],
    loader: &Loader,
) -> Result<(Subject, Vec<Timeline>), Failure> {
    let scenario = inputs::scenario(name, study, loader)?;
    let run: u64 = args
        .run
        .parse()
        .ok()
        .filter(|run| *run < inputs::MAX_RUNS)
        .ok_or_else(|| {
            Failure::Usage(format!(
                "--run: found `{}`, expected the number of a run, 0 to {}",
                args.run,
                inputs::MAX_RUNS - 1
            ))
        })?;
    let seed = args.seed.unwrap_or(study.seed);
    let prepared = Prepared::new(&scenario, policies, seed)?;
    let subject = Subject::Simulated {
        scenario: scenario.name.clone(),
        run,
        seed,
    };
    Ok((subject, tell_prepared(&prepared, run)))
}

/// The seed of `replay`.
const REPLAY_SEED: u64 = 7;

fn recorded(
    args: &Explain,
    policies: &[Policy],
    loader: &Loader,
) -> Result<(Subject, Vec<Timeline>), Failure> {
    let compliance = args.compliance.unwrap_or(1.0);
    let price = inputs::price(args.price.as_deref(), loader)?;
    let mut names = ToolNames::of_records();
    let ledger = replay_ledger(price, None);
    let compiled = policies
        .iter()
        .map(|policy| compile(policy, &mut names, &ledger))
        .collect::<Result<Vec<_>, _>>()?;
    let mut search = Search::new(args, names, price);
    let traces = args.traces.as_deref().unwrap_or_default();
    if traces.is_empty() {
        search.read(library::sample_runs().into())?;
    }
    for path in traces {
        search.read(Traces::open(path, args.input_tokens.into())?)?;
    }
    let (names, found) = search.only_one()?;
    let seed = args.seed.unwrap_or(REPLAY_SEED);
    let replay = Replay {
        records: std::slice::from_ref(&found.record),
        offset: found.run,
        compliance,
        price,
        key: LuckKey::new(seed, "replay"),
    };
    let told = |policy: &CompiledPolicy| tell(&replay, policy, &names, found.run);
    let timelines = compiled.iter().map(told).collect();
    let subject = Subject::Recorded {
        source: found.record.source.clone(),
        run: found.run,
        run_id: found.record.run_id.clone(),
        seed,
    };
    Ok((subject, timelines))
}

/// A search for the run that `--run` means: a position among the played runs of a source, as
/// `runs.csv` counts them, or a `run_id`.
struct Search<'a> {
    args: &'a Explain,
    recorder: Recorder,
    position: Option<u64>,
    /// Sources in the order in which they appear, with their runs that can be played so far.
    sources: Vec<(String, u64)>,
    by_position: Vec<Found>,
    by_id: Vec<Found>,
    left_out: Option<&'static str>,
}

struct Found {
    run: u64,
    record: Record,
}

impl<'a> Search<'a> {
    fn new(args: &'a Explain, names: ToolNames, price: Option<Price>) -> Search<'a> {
        Search {
            args,
            recorder: Recorder::new(names, price, args.skip_dialogue),
            position: args.run.parse().ok(),
            sources: Vec::new(),
            by_position: Vec::new(),
            by_id: Vec::new(),
            left_out: None,
        }
    }

    fn read(&mut self, mut reader: Traces) -> Result<(), Failure> {
        self.recorder.forget_names();
        while let Some(run) = reader.next_run()? {
            let source = reader.names().get(run.source).to_owned();
            let is_wanted = self
                .args
                .source
                .as_ref()
                .is_none_or(|wanted| *wanted == source);
            let played = self.played(source);
            match self.recorder.record(&run, reader.names()) {
                Err(reason) if is_wanted && run.run_id == self.args.run => {
                    self.left_out = Some(reason.as_str());
                }
                Err(_) => {}
                Ok(record) => {
                    let run = *played_mut(&mut self.sources, played);
                    *played_mut(&mut self.sources, played) += 1;
                    if !is_wanted {
                        continue;
                    }
                    if record.run_id == self.args.run {
                        self.by_id.push(Found {
                            run,
                            record: record.clone(),
                        });
                    }
                    if self.position == Some(run) {
                        self.by_position.push(Found { run, record });
                    }
                }
            }
        }
        Ok(())
    }

    /// The position of a source.
    fn played(&mut self, source: String) -> usize {
        match self.sources.iter().position(|(name, _)| *name == source) {
            Some(at) => at,
            None => {
                self.sources.push((source, 0));
                self.sources.len() - 1
            }
        }
    }

    /// The one run that is meant, with the names of all tools.
    fn only_one(self) -> Result<(ToolNames, Found), Failure> {
        let names = self.recorder.names().clone();
        let mut candidates = if self.by_position.is_empty() {
            self.by_id
        } else {
            self.by_position
        };
        let wanted = &self.args.run;
        match (candidates.pop(), candidates.len()) {
            (Some(found), 0) => Ok((names, found)),
            (Some(last), _) => {
                let sources: Vec<&str> = candidates
                    .iter()
                    .chain([&last])
                    .map(|found| found.record.source.as_str())
                    .collect();
                Err(Failure::Usage(format!(
                    "--run {wanted}: found it in {} sources, expected --source with one of `{}`",
                    sources.len(),
                    sources.join("`, `")
                )))
            }
            (None, _) => Err(self.args.not_found(&self.sources, self.left_out)),
        }
    }
}

fn played_mut(sources: &mut [(String, u64)], at: usize) -> &mut u64 {
    &mut sources[at].1
}

impl Explain {
    fn not_found(&self, sources: &[(String, u64)], left_out: Option<&'static str>) -> Failure {
        let wanted = &self.run;
        if let Some(reason) = left_out {
            return Failure::Usage(format!(
                "--run {wanted}: found a run that cannot be played: {reason}"
            ));
        }
        if let Some(source) = &self.source
            && !sources.iter().any(|(name, _)| name == source)
        {
            let names = sources.iter().map(|(name, _)| name.as_str());
            let error = FileError::of_file(
                "--source",
                format!("`{source}`"),
                "the label of a source of the traces",
            );
            return Failure::File(error.nearest(source, names));
        }
        let has: Vec<String> = sources
            .iter()
            .filter(|(name, _)| self.source.as_ref().is_none_or(|wanted| wanted == name))
            .map(|(name, played)| format!("{name} has {played}"))
            .collect();
        if has.is_empty() {
            return Failure::Usage(format!(
                "--run: found `{wanted}` and no run at all in the traces, expected traces with at least one run"
            ));
        }
        Failure::Usage(format!(
            "--run: found `{wanted}`, expected a run_id or a position among the played runs, \
             counted from 0 ({})",
            has.join(", ")
        ))
    }
}
