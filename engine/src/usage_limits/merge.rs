//! The three layers of limits: a call over its profile over the engine's own.

use serde_json::{Map, Value};

/// Turns of a run whose layers say nothing about them.
pub const DEFAULT_MAX_TURNS: u64 = 32;
/// Silence of a stream, in milliseconds, where no layer says anything about it.
pub const DEFAULT_STREAM_IDLE_TIMEOUT_MS: u64 = 120_000;

/// The fields of the limits object, in the order in which they are checked.
pub(super) const FIELDS: [&str; 16] = [
    "maxTurns",
    "maxToolCalls",
    "maxOutputTokensPerTurn",
    "timeoutMs",
    "streamIdleTimeoutMs",
    "noProgressTurns",
    "toolBudgetNotices",
    "maxRepeatedToolSignature",
    "maxNoNewEvidenceCalls",
    "maxCallsPerTool",
    "toolUnits",
    "checkpointEveryToolCalls",
    "finalizationReserve",
    "toolBudgetExtension",
    "finalizationWindow",
    "finalizationTurns",
];

/// The limits in force: for each field the first layer that has a value for it.
///
/// Whole values replace each other, so a record is never merged key by key; `false`, `0` and `{}`
/// are values and win. An absent layer is `None`. The layers are not validated here (section 1 of
/// the semantics): a null of the last layer with nothing above it stays a null, except for the two
/// fields that have defaults.
pub fn merge(call: Option<&Value>, profile: Option<&Value>, engine: Option<&Value>) -> Value {
    let mut effective = Map::new();
    for field in FIELDS {
        let stated = |layer: Option<&Value>| layer.and_then(|limits| limits.get(field)).cloned();
        let value = [call, profile]
            .into_iter()
            .find_map(|layer| stated(layer).filter(|value| !value.is_null()))
            .or_else(|| stated(engine));
        let default = match field {
            "maxTurns" => Some(DEFAULT_MAX_TURNS),
            "streamIdleTimeoutMs" => Some(DEFAULT_STREAM_IDLE_TIMEOUT_MS),
            _ => None,
        };
        let value = match (value, default) {
            (None | Some(Value::Null), Some(default)) => Some(Value::from(default)),
            (value, _) => value,
        };
        if let Some(value) = value {
            effective.insert(field.to_owned(), value);
        }
    }
    Value::Object(effective)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_nearest_layer_wins_with_its_whole_value() {
        let call = json!({"maxCallsPerTool": {"a": 1}, "toolBudgetNotices": false});
        let profile =
            json!({"maxCallsPerTool": {"b": 2}, "toolBudgetNotices": true, "maxToolCalls": 0});
        let engine = json!({"maxToolCalls": 9, "maxTurns": 4});
        assert_eq!(
            merge(Some(&call), Some(&profile), Some(&engine)),
            json!({
                "maxTurns": 4,
                "maxToolCalls": 0,
                "streamIdleTimeoutMs": 120_000,
                "toolBudgetNotices": false,
                "maxCallsPerTool": {"a": 1},
            })
        );
    }

    #[test]
    fn a_null_is_passed_over_except_in_the_last_layer() {
        let null = json!({"timeoutMs": null, "maxTurns": null});
        let engine = json!({"timeoutMs": 7});
        assert_eq!(
            merge(Some(&null), None, Some(&engine))["timeoutMs"],
            json!(7)
        );
        let merged = merge(None, None, Some(&null));
        assert_eq!(merged.get("timeoutMs"), Some(&Value::Null));
        assert_eq!(merged["maxTurns"], json!(32));
    }
}
