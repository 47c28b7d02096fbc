//! What holds for every run, whatever its limits, its model and its crashes.

use proptest::prelude::*;

use super::harness::{Attempt, Does, Driver, Tools};
use super::{AnswerOverCap, Config, CrossingTurn, Fraction, Limits, Rules, State};
use crate::Money;
use crate::protocol::{Action, Ending, FaultKind, LimitsEngine, Status};

/// More actions than any of these runs needs.
const ACTIONS: usize = 2000;

fn cents(cents: i64) -> Money {
    Money::from_micros(cents * 10_000)
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let counts = (-1_i64..9, -1_i64..9, -1_i64..14);
    let reserves = (0_i64..4, 0_i64..4, 0_i64..4, 0_i64..40);
    let others = (
        prop::option::weighted(0.3, 100_i64..900),
        prop::option::weighted(0.7, 0_i64..200),
    );
    (counts, reserves, others).prop_map(
        |((steps, model, tools), (r_steps, r_model, r_tools, r_cost), (input, cost))| Limits {
            max_steps: steps,
            max_model_calls: model,
            max_tool_calls: tools,
            max_input_tokens: input,
            max_output_tokens: None,
            max_cost: cost.map(cents),
            synthesis_reserve_steps: r_steps,
            synthesis_reserve_model_calls: r_model,
            synthesis_reserve_tool_calls: r_tools,
            synthesis_reserve_cost: if cost.is_some() {
                cents(r_cost)
            } else {
                Money::ZERO
            },
        },
    )
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let crossing = prop::sample::select(vec![
        CrossingTurn::Fail,
        CrossingTurn::RefuseThenSynthesize,
        CrossingTurn::RunThenSynthesize,
    ]);
    let fraction = prop::sample::select(vec!["0", "0", "0.1", "0.5"]);
    (crossing, any::<bool>(), 0_u32..3, fraction, 1_u32..4).prop_map(
        |(crossing_turn, keep, allowance, fraction, attempts)| Rules {
            attempts,
            crossing_turn,
            answer_over_cap: if keep {
                AnswerOverCap::Keep
            } else {
                AnswerOverCap::Discard
            },
            reserve_tool_allowance: allowance,
            reserve_fraction: Fraction::parse(fraction).unwrap(),
            ..Rules::default()
        },
    )
}

fn any_attempt() -> impl Strategy<Value = Attempt> {
    let does = prop_oneof![
        6 => prop::collection::vec(1_u64..60, 1..5).prop_map(Does::Calls),
        1 => Just(Does::Answer),
        1 => Just(Does::Nothing),
        1 => prop::sample::select(vec![FaultKind::Transient, FaultKind::Permanent, FaultKind::Protocol]).prop_map(Does::Fails),
    ];
    (does, 0_i64..60, 0_i64..3).prop_map(|(does, cost, latency)| Attempt {
        does,
        cost: cents(cost),
        latency,
    })
}

prop_compose! {
    fn any_run()(
        limits in any_limits(),
        rules in any_rules(),
        deadline in prop::option::weighted(0.2, 0_i64..20),
        script in prop::collection::vec(any_attempt(), 0..10),
        tool_latency in 0_i64..2,
    ) -> Driver {
        let tools = Tools { cost: Money::ZERO, latency: tool_latency };
        Driver::with(Config::new(&limits, &rules, deadline), script, tools)
    }
}

/// Everything that the future of two runs can be compared by.
fn future(mut driver: Driver) -> (Ending, Vec<Action>, Vec<u32>, String) {
    driver.actions.clear();
    let ending = driver.play();
    let decisions = serde_json::to_string(&driver.decisions).unwrap();
    (ending, driver.actions, driver.executed, decisions)
}

/// The same run with its state carried through bytes.
fn restored(driver: &Driver) -> Driver {
    let bytes = serde_json::to_vec(driver.engine.state()).unwrap();
    let state: State = serde_json::from_slice(&bytes).unwrap();
    let mut copy = driver.clone();
    copy.engine = LimitsEngine::from_state(&driver.config, state);
    copy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn counted_calls_never_pass_the_cap_and_the_ledger_passes_it_by_one_call_at_most(run in any_run()) {
        let mut driver = run;
        let config = driver.config.clone();
        let mut largest = Money::ZERO;
        let mut before = Money::ZERO;
        loop {
            let ending = driver.turn();
            let used = &driver.counters;
            largest = largest.max(used.cost - before);
            before = used.cost;
            prop_assert!(used.steps <= config.steps.max(0));
            prop_assert!(used.model_calls <= config.model_calls.max(0));
            prop_assert!(used.tool_calls <= config.tool_calls.max(0));
            prop_assert!(used.cost <= config.cost.or_zero() + largest);
            prop_assert!(driver.executed.len() as i64 <= config.tool_calls.max(0));
            if ending.is_some() {
                break;
            }
        }
    }

    #[test]
    fn a_state_restored_from_bytes_has_the_same_future_at_every_action(run in any_run()) {
        let mut driver = run;
        loop {
            prop_assert_eq!(future(restored(&driver)), future(driver.clone()));
            if driver.turn().is_some() {
                break;
            }
        }
    }

    #[test]
    fn a_run_that_is_killed_at_any_action_ends_and_repeats_at_most_its_last_batch(run in any_run()) {
        let mut driver = run;
        for _ in 0..ACTIONS {
            let mut killed = driver.clone();
            let executed = killed.executed.len();
            let batch = killed.engine.calls().len();
            killed.crash();
            let mut turns = 0;
            let ending = loop {
                if let Some(ending) = killed.turn() {
                    break ending;
                }
                turns += 1;
                prop_assert!(turns < ACTIONS, "the resumed run does not end");
            };
            let mut again: Vec<u32> = killed.executed[executed..].to_vec();
            again.retain(|id| killed.executed[..executed].contains(id));
            prop_assert!(again.len() <= batch);
            let used = &killed.counters;
            prop_assert!(used.model_calls <= killed.config.model_calls.max(0));
            prop_assert!(used.tool_calls <= killed.config.tool_calls.max(0));
            prop_assert_eq!(ending.status == Status::Failed, killed.engine.failure().is_some());
            if driver.turn().is_some() {
                return Ok(());
            }
        }
        prop_assert!(false, "the run does not end");
    }

    #[test]
    fn a_reused_engine_behaves_like_a_new_one(first in any_run(), second in any_run()) {
        let mut used = first;
        used.play();
        let mut reused = second.clone();
        used.engine.reset(&reused.config);
        reused.engine = used.engine;
        prop_assert_eq!(future(reused), future(second));
    }

    #[test]
    fn listening_changes_nothing(run in any_run()) {
        let mut driver = run;
        let mut silent = driver.engine.clone();
        let config = driver.config.clone();
        loop {
            let event = driver.next_event();
            let now = driver.now;
            let ending = driver.turn();
            let action = silent.advance(&config, now, event.as_event(), &mut ());
            prop_assert_eq!(Some(&action), driver.actions.last());
            if ending.is_some() {
                break;
            }
        }
    }
}
