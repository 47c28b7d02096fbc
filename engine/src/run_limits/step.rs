//! One step: what must hold before it, and what becomes of its turn (reference, section 6).

use super::cause::Cause;
use super::engine::Run;
use super::reserve::{self, Entered};
use super::rule::Rule;
use super::rules::CrossingTurn;
use super::state::{Admission, Origin, Phase};
use crate::protocol::{Action, CheckpointKind, Counted, Counters, Limiter, Observer, Verdict};

impl<O: Observer> Run<'_, O> {
    /// S1 to S4. The token comes before the check, so that a deadline found here cancels the run
    /// and never fails it; before a retry it fails the run (rl-01465).
    ///
    /// Only after a crash that lost a recorded response can a step begin inside a reserve of model
    /// calls or money (rl-01569).
    pub(super) fn begin_step(&mut self) -> Action {
        if let Some(action) = self.token() {
            return action;
        }
        let entered = self.entered(self.state.counters.tool_calls, false);
        if let Some(cause) = self.check_before_step() {
            return self.blocked(cause);
        }
        let state = &mut *self.state;
        state.step_reserve = entered;
        state.counters.steps += 1;
        state.attempt = 0;
        state.phase = Phase::RecordingStep;
        Action::Record(Counted::Step)
    }

    /// S11 to S14, on a turn with calls that has joined the conversation: may they run, are they
    /// repetitions, how many fit?
    ///
    /// A turn that is taken up after a crash is judged as if there had been none: by the tool calls
    /// that were recorded when it was proposed, not by those recorded now (section 11.6).
    pub(super) fn take_up_turn(&mut self) -> Action {
        let tool_calls = self.state.watermark;
        let room = if let Some(room) = self.recorded_before_crash() {
            room
        } else {
            match self.entered(tool_calls, true) {
                None => self.room_in_budget(tool_calls, Admission::Budget),
                Some(entered) => match self.room_in_reserve(entered) {
                    Ok(room) => room,
                    Err(action) => return action,
                },
            }
        };
        if let Some(action) = self.count_repetitions() {
            return action;
        }
        self.fit(room)
    }

    /// The tool calls that are left.
    fn room_in_budget(&self, tool_calls: i64, admission: Admission) -> Room {
        self.fitted_to_tool_calls(tool_calls, self.state.calls.len() as u32);
        Room {
            calls: reserve::tool_calls_left(self.config, tool_calls),
            admission,
        }
    }

    /// The room that a rebuilt batch had, if its usage was recorded before the crash: it passed the
    /// reserve and ran as it was fitted, and must not be judged otherwise now.
    fn recorded_before_crash(&self) -> Option<Room> {
        let recorded = self.state.counters.tool_calls - self.state.watermark;
        (self.state.origin == Origin::History && recorded > 0).then_some(Room {
            calls: recorded,
            admission: Admission::Budget,
        })
    }

    /// S11 with the variants: what a tool turn may do inside a reserve. The reference knows only
    /// the violation, which rejects the turn as a whole.
    #[cold]
    fn room_in_reserve(&mut self, entered: Entered) -> Result<Room, Action> {
        let proposed_under = Counters {
            tool_calls: self.state.watermark,
            ..self.state.counters
        };
        let cause = entered.cause(self.config, &proposed_under);
        let rules = &self.config.rules;
        if !self.state.announced {
            match rules.crossing_turn {
                CrossingTurn::Fail => {}
                CrossingTurn::RefuseThenSynthesize => {
                    return Err(self.refuse_turn(Cause {
                        rule: Rule::CrossingTurnRefused,
                        ..cause
                    }));
                }
                CrossingTurn::RunThenSynthesize => {
                    return Ok(self.room_in_budget(self.state.watermark, Admission::Crossing));
                }
            }
        }
        let allowance = rules
            .reserve_tool_allowance
            .saturating_sub(self.state.allowance_used);
        self.fitted_to_tool_calls(proposed_under.tool_calls, allowance);
        let left = reserve::tool_calls_left(self.config, proposed_under.tool_calls);
        let allowance = i64::from(allowance).min(left);
        if allowance <= 0 {
            return Err(self.violation(cause));
        }
        Ok(Room {
            calls: allowance,
            admission: Admission::Allowance,
        })
    }

    /// S12, by the raw argument text (rl-03621). Calls that will be refused or trimmed away count, too; the one that reaches the
    /// threshold ends the run, and calls behind it are not counted any more.
    fn count_repetitions(&mut self) -> Option<Action> {
        let threshold = self.config.rules.identical_calls;
        let state = &mut *self.state;
        for (index, call) in state.calls.iter().enumerate() {
            let count = state.identical_calls.add(call.raw_signature.0);
            if count >= threshold {
                return Some(self.loop_detected(index as u32, count));
            }
        }
        None
    }

    /// S13 and S14: the first calls run, the rest is refused (rl-03068).
    fn fit(&mut self, room: Room) -> Action {
        let proposed = self.state.calls.len() as u32;
        let fitted = u32::try_from(room.calls.max(0)).map_or(proposed, |calls| calls.min(proposed));
        if fitted == 0 {
            return self.refuse_turn(room.cause(proposed));
        }
        let state = &mut *self.state;
        state.fitted = fitted;
        state.is_pending = true;
        state.admission = room.admission;
        if room.admission == Admission::Allowance {
            state.allowance_used += fitted;
        }
        if fitted == proposed {
            return self.save_pending();
        }
        state.phase = Phase::RefusingCalls;
        self.refuse(fitted, proposed - fitted, room.cause(proposed))
    }

    /// S15.
    pub(super) fn save_pending(&mut self) -> Action {
        self.save(CheckpointKind::ToolPending, Phase::SavingPending)
    }

    /// None of the turn's calls runs; the run goes on with the next step.
    fn refuse_turn(&mut self, cause: Cause) -> Action {
        let state = &mut *self.state;
        state.fitted = 0;
        // What an earlier batch was denied says nothing about the calls of this turn.
        state.denied.clear();
        state.phase = Phase::RefusingTurn;
        let proposed = state.calls.len() as u32;
        self.refuse(0, proposed, cause)
    }

    fn refuse(&mut self, first: u32, count: u32, cause: Cause) -> Action {
        if O::ACTIVE {
            for index in first..first + count {
                self.decide(Verdict::Refused, cause, Some(index));
            }
        }
        Action::AnswerCalls {
            first,
            count,
            verdict: Verdict::Refused,
            limiter: cause.limiter,
        }
    }
}

/// How many calls of a turn may run, and why.
#[derive(Clone, Copy)]
struct Room {
    calls: i64,
    admission: Admission,
}

impl Room {
    /// Why calls of a batch of `proposed` are refused.
    const fn cause(self, proposed: u32) -> Cause {
        Cause::counts(
            self.admission.rule(),
            Limiter::ToolCalls,
            proposed as i64,
            self.calls,
        )
    }
}
