//! Search, proof, and the picture around the result.

use holdback_engine::Money;
use holdback_reports::measure::Measure;
use holdback_reports::stats::proportion::exact_lower;
use holdback_reports::summary::{Cell, Summary};
use holdback_scenarios::policy::Policy;
use holdback_sim::campaign::{Campaign, RunSet};

use super::closing;
use super::goal::{Goal, Requirement, Score, Standing, error_of_test};
use super::grid::Grid;
use super::lab::{self, Bench, Lab};
use super::report::{
    Curse, Expected, FieldValue, FrontierRow, Halves, Measured, Outcome, ProofStep, SensitivityRow,
    Sizing, Spent,
};
use super::search::{Lack, Method, Search};
use super::seeds::{Purpose, derive};
use super::world::World;
use crate::commands::study::Setting;
use crate::failure::Failure;

/// Steps of a proof: after so many candidates that fresh luck did not bear out, the goal counts as
/// out of reach.
const MOST_STEPS: u32 = 8;
/// Steps less and more that the frontier shows.
const AROUND: usize = 3;
/// Searches of the sensitivity table spend at most this share of the runs on a candidate.
const ROUGHER: u64 = 4;

/// A question.
pub(crate) struct Problem<'p> {
    /// Where the search tries candidates.
    pub(crate) search: &'p [World],
    /// Where they are proved: the same scenarios, or the runs that the search does not see.
    pub(crate) proof: &'p [World],
    pub(crate) policy: &'p Policy,
    pub(crate) grid: &'p Grid,
    pub(crate) goal: Goal,
    pub(crate) runs: u64,
    pub(crate) seed: u64,
    pub(crate) command: String,
    pub(crate) bench: Bench<'p>,
}

/// The candidate that the report is about, and what is known of it.
struct Found {
    candidate: usize,
    lack: Option<Lack>,
    only_in_search: bool,
    steps: Vec<ProofStep>,
    /// The last proof of it; without one, the same runs made for the picture only.
    campaigns: Vec<Campaign>,
    seed: u64,
    error: f64,
    /// What the search measured of it, by scenario.
    search: Vec<Score>,
    method: Method,
    search_runs: u64,
    proof_runs: u64,
}

/// Answers a question; beside the answer comes the summary of the frontier, for its plots.
///
/// # Errors
/// If runs cannot be made.
pub(crate) fn solve(problem: &Problem<'_>) -> Result<(Sizing, Summary), Failure> {
    let found = find(problem)?;
    let (frontier_summary, frontier_runs) = frontier(problem, &found)?;
    let (sensitivity, sensitivity_runs) = sensitivity(problem, found.candidate)?;
    let grid = problem.grid;
    let policy = &grid.candidates[found.candidate].policy;
    let expected = expected(problem, &found);
    let beside = grid.axes.iter().any(|axis| {
        policy.document["limits"]
            .pointer(&pointer(&axis.field))
            .is_none()
    });
    let sizing = Sizing {
        schema: 1,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: problem.command.clone(),
        seed: problem.seed,
        runs: problem.runs,
        recorded: halves(problem),
        policy: problem.policy.name.clone(),
        family: policy.family.as_str().to_owned(),
        goal: problem.goal,
        verdict: match found.lack {
            None => Outcome::Recommended,
            Some(lack) => Outcome::Infeasible {
                scenario: problem.search[lack.scenario].name().to_owned(),
                binding: lack.requirement,
                only_in_search: found.only_in_search,
            },
        },
        fields: fields(grid, found.candidate),
        limits: policy.document["limits"].clone(),
        whole_policy: beside.then(|| policy.document.clone()),
        winners_curse: curses(problem, &found),
        expected,
        frontier: frontier_rows(problem, &found, &frontier_summary),
        sensitivity,
        closing_call: closing_calls(problem, found.candidate)?,
        spent: Spent {
            method: found.method,
            candidates: grid.candidates.len() as u64,
            search: found.search_runs,
            full_grid: (grid.candidates.len() * problem.search.len()) as u64 * problem.runs,
            proof: found.proof_runs,
            picture: frontier_runs + sensitivity_runs,
        },
        proof: found.steps,
    };
    Ok((sizing, frontier_summary))
}

fn halves(problem: &Problem<'_>) -> Option<Halves> {
    let is_drawn = problem
        .search
        .iter()
        .all(|world| world.scenario().is_some());
    let runs = |worlds: &[World]| worlds.iter().map(|world| world.runs(0)).sum();
    (!is_drawn).then(|| Halves {
        search: runs(problem.search),
        proof: runs(problem.proof),
    })
}

fn pointer(field: &str) -> String {
    format!("/{}", field.replace('.', "/"))
}

fn fields(grid: &Grid, candidate: usize) -> Vec<FieldValue> {
    let values = grid.values(candidate).into_iter();
    values
        .map(|(axis, value)| FieldValue {
            field: axis.field.clone(),
            value,
        })
        .collect()
}

/// The tests of one step of the proof: every requirement in every scenario.
fn tests(problem: &Problem<'_>) -> usize {
    problem.goal.requirements().len() * problem.proof.len()
}

/// Searches, proves on fresh luck, and takes the next candidate where that fails.
fn find(problem: &Problem<'_>) -> Result<Found, Failure> {
    let goal = problem.goal;
    let first_error = error_of_test(goal.confidence, 1, tests(problem));
    let seed = derive(problem.seed, Purpose::Search);
    let mut lab = Lab::new(problem.bench, problem.search, problem.grid, goal, seed);
    let mut search = Search::new(
        &mut lab,
        goal,
        first_error,
        problem.runs,
        problem.grid.is_ordered(),
    );
    let mut steps = Vec::new();
    let mut proof_runs = 0;
    let mut candidate = search.smallest()?;
    let mut last: Option<Tried> = None;
    while let (Some(here), true) = (candidate, (steps.len() as u32) < MOST_STEPS) {
        let step = steps.len() as u32 + 1;
        let tried = prove(problem, here, Purpose::Proof(step), step)?;
        proof_runs += tried.runs;
        steps.push(ProofStep {
            step,
            seed: tried.seed,
            error: tried.error,
            candidate: problem.grid.candidates[here].policy.name.clone(),
            lacking: tried.lack.map(|lack| lack.requirement),
        });
        let proven = tried.lack.is_none();
        last = Some(tried);
        if proven {
            break;
        }
        candidate = search.next(here + stride(problem, step))?;
    }
    let only_in_search = last.is_some();
    let (tried, lack) = match last {
        Some(tried) => {
            let lack = tried.lack;
            (tried, lack)
        }
        // Nothing to prove: the nearest one is measured on fresh luck all the same.
        None => {
            let (nearest, lack) = search
                .nearest()
                .ok_or_else(|| Failure::Internal("a search without candidates".to_owned()))?;
            (prove(problem, nearest, Purpose::Proof(1), 1)?, Some(lack))
        }
    };
    let (scores, method) = (search.scores(tried.candidate).to_vec(), search.method());
    Ok(Found {
        candidate: tried.candidate,
        lack,
        only_in_search: only_in_search && lack.is_some(),
        campaigns: tried.campaigns,
        seed: tried.seed,
        error: tried.error,
        search: scores,
        method,
        search_runs: lab.spent,
        proof_runs: proof_runs.max(tried.runs),
        steps,
    })
}

/// How far the next candidate lies behind one that was not borne out. A recorded half is small and has
/// no fresh runs, so each of its steps goes twice as far as the one before.
fn stride(problem: &Problem<'_>, step: u32) -> usize {
    match halves(problem) {
        None => 1,
        Some(_) => 1 << (step - 1),
    }
}

/// A candidate on fresh luck.
struct Tried {
    candidate: usize,
    seed: u64,
    error: f64,
    lack: Option<Lack>,
    campaigns: Vec<Campaign>,
    runs: u64,
}

/// Runs a candidate and the base on luck that nobody has seen, and tests every requirement.
fn prove(
    problem: &Problem<'_>,
    candidate: usize,
    purpose: Purpose,
    step: u32,
) -> Result<Tried, Failure> {
    let seed = derive(problem.seed, purpose);
    let error = error_of_test(problem.goal.confidence, step, tests(problem));
    let policies = pair(problem, candidate);
    let mut campaigns = Vec::with_capacity(problem.proof.len());
    let mut lack = None;
    let mut runs = 0;
    for (at, world) in problem.proof.iter().enumerate() {
        let set = RunSet::range(0, world.runs(problem.runs));
        let campaign = problem.bench.campaign(world, &policies, seed, set)?;
        runs += 2 * set.count;
        let score = score_of_pair(&campaign, &problem.goal);
        let missed = problem.goal.requirements().into_iter().find(|requirement| {
            problem.goal.standing(*requirement, &score, error) != Standing::Holds
        });
        lack = lack.or(missed.map(|requirement| Lack {
            scenario: at,
            requirement,
        }));
        campaigns.push(campaign);
    }
    Ok(Tried {
        candidate,
        seed,
        error,
        lack,
        campaigns,
        runs,
    })
}

/// The base and a candidate.
fn pair(problem: &Problem<'_>, candidate: usize) -> Vec<Policy> {
    vec![
        problem.grid.base.clone(),
        problem.grid.candidates[candidate].policy.clone(),
    ]
}

fn score_of_pair(campaign: &Campaign, goal: &Goal) -> Score {
    let [base, here] = [0, 1].map(|at| &campaign.cells[at].tally);
    lab::score(here, &lab::groups(base), goal)
}

fn curses(problem: &Problem<'_>, found: &Found) -> Vec<Curse> {
    let of = |((world, campaign), search): ((&World, &Campaign), &Score)| {
        let fresh = score_of_pair(campaign, &problem.goal).rate();
        (search.runs > 0).then(|| Curse {
            scenario: world.name().to_owned(),
            search: search.rate(),
            fresh,
            difference: search.rate() - fresh,
        })
    };
    problem
        .proof
        .iter()
        .zip(&found.campaigns)
        .zip(&found.search)
        .filter_map(of)
        .collect()
}

/// The summary that reports make of some policies.
fn summarise(
    problem: &Problem<'_>,
    policies: Vec<Policy>,
    seed: u64,
    runs: u64,
    campaigns: Vec<Campaign>,
) -> Summary {
    let study = lab::study("size", policies, seed, runs);
    let setting = Setting {
        study: &study,
        work: problem.bench.work,
        command: problem.command.clone(),
        explain_options: String::new(),
        runs_per_month: None,
    };
    let mut result = setting.empty_result();
    for (world, campaign) in problem.proof.iter().zip(campaigns) {
        let info = world.info(&study, campaign, world.runs(runs));
        result.scenarios.push(info);
    }
    Summary::new(&result)
}

fn expected(problem: &Problem<'_>, found: &Found) -> Vec<Expected> {
    let policies = pair(problem, found.candidate);
    let name = policies[1].name.clone();
    let summary = summarise(
        problem,
        policies,
        found.seed,
        problem.runs,
        found.campaigns.clone(),
    );
    let mut rows = Vec::new();
    for (scenario, campaign) in summary.scenarios.iter().zip(&found.campaigns) {
        let score = score_of_pair(campaign, &problem.goal);
        let figure = |measure| {
            scenario
                .cell(&name)
                .and_then(|cell| measured(cell, measure))
        };
        rows.push(Expected {
            scenario: scenario.name.clone(),
            reached: score.rate(),
            at_least: exact_lower(score.reached, score.runs, 1.0 - found.error),
            answered: figure(Measure::AnsweredRate),
            delivered: figure(Measure::DeliveredRate),
            overspend_p99_usd: figure(Measure::OverspendP99),
            cost_mean_usd: figure(Measure::CostMean),
            evidence_kept: figure(Measure::EvidenceKept),
            evidence_loss: quotient(&score.evidence).map(|ratio| 1.0 - ratio),
            cost_increase: quotient(&score.billed).map(|ratio| ratio - 1.0),
        });
    }
    rows
}

fn quotient(groups: &[(f64, f64)]) -> Option<f64> {
    let (here, there) = groups
        .iter()
        .fold((0.0, 0.0), |sum, group| (sum.0 + group.0, sum.1 + group.1));
    (there > 0.0).then(|| here / there)
}

fn measured(cell: &Cell, measure: Measure) -> Option<Measured> {
    let figure = cell.figure(measure)?;
    Some(Measured {
        value: figure.value.to_f64(),
        interval: figure.interval.map(Into::into),
    })
}

/// A few steps less and more, all on the same fresh luck.
fn frontier(problem: &Problem<'_>, found: &Found) -> Result<(Summary, u64), Failure> {
    let seed = derive(problem.seed, Purpose::Frontier);
    let near = problem.grid.around(found.candidate, AROUND);
    let policies: Vec<Policy> = near
        .iter()
        .map(|candidate| problem.grid.candidates[*candidate].policy.clone())
        .collect();
    let mut campaigns = Vec::new();
    let mut runs = 0;
    for world in problem.proof {
        let set = RunSet::range(0, world.runs(problem.runs));
        campaigns.push(problem.bench.campaign(world, &policies, seed, set)?);
        runs += set.count * policies.len() as u64;
    }
    let summary = summarise(problem, policies, seed, problem.runs, campaigns);
    Ok((summary, runs))
}

fn frontier_rows(problem: &Problem<'_>, found: &Found, summary: &Summary) -> Vec<FrontierRow> {
    let here = &problem.grid.candidates[found.candidate].policy.name;
    let mut rows = Vec::new();
    for scenario in &summary.scenarios {
        rows.extend(scenario.cells.iter().map(|cell| FrontierRow {
            scenario: scenario.name.clone(),
            candidate: cell.policy.clone(),
            here: cell.policy == *here,
            answered: measured(cell, Measure::AnsweredRate),
            delivered: measured(cell, Measure::DeliveredRate),
            overspend_p99_usd: cell.number(Measure::OverspendP99),
            cost_mean_usd: cell.number(Measure::CostMean),
            evidence_kept: cell.number(Measure::EvidenceKept),
        }));
    }
    rows
}

/// The same question in changed worlds, all on the same luck.
fn sensitivity(
    problem: &Problem<'_>,
    candidate: usize,
) -> Result<(Vec<SensitivityRow>, u64), Failure> {
    type Change = fn(&World) -> Option<World>;
    let changes: [(&str, Change); 4] = [
        ("as given", |world| Some(world.clone())),
        ("compliance 5 points lower", |world| {
            Some(world.less_compliant(0.05))
        }),
        ("compliance 20 points lower", |world| {
            Some(world.less_compliant(0.20))
        }),
        ("every model call twice as dear", World::twice_as_dear),
    ];
    let seed = derive(problem.seed, Purpose::Sensitivity);
    // Recorded runs are few enough to be played again.
    let rougher = if halves(problem).is_some() {
        1
    } else {
        ROUGHER
    };
    let most = (problem.runs / rougher).max(1);
    let error = error_of_test(problem.goal.confidence, 1, tests(problem));
    let mut rows = Vec::new();
    let mut spent = 0;
    for (name, change) in changes {
        let changed: Option<Vec<World>> = problem.search.iter().map(change).collect();
        let Some(worlds) = changed else { continue };
        let mut lab = Lab::new(problem.bench, &worlds, problem.grid, problem.goal, seed);
        let mut search = Search::new(
            &mut lab,
            problem.goal,
            error,
            most,
            problem.grid.is_ordered(),
        );
        let smallest = search.smallest()?;
        let worst = search.lowest_rate(candidate)?;
        spent += lab.spent;
        rows.push(SensitivityRow {
            change: name.to_owned(),
            reached: worst.1,
            scenario: worlds[worst.0].name().to_owned(),
            smallest: smallest.map(|at| problem.grid.candidates[at].policy.name.clone()),
        });
    }
    Ok((rows, spent))
}

fn closing_calls(
    problem: &Problem<'_>,
    candidate: usize,
) -> Result<Vec<closing::ClosingCost>, Failure> {
    let values = problem.grid.values(candidate);
    let reserve = values
        .iter()
        .find(|(axis, _)| axis.is_money() && axis.is_reserve());
    let Some((_, reserve)) = reserve else {
        return Ok(Vec::new());
    };
    let seed = derive(problem.seed, Purpose::Frontier);
    let policy = &problem.grid.candidates[candidate].policy;
    let of = |scenario| closing::measure(scenario, policy, seed, problem.goal.target, *reserve);
    let drawn = problem.proof.iter().filter_map(World::scenario);
    drawn.map(of).collect()
}

/// What a requirement is called.
pub(crate) fn named(requirement: Requirement, goal: &Goal) -> String {
    let usd = |money: Option<Money>| money.map_or_else(String::new, |money| money.to_string());
    let percent =
        |share: Option<f64>| share.map_or_else(String::new, |share| format!("{}", share * 100.0));
    match requirement {
        Requirement::Target => format!(
            "the target: {}% {}",
            goal.target * 100.0,
            match goal.reached {
                super::goal::Reached::Answered => "answered",
                super::goal::Reached::Delivered => "delivered",
            }
        ),
        Requirement::Overspend => {
            format!("--max-overspend-p99 {}", usd(goal.max_overspend_p99_usd))
        }
        Requirement::EvidenceLoss => {
            format!("--max-evidence-loss {}", percent(goal.max_evidence_loss))
        }
        Requirement::CostIncrease => {
            format!("--max-cost-increase {}", percent(goal.max_cost_increase))
        }
    }
}
