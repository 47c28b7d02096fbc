//! `holdback vectors`: simulated runs as reference vectors.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use holdback_scenarios::policy::{Family, Policy};
use holdback_sim::vectors::{About, NoVector, vector};
use holdback_sim::workload::Prepared;

use crate::cli::Vectors;
use crate::failure::{Failure, Verdict, remark};
use crate::inputs;

/// The most runs of one file.
const MOST_RUNS: u64 = 1_000_000;

pub(super) fn run(args: &Vectors) -> Result<Verdict, Failure> {
    let loader = inputs::loader(args.names.prices.as_deref())?;
    let study = inputs::named(&args.names, &loader)?;
    let scenario = inputs::scenario(&args.scenario, &study, &loader)?;
    let policy = inputs::policy("--policy", &args.policy, &study, &loader)?;
    if policy.family == Family::Caps {
        return Err(Failure::Usage(format!(
            "--policy: found `{}` of the family caps, expected one of run_limits or usage_limits, \
             which have vectors",
            policy.name
        )));
    }
    let runs = wanted_runs(args)?;
    let seed = args.seed.unwrap_or(study.seed);
    let policies = std::slice::from_ref(&policy);
    let prepared = Prepared::new(&scenario, policies, seed)?;
    let about = About {
        scenario: &scenario.name,
        seed,
    };
    let mut lines = Vec::new();
    let mut left_out: BTreeMap<&'static str, u64> = BTreeMap::new();
    for run in &runs {
        match vector(&prepared, 0, &policy, &about, *run) {
            Ok(vector) => lines.push(vector.to_string()),
            Err(NoVector::LeftOut(reason)) => *left_out.entry(reason.as_str()).or_default() += 1,
            Err(defect) => return Err(Failure::Internal(defect.to_string())),
        }
    }
    if lines.is_empty() {
        return Err(nothing_left(&policy, &scenario.name, &left_out));
    }
    write(args, &lines)?;
    for (reason, count) in &left_out {
        remark(&format!("{count} runs left out: {reason}"));
    }
    Ok(Verdict::Holds)
}

/// The runs by number: those named, else the first ones.
fn wanted_runs(args: &Vectors) -> Result<Vec<u64>, Failure> {
    if !args.run.is_empty() {
        return match args.run.iter().find(|run| **run >= inputs::MAX_RUNS) {
            Some(run) => Err(Failure::Usage(format!(
                "--run: found {run}, expected 0 to {}",
                inputs::MAX_RUNS - 1
            ))),
            None => Ok(args.run.clone()),
        };
    }
    if args.runs == 0 || args.runs > MOST_RUNS {
        return Err(Failure::Usage(format!(
            "--runs: found {}, expected 1 to {MOST_RUNS}",
            args.runs
        )));
    }
    Ok((0..args.runs).collect())
}

fn nothing_left(
    policy: &Policy,
    scenario: &str,
    left_out: &BTreeMap<&'static str, u64>,
) -> Failure {
    let reasons: Vec<String> = left_out
        .iter()
        .map(|(reason, count)| format!("{count} runs: {reason}"))
        .collect();
    Failure::Usage(format!(
        "no run of {scenario} under `{}` can be a vector ({})",
        policy.name,
        reasons.join("; ")
    ))
}

fn write(args: &Vectors, lines: &[String]) -> Result<(), Failure> {
    let write_all = |out: &mut dyn Write| -> io::Result<()> {
        for line in lines {
            writeln!(out, "{line}")?;
        }
        out.flush()
    };
    match &args.output {
        None => write_all(&mut io::stdout().lock()).map_err(|error| Failure::io("stdout", error)),
        Some(path) => {
            let file = File::create(path).map_err(|error| Failure::io(path, error))?;
            write_all(&mut BufWriter::new(file)).map_err(|error| Failure::io(path, error))?;
            remark(&format!("{} vectors: {}", lines.len(), path.display()));
            Ok(())
        }
    }
}
