//! A policy's definition in words.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::summary::Policy;

/// The definition of a policy on one line, without what names and describes it.
pub(crate) fn in_words(definition: &Value) -> String {
    match settings(definition) {
        words if words.is_empty() => "the family's defaults".to_owned(),
        words => words,
    }
}

/// What policies leave open, in words, each with the policies that leave open just that; policies
/// that leave nothing open are not mentioned.
pub(crate) fn left_open(policies: &[Policy]) -> BTreeMap<String, Vec<&str>> {
    let mut left_open: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for policy in policies {
        let words = defaults(policy);
        if !words.is_empty() {
            left_open.entry(words).or_default().push(&policy.name);
        }
    }
    left_open
}

/// What one policy leaves open, in words; empty if nothing.
pub(crate) fn defaults(policy: &Policy) -> String {
    settings(&policy.defaults)
}

fn settings(definition: &Value) -> String {
    let Value::Object(fields) = definition else {
        return String::new();
    };
    let mut words = Vec::new();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("name" | "summary" | "family" | "schema", _) => {}
            ("limits", Value::Object(limits)) => {
                words.extend(limits.iter().map(|(name, value)| setting(name, value)));
            }
            (name, value) => words.push(setting(name, value)),
        }
    }
    words.join(", ")
}

fn setting(name: &str, value: &Value) -> String {
    match value {
        Value::Null => format!("{name} unlimited"),
        Value::String(text) => format!("{name} {text}"),
        Value::Object(fields) => {
            let inner: Vec<String> = fields
                .iter()
                .map(|(name, value)| setting(name, value))
                .collect();
            format!("{name} ({})", inner.join(", "))
        }
        other => format!("{name} {other}"),
    }
}
