//! What a policy leaves open and what then holds: the production defaults of its family.

use holdback_engine::{caps, run_limits, usage_limits};
use holdback_scenarios::Policy;
use holdback_scenarios::policy::{CapsSettings, RunLimitsSettings, Settings};
use serde_json::{Map, Value, json};

use super::compile::caps_limits;

type Object = Map<String, Value>;

/// The values that hold for the fields which the policy does not give, laid out as its document: what
/// is beside `limits` stands beside `limits`. A limit that nothing reaches is `"unlimited"`.
///
/// Sources: `run_limits` ADR-0078 (12 steps, 12 model calls, 24 tool calls), `usage_limits` the
/// reference's merge rules (32 turns, 120 s of silence, 3 turns without progress), `caps` the preset
/// and the family's own defaults.
pub fn defaults(policy: &Policy) -> Value {
    let given = |name: &str| policy.document.get(name).is_some();
    let written = policy.document.get("limits");
    let mut beside = Object::new();
    let limits = match &policy.settings {
        Settings::RunLimits(_) => {
            let default = RunLimitsSettings::default();
            for (name, value) in [
                ("attempts", default.attempts),
                ("identical_calls", default.identical_calls),
                ("identical_denials", default.identical_denials),
            ] {
                if !given(name) {
                    beside.insert(name.to_owned(), value.into());
                }
            }
            object(run_limits::Limits::default())
        }
        Settings::UsageLimits(settings) => {
            let engine = usage_limits::Settings::new(usage_limits::UsageLimits::default());
            if settings.retry_attempts.is_none() {
                beside.insert("retry_attempts".to_owned(), engine.attempts.into());
            }
            object(json!({
                "maxTurns": usage_limits::DEFAULT_MAX_TURNS,
                "streamIdleTimeoutMs": usage_limits::DEFAULT_STREAM_IDLE_TIMEOUT_MS,
                "noProgressTurns": usage_limits::DEFAULT_NO_PROGRESS_TURNS,
            }))
        }
        Settings::Caps(settings) => caps_defaults(policy, settings),
    };
    let open: Object = limits
        .into_iter()
        .filter(|(name, _)| written.is_none_or(|limits| limits.get(name).is_none()))
        .map(|(name, value)| match value {
            Value::Null => (name, Value::from("unlimited")),
            value => (name, value),
        })
        .collect();
    if !open.is_empty() {
        beside.insert("limits".to_owned(), Value::Object(open));
    }
    Value::Object(beside)
}

/// Preset and family defaults; empty for limits that no engine accepts, which compiling reports.
fn caps_defaults(policy: &Policy, settings: &CapsSettings) -> Object {
    let limits = caps_limits(&policy.limits, settings).ok();
    let Some(resolved) = limits.and_then(|limits| limits.resolved().ok()) else {
        return Object::new();
    };
    let mut limits = object(resolved.over(&caps::Limits::defaults()));
    for beside in ["preset", "count_tool_cost"] {
        limits.remove(beside);
    }
    limits
}

fn object(value: impl serde::Serialize) -> Object {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => Object::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults_of(policy: &str) -> Value {
        defaults(&holdback_scenarios::read::policy_from_toml("test", policy).unwrap())
    }

    #[test]
    fn what_run_limits_leave_open_takes_the_production_defaults() {
        let told = defaults_of(
            "name = \"a\"\nfamily = \"run_limits\"\nattempts = 1\nlimits = { max_steps = 4, max_cost = \"unlimited\" }",
        );
        assert_eq!(
            told,
            json!({
                "identical_calls": 5,
                "identical_denials": 3,
                "limits": {
                    "max_model_calls": 12,
                    "max_tool_calls": 24,
                    "max_input_tokens": "unlimited",
                    "max_output_tokens": "unlimited",
                    "synthesis_reserve_steps": 0,
                    "synthesis_reserve_model_calls": 0,
                    "synthesis_reserve_tool_calls": 0,
                    "synthesis_reserve_cost": "0",
                },
            })
        );
    }

    #[test]
    fn what_usage_limits_leave_open_takes_the_production_defaults() {
        let told = defaults_of(
            "name = \"a\"\nfamily = \"usage_limits\"\nlimits = { maxTurns = 4, maxToolCalls = 9 }",
        );
        assert_eq!(
            told,
            json!({
                "retry_attempts": 3,
                "limits": { "streamIdleTimeoutMs": 120_000, "noProgressTurns": 3 },
            })
        );
    }

    #[test]
    fn what_caps_leave_open_takes_the_preset_then_the_family() {
        let told = defaults_of(
            "name = \"a\"\nfamily = \"caps\"\npreset = \"smolagents\"\nlimits = { max_tool_calls = 9 }",
        );
        let preset = caps::presets::find("smolagents").unwrap().limits();
        assert_eq!(
            told["limits"]["max_turns"],
            json!(preset.max_turns.value().unwrap())
        );
        assert_eq!(told["limits"]["batch"], "run_all");
        assert_eq!(told["limits"]["durable"], "turn");
        assert_eq!(told["limits"]["attempts"], 3);
        assert!(told["limits"].get("max_tool_calls").is_none());
    }
}
