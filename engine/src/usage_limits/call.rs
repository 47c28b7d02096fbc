//! The precedence at each tool call, row by row (section 3 of the semantics).

use super::machine::{Because, Machine};
use super::rule::Rule;
use super::state::{EntrySite, Expiry, Phase, Seat};
use super::thresholds::Threshold;
use super::window::Binding;
use crate::protocol::{
    Action, Call, CallResult, CheckpointKind, Limiter, Observer, Output, Reason, Status, Verdict,
};

impl<O: Observer> Machine<'_, O> {
    /// Rows 1 and 2: looks at the next call, or closes the batch.
    pub(super) fn next_call(&mut self) -> Action {
        let Some(call) = self.looked_at() else {
            return self.end_of_batch();
        };
        let terminal = call.terminal;
        let Some(limiter) = self.expired() else {
            return self.ask_policy();
        };
        if limiter == Limiter::ToolCalls
            && !terminal
            && let Some(grant) = self.grant_at_expiry()
        {
            return grant;
        }
        self.expired_call(limiter)
    }

    /// Rows 1 and 1' again, after a grant.
    pub(super) fn ask_expiry_again(&mut self) -> Action {
        match self.expired() {
            Some(limiter) => self.expired_call(limiter),
            None => self.ask_policy(),
        }
    }

    #[inline]
    fn looked_at(&self) -> Option<&Call> {
        self.state.batch.calls.get(self.state.batch.at)
    }

    /// The tool budget that is used up, calls before units.
    fn expired(&self) -> Option<Limiter> {
        let state = &*self.state;
        if self.config.max_tool_calls.is_some() && state.used() >= state.cap {
            return Some(Limiter::ToolCalls);
        }
        let spent = state.guards.units();
        self.config
            .max_units
            .is_some_and(|max| spent >= max)
            .then_some(Limiter::ToolUnits)
    }

    fn expiry_numbers(&self, limiter: Limiter) -> (u64, u64) {
        match limiter {
            Limiter::ToolUnits => (
                self.state.guards.units(),
                self.config.max_units.unwrap_or(0),
            ),
            _ => (self.state.used(), self.state.cap),
        }
    }

    fn expiry_because(&self, limiter: Limiter, rule: Rule) -> Because {
        let (used, cap) = self.expiry_numbers(limiter);
        Because::counts(limiter, rule, used, cap)
    }

    /// Rows 3 and 3': the budget is gone; only a terminal call of the tail keeps the batch open.
    fn expired_call(&mut self, limiter: Limiter) -> Action {
        let batch = &self.state.batch;
        let terminal_ahead = batch.last_terminal.is_some_and(|last| last >= batch.at);
        if !terminal_ahead && !batch.terminal_admitted {
            return self.expire(limiter);
        }
        if self.looked_at().is_some_and(|call| call.terminal) {
            let because = self.expiry_because(limiter, Rule::TerminalExempt);
            self.decided_call(Verdict::TerminalAdmitted, because);
            self.state.batch.terminal_admitted = true;
            return self.ask_policy();
        }
        let because = self.expiry_because(limiter, Rule::TerminalInTail);
        self.answer(Verdict::Skipped, because)
    }

    /// Row 3: the run ends by its tool budget, with or without a summary turn.
    fn expire(&mut self, limiter: Limiter) -> Action {
        let (used, cap) = self.expiry_numbers(limiter);
        let (first, skipped) = (self.state.batch.index(), self.state.batch.rest());
        let rule = if limiter == Limiter::ToolUnits {
            Rule::UnitCap
        } else {
            Rule::CallCap
        };
        let because = Because::counts(limiter, rule, used, cap);
        if self.state.seat == Seat::Drained {
            self.decided_tail(Verdict::Unanswered, because, first);
            return self.drained_spent();
        }
        self.state.join_history();
        self.state.expiry = Some(Expiry {
            limiter,
            used,
            cap,
            skipped,
        });
        if self.config.reserve.is_none() {
            self.decided_tail(Verdict::Unanswered, because, first);
            return self.end_by_tool_budget(Output::None);
        }
        self.decided_tail(Verdict::Skipped, because, first);
        self.state.phase = Phase::AnsweringTail;
        Action::AnswerCalls {
            first,
            count: skipped,
            verdict: Verdict::Skipped,
            limiter,
        }
    }

    /// Ends the run as status `limit`, named by the budget that expired.
    pub(super) fn end_by_tool_budget(&mut self, output: Output) -> Action {
        let ending = self.tool_budget_ending(output);
        self.finish(ending)
    }

    /// The ending of [`Machine::end_by_tool_budget`].
    pub(super) fn tool_budget_ending(&mut self, output: Output) -> crate::protocol::Ending {
        let (reason, rule) = match self.state.expiry.map(|expiry| expiry.limiter) {
            Some(Limiter::ToolUnits) => (Reason::ToolUnits, Rule::UnitCap),
            _ => (Reason::MaxToolCalls, Rule::CallCap),
        };
        let because = match self.state.expiry {
            Some(expiry) => Because::counts(expiry.limiter, rule, expiry.used, expiry.cap),
            None => Because::plain(Limiter::ToolCalls, rule),
        };
        self.ending(Status::Limit, reason, output, because)
    }

    /// Row 4, then row 5 for the terminal tool.
    fn ask_policy(&mut self) -> Action {
        let Some(&Call {
            denied, terminal, ..
        }) = self.looked_at()
        else {
            return self.end_of_batch();
        };
        if denied {
            if terminal {
                self.state.batch.adds.terminal_errors += 1;
            }
            return self.answer(
                Verdict::Denied,
                Because::plain(Limiter::Policy, Rule::PolicyDenied),
            );
        }
        if terminal {
            self.state.phase = Phase::Judging;
            return Action::JudgeTerminal {
                index: self.state.batch.index(),
            };
        }
        self.ask_window()
    }

    /// Row 5: an accepted terminal call ends the run, a rejected one is an error result.
    pub(super) fn terminal_judged(&mut self, accepted: bool) -> Action {
        let because = Because::plain(Limiter::TerminalTool, Rule::TerminalJudged);
        if !accepted {
            self.decided_call(Verdict::TerminalRejected, because);
            self.state.batch.adds.terminal_errors += 1;
            return self.walk_on();
        }
        self.decided_call(Verdict::TerminalAccepted, because);
        let index = self.state.batch.index();
        self.decided_tail(Verdict::Unanswered, because, index + 1);
        if self.state.seat == Seat::Drained {
            return self.drained_spent();
        }
        self.state.join_history();
        let ending = self.ok(Output::Terminal { index });
        self.save_and_finish(ending)
    }

    /// Row 6: records the entry the first time the window is found open.
    fn ask_window(&mut self) -> Action {
        let Some(binding) = self.binding() else {
            return self.ask_guards();
        };
        if !self.state.window_entered {
            return self.enter_window(&binding, EntrySite::Call);
        }
        self.admit_or_grant(&binding)
    }

    /// Row 6, after the entry is recorded.
    pub(super) fn admit_to_window(&mut self) -> Action {
        match self.binding() {
            Some(binding) => self.admit_or_grant(&binding),
            None => self.ask_guards(),
        }
    }

    /// Row 6: a call that the open window would refuse may still be saved by a grant.
    fn admit_or_grant(&mut self, binding: &Binding) -> Action {
        if self.call_is_admitted() {
            return self.ask_guards();
        }
        match self.grant_in_window(binding) {
            Some(grant) => grant,
            None => self.refuse(binding),
        }
    }

    /// Row 6, after a grant: the window may have closed again, or not.
    pub(super) fn admit_after_grant(&mut self) -> Action {
        match self.binding() {
            Some(binding) if !self.call_is_admitted() => self.refuse(&binding),
            _ => self.ask_guards(),
        }
    }

    fn call_is_admitted(&self) -> bool {
        self.looked_at()
            .is_some_and(|call| self.config.tool(call.tool).admitted)
    }

    fn refuse(&mut self, binding: &Binding) -> Action {
        let because = binding.because(Rule::WindowRefusal);
        self.answer_by(Verdict::Refused, Limiter::Window, because)
    }

    /// Rows 7 and 8.
    fn ask_guards(&mut self) -> Action {
        let Some(&call) = self.looked_at() else {
            return self.end_of_batch();
        };
        if self.config.caps_per_tool {
            let cap = self.config.tool(call.tool).cap;
            let executions = self.state.guards.executions(call.tool);
            if executions >= cap {
                self.state.guards.count_denied_by_tool_cap();
                let rule = Rule::CallsPerTool;
                return self.answer(
                    Verdict::Denied,
                    Because::counts(Limiter::CallsPerTool, rule, executions, cap),
                );
            }
        }
        if let Some(max) = self.config.max_signature {
            let executions = self
                .state
                .guards
                .executions_of_signature(call.canonical_signature);
            self.compared(Threshold::MaxSignature, executions);
            if executions >= max {
                self.state.guards.count_denied_by_signature();
                let rule = Rule::RepeatedSignature;
                return self.answer(
                    Verdict::Denied,
                    Because::counts(Limiter::IdenticalCalls, rule, executions, max),
                );
            }
        }
        self.run(&call)
    }

    /// Row 9: the call is counted, then it runs.
    fn run(&mut self, call: &Call) -> Action {
        self.state.counters.tool_calls += 1;
        self.state.guards.count_execution(self.config, call);
        if O::ACTIVE {
            let cap = self
                .config
                .max_tool_calls
                .map_or(u64::MAX, |_| self.state.cap);
            let used = self.state.used();
            self.decided_call(
                Verdict::Executed,
                Because::counts(Limiter::ToolCalls, Rule::Admitted, used, cap),
            );
        }
        self.state.phase = Phase::Running;
        Action::RunCall {
            index: self.state.batch.index(),
            recovered: false,
        }
    }

    /// Row 10: the result feeds the guards; enough known results in a row end the run.
    pub(super) fn call_done(&mut self, result: &CallResult) -> Action {
        self.state.batch.adds.recorded += u64::from(result.recorded_evidence);
        self.state.batch.since_checkpoint += 1;
        let known = self.state.guards.count_result(self.config, result);
        let streak = self.state.guards.streak();
        if known {
            self.compared(Threshold::MaxStale, streak);
        }
        if let Some(max) = self.config.max_stale.filter(|max| known && streak >= *max) {
            return self.exploration_trip(streak, max);
        }
        self.checkpoint_if_due()
    }

    fn exploration_trip(&mut self, streak: u64, max: u64) -> Action {
        let because = Because::counts(Limiter::NoNewEvidence, Rule::NoNewEvidence, streak, max);
        let next = self.state.batch.index() + 1;
        self.decided_tail(Verdict::Unanswered, because, next);
        if self.state.seat == Seat::Drained {
            return self.drained_spent();
        }
        self.state.join_history();
        self.end(Status::Limit, Reason::Exploration, because)
    }

    /// Row 11: a checkpoint within the batch, if another call follows.
    fn checkpoint_if_due(&mut self) -> Action {
        self.compared(
            Threshold::CheckpointEvery,
            self.state.batch.since_checkpoint,
        );
        let batch = &mut self.state.batch;
        let next = batch.at + 1;
        let due = self
            .config
            .checkpoint_every
            .is_some_and(|every| batch.since_checkpoint >= every);
        if !due || next >= batch.calls.len() {
            return self.walk_on();
        }
        batch.since_checkpoint = 0;
        batch.at = next;
        self.state.phase = Phase::SavingMidBatch;
        Action::Save(CheckpointKind::MidBatch {
            executed: next as u32,
            awaiting: next as u32,
            remaining: self.state.batch.rest() - 1,
        })
    }

    /// Puts an error result into the conversation instead of running the call.
    fn answer(&mut self, verdict: Verdict, because: Because) -> Action {
        self.answer_by(verdict, because.limiter, because)
    }

    fn answer_by(&mut self, verdict: Verdict, limiter: Limiter, because: Because) -> Action {
        self.decided_call(verdict, because);
        self.state.phase = Phase::Answering;
        Action::AnswerCalls {
            first: self.state.batch.index(),
            count: 1,
            verdict,
            limiter,
        }
    }

    /// The call is done with; on to the next.
    pub(super) fn walk_on(&mut self) -> Action {
        self.state.batch.at += 1;
        self.next_call()
    }

    fn end_of_batch(&mut self) -> Action {
        if !self.state.window_entered
            && let Some(binding) = self.binding()
        {
            return self.enter_window(&binding, EntrySite::EndOfBatch);
        }
        self.batch_complete()
    }
}
