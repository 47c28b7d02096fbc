//! Every way of ending a run, for every cap.

use serde_json::json;

use super::*;

/// Limits that exhaust exactly one dimension after about two turns of two calls each.
fn limits_exhausting(dimension: Dimension) -> Value {
    match dimension {
        Dimension::Time => json!({"max_time_s": 2}),
        Dimension::Turns => json!({"max_turns": 2}),
        Dimension::ModelCalls => json!({"max_model_calls": 2}),
        Dimension::Cost => json!({"max_cost_usd": "0.20"}),
        Dimension::InputTokens => json!({"max_input_tokens": 200}),
        Dimension::OutputTokens => json!({"max_output_tokens": 20}),
        Dimension::TotalTokens => json!({"max_total_tokens": 220}),
        Dimension::ToolCalls => json!({"max_tool_calls": 4}),
        Dimension::CallsPerTool => json!({"max_calls_per_tool": {"t0": 4}}),
    }
}

fn exhausting(dimension: Dimension, action: &str) -> Value {
    let mut limits = limits_exhausting(dimension);
    limits["on_exhausted"] = json!({dimension.as_str(): action});
    limits
}

fn is_about_tools(dimension: Dimension) -> bool {
    matches!(dimension, Dimension::ToolCalls | Dimension::CallsPerTool)
}

/// Requests and refused calls when the cap refuses: one on tools needs a third turn to be crossed.
fn at_the_cap(dimension: Dimension) -> (usize, usize, u32) {
    if is_about_tools(dimension) {
        (3, 4, 2)
    } else {
        (2, 4, 0)
    }
}

#[test]
fn error_fails_the_run_at_any_cap_without_output() {
    for dimension in Dimension::ALL {
        let outcome = run(exhausting(dimension, "error"), World::hungry(2));
        let limiter = Some(dimension.limiter());
        let ending = ended(Status::Failed, dimension.reason(), limiter, Output::None);
        assert_eq!(
            (outcome.numbers(), outcome.ending),
            (at_the_cap(dimension), ending)
        );
        let decision = outcome.told(Rule::EndsInError).unwrap();
        assert_eq!(decision.limiter, dimension.limiter());
    }
}

#[test]
fn stop_delivers_the_last_text_that_was_not_blank_at_any_cap() {
    for dimension in Dimension::ALL {
        for (texts, output) in [
            ([Text::Absent, Text::Blank, Text::Absent], Output::None),
            ([Text::Content, Text::Blank, Text::Absent], Output::LastText),
            (
                [Text::Content, Text::Content, Text::Content],
                Output::TurnText,
            ),
        ] {
            let script = texts.map(|text| Reply::Calls(vec![0, 0], text));
            let outcome = run(exhausting(dimension, "stop"), World::new(script.to_vec()));
            let limiter = Some(dimension.limiter());
            let ending = ended(Status::Stopped, dimension.reason(), limiter, output);
            assert_eq!(
                (outcome.numbers(), outcome.ending),
                (at_the_cap(dimension), ending)
            );
        }
    }
}

#[test]
fn canned_ends_with_a_fixed_text_at_any_cap() {
    for dimension in Dimension::ALL {
        let outcome = run(exhausting(dimension, "canned"), World::hungry(2));
        let limiter = Some(dimension.limiter());
        let ending = ended(Status::Canned, Reason::Canned, limiter, Output::Canned);
        assert_eq!(
            (outcome.numbers(), outcome.ending),
            (at_the_cap(dimension), ending)
        );
    }
}

#[test]
fn final_turn_makes_one_call_without_tools_past_any_cap() {
    for dimension in Dimension::ALL {
        let outcome = run(exhausting(dimension, "final_turn"), World::hungry(2));
        let (requests, executed, refused) = at_the_cap(dimension);
        assert_eq!(
            outcome.numbers(),
            (requests + 1, executed, refused),
            "{dimension:?}"
        );
        let limiter = Some(dimension.limiter());
        let ending = ended(
            Status::Completed,
            Reason::Completed,
            limiter,
            Output::TurnText,
        );
        assert_eq!(outcome.ending, ending);
        let last = outcome.run.world.requests.last().unwrap();
        assert_eq!(last.tools, Tools::Absent);
        assert_eq!(
            last.instruction,
            Some(crate::protocol::Instruction::FinalTurn(dimension.limiter()))
        );
        let offered = outcome
            .run
            .world
            .requests
            .iter()
            .filter(|r| r.tools == Tools::All);
        assert_eq!(offered.count(), requests);
    }
}

#[test]
fn final_turn_inside_keeps_the_caps_and_is_refused_where_no_last_call_is_known() {
    for (dimension, numbers) in [
        (Dimension::Turns, (2, 2, 0)),
        (Dimension::ModelCalls, (2, 2, 0)),
        (Dimension::ToolCalls, (3, 4, 0)),
    ] {
        let outcome = run(exhausting(dimension, "final_turn_inside"), World::hungry(2));
        assert_eq!(outcome.numbers(), numbers, "{dimension:?}");
        assert_eq!(outcome.ending.limiter, Some(dimension.limiter()));
        assert!(outcome.is_answer());
    }
    for dimension in Dimension::ALL {
        let limits = exhausting(dimension, "final_turn_inside");
        let possible = matches!(
            dimension,
            Dimension::Turns | Dimension::ModelCalls | Dimension::ToolCalls
        );
        assert_eq!(compile(limits).is_ok(), possible, "{dimension:?}");
    }
}

#[test]
fn block_tools_refuses_calls_and_goes_on_until_another_cap() {
    for dimension in [Dimension::ToolCalls, Dimension::CallsPerTool] {
        let mut limits = exhausting(dimension, "block_tools");
        limits["max_turns"] = json!(6);
        let outcome = run(limits, World::hungry(2));
        assert_eq!(outcome.numbers(), (6, 4, 8));
        assert_eq!(outcome.ending.reason, Reason::MaxTurns);
        assert_eq!(outcome.verdicts(Verdict::Refused), 8);
    }
    for dimension in Dimension::ALL {
        let compiled = compile(exhausting(dimension, "block_tools"));
        assert_eq!(compiled.is_ok(), is_about_tools(dimension), "{dimension:?}");
    }
}

#[test]
fn an_unprompted_answer_completes_whatever_the_cap_says_next() {
    for action in ["error", "stop", "canned", "final_turn", "final_turn_inside"] {
        let script = vec![calls(1), answer()];
        let outcome = run(
            json!({"max_turns": 3, "on_exhausted": action}),
            World::new(script),
        );
        let ending = ended(Status::Completed, Reason::Completed, None, Output::TurnText);
        assert_eq!(
            (outcome.numbers(), outcome.ending),
            ((2, 1, 0), ending),
            "{action}"
        );
    }
}

#[test]
fn a_cap_of_zero_turns_permits_no_request_but_a_granted_one() {
    let none = run(json!({"max_turns": 0}), World::hungry(1));
    assert_eq!(
        (none.numbers().0, none.ending.reason),
        (0, Reason::MaxTurns)
    );
    let one = run(
        json!({"max_turns": 0, "on_exhausted": "final_turn"}),
        World::hungry(1),
    );
    assert_eq!((one.numbers(), one.is_answer()), ((1, 0, 0), true));
}

#[test]
fn tool_turns_leave_room_for_the_answer_and_refuse_a_further_tool_turn_whole() {
    let limits = |action: &str| json!({"max_turns": 3, "count_turns": "tool_turns", "on_exhausted": action, "max_model_calls": 9});
    let script = vec![calls(2), calls(2), calls(2), answer()];
    let answered = run(limits("error"), World::new(script));
    assert_eq!(
        (answered.numbers(), answered.ending.limiter),
        ((4, 6, 0), None)
    );
    for (action, numbers, status) in [
        ("error", (4, 6, 0), Status::Failed),
        ("stop", (4, 6, 0), Status::Stopped),
        ("canned", (4, 6, 0), Status::Canned),
        ("final_turn", (5, 6, 2), Status::Completed),
        ("final_turn_inside", (4, 6, 0), Status::Completed),
        ("block_tools", (9, 6, 12), Status::Failed),
    ] {
        let outcome = run(
            json!({"max_turns": 3, "count_turns": "tool_turns", "max_model_calls": 9,
                "on_exhausted": {"turns": action}}),
            World::hungry(2),
        );
        assert_eq!(
            (outcome.numbers(), outcome.ending.status),
            (numbers, status),
            "{action}"
        );
    }
}

#[test]
fn supersteps_count_the_model_and_its_tools_each() {
    // An answer after k tool turns takes 2k + 1.
    let script = || World::new(vec![calls(1), calls(1), answer()]);
    let limits = |cap: u32| json!({"max_turns": cap, "count_turns": "supersteps"});
    assert!(run(limits(5), script()).is_answer());
    assert_eq!(run(limits(4), script()).numbers(), (2, 2, 0));
    // An odd cap is exhausted before tools, an even one before the model.
    let odd = run(limits(3), World::hungry(2));
    assert_eq!(
        (odd.numbers(), odd.verdicts(Verdict::Unanswered)),
        ((2, 2, 0), 2)
    );
    let even = run(limits(4), World::hungry(2));
    assert_eq!(
        (even.numbers(), even.verdicts(Verdict::Unanswered)),
        ((2, 4, 0), 0)
    );
    for (cap, past, inside) in [(3, (3, 2, 2), (2, 2, 0)), (4, (3, 4, 0), (2, 2, 0))] {
        let with = |action: &str| {
            run(
                json!({"max_turns": cap, "count_turns": "supersteps", "on_exhausted": action}),
                World::hungry(2),
            )
        };
        assert_eq!(with("final_turn").numbers(), past, "{cap}");
        assert_eq!(with("final_turn_inside").numbers(), inside, "{cap}");
        assert!(with("final_turn").is_answer() && with("final_turn_inside").is_answer());
    }
}

#[test]
fn retries_count_as_model_calls_and_not_as_turns() {
    let script = || {
        vec![
            calls(1),
            transient(),
            calls(1),
            transient(),
            transient(),
            answer(),
        ]
    };
    let turns = run(json!({"max_turns": 3}), World::new(script()));
    assert_eq!((turns.numbers().0, turns.is_answer()), (6, true));
    assert_eq!(turns.run.engine.counters().steps, 3);
    let attempts: Vec<_> = turns
        .run
        .world
        .requests
        .iter()
        .map(|r| (r.turn, r.attempt))
        .collect();
    assert_eq!(attempts, [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)]);
    let model_calls = run(json!({"max_model_calls": 5}), World::new(script()));
    assert_eq!(
        (model_calls.numbers().0, model_calls.ending.reason),
        (5, Reason::MaxModelCalls)
    );
}

#[test]
fn a_turn_whose_last_attempt_fails_fails_the_run() {
    for (attempts, requests) in [(1, 1), (3, 3)] {
        let outcome = run(json!({"attempts": attempts}), World::new(vec![transient()]));
        let limiter = Some(Limiter::Attempts);
        let ending = ended(Status::Failed, Reason::ModelError, limiter, Output::None);
        assert_eq!((outcome.numbers().0, outcome.ending), (requests, ending));
    }
    for kind in [FaultKind::Permanent, FaultKind::Protocol] {
        let outcome = run(json!({}), World::new(vec![Reply::Fails(kind)]));
        assert_eq!(
            (outcome.numbers().0, outcome.ending.reason),
            (1, Reason::ModelError)
        );
    }
}

#[test]
fn a_retry_waits_as_told_or_twice_as_long_each_time() {
    let limited = Reply::Fails(FaultKind::RateLimit {
        retry_after: Some(30_000_000),
    });
    let script = vec![
        limited,
        transient(),
        transient(),
        transient(),
        transient(),
        transient(),
        transient(),
        answer(),
    ];
    let outcome = run(json!({"attempts": 9}), World::new(script));
    let pauses = 30_000_000 + 1_000_000 + 2_000_000 + 4_000_000 + 3 * 8_000_000;
    assert_eq!(outcome.run.world.now, pauses + 8 * 1_000_000);
}

#[test]
fn a_final_turn_past_a_cap_on_model_calls_is_one_request() {
    let script = vec![calls(1), calls(1), transient(), answer()];
    let limits = json!({"max_model_calls": 2, "on_exhausted": "final_turn"});
    let outcome = run(limits, World::new(script.clone()));
    let limiter = Some(Limiter::ModelCalls);
    let ending = ended(Status::Failed, Reason::MaxModelCalls, limiter, Output::None);
    assert_eq!((outcome.numbers().0, outcome.ending), (3, ending));
    // Past a cap on turns it is a turn, with its attempts.
    let outcome = run(
        json!({"max_turns": 2, "on_exhausted": "final_turn"}),
        World::new(script),
    );
    assert_eq!((outcome.numbers().0, outcome.is_answer()), (4, true));
}

#[test]
fn a_closing_turn_inside_the_cap_that_is_lost_to_a_fault_is_not_made_up_for() {
    let script = vec![calls(1), calls(1), transient(), answer()];
    let outcome = run(
        json!({"max_model_calls": 3, "on_exhausted": "final_turn_inside"}),
        World::new(script),
    );
    assert_eq!(
        (outcome.numbers().0, outcome.ending.status),
        (3, Status::Failed)
    );
    assert_eq!(outcome.ending.reason, Reason::MaxModelCalls);
}

#[test]
fn a_fault_that_leaves_one_request_makes_the_retry_the_closing_turn() {
    let script = vec![calls(1), transient(), calls(1)];
    let outcome = run(
        json!({"max_model_calls": 3, "on_exhausted": "final_turn_inside"}),
        World::new(script),
    );
    assert_eq!((outcome.numbers(), outcome.is_answer()), ((3, 1, 0), true));
}

#[test]
fn other_caps_hold_for_a_granted_turn_unless_they_grant_one_too() {
    let both = |cost_action: &str| {
        run(
            json!({"max_turns": 2, "max_cost_usd": "0.20",
                "on_exhausted": {"turns": "final_turn", "cost": cost_action}}),
            World::hungry(1),
        )
    };
    assert_eq!(
        (both("error").numbers().0, both("error").ending.reason),
        (2, Reason::MaxCost)
    );
    assert_eq!(
        (
            both("final_turn").numbers().0,
            both("final_turn").is_answer()
        ),
        (3, true)
    );
}

#[test]
fn time_is_compared_before_requests_and_cuts_nothing() {
    let mut world = World::hungry(1);
    world.latency = 7_000_000;
    let outcome = run(json!({"max_time_s": 10}), world);
    let ending = ended(
        Status::Failed,
        Reason::Timeout,
        Some(Limiter::Time),
        Output::None,
    );
    assert_eq!((outcome.numbers(), outcome.ending), ((2, 2, 0), ending));
    assert_eq!(outcome.run.world.now, 14_000_000);
}

#[test]
fn a_refusal_and_a_full_context_fail_the_run() {
    for (finish, reason) in [
        (Finish::Refusal, Reason::Refusal),
        (Finish::ContextOverflow, Reason::ContextOverflow),
        (Finish::Cancelled, Reason::ModelError),
    ] {
        let outcome = run(
            json!({}),
            World::new(vec![Reply::Says(Text::Content, finish)]),
        );
        assert_eq!(
            (outcome.ending.status, outcome.ending.reason),
            (Status::Failed, reason)
        );
    }
}

#[test]
fn a_cancelled_run_ends_before_the_next_call() {
    let mut run = Run::new(&config(json!({})), World::hungry(3));
    run.step();
    run.step();
    run.engine.request_cancel();
    let outcome = run.finish();
    // The call in flight is let finish.
    assert_eq!(outcome.numbers(), (1, 2, 0));
    assert_eq!(outcome.ending.status, Status::Cancelled);
    assert_eq!(outcome.verdicts(Verdict::Cancelled), 1);
}
