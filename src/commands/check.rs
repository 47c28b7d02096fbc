//! `holdback check`: a gate for changes of limits. Verdict and exit code come from one value.

use std::path::Path;

use holdback_reports::check::{Gate, Report};
use holdback_reports::measure::Measure;
use holdback_reports::numbers::shell;
use holdback_reports::study::StudyResult;
use holdback_reports::summary::Summary;
use holdback_scenarios::policy::Policy;
use holdback_scenarios::read::{self, Loader};
use holdback_scenarios::{FileError, Study, library};
use holdback_sim::campaign::RunSet;

use super::study::{Setting, prepare, run_scenario, scenario_info};
use crate::cli::Check;
use crate::failure::{Failure, Verdict, print, remark};
use crate::inputs;
use crate::output::write_atomically;
use crate::progress::{self, Progress};

/// The largest saved summary that is read.
const LARGEST_SUMMARY: u64 = 256 << 20;

pub(super) fn run(args: &Check) -> Result<Verdict, Failure> {
    let loader = inputs::loader(args.prices.as_deref())?;
    let saved = saved_summary(&args.baseline)?;
    let study = study(args, &loader, saved.as_ref())?;
    if let Some(saved) = &saved {
        can_come_out_again(&args.baseline, saved, &study)?;
    }
    let gates = gates(args, &study)?;
    let setting = Setting {
        study: &study,
        work: inputs::work(&args.work)?,
        command: command(args, &study),
        explain_options: explain_options(args),
        runs_per_month: None,
    };
    let result = simulate(args, &setting)?;
    if let Some(saved) = &saved {
        reproduces(
            &args.baseline,
            saved,
            &Summary::new(&result),
            &study.policies[0].name,
        )?;
    }
    let candidate = &study.policies[1].name;
    let report = Report::new(&result, &Summary::new(&result), candidate, &gates)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    for (path, text) in [
        (&args.junit, report.junit(args.strict)),
        (&args.markdown, report.markdown()),
    ] {
        if let Some(path) = path {
            write_atomically(path, text.as_bytes())?;
        }
    }
    print(&report.table())?;
    Ok(if report.exit_code(args.strict) == 0 {
        Verdict::Holds
    } else {
        Verdict::Fails
    })
}

/// A saved `summary.json`, if that is what the baseline is.
fn saved_summary(baseline: &str) -> Result<Option<Summary>, Failure> {
    let path = Path::new(baseline);
    if path.extension().is_none_or(|extension| extension != "json") || !path.is_file() {
        return Ok(None);
    }
    let size = std::fs::metadata(path)
        .map_err(|error| Failure::io(path, error))?
        .len();
    if size > LARGEST_SUMMARY {
        return Err(Failure::Usage(format!(
            "{baseline}: found {size} bytes, expected a policy or a summary.json of at most {LARGEST_SUMMARY}"
        )));
    }
    // What is no JSON at all is told by the reader of policies.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else {
        return Ok(None);
    };
    // A limits object has neither of these keys; what has both wants to be a summary.
    if value.get("statistics").is_none() || value.get("scenarios").is_none() {
        return Ok(None);
    }
    let schema = value.get("schema").and_then(serde_json::Value::as_u64);
    let wanted = u64::from(holdback_reports::summary::SCHEMA);
    if schema != Some(wanted) {
        let found = schema.map_or_else(
            || "no version".to_owned(),
            |schema| format!("version {schema}"),
        );
        return Err(Failure::Usage(format!(
            "{baseline}: schema: found {found}, expected a summary.json of version {wanted}"
        )));
    }
    serde_json::from_value(value).map(Some).map_err(|error| {
        Failure::Usage(format!(
            "{baseline}: found {error}, expected a summary.json of version {wanted}"
        ))
    })
}

/// A saved baseline is worth its counts, which only the runs that it was made of bring again: what
/// cannot be compared with them is refused, before anything is simulated.
fn can_come_out_again(file: &str, saved: &Summary, study: &Study) -> Result<(), Failure> {
    let refused = |text: String| Err(Failure::Usage(format!("{file}: {text}")));
    if saved.study.seed != study.seed {
        return refused(format!(
            "study.seed: found {}, expected {}: another seed does not bring its counts again (leave --seed \
             out, or give the baseline as a policy)",
            saved.study.seed, study.seed
        ));
    }
    for scenario in &study.scenarios {
        let name = &scenario.name;
        let Some(there) = saved.scenarios.iter().find(|known| known.name == *name) else {
            let held: Vec<String> = saved
                .scenarios
                .iter()
                .map(|known| format!("`{}`", known.name))
                .collect();
            return refused(format!(
                "found no counts of scenario `{name}`, expected one of {} (or the baseline as a policy)",
                held.join(", ")
            ));
        };
        if there.definition != scenario.document {
            return refused(format!(
                "scenario `{name}`: found another definition than the one to be checked, expected the same, \
                 or its counts do not come out again"
            ));
        }
        if there.runs != study.runs {
            return refused(format!(
                "scenario `{name}`: found counts of {} runs, expected {}: give --runs {}, or the baseline as \
                 a policy",
                there.runs, study.runs, there.runs
            ));
        }
        if there.cell(&saved.study.baseline).is_none() {
            return refused(format!(
                "scenario `{name}`: found no counts of `{}`, expected those of the baseline",
                saved.study.baseline
            ));
        }
    }
    Ok(())
}

/// The study of two policies, baseline first.
fn study(args: &Check, loader: &Loader, saved: Option<&Summary>) -> Result<Study, Failure> {
    let mut study = match (&args.study, saved) {
        (Some(name), _) => loader.study(name)?,
        (None, Some(saved)) => saved_study(&args.baseline, saved)?,
        (None, None) => library::default_study(),
    };
    inputs::select_scenarios(&mut study, &args.scenarios, loader)?;
    let baseline = match saved {
        Some(saved) => saved_policy(&args.baseline, saved)?,
        None => inputs::one_policy("--baseline", &args.baseline, &study.policies, loader)?,
    };
    let mut candidate =
        inputs::one_policy("--candidate", &args.candidate, &study.policies, loader)?;
    if candidate.name == baseline.name {
        candidate.name.push_str(" (candidate)");
    }
    study.policies = vec![baseline, candidate];
    study.baseline = 0;
    let (runs, seed) = match saved {
        Some(saved) => (saved.study.runs, saved.study.seed),
        None => (study.runs, study.seed),
    };
    study.runs = args.runs.unwrap_or(runs);
    study.seed = args.seed.unwrap_or(seed);
    inputs::check_runs(study.runs)?;
    Ok(study)
}

/// The study that a saved summary embeds.
fn saved_study(file: &str, saved: &Summary) -> Result<Study, Failure> {
    if saved.scenarios.is_empty() {
        return Err(Failure::Usage(format!(
            "{file}: scenarios: found none, expected at least one to check the candidate in"
        )));
    }
    if saved
        .scenarios
        .iter()
        .any(|scenario| scenario.definition.is_null())
    {
        return Err(Failure::Usage(format!(
            "{file}: found recorded runs, expected a summary of simulated runs, which can be simulated again"
        )));
    }
    let scenarios = saved
        .scenarios
        .iter()
        .map(|scenario| read::scenario_from_json(file, &scenario.definition))
        .collect::<Result<Vec<_>, FileError>>()?;
    Ok(Study {
        name: saved.study.name.clone(),
        summary: None,
        seed: saved.study.seed,
        runs: saved.study.runs,
        scenarios,
        policies: Vec::new(),
        skipped: Vec::new(),
        baseline: 0,
        gates: holdback_scenarios::study::Gates::default(),
    })
}

fn saved_policy(file: &str, saved: &Summary) -> Result<Policy, Failure> {
    let policy = saved
        .policies
        .iter()
        .find(|policy| policy.name == saved.study.baseline)
        .ok_or_else(|| {
            Failure::Usage(format!(
                "{file}: found no baseline among its policies, expected one"
            ))
        })?;
    Ok(read::policy_from_json(file, &policy.definition)?)
}

/// Gates of the command line, then those of the study that the command line does not name.
fn gates(args: &Check, study: &Study) -> Result<Vec<Gate>, Failure> {
    let mut named: Vec<(String, f64)> = [
        ("answered_drop_pp", args.max_answered_drop),
        ("overspend_increase_usd", args.max_overspend_increase),
        ("cost_increase_pct", args.max_cost_increase),
    ]
    .into_iter()
    .filter_map(|(name, threshold)| Some((name.to_owned(), threshold?)))
    .collect();
    for (name, threshold) in &study.gates.0 {
        if named.iter().all(|(known, _)| known != name) {
            named.push((name.clone(), *threshold));
        }
    }
    if named.is_empty() {
        return Err(Failure::Usage(
            "found no gate, expected --max-answered-drop, --max-overspend-increase, --max-cost-increase or a \
             [gates] table in the study"
                .to_owned(),
        ));
    }
    named
        .iter()
        .map(|(name, threshold)| {
            Gate::parse(name, *threshold).map_err(|error| Failure::Usage(error.to_string()))
        })
        .collect()
}

fn simulate(args: &Check, setting: &Setting<'_>) -> Result<StudyResult, Failure> {
    let study = setting.study;
    let prepared = study
        .scenarios
        .iter()
        .map(|scenario| prepare(scenario, study))
        .collect::<Result<Vec<_>, _>>()?;
    progress::catch_interrupts();
    let cells = (study.scenarios.len() * study.policies.len()) as u64;
    let progress = Progress::new(cells.saturating_mul(study.runs), args.quiet);
    let mut result = setting.empty_result();
    for (scenario, prepared) in study.scenarios.iter().zip(&prepared) {
        progress.scenario(&scenario.name);
        let campaign = run_scenario(
            prepared,
            setting,
            scenario,
            RunSet::range(0, study.runs),
            &progress,
        )?;
        if progress::interrupted() {
            return Err(Failure::Interrupted("nothing was checked".to_owned()));
        }
        result
            .scenarios
            .push(scenario_info(scenario, study, campaign, study.runs));
    }
    let (done, elapsed) = progress.finish();
    if !args.quiet {
        remark(&format!("{done} runs in {:.2} s", elapsed.as_secs_f64()));
    }
    Ok(result)
}

/// The saved baseline must come out again, count for count.
fn reproduces(file: &str, saved: &Summary, again: &Summary, baseline: &str) -> Result<(), Failure> {
    for scenario in &again.scenarios {
        let there = saved.scenarios.iter().find(|s| s.name == scenario.name);
        let (Some(there), Some(here)) = (
            there.and_then(|saved| saved.cell(baseline)),
            scenario.cell(baseline),
        ) else {
            continue;
        };
        for measure in [
            Measure::Answered,
            Measure::Partial,
            Measure::Unanswered,
            Measure::Wasted,
        ] {
            let (saved_value, value) = (there.number(measure), here.number(measure));
            if saved_value != value {
                return Err(Failure::Usage(format!(
                    "{file}: scenario `{}`: {}: found {} in the file, expected {} as simulated now{}",
                    scenario.name,
                    measure.name(),
                    shown(saved_value),
                    shown(value),
                    if saved.version == again.version {
                        String::new()
                    } else {
                        format!(
                            " (the file was made by version {}, this is {})",
                            saved.version, again.version
                        )
                    },
                )));
            }
        }
    }
    Ok(())
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| value.to_string())
}

/// The command that reproduces the check.
fn command(args: &Check, study: &Study) -> String {
    let mut words = vec![format!(
        "holdback check --baseline {} --candidate {}",
        shell(&args.baseline),
        shell(&args.candidate)
    )];
    words.extend(
        args.study
            .as_deref()
            .map(|study| format!("--study {}", shell(study))),
    );
    words.extend(
        args.scenarios
            .iter()
            .map(|scenario| format!("--scenario {}", shell(scenario))),
    );
    for (option, value) in [
        ("--max-answered-drop", args.max_answered_drop),
        ("--max-overspend-increase", args.max_overspend_increase),
        ("--max-cost-increase", args.max_cost_increase),
    ] {
        words.extend(value.map(|value| format!("{option} {value}")));
    }
    words.push(format!("--runs {} --seed {}", study.runs, study.seed));
    words.join(" ")
}

fn explain_options(args: &Check) -> String {
    args.study
        .as_deref()
        .map_or_else(String::new, |study| format!("--study {}", shell(study)))
}
