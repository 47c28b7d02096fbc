//! Money and tokens: before a call, after it, or both.

use serde_json::json;

use super::*;

fn spending(check: &str, action: &str, cap: &str, script: Vec<Reply>) -> Outcome {
    run(
        json!({"max_cost_usd": cap, "check": check, "on_exhausted": action}),
        World::new(script),
    )
}

#[test]
fn a_call_that_passes_the_cap_runs_its_tools_only_under_before() {
    // Calls of 0.10 under a cap of 0.25: the third passes it.
    for (check, numbers, unanswered) in [
        ("before", (3, 3, 0), 0),
        ("after", (3, 2, 0), 1),
        ("both", (3, 2, 0), 1),
    ] {
        for action in ["error", "stop", "canned"] {
            let outcome = spending(check, action, "0.25", vec![calls(1)]);
            assert_eq!(outcome.numbers(), numbers, "{check} {action}");
            assert_eq!(outcome.verdicts(Verdict::Unanswered), unanswered);
        }
        let closed = spending(check, "final_turn", "0.25", vec![calls(1)]);
        assert_eq!(
            closed.numbers(),
            (4, numbers.1, unanswered as u32),
            "{check}"
        );
        assert!(closed.is_answer());
    }
}

#[test]
fn a_cap_met_exactly_admits_one_more_call_only_under_after() {
    for (check, requests) in [("before", 2), ("after", 3), ("both", 2)] {
        let outcome = spending(check, "error", "0.20", vec![calls(1)]);
        assert_eq!(outcome.numbers().0, requests, "{check}");
    }
}

#[test]
fn an_answer_that_passes_the_cap_is_discarded_only_by_error_after_it() {
    let script = || vec![calls(1), answer()];
    for check in ["before", "after", "both"] {
        for action in ["error", "stop", "canned", "final_turn"] {
            let outcome = spending(check, action, "0.15", script());
            let discarded = action == "error" && check != "before";
            assert_eq!(outcome.is_answer(), !discarded, "{check} {action}");
            let rule = if discarded {
                Rule::AnswerDiscarded
            } else {
                Rule::AnsweredPastCap
            };
            assert_eq!(
                outcome.told(rule).is_some(),
                check != "before",
                "{check} {action}"
            );
        }
    }
}

#[test]
fn a_closing_turn_for_another_cap_is_discarded_by_error_after_it_too() {
    let outcome = run(
        json!({"max_turns": 1, "max_cost_usd": "0.15", "check": "after",
            "on_exhausted": {"turns": "final_turn"}}),
        World::hungry(1),
    );
    let limiter = Some(Limiter::Cost);
    let ending = ended(Status::Failed, Reason::MaxCost, limiter, Output::None);
    assert_eq!((outcome.numbers().0, outcome.ending), (2, ending));
}

#[test]
fn each_dimension_has_its_own_check_and_the_first_that_is_passed_decides() {
    let outcome = run(
        json!({"max_input_tokens": 150, "max_output_tokens": 15,
            "check": {"output_tokens": "after"}}),
        World::hungry(1),
    );
    // The second call passes both; only output is compared after it.
    assert_eq!(
        (outcome.numbers(), outcome.ending.reason),
        ((2, 1, 0), Reason::MaxOutputTokens)
    );
    let outcome = run(
        json!({"max_total_tokens": 219, "check": {"default": "after"}}),
        World::hungry(1),
    );
    assert_eq!(
        (outcome.numbers(), outcome.ending.reason),
        ((2, 1, 0), Reason::MaxTotalTokens)
    );
}

#[test]
fn a_failed_request_is_paid_and_compared() {
    let script = vec![transient(), transient(), answer()];
    let before = spending("before", "error", "0.20", script.clone());
    assert_eq!(
        (before.numbers().0, before.ending.reason),
        (2, Reason::MaxCost)
    );
    let after = spending("after", "stop", "0.15", script.clone());
    assert_eq!(
        (after.numbers().0, after.ending.reason),
        (2, Reason::MaxCost)
    );
    let closing = spending("after", "final_turn", "0.15", script);
    assert_eq!(closing.run.world.requests[2].tools, Tools::Absent);
    assert!(closing.is_answer());
}

#[test]
fn tool_costs_join_the_ledger_only_if_asked_for() {
    let paid = |count: bool, check: &str, action: &str| {
        let mut world = World::hungry(3);
        world.tool_cost = cents(10);
        run(
            json!({"max_cost_usd": "0.25", "check": check, "on_exhausted": action,
                "count_tool_cost": count}),
            world,
        )
    };
    let uncounted = paid(false, "before", "error");
    assert_eq!(
        (uncounted.numbers(), ledger(&uncounted)),
        ((3, 9, 0), cents(30))
    );
    // 0.10 for the model and 0.10 a tool: the cap is passed by the second tool.
    let before = paid(true, "before", "error");
    assert_eq!((before.numbers(), ledger(&before)), ((1, 2, 0), cents(30)));
    assert_eq!(before.verdicts(Verdict::Unanswered), 1);
    let after = paid(true, "after", "stop");
    assert_eq!((after.numbers(), ledger(&after)), ((1, 2, 0), cents(30)));
    let closing = paid(true, "both", "final_turn");
    assert_eq!((closing.numbers(), closing.is_answer()), ((2, 2, 1), true));
}

#[test]
fn a_decision_on_money_names_both_amounts_exactly() {
    let decision = spending("before", "error", "0.25", vec![calls(1)]);
    let decision = decision.told(Rule::SpentBefore).unwrap();
    assert_eq!(decision.left, crate::protocol::Quantity::Money(cents(30)));
    assert_eq!(decision.right, crate::protocol::Quantity::Money(cents(25)));
}

fn ledger(outcome: &Outcome) -> Money {
    outcome.run.engine.ledger(&outcome.run.config)
}
