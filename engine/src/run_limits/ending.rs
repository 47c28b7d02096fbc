//! How a run ends: what is told, what is recorded as the failure, and the terminal checkpoint.

use super::cause::Cause;
use super::check;
use super::engine::Run;
use super::failure::{ErrorClass, Failure};
use super::rule::Rule;
use super::state::Phase;
use crate::protocol::{
    Action, CheckpointKind, Ending, Limiter, Observer, Output, Reason, Status, Verdict,
};

impl<O: Observer> Run<'_, O> {
    /// Tells the observer a decision.
    pub(super) fn decide(&mut self, verdict: Verdict, cause: Cause, call: Option<u32>) {
        if O::ACTIVE {
            self.observer.decided(cause.decision(verdict, call));
        }
    }

    /// S1 and S8: cancels the run on request, or once the deadline has come.
    pub(super) fn token(&mut self) -> Option<Action> {
        let (cause, reason) = if self.state.cancel_requested {
            (
                Cause::plain(Rule::Token, Limiter::Request),
                Reason::CancelledRequested,
            )
        } else if self.past_deadline() {
            (
                check::deadline(Rule::Token, self.config, self.now),
                Reason::CancelledDeadline,
            )
        } else {
            return None;
        };
        if matches!(self.state.phase, Phase::RecordingModel(_)) {
            self.drop_calls(cause);
        }
        self.decide(Verdict::Blocked, cause, None);
        Some(self.cancel(reason, cause))
    }

    /// The deadline came during a dispatch: calls that ran stay uncounted, and all fitted calls stay
    /// pending in the terminal checkpoint.
    #[cold]
    pub(super) fn cancel_dispatch(&mut self, ran: u32) -> Action {
        let cause = check::deadline(Rule::DispatchToken, self.config, self.now);
        if O::ACTIVE {
            for index in ran..self.state.fitted {
                self.decide(Verdict::Cancelled, cause, Some(index));
            }
        }
        self.decide(Verdict::Blocked, cause, None);
        self.cancel(Reason::CancelledDeadline, cause)
    }

    /// S7.
    #[cold]
    pub(super) fn cancelled_by_provider(&mut self) -> Action {
        let cause = Cause::plain(Rule::ProviderCancelled, Limiter::Provider);
        self.drop_calls(cause);
        self.cancel(Reason::CancelledRequested, cause)
    }

    /// S10.
    pub(super) fn complete(&mut self) -> Action {
        let cause = Cause::plain(Rule::Answer, Limiter::Provider);
        let ending = Ending {
            status: Status::Completed,
            reason: Reason::Completed,
            limiter: None,
            output: Output::TurnText,
        };
        self.end(ending, cause)
    }

    /// A hard check refuses a step or an attempt.
    #[cold]
    pub(super) fn blocked(&mut self, cause: Cause) -> Action {
        self.decide(Verdict::Blocked, cause, None);
        self.over_budget(cause)
    }

    /// A recorded total is above its limit; the turn that brought it is lost.
    #[cold]
    pub(super) fn exceeded(&mut self, cause: Cause) -> Action {
        self.decide(Verdict::Exceeded, cause, None);
        if matches!(self.state.phase, Phase::RecordingModel(_)) {
            self.drop_calls(cause);
        }
        self.over_budget(cause)
    }

    fn over_budget(&mut self, cause: Cause) -> Action {
        let reason = match cause.limiter {
            Limiter::Time => Reason::DeadlineExceeded,
            Limiter::Steps => Reason::MaxStepsExceeded,
            _ => Reason::BudgetExceeded,
        };
        let steps = self.state.counters.steps;
        self.state.failure = Some(Failure {
            error_class: ErrorClass::BudgetExceededError,
            step_number: (steps > 0).then_some(steps),
            attempt_number: None,
            synthesis_reserve: None,
        });
        self.failed(reason, cause)
    }

    /// S11: a tool turn inside a reserve.
    #[cold]
    pub(super) fn violation(&mut self, cause: Cause) -> Action {
        if O::ACTIVE {
            for index in 0..self.state.calls.len() as u32 {
                self.decide(Verdict::Violation, cause, Some(index));
            }
        }
        self.fail_in_step(
            ErrorClass::SynthesisReserveViolation,
            Reason::SynthesisReserve,
            cause,
        )
    }

    /// S12: call `index` is the repetition that is one too many.
    #[cold]
    pub(super) fn loop_detected(&mut self, index: u32, count: u32) -> Action {
        let threshold = self.config.rules.identical_calls;
        let cause = Cause::counts(
            Rule::IdenticalCalls,
            Limiter::IdenticalCalls,
            i64::from(count),
            i64::from(threshold),
        );
        if O::ACTIVE {
            for other in 0..self.state.calls.len() as u32 {
                let verdict = if other == index {
                    Verdict::Loop
                } else {
                    Verdict::Dropped
                };
                self.decide(verdict, cause, Some(other));
            }
        }
        self.fail_in_step(
            ErrorClass::ToolLoopDetected,
            Reason::ToolLoopDetected,
            cause,
        )
    }

    /// S21.
    #[cold]
    pub(super) fn denied_too_often(&mut self, index: u32, count: u32) -> Action {
        let threshold = self.config.rules.identical_denials;
        let cause = Cause::counts(
            Rule::IdenticalDenials,
            Limiter::IdenticalDenials,
            i64::from(count),
            i64::from(threshold),
        );
        self.decide(Verdict::Denied, cause, Some(index));
        self.fail_in_step(ErrorClass::ToolPolicyDenied, Reason::RepeatedDenial, cause)
    }

    /// A5: a permanent or protocol error.
    #[cold]
    pub(super) fn provider_error(&mut self, rule: Rule) -> Action {
        let error_class = match rule {
            Rule::ProtocolError => ErrorClass::ModelProtocolError,
            _ => ErrorClass::ModelPermanentError,
        };
        let cause = Cause::plain(rule, Limiter::Provider);
        self.fail_in_step(error_class, Reason::ModelPermanentError, cause)
    }

    /// A5: no further attempt after a transient failure.
    #[cold]
    pub(super) fn attempts_exhausted(&mut self, cause: Cause) -> Action {
        self.fail_in_step(
            ErrorClass::ModelTransientError,
            Reason::MaxAttemptsExceeded,
            cause,
        )
    }

    /// A7: no further attempt after an empty turn.
    #[cold]
    pub(super) fn empty_turn(&mut self, cause: Cause) -> Action {
        self.fail_in_step(ErrorClass::EmptyModelTurn, Reason::EmptyModelTurn, cause)
    }

    /// Section 11.4: what was recorded since the checkpoint is no whole batch.
    #[cold]
    pub(super) fn invalid_stored_state(&mut self, recorded: i64, fitted: i64) -> Action {
        let cause = Cause::counts(Rule::StoredState, Limiter::ToolCalls, recorded, fitted);
        self.fail_in_step(ErrorClass::InvalidStoredState, Reason::InternalError, cause)
    }

    fn fail_in_step(&mut self, error_class: ErrorClass, reason: Reason, cause: Cause) -> Action {
        let state = &mut *self.state;
        state.failure = Some(Failure {
            error_class,
            step_number: Some(state.counters.steps),
            attempt_number: (state.attempt > 0).then_some(state.attempt),
            synthesis_reserve: (error_class == ErrorClass::SynthesisReserveViolation)
                .then_some(cause.limiter),
        });
        self.failed(reason, cause)
    }

    fn failed(&mut self, reason: Reason, cause: Cause) -> Action {
        let ending = Ending {
            status: Status::Failed,
            reason,
            limiter: Some(cause.limiter),
            output: Output::None,
        };
        self.end(ending, cause)
    }

    fn cancel(&mut self, reason: Reason, cause: Cause) -> Action {
        let ending = Ending {
            status: Status::Cancelled,
            reason,
            limiter: Some(cause.limiter),
            output: Output::None,
        };
        self.end(ending, cause)
    }

    /// The turn ends the run before its calls were considered.
    fn drop_calls(&mut self, cause: Cause) {
        if O::ACTIVE {
            for index in 0..self.state.calls.len() as u32 {
                self.decide(Verdict::Dropped, cause, Some(index));
            }
        }
    }

    /// The terminal checkpoint holds the state as it is now, with the final status.
    fn end(&mut self, ending: Ending, cause: Cause) -> Action {
        self.decide(Verdict::Ended, cause, None);
        self.save(CheckpointKind::Terminal, Phase::SavingTerminal(ending))
    }

    pub(super) fn finish(&mut self, ending: Ending) -> Action {
        self.state.phase = Phase::Finished(ending);
        Action::Finish(ending)
    }
}
