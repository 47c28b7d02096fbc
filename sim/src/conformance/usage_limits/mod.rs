//! Recorded cases of `usage_limits`: a scripted world around the engine, and the comparison of what
//! it did with what the reference did.

mod case;
mod outcome;
mod verdicts;
mod world;

use serde_json::{Value, json};

use super::{Mismatch, compare};
use case::Case;
use world::World;

/// Replays one recorded case and compares every result field and every trace event.
pub fn run_case(value: &Value) -> Result<(), Mismatch> {
    let id = value.get("id").and_then(Value::as_str).unwrap_or("?");
    let case: Case = serde_json::from_value(value.clone())
        .map_err(|error| Mismatch::unreadable(id, error.to_string()))?;
    let observed = World::new(&case)
        .run()
        .map_err(|error| Mismatch::unreadable(id, error))?;
    let expected = value.get("expect").unwrap_or(&Value::Null);
    // The first differing event says more than the totals that follow from it.
    let trace = |outcome: &Value| outcome.get("trace").cloned().unwrap_or(Value::Null);
    compare(id, "trace", &trace(expected), &trace(&observed))?;
    compare(id, "expect", expected, &observed)
}

pub use verdicts::{check_merge, check_validation};

/// An event of the trace.
fn event(kind: &str, fields: Value) -> Value {
    let mut event = json!({ "t": kind });
    if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
        event.extend(fields);
    }
    event
}
