//! Vectors of the validation of limits.

use std::collections::BTreeMap;

use holdback_engine::decimal::Decimal;
use holdback_engine::run_limits::{Declared, ReadError, read};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::compare::{Difference, first_difference};

/// A limits object, and what the reference makes of it.
#[derive(Deserialize)]
pub(in super::super) struct CheckVector {
    limits: Box<RawValue>,
    valid: bool,
    fields: Vec<String>,
    kind: Option<String>,
    parsed: Option<BTreeMap<String, Box<RawValue>>>,
    /// The object breaks the tool-call rule and another one, and the reference's order of the two is
    /// not known: any broken rule may be the one reported.
    #[serde(default)]
    order_unverified: bool,
    #[serde(default)]
    several_rules_broken: Vec<String>,
}

/// Reads the limits as the reference does and compares the verdict and the values read.
pub(in super::super) fn play_check(vector: &CheckVector) -> Result<Option<Difference>, String> {
    let read = match read(vector.limits.get()) {
        Err(error @ ReadError::NotAnObject(_)) => return Err(error.to_string()),
        Err(ReadError::Invalid(invalid)) => Err(invalid),
        Ok(declared) => Ok(declared),
    };
    let mut expected = json!({"valid": vector.valid, "fields": vector.fields, "kind": vector.kind});
    let mut found = match &read {
        Ok(_) => json!({"valid": true, "fields": [], "kind": null}),
        Err(invalid) => {
            let fields: Vec<&str> = invalid.fields.iter().map(|field| field.as_str()).collect();
            json!({"valid": false, "fields": fields, "kind": invalid.problem.as_str()})
        }
    };
    if vector.order_unverified
        && read
            .as_ref()
            .is_err_and(|invalid| vector.breaks(&invalid.fields))
    {
        found = expected.clone();
    }
    if let (Some(parsed), Ok(declared)) = (&vector.parsed, &read) {
        expected["parsed"] = parsed
            .iter()
            .map(|(name, value)| (name.clone(), decimal_text(value)))
            .collect();
        found["parsed"] = parsed_limits(declared);
    }
    Ok(first_difference(&expected, &found))
}

impl CheckVector {
    /// The fields are those of one of the rules that the object breaks.
    fn breaks(&self, fields: &[holdback_engine::run_limits::Field]) -> bool {
        let [field] = fields else { return false };
        field
            .as_str()
            .strip_prefix("synthesis_reserve_")
            .is_some_and(|dimension| {
                self.several_rules_broken
                    .iter()
                    .any(|broken| broken == dimension)
            })
    }
}

fn parsed_limits(limits: &Declared) -> Value {
    let decimal = |value: &Decimal| json!(value.to_string());
    let optional = |value: &Option<Decimal>| value.as_ref().map_or(Value::Null, decimal);
    json!({
        "max_steps": decimal(&limits.max_steps),
        "max_model_calls": decimal(&limits.max_model_calls),
        "max_tool_calls": decimal(&limits.max_tool_calls),
        "max_input_tokens": optional(&limits.max_input_tokens),
        "max_output_tokens": optional(&limits.max_output_tokens),
        "max_cost": optional(&limits.max_cost),
        "synthesis_reserve_steps": decimal(&limits.synthesis_reserve_steps),
        "synthesis_reserve_model_calls": decimal(&limits.synthesis_reserve_model_calls),
        "synthesis_reserve_tool_calls": decimal(&limits.synthesis_reserve_tool_calls),
        "synthesis_reserve_cost": decimal(&limits.synthesis_reserve_cost),
    })
}

/// Counts are recorded as numbers, which may be larger than a JSON reader keeps exactly: both sides
/// are compared as decimal texts.
fn decimal_text(value: &RawValue) -> Value {
    match Decimal::parse(value.get().trim_matches('"')) {
        Some(decimal) => json!(decimal.to_string()),
        None => serde_json::from_str(value.get()).unwrap_or_default(),
    }
}
