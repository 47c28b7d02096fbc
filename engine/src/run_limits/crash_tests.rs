//! Crashes and resumes, as far as the recorded vectors do not show them.

use super::harness::{Attempt, COMPLETED, Driver, Tools, answer, calls, verdict};
use super::{Config, Limits, Rules};
use crate::protocol::{Action, CheckpointKind, Limiter, LimitsEngine, Reason, Status, Verdict};

fn research() -> Vec<Attempt> {
    vec![calls(&[1, 2]), calls(&[4, 8, 11]), answer()]
}

#[test]
fn a_batch_lost_behind_its_response_is_rebuilt_from_the_conversation() {
    let mut undisturbed = Driver::new(Limits::default(), Rules::default(), research());
    assert_eq!(verdict(undisturbed.play()), COMPLETED);
    let mut driver = Driver::new(Limits::default(), Rules::default(), research());
    driver.play_until_saved(CheckpointKind::ModelResponse);
    driver.crash();
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.executed, undisturbed.executed);
    assert_eq!(driver.counters, undisturbed.counters);
    let (resumed, whole) = (driver.checkpoint.unwrap(), undisturbed.checkpoint.unwrap());
    assert_eq!(resumed, whole);
}

#[test]
fn a_rebuilt_batch_is_judged_by_the_reserve_like_any_other() {
    let limits = Limits {
        max_model_calls: 3,
        synthesis_reserve_model_calls: 2,
        ..Limits::default()
    };
    let mut driver = Driver::new(limits, Rules::default(), research());
    driver.play_until_saved(CheckpointKind::ModelResponse);
    driver.crash();
    assert_eq!(
        verdict(driver.play()),
        (Status::Failed, Reason::SynthesisReserve)
    );
    let failure = *driver.engine.failure().unwrap();
    assert_eq!(failure.synthesis_reserve, Some(Limiter::ModelCalls));
    assert_eq!(
        (failure.step_number, failure.attempt_number),
        (Some(1), None)
    );
}

#[test]
fn a_rebuilt_batch_is_counted_as_a_repetition_once() {
    let repeated = vec![calls(&[1, 1, 1, 1]), calls(&[1])];
    let mut driver = Driver::new(Limits::default(), Rules::default(), repeated);
    driver.play_until_saved(CheckpointKind::ModelResponse);
    driver.crash();
    assert_eq!(
        verdict(driver.play()),
        (Status::Failed, Reason::ToolLoopDetected)
    );
    assert_eq!(driver.counters.model_calls, 2);
}

#[test]
fn a_rebuilt_batch_is_fitted_to_the_budget_it_was_proposed_under() {
    // The newest checkpoint (pending) is lost although the batch was recorded: the tool budget reads
    // as exhausted, yet the batch was fitted when three calls were left.
    let limits = Limits {
        max_tool_calls: 3,
        ..Limits::default()
    };
    let mut driver = Driver::new(
        limits,
        Rules::default(),
        vec![calls(&[1, 2, 4, 8]), answer()],
    );
    driver.play_until_saved(CheckpointKind::ModelResponse);
    let checkpoint = driver.checkpoint.clone();
    let history = driver.stored_history().to_vec();
    while driver.counters.tool_calls < 3 {
        driver.turn();
    }
    driver.resume_from(checkpoint, history);
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.counters.tool_calls, 3);
    // Once before the crash and once after it.
    assert_eq!(driver.count(Verdict::Refused), 2);
}

#[test]
fn denials_of_a_rebuilt_batch_count_and_those_of_a_recovered_one_do_not() {
    let denied = || vec![calls(&[7, 7, 7]), answer()];
    let mut rebuilt = Driver::new(Limits::default(), Rules::default(), denied());
    rebuilt.play_until_saved(CheckpointKind::ModelResponse);
    rebuilt.crash();
    assert_eq!(
        verdict(rebuilt.play()),
        (Status::Failed, Reason::RepeatedDenial)
    );
    let mut recovered = Driver::new(Limits::default(), Rules::default(), denied());
    recovered.play_until_saved(CheckpointKind::ToolPending);
    recovered.crash();
    assert_eq!(verdict(recovered.play()), COMPLETED);
}

#[test]
fn an_answer_whose_checkpoint_is_durable_is_asked_for_again() {
    let mut driver = Driver::new(Limits::default(), Rules::default(), vec![answer()]);
    driver.play_until_saved(CheckpointKind::ModelResponse);
    driver.crash();
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.counters.model_calls, 2);
    assert_eq!(driver.counters.steps, 2);
}

#[test]
fn a_run_that_had_ended_ends_the_same_way_again() {
    let limits = Limits {
        max_steps: 1,
        ..Limits::default()
    };
    let mut driver = Driver::new(limits, Rules::default(), research());
    driver.play_until_saved(CheckpointKind::Terminal);
    let failure = driver.engine.failure().copied();
    driver.crash();
    assert_eq!(
        verdict(driver.play()),
        (Status::Failed, Reason::MaxStepsExceeded)
    );
    assert_eq!(driver.engine.failure().copied(), failure);
    assert_eq!(driver.counters.model_calls, 1);
}

#[test]
fn a_recorded_number_that_is_no_whole_batch_is_an_internal_error() {
    let mut driver = Driver::new(Limits::default(), Rules::default(), research());
    driver.play_until_saved(CheckpointKind::ToolPending);
    driver.counters.tool_calls += 1;
    driver.crash();
    assert_eq!(
        verdict(driver.play()),
        (Status::Failed, Reason::InternalError)
    );
}

#[test]
fn a_request_to_cancel_ends_the_run_at_the_next_step_and_not_inside_a_batch() {
    let mut driver = Driver::new(Limits::default(), Rules::default(), research());
    while !matches!(driver.actions.last(), Some(Action::RunBatch { .. })) {
        driver.turn();
    }
    driver.engine.request_cancel();
    assert_eq!(
        verdict(driver.play()),
        (Status::Cancelled, Reason::CancelledRequested)
    );
    assert_eq!(driver.counters.tool_calls, 2);
    assert_eq!(driver.counters.steps, 1);
}

#[test]
fn a_request_to_cancel_during_a_model_call_loses_the_turn() {
    let mut driver = Driver::new(Limits::default(), Rules::default(), vec![answer()]);
    while !matches!(driver.actions.last(), Some(Action::CallModel(_))) {
        driver.turn();
    }
    driver.engine.request_cancel();
    assert_eq!(
        verdict(driver.play()),
        (Status::Cancelled, Reason::CancelledRequested)
    );
    assert_eq!(driver.counters.model_calls, 1);
}

#[test]
fn unlimited_runs_go_on_for_as_long_as_the_model_likes() {
    let limits = Limits {
        max_steps: super::UNLIMITED,
        max_model_calls: super::UNLIMITED,
        max_tool_calls: super::UNLIMITED,
        synthesis_reserve_model_calls: 1,
        ..Limits::default()
    };
    let script: Vec<Attempt> = (0..500_u64).map(|turn| calls(&[turn * 210 + 1])).collect();
    let tools = Tools {
        latency: 3_600_000_000,
        ..Tools::default()
    };
    let config = Config::new(&limits, &Rules::default(), None);
    let mut driver = Driver::with(config, script, tools);
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.counters.steps, 501);
}
