//! The two closing turns: the summary after an expired tool budget (section 7 of the semantics) and
//! the drained turn of a refused child's seat (section 11).

use super::limits::ExposureWait;
use super::machine::{Because, Machine};
use super::rule::Rule;
use super::state::{AfterSave, Seat};
use crate::protocol::{
    Action, FaultKind, Instruction, Limiter, ModelTurn, Observer, Output, Reason, Status, Text,
    Verdict,
};

impl<O: Observer> Machine<'_, O> {
    /// The skipped tail is answered: one more turn without tools, unless money forbids it. Neither
    /// the clock nor `maxTurns` is asked.
    pub(super) fn begin_summary(&mut self) -> Action {
        if let Some(because) = self.ceiling_reached(Rule::SummaryAtCeiling) {
            self.decided(Verdict::Blocked, because);
            return self.summary_skipped(because);
        }
        self.decided(Verdict::Announced, self.summary_because());
        self.begin_turn(Seat::Summary)
    }

    fn summary_because(&self) -> Because {
        match self.state.expiry {
            Some(expiry) => {
                Because::counts(expiry.limiter, Rule::SummaryTurn, expiry.used, expiry.cap)
            }
            None => Because::plain(Limiter::ToolCalls, Rule::SummaryTurn),
        }
    }

    pub(super) fn summary_instruction(&self) -> Option<Instruction> {
        self.state.expiry.map(|expiry| Instruction::ReserveSummary {
            limiter: expiry.limiter,
            used: expiry.used,
            cap: expiry.cap,
            skipped: expiry.skipped,
        })
    }

    pub(super) fn summary_skipped(&mut self, because: Because) -> Action {
        self.decided(Verdict::SummarySkipped, because);
        self.end_by_tool_budget(Output::None)
    }

    /// Its text becomes the output; its calls and its finish reason are not looked at.
    pub(super) fn summary_turn_done(&mut self, turn: &ModelTurn<'_>) -> Action {
        self.state.batch.load(turn.calls);
        self.decided_tail(Verdict::Unanswered, self.summary_because(), 0);
        let delivers = match self.config.schema {
            Some(_) => turn.typed,
            None => turn.text == Text::Content,
        };
        let output = if delivers {
            Output::TurnText
        } else {
            Output::None
        };
        let ending = self.tool_budget_ending(output);
        self.save_and_finish(ending)
    }

    pub(super) fn summary_turn_failed(&mut self, kind: FaultKind) -> Action {
        let idle = kind == FaultKind::Idle;
        self.save_boundary(AfterSave::FailedSummary { idle })
    }

    /// The checkpoint after a failed summary turn is written: the limit stands, without output.
    pub(super) fn failed_summary_saved(&mut self, idle: bool) -> Action {
        let limiter = if idle {
            Limiter::Time
        } else {
            Limiter::Provider
        };
        self.decided(
            Verdict::SummaryFailed,
            Because::plain(limiter, Rule::SummaryFault),
        );
        self.end_by_tool_budget(Output::None)
    }

    /// The exposure cap refuses a planning turn.
    pub(super) fn exposure_refused(&mut self, because: Because) -> Action {
        let wait = self
            .config
            .budget
            .and_then(|budget| budget.exposure)
            .map_or(ExposureWait::Never, |exposure| exposure.wait);
        if wait != ExposureWait::Child {
            return self.end(Status::Error, Reason::Exposure, because);
        }
        // The refused turn is counted, so an earlier one exists from the second on.
        if self.config.reserve.is_none() || self.state.turns() <= 1 {
            return self.end_drained(because);
        }
        self.state.batch.clear();
        self.state.seat = Seat::Drained;
        self.state.attempt = 1;
        self.begin_attempt()
    }

    pub(super) fn drained_skipped(&mut self, because: Because) -> Action {
        self.decided(Verdict::DrainedSkipped, because);
        self.end_drained(because)
    }

    /// If it offered tools, its calls walk the ordinary table; their results go nowhere.
    pub(super) fn drained_turn_done(&mut self, turn: &ModelTurn<'_>) -> Action {
        self.state.batch.load(turn.calls);
        if turn.calls.is_empty() || self.config.drained_tools().is_empty() {
            let because = Because::plain(Limiter::Exposure, Rule::DrainedSeat);
            self.decided_tail(Verdict::Unanswered, because, 0);
            return self.drained_spent();
        }
        self.next_call()
    }

    /// The drained turn is over, however it ended.
    pub(super) fn drained_spent(&mut self) -> Action {
        let calls = self.state.batch.calls.len() as u64;
        let because = Because::counts(Limiter::Exposure, Rule::DrainedSeat, calls, 0);
        self.decided(Verdict::DrainedSpent, because);
        self.end_drained(because)
    }

    fn end_drained(&mut self, because: Because) -> Action {
        self.end(Status::Error, Reason::ExposureDrained, because)
    }
}
