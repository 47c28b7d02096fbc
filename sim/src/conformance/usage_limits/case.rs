//! A recorded case as it is written in the vectors.

use std::collections::BTreeMap;

use holdback_engine::protocol::{Call, ToolId};
use holdback_engine::signature;
use holdback_engine::usage_limits::limits::{
    Budget, EvidenceContract, Exposure, ExposureWait, ModelCaps, SchemaRun, TerminalTool,
};
use holdback_engine::usage_limits::{Config, PriceSource, Prices, Settings, UsageLimits};
use serde::Deserialize;
use serde_json::Value;

/// One case: limits, a script, and what the reference did with them (`expect` is compared apart).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    pub(super) limits: Value,
    pub(super) resume_limits: Option<Value>,
    pub(super) budget: Option<BudgetSpec>,
    pub(super) evidence_contract: Option<EvidenceSpec>,
    pub(super) terminal_tool: Option<TerminalSpec>,
    pub(super) tools: Vec<String>,
    pub(super) script: Vec<Entry>,
    #[serde(default)]
    pub(super) tool_results: BTreeMap<String, ToolOutcome>,
    #[serde(default)]
    pub(super) kills: Vec<Kill>,
    #[serde(default)]
    pub(super) policy_deny: Vec<String>,
    #[serde(default)]
    pub(super) caps: CapsSpec,
    pub(super) retry_attempts: Option<u32>,
    #[serde(default)]
    pub(super) schema: bool,
    pub(super) schema_retry_attempts: Option<u64>,
    pub(super) exposure_wait: Option<Value>,
    #[serde(default)]
    pub(super) estimates: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BudgetSpec {
    ceiling_usd: Option<f64>,
    #[serde(default)]
    already_spent_usd: f64,
    prices: Option<PriceSpec>,
    exposure_cap_usd: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PriceSpec {
    input_per_mtok: f64,
    output_per_mtok: f64,
    cache_read_per_mtok: Option<f64>,
    cache_write_per_mtok: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EvidenceSpec {
    pub(super) min_entries: u64,
    enforce: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TerminalSpec {
    pub(super) name: String,
    #[serde(default)]
    pub(super) reject_ids: Vec<String>,
    #[serde(default)]
    repair_turn_reserve: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CapsSpec {
    min_output_tokens_per_turn: Option<u64>,
    max_output_tokens: Option<u64>,
}

/// What the model does in one attempt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) calls: Vec<ScriptCall>,
    pub(super) usage: Option<UsageSpec>,
    #[serde(default)]
    pub(super) gaps_ms: Vec<i64>,
    pub(super) fault: Option<String>,
    pub(super) retry_after_ms: Option<i64>,
    #[serde(default)]
    pub(super) usage_mid: bool,
    pub(super) finish: Option<String>,
}

impl Entry {
    /// What follows the end of a script, for ever.
    pub(super) fn past_the_end() -> Entry {
        Entry {
            text: Some("(end)".to_owned()),
            calls: Vec::new(),
            usage: Some(UsageSpec {
                input_tokens: 10,
                output_tokens: 5,
                cache_read_tokens: 0,
                cache_write_tokens: 0,
            }),
            gaps_ms: Vec::new(),
            fault: None,
            retry_after_ms: None,
            usage_mid: false,
            finish: None,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ScriptCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageSpec {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    #[serde(default)]
    pub(super) cache_read_tokens: u64,
    #[serde(default)]
    pub(super) cache_write_tokens: u64,
}

/// What a tool does with one call, each time it runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolOutcome {
    #[serde(default)]
    pub(super) value: Value,
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) latency_ms: i64,
}

/// When the process dies: at the `n`-th event of its kind, counted over the whole case.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Kill {
    pub(super) at: String,
    pub(super) n: u64,
}

impl Case {
    /// The number of a tool name; names outside the case's list get numbers after it.
    pub(super) fn tool_id(names: &mut Vec<String>, name: &str) -> ToolId {
        let index = names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
        ToolId(u16::try_from(index).unwrap_or(u16::MAX))
    }

    /// The engine's configuration for the first process or for those after a kill.
    pub(super) fn config(&self, resumed: bool, names: &mut Vec<String>) -> Result<Config, String> {
        let live = self.resume_limits.as_ref().filter(|_| resumed);
        let limits = UsageLimits::from_json(live.unwrap_or(&self.limits))
            .map_err(|invalid| format!("limits: {invalid}"))?;
        let model = ModelCaps::default();
        let settings = Settings {
            limits,
            budget: self.budget.map(|budget| self.compiled_budget(budget)),
            evidence: self
                .evidence_contract
                .as_ref()
                .map(|contract| EvidenceContract {
                    min_entries: contract.min_entries,
                    refuse: contract.enforce.as_deref() == Some("refuse"),
                }),
            terminal_tool: self.terminal_tool.as_ref().map(|terminal| TerminalTool {
                repair_turn_reserve: terminal.repair_turn_reserve,
            }),
            schema: self.schema.then(|| {
                self.schema_retry_attempts
                    .map_or_else(SchemaRun::default, |retry_attempts| SchemaRun {
                        retry_attempts,
                    })
            }),
            attempts: self.retry_attempts.unwrap_or(3),
            model: ModelCaps {
                min_output_tokens: self
                    .caps
                    .min_output_tokens_per_turn
                    .unwrap_or(model.min_output_tokens),
                max_output_tokens: self
                    .caps
                    .max_output_tokens
                    .unwrap_or(model.max_output_tokens),
            },
        };
        let offered: Vec<ToolId> = self
            .tools
            .iter()
            .map(|name| Case::tool_id(names, name))
            .collect();
        Ok(Config::compile(&settings, &offered, |name| {
            Case::tool_id(names, name)
        }))
    }

    fn compiled_budget(&self, budget: BudgetSpec) -> Budget {
        let wait = match &self.exposure_wait {
            Some(Value::String(word)) if word == "child" => ExposureWait::Child,
            Some(Value::Bool(true)) => ExposureWait::Others,
            _ => ExposureWait::Never,
        };
        Budget {
            ceiling_usd: budget.ceiling_usd,
            already_spent_usd: budget.already_spent_usd,
            prices: budget.prices.map_or(PriceSource::Unknown, |prices| {
                PriceSource::Priced(Prices {
                    input_per_mtok: prices.input_per_mtok,
                    output_per_mtok: prices.output_per_mtok,
                    cache_read_per_mtok: prices.cache_read_per_mtok,
                    cache_write_per_mtok: prices.cache_write_per_mtok,
                })
            }),
            exposure: budget
                .exposure_cap_usd
                .map(|cap_usd| Exposure { cap_usd, wait }),
        }
    }

    /// A scripted call as the engine sees it.
    pub(super) fn call(&self, id: u32, call: &ScriptCall, names: &mut Vec<String>) -> Call {
        let terminal = self
            .terminal_tool
            .as_ref()
            .is_some_and(|terminal| terminal.name == call.name);
        let raw = call.args.as_ref().map(Value::to_string).unwrap_or_default();
        Call {
            id,
            tool: Case::tool_id(names, &call.name),
            raw_signature: signature::raw(&call.name, &raw),
            canonical_signature: signature::canonical(&call.name, call.args.as_ref()),
            denial_key: signature::denial(&call.name, &raw, "policy"),
            denied: self.offers(&call.name) && self.policy_deny.contains(&call.name),
            parallel: false,
            terminal,
        }
    }

    /// The run knows the tool.
    pub(super) fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool == name)
    }

    /// The host accepts a terminal call: exactly a text `result`, and no id that it rejects.
    pub(super) fn accepts_terminal(&self, call: &ScriptCall) -> bool {
        let rejected = self
            .terminal_tool
            .as_ref()
            .is_some_and(|terminal| terminal.reject_ids.contains(&call.id));
        let valid = only_member(call.args.as_ref(), "result").is_some_and(Value::is_string);
        valid && !rejected
    }
}

/// The value of the single member of an object.
fn only_member<'a>(value: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    let members = value?.as_object()?;
    members.get(name).filter(|_| members.len() == 1)
}

/// The value of the case's schema, `{answer: text}`, that a text holds.
pub(super) fn typed_value(text: &str) -> Option<Value> {
    text.match_indices('{')
        .filter_map(|(at, _)| {
            let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
            values.next()?.ok()
        })
        .next()
        .filter(|value| only_member(Some(value), "answer").is_some_and(Value::is_string))
}

/// The arguments of an ordinary tool: an object whose optional `q` is a text.
pub(super) fn arguments_are_valid(args: Option<&Value>) -> bool {
    let Some(members) = args.and_then(Value::as_object) else {
        return false;
    };
    members.get("q").is_none_or(Value::is_string)
}
