//! `holdback size`: the smallest reserve that does the job, proven.

use std::path::Path;

use holdback_engine::Money;
use holdback_reports::manifest::Manifest;
use holdback_reports::numbers::shell;
use holdback_reports::plots;
use holdback_reports::summary::Summary;
use holdback_scenarios::policy::Policy;
use holdback_scenarios::{Loader, Scenario, library};
use serde::Serialize;

use crate::cli::Size;
use crate::failure::{Failure, Verdict, print, remark};
use crate::inputs;
use crate::output::{Folder, Identity};
use crate::progress::{self, Progress};
use crate::sizing::axis::Axis;
use crate::sizing::goal::{Goal, Reached, error_of_test, fewest_runs};
use crate::sizing::grid::Grid;
use crate::sizing::lab::Bench;
use crate::sizing::report::{Outcome, Sizing};
use crate::sizing::solve::{Problem, solve};
use crate::sizing::text::{Page, render};
use crate::sizing::world::{self, Question, World};

const DEFAULT_TARGET: f64 = 0.99;

pub(super) fn run(args: &Size) -> Result<Verdict, Failure> {
    let loader = inputs::loader(args.prices.as_deref())?;
    let mut study = match &args.study {
        Some(name) => loader.study(name)?,
        None => library::default_study(),
    };
    if args.traces.is_empty() {
        inputs::select_scenarios(&mut study, &args.scenarios, &loader)?;
    }
    let policy = inputs::one_policy("--policy", &args.policy, &study.policies, &loader)?;
    let axes = args
        .vary
        .iter()
        .map(|text| Axis::read(text, &policy))
        .collect::<Result<Vec<_>, _>>()?;
    distinct(&axes)?;
    let goal = goal(args)?;
    let grid = Grid::new(&policy, axes)?;
    let worlds = match args.traces.as_slice() {
        [] => Worlds::drawn(&study.scenarios, args.runs),
        _ => recorded(args, &policy, &loader)?,
    };
    check_runs(args, &goal, &worlds)?;
    let work = inputs::work(&args.work)?;
    let folder = args
        .out
        .as_deref()
        .map(|path| Folder::open(path, &identity(args)))
        .transpose()?;
    progress::catch_interrupts();
    let progress = Progress::new(0, args.quiet);
    let problem = Problem {
        search: &worlds.search,
        proof: worlds.proof.as_ref().unwrap_or(&worlds.search),
        policy: &policy,
        grid: &grid,
        goal,
        runs: worlds.runs,
        seed: args.seed,
        command: command(args),
        bench: Bench {
            work,
            progress: &progress,
        },
    };
    let (sizing, frontier) = solve(&problem)?;
    let (done, elapsed) = progress.finish();
    if !args.quiet {
        remark(&format!("{done} runs in {:.2} s", elapsed.as_secs_f64()));
    }
    if let Some(folder) = &folder {
        write(folder, args, &sizing, &frontier)?;
    }
    print(&render(&sizing, Page::Plain))?;
    if let Some(folder) = &folder {
        print(&format!("Written: {}\n", folder.path().display()))?;
    }
    Ok(match sizing.verdict {
        Outcome::Recommended => Verdict::Holds,
        Outcome::Infeasible { .. } => Verdict::Fails,
    })
}

fn distinct(axes: &[Axis]) -> Result<(), Failure> {
    for (at, axis) in axes.iter().enumerate() {
        if axes[..at].iter().any(|other| other.field == axis.field) {
            return Err(Failure::Usage(format!(
                "--vary: found `{}` twice, expected each field once",
                axis.field
            )));
        }
    }
    Ok(())
}

fn goal(args: &Size) -> Result<Goal, Failure> {
    let (option, reached, target) = match args.target_delivered {
        Some(target) => ("--target-delivered", Reached::Delivered, target),
        None => (
            "--target-answered",
            Reached::Answered,
            args.target_answered.unwrap_or(DEFAULT_TARGET),
        ),
    };
    let between = |option: &str, share: f64| {
        if share > 0.0 && share < 1.0 {
            return Ok(share);
        }
        Err(Failure::Usage(format!(
            "{option}: found {share}, expected a share above 0 and below 1, such as 0.99"
        )))
    };
    let percentage = |option: &str, percent: Option<f64>, most: f64| match percent {
        Some(percent) if !(0.0..=most).contains(&percent) => Err(Failure::Usage(format!(
            "{option}: found {percent}, expected a percentage from 0 to {most}"
        ))),
        _ => Ok(percent.map(|percent| percent / 100.0)),
    };
    Ok(Goal {
        reached,
        target: between(option, target)?,
        max_overspend_p99_usd: args.max_overspend_p99.as_deref().map(amount).transpose()?,
        max_evidence_loss: percentage("--max-evidence-loss", args.max_evidence_loss, 100.0)?,
        max_cost_increase: percentage("--max-cost-increase", args.max_cost_increase, 1e6)?,
        confidence: between("--confidence", args.confidence)?,
    })
}

fn amount(text: &str) -> Result<Money, Failure> {
    Money::parse_exact(text)
        .ok()
        .filter(|money| !money.is_negative())
        .ok_or_else(|| {
            Failure::Usage(format!(
                "--max-overspend-p99: found `{text}`, expected an amount of USD from 0, such as 0.10"
            ))
        })
}

/// Where candidates are tried.
struct Worlds {
    search: Vec<World>,
    /// `None`: in the same worlds on other luck.
    proof: Option<Vec<World>>,
    /// The most runs of a candidate in a world.
    runs: u64,
}

impl Worlds {
    fn drawn(scenarios: &[Scenario], runs: u64) -> Worlds {
        let drawn = |scenario: &Scenario| World::Drawn(Box::new(scenario.clone()));
        Worlds {
            search: scenarios.iter().map(drawn).collect(),
            proof: None,
            runs,
        }
    }

    /// The fewest runs of a proof.
    fn proof_runs(&self) -> u64 {
        let proof = self.proof.iter().flatten();
        proof
            .map(|world| world.runs(self.runs))
            .min()
            .unwrap_or(self.runs)
    }
}

/// Recorded runs, one half to search in and one to prove in.
fn recorded(args: &Size, policy: &Policy, loader: &Loader) -> Result<Worlds, Failure> {
    let price = inputs::price(args.price.as_deref(), loader)?;
    let question = Question {
        traces: world::open(&args.traces, args.input_tokens.into())?,
        source: args.source.as_deref(),
        price,
        compliance: args.compliance,
        policy,
        seed: args.seed,
    };
    let halves = question.halves()?;
    if let Some(wanted) = &args.source
        && !halves.sources.contains(wanted)
    {
        let known = halves.sources.iter().map(String::as_str);
        return Err(super::calibrate::unknown_source(wanted, known));
    }
    if !args.quiet {
        halves.remarks.iter().for_each(|text| remark(text));
    }
    let runs = halves.search.iter().map(|world| world.runs(0)).min();
    Ok(Worlds {
        runs: runs.unwrap_or(0),
        search: halves.search,
        proof: Some(halves.proof),
    })
}

/// So few runs that even flawless ones prove nothing are a question without an answer.
fn check_runs(args: &Size, goal: &Goal, worlds: &Worlds) -> Result<(), Failure> {
    inputs::check_runs(args.runs)?;
    let scenarios = worlds.search.len();
    let tests = goal.requirements().len() * scenarios;
    let error = error_of_test(goal.confidence, 1, tests);
    let strictest = match goal.max_overspend_p99_usd {
        Some(_) => goal.target.max(DEFAULT_TARGET),
        None => goal.target,
    };
    let fewest = fewest_runs(strictest, error);
    if worlds.proof.is_some() && worlds.proof_runs() < fewest {
        return Err(Failure::Usage(format!(
            "--traces: found {} recorded runs that can be played in the smallest source, expected at least {}: \
             half of them search and the other half cannot prove this target at this confidence, even if all \
             are answered; ask for less, or calibrate a scenario and size that",
            worlds.runs + worlds.proof_runs(),
            2 * fewest
        )));
    }
    if args.runs < fewest {
        return Err(Failure::Usage(format!(
            "--runs: found {}, expected at least {fewest}: fewer cannot prove this target in {scenarios} \
             scenario{} at this confidence, even if all are answered",
            args.runs,
            if scenarios == 1 { "" } else { "s" }
        )));
    }
    Ok(())
}

fn identity(args: &Size) -> Identity {
    Identity {
        study: "size".to_owned(),
        seed: args.seed,
        runs: args.runs,
        command: command(args),
    }
}

/// The command that reproduces the answer.
fn command(args: &Size) -> String {
    let mut words = vec!["holdback size".to_owned()];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name} {}", shell(&value))));
    };
    option("--study", args.study.clone());
    for scenario in &args.scenarios {
        option("--scenario", Some(scenario.clone()));
    }
    for traces in &args.traces {
        option("--traces", Some(shown(traces)));
    }
    option("--source", args.source.clone());
    option("--price", args.price.clone());
    option(
        "--compliance",
        (args.compliance != 1.0).then(|| args.compliance.to_string()),
    );
    option("--policy", Some(args.policy.clone()));
    for vary in &args.vary {
        option("--vary", Some(vary.clone()));
    }
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    option("--target-answered", number(args.target_answered));
    option("--target-delivered", number(args.target_delivered));
    option("--max-overspend-p99", args.max_overspend_p99.clone());
    option("--max-evidence-loss", number(args.max_evidence_loss));
    option("--max-cost-increase", number(args.max_cost_increase));
    option("--confidence", number(Some(args.confidence)));
    option("--prices", args.prices.as_deref().map(shown));
    if args.traces.is_empty() {
        option("--runs", Some(args.runs.to_string()));
    }
    option("--seed", Some(args.seed.to_string()));
    words.extend(args.input_tokens.option());
    words.join(" ")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn pretty(value: &impl Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Internal(error.to_string()))?;
    text.push('\n');
    Ok(text)
}

/// Where the limits stand: nobody pastes what does not reach the goal because of its name.
fn limits_file(verdict: &Outcome) -> &'static str {
    match verdict {
        Outcome::Recommended => "limits.json",
        Outcome::Infeasible { .. } => "best-reachable.json",
    }
}

/// Data first, then pages; the manifest comes last, so a folder with one is whole.
fn write(folder: &Folder, args: &Size, sizing: &Sizing, frontier: &Summary) -> Result<(), Failure> {
    let internal = |error: serde_json::Error| Failure::Internal(error.to_string());
    let limits = sizing.whole_policy.as_ref().unwrap_or(&sizing.limits);
    let mut files = vec![
        ("size.json".to_owned(), pretty(sizing)?),
        (limits_file(&sizing.verdict).to_owned(), pretty(limits)?),
        ("size.md".to_owned(), render(sizing, Page::Markdown)),
    ];
    for scenario in &frontier.scenarios {
        for plot in plots::of_scenario(frontier, scenario) {
            files.push((format!("plots/{}.svg", plot.id), plot.file()));
        }
    }
    let id = identity(args);
    let mut manifest = Manifest {
        schema: 1,
        study: id.study,
        seed: id.seed,
        runs: id.runs,
        version: sizing.version.clone(),
        command: id.command,
        files: std::collections::BTreeMap::new(),
    };
    for (path, content) in &files {
        folder.write(path, content.as_bytes())?;
        manifest.add(path, content.as_bytes());
    }
    folder.write(
        "manifest.json",
        manifest.to_json().map_err(internal)?.as_bytes(),
    )
}
