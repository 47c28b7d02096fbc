//! The witness that writes a run down.

use std::collections::BTreeSet;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Action, Call, CallStatus, Decision, Digest, Ending, Limiter, Micros, ModelRequest, Observer,
    Verdict,
};

use super::event::{
    Decided, End, Event, Message, ModelCall, Proposed, Recorded, Resumed, ToolCall, What,
};
use super::words;
use crate::driver::{Books, Resumption, Witness};
use crate::policy::ToolNames;
use crate::tally::Cause;
use crate::world::{Ran, Reply, ReplyOutcome};

/// Writes down what a run does, event by event.
#[derive(Debug)]
pub struct Teller<'n> {
    names: &'n ToolNames,
    events: Vec<Event>,
    /// Events from here on await the books and the time of the next action.
    unsettled: usize,
    now: Micros,
    billed: Money,
    ledger: Money,
    /// The batch that indices refer to.
    calls: Vec<Call>,
    requests: u64,
    request_at: Micros,
    estimated: Option<f64>,
    /// Messages since the last completed turn.
    notices: Vec<Message>,
    /// Results seen so far.
    digests: BTreeSet<Digest>,
    /// Calls that have run.
    ran: BTreeSet<u32>,
}

impl<'n> Teller<'n> {
    /// A teller who calls the tools by these names.
    pub fn new(names: &'n ToolNames) -> Teller<'n> {
        Teller {
            names,
            events: Vec::new(),
            unsettled: 0,
            now: 0,
            billed: Money::ZERO,
            ledger: Money::ZERO,
            calls: Vec::new(),
            requests: 0,
            request_at: 0,
            estimated: None,
            notices: Vec::new(),
            digests: BTreeSet::new(),
            ran: BTreeSet::new(),
        }
    }

    /// What was written down.
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// No limit ended the run: it was stopped.
    pub(super) fn stopped(&mut self) {
        let what = What::End(End {
            status: "stopped",
            reason: Cause::Endless.as_str(),
            limiter: None,
            output: "none",
        });
        self.tell(self.now, what);
    }

    fn tell(&mut self, at: Micros, what: What) {
        self.events.push(Event {
            at,
            billed: self.billed,
            ledger: self.ledger,
            what,
        });
    }

    /// The engine has taken note of what happened: the events since its last action get the books
    /// as they are now, and its decisions the time.
    fn settle(&mut self, now: Micros, books: &Books<'_>) {
        for event in &mut self.events[self.unsettled..] {
            event.ledger = books.ledger;
            match event.what {
                What::Decision(_) => {
                    event.at = now;
                    event.billed = books.billed;
                }
                What::Checkpoint(_) => event.billed = books.billed,
                _ => {}
            }
        }
        self.unsettled = self.events.len();
        self.now = now;
        self.billed = books.billed;
        self.ledger = books.ledger;
    }

    fn proposed(&self, calls: &[Call]) -> Vec<Proposed> {
        let proposed = |call: &Call| Proposed {
            call: call.id,
            tool: self.names.name(call.tool).to_owned(),
        };
        calls.iter().map(proposed).collect()
    }

    fn record(&mut self, counted: holdback_engine::protocol::Counted, books: &Books<'_>) {
        let counters = books.counters;
        let what = What::Record(Recorded {
            counted: words::counted(counted),
            steps: counters.steps,
            model_calls: counters.model_calls,
            tool_calls: counters.tool_calls,
            input_tokens: counters.usage.input,
            output_tokens: counters.usage.output,
            cost_usd: counters.cost,
        });
        self.tell(self.now, what);
    }

    /// Calls that get an answer instead of being run.
    fn answered(&mut self, first: u32, count: u32, verdict: &'static str, limiter: Limiter) {
        for index in first..first + count {
            self.not_run(index, verdict, Some(limiter));
        }
    }

    fn not_run(&mut self, index: u32, verdict: &'static str, limiter: Option<Limiter>) {
        let Some(call) = self.calls.get(index as usize) else {
            return;
        };
        let what = What::ToolCall(ToolCall {
            call: call.id,
            tool: self.names.name(call.tool).to_owned(),
            verdict,
            limiter: limiter.map(Limiter::as_str),
            latency: 0,
            cost_usd: Money::ZERO,
            new_result: None,
            stored: false,
            again: false,
            lost: false,
        });
        self.tell(self.now, what);
    }

    fn ended(&mut self, ending: &Ending) {
        let what = What::End(End {
            status: words::status(ending.status),
            reason: ending.reason.as_str(),
            limiter: ending.limiter.map(Limiter::as_str),
            output: words::output(ending.output),
        });
        self.tell(self.now, what);
    }
}

impl Observer for Teller<'_> {
    fn decided(&mut self, decision: Decision) {
        let call = decision
            .call
            .and_then(|index| self.calls.get(index as usize))
            .copied();
        if let (Verdict::TerminalAccepted | Verdict::TerminalRejected, Some(index)) =
            (decision.verdict, decision.call)
        {
            let accepted = decision.verdict == Verdict::TerminalAccepted;
            self.not_run(index, if accepted { "accepted" } else { "rejected" }, None);
        }
        let what = What::Decision(Decided {
            verdict: words::verdict(decision.verdict),
            limiter: decision.limiter.as_str(),
            rule: words::rule(decision.rule),
            left: words::amount(decision.left),
            right: words::amount(decision.right),
            sentence: decision.rule.describe(),
            call: call.map(|call| call.id),
            tool: call.map(|call| self.names.name(call.tool).to_owned()),
        });
        self.tell(self.now, what);
    }
}

impl Witness for Teller<'_> {
    fn acted(&mut self, now: Micros, action: &Action, books: &Books<'_>) {
        self.settle(now, books);
        match action {
            Action::CallModel(_) => self.request_at = now,
            Action::Save(kind) => self.tell(now, What::Checkpoint(words::checkpoint(*kind))),
            Action::Record(counted) => self.record(*counted, books),
            Action::Journal(entry) => self.tell(now, What::Journal(words::journal(entry))),
            Action::Notify(notice) => {
                let notice = words::notice(notice);
                self.notices.push(notice.clone());
                self.tell(now, What::Notice(notice));
            }
            Action::Wait(pause) => self.tell(now, What::Wait { pause: *pause }),
            Action::AnswerCalls {
                first,
                count,
                verdict,
                limiter,
            } => self.answered(*first, *count, words::verdict(*verdict), *limiter),
            Action::Finish(ending) => self.ended(ending),
            Action::EstimatePrompt
            | Action::ContinueStream
            | Action::SeverStream
            | Action::RunCall { .. }
            | Action::RunBatch { .. }
            | Action::JudgeTerminal { .. } => {}
        }
    }

    fn estimated(&mut self, tokens: f64) {
        self.estimated = Some(tokens);
    }

    fn replied(&mut self, now: Micros, request: &ModelRequest, reply: &Reply, calls: &[Call]) {
        self.calls.clear();
        self.calls.extend_from_slice(calls);
        self.billed += reply.billed;
        let terminal = calls.iter().any(|call| call.terminal);
        let (ended, fault) = words::ended(&reply.outcome, calls.len(), terminal);
        let call = ModelCall {
            turn: request.turn,
            attempt: request.attempt,
            request: self.requests + 1,
            requests: reply.requests,
            tools: words::tools(request.tools),
            output_cap: request.output_cap,
            estimated_tokens: self.estimated.take(),
            instruction: request.instruction.as_ref().map(words::instruction),
            notices: self.notices.clone(),
            input_tokens: reply.usage.input,
            cached_tokens: reply.usage.cached,
            cache_write_tokens: reply.usage.cache_write,
            output_tokens: reply.usage.output,
            reasoning_tokens: reply.usage.reasoning,
            cost_usd: reply.billed,
            reported_cost_usd: reply.told_cost,
            usage_reported: reply.told.is_some(),
            latency: reply.latency,
            ended,
            fault,
            calls: self.proposed(calls),
            lost: false,
        };
        self.requests += u64::from(reply.requests);
        if matches!(reply.outcome, ReplyOutcome::Turn { .. }) {
            self.notices.clear();
        }
        self.tell(self.request_at, What::ModelCall(Box::new(call)));
        self.now = now;
    }

    fn ran(&mut self, now: Micros, call: &Call, ran: &Ran, recovered: bool) {
        let denied = ran.result.status == CallStatus::Denied;
        let charged = if recovered || denied {
            Money::ZERO
        } else {
            ran.result.cost
        };
        self.billed += charged;
        let again = !recovered && !self.ran.insert(call.id);
        let what = What::ToolCall(ToolCall {
            call: call.id,
            tool: self.names.name(call.tool).to_owned(),
            verdict: words::call_status(ran.result.status),
            limiter: None,
            latency: ran.latency,
            cost_usd: charged,
            new_result: ran.result.digest.map(|digest| self.digests.insert(digest)),
            stored: recovered,
            again,
            lost: false,
        });
        self.tell(now, what);
    }

    fn killed(&mut self, now: Micros) {
        let during = match self.events.last_mut().map(|event| &mut event.what) {
            Some(What::ModelCall(call)) => {
                call.lost = true;
                "model_call"
            }
            Some(What::ToolCall(call)) => {
                call.lost = true;
                "tool_call"
            }
            _ => unreachable!("a process dies behind a model or tool call"),
        };
        self.tell(now, What::Kill { during });
        self.unsettled = self.events.len();
    }

    fn resumed(&mut self, now: Micros, resumption: &Resumption<'_>) {
        self.calls.clear();
        self.calls.extend_from_slice(resumption.calls);
        self.notices.clear();
        let what = What::Resume(Resumed {
            from: if resumption.from_checkpoint {
                "checkpoint"
            } else {
                "beginning"
            },
            tail_lost: resumption.tail_lost,
            downtime: resumption.downtime,
            calls: self.proposed(resumption.calls),
        });
        self.tell(now, what);
        self.now = now;
    }
}
