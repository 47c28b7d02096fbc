//! Batches that cross a cap on tool calls.

use serde_json::json;

use super::*;

fn batch(rule: &str, action: &str, script: Vec<Reply>) -> Outcome {
    let limits = json!({"max_tool_calls": 5, "max_turns": 4, "batch": rule,
        "on_exhausted": {"tool_calls": action}});
    run(limits, World::new(script))
}

#[test]
fn a_crossing_batch_is_rejected_trimmed_or_run_whole() {
    // Two batches of three under a cap of five, then the ending.
    for (rule, executed, refused) in [("reject", 3, 3), ("trim", 5, 1), ("run_all", 6, 0)] {
        for action in ["error", "stop", "canned"] {
            let outcome = batch(rule, action, vec![calls(3)]);
            assert_eq!(outcome.numbers(), (2, executed, refused), "{rule} {action}");
            assert_eq!(outcome.ending.limiter, Some(Limiter::ToolCalls));
        }
        let closed = batch(rule, "final_turn", vec![calls(3)]);
        assert_eq!(
            (closed.numbers(), closed.is_answer()),
            ((3, executed, refused), true)
        );
        let closed = batch(rule, "final_turn_inside", vec![calls(3)]);
        assert_eq!(
            (closed.numbers(), closed.is_answer()),
            ((3, executed, refused), true)
        );
    }
}

#[test]
fn blocked_tools_let_a_smaller_batch_fit_only_after_a_rejected_one() {
    let script = || vec![calls(3), calls(3), calls(2), calls(2), answer()];
    for (rule, executed, refused) in [("reject", 5, 5), ("trim", 5, 5), ("run_all", 6, 4)] {
        let outcome = batch(rule, "block_tools", script());
        assert_eq!(outcome.numbers(), (4, executed, refused), "{rule}");
    }
}

#[test]
fn a_batch_that_meets_the_cap_exactly_leaves_the_model_to_answer() {
    for rule in ["reject", "trim", "run_all"] {
        let outcome = batch(rule, "error", vec![calls(5), answer()]);
        assert_eq!(
            (outcome.numbers(), outcome.is_answer()),
            ((2, 5, 0), true),
            "{rule}"
        );
    }
}

#[test]
fn run_all_shuts_out_a_batch_that_starts_at_the_cap() {
    let outcome = batch("run_all", "error", vec![calls(5), calls(2)]);
    assert_eq!(outcome.numbers(), (2, 5, 2));
    let decision = outcome.told(Rule::BatchOutside).unwrap();
    assert_eq!((decision.left, decision.right), (count(5), count(5)));
}

#[test]
fn a_refusal_names_both_numbers() {
    let rejected = batch("reject", "error", vec![calls(3)])
        .told(Rule::BatchRejected)
        .unwrap();
    assert_eq!((rejected.left, rejected.right), (count(6), count(5)));
    let trimmed = batch("trim", "error", vec![calls(3)])
        .told(Rule::CallTrimmed)
        .unwrap();
    assert_eq!(
        (trimmed.left, trimmed.right, trimmed.call),
        (count(5), count(5), Some(2))
    );
    let crossed = batch("run_all", "error", vec![calls(3)])
        .told(Rule::BatchCrossed)
        .unwrap();
    assert_eq!((crossed.left, crossed.right), (count(6), count(5)));
}

#[test]
fn a_cap_on_one_tool_leaves_the_others_alone() {
    let script = vec![Reply::Calls(vec![0, 1, 0, 1, 1], Text::Absent), answer()];
    for (rule, executed) in [
        ("reject", vec![]),
        ("trim", vec![0, 1, 1, 1]),
        ("run_all", vec![0, 1, 0, 1, 1]),
    ] {
        let outcome = run(
            json!({"max_calls_per_tool": {"t0": 1}, "batch": rule, "on_exhausted": "block_tools"}),
            World::new(script.clone()),
        );
        assert_eq!(outcome.run.world.executed, executed, "{rule}");
        assert!(outcome.is_answer());
    }
}

#[test]
fn a_tool_capped_at_zero_never_runs() {
    for rule in ["reject", "trim", "run_all"] {
        let outcome = run(
            json!({"max_calls_per_tool": {"t1": 0}, "batch": rule, "on_exhausted": "block_tools",
                "max_turns": 3}),
            World::new(vec![Reply::Calls(vec![1, 1], Text::Absent)]),
        );
        assert_eq!(outcome.numbers(), (3, 0, 6), "{rule}");
    }
}

#[test]
fn a_cap_that_ends_the_run_decides_before_one_that_only_blocks() {
    for rule in ["reject", "trim", "run_all"] {
        let outcome = run(
            json!({"max_tool_calls": 2, "max_calls_per_tool": {"t1": 0}, "batch": rule,
                "on_exhausted": {"tool_calls": "block_tools", "calls_per_tool": "stop"}}),
            World::new(vec![Reply::Calls(vec![1, 0, 0, 0], Text::Content)]),
        );
        assert_eq!(outcome.ending.reason, Reason::MaxCallsPerTool, "{rule}");
    }
}

#[test]
fn a_denied_call_does_not_use_up_the_cap() {
    for (rule, executed) in [("reject", 3), ("trim", 3), ("run_all", 3)] {
        let mut world = World::new(vec![Reply::Calls(vec![1, 0], Text::Absent)]);
        world.denied = vec![1];
        let limits = json!({"max_tool_calls": 3, "max_calls_per_tool": {"t1": 0}, "batch": rule});
        let outcome = run(limits, world);
        // The batch after the third, and not the third, would pass the cap.
        assert_eq!(outcome.run.world.executed.len(), executed, "{rule}");
        assert_eq!(outcome.verdicts(Verdict::Executed), executed);
        assert_eq!(outcome.ending.reason, Reason::MaxToolCalls);
    }
}

fn count(number: i64) -> crate::protocol::Quantity {
    crate::protocol::Quantity::Count(number)
}
