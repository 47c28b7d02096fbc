//! Decisions and their reasons.

use serde::{Deserialize, Serialize};

use super::Micros;
use crate::Money;

/// Listens to the engine's decisions. The engine calls it at the moment of each decision, before it
/// returns the action that follows from it.
pub trait Observer {
    /// False if decisions need not even be put together.
    const ACTIVE: bool = true;

    /// One decision.
    fn decided(&mut self, decision: Decision);

    /// The engine asks whether `used` has reached a threshold of its configuration, whatever the
    /// answer: `threshold` is its place in [`super::Thresholds::thresholds`].
    #[inline]
    fn compared(&self, threshold: usize, used: i128) {
        let _ = (threshold, used);
    }

    /// The engine goes by the value of a threshold, and not only by a comparison with it.
    #[inline]
    fn read(&self, threshold: usize) {
        let _ = threshold;
    }
}

/// Listens to nothing and costs nothing.
impl Observer for () {
    const ACTIVE: bool = false;

    fn decided(&mut self, _decision: Decision) {}
}

/// Keeps all decisions.
impl Observer for Vec<Decision> {
    fn decided(&mut self, decision: Decision) {
        self.push(decision);
    }
}

/// One decision: what was decided, by which rule, on which two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What was decided.
    pub verdict: Verdict,
    /// The limit that decided it.
    pub limiter: Limiter,
    /// The rule, which says how the two numbers are compared.
    pub rule: Rule,
    /// The number on the left of the comparison: what is used, spent or left.
    pub left: Quantity,
    /// The number on its right: the limit, the reserve or the threshold.
    pub right: Quantity,
    /// The call concerned, as an index in [`super::LimitsEngine::calls`].
    pub call: Option<u32>,
}

/// A number that a rule compares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Quantity {
    /// No number is compared.
    None,
    /// A count: steps, calls, tokens, entries.
    Count(i64),
    /// Exact money.
    Money(Money),
    /// Money in the doubles of `usage_limits`.
    Usd(f64),
    /// Time.
    Micros(Micros),
}

/// What a decision decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The call was run.
    Executed,
    /// The call does not fit the budget or the window; the model is told.
    Refused,
    /// A guard or the permission policy denies the call; the model is told.
    Denied,
    /// The call is closed with a typed answer because a budget expired.
    Skipped,
    /// The call gets no answer: the run ended before it.
    Unanswered,
    /// The call is one of a turn that breaks a synthesis reserve.
    Violation,
    /// The call that reached the repetition threshold.
    Loop,
    /// The call was dropped with its turn before it was looked at.
    Dropped,
    /// The call was not run because the run was cancelled during its batch.
    Cancelled,
    /// The terminal call is judged although a limiter is used up.
    TerminalAdmitted,
    /// The terminal call was accepted.
    TerminalAccepted,
    /// The terminal call was rejected.
    TerminalRejected,
    /// An operation (step, attempt, turn, request) is not allowed to start.
    Blocked,
    /// A limit was found exceeded after recording.
    Exceeded,
    /// A control is put into the request.
    Announced,
    /// A grant was given.
    Granted,
    /// A grant was asked for and not given.
    NotGranted,
    /// The finalization window was entered.
    Entered,
    /// The summary turn is not made.
    SummarySkipped,
    /// The summary turn failed.
    SummaryFailed,
    /// The drained turn is not made.
    DrainedSkipped,
    /// The drained turn was made; the left number is its tool calls.
    DrainedSpent,
    /// The output cap on the wire was lowered to what is affordable.
    Clamped,
    /// The attempt is made again.
    Retried,
    /// The run ends.
    Ended,
    /// Something of the configuration or the restored state has no effect.
    Warned,
}

/// Which limit, guard or dimension decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Limiter {
    /// Steps (`run_limits`).
    Steps,
    /// Model calls.
    ModelCalls,
    /// Tool calls (`max_tool_calls`, `maxToolCalls`).
    ToolCalls,
    /// Input tokens.
    InputTokens,
    /// Output tokens.
    OutputTokens,
    /// Input and output tokens.
    TotalTokens,
    /// Money (`max_cost`, the USD ceiling).
    Cost,
    /// Deadline or wall clock.
    Time,
    /// Attempts of one turn.
    Attempts,
    /// Identical calls (`run_limits`), repeated signatures (`usage_limits`).
    IdenticalCalls,
    /// Identical denials.
    IdenticalDenials,
    /// Turns (`maxTurns`, `max_turns`).
    Turns,
    /// Weighted tool budget.
    ToolUnits,
    /// Calls of one tool.
    CallsPerTool,
    /// Results without news.
    NoNewEvidence,
    /// Turns without calls.
    NoProgress,
    /// The finalization window.
    Window,
    /// The exposure cap.
    Exposure,
    /// The model's smallest output.
    OutputFloor,
    /// The evidence contract.
    Evidence,
    /// The permission policy.
    Policy,
    /// The terminal tool.
    TerminalTool,
    /// The schema of the final text.
    Schema,
    /// The context window.
    Context,
    /// A cancellation request.
    Request,
    /// The provider.
    Provider,
}

impl Limiter {
    /// The word used in files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Limiter::Steps => "steps",
            Limiter::ModelCalls => "model_calls",
            Limiter::ToolCalls => "tool_calls",
            Limiter::InputTokens => "input_tokens",
            Limiter::OutputTokens => "output_tokens",
            Limiter::TotalTokens => "total_tokens",
            Limiter::Cost => "cost",
            Limiter::Time => "time",
            Limiter::Attempts => "attempts",
            Limiter::IdenticalCalls => "identical_calls",
            Limiter::IdenticalDenials => "identical_denials",
            Limiter::Turns => "turns",
            Limiter::ToolUnits => "tool_units",
            Limiter::CallsPerTool => "calls_per_tool",
            Limiter::NoNewEvidence => "no_new_evidence",
            Limiter::NoProgress => "no_progress",
            Limiter::Window => "window",
            Limiter::Exposure => "exposure",
            Limiter::OutputFloor => "output_floor",
            Limiter::Evidence => "evidence",
            Limiter::Policy => "policy",
            Limiter::TerminalTool => "terminal_tool",
            Limiter::Schema => "schema",
            Limiter::Context => "context",
            Limiter::Request => "request",
            Limiter::Provider => "provider",
        }
    }
}

/// The rule behind a decision. Each family documents its own: the comparison and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rule {
    /// A rule of `run_limits`.
    RunLimits(crate::run_limits::Rule),
    /// A rule of `usage_limits`.
    UsageLimits(crate::usage_limits::Rule),
    /// A rule of `caps`.
    Caps(crate::caps::Rule),
}

impl Rule {
    /// One sentence that says what is compared with what, for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Rule::RunLimits(rule) => rule.describe(),
            Rule::UsageLimits(rule) => rule.describe(),
            Rule::Caps(rule) => rule.describe(),
        }
    }
}
