//! The same study, seed and version bring the same numbers, whatever the threads, shards and order.

mod common;

use common::{policy, prepared, run_limits, scenario, usage_limits};
use holdback_scenarios::{Policy, Scenario};
use holdback_sim::campaign::{Campaign, RunSet};

const RUNS: u64 = 700;

/// Every kind of draw is active, kills as well.
fn eventful() -> Scenario {
    scenario(
        r#"
budget_usd = "0.50"
[model]
price = { input_per_mtok = "3.00", cached_input_per_mtok = "0.30", cache_write_per_mtok = "3.75", output_per_mtok = "15.00" }
long_context = { above_tokens = 20000, input_multiplier = "2", output_multiplier = "1.5" }
context_window = 60000
max_output_tokens = 4000
base_input_tokens = { dist = "uniform", low = 1000, high = 4000 }
cache_hit = 0.7
cache_ttl_s = 60
cache_hit_under_control = 0.2
output_tokens = { dist = "lognormal", median = 350, p95 = 1200 }
reasoning_tokens = { dist = "exponential", mean = 200 }
final_output_tokens = { dist = "lognormal", median = 1400, p95 = 4000 }
latency_s = { dist = "lognormal", median = 6, p95 = 25 }
demand = { dist = "lognormal", median = 12, p95 = 30 }
batch = { dist = "geometric", mean = 2.5, min = 1 }
estimate_error = { dist = "uniform", low = 0.8, high = 1.3 }
[model.compliance]
synthesis_only = 0.9
tools_withheld = 0.95
budget_notice = 0.5
window = 0.8
[model.habits]
repeat_call = 0.1
record_evidence = 0.2
[model.faults]
transient = 0.02
transient_after_output = 0.005
permanent = 0.002
protocol = 0.002
empty = 0.01
stall = 0.005
rate_limit = 0.01
billed = 0.5
storm = { dist = "geometric", mean = 2, min = 1 }
retry_after_s = 3
transport_retries = 1
[model.reporting]
missing = 0.01
[model.spike]
probability = 0.02
output_multiplier = { dist = "pareto", min = 3, alpha = 1.5, max = 40 }
[[tools]]
name = "search"
weight = 3
cost_usd = "0.005"
result_tokens = { dist = "lognormal", median = 800, p95 = 3000 }
error = 0.05
error_after_error = 0.3
denied = 0.02
novelty = 0.8
latency_s = { dist = "exponential", mean = 2 }
parallel = true
[[tools]]
name = "fetch"
result_tokens = 1500
latency_s = 1
[storage]
checkpoint_usd = "0.0001"
[kills]
per_model_call = 0.02
per_tool_call = 0.01
max = 3
downtime_s = { dist = "exponential", mean = 100 }
journal_tail_loss = 0.3
"#,
    )
}

fn policies() -> Vec<Policy> {
    vec![
        run_limits(
            "max_steps = 12, max_model_calls = 14, max_tool_calls = 24, max_cost = \"0.40\", synthesis_reserve_steps = 1, synthesis_reserve_cost = \"0.05\"",
        ),
        usage_limits(
            "maxTurns = 12, maxToolCalls = 20, finalizationReserve = {}, toolBudgetNotices = true, checkpointEveryToolCalls = 3, finalizationWindow = { reserveCalls = 4, allow = [\"record_evidence\"] }",
        ),
        policy(
            "family = \"caps\"\nlimits = { max_turns = 10, max_cost_usd = \"0.40\", on_exhausted = \"final_turn\" }",
        ),
    ]
}

fn campaign(runs: RunSet, threads: usize) -> Campaign {
    prepared(&eventful(), &policies()).campaign(0, runs, threads, &())
}

fn bytes(campaign: &Campaign) -> String {
    format!("{campaign:?}")
}

#[test]
fn one_two_and_seven_threads_bring_the_same_campaign_and_so_does_doing_it_twice() {
    let whole = RunSet::range(0, RUNS);
    let one = campaign(whole, 1);
    assert_eq!(one.cells[0].tally.runs, RUNS);
    assert!(one.cells.iter().all(|cell| cell.tally.sums.kills > 0));
    for threads in [1, 2, 7] {
        assert_eq!(
            bytes(&campaign(whole, threads)),
            bytes(&one),
            "{threads} threads"
        );
    }
}

#[test]
fn shards_merged_in_any_order_are_the_whole() {
    let whole = bytes(&campaign(RunSet::range(0, RUNS), 2));
    for shards in [2, 3, 5] {
        let mut parts: Vec<Campaign> = (0..shards)
            .map(|shard| campaign(RunSet::shard(shard, shards, RUNS), 2))
            .collect();
        let runs: u64 = parts.iter().map(|part| part.cells[0].tally.runs).sum();
        assert_eq!(runs, RUNS);
        for _ in 0..2 {
            parts.reverse();
            let mut merged = Campaign::empty(policies().len());
            parts.iter().for_each(|part| merged.merge(part));
            assert_eq!(bytes(&merged), whole, "{shards} shards");
        }
    }
}

#[test]
fn a_run_does_not_depend_on_the_runs_before_it() {
    let (scenario, policies) = (eventful(), policies());
    let prepared = prepared(&scenario, &policies);
    let mut single = Campaign::empty(policies.len());
    // Backwards, each run in a world of its own.
    for run in (0..60).rev() {
        single.merge(&prepared.campaign(0, RunSet::range(run, run + 1), 1, &()));
    }
    assert_eq!(bytes(&single), bytes(&campaign(RunSet::range(0, 60), 1)));
}

#[test]
fn a_policy_brings_the_same_alone_and_among_others() {
    let together = campaign(RunSet::range(0, 200), 2);
    let scenario = eventful();
    for (position, policy) in policies().iter().enumerate() {
        let alone = prepared(&scenario, std::slice::from_ref(policy));
        let alone = alone.campaign(0, RunSet::range(0, 200), 2, &());
        assert_eq!(alone.cells[0].tally, together.cells[position].tally);
    }
}
