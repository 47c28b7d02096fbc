//! The same study, seed and version bring the same numbers, whatever the threads, shards and order.

mod common;

use common::{eventful, policy, prepared, run_limits, usage_limits};
use holdback_scenarios::Policy;
use holdback_sim::campaign::{Campaign, RunSet, Work};

const RUNS: u64 = 700;

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
    prepared(&eventful(), &policies()).campaign(0, runs, Work::on(threads), &())
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
        single.merge(&prepared.campaign(0, RunSet::range(run, run + 1), Work::on(1), &()));
    }
    assert_eq!(bytes(&single), bytes(&campaign(RunSet::range(0, 60), 1)));
}

#[test]
fn a_policy_brings_the_same_alone_and_among_others() {
    let together = campaign(RunSet::range(0, 200), 2);
    let scenario = eventful();
    for (position, policy) in policies().iter().enumerate() {
        let alone = prepared(&scenario, std::slice::from_ref(policy));
        let alone = alone.campaign(0, RunSet::range(0, 200), Work::on(2), &());
        assert_eq!(alone.cells[0].tally, together.cells[position].tally);
    }
}
