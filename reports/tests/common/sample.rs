//! A synthetic study: correlated luck, heavy-tailed bills, the kinds of policies that a report must
//! tell apart. Its numbers mean nothing.
#![allow(dead_code)]

use std::collections::BTreeMap;

use holdback_engine::Money;
use holdback_engine::protocol::Reason;
use holdback_reports::study::{Cell, Kind, PolicyInfo, ScenarioInfo, StudyResult, Twin};
use holdback_sim::tally::{Cause, Event, GROUPS, Outcome, Pairs, RunRecord, Seen, Tally};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::json;

/// The policy without a money cap.
pub(crate) const UNCAPPED: &str = "turn cap 12";
/// The policy that all others are compared with.
pub(crate) const BASELINE: &str = "no reserve";

/// Three scenarios under seven policies, 800 runs each.
pub(crate) fn study() -> StudyResult {
    sized(3, 7, 800)
}

/// A study of that many scenarios and policies.
pub(crate) fn sized(scenarios: usize, policies: usize, runs: u64) -> StudyResult {
    let policies: Vec<Shape> = (0..policies).map(shape).collect();
    StudyResult {
        name: "briefing reserve".to_owned(),
        kind: Kind::Simulated,
        seed: 7,
        runs,
        version: "0.1.0".to_owned(),
        baseline: BASELINE.to_owned(),
        command: format!("holdback compare briefing.toml --runs {runs} --seed 7"),
        explain_options: "--study briefing.toml".to_owned(),
        runs_per_month: None,
        policies: policies.iter().map(|shape| shape.info.clone()).collect(),
        scenarios: (0..scenarios)
            .map(|number| scenario(number, &policies, runs))
            .collect(),
        skipped: Vec::new(),
        notes: vec!["Checkpoint sizes are estimates: four bytes a context token.".to_owned()],
    }
}

/// An unremarkable run.
pub(crate) fn record() -> RunRecord {
    RunRecord {
        outcome: Outcome::Answered,
        cause: Cause::Engine(Reason::Completed),
        limiter: None,
        steps: 8,
        model_calls: 8,
        tool_calls: 12,
        tool_batches: 6,
        messages: 30,
        refused_calls: 0,
        skipped_calls: 0,
        denied_calls: 0,
        evidence: 9,
        evidence_entries: 0,
        unread_results: 0,
        billed: Money::from_micros(2_500_000),
        ledger: Money::from_micros(2_500_000),
        overspend: Some(Money::ZERO),
        reserve_left: Some(Money::from_micros(2_500_000)),
        reserve_violation: false,
        kills: 0,
        repaid_calls: 0,
        repaid: Money::ZERO,
        checkpoints: 8,
        checkpoint_bytes: 1_000_000,
        input_tokens: 200_000,
        cached_tokens: 150_000,
        written_tokens: 20_000,
        output_tokens: 6_000,
        reasoning_tokens: 0,
        duration: 90_000_000,
        late: false,
        largest_call: Money::from_micros(400_000),
        largest_tool_cost: Money::ZERO,
        untouched: true,
        seen: Seen::default(),
    }
}

/// How a policy behaves.
#[derive(Clone)]
struct Shape {
    info: PolicyInfo,
    /// The share of runs in trouble that it saves.
    saves: f64,
    /// The share of sound runs that it breaks.
    breaks: f64,
    evidence_lost: u64,
    cap: Option<i64>,
}

fn shape(number: usize) -> Shape {
    let run_limits = |key: &str, size: serde_json::Value| {
        let mut limits = json!({ "max_steps": 12, "max_tool_calls": 24, "max_cost": "5.00" });
        if !key.is_empty() {
            limits[key] = size;
        }
        json!({ "family": "run_limits", "limits": limits })
    };
    let (name, family, definition, saves, breaks, evidence_lost) = match number {
        0 => (
            BASELINE.to_owned(),
            "run_limits",
            run_limits("", json!(null)),
            0.0,
            0.0,
            0,
        ),
        1 => (
            "cost reserve 0.25".to_owned(),
            "run_limits",
            run_limits("synthesis_reserve_cost", json!("0.25")),
            0.0,
            0.13,
            0,
        ),
        2 => (
            "cost reserve 0.50".to_owned(),
            "run_limits",
            run_limits("synthesis_reserve_cost", json!("0.50")),
            0.0,
            0.21,
            1,
        ),
        3 => (
            "cost 0.25, announced".to_owned(),
            "run_limits",
            {
                let mut definition = run_limits("synthesis_reserve_cost", json!("0.25"));
                definition["rules"] = json!({ "crossing_turn": "refuse_then_synthesize" });
                definition
            },
            0.94,
            0.0,
            1,
        ),
        4 => (
            "steps reserve 1".to_owned(),
            "run_limits",
            run_limits("synthesis_reserve_steps", json!(1)),
            0.88,
            0.0,
            1,
        ),
        5 => (
            UNCAPPED.to_owned(),
            "caps",
            json!({ "family": "caps", "limits": { "max_turns": 12 } }),
            0.0,
            0.01,
            0,
        ),
        6 => (
            "finalization window 4".to_owned(),
            "usage_limits",
            json!({ "family": "usage_limits",
                "limits": { "maxToolCalls": 24, "finalizationWindow": { "reserveCalls": 4 } } }),
            0.89,
            0.0,
            2,
        ),
        n => {
            let steps = n - 5;
            (
                format!("steps reserve {steps} <b>&\"|`{n}"),
                "run_limits",
                run_limits("synthesis_reserve_steps", json!(steps)),
                (0.88 + 0.005 * steps as f64).min(0.99),
                0.0,
                steps as u64,
            )
        }
    };
    Shape {
        cap: (name != UNCAPPED).then_some(5_000_000),
        info: PolicyInfo {
            name,
            family: family.to_owned(),
            definition,
            defaults: json!({ "identical_calls": 5, "limits": { "max_tool_calls": 24 } }),
        },
        saves,
        breaks,
        evidence_lost,
    }
}

fn scenario(number: usize, policies: &[Shape], runs: u64) -> ScenarioInfo {
    let trouble = 0.39 - 0.3 * (number % 4) as f64 / 3.0;
    let mut tallies = vec![Tally::new(); policies.len()];
    let mut pairs = vec![Pairs::default(); policies.len()];
    let mut twin = Twin {
        evidence: 0,
        groups: vec![0; GROUPS],
    };
    let mut rng = ChaCha8Rng::seed_from_u64(number as u64);
    for run in 0..runs {
        let luck: [f64; 6] = std::array::from_fn(|_| uniform(&mut rng));
        let mut baseline_answered = false;
        for (at, shape) in policies.iter().enumerate() {
            let record = play(shape, trouble, &luck, number);
            let answered = record.outcome == Outcome::Answered;
            if at == 0 {
                baseline_answered = answered;
            }
            pairs[at].add(run, answered, baseline_answered);
            tallies[at].add(run, &record);
        }
        let evidence = 12 + (luck[4] * 4.0) as u64;
        twin.evidence += evidence;
        twin.groups[(run % GROUPS as u64) as usize] += evidence;
    }
    ScenarioInfo {
        name: name(number),
        summary: "A 09:00 research briefing on a USD 5 budget.".to_owned(),
        definition: json!({ "schema": 1, "name": name(number) }),
        budget: None,
        runs,
        explain: String::new(),
        left_out: BTreeMap::new(),
        twin: Some(twin),
        cells: tallies
            .into_iter()
            .zip(pairs)
            .zip(policies)
            .enumerate()
            .map(|(at, ((tally, pairs), shape))| Cell {
                policy: shape.info.name.clone(),
                tally,
                pairs: (at > 0).then_some(pairs),
                overspend_bound: shape.cap.map(|_| Money::from_micros(9_400_000)),
                money_cap: shape.cap.map(Money::from_micros),
            })
            .collect(),
    }
}

fn name(number: usize) -> String {
    let known = [
        "scheduled-briefing",
        "facility-research",
        "coding-agent",
        "retail-agent",
    ];
    let known = known.get(number).map(|name| (*name).to_owned());
    known.unwrap_or_else(|| format!("workload-{number}"))
}

/// One run of a policy on some luck.
fn play(shape: &Shape, trouble: f64, luck: &[f64; 6], number: usize) -> RunRecord {
    let mut record = record();
    let in_trouble = luck[0] < trouble;
    let saved = in_trouble && luck[1] < shape.saves;
    let broken = !in_trouble && luck[2] < shape.breaks;
    let spike = if luck[3] < 0.02 {
        (luck[3] / 0.02).powf(-0.6)
    } else {
        1.0
    };
    let full = 12 + (luck[4] * 4.0) as u64;
    record.evidence = full.saturating_sub(shape.evidence_lost);
    record.tool_calls = record.evidence + 3;
    let base = 2.0 + 1.4 * luck[5] + if in_trouble { 1.8 } else { 0.0 };
    let mut cost = base * (0.8 + 0.2 * spike);
    if saved {
        cost *= 0.93;
        record.seen.mark(Event::SynthesisAnnounced);
    }
    if broken {
        record.outcome = Outcome::Unanswered;
        record.cause = Cause::Engine(Reason::SynthesisReserve);
        record.reserve_violation = true;
        record.seen.mark(Event::ViolationUnannounced);
        cost *= 0.9;
    } else if in_trouble && !saved {
        record.outcome = Outcome::Unanswered;
        record.cause = Cause::Engine(match shape.info.family.as_str() {
            "caps" => Reason::MaxTurns,
            "usage_limits" => Reason::MaxToolCalls,
            _ if luck[1] > 0.96 => Reason::MaxStepsExceeded,
            _ => Reason::BudgetExceeded,
        });
        record.seen.mark(Event::LedgerDiffers);
    }
    record.billed = Money::from_micros((cost * 1e6) as i64);
    record.ledger = record.billed;
    record.duration = (cost * 30e6) as i64;
    if number == 2 && luck[1] < 0.3 {
        record.kills = 1;
        record.repaid_calls = 1 + shape.evidence_lost;
        record.repaid = Money::from_micros(40_000 * (1 + shape.evidence_lost as i64));
    }
    let cap = shape.cap.map(Money::from_micros);
    record.overspend = cap.map(|cap| (record.billed - cap).or_zero());
    record.reserve_left = cap.map(|cap| (cap - record.ledger).or_zero());
    if record
        .overspend
        .is_some_and(|overspend| overspend > Money::ZERO)
    {
        record.seen.mark(Event::Overspent);
    }
    record
}

fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0
}
