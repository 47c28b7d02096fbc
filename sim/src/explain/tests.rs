use holdback_engine::Money;
use holdback_scenarios::policy::Policy;
use holdback_scenarios::read::{self, Loader};
use holdback_scenarios::{Scenario, library};

use super::*;

fn scenario(text: &str) -> Scenario {
    Loader::default().scenario_from_toml("test", text).unwrap()
}

fn policy(text: &str) -> Policy {
    read::policy_from_toml("test", text).unwrap()
}

/// Kills, faults, denials and refusals, so that every kind of event happens.
const ROUGH: &str = r#"
    schema = 1
    name = "rough"
    [model]
    price = { input_per_mtok = "3", output_per_mtok = "15", cached_input_per_mtok = "0.3" }
    base_input_tokens = 6000
    output_tokens = 400
    final_output_tokens = 900
    latency_s = 5
    demand = 14
    batch = 4
    cache_hit = 0.8
    [model.faults]
    transient = 0.1
    empty = 0.05
    stall = 0.03
    rate_limit = 0.05
    billed = 1.0
    [[tools]]
    name = "search"
    cost_usd = "0.01"
    result_tokens = 1500
    latency_s = 2
    novelty = 0.8
    error = 0.1
    denied = 0.05
    [storage]
    checkpoint_usd = "0.001"
    [kills]
    per_model_call = 0.03
    per_tool_call = 0.03
    max = 3
    downtime_s = 30
"#;

const RUN_LIMITS: &str = r#"
    name = "reserve"
    family = "run_limits"
    limits = { max_steps = 9, max_tool_calls = 18, max_cost = "1.00", synthesis_reserve_steps = 1 }
"#;

const USAGE_LIMITS: &str = r#"
    name = "window"
    family = "usage_limits"
    limits = { maxTurns = 12, maxToolCalls = 10, toolBudgetNotices = true, checkpointEveryToolCalls = 2, finalizationReserve = { maxOutputTokens = 2000 }, toolBudgetExtension = { increment = 4, maxExtensions = 1 } }
    budget = { ceiling_usd = 1.0 }
"#;

const CAPS: &str = r#"
    name = "caps"
    family = "caps"
    limits = { max_turns = 6, max_tool_calls = 11, batch = "trim", on_exhausted = "final_turn" }
"#;

fn told(run: u64) -> Vec<Timeline> {
    let scenario = scenario(ROUGH);
    let policies = [RUN_LIMITS, USAGE_LIMITS, CAPS].map(policy);
    let prepared = Prepared::new(&scenario, &policies, 7).unwrap();
    tell_prepared(&prepared, run)
}

#[test]
fn the_books_behind_the_last_event_are_those_of_the_outcome() {
    for run in 0..60 {
        for timeline in told(run) {
            let last = timeline.events.last().unwrap();
            let outcome = &timeline.outcome;
            assert_eq!(last.billed, outcome.billed_usd, "{run} {}", timeline.policy);
            assert_eq!(last.ledger, outcome.ledger_usd, "{run} {}", timeline.policy);
            assert_eq!(last.at, outcome.duration, "{run} {}", timeline.policy);
            assert!(matches!(last.what, What::End(_)));
        }
    }
}

#[test]
fn costs_and_calls_of_the_events_add_up_to_the_outcome() {
    for run in 0..60 {
        for timeline in told(run) {
            let (mut spent, mut calls, mut requests, mut kills) = (Money::ZERO, 0, 0, 0);
            for event in &timeline.events {
                match &event.what {
                    What::ModelCall(call) => {
                        spent += call.cost_usd;
                        requests += u64::from(call.requests);
                    }
                    What::ToolCall(call) => {
                        spent += call.cost_usd;
                        let ran = matches!(call.verdict, "succeeded" | "failed");
                        calls += u64::from(ran && !call.stored);
                    }
                    What::Checkpoint(_) => spent += Money::parse_exact("0.001").unwrap(),
                    What::Kill { .. } => kills += 1,
                    _ => {}
                }
            }
            let outcome = &timeline.outcome;
            assert_eq!(spent, outcome.billed_usd, "{run} {}", timeline.policy);
            assert_eq!(calls, outcome.tool_calls, "{run} {}", timeline.policy);
            assert_eq!(requests, outcome.model_calls, "{run} {}", timeline.policy);
            assert_eq!(kills, outcome.kills, "{run} {}", timeline.policy);
        }
    }
}

#[test]
fn time_and_the_bill_never_run_backwards() {
    for run in 0..60 {
        for timeline in told(run) {
            for pair in timeline.events.windows(2) {
                assert!(pair[0].at <= pair[1].at, "{run}: {pair:#?}");
                assert!(pair[0].billed <= pair[1].billed, "{run}: {pair:#?}");
            }
        }
    }
}

#[test]
fn a_policy_does_not_part_from_itself() {
    for run in 0..20 {
        for timeline in told(run) {
            assert_eq!(first_difference(&timeline, &timeline), None);
        }
    }
}

#[test]
fn two_policies_part_where_one_announces_its_reserve() {
    let scenario = Loader::default().scenario("tool-hungry").unwrap();
    let none = "name = \"none\"\nfamily = \"run_limits\"\nlimits = { max_steps = 12 }";
    let steps = "name = \"steps\"\nfamily = \"run_limits\"\nlimits = { max_steps = 12, synthesis_reserve_steps = 1 }";
    let policies = [none, steps].map(policy);
    let prepared = Prepared::new(&scenario, &policies, 7).unwrap();
    let mut announced = 0;
    for run in 0..50 {
        let told = tell_prepared(&prepared, run);
        let Some(parting) = first_difference(&told[0], &told[1]) else {
            continue;
        };
        let What::ModelCall(here) = &told[0].events[parting.first.event].what else {
            panic!("run {run} parts elsewhere: {parting:?}");
        };
        let What::ModelCall(there) = &told[1].events[parting.second.event].what else {
            panic!("run {run} parts elsewhere: {parting:?}");
        };
        assert_eq!((here.turn, there.turn), (12, 12));
        assert!(here.instruction.is_none());
        assert_eq!(there.instruction.as_ref().unwrap().kind, "synthesis_only");
        assert!(parting.first.decisions.is_empty());
        let What::Decision(decided) = &told[1].events[parting.second.decisions[0]].what else {
            panic!("a decision stands behind it");
        };
        assert_eq!(decided.rule, "run_limits.steps_reserve");
        announced += 1;
    }
    assert!(announced > 10, "{announced}");
}

#[test]
fn tools_that_only_a_script_knows_keep_their_names() {
    let scenario = scenario(
        r#"
        schema = 1
        name = "script"
        [[turn]]
        calls = ["lookup", "read"]
        [[turn]]
        answer = "done"
        "#,
    );
    let uncapped = "name = \"u\"\nfamily = \"run_limits\"\nlimits = {}";
    let prepared = Prepared::new(&scenario, &[policy(uncapped)], 7).unwrap();
    let timeline = tell_prepared(&prepared, 0).remove(0);
    let called: Vec<&str> = timeline
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::ToolCall(call) => Some(call.tool.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(called, ["lookup", "read"]);
}

#[test]
fn a_run_that_no_limit_ends_is_told_to_its_stop() {
    let scenario = scenario(
        r#"
        schema = 1
        name = "endless"
        on_end = "hungry"
        [[turn]]
        calls = ["read"]
        "#,
    );
    let unlimited = "name = \"u\"\nfamily = \"caps\"\nlimits = {}";
    let prepared = Prepared::new(&scenario, &[policy(unlimited)], 7).unwrap();
    let timeline = tell_prepared(&prepared, 0).remove(0);
    assert_eq!(timeline.outcome.reason, "endless");
    assert!(matches!(
        &timeline.events.last().unwrap().what,
        What::End(End {
            reason: "endless",
            ..
        })
    ));
}

#[test]
fn every_built_in_scenario_can_be_told_under_every_built_in_policy() {
    let policies = library::all_policies();
    for scenario in library::scenarios() {
        let prepared = Prepared::new(&scenario, &policies, 7).unwrap();
        for run in 0..3 {
            for timeline in tell_prepared(&prepared, run) {
                assert_eq!(
                    timeline.events.last().unwrap().billed,
                    timeline.outcome.billed_usd
                );
                serde_json::to_string(&timeline).unwrap();
            }
        }
    }
}
