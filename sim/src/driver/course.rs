//! The course of a run: its clock, its bill and its books, and how far it has come.

use holdback_engine::Money;
use holdback_engine::protocol::{
    Call, CallStatus, Ending, Finish, Instruction, Limiter, Micros, ModelRequest, Notice, Output,
    Reason, Text, Tools, Verdict,
};

use super::durable::Standing;
use crate::policy::Facts;
use crate::tally::{Event, Outcome, RunRecord, Seen};
use crate::world::{Ran, Reply, ReplyOutcome};

/// The run in progress, as far as it is not in the engine, the world or the durable store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    pub(super) now: Micros,
    pub(super) record: RunRecord,
    /// Calls of the batch in progress that have neither run nor an answer.
    pub(super) open: u64,
    /// How far the run has come; a restart goes back.
    pub(super) standing: Standing,
    /// Results that the last restart counted as never read.
    lost_unread: u64,
    /// The furthest that it had come: what is done before it again is paid again.
    furthest: Furthest,
    pub(super) overflowed: bool,
    pub(super) endless: bool,
    pub(super) instructed: bool,
    pub(super) batch_ran: bool,
    pub(super) keeps_durable: bool,
}

/// The most requests and executions that a run had behind it, in whichever process.
#[derive(Clone, Copy, Debug, Default)]
struct Furthest {
    model_calls: u64,
    tool_calls: u64,
}

/// A request that shows the model the results before it: it was worked on, or charged.
fn carries_results(reply: &Reply) -> bool {
    let worked_on = matches!(reply.outcome, ReplyOutcome::Turn { .. });
    reply.requests > 0 && (worked_on || reply.billed > Money::ZERO || reply.usage.input > 0)
}

/// The request leaves the model nothing to do but to answer.
fn asks_for_answer(request: &ModelRequest) -> bool {
    let told = matches!(
        request.instruction,
        Some(Instruction::SynthesisOnly(_) | Instruction::FinalTurn(_))
    );
    told || matches!(request.tools, Tools::Withheld | Tools::Absent)
}

impl Course {
    pub(super) fn new(keeps_durable: bool) -> Course {
        Course {
            now: 0,
            record: RunRecord::default(),
            open: 0,
            standing: Standing::default(),
            lost_unread: 0,
            furthest: Furthest::default(),
            overflowed: false,
            endless: false,
            instructed: false,
            batch_ran: false,
            keeps_durable,
        }
    }

    /// Puts a request on the bill; the clock advances by its latency.
    pub(super) fn bill(&mut self, request: &ModelRequest, reply: &Reply) {
        let record = &mut self.record;
        self.now += reply.latency;
        record.model_calls += u64::from(reply.requests);
        record.steps = record.steps.max(u64::from(request.turn));
        record.billed += reply.billed;
        record.largest_call = record.largest_call.max(reply.dearest);
        record.input_tokens += reply.usage.input;
        record.cached_tokens += reply.usage.cached;
        record.written_tokens += reply.usage.cache_write;
        record.output_tokens += reply.usage.output;
        record.reasoning_tokens += reply.usage.reasoning.unwrap_or(0);
        let standing = &mut self.standing;
        if standing.model_calls < self.furthest.model_calls {
            record.repaid += reply.billed;
        }
        standing.model_calls += u64::from(reply.requests);
        self.furthest.model_calls = self.furthest.model_calls.max(standing.model_calls);
        if carries_results(reply) {
            standing.unread = 0;
            standing.carries += 1;
        }
    }

    /// Marks the rare events of a request and of what came back.
    pub(super) fn mark_request(
        &mut self,
        facts: &Facts,
        request: &ModelRequest,
        reply: &Reply,
        calls: &[Call],
    ) {
        self.instructed = request.instruction.is_some();
        self.record.untouched &= !self.instructed && request.tools == Tools::All;
        let seen = &mut self.record.seen;
        seen.0 |= reply.seen.0;
        if request.attempt > 1 {
            seen.mark(Event::Retry);
        }
        let planned = match request.instruction {
            Some(Instruction::SynthesisOnly(_) | Instruction::FinalTurn(_)) => {
                seen.mark(Event::SynthesisAnnounced);
                facts.output_cap
            }
            Some(Instruction::ReserveSummary { .. }) => {
                seen.mark(Event::SummaryTurn);
                facts.closing_output_cap
            }
            Some(Instruction::Drained { .. }) => facts.closing_output_cap,
            None => facts.output_cap,
        };
        if request
            .output_cap
            .is_some_and(|cap| planned.is_none_or(|planned| cap < planned))
        {
            seen.mark(Event::OutputClamped);
        }
        let ReplyOutcome::Turn { text, finish, .. } = reply.outcome else {
            if reply.outcome == ReplyOutcome::Overflow {
                seen.mark(Event::ContextOverflow);
            }
            return;
        };
        if finish == Finish::Length {
            seen.mark(Event::TruncatedTurn);
            self.record.untouched = false;
        }
        if asks_for_answer(request) {
            if !calls.is_empty() && !calls.iter().any(|call| call.terminal) {
                seen.mark(Event::ToolCallInClosingTurn);
            }
            if calls.is_empty() && text == Text::Absent {
                seen.mark(Event::EmptyClosingTurn);
            }
        }
    }

    /// An attempt that was not lost to a kill.
    pub(super) fn turn(&mut self, reply: &Reply, calls: u64) {
        match reply.outcome {
            ReplyOutcome::Turn { text, finish, .. } => {
                self.close_batch();
                self.open = calls;
                self.record.messages += 1;
                let cut = finish == Finish::Length;
                self.standing.text.turn(text, cut, calls > 0);
            }
            ReplyOutcome::Overflow => self.overflowed = true,
            ReplyOutcome::Fault { .. } => {}
        }
    }

    /// Calls of the last batch that nobody looked at.
    pub(super) fn close_batch(&mut self) {
        self.record.skipped_calls += std::mem::take(&mut self.open);
        self.record.tool_batches += u64::from(std::mem::take(&mut self.batch_ran));
    }

    pub(super) fn executed(&mut self, ran: &Ran) {
        let record = &mut self.record;
        if ran.result.status == CallStatus::Denied {
            record.denied_calls += 1;
            record.seen.mark(Event::CallDenied);
            return self.joined();
        }
        record.tool_calls += 1;
        record.billed += ran.result.cost;
        record.largest_tool_cost = record.largest_tool_cost.max(ran.result.cost);
        if self.standing.tool_calls < self.furthest.tool_calls {
            record.repaid_calls += 1;
            record.repaid += ran.result.cost;
        }
        self.standing.tool_calls += 1;
        self.furthest.tool_calls = self.furthest.tool_calls.max(self.standing.tool_calls);
        self.joined();
    }

    /// A stored outcome takes the place of an execution: its result is not lost after all.
    pub(super) fn rejoined(&mut self) {
        self.standing.tool_calls += 1;
        if self.lost_unread > 0 {
            self.lost_unread -= 1;
            self.record.unread_results -= 1;
        }
        self.joined();
    }

    fn joined(&mut self) {
        self.batch_ran = true;
        self.standing.unread += 1;
        self.record.messages += 1;
    }

    /// A restart: the run stands where its checkpoint stood.
    pub(super) fn go_back(&mut self, standing: &Standing) {
        // A lost request carried all results of the conversation, those of the checkpoint as well.
        let carried = self.standing.carries > standing.carries;
        let still_unread = if carried { 0 } else { standing.unread };
        self.lost_unread = self.standing.unread.saturating_sub(still_unread);
        self.record.unread_results += self.lost_unread;
        self.standing = Standing {
            unread: still_unread,
            carries: self.standing.carries,
            ..*standing
        };
        self.open = 0;
        self.instructed = false;
    }

    pub(super) fn answered(&mut self, verdict: Verdict, limiter: Limiter, calls: u64) {
        let record = &mut self.record;
        self.open = self.open.saturating_sub(calls);
        record.untouched = false;
        record.messages += calls;
        match verdict {
            Verdict::Denied => {
                record.denied_calls += calls;
                record.seen.mark(Event::CallDenied);
                if limiter == Limiter::IdenticalCalls {
                    record.seen.mark(Event::RepetitionStopped);
                }
            }
            Verdict::Skipped => record.skipped_calls += calls,
            _ => {
                record.refused_calls += calls;
                record.seen.mark(Event::CallRefused);
            }
        }
    }

    pub(super) fn notice(&mut self, notice: &Notice) {
        self.record.messages += 1;
        self.record.untouched = false;
        if matches!(notice, Notice::Budget { .. }) {
            self.record.seen.mark(Event::BudgetNotice);
        }
    }

    pub(super) fn mark_ending(&mut self, ending: &Ending) {
        let seen: &mut Seen = &mut self.record.seen;
        match ending.reason {
            Reason::SynthesisReserve => {
                self.record.reserve_violation = true;
                seen.mark(if self.instructed {
                    Event::ViolationAnnounced
                } else {
                    Event::ViolationUnannounced
                });
            }
            Reason::ToolLoopDetected | Reason::RepeatedDenial | Reason::Exploration => {
                seen.mark(Event::RepetitionStopped);
            }
            Reason::DeadlineExceeded | Reason::CancelledDeadline | Reason::Timeout => {
                seen.mark(Event::DeadlineHit)
            }
            _ => {}
        }
        if self.standing.text.is_answer()
            && ending.output == Output::None
            && matches!(
                ending.reason,
                Reason::BudgetExceeded
                    | Reason::DeadlineExceeded
                    | Reason::CancelledDeadline
                    | Reason::MaxCost
                    | Reason::MaxInputTokens
                    | Reason::MaxOutputTokens
                    | Reason::MaxTotalTokens
            )
        {
            seen.mark(Event::AnswerDiscarded);
        }
        if self.record.ledger != self.record.billed {
            seen.mark(Event::LedgerDiffers);
        }
        let record = &self.record;
        assert!(
            record.outcome != Outcome::Answered || record.model_calls > 0,
            "answered without a model call"
        );
        assert!(
            record.repaid <= record.billed && record.repaid_calls <= record.tool_calls,
            "more was paid again than was paid"
        );
    }
}
