//! The attempts of a step (reference, section 7).

use super::cause::Cause;
use super::engine::Run;
use super::reserve::Entered;
use super::rule::Rule;
use super::rules::AnswerOverCap;
use super::state::{Attempt, Failed, Origin, Phase};
use crate::Money;
use crate::protocol::{
    Action, CheckpointKind, Counted, Fault, FaultKind, Finish, Instruction, Limiter, ModelRequest,
    ModelTurn, Observer, Text, Tools, Usage, Verdict,
};

impl<O: Observer> Run<'_, O> {
    /// A2 to A4.
    pub(super) fn attempt(&mut self) -> Action {
        if let Some(cause) = self.check_before_attempt() {
            return self.blocked(cause);
        }
        let control = self.control();
        if O::ACTIVE
            && let Some(entered) = control
        {
            let cause = entered.cause(self.config, &self.state.counters);
            self.decide(Verdict::Announced, cause, None);
        }
        let state = &mut *self.state;
        state.announced = control.is_some();
        state.attempt += 1;
        state.phase = Phase::CallingModel;
        Action::CallModel(ModelRequest {
            turn: u32::try_from(state.counters.steps).unwrap_or(u32::MAX),
            attempt: state.attempt,
            tools: Tools::All,
            output_cap: None,
            idle_timeout: None,
            instruction: control.map(|entered| Instruction::SynthesisOnly(entered.limiter())),
        })
    }

    /// A3. The reserve that was found before the step holds for all its attempts; only where there
    /// was none may a retry find one (rl-00703). Nothing that a reserve looks at changes before the
    /// first.
    fn control(&self) -> Option<Entered> {
        let used = &self.state.counters;
        match self.state.step_reserve {
            None if self.state.attempt > 0 => self.entered(used.tool_calls, true),
            found => found,
        }
    }

    /// A5: the usage of a failed attempt counts, too.
    pub(super) fn attempt_failed(&mut self, fault: &Fault) -> Action {
        let failed = match fault.kind {
            FaultKind::Permanent => Failed::Permanent,
            FaultKind::Protocol => Failed::Protocol,
            FaultKind::Transient
            | FaultKind::RateLimit { .. }
            | FaultKind::Idle
            | FaultKind::Cut
            | FaultKind::Severed => {
                if fault.produced_output {
                    Failed::TransientAfterOutput
                } else {
                    Failed::Transient
                }
            }
        };
        self.state.calls.clear();
        self.record_model(
            fault.usage.unwrap_or_default(),
            fault.cost,
            Attempt::Failed(failed),
        )
    }

    /// A6.
    pub(super) fn attempt_completed(&mut self, turn: &ModelTurn<'_>) -> Action {
        let state = &mut *self.state;
        state.calls.clear();
        state.calls.extend_from_slice(turn.calls);
        state.origin = Origin::Turn;
        // Any text that is not empty is text, also a single space.
        let has_text = turn.text != Text::Absent;
        let attempt = if turn.calls.is_empty() && !has_text {
            Attempt::Empty
        } else {
            Attempt::Turn {
                has_text,
                cancelled: turn.finish == Finish::Cancelled,
            }
        };
        self.record_model(turn.usage, turn.cost, attempt)
    }

    fn record_model(&mut self, usage: Usage, cost: Money, attempt: Attempt) -> Action {
        let state = &mut *self.state;
        let used = &mut state.counters;
        used.model_calls += 1;
        used.cost = used.cost.saturating_add(cost);
        let total = &mut used.usage;
        total.input = total.input.saturating_add(usage.input);
        total.cached = total.cached.saturating_add(usage.cached);
        total.cache_write = total.cache_write.saturating_add(usage.cache_write);
        total.output = total.output.saturating_add(usage.output);
        // Unknown until an attempt reports it; from then on an unknown adds nothing.
        if let Some(reasoning) = usage.reasoning {
            total.reasoning = Some(total.reasoning.unwrap_or(0).saturating_add(reasoning));
        }
        state.phase = Phase::RecordingModel(attempt);
        Action::Record(Counted::Model)
    }

    /// The rest of A5 and A6, A7, and S7 to S9. A crossed limit outranks whatever the attempt
    /// brought, an error as well as an answer.
    pub(super) fn attempt_recorded(&mut self, attempt: Attempt) -> Action {
        if let Some(cause) = self.check_after_recording() {
            if !self.keeps_answer(attempt, &cause) {
                return self.exceeded(cause);
            }
            self.decide(
                Verdict::Exceeded,
                Cause {
                    rule: Rule::AnswerKept,
                    ..cause
                },
                None,
            );
        }
        match attempt {
            Attempt::Failed(Failed::Permanent) => self.provider_error(Rule::PermanentError),
            Attempt::Failed(Failed::Protocol) => self.provider_error(Rule::ProtocolError),
            Attempt::Failed(Failed::TransientAfterOutput) => {
                let cause = Cause::plain(Rule::OutputProduced, Limiter::Provider);
                self.attempts_exhausted(cause)
            }
            Attempt::Failed(Failed::Transient) | Attempt::Empty => self.retry(attempt),
            Attempt::Turn {
                cancelled: true, ..
            } => self.cancelled_by_provider(),
            Attempt::Turn { .. } => match self.token() {
                // The turn is lost, also an answer (S8, rl-02818).
                Some(action) => action,
                None => {
                    let has_calls = !self.state.calls.is_empty();
                    self.save(
                        CheckpointKind::ModelResponse,
                        Phase::SavingResponse { has_calls },
                    )
                }
            },
        }
    }

    /// Variant `answer_over_cap = "keep"`. Cost is the last dimension that is looked at, so no other
    /// limit is passed when it is the one found.
    fn keeps_answer(&self, attempt: Attempt, cause: &Cause) -> bool {
        let is_answer = self.state.calls.is_empty()
            && attempt
                == Attempt::Turn {
                    has_text: true,
                    cancelled: false,
                };
        self.config.rules.answer_over_cap == AnswerOverCap::Keep
            && cause.limiter == Limiter::Cost
            && is_answer
    }

    /// Failed and empty attempts share the attempts of a step; the last one names the failure
    /// (rl-01526).
    fn retry(&mut self, attempt: Attempt) -> Action {
        let made = self.state.attempt;
        let attempts = self.config.rules.attempts;
        let rule = match attempt {
            Attempt::Empty if made >= attempts => Rule::EmptyTurn,
            _ => Rule::AttemptsLeft,
        };
        let cause = Cause::counts(
            rule,
            Limiter::Attempts,
            i64::from(made),
            i64::from(attempts),
        );
        if made < attempts {
            self.decide(Verdict::Retried, cause, None);
            return self.attempt();
        }
        match attempt {
            Attempt::Empty => self.empty_turn(cause),
            _ => self.attempts_exhausted(cause),
        }
    }
}
