//! `holdback compare`: scenarios times policies, run by run on the same luck.

use holdback_reports::stats::CONFIDENCE;
use holdback_reports::stats::proportion::wilson;
use holdback_reports::study::StudyResult;
use holdback_reports::summary::Summary;
use holdback_scenarios::{Scenario, Study};
use holdback_sim::campaign::{Campaign, RunSet};
use holdback_sim::workload::Prepared;

use super::show;
use super::study::{Setting, prepare, run_scenario, scenario_info};
use crate::cli::Compare;
use crate::failure::{Failure, Verdict};
use crate::inputs;
use crate::output::{Folder, Identity, RowFile, RowListener, RowNames};
use crate::progress::Progress;

/// Runs of a cell that `--precision` never goes beyond.
const MOST_RUNS: u64 = inputs::MAX_RUNS;

pub(super) fn run(args: &Compare) -> Result<Verdict, Failure> {
    let study = inputs::study(args)?;
    let threads = inputs::threads(&args.shared)?;
    if let Some(precision) = args.precision
        && !(precision > 0.0 && precision <= 50.0)
    {
        return Err(Failure::Usage(format!(
            "--precision: found {precision}, expected percentage points above 0, up to 50"
        )));
    }
    let setting = Setting {
        study: &study,
        threads,
        command: command(args, &study),
        explain_options: explain_options(args),
        runs_per_month: args.shared.runs_per_month,
    };
    // Everything that can be wrong with the input is found before anything is written.
    let prepared: Vec<Prepared<'_>> = study
        .scenarios
        .iter()
        .map(|scenario| prepare(scenario, &study))
        .collect::<Result<_, _>>()?;
    let identity = Identity {
        study: study.name.clone(),
        seed: study.seed,
        runs: study.runs,
        command: setting.command.clone(),
    };
    let folder = args
        .shared
        .out
        .as_deref()
        .map(|path| Folder::open(path, &identity))
        .transpose()?;
    let mut rows = match &folder {
        Some(folder) if args.shared.per_run => Some(folder.rows()?),
        _ => None,
    };
    let cells = (study.scenarios.len() * study.policies.len()) as u64;
    let progress = Progress::new(cells.saturating_mul(study.runs), args.shared.quiet);
    let mut result = setting.empty_result();
    for (scenario, prepared) in study.scenarios.iter().zip(&prepared) {
        progress.scenario(&scenario.name);
        let (campaign, runs) =
            measure(args, &setting, scenario, prepared, &progress, rows.as_mut())?;
        result
            .scenarios
            .push(scenario_info(scenario, &study, campaign, runs));
    }
    if let Some(rows) = rows {
        rows.finish()?;
    }
    let (done, elapsed) = progress.finish();
    finish(args, &result, folder.as_ref(), done, elapsed)
}

/// Runs a scenario, with `--precision` until its answered rates are known well enough.
fn measure(
    args: &Compare,
    setting: &Setting<'_>,
    scenario: &Scenario,
    prepared: &Prepared<'_>,
    progress: &Progress,
    mut rows: Option<&mut RowFile>,
) -> Result<(Campaign, u64), Failure> {
    let study = setting.study;
    let mut runs = study.runs;
    let mut campaign = Campaign::empty(study.policies.len());
    let mut from = 0;
    loop {
        let set = RunSet::range(from, runs);
        let more = match rows.as_deref_mut() {
            None => run_scenario(prepared, setting, set, progress),
            Some(file) => {
                let names = RowNames {
                    scenario: &scenario.name,
                    policies: study
                        .policies
                        .iter()
                        .map(|policy| policy.name.as_str())
                        .collect(),
                    run_ids: Vec::new(),
                    first_run: 0,
                };
                let listener = RowListener::new(progress, names, file);
                let campaign = run_scenario(prepared, setting, set, &listener);
                listener.finish()?;
                campaign
            }
        };
        campaign.merge(&more);
        let Some(precision) = args.precision else {
            return Ok((campaign, runs));
        };
        let known = campaign.cells.iter().all(|cell| {
            let interval = wilson(cell.tally.answered, cell.tally.runs, CONFIDENCE);
            (interval.hi - interval.lo) * 50.0 <= precision
        });
        if known || runs > MOST_RUNS / 2 {
            return Ok((campaign, runs));
        }
        from = runs;
        runs *= 2;
        progress.extend((runs - from) * study.policies.len() as u64);
    }
}

fn finish(
    args: &Compare,
    result: &StudyResult,
    folder: Option<&Folder>,
    done: u64,
    elapsed: std::time::Duration,
) -> Result<Verdict, Failure> {
    let summary = Summary::new(result);
    if let Some(folder) = folder {
        folder.report(&summary, args.shared.per_run)?;
    }
    show::summary(&summary, &args.shared, folder)?;
    show::timing(&args.shared, done, elapsed);
    Ok(Verdict::Holds)
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

fn explain_options(args: &Compare) -> String {
    args.study
        .as_deref()
        .map_or_else(String::new, |study| format!("--study {}", quoted(study)))
}

fn quoted(word: &str) -> String {
    holdback_reports::numbers::shell(word)
}
