//! The limits and settings of a policy, and their compiled form.

use std::collections::BTreeMap;

use serde_json::Value;

use super::merge::{DEFAULT_MAX_TURNS, DEFAULT_STREAM_IDLE_TIMEOUT_MS};
use super::usd::PriceSource;
use super::validate::{Invalid, validate};
use crate::protocol::{Micros, ToolId};

/// One `UsageLimits` object, field by field as the reference has it. Counts above `u64::MAX` are
/// held as `u64::MAX`, which no run reaches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageLimits {
    /// Model turns (default 32).
    pub max_turns: Option<u64>,
    /// Executed tool calls.
    pub max_tool_calls: Option<u64>,
    /// Output cap of a turn, in tokens.
    pub max_output_tokens_per_turn: Option<u64>,
    /// Wall clock of a process, in milliseconds, looked at between turns only.
    pub timeout_ms: Option<u64>,
    /// Gap between stream events, in milliseconds (default 120000).
    pub stream_idle_timeout_ms: Option<u64>,
    /// Turns in a row without calls that end the run (default 3).
    pub no_progress_turns: Option<u64>,
    /// Tell the model at 50 and 80 percent of `max_tool_calls`.
    pub tool_budget_notices: bool,
    /// Executions of one signature.
    pub max_repeated_tool_signature: Option<u64>,
    /// Results in a row that bring nothing new.
    pub max_no_new_evidence_calls: Option<u64>,
    /// Executions by tool name; tools without an entry are unlimited.
    pub max_calls_per_tool: Option<BTreeMap<String, u64>>,
    /// The weighted tool budget.
    pub tool_units: Option<ToolUnits>,
    /// Executed calls between checkpoints within a batch.
    pub checkpoint_every_tool_calls: Option<u64>,
    /// One summary turn after a tool budget expired.
    pub finalization_reserve: Option<FinalizationReserve>,
    /// Grants of further calls.
    pub tool_budget_extension: Option<ToolBudgetExtension>,
    /// The tail of the tool budget that is kept for finalization tools.
    pub finalization_window: Option<FinalizationWindow>,
    /// The tail of the turns that is kept for finalization tools.
    pub finalization_turns: Option<FinalizationTurns>,
}

/// The weighted tool budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolUnits {
    /// Units of a run.
    pub max: u64,
    /// Units of one execution by tool name; 1 where a tool has no entry.
    pub costs: BTreeMap<String, u64>,
}

/// The summary turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FinalizationReserve {
    /// Output cap of the summary turn, in tokens.
    pub max_output_tokens: Option<u64>,
}

/// Grants of further calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolBudgetExtension {
    /// Calls a grant.
    pub increment: u64,
    /// Grants a run.
    pub max_extensions: u64,
    /// Money that must be left, in USD; more than nothing where it is 0.
    pub min_headroom_usd: f64,
    /// A grant needs a new result since the last one (default true).
    pub require_new_evidence: bool,
    /// Grant at a boundary where the calls left do not cover the evidence deficit.
    pub cover_evidence_deficit: bool,
}

/// The finalization window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalizationWindow {
    /// Calls (or units) left at which it opens.
    pub reserve_calls: u64,
    /// Open it early enough for the evidence deficit and one call more.
    pub reserve_for_evidence_deficit: bool,
    /// Tools that may run in it; the free tools where absent.
    pub allow: Option<Vec<String>>,
}

/// The finalization window on the turns axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalizationTurns {
    /// Turns left at which it opens.
    pub reserve_turns: u64,
    /// Tools that may run in it, where the finalization window names none.
    pub allow: Option<Vec<String>>,
}

impl UsageLimits {
    /// Reads a limits object with the reference's field names, after validating it.
    pub fn from_json(limits: &Value) -> Result<UsageLimits, Invalid> {
        if !limits.is_object() {
            return Err(Invalid::not_an_object(limits));
        }
        validate(limits)?;
        let count = |field: &str| limits.get(field).map(count);
        Ok(UsageLimits {
            max_turns: count("maxTurns"),
            max_tool_calls: count("maxToolCalls"),
            max_output_tokens_per_turn: count("maxOutputTokensPerTurn"),
            timeout_ms: count("timeoutMs"),
            stream_idle_timeout_ms: count("streamIdleTimeoutMs"),
            no_progress_turns: count("noProgressTurns"),
            tool_budget_notices: flag(limits, "toolBudgetNotices", false),
            max_repeated_tool_signature: count("maxRepeatedToolSignature"),
            max_no_new_evidence_calls: count("maxNoNewEvidenceCalls"),
            max_calls_per_tool: limits.get("maxCallsPerTool").map(record),
            tool_units: limits.get("toolUnits").map(|units| ToolUnits {
                max: member(units, "max"),
                costs: units.get("costs").map(record).unwrap_or_default(),
            }),
            checkpoint_every_tool_calls: count("checkpointEveryToolCalls"),
            finalization_reserve: limits.get("finalizationReserve").map(|reserve| {
                FinalizationReserve {
                    max_output_tokens: reserve.get("maxOutputTokens").map(self::count),
                }
            }),
            tool_budget_extension: limits.get("toolBudgetExtension").map(extension),
            finalization_window: limits.get("finalizationWindow").map(|window| {
                FinalizationWindow {
                    reserve_calls: member(window, "reserveCalls"),
                    reserve_for_evidence_deficit: flag(window, "reserveForEvidenceDeficit", false),
                    allow: window.get("allow").map(names),
                }
            }),
            finalization_turns: limits
                .get("finalizationTurns")
                .map(|turns| FinalizationTurns {
                    reserve_turns: member(turns, "reserveTurns"),
                    allow: turns.get("allow").map(names),
                }),
        })
    }
}

impl UsageLimits {
    /// A guard, a grant or a report needs calls and results to be identified and counted.
    fn track_calls(&self) -> bool {
        self.tool_budget_notices
            || self.max_repeated_tool_signature.is_some()
            || self.max_no_new_evidence_calls.is_some()
            || self.max_calls_per_tool.is_some()
            || self.tool_units.is_some()
            || self.tool_budget_extension.is_some()
    }
}

fn extension(value: &Value) -> ToolBudgetExtension {
    ToolBudgetExtension {
        increment: member(value, "increment"),
        max_extensions: member(value, "maxExtensions"),
        min_headroom_usd: value
            .get("minHeadroomUsd")
            .and_then(Value::as_f64)
            .unwrap_or(0.0),
        require_new_evidence: flag(value, "requireNewEvidence", true),
        cover_evidence_deficit: flag(value, "coverEvidenceDeficit", false),
    }
}

/// A validated integer; the cast saturates.
fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| value.as_f64().unwrap_or(0.0) as u64)
}

fn member(object: &Value, field: &str) -> u64 {
    object.get(field).map_or(0, count)
}

fn flag(object: &Value, field: &str, default: bool) -> bool {
    object
        .get(field)
        .and_then(Value::as_bool)
        .unwrap_or(default)
}

fn record(value: &Value) -> BTreeMap<String, u64> {
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(name, value)| (name.clone(), count(value)))
        .collect()
}

fn names(value: &Value) -> Vec<String> {
    let members = value.as_array().into_iter().flatten();
    members
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// Everything that a policy of this family says.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The merged limits.
    pub limits: UsageLimits,
    /// Money; without it nothing is priced and no prompt is estimated.
    pub budget: Option<Budget>,
    /// How much evidence the run must record.
    pub evidence: Option<EvidenceContract>,
    /// The run must end with an accepted terminal call.
    pub terminal_tool: Option<TerminalTool>,
    /// The final text must hold a value of a schema.
    pub schema: Option<SchemaRun>,
    /// Attempts of one turn, at least 1 (the reference's default is 3).
    pub attempts: u32,
    /// What the model declares about its output.
    pub model: ModelCaps,
}

impl Settings {
    /// Limits alone, with the reference's defaults for the rest.
    pub fn new(limits: UsageLimits) -> Settings {
        Settings {
            limits,
            budget: None,
            evidence: None,
            terminal_tool: None,
            schema: None,
            attempts: 3,
            model: ModelCaps::default(),
        }
    }
}

/// Money of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// The ceiling of the account, in USD.
    pub ceiling_usd: Option<f64>,
    /// What the account had spent before the run, in USD.
    pub already_spent_usd: f64,
    /// Where prices come from.
    pub prices: PriceSource,
    /// The cap on what may be in flight.
    pub exposure: Option<Exposure>,
}

/// The exposure cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposure {
    /// Spent and planned money together may not pass it, in USD.
    pub cap_usd: f64,
    /// What a refused seat does.
    pub wait: ExposureWait,
}

/// What a seat does that the exposure cap refuses while nobody else is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExposureWait {
    /// It would not wait: the run ends.
    #[default]
    Never,
    /// It would wait for others; there are none: the run ends.
    Others,
    /// It is a child's seat: it may spend one drained turn before the run ends.
    Child,
}

/// The evidence contract of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvidenceContract {
    /// Entries that must be recorded.
    pub min_entries: u64,
    /// A run that ends `ok` with fewer becomes an error.
    pub refuse: bool,
}

/// The terminal tool, whose accepted arguments are the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalTool {
    /// Turns past `maxTurns` that rejected terminal calls may buy.
    pub repair_turn_reserve: u64,
}

/// A schema-typed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaRun {
    /// Further tries after the first (default 2).
    pub retry_attempts: u64,
}

impl Default for SchemaRun {
    fn default() -> SchemaRun {
        SchemaRun { retry_attempts: 2 }
    }
}

/// What a model declares about its output, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCaps {
    /// The smallest output that the model accepts as a cap.
    pub min_output_tokens: u64,
    /// The largest output of a turn; only the exposure plan reads it.
    pub max_output_tokens: u64,
}

impl Default for ModelCaps {
    fn default() -> ModelCaps {
        ModelCaps {
            min_output_tokens: 1,
            max_output_tokens: 4096,
        }
    }
}

/// Settings compiled for the engine: tool names resolved, times in microseconds, defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(super) max_turns: u64,
    pub(super) max_tool_calls: Option<u64>,
    pub(super) output_cap: Option<u64>,
    pub(super) timeout: Option<Micros>,
    pub(super) idle_timeout: Micros,
    pub(super) no_progress_turns: u64,
    pub(super) notices: bool,
    pub(super) max_signature: Option<u64>,
    pub(super) max_stale: Option<u64>,
    pub(super) caps_per_tool: bool,
    pub(super) max_units: Option<u64>,
    pub(super) checkpoint_every: Option<u64>,
    pub(super) reserve: Option<FinalizationReserve>,
    pub(super) extension: Option<ToolBudgetExtension>,
    pub(super) window: Option<WindowReserve>,
    pub(super) reserve_turns: Option<u64>,
    /// A finalization window exists on either axis.
    pub(super) has_window: bool,
    /// Calls and results are identified and counted, because a guard, a grant or a report reads it.
    pub(super) tracks_calls: bool,
    pub(super) budget: Option<Budget>,
    pub(super) evidence: Option<EvidenceContract>,
    pub(super) terminal_tool: Option<TerminalTool>,
    pub(super) schema: Option<SchemaRun>,
    pub(super) attempts: u32,
    pub(super) model: ModelCaps,
    /// By tool number; tools past the end follow [`ToolRule::DEFAULT`].
    tools: Vec<ToolRule>,
    drained_tools: Vec<ToolId>,
}

/// The part of the finalization window that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowReserve {
    pub(super) calls: u64,
    pub(super) for_evidence_deficit: bool,
}

/// What the limits say about one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToolRule {
    /// Units of one execution.
    pub(super) cost: u64,
    /// Executions allowed; `u64::MAX` is never reached.
    pub(super) cap: u64,
    /// May run inside the finalization window.
    pub(super) admitted: bool,
}

impl ToolRule {
    const DEFAULT: ToolRule = ToolRule {
        cost: 1,
        cap: u64::MAX,
        admitted: false,
    };
}

impl Config {
    /// Compiles settings. `offered` are the tools that a request of the run offers, `resolve` gives
    /// the driver's number for a tool name (any free number for a name that the driver never uses).
    pub fn compile(
        settings: &Settings,
        offered: &[ToolId],
        mut resolve: impl FnMut(&str) -> ToolId,
    ) -> Config {
        let limits = &settings.limits;
        let drained_tools = limits
            .finalization_window
            .as_ref()
            .and_then(|window| window.allow.as_ref())
            .map(|allow| {
                let allowed: Vec<ToolId> = allow.iter().map(|name| resolve(name)).collect();
                let rides = |tool: &&ToolId| allowed.contains(tool);
                offered.iter().filter(rides).copied().collect()
            })
            .unwrap_or_default();
        Config {
            max_turns: limits.max_turns.unwrap_or(DEFAULT_MAX_TURNS),
            max_tool_calls: limits.max_tool_calls,
            output_cap: limits.max_output_tokens_per_turn,
            timeout: limits.timeout_ms.map(micros),
            idle_timeout: micros(
                limits
                    .stream_idle_timeout_ms
                    .unwrap_or(DEFAULT_STREAM_IDLE_TIMEOUT_MS),
            ),
            no_progress_turns: limits
                .no_progress_turns
                .unwrap_or(DEFAULT_NO_PROGRESS_TURNS),
            notices: limits.tool_budget_notices,
            max_signature: limits.max_repeated_tool_signature,
            max_stale: limits.max_no_new_evidence_calls,
            caps_per_tool: limits.max_calls_per_tool.is_some(),
            max_units: limits.tool_units.as_ref().map(|units| units.max),
            checkpoint_every: limits.checkpoint_every_tool_calls,
            reserve: limits.finalization_reserve,
            extension: limits.tool_budget_extension,
            window: limits
                .finalization_window
                .as_ref()
                .map(|window| WindowReserve {
                    calls: window.reserve_calls,
                    for_evidence_deficit: window.reserve_for_evidence_deficit,
                }),
            reserve_turns: limits
                .finalization_turns
                .as_ref()
                .map(|turns| turns.reserve_turns),
            has_window: limits.finalization_window.is_some() || limits.finalization_turns.is_some(),
            tracks_calls: limits.track_calls(),
            budget: settings.budget,
            evidence: settings.evidence,
            terminal_tool: settings.terminal_tool,
            schema: settings.schema,
            attempts: settings.attempts.max(1),
            model: ModelCaps {
                min_output_tokens: settings.model.min_output_tokens.max(1),
                ..settings.model
            },
            tools: tool_rules(limits, resolve),
            drained_tools,
        }
    }

    /// What the limits say about a tool.
    #[inline]
    pub(super) fn tool(&self, tool: ToolId) -> ToolRule {
        let rule = self.tools.get(usize::from(tool.0));
        rule.copied().unwrap_or(ToolRule::DEFAULT)
    }

    /// Whether a tool may run inside the finalization window (the terminal tool always may).
    pub fn admitted_to_window(&self, tool: ToolId) -> bool {
        self.tool(tool).admitted
    }

    /// The tools that ride on a drained turn ([`crate::protocol::Tools::WindowOnly`]), in the order
    /// offered: those that `finalizationWindow.allow` names.
    pub fn drained_tools(&self) -> &[ToolId] {
        &self.drained_tools
    }

    /// How many grants there can be; 0 without an extension.
    pub fn max_grants(&self) -> u64 {
        self.extension
            .map_or(0, |extension| extension.max_extensions)
    }
}

/// Turns in a row without calls that end a run whose limits say nothing about them.
pub const DEFAULT_NO_PROGRESS_TURNS: u64 = 3;

fn micros(ms: u64) -> Micros {
    Micros::try_from(ms)
        .unwrap_or(Micros::MAX)
        .saturating_mul(1000)
}

fn tool_rules(limits: &UsageLimits, mut resolve: impl FnMut(&str) -> ToolId) -> Vec<ToolRule> {
    let mut rules = Vec::new();
    let costs = limits.tool_units.as_ref().map(|units| &units.costs);
    for (name, cost) in costs.into_iter().flatten() {
        rule_of(&mut rules, resolve(name)).cost = *cost;
    }
    for (name, cap) in limits.max_calls_per_tool.iter().flatten() {
        rule_of(&mut rules, resolve(name)).cap = *cap;
    }
    // The first list present wins, whatever dimension binds; an empty one admits nothing.
    let window_allow = limits
        .finalization_window
        .as_ref()
        .and_then(|window| window.allow.as_ref());
    let turns_allow = limits
        .finalization_turns
        .as_ref()
        .and_then(|turns| turns.allow.as_ref());
    match window_allow.or(turns_allow) {
        Some(allow) => {
            for name in allow {
                rule_of(&mut rules, resolve(name)).admitted = true;
            }
        }
        None => {
            for (name, _) in costs.into_iter().flatten().filter(|(_, cost)| **cost == 0) {
                rule_of(&mut rules, resolve(name)).admitted = true;
            }
        }
    }
    rules
}

fn rule_of(rules: &mut Vec<ToolRule>, tool: ToolId) -> &mut ToolRule {
    let index = usize::from(tool.0);
    if rules.len() <= index {
        rules.resize(index + 1, ToolRule::DEFAULT);
    }
    &mut rules[index]
}
