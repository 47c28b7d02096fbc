//! What is known of one run when it has ended.

use holdback_engine::Money;
use holdback_engine::protocol::{Limiter, Micros, Reason};
use serde::{Deserialize, Serialize};

/// How a run is judged, exclusively and exhaustively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The family's own good ending, with a text or terminal result that is neither blank nor cut.
    Answered,
    /// Other non-blank text was delivered.
    Partial,
    /// Everything else.
    Unanswered,
}

impl Outcome {
    /// The word used in files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Partial => "partial",
            Outcome::Unanswered => "unanswered",
        }
    }
}

/// Why a run has its outcome: the family's own reason, or one that only the judge knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The engine's reason.
    Engine(Reason),
    /// The engine took a blank text for an answer.
    EmptyAnswer,
    /// The text was cut by an output cap.
    Truncated,
    /// A framework's fixed text stands where an answer should be.
    Canned,
    /// Replay: the recorded run itself ends without an answer.
    RecordedWithoutAnswer,
    /// No limit ended it: stopped after 10,000 model requests.
    Endless,
}

impl Cause {
    /// The word used in files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Engine(reason) => reason.as_str(),
            Cause::EmptyAnswer => "empty_answer",
            Cause::Truncated => "truncated",
            Cause::Canned => "canned",
            Cause::RecordedWithoutAnswer => "recorded_without_answer",
            Cause::Endless => "endless",
        }
    }
}

/// The measures of one run. Definitions: design section 4, repeated at each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The judged outcome.
    pub outcome: Outcome,
    /// Why.
    pub cause: Cause,
    /// The limit that ended the run, if one did.
    pub limiter: Option<Limiter>,
    /// Turns (steps) begun.
    pub steps: u64,
    /// Model requests sent, retries and lost ones included.
    pub model_calls: u64,
    /// Tool executions in the world, repeated ones included.
    pub tool_calls: u64,
    /// Tool batches of which at least one call was run.
    pub tool_batches: u64,
    /// Messages that joined the conversation: turns, results, notices.
    pub messages: u64,
    /// Calls not fitted, refused by a window, or trimmed by a cap.
    pub refused_calls: u64,
    /// Calls skipped with a typed answer, dropped, or left unanswered.
    pub skipped_calls: u64,
    /// Calls denied by the permission policy or a guard.
    pub denied_calls: u64,
    /// Novel results in the conversation at the end.
    pub evidence: u64,
    /// Evidence entries recorded in the conversation at the end.
    pub evidence_entries: u64,
    /// Results that no later billed request carried.
    pub unread_results: u64,
    /// What provider and tools charged, lost and repeated work included.
    pub billed: Money,
    /// What the engine has recorded.
    pub ledger: Money,
    /// max(0, already spent + billed - money cap); `None` where there is no cap anywhere.
    pub overspend: Option<Money>,
    /// max(0, cap - ledger) at the end; `None` where there is no cap anywhere.
    pub reserve_left: Option<Money>,
    /// A synthesis reserve was violated (`run_limits`).
    pub reserve_violation: bool,
    /// Times that the process died.
    pub kills: u64,
    /// Calls executed again after a restart.
    pub repaid_calls: u64,
    /// What work executed again after a restart was charged.
    pub repaid: Money,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes written to checkpoints: context tokens times 4 at each write, an estimate.
    pub checkpoint_bytes: u64,
    /// Input tokens over all requests, cached ones included.
    pub input_tokens: u64,
    /// Input tokens read from the cache.
    pub cached_tokens: u64,
    /// Input tokens written to the cache.
    pub written_tokens: u64,
    /// Output tokens over all requests, reasoning included.
    pub output_tokens: u64,
    /// Reasoning tokens over all requests.
    pub reasoning_tokens: u64,
    /// Simulated time from start to end.
    pub duration: Micros,
    /// The run ended after the policy's deadline or time limit.
    pub late: bool,
    /// The largest single model call, for the structural bound of the overspend.
    pub largest_call: Money,
    /// The largest charge of a single tool call, for the same bound.
    pub largest_tool_cost: Money,
    /// Nothing that the policy did could be noticed by the model: no control, notice, refusal, denial,
    /// withheld tool, cut turn or kill. Such a run goes as it would go without any engine.
    pub untouched: bool,
    /// Rare events that happened.
    pub seen: Seen,
}

impl Default for RunRecord {
    /// A run that has not begun.
    fn default() -> RunRecord {
        RunRecord {
            outcome: Outcome::Unanswered,
            cause: Cause::EmptyAnswer,
            limiter: None,
            steps: 0,
            model_calls: 0,
            tool_calls: 0,
            tool_batches: 0,
            messages: 0,
            refused_calls: 0,
            skipped_calls: 0,
            denied_calls: 0,
            evidence: 0,
            evidence_entries: 0,
            unread_results: 0,
            billed: Money::ZERO,
            ledger: Money::ZERO,
            overspend: None,
            reserve_left: None,
            reserve_violation: false,
            kills: 0,
            repaid_calls: 0,
            repaid: Money::ZERO,
            checkpoints: 0,
            checkpoint_bytes: 0,
            input_tokens: 0,
            cached_tokens: 0,
            written_tokens: 0,
            output_tokens: 0,
            reasoning_tokens: 0,
            duration: 0,
            late: false,
            largest_call: Money::ZERO,
            largest_tool_cost: Money::ZERO,
            untouched: true,
            seen: Seen::default(),
        }
    }
}

/// A set of [`Event`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen(pub u64);

impl Seen {
    /// Marks an event as seen.
    pub fn mark(&mut self, event: Event) {
        self.0 |= 1 << event as u32;
    }

    /// Marks an event as seen or not seen.
    pub fn set(&mut self, event: Event, seen: bool) {
        self.0 = self.0 & !(1 << event as u32) | (u64::from(seen) << event as u32);
    }

    /// Whether the event was seen.
    pub fn has(self, event: Event) -> bool {
        self.0 & (1 << event as u32) != 0
    }
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident => $word:literal),+ $(,)?) => {
        /// Rare events of a run that a campaign counts, so that it knows what it has exercised.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Event { $($(#[$doc])* $name),+ }

        impl Event {
            /// All events, in the order in which they are reported.
            pub const ALL: &'static [Event] = &[$(Event::$name),+];

            /// The word used in files and reports.
            pub const fn as_str(self) -> &'static str {
                match self { $(Event::$name => $word),+ }
            }
        }
    };
}

events! {
    /// A request carried an instruction to answer now.
    SynthesisAnnounced => "synthesis_announced",
    /// A synthesis reserve was violated by a turn whose request carried the instruction.
    ViolationAnnounced => "violation_announced",
    /// A synthesis reserve was violated by a turn that had not been told.
    ViolationUnannounced => "violation_unannounced",
    /// A batch was trimmed or a call refused.
    CallRefused => "call_refused",
    /// A finalization window was entered.
    WindowEntered => "window_entered",
    /// An extension of the tool budget was granted.
    GrantGiven => "grant_given",
    /// A budget notice was given.
    BudgetNotice => "budget_notice",
    /// A summary turn was made.
    SummaryTurn => "summary_turn",
    /// A request without tools was answered with calls.
    ToolCallInClosingTurn => "tool_call_in_closing_turn",
    /// A request with an instruction to finish was answered with nothing.
    EmptyClosingTurn => "empty_closing_turn",
    /// The process died during a model call.
    KillInModelCall => "kill_in_model_call",
    /// The process died within a batch.
    KillMidBatch => "kill_mid_batch",
    /// A restart found its newest durable item gone.
    ResumeAfterTailLoss => "resume_after_tail_loss",
    /// A turn was cut at an output cap.
    TruncatedTurn => "truncated_turn",
    /// A request did not fit the context window.
    ContextOverflow => "context_overflow",
    /// A request was priced above the long-context threshold.
    LongContext => "long_context",
    /// A cost spike multiplied a turn's output.
    CostSpike => "cost_spike",
    /// An attempt was made again.
    Retry => "retry",
    /// A rate limit refused a request.
    RateLimited => "rate_limited",
    /// The stream fell silent.
    Stall => "stall",
    /// A repetition guard or threshold fired.
    RepetitionStopped => "repetition_stopped",
    /// A call was denied.
    CallDenied => "call_denied",
    /// A money cap was passed.
    Overspent => "overspent",
    /// A paid answer was discarded because it crossed a limit.
    AnswerDiscarded => "answer_discarded",
    /// The engine's ledger and the bill differ.
    LedgerDiffers => "ledger_differs",
    /// The deadline or time limit ended the run.
    DeadlineHit => "deadline_hit",
    /// The output cap was lowered to what is affordable.
    OutputClamped => "output_clamped",
}
