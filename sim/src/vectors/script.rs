//! What a simulated run did, as far as a vector holds it.

use std::collections::BTreeMap;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Action, Call, CallResult, CallStatus, CheckpointKind, Counters, Decision, Ending, Micros,
    ModelRequest, Observer, Usage,
};

use super::{LeftOut, NoVector};
use crate::driver::{Books, Resumption, Witness};
use crate::world::{Ran, Reply, ReplyOutcome};

/// A simulated run, written down.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) attempts: Vec<Attempt>,
    /// The engine's estimates, in the order in which it asked for them.
    pub(super) estimates: Vec<f64>,
    /// What each call brought, by its number, each time that it ran.
    pub(super) results: BTreeMap<u32, Vec<CallResult>>,
    /// How long each call took, by its number, so that the clock comes out right.
    pub(super) latencies: BTreeMap<u32, Span>,
    /// Batches as they were dispatched.
    pub(super) batches: Vec<Batch>,
    pub(super) kills: Vec<Kill>,
    /// Executions in order, those that a kill cut short included.
    pub(super) runs: Vec<Call>,
    pub(super) ending: Option<Ending>,
    pub(super) counters: Counters,
    pub(super) ledger: Money,
    pending_saves: u32,
    running: Option<Running>,
    requested: Micros,
    requests_repeat: bool,
    /// The call or attempt in progress, which a kill loses.
    in_flight: Option<Died>,
    /// When the newest checkpoint of a pending batch was written.
    pending_since: Micros,
}

/// One attempt of a turn.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) request: ModelRequest,
    pub(super) span: Span,
    pub(super) outcome: ReplyOutcome,
    /// What the engine is told; `None` where nothing is reported.
    pub(super) told: Option<Usage>,
    pub(super) cost: Money,
    pub(super) calls: Vec<Call>,
    /// The process died before the engine saw it.
    pub(super) lost: bool,
}

/// From when to when something lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Micros,
    pub(super) to: Micros,
}

impl Span {
    pub(super) fn length(self) -> Micros {
        self.to - self.from
    }

    /// Whole milliseconds, so that sums of spans stay whole milliseconds of the clock.
    pub(super) fn millis(self) -> i64 {
        self.to.div_euclid(1000) - self.from.div_euclid(1000)
    }
}

/// A dispatched batch.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) calls: Vec<Call>,
    pub(super) parallel: bool,
}

/// A death of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kill {
    pub(super) died: Died,
    /// From when on a next process would have found the same durable state.
    pub(super) since: Micros,
    pub(super) resumed: Micros,
}

/// In what the process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Died {
    /// In the attempt with this ordinal, from 1.
    Model { attempt: usize },
    /// In an execution.
    Tool {
        call: Call,
        /// Position in [`Script::runs`].
        run: usize,
        /// Checkpoints of pending batches written until then.
        pending_saves: u32,
    },
}

/// What was dispatched last.
#[derive(Debug)]
struct Running {
    from: Micros,
    /// The call that took longest, with its latency; a batch's whole time is put on it.
    slowest: Option<(u32, Micros)>,
    calls: Vec<u32>,
}

impl Script {
    /// Whether any vector can hold it.
    pub(super) fn expressible(&self) -> Result<(), NoVector> {
        let left_out = |reason| Err(NoVector::LeftOut(reason));
        if self.kills.iter().any(|kill| kill.resumed == Micros::MIN) {
            return left_out(LeftOut::TailLoss);
        }
        if self.requests_repeat {
            return left_out(LeftOut::TransportRetries);
        }
        let changes = |results: &Vec<CallResult>| results.iter().any(|other| *other != results[0]);
        if self.results.values().any(changes) {
            return left_out(LeftOut::UnstableResult);
        }
        Ok(())
    }

    /// What a call brought; `None` if it never ran.
    pub(super) fn result(&self, call: &Call) -> Option<&CallResult> {
        self.results
            .get(&call.id)
            .and_then(|results| results.first())
    }

    /// The permission policy denies the call.
    pub(super) fn is_denied(&self, call: &Call) -> bool {
        call.denied
            || self
                .result(call)
                .is_some_and(|result| result.status == CallStatus::Denied)
    }

    fn dispatched(&mut self, now: Micros) {
        self.running = Some(Running {
            from: now,
            slowest: None,
            calls: Vec::new(),
        });
    }

    /// The batch or call that was dispatched last is done.
    fn settle(&mut self, now: Micros) {
        let Some(running) = self.running.take() else {
            return;
        };
        for call in &running.calls {
            let from = running.from;
            self.latencies.insert(*call, Span { from, to: from });
        }
        if let Some((slowest, _)) = running.slowest {
            let span = Span {
                from: running.from,
                to: now,
            };
            self.latencies.insert(slowest, span);
        }
    }
}

impl Observer for Script {
    const ACTIVE: bool = true;

    fn decided(&mut self, _decision: Decision) {}
}

impl Witness for Script {
    fn acted(&mut self, now: Micros, action: &Action, books: &Books<'_>) {
        self.settle(now);
        match action {
            Action::CallModel(_) => self.requested = now,
            Action::RunCall { index, .. } => {
                if *index == 0 {
                    self.batches.push(Batch {
                        calls: Vec::new(),
                        parallel: false,
                    });
                }
                self.dispatched(now);
            }
            Action::RunBatch { .. } => {
                self.batches.push(Batch {
                    calls: Vec::new(),
                    parallel: true,
                });
                self.dispatched(now);
            }
            Action::Save(CheckpointKind::ToolPending) => {
                self.pending_saves += 1;
                self.pending_since = now;
            }
            Action::Finish(ending) => {
                self.ending = Some(*ending);
                self.counters = *books.counters;
                self.ledger = books.ledger;
            }
            _ => {}
        }
    }

    fn estimated(&mut self, tokens: f64) {
        self.estimates.push(tokens);
    }

    fn replied(&mut self, now: Micros, request: &ModelRequest, reply: &Reply, calls: &[Call]) {
        self.requests_repeat |= reply.requests > 1;
        self.attempts.push(Attempt {
            request: *request,
            span: Span {
                from: self.requested,
                to: now,
            },
            outcome: reply.outcome,
            told: reply.told,
            cost: reply.told_cost,
            calls: calls.to_vec(),
            lost: false,
        });
        self.in_flight = Some(Died::Model {
            attempt: self.attempts.len(),
        });
    }

    fn ran(&mut self, _now: Micros, call: &Call, ran: &Ran, recovered: bool) {
        if !recovered && ran.result.status != CallStatus::Denied {
            self.runs.push(*call);
        }
        self.results.entry(call.id).or_default().push(ran.result);
        if let Some(running) = &mut self.running {
            running.calls.push(call.id);
            let is_slower = |(_, longest): (u32, Micros)| ran.latency > longest;
            if running.slowest.is_none_or(is_slower) {
                running.slowest = Some((call.id, ran.latency));
            }
        }
        if let Some(batch) = self.batches.last_mut() {
            batch.calls.push(*call);
        }
        self.in_flight = Some(Died::Tool {
            call: *call,
            run: self.runs.len().saturating_sub(1),
            pending_saves: self.pending_saves,
        });
    }

    fn killed(&mut self, now: Micros) {
        self.running = None;
        let Some(died) = self.in_flight else { return };
        let since = match died {
            Died::Model { attempt } => {
                self.attempts[attempt - 1].lost = true;
                self.attempts[attempt - 1].span.from
            }
            Died::Tool { .. } => self.pending_since,
        };
        self.kills.push(Kill {
            died,
            since,
            resumed: now,
        });
    }

    fn resumed(&mut self, now: Micros, resumption: &Resumption<'_>) {
        if let Some(kill) = self.kills.last_mut() {
            // A loss of the newest durable item is no vector; no time stands for it.
            kill.resumed = if resumption.tail_lost {
                Micros::MIN
            } else {
                now
            };
        }
    }
}
