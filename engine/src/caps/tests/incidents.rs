//! Public failure reports, as numbers.

use serde_json::json;

use super::*;

#[test]
fn the_last_permitted_batch_is_paid_and_never_read_without_a_closing_turn() {
    let plain = run(json!({"max_model_calls": 3}), World::hungry(2));
    assert_eq!((plain.numbers(), plain.is_answer()), ((3, 6, 0), false));
    let inside = run(
        json!({"max_model_calls": 3, "on_exhausted": "final_turn_inside"}),
        World::hungry(2),
    );
    assert_eq!((inside.numbers(), inside.is_answer()), ((3, 4, 0), true));
}

#[test]
fn a_budget_that_only_refuses_calls_is_no_stop_condition() {
    let stops = run(
        json!({"max_tool_calls": 5, "max_turns": 40}),
        World::hungry(12),
    );
    assert_eq!((stops.numbers(), stops.is_answer()), ((1, 5, 7), false));
    assert_eq!(stops.ending.reason, Reason::MaxToolCalls);
    let blocks = run(
        json!({"max_tool_calls": 5, "max_turns": 40, "on_exhausted": "block_tools"}),
        World::hungry(12),
    );
    assert_eq!(
        (blocks.numbers(), blocks.is_answer()),
        ((40, 5, 7 + 39 * 12), false)
    );
    assert_eq!(blocks.ending.reason, Reason::MaxTurns);
}

#[test]
fn a_model_forced_to_call_tools_answers_only_when_they_are_taken_away() {
    let past = run(
        json!({"max_turns": 5, "on_exhausted": "final_turn"}),
        World::hungry(1),
    );
    assert_eq!((past.numbers(), past.is_answer()), ((6, 5, 0), true));
    let inside = run(
        json!({"max_turns": 5, "on_exhausted": "final_turn_inside"}),
        World::hungry(1),
    );
    assert_eq!((inside.numbers(), inside.is_answer()), ((5, 4, 0), true));
    let blocked = run(
        json!({"max_tool_calls": 5, "max_model_calls": 12, "on_exhausted": "block_tools"}),
        World::hungry(1),
    );
    assert_eq!(
        (blocked.numbers(), blocked.is_answer()),
        ((12, 5, 7), false)
    );
    assert_eq!(blocked.ending.reason, Reason::MaxModelCalls);
}

#[test]
fn tool_turns_pay_for_a_request_more_than_model_turns() {
    let model = run(json!({"max_turns": 5}), World::hungry(1));
    assert_eq!((model.numbers(), model.is_answer()), ((5, 5, 0), false));
    let tools = run(
        json!({"max_turns": 5, "count_turns": "tool_turns"}),
        World::hungry(1),
    );
    assert_eq!((tools.numbers(), tools.is_answer()), ((6, 5, 0), false));
}

#[test]
fn a_turn_cut_at_its_output_cap_ends_the_run_unless_told_to_go_on() {
    let cut = Reply::Says(Text::Content, Finish::Length);
    let script = vec![cut.clone(), answer()];
    let ends = run(json!({"max_turns": 5}), World::new(script.clone()));
    assert_eq!((ends.numbers().0, ends.is_answer()), (1, true));
    let goes_on = run(
        json!({"max_turns": 5, "cut_turn": "continue"}),
        World::new(script),
    );
    assert_eq!((goes_on.numbers().0, goes_on.is_answer()), (2, true));
    assert!(goes_on.told(Rule::CutTurnContinues).is_some());
    let no_budget = run(
        json!({"max_turns": 2, "cut_turn": "continue", "on_exhausted": "stop"}),
        World::new(vec![cut]),
    );
    assert_eq!(
        (no_budget.numbers().0, no_budget.ending.output),
        (2, Output::TurnText)
    );
}

#[test]
fn an_answer_beside_a_bookkeeping_call_outlives_a_blank_last_turn_where_it_is_wanted() {
    let script = vec![Reply::Calls(vec![0], Text::Content), blank()];
    let blank = run(json!({}), World::new(script.clone()));
    assert_eq!(blank.ending.output, Output::TurnText);
    let kept = run(json!({"blank_answer": "last_text"}), World::new(script));
    assert_eq!(
        kept.ending,
        ended(Status::Completed, Reason::Completed, None, Output::LastText)
    );
    assert!(kept.told(Rule::EarlierTextDelivered).is_some());
}

#[test]
fn a_token_cap_counts_a_context_again_each_time_it_is_sent() {
    // 4,000 tokens growing by 1,000 a turn: 30 requests send 555,000, of which 33,000 are distinct.
    let sent: u64 = (0..30).map(|turn| 4_000 + 1_000 * turn).sum();
    assert_eq!(sent, 555_000);
    let turns_under = |cap: u64| {
        let mut growing = Run::new(
            &config(json!({"max_input_tokens": cap, "check": "after", "max_turns": 30})),
            World::hungry(1),
        );
        growing.world.usage = Usage {
            input: 4_000,
            cached: 3_000,
            ..Usage::default()
        };
        let mut requests = 0;
        while growing.step() {
            if growing.world.requests.len() > requests {
                requests = growing.world.requests.len();
                growing.world.usage.input += 1_000;
                growing.world.usage.cached += 1_000;
            }
        }
        let Action::Finish(ending) = growing.action else {
            unreachable!()
        };
        (requests, ending.reason)
    };
    assert_eq!(turns_under(555_000), (30, Reason::MaxTurns));
    assert_eq!(turns_under(554_999), (30, Reason::MaxInputTokens));
    assert_eq!(turns_under(33_000), (6, Reason::MaxInputTokens));
}

#[test]
fn exact_money_admits_ten_calls_before_and_eleven_after_the_cap_is_met() {
    let before = run(
        json!({"max_cost_usd": 1, "check": "before"}),
        World::hungry(1),
    );
    assert_eq!(before.numbers().0, 10);
    let after = run(
        json!({"max_cost_usd": 1, "check": "after"}),
        World::hungry(1),
    );
    assert_eq!(after.numbers().0, 11);
}

#[test]
fn an_empty_closing_turn_ends_the_run_and_is_not_made_again() {
    let mut world = World::new(vec![calls(1), calls(1), blank()]);
    world.obeys = false;
    let blank = run(json!({"max_turns": 2, "on_exhausted": "final_turn"}), world);
    let limiter = Some(Limiter::Turns);
    let ending = ended(
        Status::Completed,
        Reason::Completed,
        limiter,
        Output::TurnText,
    );
    assert_eq!((blank.numbers(), blank.ending), ((3, 2, 0), ending));
}

#[test]
fn calls_of_a_closing_turn_that_offered_no_tools_are_dropped() {
    let mut world = World::hungry(3);
    world.obeys = false;
    let outcome = run(json!({"max_turns": 2, "on_exhausted": "final_turn"}), world);
    assert_eq!(
        (outcome.numbers(), outcome.verdicts(Verdict::Dropped)),
        ((3, 6, 0), 3)
    );
}
