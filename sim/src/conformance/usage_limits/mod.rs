//! Recorded cases of `usage_limits`: a scripted world around the engine, and the comparison of what
//! it did with what the reference did.

mod case;
mod outcome;
mod verdicts;
mod world;

use serde_json::{Value, json};

use super::compare::{Difference, first_difference};
use case::Case;
use world::World;

/// Replays one recorded case and compares every result field and every trace event.
pub(super) fn play_case(value: &Value) -> Result<Option<Difference>, String> {
    let observed = outcome(value)?;
    let expected = value.get("expect").unwrap_or(&Value::Null);
    // The first differing event says more than the totals that follow from it.
    let trace = |outcome: &Value| json!({"trace": outcome.get("trace")});
    Ok(first_difference(&trace(expected), &trace(&observed))
        .or_else(|| first_difference(expected, &observed)))
}

/// What the engine makes of a case, in the shape of `expect`.
pub(super) fn outcome(value: &Value) -> Result<Value, String> {
    let case: Case = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    World::new(&case).run()
}

pub(super) use verdicts::{play_check, play_merge};

/// An event of the trace.
fn event(kind: &str, fields: Value) -> Value {
    let mut event = json!({ "t": kind });
    if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
        event.extend(fields);
    }
    event
}
