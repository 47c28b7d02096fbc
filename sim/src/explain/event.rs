//! What happens in a run, as data. The field names of the serialised form are stable.

use holdback_engine::Money;
use holdback_engine::protocol::Micros;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Something that happened, with the books behind it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Event {
    /// Simulated time since the start of the run; for model and tool calls, when they began.
    #[serde(rename = "at_s", serialize_with = "seconds")]
    pub at: Micros,
    /// What provider and tools have charged up to and including this event.
    #[serde(rename = "billed_usd")]
    pub billed: Money,
    /// What the engine has recorded once it had taken note of this event.
    #[serde(rename = "ledger_usd")]
    pub ledger: Money,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A request was sent and answered, or lost.
    ModelCall(Box<ModelCall>),
    /// A proposed call ran, or was answered without running.
    ToolCall(ToolCall),
    /// The engine decided something.
    Decision(Decided),
    /// A message joined the conversation.
    Notice(Message),
    /// A decision was made durable before it took effect.
    Journal(Message),
    /// A checkpoint was written.
    Checkpoint(Message),
    /// Counters were made durable.
    Record(Recorded),
    /// The run waited before a retry.
    Wait {
        /// For how long.
        #[serde(rename = "wait_s", serialize_with = "seconds")]
        pause: Micros,
    },
    /// The process died.
    Kill {
        /// In a `model_call` or a `tool_call`: the one before this event, whose result is lost.
        during: &'static str,
    },
    /// The process was restarted.
    Resume(Resumed),
    /// The run ended.
    End(End),
}

/// One attempt of a turn.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ModelCall {
    /// Number of the turn (step), from 1.
    pub turn: u32,
    /// Number of the attempt within the turn, from 1.
    pub attempt: u32,
    /// Ordinal of the request in the run, from 1, retries and lost ones included.
    pub request: u64,
    /// Requests that the attempt took; more than 1 where the transport retries.
    pub requests: u32,
    /// `all`, `withheld`, `absent` or `window_only`.
    pub tools: &'static str,
    /// Cap on output tokens put on the wire.
    pub output_cap: Option<u64>,
    /// The engine's estimate of the request, where it asked for one.
    pub estimated_tokens: Option<f64>,
    /// The instruction that this request alone carried.
    pub instruction: Option<Message>,
    /// Messages that joined the conversation since the last completed turn.
    pub notices: Vec<Message>,
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Input tokens read from the cache.
    pub cached_tokens: u64,
    /// Input tokens written to the cache.
    pub cache_write_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Reasoning tokens, where the provider tells.
    pub reasoning_tokens: Option<u64>,
    /// What the provider charged.
    pub cost_usd: Money,
    /// What the engine was told as cost.
    pub reported_cost_usd: Money,
    /// False if the engine was told nothing about tokens.
    pub usage_reported: bool,
    /// How long the attempt took.
    #[serde(rename = "latency_s", serialize_with = "seconds")]
    pub latency: Micros,
    /// How it ended: `answer`, `calls`, `blank`, `empty`, `cut`, `fault`, `context_overflow`.
    pub ended: &'static str,
    /// The kind of fault, where it ended in one.
    pub fault: Option<&'static str>,
    /// The calls that the turn proposes.
    pub calls: Vec<Proposed>,
    /// The process died before the engine saw the reply.
    pub lost: bool,
}

/// A proposed call.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Proposed {
    /// The call's number in the run, in the order of proposals, from 0.
    pub call: u32,
    /// The tool's name.
    pub tool: String,
}

/// What became of a proposed call.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ToolCall {
    /// The call's number in the run, in the order of proposals, from 0.
    pub call: u32,
    /// The tool's name.
    pub tool: String,
    /// `succeeded`, `failed` or `denied` for a call that was run; `refused`, `denied` or `skipped`
    /// for one that the engine answered; `accepted` or `rejected` for a terminal call.
    pub verdict: &'static str,
    /// What limit answered it, where the engine did.
    pub limiter: Option<&'static str>,
    /// How long it ran.
    #[serde(rename = "latency_s", serialize_with = "seconds")]
    pub latency: Micros,
    /// What the tool charged.
    pub cost_usd: Money,
    /// Whether its result was new to the run; null where it brought none.
    pub new_result: Option<bool>,
    /// Its stored outcome was taken over after a restart; nothing ran.
    pub stored: bool,
    /// It had run before in this run.
    pub again: bool,
    /// The process died before its result was stored.
    pub lost: bool,
}

/// A decision of the engine.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Decided {
    /// What was decided.
    pub verdict: &'static str,
    /// The limit that decided it.
    pub limiter: &'static str,
    /// The rule by name, such as `run_limits.cost_reserve`.
    pub rule: String,
    /// The number on the left of the comparison: what is used, spent or left.
    pub left: Amount,
    /// The number on its right: the limit, the reserve or the threshold.
    pub right: Amount,
    /// The rule as a sentence.
    pub sentence: &'static str,
    /// The call concerned.
    pub call: Option<u32>,
    /// The tool of the call concerned.
    pub tool: Option<String>,
}

/// A number that a rule compares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// No number is compared.
    None,
    /// A limit that nothing reaches.
    Unlimited,
    /// A count.
    Count(i64),
    /// Exact money.
    Money(Money),
    /// Money in the doubles of `usage_limits`.
    Usd(f64),
    /// Time.
    Time(Micros),
}

impl Serialize for Amount {
    /// Counts, seconds and doubles as numbers, exact money as a decimal text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::None => serializer.serialize_none(),
            Amount::Unlimited => serializer.serialize_str("unlimited"),
            Amount::Count(count) => serializer.serialize_i64(*count),
            Amount::Money(money) => money.serialize(serializer),
            Amount::Usd(usd) => serializer.serialize_f64(*usd),
            Amount::Time(time) => seconds(time, serializer),
        }
    }
}

/// A message, an instruction, a journal entry or a checkpoint: its kind and its numbers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Message {
    /// What it is.
    pub kind: &'static str,
    /// The limit that it names.
    pub limiter: Option<&'static str>,
    /// Its numbers, by name.
    pub numbers: Numbers,
}

/// Numbers by name, in the order in which they are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(pub Vec<(&'static str, u64)>);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, number) in &self.0 {
            map.serialize_entry(name, number)?;
        }
        map.end()
    }
}

/// Counters as they were made durable.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Recorded {
    /// What was counted: `step`, `model` or `tools`.
    pub counted: &'static str,
    /// Steps begun.
    pub steps: i64,
    /// Model calls recorded.
    pub model_calls: i64,
    /// Tool calls recorded.
    pub tool_calls: i64,
    /// Input tokens recorded.
    pub input_tokens: u64,
    /// Output tokens recorded.
    pub output_tokens: u64,
    /// Money recorded.
    pub cost_usd: Money,
}

/// How a process took up the run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Resumed {
    /// `checkpoint`, or `beginning` where none was found.
    pub from: &'static str,
    /// The newest durable item was lost with the process.
    pub tail_lost: bool,
    /// Time from the kill to the restart.
    #[serde(rename = "downtime_s", serialize_with = "seconds")]
    pub downtime: Micros,
    /// The calls that are taken up again.
    pub calls: Vec<Proposed>,
}

/// How the engine ended the run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct End {
    /// The family's own status.
    pub status: &'static str,
    /// The family's own reason.
    pub reason: &'static str,
    /// The limit that ended it, if one did.
    pub limiter: Option<&'static str>,
    /// Where the delivered text is: `none`, `turn_text`, `terminal`, `last_text` or `canned`.
    pub output: &'static str,
}

/// Microseconds as seconds.
pub(super) fn seconds<S: Serializer>(time: &Micros, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*time as f64 / 1e6)
}
