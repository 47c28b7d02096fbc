//! What surrounds the engine: a model with its provider, and tools.

mod recorded;
mod scripted;
mod synthetic;
mod twin;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Call, CallResult, FaultKind, Finish, Limiter, Micros, ModelRequest, Notice, Text, Usage,
    Verdict,
};

pub use recorded::{Record, Recorded, RecordedCall, RecordedTurn};
pub use scripted::Scripted;
pub use synthetic::{Compiled, Synthetic};
pub use twin::twin_evidence;

use crate::driver::KillPlan;
use crate::luck::{another, purpose};
use crate::policy::Facts;
use crate::tally::Seen;

/// A model with its provider, and tools.
///
/// The driver owns the clock, the bill and the kills; a world owns the conversation as far as it
/// decides what happens next.
pub trait World: Clone {
    /// What the conversation holds at one point, for going back there after a kill.
    type Mark: Clone + Default;

    /// Begins a run.
    fn start(&mut self, run: u64, facts: &Facts);

    /// When and how the process dies.
    fn kills(&self) -> &KillPlan;

    /// Estimates the next request, in tokens.
    fn estimate(&mut self) -> f64;

    /// The request that is sent now, and those that the transport sends again below the engine.
    fn request(&mut self, request: &ModelRequest, now: Micros, before: Before) -> Reply;

    /// The calls that the last completed turn proposes.
    fn proposed(&self) -> &[Call];

    /// Runs a call. Running it again gives the same result, but other luck of dying behind it.
    fn run(&mut self, call: &Call) -> Ran;

    /// Puts the stored outcome of a call into the conversation instead of running it again.
    fn replay(&mut self, call: &Call, ran: &Ran);

    /// Validates a terminal call and asks the host.
    fn judge(&mut self, call: &Call) -> bool;

    /// The model is told that a call was not run.
    fn answered(&mut self, call: &Call, verdict: Verdict, limiter: Limiter);

    /// A message joins the conversation.
    fn notify(&mut self, notice: &Notice);

    /// The conversation as it stands.
    fn mark(&self) -> Self::Mark;

    /// Goes back to an earlier point of the conversation.
    fn rewind(&mut self, mark: &Self::Mark);

    /// Tokens of the context as the next request would send it.
    fn context_tokens(&self) -> u64;

    /// Novel results in the conversation.
    fn evidence(&self) -> u64;

    /// Evidence entries recorded in the conversation.
    fn evidence_entries(&self) -> u64;

    /// Replay: the record itself has ended without an answer.
    fn ended_without_answer(&self) -> bool {
        false
    }
}

/// What has happened in the run before a request; decides about planned kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Requests sent.
    pub requests: u64,
    /// Times that the process died.
    pub kills: u64,
}

impl Before {
    /// So many kills that no more can follow.
    pub const IMMORTAL: Before = Before {
        requests: 0,
        kills: u64::MAX,
    };
}

/// What came back for a request (all its requests below the engine together).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reply {
    /// How the attempt ended.
    pub outcome: ReplyOutcome,
    /// What the engine is told about usage; `None` where the provider reports nothing.
    pub told: Option<Usage>,
    /// What the engine is told as cost: the usage it is told at the model's plain price, for the
    /// ledgers know no price tiers.
    pub told_cost: Money,
    /// What the provider charges.
    pub billed: Money,
    /// Tokens that the provider charges.
    pub usage: Usage,
    /// The dearest of the requests.
    pub dearest: Money,
    /// Requests sent; more than 1 where the transport retries.
    pub requests: u32,
    /// How long it took.
    pub latency: Micros,
    /// Rare events.
    pub seen: Seen,
    /// The process died behind the last of its requests: billed, not recorded.
    pub died: bool,
    /// Luck of losing the newest durable item, and of how long the restart takes.
    pub tail_word: u32,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// The model completed a turn; its calls are in [`World::proposed`].
    Turn {
        /// Its text.
        text: Text,
        /// Why it stopped.
        finish: Finish,
        /// The text holds a valid value of the schema.
        typed: bool,
    },
    /// The attempt failed.
    Fault {
        /// How.
        kind: FaultKind,
        /// After some output.
        produced_output: bool,
    },
    /// The request did not fit the context window.
    Overflow,
}

/// What a call that ran brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ran {
    /// What the engine is told.
    pub result: CallResult,
    /// How long it took.
    pub latency: Micros,
    /// Luck of dying behind this call, and of losing the newest durable item.
    pub kill_word: u32,
}

/// The luck of dying behind an execution of a call that ran so many times before.
/// `first` is the luck of dying behind its first execution.
fn kill_word(first: u32, ran_before: u32) -> u32 {
    match ran_before {
        0 => first,
        again => another(first, purpose::SECOND_EXECUTION + again - 1),
    }
}

/// A report that tells a multiple of what is true.
fn scaled(usage: Usage, cost: Money, factor: f64) -> (Option<Usage>, Money) {
    if factor == 1.0 {
        return (Some(usage), cost);
    }
    let tokens = |tokens: u64| (tokens as f64 * factor + 0.5) as u64;
    let told = Usage {
        input: tokens(usage.input),
        cached: tokens(usage.cached),
        cache_write: tokens(usage.cache_write),
        output: tokens(usage.output),
        reasoning: usage.reasoning.map(tokens),
    };
    let cost = Money::from_picos((cost.picos() as f64 * factor).round() as i128);
    (Some(told), cost)
}
