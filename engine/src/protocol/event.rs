//! What a driver reports to the engine.

use serde::{Deserialize, Serialize};

use super::{Call, CallResult, Micros};
use crate::Money;

/// What happened since the last action. Each action names the event that answers it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A new or resumed run begins.
    Start,
    /// Answers `EstimatePrompt`: the size of the next request, in tokens.
    PromptEstimated(f64),
    /// While `CallModel` is in flight: usage of this attempt so far. The engine answers with
    /// `ContinueStream` or `SeverStream`. Optional; a driver without streaming never sends it.
    UsageReported(Usage, Money),
    /// Answers `CallModel`: the model completed a turn.
    ModelDone(ModelTurn<'a>),
    /// Answers `CallModel`: the attempt failed.
    ModelFailed(Fault),
    /// Answers `RunCall`.
    CallDone(CallResult),
    /// Answers `RunBatch`: one result a call, in batch order.
    BatchDone(&'a [CallResult]),
    /// Answers `JudgeTerminal`: whether the host accepts the terminal call.
    TerminalJudged(bool),
    /// Answers every other action: it is done.
    Done,
}

/// Token usage of one model call. `input` includes cached and cache-write tokens, `output` includes
/// reasoning tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Input tokens read from the provider's cache.
    pub cached: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Reasoning tokens; `None` where the provider does not tell.
    pub reasoning: Option<u64>,
}

/// The text of a turn, as far as the engine cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Text {
    /// No text, or an empty one.
    #[default]
    Absent,
    /// White space only.
    Blank,
    /// Something to read.
    Content,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finish {
    /// It was done.
    #[default]
    Stop,
    /// The output cap cut it.
    Length,
    /// It refused.
    Refusal,
    /// The context window was exceeded.
    ContextOverflow,
    /// The provider reports a cancelled request.
    Cancelled,
}

/// A completed model turn.
#[derive(Clone, Copy, Debug)]
pub struct ModelTurn<'a> {
    /// What it used.
    pub usage: Usage,
    /// What it cost.
    pub cost: Money,
    /// Its text.
    pub text: Text,
    /// The tool calls it proposes, in source order.
    pub calls: &'a [Call],
    /// Why it stopped.
    pub finish: Finish,
    /// In a schema-typed run: the text holds a valid value of the schema. False elsewhere.
    pub typed: bool,
}

/// The kinds of failed attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// A provider error that is worth a retry.
    Transient,
    /// A rate limit; the provider may say when to come back.
    RateLimit {
        /// Microseconds to wait, if told.
        retry_after: Option<Micros>,
    },
    /// A provider error that no retry mends.
    Permanent,
    /// An answer that breaks the protocol.
    Protocol,
    /// The stream fell silent for the idle timeout and the driver severed it.
    Idle,
    /// The stream stopped without an end.
    Cut,
    /// The engine answered a usage report with `SeverStream` and the driver did so, or the stream
    /// ended at a debit that crossed the ceiling.
    Severed,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// Some output had been received before.
    pub produced_output: bool,
    /// What the provider reported as used, if it reported anything.
    pub usage: Option<Usage>,
    /// What the attempt cost; zero without usage.
    pub cost: Money,
}
