//! Opaque identities from real names, arguments and results.
//!
//! Canonical JSON is RFC 8785; hashes are SHA-256, of which the first 64 bits are kept.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::protocol::{Digest, Signature};

/// Identity of a call by tool name and the raw argument text exactly as the model wrote it: other
/// spacing or another order of keys is another call (`run_limits`).
pub fn raw(name: &str, arguments: &str) -> Signature {
    Signature(hash(&[name, ":", arguments]))
}

/// Identity of a call by tool name and canonical JSON arguments (`usage_limits`). Absent arguments
/// equal `null`. `None` where the arguments have no canonical form: such a call equals no other
/// (the guard stays open).
pub fn canonical(name: &str, arguments: Option<&Value>) -> Option<Signature> {
    let text = canonical_text(arguments.unwrap_or(&Value::Null))?;
    Some(Signature(hash(&[name, ":", &text])))
}

/// Identity of a whole result value. `None` where it has no canonical form: it then counts as new
/// for the novelty guard and as no evidence for a grant.
pub fn digest(value: &Value) -> Option<Digest> {
    canonical_text(value).map(|text| Digest(hash(&[&text])))
}

/// Key under which `run_limits` counts denials: tool name, JSON of the parsed arguments with sorted
/// keys and no spaces, and reason code. Numbers keep their kind: `1` and `1.0` differ. Unparsable and
/// non-object arguments count as the empty object.
pub fn denial(name: &str, arguments: &str, reason_code: &str) -> Signature {
    let parsed = serde_json::from_str::<Value>(arguments)
        .ok()
        .filter(Value::is_object)
        .map_or_else(|| "{}".to_owned(), |value| sorted(value).to_string());
    Signature(hash(&[name, "\u{0}", &parsed, "\u{0}", reason_code]))
}

/// The same value with the keys of all objects in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let ordered: BTreeMap<String, Value> = fields
                .into_iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect();
            ordered.into_iter().collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

fn canonical_text(value: &Value) -> Option<String> {
    serde_jcs::to_string(value).ok()
}

fn hash(parts: &[&str]) -> NonZeroU64 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
    }
    let bytes = hasher.finalize();
    let mut first = [0_u8; 8];
    first.copy_from_slice(&bytes[..8]);
    NonZeroU64::new(u64::from_be_bytes(first)).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn order_and_spacing_matter_to_the_raw_signature_only() {
        assert_ne!(raw("t", r#"{"a":1,"b":2}"#), raw("t", r#"{"b":2,"a":1}"#));
        assert_eq!(
            canonical("t", Some(&json!({"a": 1, "b": 2}))),
            canonical("t", Some(&json!({"b": 2, "a": 1})))
        );
        assert_eq!(canonical("t", None), canonical("t", Some(&Value::Null)));
        assert_ne!(canonical("t", None), canonical("u", None));
    }

    #[test]
    fn unparsable_arguments_are_denied_as_the_empty_object() {
        assert_eq!(denial("t", "{", "r"), denial("t", "[1]", "r"));
        assert_eq!(denial("t", "{", "r"), denial("t", "{ }", "r"));
        assert_ne!(denial("t", "{}", "r"), denial("t", "{}", "s"));
    }

    #[test]
    fn denials_are_equal_whatever_their_spacing_and_order_of_keys() {
        let key = |arguments| denial("t", arguments, "r");
        assert_eq!(
            key(r#"{"a":1,"b":{"d":[1],"c":2}}"#),
            key(r#"{ "b": {"c":2, "d":[ 1 ]}, "a":1 }"#)
        );
        assert_ne!(key(r#"{"a":1}"#), key(r#"{"a":1.0}"#));
        assert_ne!(key(r#"{"a":[1,2]}"#), key(r#"{"a":[2,1]}"#));
    }

    #[test]
    fn numbers_are_canonical_as_rfc_8785_writes_them() {
        let text = canonical_text(&json!({"b": [1e21, 4.50, 2e-3, 1e-27, 10.0], "a": "\u{20ac}"}));
        assert_eq!(
            text.as_deref(),
            Some("{\"a\":\"€\",\"b\":[1e+21,4.5,0.002,1e-27,10]}")
        );
    }
}
