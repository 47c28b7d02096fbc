//! Runs a second on the reference workload, with the floor beside them: the time to draw the same
//! number of variates from one sequential ChaCha8 stream with a table look-up each.
//!
//! `cargo bench --bench runs`; one iteration is [`RUNS`] runs.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use holdback_scenarios::{Loader, Policy, Scenario, library, read};
use holdback_sim::campaign::{RunSet, Work};
use holdback_sim::luck::{Luck, LuckKey, TOOL_WORDS};
use holdback_sim::sampler::Sampler;
use holdback_sim::workload::Prepared;

/// Runs of one iteration.
const RUNS: u64 = 2_000;

fn scenario() -> Scenario {
    Loader::default()
        .scenario_from_toml("reference.toml", include_str!("reference.toml"))
        .expect("the reference workload is valid")
}

/// Every limit and every reserve on, none of them tight.
fn policies() -> [(&'static str, Policy); 3] {
    [
        ("run_limits", include_str!("policies/run_limits.toml")),
        ("usage_limits", include_str!("policies/usage_limits.toml")),
        ("caps", include_str!("policies/caps.toml")),
    ]
    .map(|(name, text)| {
        let policy = read::policy_from_toml(name, text);
        (name, policy.expect("the policies of the bench are valid"))
    })
}

fn simulate(prepared: &Prepared<'_>, threads: usize) -> u64 {
    prepared
        .campaign(0, RunSet::range(0, RUNS), Work::on(threads), &())
        .cells[0]
        .tally
        .sums
        .tool_calls
}

fn runs(c: &mut Criterion) {
    let scenario = scenario();
    let mut group = c.benchmark_group("runs");
    group.throughput(Throughput::Elements(RUNS));
    let (mut model_calls, mut tool_calls) = (0, 0);
    for (name, policy) in policies() {
        let prepared =
            Prepared::new(&scenario, std::slice::from_ref(&policy), 7).expect("the policy fits");
        for threads in [1, 2] {
            group.bench_with_input(BenchmarkId::new(name, threads), &threads, |b, threads| {
                b.iter(|| black_box(simulate(&prepared, *threads)));
            });
        }
        if name == "run_limits" {
            let sums = prepared
                .campaign(0, RunSet::range(0, RUNS), Work::on(1), &())
                .cells[0]
                .tally
                .sums;
            (model_calls, tool_calls) = (sums.model_calls, sums.tool_calls);
        }
    }
    let table = Sampler::new(&scenario.model.output_tokens, 1.0);
    for threads in [1, 2] {
        group.bench_with_input(
            BenchmarkId::new("floor", threads),
            &threads,
            |b, threads| {
                b.iter(|| floor(&table, *threads, model_calls, tool_calls));
            },
        );
    }
    group.finish();
}

/// Variates that every model request draws: fault, cache, output, reasoning, latency, batch, spike,
/// reporting, kill.
const PER_REQUEST: u64 = 9;
/// Variates that every tool call draws: choice, repetition, status, size, latency, recording.
const PER_CALL: u64 = 6;

/// Draws as many variates as the runs do, one after the other without a gap, with a look-up each.
fn floor(table: &Sampler, threads: u64, model_calls: u64, tool_calls: u64) {
    let variates = model_calls * PER_REQUEST + tool_calls * PER_CALL;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut luck = Luck::new(LuckKey::new(7, "floor"));
                luck.start(thread);
                let mut sum = 0.0;
                for _ in 0..variates / threads / TOOL_WORDS as u64 {
                    sum += luck
                        .tool()
                        .iter()
                        .map(|word| table.value(*word))
                        .sum::<f64>();
                }
                black_box(sum)
            });
        }
    });
}

fn files(c: &mut Criterion) {
    let mut group = c.benchmark_group("files");
    group.bench_function("read the sample of recorded runs", |b| {
        b.iter(|| {
            let mut reader = library::sample_runs();
            let mut turns = 0;
            while let Ok(Some(run)) = reader.next_run() {
                turns += run.turns.len();
            }
            black_box(turns)
        });
    });
    group.bench_function("read the default study", |b| {
        b.iter(|| black_box(library::default_study()))
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = runs, files
}
criterion_main!(benches);
