//! The rules of `run_limits`, each with its comparison and its source.
//!
//! Sections are those of the description of the reference loop (ADR-0078 as amended by ADR-0115).

use serde::{Deserialize, Serialize};

/// A rule of `run_limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rule {
    /// S1, S8.
    Token,
    /// Section 8.
    DispatchToken,
    /// Section 4, scope `step`.
    BeforeStep,
    /// Section 4, scope `attempt`.
    BeforeAttempt,
    /// Section 5.
    AfterRecording,
    /// Section 3.1.
    ToolCallsExhausted,
    /// Section 3.3.
    StepsReserve,
    /// Section 3.4.
    ModelCallsReserve,
    /// Section 3.5.
    ToolCallsReserve,
    /// Section 3.6.
    CostReserve,
    /// Variant `crossing_turn = "refuse_then_synthesize"`.
    CrossingTurnRefused,
    /// Variant `crossing_turn = "run_then_synthesize"`.
    CrossingTurnRun,
    /// Variant `reserve_tool_allowance`.
    ReserveToolAllowance,
    /// Variant `answer_over_cap = "keep"`.
    AnswerKept,
    /// S12.
    IdenticalCalls,
    /// S13.
    BatchFit,
    /// S21.
    IdenticalDenials,
    /// A5, A7.
    AttemptsLeft,
    /// A5.
    OutputProduced,
    /// A5.
    PermanentError,
    /// A5.
    ProtocolError,
    /// A7.
    EmptyTurn,
    /// S7.
    ProviderCancelled,
    /// S10.
    Answer,
    /// Section 11.4.
    StoredState,
}

impl Rule {
    /// One sentence that says what is compared with what.
    pub const fn describe(self) -> &'static str {
        match self {
            Rule::Token => {
                "the run is cancelled once the time is at or past the deadline, or on request; looked at before a step and after a completed turn"
            }
            Rule::DispatchToken => {
                "a batch is cancelled once the time is at or past the deadline; looked at before and after a parallel batch, and around each call of another"
            }
            Rule::BeforeStep => {
                "no step starts at or past the deadline, or when the cost or the steps used have reached their limit"
            }
            Rule::BeforeAttempt => {
                "no attempt starts at or past the deadline, or when cost, model calls or tokens used have reached their limit"
            }
            Rule::AfterRecording => {
                "the run fails once a recorded total is above its limit; reaching it is fine"
            }
            Rule::ToolCallsExhausted => {
                "no tool calls are left, which owes the run a final answer whatever its reserves are"
            }
            Rule::StepsReserve => {
                "the steps left, the current one included, are not more than their reserve"
            }
            Rule::ModelCallsReserve => "the model calls left are not more than their reserve",
            Rule::ToolCallsReserve => "the tool calls left are not more than their reserve",
            Rule::CostReserve => "the money left is not more than its reserve",
            Rule::CrossingTurnRefused => {
                "the turn's own usage brought the budget to its reserve: its calls are refused and the next request asks for the answer"
            }
            Rule::CrossingTurnRun => {
                "the turn's own usage brought the budget to its reserve: its calls run and the next request asks for the answer"
            }
            Rule::ReserveToolAllowance => {
                "calls that may run inside the reserve, against those that did"
            }
            Rule::AnswerKept => {
                "the cost is above its limit, but what crossed it is the final answer, which is kept"
            }
            Rule::IdenticalCalls => {
                "the same call, by name and raw argument text, was proposed this many times"
            }
            Rule::BatchFit => {
                "a batch runs as far as tool calls are left; the rest of it is refused"
            }
            Rule::IdenticalDenials => {
                "the same denial, by tool, arguments and reason, happened this many times"
            }
            Rule::AttemptsLeft => {
                "a failed or empty attempt is made again while the step has attempts left"
            }
            Rule::OutputProduced => {
                "an attempt that fails after it produced output is not made again"
            }
            Rule::PermanentError => "a permanent provider error ends the run",
            Rule::ProtocolError => "an answer that breaks the protocol ends the run",
            Rule::EmptyTurn => "the last attempt of the step brought neither text nor calls",
            Rule::ProviderCancelled => "the provider reports that the request was cancelled",
            Rule::Answer => "a turn without calls is the final answer",
            Rule::StoredState => {
                "the tool calls recorded since the checkpoint are neither none nor its pending batch"
            }
        }
    }
}
