//! Public failure reports: the numbers that each must give, through the real engines.
//!
//! The built-in studies named by `library::incident_names` say what was reported and by whom. Where a
//! report asks for something that a reference engine does otherwise, the engine's number stands here
//! and the test says so.

mod common;

use holdback_engine::Money;
use holdback_scenarios::{Loader, library};
use holdback_sim::tally::RunRecord;

/// One run of a study's scenario under one of its policies, with its ending in words.
fn run_of(study: &str, scenario: &str, policy: &str) -> (String, RunRecord) {
    let study = Loader::default().study(study).unwrap();
    let scenario = study.scenarios.iter().find(|s| s.name == scenario);
    let policy = study.policies.iter().find(|p| p.name == policy);
    let record = common::record(scenario.unwrap(), policy.unwrap());
    let ending = format!("{} {}", record.outcome.as_str(), record.cause.as_str());
    (ending, record)
}

/// The run of a study whose scenario has the study's name.
fn run(study: &str, policy: &str) -> (String, RunRecord) {
    run_of(study, study, policy)
}

fn usd(text: &str) -> Money {
    Money::parse_exact(text).unwrap()
}

const COMPLETED: &str = "answered completed";

#[test]
fn every_report_runs_under_every_policy_of_its_study() {
    for name in library::incident_names() {
        let study = Loader::default().study(name).unwrap();
        for scenario in &study.scenarios {
            for policy in &study.policies {
                let record = common::record(scenario, policy);
                assert!(record.model_calls > 0, "{name}: {}", policy.name);
            }
        }
    }
}

#[test]
fn the_last_permitted_batch_is_paid_for_and_never_read() {
    let of = |policy| run("last-batch-unread", policy);
    let measures = |r: &RunRecord| (r.model_calls, r.tool_calls, r.unread_results);
    for policy in ["no reserve", "run limits, no reserve"] {
        let (ending, record) = of(policy);
        assert!(ending.starts_with("unanswered"), "{policy}: {ending}");
        assert_eq!(measures(&record), (3, 6, 2), "{policy}");
    }
    for policy in [
        "last call without tools",
        "run limits, reserve 1, last batch runs",
    ] {
        let (ending, record) = of(policy);
        assert_eq!(ending, COMPLETED, "{policy}");
        assert_eq!(measures(&record), (3, 4, 0), "{policy}");
    }
    // The reference fails the turn that crosses into the reserve instead of announcing it.
    let (ending, record) = of("run limits, reserve 1");
    assert_eq!(ending, "unanswered synthesis_reserve");
    assert_eq!(measures(&record), (2, 2, 0));
}

#[test]
fn a_reserve_has_to_count_every_closing_call() {
    let of = |reserve: u32| run("narration-unreserved", &format!("reserve {reserve}"));
    let (ending, record) = of(1);
    assert_eq!(ending, "unanswered budget_exceeded");
    // The verification runs as the thirtieth tool call; the report is refused.
    assert_eq!((record.model_calls, record.tool_calls), (30, 30));
    let (ending, record) = of(2);
    assert_eq!(ending, COMPLETED);
    assert_eq!((record.model_calls, record.tool_calls), (30, 29));
    let smallest = (0..=3).find(|reserve| of(*reserve).0 == COMPLETED);
    assert_eq!(smallest, Some(2));
}

#[test]
fn a_budget_that_only_denies_calls_does_not_stop_a_run() {
    let of = |policy| run("denials-loop", policy);
    let (_, record) = of("calls are only denied");
    assert_eq!((record.tool_calls, record.refused_calls), (5, 40 * 12 - 5));
    let (ending, record) = of("usage limits");
    assert_eq!(ending, "unanswered max_tool_calls");
    assert_eq!((record.tool_calls, record.skipped_calls), (5, 7));
    assert_eq!(record.model_calls, 1);
    // The notices at 50% and 80% would be due behind the batch, which ends the run; so one message
    // is a turn and five are results.
    assert_eq!(record.messages, 6);
    // run_limits announces the used-up budget once; the turn that calls all the same violates it.
    let (ending, record) = of("run limits");
    assert_eq!(ending, "unanswered synthesis_reserve");
    assert_eq!((record.tool_calls, record.refused_calls), (5, 7));
    assert_eq!(record.model_calls, 2);
}

#[test]
fn a_repeated_call_is_stopped_by_what_the_rule_counts() {
    let of = |scenario, policy| run_of("same-call-again", scenario, policy).1;
    let once = of("same-call-again", "usage limits, 3 the same");
    assert_eq!((once.tool_calls, once.denied_calls), (3, 47));
    assert_eq!(once.billed, usd("3.00"));
    // The reference has no rule "two denied repeats, then a closing turn": a denied call is a turn
    // with calls. Its rule about results without news ends the run at the third turn.
    let guarded = of(
        "same-call-again",
        "usage limits, 3 the same and 3 without news",
    );
    assert_eq!((guarded.model_calls, guarded.billed), (3, usd("0.18")));
    let looped = of("same-call-again", "run limits, 5 the same");
    assert_eq!((looped.tool_calls, looped.billed), (4, usd("0.30")));
    // Both rules count a call over the whole run, so an alternation is caught as well.
    let alternating = of("two-calls-alternating", "usage limits, 3 the same");
    assert_eq!((alternating.tool_calls, alternating.denied_calls), (6, 94));
    let looped = of("two-calls-alternating", "run limits, 5 the same");
    assert_eq!(looped.tool_calls, 8);
}

#[test]
fn cache_reads_and_writes_are_part_of_the_input_and_billed_once() {
    let (_, record) = run("cached-tokens-twice", "run limits");
    assert_eq!(record.billed, usd("0.004875"));
    assert_eq!(record.ledger, record.billed);
    // A total smaller than its parts is an error.
    let text = "schema = 1\nname = \"x\"\nmodel = { price = \"claude-sonnet-5.5\" }\n\
                [[turn]]\nanswer = \"x\"\ninput_tokens = 700\ncached_tokens = 500\ncache_write_tokens = 300";
    let error = Loader::default().scenario_from_toml("x.toml", text);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("500 cached and 300 written of 700")
    );
}

#[test]
fn reasoning_is_billed_as_output_and_trips_an_output_limit() {
    let of = |policy| run("hidden-reasoning", policy);
    let (ending, record) = of("no token limit");
    assert_eq!((ending.as_str(), record.billed), (COMPLETED, usd("0.0815")));
    assert_eq!(
        (record.output_tokens, record.reasoning_tokens),
        (8150, 8000)
    );
    let (ending, record) = of("4,000 output tokens");
    assert_eq!(ending, "unanswered budget_exceeded");
    assert_eq!((record.model_calls, record.tool_calls), (1, 0));
    let (ending, record) = of("caps, 4,000 output tokens");
    assert_eq!(ending, "unanswered max_output_tokens");
    assert_eq!(record.model_calls, 1);
}

#[test]
fn a_deadline_read_between_calls_is_passed_by_the_call_in_flight() {
    const S: i64 = 1_000_000;
    let of = |policy| run("call-never-returns", policy);
    // No reference cuts the call in flight at the deadline. With three attempts of 120 s of silence
    // and pauses of 0.5 s and 1 s, usage_limits gives up long before.
    let (ending, record) = of("usage limits, 900 s");
    assert_eq!(ending, "unanswered transport");
    assert_eq!(record.duration, 30 * S + 3 * 120 * S + 3 * S / 2);
    assert!(!record.late);
    // With twenty it goes on within the turn, where the timeout is not read: 1,657.5 s late.
    let (_, record) = of("usage limits, 900 s, 20 attempts");
    assert_eq!(record.duration, 2_557 * S + S / 2);
    assert!(record.late);
    // run_limits has no idle timeout: a silent stream is given up after 600 s, and the deadline is
    // read between attempts: 330 s late.
    let (ending, record) = of("run limits, 900 s");
    assert_eq!(ending, "unanswered deadline_exceeded");
    assert_eq!(record.duration, 30 * S + 2 * 600 * S);
    assert!(record.late);
}

#[test]
fn a_cut_turn_is_no_answer_and_an_empty_one_must_not_overwrite_it() {
    let cut = |policy| run("truncated-not-finished", policy);
    // Every reference takes the cut text for the end of the run; here it is told apart.
    for policy in ["run limits", "usage limits", "caps"] {
        let (ending, record) = cut(policy);
        assert_eq!(ending, "partial truncated", "{policy}");
        assert_eq!(record.model_calls, 1);
    }
    let (ending, record) = cut("caps, a cut turn goes on");
    assert_eq!((ending.as_str(), record.model_calls), (COMPLETED, 2));

    let early = |policy| run_of("truncated-not-finished", "answer-beside-a-call", policy).0;
    assert_eq!(early("run limits"), "unanswered empty_model_turn");
    assert_eq!(early("usage limits"), "unanswered empty_answer");
    assert_eq!(early("caps"), "unanswered empty_answer");
    assert_eq!(early("caps, the last text stands"), COMPLETED);
}

#[test]
fn one_token_too_many_ends_a_run_that_a_clamp_would_have_saved() {
    for policy in ["run limits", "usage limits"] {
        let (ending, record) = run("one-token-too-many", policy);
        assert_eq!(ending, "unanswered context_overflow", "{policy}");
        assert_eq!((record.model_calls, record.tool_calls), (5, 4));
        let of = |scenario| run_of("one-token-too-many", scenario, policy);
        let (ending, record) = of("one-token-clamped");
        assert_eq!(ending, COMPLETED, "{policy}");
        assert_eq!(record.output_tokens, 4 * 100 + 54_999);
        let (ending, record) = of("one-token-cut");
        assert_eq!(ending, "partial truncated", "{policy}");
        assert_eq!(record.output_tokens, 54_999);
    }
}

#[test]
fn exact_money_refuses_the_eleventh_call_and_doubles_admit_it() {
    let of = |policy| run_of("money-in-doubles", "ten-cents-a-call", policy).1;
    for (policy, calls) in [
        ("run limits, 1.00", 10),
        ("caps before, 1.00", 10),
        ("caps after, 1.00", 11),
        // Ten times 0.1 is 0.9999999999999999 for the reference, which is below its ceiling.
        ("doubles, 1.00", 11),
    ] {
        let record = of(policy);
        assert_eq!(record.model_calls, calls, "{policy}");
        assert_eq!(record.billed, usd("0.1").times(calls as i64), "{policy}");
    }
}

#[test]
fn a_continued_run_keeps_what_it_spent_and_a_budget_is_extended_twice_only() {
    let of = |scenario, policy| run_of("continue-raises-nothing", scenario, policy).1;
    let continued = of("continue-raises-nothing", "cap 4.07, spent 2.07");
    assert_eq!(continued.billed, usd("2.00"));
    let granted = of("continue-raises-nothing", "10 calls, two grants of 4");
    assert_eq!(granted.tool_calls, 18);
    // The call that runs twice is executed once more by the world, not by the budget.
    let resumed = of("continue-after-a-restart", "10 calls, two grants of 4");
    assert_eq!((resumed.tool_calls, resumed.repaid_calls), (19, 1));
}

#[test]
fn tighter_limits_hold_from_the_resume_on() {
    let of = |policy| run("resume-with-tighter-limits", policy).1.model_calls;
    // The seventh request is billed and lost; then none, two, or four more.
    assert_eq!(of("10 turns, then 5"), 7);
    assert_eq!(of("10 turns, then 8"), 7 + 2);
    assert_eq!(of("10 turns, then 10"), 7 + 4);
}

#[test]
fn a_cap_on_summed_input_counts_the_context_again_each_turn() {
    let of = |policy| run("tokens-that-measure-nothing", policy);
    let (ending, record) = of("no cap on tokens");
    assert_eq!(ending, COMPLETED);
    assert_eq!((record.model_calls, record.input_tokens), (30, 555_000));
    // The context at the end: what was distinct.
    assert_eq!(4_000 + 1_000 * record.tool_calls, 33_000);
    let (ending, record) = of("100,000 input tokens");
    assert_eq!(ending, "unanswered max_input_tokens");
    assert_eq!((record.model_calls, record.input_tokens), (12, 114_000));
}

#[test]
fn a_storm_longer_than_the_retries_ends_a_run_with_hours_left() {
    const MINUTE: i64 = 60_000_000;
    let of = |policy| run("storm-outlasts-retries", policy);
    let (ending, record) = of("10 attempts");
    assert_eq!(ending, "unanswered rate_limit");
    assert_eq!((record.steps, record.duration), (2, 9 * MINUTE));
    let (ending, record) = of("20 attempts");
    assert_eq!(ending, COMPLETED);
    assert_eq!((record.steps, record.duration), (2, 12 * MINUTE));
    assert_eq!(record.billed, Money::ZERO);
    // run_limits repeats without a pause, whatever the provider asks for.
    let (ending, record) = of("run limits, 20 attempts");
    assert_eq!((ending.as_str(), record.duration), (COMPLETED, 0));
}

#[test]
fn retries_multiply_and_hide_what_they_cost() {
    let of = |scenario, policy| run_of("retries-multiply", scenario, policy);
    for (scenario, policy, ending, requests, billed, ledger) in [
        (
            "retries-multiply-reported",
            "no money cap",
            "max_attempts_exceeded",
            12,
            "0.36",
            "0.36",
        ),
        (
            "retries-multiply-hidden",
            "no money cap",
            "max_attempts_exceeded",
            12,
            "0.36",
            "0.09",
        ),
        (
            "retries-multiply-reported",
            "cap 0.20",
            "budget_exceeded",
            8,
            "0.24",
            "0.24",
        ),
        (
            "retries-multiply-hidden",
            "cap 0.20",
            "max_attempts_exceeded",
            12,
            "0.36",
            "0.09",
        ),
        (
            "no-transport-retries",
            "no money cap",
            "max_attempts_exceeded",
            3,
            "0.09",
            "0.09",
        ),
    ] {
        let (ended, record) = of(scenario, policy);
        assert_eq!(
            ended,
            format!("unanswered {ending}"),
            "{scenario}, {policy}"
        );
        assert_eq!(
            (record.steps, record.model_calls),
            (1, requests),
            "{scenario}, {policy}"
        );
        assert_eq!(record.billed, usd(billed), "{scenario}, {policy}");
        assert_eq!(record.ledger, usd(ledger), "{scenario}, {policy}");
    }
    let overspend = |scenario| of(scenario, "cap 0.20").1.overspend;
    assert_eq!(overspend("retries-multiply-reported"), Some(usd("0.04")));
    assert_eq!(overspend("retries-multiply-hidden"), Some(usd("0.16")));
    // The same prompt each time: twelve times 10,000 tokens.
    assert_eq!(
        of("retries-multiply-hidden", "no money cap").1.input_tokens,
        120_000
    );
}

#[test]
fn a_wrong_estimate_shrinks_the_answer_and_a_cut_answer_is_partial() {
    for (scenario, tokens, billed) in [
        ("estimate-right", 4_000, "0.063255"),
        ("estimate-26000", 1_466, "0.025245"),
        ("estimate-34000", 1, "0.00327"),
    ] {
        let policy = "USD 0.10, 4,000 tokens a turn";
        let (ending, record) = run_of("picture-eats-output", scenario, policy);
        assert_eq!(ending, "partial truncated", "{scenario}");
        assert_eq!(record.output_tokens, tokens, "{scenario}");
        assert_eq!(record.billed, usd(billed), "{scenario}");
    }
}

#[test]
fn an_empty_body_is_a_retry_in_one_family_and_an_answer_in_the_other() {
    let of = |scenario, policy| {
        let (ending, record) = run_of("empty-body", scenario, policy);
        (ending, record.steps, record.model_calls)
    };
    let ended = |ending: &str, steps, calls| (ending.to_owned(), steps, calls);
    for (scenario, ending) in [
        ("empty-empty-empty", "unanswered empty_model_turn"),
        ("empty-empty-answer", COMPLETED),
        ("empty-fault-empty", "unanswered empty_model_turn"),
        ("empty-empty-fault", "unanswered max_attempts_exceeded"),
    ] {
        assert_eq!(
            of(scenario, "run limits"),
            ended(ending, 2, 4),
            "{scenario}"
        );
        let taken = ended("unanswered empty_answer", 2, 2);
        assert_eq!(of(scenario, "usage limits"), taken, "{scenario}");
    }
    assert_eq!(
        of("empty-empty-empty", "usage limits, terminal tool"),
        ended("unanswered no_progress", 4, 4)
    );
    assert_eq!(
        of("empty-by-length", "usage limits"),
        ended("unanswered output_truncated", 2, 2)
    );
}

#[test]
fn boundaries_within_a_batch_cost_one_checkpoint_each_and_none_behind_the_last_call() {
    let of = |scenario, policy: &str| run_of("price-of-being-safe", scenario, policy).1;
    for (policy, written, billed) in [
        ("no boundary", 2, "0.0005"),
        ("a boundary every 1", 20, "0.005"),
        ("a boundary every 3", 8, "0.002"),
        ("a boundary every 4", 6, "0.0015"),
        ("a boundary every 5", 4, "0.001"),
        ("a boundary every 10", 2, "0.0005"),
    ] {
        let record = of("price-of-being-safe", policy);
        assert_eq!(record.checkpoints, written, "{policy}");
        assert_eq!(record.billed, usd(billed), "{policy}");
        assert_eq!(record.ledger, Money::ZERO, "no engine counts its storage");
    }
    for (policy, written) in [("a boundary every 3", 3), ("a boundary every 4", 2)] {
        let record = of("denied-calls-do-not-count", policy);
        assert_eq!(record.checkpoints, written, "{policy}");
        assert_eq!((record.tool_calls, record.denied_calls), (8, 2));
    }
}

#[test]
fn a_denied_call_ends_a_streak_of_talk_and_a_restart_forgets_it() {
    let of = |scenario| run_of("talk-deny-talk", scenario, "usage limits, terminal tool");
    let (ending, record) = of("talk-deny-talk");
    assert_eq!(ending, "unanswered no_progress");
    assert_eq!(
        (record.steps, record.model_calls, record.tool_calls),
        (7, 7, 1)
    );
    let (ending, record) = of("talk-deny-talk-killed");
    assert_eq!(ending, "unanswered no_progress");
    assert_eq!((record.steps, record.model_calls), (9, 10));
}

#[test]
fn a_model_that_is_forced_to_call_answers_only_where_tools_are_taken_away() {
    let of = |policy| {
        let (ending, record) = run("forced-to-call", policy);
        (
            ending,
            record.model_calls,
            record.tool_calls,
            record.refused_calls,
        )
    };
    for (policy, ending, calls, executed, refused) in [
        (
            "run limits, step reserve 1",
            "unanswered synthesis_reserve",
            6,
            5,
            0,
        ),
        ("caps, final turn", COMPLETED, 6, 5, 0),
        ("caps, final turn inside", COMPLETED, 5, 4, 0),
        (
            "caps, tools blocked",
            "unanswered max_model_calls",
            12,
            5,
            7,
        ),
        (
            "usage limits, summary turn",
            "partial max_tool_calls",
            7,
            5,
            0,
        ),
    ] {
        assert_eq!(
            of(policy),
            (ending.to_owned(), calls, executed, refused),
            "{policy}"
        );
    }
}
