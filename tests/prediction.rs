//! Does the simulation predict what recorded runs do? Half of a source's runs are calibrated and
//! simulated under a grid of limits, the other half is replayed under the same limits.
//!
//! The short test uses the built-in sample. The long one reads the traces that `HOLDBACK_PREDICT` names
//! and prints the tables of `docs/prediction.md`:
//!
//! ```text
//! HOLDBACK_PREDICT=runs.jsonl.gz cargo test --release --test prediction -- --nocapture recorded_runs
//! ```

#[path = "prediction/compare.rs"]
mod compare;
#[path = "prediction/grid.rs"]
mod grid;

use std::collections::BTreeMap;
use std::path::Path;

use holdback_scenarios::import::{InputTokens, Traces};
use holdback_scenarios::library;
use holdback_scenarios::trace::{Names, Run};

use compare::{Errors, Setup, Source};

/// The sources of a trace file, each with its runs.
fn sources(mut traces: Traces) -> (BTreeMap<String, Vec<Run>>, Names) {
    let mut sources: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    while let Some(run) = traces.next_run().unwrap() {
        let label = traces.names().get(run.source).to_owned();
        sources.entry(label).or_default().push(run);
    }
    (sources, traces.names().clone())
}

fn measured(label: &str, runs: &[Run], names: &Names, setup: &Setup) -> Errors {
    let source = Source::new(label, runs, names);
    let mut errors = Errors::default();
    for split in 0..setup.splits {
        source.split(split, setup, &mut errors);
    }
    errors
}

#[test]
fn the_built_in_sample_is_predicted_by_the_scenario_of_its_other_half() {
    let setup = Setup {
        splits: 3,
        runs: 1000,
    };
    let (sources, names) = sources(library::sample_runs().into());
    for (label, runs) in &sources {
        let errors = measured(label, runs, &names, &setup);
        assert!(errors.points() >= 12 * setup.splits);
        // Three splits of few runs: the aims of the long test, with room for their luck.
        assert!(errors.within() >= 0.9, "{}", errors.row(label));
        assert!(errors.mean_signed().abs() <= 4.0, "{}", errors.row(label));
    }
}

#[test]
fn recorded_runs_are_predicted_within_two_points_and_their_sampling_error() {
    let Some(file) = std::env::var_os("HOLDBACK_PREDICT") else {
        return;
    };
    let setup = Setup {
        splits: 20,
        runs: 4000,
    };
    let (sources, names) = sources(Traces::open(Path::new(&file), InputTokens::Inclusive).unwrap());
    let mut missed = Vec::new();
    println!("{}", Errors::HEAD);
    for (label, runs) in &sources {
        let usable = Source::new(label, runs, &names).len();
        if usable < 30 {
            continue;
        }
        let errors = measured(label, runs, &names, &setup);
        println!("{}", errors.row(label));
        if std::env::var_os("HOLDBACK_PREDICT_GRID").is_some() {
            println!("{}", errors.by_limit());
        }
        // Luck of the splits is none of the simulation's: it would show with the fitted runs themselves.
        let mean = errors.mean_signed() - errors.mean_luck();
        if errors.within() < 0.95 || mean.abs() > 2.0 {
            missed.push(label.clone());
        }
    }
    assert!(missed.is_empty(), "beyond the aim: {}", missed.join(", "));
}
