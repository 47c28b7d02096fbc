//! Which family a limits object belongs to, where the file does not say.

use crate::policy::Family;
use crate::read::error::FileError;
use crate::read::fields::Field;
use crate::read::tree::{Kind, Node};

/// Keys that only `run_limits` has; those that begin with `synthesis_reserve_` are its own, too.
const RUN_LIMITS: [&str; 3] = ["max_steps", "max_cost", "deadline_at"];
/// Keys that only `caps` has.
const CAPS: [&str; 13] = [
    "max_turns",
    "max_calls_per_tool",
    "max_cost_usd",
    "max_total_tokens",
    "max_time_s",
    "count_turns",
    "batch",
    "check",
    "on_exhausted",
    "durable",
    "cut_turn",
    "blank_answer",
    "preset",
];
/// Keys that `run_limits` and `caps` share.
const SHARED: [&str; 4] = [
    "max_model_calls",
    "max_tool_calls",
    "max_input_tokens",
    "max_output_tokens",
];

fn is_run_limits(key: &str) -> bool {
    RUN_LIMITS.contains(&key) || key.starts_with("synthesis_reserve_")
}

/// Camel case: a lower-case start and an upper-case letter further on.
fn is_usage_limits(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.contains(|c: char| c.is_ascii_uppercase())
        && !key.contains('_')
}

/// True for a document that holds a limits object and nothing else.
pub(crate) fn looks_like_limits(root: &Node) -> bool {
    let Kind::Table(entries) = &root.kind else {
        return false;
    };
    !["limits", "family", "extends", "name"]
        .iter()
        .any(|key| root.get(key).is_some())
        && entries.iter().any(|entry| {
            let key = entry.key.as_str();
            is_run_limits(key)
                || is_usage_limits(key)
                || CAPS.contains(&key)
                || SHARED.contains(&key)
        })
}

/// The family of a limits object by its keys.
pub(crate) fn of_limits(field: &Field<'_>) -> Result<Family, FileError> {
    let Kind::Table(entries) = &field.node.kind else {
        return Err(field.wrong("a table of limits"));
    };
    let find = |belongs: &dyn Fn(&str) -> bool| {
        entries
            .iter()
            .map(|entry| entry.key.as_str())
            .find(|key| belongs(key))
    };
    let run = find(&is_run_limits);
    let usage = find(&is_usage_limits);
    let caps = find(&|key| CAPS.contains(&key));
    let both = |one: &str, family: Family, other: &str, and: Family| {
        let found = format!("limits of two families: `{one}` ({family}) and `{other}` ({and})");
        field.error(found, "the limits of one family")
    };
    match (run, usage, caps) {
        (Some(key), Some(other), _) => {
            Err(both(key, Family::RunLimits, other, Family::UsageLimits))
        }
        (Some(key), None, Some(other)) => Err(both(key, Family::RunLimits, other, Family::Caps)),
        (None, Some(key), Some(other)) => Err(both(key, Family::UsageLimits, other, Family::Caps)),
        (Some(_), None, None) => Ok(Family::RunLimits),
        (None, Some(_), None) => Ok(Family::UsageLimits),
        (None, None, Some(_)) => Err(field.error(
            "limits of `caps` without a family",
            "`family = \"caps\"` beside `limits`",
        )),
        (None, None, None) => Err(match find(&|key| SHARED.contains(&key)) {
            Some(key) => field.error(
                format!("limits that fit two families: `{key}` is in run_limits and in caps"),
                "`family = \"run_limits\"` or `family = \"caps\"`",
            ),
            None => field.error(
                "limits that fit no family",
                "`family = \"run_limits\"`, `\"usage_limits\"` or `\"caps\"`",
            ),
        }),
    }
}
