//! The turn loop: what is asked between turns, and what a finished turn leads to (section 2 of the
//! semantics).

use super::machine::{Because, Machine, count};
use super::rule::Rule;
use super::state::{Phase, Seat};
use super::thresholds::Threshold;
use crate::protocol::{
    Action, Ending, Finish, Limiter, ModelTurn, Notice, Observer, Output, Quantity, Reason, Status,
    Text, Verdict,
};

impl<O: Observer> Machine<'_, O> {
    /// A process begins.
    pub(super) fn start(&mut self) -> Action {
        self.state.started_at = self.now;
        if self.config.notices && self.config.max_tool_calls.is_none() {
            self.decided(
                Verdict::Warned,
                Because::plain(Limiter::ToolCalls, Rule::NoticesInert),
            );
        }
        if let Some(cap) = self.state.restored_cap_ignored {
            let base = self.config.max_tool_calls.unwrap_or(0);
            self.decided(
                Verdict::Warned,
                Because::counts(Limiter::ToolCalls, Rule::RestoredCapIgnored, cap, base),
            );
        }
        if self.state.batch.calls.is_empty() {
            self.next_turn()
        } else {
            // A pending batch is finished first, without any test of clock, turns or money.
            self.next_call()
        }
    }

    /// The tests between turns, in their order, then the next turn.
    pub(super) fn next_turn(&mut self) -> Action {
        if self.state.cancel_requested {
            return self.end(
                Status::Cancelled,
                Reason::CancelledRequested,
                Because::plain(Limiter::Request, Rule::CancelRequested),
            );
        }
        let elapsed = self.now - self.state.started_at;
        self.compared(Threshold::Timeout, elapsed);
        if let Some(timeout) = self.config.timeout.filter(|timeout| elapsed >= *timeout) {
            return self.end(
                Status::Limit,
                Reason::Timeout,
                Because {
                    limiter: Limiter::Time,
                    rule: Rule::Timeout,
                    left: Quantity::Micros(elapsed),
                    right: Quantity::Micros(timeout),
                },
            );
        }
        let turns = self.state.turns();
        let allowed = self.config.max_turns.saturating_add(self.repair_turns());
        self.compared(
            Threshold::MaxTurns,
            i128::from(turns) - i128::from(self.repair_turns()),
        );
        if turns >= allowed {
            return self.end(
                Status::Limit,
                Reason::MaxTurns,
                Because::counts(Limiter::Turns, Rule::MaxTurns, turns, allowed),
            );
        }
        if let Some(because) = self.ceiling_reached(Rule::CeilingBeforeTurn) {
            self.decided(Verdict::Blocked, because);
            return self.end(Status::Error, Reason::Budget, because);
        }
        self.begin_turn(Seat::Planning)
    }

    /// Turns past `maxTurns` that rejected terminal calls in the conversation have bought.
    fn repair_turns(&self) -> u64 {
        self.config.terminal_tool.map_or(0, |terminal| {
            terminal
                .repair_turn_reserve
                .min(self.state.history.terminal_errors)
        })
    }

    /// The ceiling, if it is reached.
    pub(super) fn ceiling_reached(&self, rule: Rule) -> Option<Because> {
        let ceiling = self.config.budget?.ceiling_usd?;
        let spent = self.state.account.spent();
        (spent >= ceiling).then(|| Because::usd(Limiter::Cost, rule, spent, ceiling))
    }

    /// Counts a turn and prices its first attempt.
    pub(super) fn begin_turn(&mut self, seat: Seat) -> Action {
        self.state.counters.steps += 1;
        self.state.seat = seat;
        self.state.attempt = 1;
        self.begin_attempt()
    }

    /// A planning turn came to its end.
    pub(super) fn planning_turn_done(&mut self, turn: &ModelTurn<'_>) -> Action {
        match turn.finish {
            Finish::Refusal => self.end_of_refused_turn(turn, Reason::Refusal, Rule::Refusal),
            Finish::ContextOverflow => {
                self.end_of_refused_turn(turn, Reason::ContextOverflow, Rule::ContextOverflow)
            }
            _ if turn.calls.is_empty() => self.turn_without_calls(turn),
            _ => {
                self.state.no_progress = 0;
                self.state.batch.load(turn.calls);
                self.next_call()
            }
        }
    }

    fn end_of_refused_turn(&mut self, turn: &ModelTurn<'_>, reason: Reason, rule: Rule) -> Action {
        let because = Because::plain(Limiter::Provider, rule);
        self.state.batch.load(turn.calls);
        self.decided_tail(Verdict::Unanswered, because, 0);
        self.end(Status::Error, reason, because)
    }

    fn turn_without_calls(&mut self, turn: &ModelTurn<'_>) -> Action {
        let cut = turn.finish == Finish::Length;
        if self.config.terminal_tool.is_some() {
            let because = Because::plain(Limiter::TerminalTool, Rule::TerminalReprompt);
            return self.reprompt(because, Notice::TerminalReprompt { cut });
        }
        if let Some(schema) = self.config.schema {
            return self.schema_turn(turn, schema.retry_attempts);
        }
        if cut && turn.text != Text::Content {
            return self.end(
                Status::Limit,
                Reason::OutputTruncated,
                Because::plain(Limiter::OutputTokens, Rule::OutputTruncated),
            );
        }
        let ending = self.ok(Output::TurnText);
        self.finish(ending)
    }

    fn schema_turn(&mut self, turn: &ModelTurn<'_>, retries: u64) -> Action {
        if turn.typed {
            let ending = self.ok(Output::TurnText);
            return self.finish(ending);
        }
        self.state.schema_attempts += 1;
        let (attempt, tries) = (self.state.schema_attempts, retries.saturating_add(1));
        if attempt >= tries {
            return self.end(
                Status::Error,
                Reason::SchemaMismatch,
                Because::counts(Limiter::Schema, Rule::SchemaTries, attempt, tries),
            );
        }
        let because = Because::counts(Limiter::Schema, Rule::SchemaReprompt, attempt, tries);
        let max = retries;
        self.reprompt(because, Notice::SchemaReprompt { attempt, max })
    }

    /// The no-progress step (section 8), then another prompt.
    fn reprompt(&mut self, because: Because, notice: Notice) -> Action {
        self.state.no_progress += 1;
        let (streak, max) = (self.state.no_progress, self.config.no_progress_turns);
        self.compared(Threshold::NoProgressTurns, streak);
        if streak >= max {
            return self.end(
                Status::Limit,
                Reason::NoProgress,
                Because::counts(Limiter::NoProgress, Rule::NoProgress, streak, max),
            );
        }
        self.decided(Verdict::Announced, because);
        self.state.queue.set_last(notice);
        self.notify_and_save()
    }

    /// Ends the run as `ok`, unless the evidence contract refuses it.
    pub(super) fn ok(&mut self, output: Output) -> Ending {
        let recorded = self.state.history.recorded;
        match self.config.evidence {
            Some(contract) if contract.refuse && recorded < contract.min_entries => {
                let rule = Rule::EvidenceFloor;
                let because =
                    Because::counts(Limiter::Evidence, rule, recorded, contract.min_entries);
                self.ending(Status::Error, Reason::EvidenceFloor, Output::None, because)
            }
            _ => {
                let because = Because {
                    limiter: Limiter::Turns,
                    rule: Rule::Answered,
                    left: count(self.state.turns()),
                    right: count(self.config.max_turns),
                };
                self.ending(Status::Ok, Reason::Completed, output, because)
            }
        }
    }

    pub(super) fn finish(&mut self, ending: Ending) -> Action {
        self.state.phase = Phase::Finished;
        Action::Finish(ending)
    }
}
