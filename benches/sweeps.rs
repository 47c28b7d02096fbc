//! What 100 sizes of one limit cost beside one size: policies that differ in limits alone share the
//! past of a run until a limit tells them apart.
//!
//! `cargo bench --bench sweeps`; one iteration is [`RUNS`] runs of each size. The ratio of a case is
//! its time over that of its `one size`. How long it takes without sharing: `compare --no-sharing`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use holdback_scenarios::scenario::Probability;
use holdback_scenarios::{Loader, Policy, Scenario, read};
use holdback_sim::campaign::{RunSet, Work};
use holdback_sim::workload::Prepared;

/// Runs of one iteration.
///
/// Enough that the tallies of the sizes, which are large, cost little beside the runs.
const RUNS: u64 = 4_000;
/// Sizes of a sweep.
const SIZES: u64 = 100;

/// The reference workload; `compliance` is the chance that the model does as it is told to finish.
fn scenario(compliance: Option<f64>) -> Scenario {
    let mut scenario = Loader::default()
        .scenario_from_toml("reference.toml", include_str!("reference.toml"))
        .expect("the reference workload is valid");
    if let Some(compliance) = compliance {
        let chance = Probability::new(compliance).expect("a chance is a probability");
        scenario.model.compliance.synthesis_only = chance;
        scenario.model.compliance.tools_withheld = chance;
        scenario.model.compliance.window = chance;
    }
    scenario
}

fn run_limits(limit: &str) -> Policy {
    policy(&format!(
        "family = \"run_limits\"\nlimits = {{ max_steps = 30, max_model_calls = 40, max_tool_calls = 120, max_cost = \"5\", {limit} }}"
    ))
}

fn tool_calls(size: u64) -> Policy {
    run_limits(&format!("synthesis_reserve_tool_calls = {size}"))
}

fn cost(size: u64) -> Policy {
    run_limits(&format!(
        "synthesis_reserve_cost = \"{}.{:02}\"",
        size * 49 / 1000,
        size * 49 / 10 % 100
    ))
}

fn window(size: u64) -> Policy {
    policy(&format!(
        "family = \"usage_limits\"\nlimits = {{ maxTurns = 40, maxToolCalls = 120, finalizationReserve = {{ maxOutputTokens = 8000 }}, finalizationWindow = {{ reserveCalls = {} }} }}",
        size + 1
    ))
}

fn cap(size: u64) -> Policy {
    policy(&format!(
        "family = \"caps\"\nlimits = {{ max_tool_calls = {}, on_exhausted = \"final_turn\" }}",
        120 - size
    ))
}

fn policy(text: &str) -> Policy {
    read::policy_from_toml("bench", &format!("name = \"bench\"\n{text}"))
        .expect("the policies of the bench are valid")
}

fn simulate(prepared: &Prepared<'_>) -> u64 {
    let campaign = prepared.campaign(0, RunSet::range(0, RUNS), Work::on(1), &());
    campaign.cells.iter().map(|cell| cell.tally.answered).sum()
}

type Case = (&'static str, Option<f64>, fn(u64) -> Policy);

const CASES: [Case; 6] = [
    ("run_limits tool-call reserve", None, tool_calls),
    ("run_limits cost reserve", None, cost),
    (
        "run_limits tool-call reserve, 50% obey",
        Some(0.5),
        tool_calls,
    ),
    ("usage_limits window", None, window),
    ("usage_limits window, 50% obey", Some(0.5), window),
    ("caps tool calls", None, cap),
];

fn sweeps(c: &mut Criterion) {
    let mut group = c.benchmark_group("sweeps");
    group.throughput(Throughput::Elements(RUNS));
    for (name, compliance, sized) in CASES {
        let scenario = scenario(compliance);
        let all: Vec<Policy> = (0..SIZES).map(sized).collect();
        for (kind, policies) in [("one size", &all[..1]), ("100 sizes", &all[..])] {
            let prepared = Prepared::new(&scenario, policies, 7).expect("the policies fit");
            group.bench_with_input(BenchmarkId::new(name, kind), &prepared, |b, prepared| {
                b.iter(|| black_box(simulate(prepared)));
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = sweeps
}
criterion_main!(benches);
