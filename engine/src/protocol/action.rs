//! What the engine asks of a driver.

use serde::{Deserialize, Serialize};

use super::{Limiter, Micros};

/// The next thing to do. The event that answers it is named with each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Estimate the size of the next request in tokens. Answer: `PromptEstimated`.
    EstimatePrompt,
    /// Send a request to the model. Answer: `ModelDone` or `ModelFailed`, after any number of
    /// `UsageReported`.
    CallModel(ModelRequest),
    /// After `UsageReported`: go on reading the stream. Answer: as `CallModel`.
    ContinueStream,
    /// After `UsageReported`: stop reading. Answer: `ModelFailed` with `Severed`.
    SeverStream,
    /// Wait before a retry. Answer: `Done`, with the clock advanced.
    Wait(Micros),
    /// Run one call of the batch. Answer: `CallDone`.
    RunCall {
        /// Index in [`super::LimitsEngine::calls`].
        index: u32,
        /// After a restart: replay the stored outcome if the call has one.
        recovered: bool,
    },
    /// Run the calls `first..first + count` at the same time. Answer: `BatchDone`.
    RunBatch {
        /// First index in [`super::LimitsEngine::calls`].
        first: u32,
        /// How many calls.
        count: u32,
        /// After a restart: replay stored outcomes of calls that have one.
        recovered: bool,
    },
    /// Validate the arguments of the terminal call and ask the host. Answer: `TerminalJudged`.
    JudgeTerminal {
        /// Index in [`super::LimitsEngine::calls`].
        index: u32,
    },
    /// Put an error result for the calls `first..first + count` into the conversation instead of
    /// running them. Answer: `Done`.
    AnswerCalls {
        /// First index in [`super::LimitsEngine::calls`].
        first: u32,
        /// How many calls.
        count: u32,
        /// What was decided: `Refused`, `Denied` or `Skipped`.
        verdict: super::Verdict,
        /// Which limit decided it.
        limiter: Limiter,
    },
    /// Append a message to the conversation. Answer: `Done`.
    Notify(Notice),
    /// Make [`super::LimitsEngine::counters`] durable. Answer: `Done`.
    Record(Counted),
    /// Make a decision durable before it takes effect. Answer: `Done`.
    Journal(JournalEntry),
    /// Write a checkpoint ([`super::LimitsEngine::save`]) together with the conversation as it
    /// stands. Answer: `Done`.
    Save(CheckpointKind),
    /// The run is over; no event follows.
    Finish(Ending),
}

/// A model call as the engine wants it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Number of the turn (step), from 1.
    pub turn: u32,
    /// Number of the attempt within the turn, from 1.
    pub attempt: u32,
    /// Which tools the request offers.
    pub tools: Tools,
    /// Cap on output tokens to put on the wire, if the policy sets one.
    pub output_cap: Option<u64>,
    /// Silence after which the driver severs the stream, if the policy sets one.
    pub idle_timeout: Option<Micros>,
    /// An instruction for this request alone; it does not join the conversation.
    pub instruction: Option<Instruction>,
}

/// The tools of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tools {
    /// All that the run offers.
    All,
    /// Their descriptions are sent, their use is forbidden.
    Withheld,
    /// None are sent.
    Absent,
    /// Only those that the policy admits to its finalization window.
    WindowOnly,
}

/// An instruction that one request carries and no later one remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instruction {
    /// `run_limits`: write the final answer now from the evidence in context; a tool call fails the
    /// run. Names the dimension whose reserve is entered.
    SynthesisOnly(Limiter),
    /// `usage_limits`: the tool budget is used up, summarise.
    ReserveSummary {
        /// The limiter that expired.
        limiter: Limiter,
        /// What was used of it.
        used: u64,
        /// The limit in force.
        cap: u64,
        /// Calls of the last batch that were skipped.
        skipped: u32,
    },
    /// `usage_limits`: the exposure pool is dry; one last turn.
    Drained {
        /// Some tools are still offered.
        tools_ride: bool,
    },
    /// `caps`: the cap is reached, answer without tools.
    FinalTurn(Limiter),
}

/// A message that joins the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// Part of the tool budget is used.
    Budget {
        /// Calls executed.
        used: u64,
        /// The base cap, grants excluded.
        max: u64,
        /// What is left of the base cap.
        remaining: u64,
        /// The 50% threshold is told with this notice.
        at_50: bool,
        /// The 80% threshold is told with this notice.
        at_80: bool,
    },
    /// A grant raised the cap.
    Extension {
        /// Ordinal of the grant, from 1.
        grant: u64,
        /// How many there can be.
        max_grants: u64,
        /// Calls executed.
        used: u64,
        /// The cap now in force.
        cap: u64,
        /// What is left of it.
        remaining: u64,
        /// The evidence deficit that triggered it.
        deficit: Option<u64>,
    },
    /// The finalization window is entered.
    Window {
        /// What was left on the binding dimension.
        remaining: u64,
        /// The reserve that this reached.
        reserve: u64,
        /// The binding dimension.
        dimension: Limiter,
        /// The evidence deficit, where it widened the reserve.
        deficit: Option<u64>,
    },
    /// A turn without calls, where the run must end with the terminal tool.
    TerminalReprompt {
        /// The turn was cut by its output cap.
        cut: bool,
    },
    /// A final text that does not match the schema.
    SchemaReprompt {
        /// Misses so far.
        attempt: u64,
        /// Retries in all.
        max: u64,
    },
}

/// Which counters changed, for [`Action::Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counted {
    /// A step began.
    Step,
    /// A model call was paid.
    Model,
    /// A batch ran.
    Tools,
}

/// A decision that must be durable before it takes effect (`usage_limits`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JournalEntry {
    /// An extension of the tool budget.
    Grant {
        /// Ordinal of the grant, from 1.
        ordinal: u64,
        /// The cap that it sets.
        cap: u64,
        /// Where it was decided.
        trigger: Limiter,
    },
    /// The finalization window was entered.
    Window {
        /// What was left on the binding dimension.
        remaining: u64,
        /// The reserve that this reached.
        reserve: u64,
        /// The binding dimension.
        dimension: Limiter,
        /// Deficit and minimum, where they widened the reserve.
        widened: Option<(u64, u64)>,
    },
}

/// Why a checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointKind {
    /// `run_limits`: before the first step.
    Seed,
    /// `run_limits`: a turn joined the conversation.
    ModelResponse,
    /// `run_limits`: a fitted batch is about to run.
    ToolPending,
    /// `run_limits`: a batch joined the conversation.
    ToolCall,
    /// `run_limits`: a batch was finished after a restart.
    ToolRecovered,
    /// `run_limits`: the run is over.
    Terminal,
    /// `usage_limits`: within a batch.
    MidBatch {
        /// Calls of the batch that have an answer.
        executed: u32,
        /// Index of the next call.
        awaiting: u32,
        /// Calls after it.
        remaining: u32,
    },
    /// `usage_limits`: a batch or a re-prompt is complete.
    Boundary,
    /// `caps`: a turn is complete.
    Turn,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The family's own status.
    pub status: Status,
    /// The family's own reason; `Completed` where it ended as it should.
    pub reason: Reason,
    /// The limit that ended it, if one did.
    pub limiter: Option<Limiter>,
    /// Where the delivered text is.
    pub output: Output,
}

/// Statuses of all families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    /// `run_limits`, `caps`: ended by a turn without calls or a closing turn, normally an answer.
    Completed,
    /// `run_limits`, `caps`: failed.
    Failed,
    /// `run_limits`, `caps`: cancelled.
    Cancelled,
    /// `usage_limits`: `ok`.
    Ok,
    /// `usage_limits`: `limit`.
    Limit,
    /// `usage_limits`: `error`.
    Error,
    /// `usage_limits`: `cancelled` by its budget.
    Severed,
    /// `usage_limits`: the configuration rejects the run.
    Throws,
    /// `caps`: stopped at a cap with the last text, if any.
    Stopped,
    /// `caps`: ended with a fixed text.
    Canned,
}

/// Where the text that a run delivers comes from. The driver holds the texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Nothing is delivered.
    #[default]
    None,
    /// The text of the last turn.
    TurnText,
    /// The result argument of the accepted terminal call.
    Terminal {
        /// Index in [`super::LimitsEngine::calls`].
        index: u32,
    },
    /// The last text that was not blank, from an earlier turn.
    LastText,
    /// A fixed text of the framework.
    Canned,
}

/// Reasons of all families, each in its family's own word ([`Reason::as_str`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// Ended as it should.
    Completed,
    /// `run_limits`: a hard limit.
    BudgetExceeded,
    /// `run_limits`: a tool call inside a synthesis reserve.
    SynthesisReserve,
    /// `run_limits`: no step left.
    MaxStepsExceeded,
    /// `run_limits`: past the deadline.
    DeadlineExceeded,
    /// `run_limits`: the last attempt of a step failed.
    MaxAttemptsExceeded,
    /// `run_limits`: a permanent or protocol error.
    ModelPermanentError,
    /// `run_limits`: no text and no calls, three times.
    EmptyModelTurn,
    /// `run_limits`: the same call too often.
    ToolLoopDetected,
    /// `run_limits`: the same denial too often.
    RepeatedDenial,
    /// `run_limits`: a stored state that cannot be.
    InternalError,
    /// `run_limits`: cancelled by its deadline.
    CancelledDeadline,
    /// Cancelled on request.
    CancelledRequested,
    /// `usage_limits`, `caps`: the cap on tool calls.
    MaxToolCalls,
    /// `usage_limits`: the weighted tool budget.
    ToolUnits,
    /// `usage_limits`, `caps`: turns.
    MaxTurns,
    /// `usage_limits`, `caps`: wall clock.
    Timeout,
    /// `usage_limits`: turns without calls.
    NoProgress,
    /// `usage_limits`: results that bring nothing new.
    Exploration,
    /// `usage_limits`: a blank text cut at the output cap.
    OutputTruncated,
    /// `usage_limits`: no money before a turn.
    Budget,
    /// `usage_limits`: not even the smallest answer is affordable.
    OutputFloor,
    /// `usage_limits`: the exposure cap.
    Exposure,
    /// `usage_limits`: the exposure pool ran dry.
    ExposureDrained,
    /// `usage_limits`: a transport error that retries did not mend.
    Transport,
    /// `usage_limits`: rate limits that retries did not outlast.
    RateLimit,
    /// `usage_limits`: the final text never matched the schema.
    SchemaMismatch,
    /// `usage_limits`: too few evidence entries.
    EvidenceFloor,
    /// `usage_limits`, `caps`: the model refused.
    Refusal,
    /// The context window was exceeded.
    ContextOverflow,
    /// `usage_limits`: an error that no retry mends.
    Terminal,
    /// `usage_limits`: a configured cap below the model's output floor.
    Configuration,
    /// `caps`: model calls.
    MaxModelCalls,
    /// `caps`: calls of one tool.
    MaxCallsPerTool,
    /// `caps`: money.
    MaxCost,
    /// `caps`: input tokens.
    MaxInputTokens,
    /// `caps`: output tokens.
    MaxOutputTokens,
    /// `caps`: all tokens.
    MaxTotalTokens,
    /// `caps`: a model error.
    ModelError,
    /// `caps`: ended with a fixed text; the limiter says at which cap.
    Canned,
}

impl Reason {
    /// The word used in files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Completed => "completed",
            Reason::BudgetExceeded => "budget_exceeded",
            Reason::SynthesisReserve => "synthesis_reserve",
            Reason::MaxStepsExceeded => "max_steps_exceeded",
            Reason::DeadlineExceeded => "deadline_exceeded",
            Reason::MaxAttemptsExceeded => "max_attempts_exceeded",
            Reason::ModelPermanentError => "model_permanent_error",
            Reason::EmptyModelTurn => "empty_model_turn",
            Reason::ToolLoopDetected => "tool_loop_detected",
            Reason::RepeatedDenial => "repeated_denial",
            Reason::InternalError => "internal_error",
            Reason::CancelledDeadline => "cancelled_deadline",
            Reason::CancelledRequested => "cancelled_requested",
            Reason::MaxToolCalls => "max_tool_calls",
            Reason::ToolUnits => "tool_units",
            Reason::MaxTurns => "max_turns",
            Reason::Timeout => "timeout",
            Reason::NoProgress => "no_progress",
            Reason::Exploration => "exploration",
            Reason::OutputTruncated => "output_truncated",
            Reason::Budget => "budget",
            Reason::OutputFloor => "output_floor",
            Reason::Exposure => "exposure",
            Reason::ExposureDrained => "exposure_drained",
            Reason::Transport => "transport",
            Reason::RateLimit => "rate_limit",
            Reason::SchemaMismatch => "schema_mismatch",
            Reason::EvidenceFloor => "evidence_floor",
            Reason::Refusal => "refusal",
            Reason::ContextOverflow => "context_overflow",
            Reason::Terminal => "terminal",
            Reason::Configuration => "configuration",
            Reason::MaxModelCalls => "max_model_calls",
            Reason::MaxCallsPerTool => "max_calls_per_tool",
            Reason::MaxCost => "max_cost",
            Reason::MaxInputTokens => "max_input_tokens",
            Reason::MaxOutputTokens => "max_output_tokens",
            Reason::MaxTotalTokens => "max_total_tokens",
            Reason::ModelError => "model_error",
            Reason::Canned => "canned",
        }
    }
}
