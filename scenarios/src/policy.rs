//! A policy: one way of setting the limits.

use std::fmt;

use holdback_engine::Money;
use holdback_engine::protocol::Micros;
use serde_json::{Map, Value};

/// The families of limits engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// ADR-0078 as amended by ADR-0115.
    RunLimits,
    /// Rulvar's UsageLimits with its USD ceiling.
    UsageLimits,
    /// Plain caps as mainstream frameworks ship them.
    Caps,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 3] = [Family::RunLimits, Family::UsageLimits, Family::Caps];

    /// The word used in files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Family::RunLimits => "run_limits",
            Family::UsageLimits => "usage_limits",
            Family::Caps => "caps",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One way of setting the limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name in tables and on the command line.
    pub name: String,
    /// A sentence for people.
    pub summary: Option<String>,
    /// Which engine reads the limits.
    pub family: Family,
    /// The limits object, validated, with the family's own field names. `null` = unlimited; money
    /// is a decimal string; everything else has its JSON type.
    pub limits: Map<String, Value>,
    /// The limits used after the first restart, as `limits`.
    pub resume_limits: Option<Map<String, Value>>,
    /// What stands beside the limits.
    pub settings: Settings,
    /// The policy as one JSON document, `extends` and `sweep` resolved: what `summary.json` embeds
    /// and what [`crate::read::policy_from_json`] reads back.
    pub document: Value,
}

/// What stands beside the limits, by family.
#[derive(Clone, Debug, PartialEq)]
pub enum Settings {
    /// Of `run_limits`.
    RunLimits(RunLimitsSettings),
    /// Of `usage_limits`.
    UsageLimits(UsageLimitsSettings),
    /// Of `caps`.
    Caps(CapsSettings),
}

/// What stands beside the limits of `run_limits`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLimitsSettings {
    /// Time from the start of the run to its deadline.
    pub deadline: Option<Micros>,
    /// Attempts of a step; 3 unless given.
    pub attempts: u32,
    /// The identical call that fails the run; 5 unless given.
    pub identical_calls: u32,
    /// The identical denial that fails the run; 3 unless given.
    pub identical_denials: u32,
    /// Deviations from the reference.
    pub rules: RunLimitsRules,
}

impl Default for RunLimitsSettings {
    fn default() -> RunLimitsSettings {
        RunLimitsSettings {
            deadline: None,
            attempts: 3,
            identical_calls: 5,
            identical_denials: 3,
            rules: RunLimitsRules::default(),
        }
    }
}

/// Deviations of `run_limits` from its reference; the default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunLimitsRules {
    /// What happens to the tool turn whose own usage brings a budget to its reserve.
    pub crossing_turn: CrossingTurn,
    /// What happens to a paid answer that crosses the money cap.
    pub answer_over_cap: AnswerOverCap,
    /// Tool calls allowed inside the reserve.
    pub reserve_tool_allowance: u32,
    /// Share of every limit that is reserved where no reserve is given; from 0, below 1.
    pub reserve_fraction: f64,
    /// The ledger counts what tools charge.
    pub count_tool_cost: bool,
}

/// What happens to the tool turn whose own usage brings a budget to its reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossingTurn {
    /// It fails the run, unannounced (the reference).
    #[default]
    Fail,
    /// Its calls are refused and the next request is told to answer.
    RefuseThenSynthesize,
    /// Its calls run and the next request is told to answer.
    RunThenSynthesize,
}

/// What happens to a paid answer that crosses the money cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerOverCap {
    /// It is lost (the reference).
    #[default]
    Discard,
    /// It is kept.
    Keep,
}

/// What stands beside the limits of `usage_limits`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageLimitsSettings {
    /// The account.
    pub budget: Option<Budget>,
    /// The evidence contract.
    pub evidence: Option<Evidence>,
    /// The tool whose accepted arguments are the answer.
    pub terminal_tool: Option<TerminalTool>,
    /// The final text must hold a value of a schema.
    pub schema: Option<Schema>,
    /// Attempts of a turn in all; the engine's 3 if `None`.
    pub retry_attempts: Option<u32>,
    /// What the model declares about its output.
    pub model_caps: ModelCaps,
}

/// The account of `usage_limits`. The amounts are doubles, because its reference decides in doubles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// The ceiling; `None` = none.
    pub ceiling_usd: Option<f64>,
    /// Spent in the account before the run.
    pub already_spent_usd: f64,
    /// Cap on money in flight; `None` = none.
    pub exposure_cap_usd: Option<f64>,
    /// What a refused exposure does.
    pub exposure_wait: ExposureWait,
}

/// What a refused exposure does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExposureWait {
    /// Ends the run (`false`).
    #[default]
    No,
    /// Waits for other holders (`true`).
    Yes,
    /// Waits as a child does, which has a drained turn (`"child"`).
    Child,
}

/// The evidence contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Entries that the run owes.
    pub min_entries: u64,
    /// An answer that owes entries is refused (`"refuse"`), not only warned about (`"warn"`).
    pub refuse: bool,
}

/// The tool whose accepted arguments are the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalTool {
    /// Its name.
    pub name: String,
    /// Extra turns for terminal calls that were rejected.
    pub repair_turn_reserve: u32,
}

/// A schema-typed run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schema {
    /// Chance that a final text holds a valid value.
    pub valid: crate::scenario::Probability,
    /// Re-prompts after the first miss; the engine's 2 if `None`.
    pub retry_attempts: Option<u32>,
}

/// What the model declares about its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCaps {
    /// The smallest output cap it accepts; the engine's 1 if `None`.
    pub min_output_tokens_per_turn: Option<u64>,
    /// The most it writes; the engine's 4096 if `None`. Only exposure planning reads it.
    pub max_output_tokens: Option<u64>,
}

/// What stands beside the limits of `caps`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapsSettings {
    /// A framework whose behaviour is the starting point; `limits` override it.
    pub preset: Option<String>,
    /// The ledger counts what tools charge.
    pub count_tool_cost: bool,
}

impl Policy {
    /// The money cap of the policy, if it has one, without what the account had spent before.
    pub fn money_cap(&self) -> Option<Money> {
        match &self.settings {
            Settings::RunLimits(_) => money(self.limits.get("max_cost")),
            Settings::Caps(_) => money(self.limits.get("max_cost_usd")),
            Settings::UsageLimits(settings) => settings
                .budget
                .and_then(|budget| budget.ceiling_usd)
                .and_then(Money::from_f64_rounded),
        }
    }
}

fn money(limit: Option<&Value>) -> Option<Money> {
    limit
        .and_then(Value::as_str)
        .and_then(|text| Money::parse_exact(text).ok())
}
