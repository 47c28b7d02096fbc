//! From the words of the command line to scenarios, policies and studies.

use std::path::Path;

use holdback_scenarios::policy::Policy;
use holdback_scenarios::price::Price;
use holdback_scenarios::read::{self, Loader};
use holdback_scenarios::study::Study;
use holdback_scenarios::{FileError, Scenario, library};
use holdback_sim::campaign::Work;

use crate::cli::{Compare, Names, WorkArgs};
use crate::failure::Failure;

/// The most runs of a cell.
pub(crate) const MAX_RUNS: u64 = 1_000_000_000;

/// A loader that looks into a user's price file first.
pub(crate) fn loader(prices: Option<&Path>) -> Result<Loader, Failure> {
    Ok(match prices {
        Some(path) => Loader::with_prices(read::price_table(path)?),
        None => Loader::default(),
    })
}

/// The price of recorded turns without a cost.
pub(crate) fn price(spec: Option<&str>, loader: &Loader) -> Result<Option<Price>, Failure> {
    let priced = spec.map(|spec| read::price_spec(spec, loader.prices()));
    Ok(priced.transpose()?.map(|priced| priced.price))
}

/// How runs are made.
pub(crate) fn work(args: &WorkArgs) -> Result<Work, Failure> {
    let threads = match args.threads {
        Some(0) => {
            return Err(Failure::Usage(
                "--threads: found 0, expected at least 1".to_owned(),
            ));
        }
        Some(threads) if threads > 1024 => {
            return Err(Failure::Usage(format!(
                "--threads: found {threads}, expected at most 1024"
            )));
        }
        Some(threads) => threads,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Work {
        threads,
        sharing: !args.no_sharing,
    })
}

/// The study that `compare` runs.
pub(crate) fn study(args: &Compare) -> Result<Study, Failure> {
    let loader = loader(args.prices.as_deref())?;
    let mut study = match &args.study {
        Some(name) => loader.study(name)?,
        None => library::default_study(),
    };
    select_scenarios(&mut study, &args.scenarios, &loader)?;
    let baseline_name = study
        .policies
        .get(study.baseline)
        .map(|policy| policy.name.clone());
    select_policies(&mut study, &args.policies, &loader)?;
    let wanted = args
        .baseline
        .clone()
        .or(baseline_name.filter(|_| args.policies.is_empty()));
    study.baseline = baseline(&study.policies, wanted.as_deref())?;
    if let Some(runs) = args.runs {
        study.runs = runs;
    }
    if let Some(seed) = args.seed {
        study.seed = seed;
    }
    check_runs(study.runs)?;
    if args.study.is_none() {
        study.name = name_of_selection(args, &study);
    }
    Ok(study)
}

/// What is compared when no study is named: the default one, or the part of it and the files that the
/// options select, which must not pass for all of it.
fn name_of_selection(args: &Compare, study: &Study) -> String {
    let names = |names: Vec<&str>, word: &str| match names.len() {
        0..=3 => names.join(", "),
        n => format!("{n} {word}"),
    };
    let mut parts = Vec::new();
    if !args.scenarios.is_empty() {
        let scenarios = study.scenarios.iter().map(|s| s.name.as_str()).collect();
        parts.push(names(scenarios, "scenarios"));
    }
    if !args.policies.is_empty() {
        let policies = study.policies.iter().map(|p| p.name.as_str()).collect();
        parts.push(names(policies, "policies"));
    }
    if parts.is_empty() {
        study.name.clone()
    } else {
        parts.join(": ")
    }
}

/// Refuses a number of runs that makes no sense.
pub(crate) fn check_runs(runs: u64) -> Result<(), Failure> {
    if runs == 0 || runs > MAX_RUNS {
        return Err(Failure::Usage(format!(
            "--runs: found {runs}, expected 1 to {MAX_RUNS}"
        )));
    }
    Ok(())
}

/// Scenarios named on the command line replace those of the study.
pub(crate) fn select_scenarios(
    study: &mut Study,
    names: &[String],
    loader: &Loader,
) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let mut chosen = Vec::new();
    for name in names {
        match study
            .scenarios
            .iter()
            .find(|scenario| scenario.name == *name)
        {
            Some(scenario) => chosen.push(scenario.clone()),
            None => chosen.push(loader.scenario(name)?),
        }
    }
    unique(
        "--scenario",
        chosen.iter().map(|scenario| scenario.name.as_str()),
    )?;
    study.scenarios = chosen;
    Ok(())
}

/// Policies named on the command line replace those of the study.
pub(crate) fn select_policies(
    study: &mut Study,
    names: &[String],
    loader: &Loader,
) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let (chosen, skipped) = policies(names, &study.policies, loader)?;
    study.policies = chosen;
    study.skipped.extend(skipped);
    Ok(())
}

/// Policies by name: those of a study first, then built-in ones, then files.
pub(crate) fn policies(
    names: &[String],
    known: &[Policy],
    loader: &Loader,
) -> Result<(Vec<Policy>, Vec<holdback_scenarios::study::Skipped>), Failure> {
    let mut chosen: Vec<Policy> = Vec::new();
    let mut all_skipped = Vec::new();
    for name in names {
        match known.iter().find(|policy| policy.name == *name) {
            Some(policy) => chosen.push(policy.clone()),
            None => {
                let (more, skipped) = loader.policies(name)?;
                chosen.extend(more);
                all_skipped.extend(skipped);
            }
        }
    }
    unique("--policy", chosen.iter().map(|policy| policy.name.as_str()))?;
    Ok((chosen, all_skipped))
}

/// The one policy of this name.
pub(crate) fn one_policy(
    option: &str,
    name: &str,
    known: &[Policy],
    loader: &Loader,
) -> Result<Policy, Failure> {
    let (mut found, _) = policies(&[name.to_owned()], known, loader)?;
    match (found.pop(), found.len()) {
        (Some(policy), 0) => Ok(policy),
        (_, more) => Err(Failure::Usage(format!(
            "{option}: found {} policies in {name}, expected one; name one of a study with --study",
            more + 1
        ))),
    }
}

/// The position of the baseline: the named one, else the first.
pub(crate) fn baseline(policies: &[Policy], name: Option<&str>) -> Result<usize, Failure> {
    let Some(name) = name else { return Ok(0) };
    policies
        .iter()
        .position(|policy| policy.name == name)
        .ok_or_else(|| {
            let names = policies.iter().map(|policy| policy.name.as_str());
            let error = FileError::of_file(
                "--baseline",
                format!("`{name}`"),
                "the name of one of the policies",
            );
            Failure::File(error.nearest(name, names))
        })
}

/// Where names are looked up first: the named study, else the default one, with what the named files
/// hold before it.
pub(crate) fn named(names: &Names, loader: &Loader) -> Result<Study, Failure> {
    let mut study = match &names.study {
        Some(name) => loader.study(name)?,
        None => library::default_study(),
    };
    let mut scenarios = Vec::new();
    for file in &names.scenario_files {
        scenarios.push(loader.scenario(file)?);
    }
    let mut policies = Vec::new();
    for file in &names.policy_files {
        policies.extend(loader.policies(file)?.0);
    }
    study.scenarios.splice(0..0, scenarios);
    study.policies.splice(0..0, policies);
    Ok(study)
}

/// A scenario of the study, else a built-in one, else a file.
pub(crate) fn scenario(name: &str, study: &Study, loader: &Loader) -> Result<Scenario, Failure> {
    let mut known = study.scenarios.iter();
    match known.find(|scenario| scenario.name == name) {
        Some(scenario) => Ok(scenario.clone()),
        None => Ok(loader.scenario(name)?),
    }
}

/// One policy of the study, else a built-in one, else a file that holds one.
pub(crate) fn policy(
    option: &str,
    name: &str,
    study: &Study,
    loader: &Loader,
) -> Result<Policy, Failure> {
    let names = [name.to_owned()];
    let (mut found, _) = policies(&names, &study.policies, loader)?;
    match (found.pop(), found.len()) {
        (Some(policy), 0) => Ok(policy),
        (last, _) => {
            let names: Vec<&str> = found
                .iter()
                .chain(&last)
                .map(|policy| policy.name.as_str())
                .collect();
            Err(Failure::Usage(format!(
                "{option} {name}: found {} policies (`{}`), expected one; put the file into a study \
                 and name the policy with --study",
                names.len(),
                names.join("`, `")
            )))
        }
    }
}

fn unique<'n>(option: &str, names: impl Iterator<Item = &'n str>) -> Result<(), Failure> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(Failure::Usage(format!(
                "{option}: found the name `{name}` twice, expected each name once"
            )));
        }
        seen.push(name);
    }
    Ok(())
}
