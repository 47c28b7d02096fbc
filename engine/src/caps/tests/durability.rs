//! What a restart remembers.

use serde_json::json;

use super::*;

/// Performs actions up to (not including) the n-th that `wanted` accepts.
fn up_to(run: &mut Run, nth: usize, wanted: impl Fn(&Action) -> bool) {
    let mut seen = 0;
    loop {
        seen += usize::from(wanted(&run.action));
        if seen == nth {
            return;
        }
        assert!(run.step());
    }
}

fn is_request(action: &Action) -> bool {
    matches!(action, Action::CallModel(_))
}

#[test]
fn a_restart_makes_the_turn_in_progress_again_and_keeps_the_completed_ones() {
    let limits = config(json!({"max_turns": 3}));
    let mut run = Run::new(&limits, World::hungry(2));
    up_to(&mut run, 4, |action| {
        matches!(action, Action::RunCall { .. })
    });
    // The third call ran, the fourth is lost with the process.
    run.restart(&limits);
    assert_eq!(run.engine.counters().tool_calls, 2);
    let outcome = run.finish();
    assert_eq!(
        (outcome.numbers(), outcome.ending.reason),
        ((4, 7, 0), Reason::MaxTurns)
    );
}

#[test]
fn without_durability_a_restart_begins_the_run_anew() {
    let limits = config(json!({"max_turns": 3, "durable": "none"}));
    let mut run = Run::new(&limits, World::hungry(1));
    up_to(&mut run, 3, is_request);
    run.restart(&limits);
    let outcome = run.finish();
    assert_eq!((outcome.numbers().0, outcome.run.world.saves), (2 + 3, 0));
}

#[test]
fn a_granted_closing_turn_survives_a_restart() {
    let limits = config(json!({"max_tool_calls": 3, "on_exhausted": "final_turn"}));
    let mut run = Run::new(&limits, World::hungry(2));
    up_to(&mut run, 3, is_request);
    run.restart(&limits);
    let outcome = run.finish();
    assert!(
        outcome
            .run
            .world
            .requests
            .iter()
            .skip(2)
            .all(|r| r.tools == Tools::Absent)
    );
    assert_eq!((outcome.numbers(), outcome.is_answer()), ((3, 3, 1), true));
}

#[test]
fn tighter_limits_after_a_restart_bind_what_was_already_used() {
    for (cap, further) in [(5, 0), (6, 0), (8, 2)] {
        let mut run = Run::new(&config(json!({"max_turns": 10})), World::hungry(1));
        up_to(&mut run, 7, is_request);
        run.restart(&config(json!({"max_turns": cap})));
        assert_eq!(run.finish().numbers().0, 6 + further, "{cap}");
    }
}

#[test]
fn the_clock_goes_on_through_downtime_where_the_state_is_durable() {
    for (durable, requests) in [("turn", 2), ("none", 2 + 10)] {
        let limits = config(json!({"max_time_s": 10, "durable": durable}));
        let mut run = Run::new(&limits, World::hungry(1));
        up_to(&mut run, 3, is_request);
        run.world.now += 60_000_000;
        run.restart(&limits);
        assert_eq!(run.finish().numbers().0, requests, "{durable}");
    }
}

#[test]
fn a_reset_engine_is_a_new_one() {
    let limits = config(json!({"max_turns": 4, "on_exhausted": "final_turn"}));
    let mut outcome = Run::new(&limits, World::hungry(3)).finish();
    outcome.run.engine.request_cancel();
    outcome.run.engine.reset(&limits);
    assert_eq!(outcome.run.engine, Engine::new(&limits));
}
