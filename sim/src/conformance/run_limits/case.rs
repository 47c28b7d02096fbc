//! A recorded run: what the world does, and what the reference did.

use std::collections::BTreeMap;

use holdback_engine::Money;
use holdback_engine::protocol::Micros;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A run case.
#[derive(Clone, Debug, Deserialize)]
pub(in super::super) struct Case {
    pub(super) limits: Box<RawValue>,
    #[serde(default, rename = "deadline", deserialize_with = "optional_seconds")]
    pub(super) deadline: Option<Micros>,
    pub(super) script: Vec<Attempt>,
    #[serde(default)]
    pub(super) tool_results: BTreeMap<String, ToolResult>,
    #[serde(default)]
    pub(super) kill: Option<Kill>,
    pub(super) expect: Value,
}

/// What one model attempt brings.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Attempt {
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) calls: Vec<ScriptedCall>,
    pub(super) usage: Option<ScriptedUsage>,
    #[serde(default, deserialize_with = "money")]
    pub(super) cost: Money,
    pub(super) fault: Option<ScriptedFault>,
    #[serde(default, rename = "latency_s", deserialize_with = "seconds")]
    pub(super) latency: Micros,
    pub(super) stop: Option<Stop>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ScriptedCall {
    pub(super) id: String,
    pub(super) name: String,
    /// The raw argument text, as the model wrote it.
    pub(super) args: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct ScriptedUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    #[serde(default)]
    pub(super) cached_input_tokens: u64,
    #[serde(default)]
    pub(super) cache_write_input_tokens: u64,
    pub(super) reasoning_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScriptedFault {
    Transient,
    TransientAfterOutput,
    Permanent,
    Protocol,
    /// No failure of the provider: an attempt without text and calls.
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stop {
    Cancelled,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct ToolResult {
    pub(super) status: ToolStatus,
    #[serde(default, rename = "latency_s", deserialize_with = "seconds")]
    pub(super) latency: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolStatus {
    Succeeded,
    Failed,
    Denied,
}

impl ToolStatus {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            ToolStatus::Succeeded => "succeeded",
            ToolStatus::Failed => "failed",
            ToolStatus::Denied => "denied",
        }
    }
}

/// Where the process dies, once.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Kill {
    pub(super) at: KillPoint,
    /// The n-th time that this point is reached.
    pub(super) nth: u32,
    #[serde(default, rename = "downtime_s", deserialize_with = "seconds")]
    pub(super) downtime: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KillPoint {
    /// The attempt is sent, nothing came back.
    ModelInFlight,
    /// The attempt's usage is durable.
    ModelRecorded,
    /// The response's checkpoint is durable.
    ModelResponse,
    /// The pending checkpoint is durable, nothing ran.
    ToolPending,
    /// All fitted calls ran, nothing is recorded.
    Dispatched,
    /// The batch's usage is durable.
    ToolRecorded,
    /// The batch's checkpoint is durable.
    ToolCall,
}

impl KillPoint {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            KillPoint::ModelInFlight => "model_in_flight",
            KillPoint::ModelRecorded => "model_recorded",
            KillPoint::ModelResponse => "model_response",
            KillPoint::ToolPending => "tool_pending",
            KillPoint::Dispatched => "dispatched",
            KillPoint::ToolRecorded => "tool_recorded",
            KillPoint::ToolCall => "tool_call",
        }
    }
}

/// Seconds as a JSON number, to the microsecond.
pub(super) fn micros(seconds: f64) -> Micros {
    (seconds * 1e6).round() as Micros
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Micros, D::Error> {
    f64::deserialize(deserializer).map(micros)
}

pub(super) fn optional_seconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Micros>, D::Error> {
    Option::<f64>::deserialize(deserializer).map(|value| value.map(micros))
}

fn money<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
    decimal(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub(super) fn optional_money<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Money>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        value => decimal(&value).map(Some).map_err(serde::de::Error::custom),
    }
}

/// Money as a decimal text or number.
fn decimal(value: &Value) -> Result<Money, String> {
    match value {
        Value::String(text) => text.parse().map_err(|error| format!("{error}")),
        Value::Number(number) => number
            .to_string()
            .parse()
            .map_err(|error| format!("{error}")),
        other => Err(format!("`{other}` is not an amount of money")),
    }
}
