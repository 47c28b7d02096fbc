//! Limits that have been checked and compiled.

use super::presets::{self, Preset};
use super::{
    Batch, BlankAnswer, Check, CountTurns, CutTurn, Dimension, Durability, Limits, OnExhausted,
};
use crate::protocol::{Thresholds, ToolId};

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: found {value}, expected {expected}")]
pub struct InvalidLimits {
    /// Path of the field within the limits object, such as `on_exhausted.cost`.
    pub field: String,
    /// What it holds.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

/// Limits and rules of a policy, resolved for the tools of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Caps in the unit of their dimension (counts, picodollars, microseconds); that of
    /// [`Dimension::CallsPerTool`] is in `calls_of_tool`.
    caps: [Option<i128>; Dimension::COUNT],
    /// Sorted by tool.
    calls_of_tool: Vec<(ToolId, u64)>,
    check: [Check; Dimension::COUNT],
    on_exhausted: [OnExhausted; Dimension::COUNT],
    /// What a turn is.
    pub count_turns: CountTurns,
    /// What runs of a crossing batch.
    pub batch: Batch,
    /// What survives a restart.
    pub durable: Durability,
    /// Requests that a turn may take.
    pub attempts: u32,
    /// Tool costs join the ledger.
    pub count_tool_cost: bool,
    /// What a cut turn is.
    pub cut_turn: CutTurn,
    /// What a blank answer delivers.
    pub blank_answer: BlankAnswer,
    /// Names in `max_calls_per_tool` that this workload does not have; their caps are never reached.
    pub unknown_tools: Vec<String>,
}

impl Thresholds for Config {
    /// The caps, in the order of [`Dimension::ALL`]; those on single tools are not among them.
    fn thresholds(&self) -> Vec<i128> {
        let cap = |cap: &Option<i128>| cap.unwrap_or(i128::MAX);
        self.caps.iter().map(cap).collect()
    }

    /// A cap that exists on one side only is a difference.
    fn differs_in_thresholds_only(&self, other: &Config) -> bool {
        let mut like = self.clone();
        for (mine, theirs) in like.caps.iter_mut().zip(&other.caps) {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                *mine = *theirs;
            }
        }
        like == *other
    }
}

impl Limits {
    /// Fills in the preset and the defaults, checks everything, and numbers the tools.
    ///
    /// # Errors
    /// All settings that cannot be, not only the first.
    pub fn compile(
        &self,
        mut tool: impl FnMut(&str) -> Option<ToolId>,
    ) -> Result<Config, Vec<InvalidLimits>> {
        let limits = self.resolved()?;
        let mut calls_of_tool = Vec::new();
        let mut unknown_tools = Vec::new();
        for (name, limit) in &limits.max_calls_per_tool {
            match (tool(name), limit.value()) {
                (Some(id), Some(cap)) => calls_of_tool.push((id, cap)),
                (None, Some(_)) => unknown_tools.push(name.clone()),
                (_, None) => {}
            }
        }
        calls_of_tool.sort_unstable();
        let count_turns = limits.count_turns.unwrap_or_default();
        let config = Config {
            caps: Dimension::ALL.map(|dimension| limits.cap(dimension)),
            calls_of_tool,
            check: Dimension::ALL.map(|d| {
                limits
                    .check
                    .named(d)
                    .or(limits.check.default)
                    .unwrap_or_default()
            }),
            on_exhausted: Dimension::ALL.map(|d| limits.action(d, count_turns)),
            count_turns,
            batch: limits.batch.unwrap_or_default(),
            durable: limits.durable.unwrap_or_default(),
            attempts: limits.attempts.unwrap_or(DEFAULT_ATTEMPTS),
            count_tool_cost: limits.count_tool_cost.unwrap_or(false),
            cut_turn: limits.cut_turn.unwrap_or_default(),
            blank_answer: limits.blank_answer.unwrap_or_default(),
            unknown_tools,
        };
        let errors = limits.impossible(&config);
        if errors.is_empty() {
            Ok(config)
        } else {
            Err(errors)
        }
    }

    /// These limits over those of their preset.
    ///
    /// # Errors
    /// The preset is not known, or it has no cap of its own and none is given.
    pub fn resolved(&self) -> Result<Limits, Vec<InvalidLimits>> {
        let Some(name) = &self.preset else {
            return Ok(self.clone());
        };
        let Some(preset) = presets::find(name) else {
            let names: Vec<_> = presets::all().iter().map(|preset| preset.name).collect();
            return Err(vec![invalid(
                "preset",
                name,
                format!("one of {}", names.join(", ")),
            )]);
        };
        let limits = self.over(&preset.limits());
        if limits.lacks_what_preset_needs(preset) {
            let expected = format!(
                "{} beside it (it has no cap of its own)",
                preset.needs.join(" or ")
            );
            return Err(vec![invalid("preset", name, expected)]);
        }
        Ok(limits)
    }

    fn lacks_what_preset_needs(&self, preset: &Preset) -> bool {
        let given = |field: &&str| {
            Dimension::ALL
                .iter()
                .any(|d| d.field() == *field && self.is_capped(*d))
        };
        !preset.needs.is_empty() && !preset.needs.iter().any(given)
    }

    fn cap(&self, dimension: Dimension) -> Option<i128> {
        let count = match dimension {
            Dimension::Time => return self.max_time_s.value().map(|time| i128::from(time.0)),
            Dimension::Cost => return self.max_cost_usd.value().map(|usd| usd.picos()),
            Dimension::CallsPerTool => return None,
            Dimension::Turns => self.max_turns,
            Dimension::ModelCalls => self.max_model_calls,
            Dimension::InputTokens => self.max_input_tokens,
            Dimension::OutputTokens => self.max_output_tokens,
            Dimension::TotalTokens => self.max_total_tokens,
            Dimension::ToolCalls => self.max_tool_calls,
        };
        count.value().map(i128::from)
    }

    fn is_capped(&self, dimension: Dimension) -> bool {
        match dimension {
            Dimension::CallsPerTool => self
                .max_calls_per_tool
                .values()
                .any(|limit| limit.value().is_some()),
            _ => self.cap(dimension).is_some(),
        }
    }

    /// What happens when `dimension` is exhausted. Blocking tools, given for all, means `error`
    /// where no tool can be blocked.
    fn action(&self, dimension: Dimension, count_turns: CountTurns) -> OnExhausted {
        if let Some(named) = self.on_exhausted.named(dimension) {
            return named;
        }
        match self.on_exhausted.default.unwrap_or_default() {
            OnExhausted::BlockTools if !can_block_tools(dimension, count_turns) => {
                OnExhausted::Error
            }
            action => action,
        }
    }

    fn impossible(&self, config: &Config) -> Vec<InvalidLimits> {
        let mut errors = Vec::new();
        if config.attempts == 0 {
            errors.push(invalid("attempts", "0", "at least 1 (1 means no retry)"));
        }
        for dimension in Dimension::ALL {
            if self.check.named(dimension).is_some() && !dimension.is_spent() {
                let field = format!("check.{}", dimension.as_str());
                let expected = "only cost, input_tokens, output_tokens and total_tokens here";
                errors.push(invalid(&field, dimension.as_str(), expected));
            }
            if self.is_capped(dimension) || self.on_exhausted.named(dimension).is_some() {
                errors.extend(self.impossible_action(config, dimension));
            }
        }
        errors
    }

    fn impossible_action(&self, config: &Config, dimension: Dimension) -> Option<InvalidLimits> {
        let field = match self.on_exhausted.named(dimension) {
            Some(_) => format!("on_exhausted.{}", dimension.as_str()),
            None => "on_exhausted".to_owned(),
        };
        match config.action(dimension) {
            OnExhausted::FinalTurnInside if !can_close_inside(dimension) => Some(invalid(
                &field,
                &format!("final_turn_inside with {}", dimension.field()),
                "final_turn_inside only for turns, model_calls or tool_calls, where the last \
                 request inside the cap is known beforehand; use final_turn, or a table by dimension",
            )),
            OnExhausted::FinalTurnInside if !closing_fits(config, dimension) => Some(invalid(
                dimension.field(),
                "0",
                "at least 1 with final_turn_inside, whose closing turn is inside the cap",
            )),
            OnExhausted::BlockTools if !can_block_tools(dimension, config.count_turns) => {
                Some(invalid(
                    &field,
                    &format!("block_tools with {}", dimension.field()),
                    "block_tools only for tool_calls, calls_per_tool, or turns with \
                     count_turns = \"tool_turns\"",
                ))
            }
            _ => None,
        }
    }
}

impl Config {
    /// The cap on a dimension: a count, picodollars or microseconds.
    pub(super) fn cap(&self, dimension: Dimension) -> Option<i128> {
        self.caps[dimension as usize]
    }

    /// The cap on calls of one tool.
    pub(super) fn cap_of_tool(&self, tool: ToolId) -> Option<u64> {
        let at = self
            .calls_of_tool
            .binary_search_by_key(&tool, |(id, _)| *id)
            .ok()?;
        Some(self.calls_of_tool[at].1)
    }

    /// True if calls of single tools are capped.
    pub(super) fn caps_single_tools(&self) -> bool {
        !self.calls_of_tool.is_empty()
    }

    pub(super) fn check(&self, dimension: Dimension) -> Check {
        self.check[dimension as usize]
    }

    pub(super) fn action(&self, dimension: Dimension) -> OnExhausted {
        self.on_exhausted[dimension as usize]
    }

    /// True if an exhausted dimension that grants a closing turn can still have one: always past
    /// the cap; inside it only where requests do not use the cap up.
    pub(super) fn can_still_close(&self, dimension: Dimension) -> bool {
        match self.action(dimension) {
            OnExhausted::FinalTurn => true,
            OnExhausted::FinalTurnInside => {
                dimension == Dimension::ToolCalls
                    || (dimension == Dimension::Turns && self.count_turns == CountTurns::ToolTurns)
            }
            _ => false,
        }
    }
}

/// As in the client libraries that frameworks are built on: one try and two retries.
pub(super) const DEFAULT_ATTEMPTS: u32 = 3;

fn can_block_tools(dimension: Dimension, count_turns: CountTurns) -> bool {
    match dimension {
        Dimension::ToolCalls | Dimension::CallsPerTool => true,
        Dimension::Turns => count_turns == CountTurns::ToolTurns,
        _ => false,
    }
}

fn can_close_inside(dimension: Dimension) -> bool {
    matches!(
        dimension,
        Dimension::Turns | Dimension::ModelCalls | Dimension::ToolCalls
    )
}

fn closing_fits(config: &Config, dimension: Dimension) -> bool {
    config.can_still_close(dimension) || config.cap(dimension) != Some(0)
}

fn invalid(field: &str, value: &str, expected: impl Into<String>) -> InvalidLimits {
    InvalidLimits {
        field: field.to_owned(),
        value: value.to_owned(),
        expected: expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compile(value: serde_json::Value) -> Result<Config, Vec<InvalidLimits>> {
        let limits: Limits = serde_json::from_value(value).unwrap();
        limits.compile(|name| (name == "search").then_some(ToolId(4)))
    }

    fn only_error(value: serde_json::Value) -> InvalidLimits {
        let mut errors = compile(value).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors.remove(0)
    }

    #[test]
    fn a_tool_is_numbered_by_name_and_an_absent_one_is_named() {
        let config = compile(json!({"max_calls_per_tool": {"search": 3, "serach": 1}})).unwrap();
        assert_eq!(config.cap_of_tool(ToolId(4)), Some(3));
        assert_eq!(config.cap_of_tool(ToolId(0)), None);
        assert_eq!(config.unknown_tools, ["serach"]);
    }

    #[test]
    fn an_unforeseeable_last_request_cannot_be_made_without_tools() {
        for field in [
            "max_cost_usd",
            "max_input_tokens",
            "max_total_tokens",
            "max_time_s",
        ] {
            let error = only_error(json!({field: 5, "on_exhausted": "final_turn_inside"}));
            assert_eq!(error.field, "on_exhausted");
            assert_eq!(error.value, format!("final_turn_inside with {field}"));
        }
        let per_tool = json!({"max_calls_per_tool": {"search": 1},
            "on_exhausted": {"calls_per_tool": "final_turn_inside"}});
        assert_eq!(only_error(per_tool).field, "on_exhausted.calls_per_tool");
        let table = json!({"max_turns": 5, "max_cost_usd": 5,
            "on_exhausted": {"turns": "final_turn_inside", "default": "stop"}});
        assert!(compile(table).is_ok());
    }

    #[test]
    fn a_closing_turn_inside_a_cap_of_zero_is_refused() {
        for field in ["max_turns", "max_model_calls"] {
            let error = only_error(json!({field: 0, "on_exhausted": "final_turn_inside"}));
            assert_eq!((error.field.as_str(), error.value.as_str()), (field, "0"));
        }
        let tools = json!({"max_tool_calls": 0, "on_exhausted": "final_turn_inside"});
        assert!(compile(tools).is_ok());
    }

    #[test]
    fn blocking_tools_for_all_ends_the_run_at_caps_that_no_tool_uses_up() {
        let config = compile(json!({"max_tool_calls": 5, "max_model_calls": 12,
            "on_exhausted": "block_tools"}))
        .unwrap();
        assert_eq!(config.action(Dimension::ToolCalls), OnExhausted::BlockTools);
        assert_eq!(config.action(Dimension::ModelCalls), OnExhausted::Error);
        let error = only_error(json!({"on_exhausted": {"model_calls": "block_tools"}}));
        assert_eq!(error.field, "on_exhausted.model_calls");
        let error = only_error(json!({"on_exhausted": {"turns": "block_tools"}}));
        assert_eq!(error.field, "on_exhausted.turns");
        assert!(
            compile(json!({"max_turns": 3, "count_turns": "tool_turns",
            "on_exhausted": {"turns": "block_tools"}}))
            .is_ok()
        );
    }

    #[test]
    fn all_errors_are_reported_together() {
        let errors = compile(json!({"attempts": 0, "check": {"turns": "after"}})).unwrap_err();
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["attempts", "check.turns"]);
        assert_eq!(
            errors[0].to_string(),
            "attempts: found 0, expected at least 1 (1 means no retry)"
        );
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_known_ones() {
        let error = only_error(json!({"preset": "crewia"}));
        assert!(error.expected.starts_with("one of ") && error.expected.contains("crewai"));
    }

    #[test]
    fn a_preset_without_a_cap_of_its_own_asks_for_one() {
        let error = only_error(json!({"preset": "claude-agent-sdk"}));
        assert!(
            error
                .expected
                .starts_with("max_turns or max_cost_usd beside it"),
            "{error}"
        );
        assert!(compile(json!({"preset": "claude-agent-sdk", "max_turns": 9})).is_ok());
    }
}
