//! Recorded verdicts of the validator and results of the merge.

use holdback_engine::usage_limits::{Invalid, merge, validate};
use serde_json::{Value, json};

use super::super::compare::{Difference, first_difference};

/// Compares the validator's verdict on a limits object with the recorded one.
pub(in super::super) fn play_check(row: &Value) -> Option<Difference> {
    let limits = decoded(row.get("limits").unwrap_or(&Value::Null));
    let verdict = validate(&limits);
    let mut observed = json!({
        "valid": verdict.is_ok(),
        "field": verdict.as_ref().err().and_then(Invalid::field),
    });
    if matches!(verdict, Err(Invalid::NotAnObject { .. })) {
        observed["thrown"] = json!("TypeError");
    }
    let mut expected = row.clone();
    if let Value::Object(expected) = &mut expected {
        expected.shift_remove("limits");
    }
    first_difference(&expected, &observed)
}

/// Compares a merge of three layers with the recorded one.
pub(in super::super) fn play_merge(row: &Value) -> Option<Difference> {
    let layer = |name: &str| row.get(name).filter(|layer| !layer.is_null());
    let observed = merge(layer("call"), layer("profile"), layer("engine"));
    let expected = row.get("effective").unwrap_or(&Value::Null);
    first_difference(
        &json!({"effective": expected}),
        &json!({"effective": observed}),
    )
}

/// The vectors write numbers that JSON lacks as `{"$num": ...}`. NaN and infinities become null,
/// which is as wrong as they are wherever a number is expected.
fn decoded(value: &Value) -> Value {
    match value {
        Value::Object(members) => match members.get("$num").and_then(Value::as_str) {
            Some("-0") => json!(-0.0),
            Some(_) => Value::Null,
            None => members
                .iter()
                .map(|(name, member)| (name.clone(), decoded(member)))
                .collect(),
        },
        Value::Array(members) => members.iter().map(decoded).collect(),
        other => other.clone(),
    }
}
