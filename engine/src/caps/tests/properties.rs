//! What holds for any limits and any model.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn actions_for(dimension: Dimension) -> &'static [&'static str] {
    match dimension {
        Dimension::Turns | Dimension::ModelCalls => {
            &["error", "stop", "canned", "final_turn", "final_turn_inside"]
        }
        Dimension::ToolCalls => &[
            "error",
            "stop",
            "canned",
            "final_turn",
            "final_turn_inside",
            "block_tools",
        ],
        Dimension::CallsPerTool => &["error", "stop", "canned", "final_turn", "block_tools"],
        _ => &["error", "stop", "canned", "final_turn"],
    }
}

prop_compose! {
    /// Any limits; a cap on model calls is always there, so that every run ends.
    fn any_limits()(
        caps in prop::array::uniform9(prop::option::weighted(0.4, 1_u64..12)),
        model_calls in 1_u64..25,
        choices in prop::array::uniform9(0_usize..100),
        count in prop::sample::select(vec!["model", "tool_turns", "supersteps"]),
        batch in prop::sample::select(vec!["reject", "trim", "run_all"]),
        check in prop::sample::select(vec!["before", "after", "both"]),
        durable in prop::sample::select(vec!["turn", "none"]),
        cut in prop::sample::select(vec!["end", "continue"]),
        attempts in 1_u32..4,
        count_tool_cost in any::<bool>(),
    ) -> Value {
        let mut limits = Map::new();
        let mut on_exhausted = Map::new();
        for (index, dimension) in Dimension::ALL.into_iter().enumerate() {
            let actions = actions_for(dimension);
            on_exhausted.insert(dimension.as_str().into(), json!(actions[choices[index] % actions.len()]));
            let Some(cap) = caps[index] else { continue };
            let value = match dimension {
                Dimension::Cost => json!(format!("0.{:02}", cap * 7)),
                Dimension::InputTokens | Dimension::TotalTokens => json!(cap * 90),
                Dimension::OutputTokens => json!(cap * 9),
                Dimension::CallsPerTool => json!({"t0": cap / 2}),
                _ => json!(cap),
            };
            limits.insert(dimension.field().into(), value);
        }
        limits.insert("max_model_calls".into(), json!(model_calls));
        for (field, value) in [
            ("count_turns", json!(count)), ("batch", json!(batch)), ("check", json!(check)),
            ("durable", json!(durable)), ("cut_turn", json!(cut)), ("attempts", json!(attempts)),
            ("count_tool_cost", json!(count_tool_cost)), ("on_exhausted", json!(on_exhausted)),
        ] {
            limits.insert(field.into(), value);
        }
        Value::Object(limits)
    }
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let text = || prop::sample::select(vec![Text::Absent, Text::Blank, Text::Content]);
    prop_oneof![
        8 => (prop::collection::vec(0_u16..3, 1..5), text()).prop_map(|(t, text)| Reply::Calls(t, text)),
        1 => text().prop_map(|text| Reply::Says(text, Finish::Stop)),
        1 => text().prop_map(|text| Reply::Says(text, Finish::Length)),
        1 => Just(transient()),
        1 => Just(Reply::Fails(FaultKind::RateLimit { retry_after: Some(3) })),
    ]
}

prop_compose! {
    /// A model with a script that goes on hungry, obedient or not.
    fn any_world()(
        script in prop::collection::vec(any_reply(), 0..12),
        obeys in any::<bool>(),
        tool_cost in 0_i64..3,
        denied in prop::collection::vec(0_u16..3, 0..2),
    ) -> World {
        let mut world = World::new(script.into_iter().chain([calls(2)]).collect());
        world.obeys = obeys;
        world.tool_cost = cents(tool_cost);
        world.denied = denied;
        world
    }
}

fn cap(limits: &Value, dimension: Dimension) -> Option<i128> {
    config(limits.clone()).cap(dimension)
}

fn grants(limits: &Value, dimension: Dimension) -> bool {
    limits["on_exhausted"][dimension.as_str()] == "final_turn"
}

proptest! {
    #[test]
    fn counted_calls_and_turns_never_exceed_their_caps(limits in any_limits(), world in any_world()) {
        let outcome = Run::new(&config(limits.clone()), world).finish();
        let counters = outcome.run.engine.counters();
        let one_for_closing = |dimension| i128::from(grants(&limits, dimension));
        let model_calls = cap(&limits, Dimension::ModelCalls).unwrap();
        prop_assert!(
            i128::from(counters.model_calls) <= model_calls + one_for_closing(Dimension::ModelCalls)
        );
        prop_assert_eq!(counters.model_calls as usize, outcome.run.world.requests.len());
        if limits["batch"] != "run_all" {
            if let Some(cap) = cap(&limits, Dimension::ToolCalls) {
                prop_assert!(i128::from(counters.tool_calls) <= cap);
            }
            if let Some(cap) = limits["max_calls_per_tool"]["t0"].as_u64() {
                let calls = outcome.run.world.executed.iter().filter(|tool| **tool == 0).count();
                prop_assert!(calls as u64 <= cap);
            }
        }
        if let Some(cap) = cap(&limits, Dimension::Turns) {
            let progress = &outcome.run.engine.state().progress;
            let used = match limits["count_turns"].as_str() {
                Some("tool_turns") => i128::from(progress.tool_turns),
                Some("supersteps") => i128::from(counters.steps) + i128::from(progress.tool_turns),
                _ => i128::from(counters.steps),
            };
            // The one turn past the caps is one for all that grant it.
            let closing = i128::from(progress.closing.is_some()) * one_for_closing(Dimension::Turns);
            prop_assert!(used <= cap + closing, "{} > {}", used, cap);
        }
    }

    #[test]
    fn money_passes_its_cap_by_one_call_and_a_granted_turn_at_most(
        limits in any_limits(), world in any_world(),
    ) {
        let Some(cap) = cap(&limits, Dimension::Cost) else { return Ok(()) };
        let cost = world.cost.picos();
        let tool_cost = world.tool_cost.picos();
        let outcome = Run::new(&config(limits.clone()), world).finish();
        let ledger = outcome.run.engine.ledger(&outcome.run.config).picos();
        let billed = outcome.run.world.billed.picos();
        // A granted turn may have to be made again, each attempt at its price.
        let attempts = i128::from(limits["attempts"].as_u64().unwrap());
        let granted = if grants(&limits, Dimension::Cost) { attempts * cost } else { 0 };
        // A cap that is met exactly admits one more call under `after`: the same bound.
        prop_assert!(ledger <= cap + cost + granted);
        let uncounted = outcome.run.world.executed.len() as i128 * tool_cost;
        let counts_tools = limits["count_tool_cost"] == true;
        prop_assert_eq!(billed, ledger + if counts_tools { 0 } else { uncounted });
    }

    #[test]
    fn every_finite_cap_ends_a_hungry_model(
        dimension in prop::sample::select(Dimension::ALL.to_vec()),
        cap in 0_u64..30,
        action in prop::sample::select(vec!["error", "stop", "canned", "final_turn"]),
        batch in prop::sample::select(vec!["reject", "trim", "run_all"]),
        check in prop::sample::select(vec!["before", "after", "both"]),
        calls in 1_usize..6,
        obeys in any::<bool>(),
    ) {
        let value = if dimension == Dimension::CallsPerTool { json!({"t0": cap}) } else { json!(cap) };
        let mut world = World::hungry(calls);
        world.obeys = obeys;
        let limits = json!({dimension.field(): value, "on_exhausted": action, "batch": batch, "check": check});
        let outcome = run(limits, world);
        prop_assert_eq!(outcome.ending.limiter, Some(dimension.limiter()));
    }

    #[test]
    fn a_snapshot_restored_from_bytes_has_the_same_future(
        limits in any_limits(), world in any_world(),
    ) {
        let mut run = Run::new(&config(limits), world);
        loop {
            let bytes = serde_json::to_vec(run.engine.state()).unwrap();
            let state: State = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(&state, run.engine.state());
            let mut restored = run.clone();
            restored.engine = Engine::from_state(&run.config, state);
            let (went_on, also) = (run.step(), restored.step());
            prop_assert_eq!(went_on, also);
            prop_assert_eq!(run.action, restored.action);
            prop_assert_eq!(&run.decisions, &restored.decisions);
            if !went_on {
                break;
            }
        }
    }

    #[test]
    fn a_run_killed_at_any_action_ends_and_repeats_no_completed_turn(
        limits in any_limits(), world in any_world(),
    ) {
        let config = config(limits);
        let mut run = Run::new(&config, world);
        loop {
            let mut killed = run.clone();
            let bytes = serde_json::to_vec(&killed.durable).unwrap();
            killed.durable = serde_json::from_slice(&bytes).unwrap();
            let completed = killed.durable.clone().unwrap_or_default();
            killed.restart(&config);
            let counters = killed.engine.counters();
            prop_assert_eq!(counters, &completed.counters);
            let durable_requests = counters.model_calls as usize;
            let in_flight = killed.world.requests.len() - durable_requests;
            let repeated = killed.world.executed.len() - counters.tool_calls as usize;
            let outcome = killed.finish();
            // What was lost is all that the world has seen beyond the ledger.
            prop_assert_eq!(
                outcome.run.world.requests.len(),
                outcome.run.engine.counters().model_calls as usize + in_flight
            );
            prop_assert_eq!(
                outcome.run.world.executed.len(),
                outcome.run.engine.counters().tool_calls as usize + repeated
            );
            if !run.step() {
                break;
            }
        }
    }

    #[test]
    fn every_proposed_call_gets_exactly_one_verdict(limits in any_limits(), world in any_world()) {
        let outcome = Run::new(&config(limits), world).finish();
        let on_calls = outcome.run.decisions.iter().filter(|decision| decision.call.is_some());
        prop_assert_eq!(on_calls.count(), outcome.run.world.proposed);
        let executed = outcome.run.world.executed.len();
        prop_assert_eq!(outcome.verdicts(Verdict::Executed), executed);
    }

    #[test]
    fn listening_to_decisions_changes_nothing(limits in any_limits(), world in any_world()) {
        let config = config(limits);
        let heard = Run::new(&config, world.clone()).finish();
        let unheard = Run::unheard(&config, world).finish();
        prop_assert_eq!(unheard.ending, heard.ending);
        prop_assert_eq!(unheard.run.engine, heard.run.engine);
        prop_assert_eq!(unheard.run.world.requests, heard.run.world.requests);
    }

    #[test]
    fn caps_that_are_never_reached_leave_the_run_as_it_would_be_without(world in any_world()) {
        let far = json!({
            "max_turns": 1_000_000, "max_model_calls": 31, "max_tool_calls": 1_000_000,
            "max_calls_per_tool": {"t0": 1_000_000}, "max_cost_usd": 1_000_000,
            "max_total_tokens": 1_000_000_000, "max_time_s": 1_000_000_000,
            "on_exhausted": {"model_calls": "error", "default": "final_turn"}, "check": "both",
        });
        let capped = run(far, world.clone());
        let bare = run(json!({"max_model_calls": 31}), world);
        prop_assert_eq!(capped.ending, bare.ending);
        prop_assert_eq!(capped.run.world.requests, bare.run.world.requests);
        prop_assert_eq!(capped.run.world.executed, bare.run.world.executed);
    }
}
