//! Conformance with the reference engines: recorded cases are replayed and compared.

pub mod usage_limits;

use serde_json::Value;

/// The first difference between a recorded case and the replay.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{case}: {path}: expected {expected}, found {found}")]
pub struct Mismatch {
    /// The id of the case.
    pub case: String,
    /// The first differing field or trace event.
    pub path: String,
    /// What the reference did, as JSON.
    pub expected: String,
    /// What the replay did, as JSON.
    pub found: String,
}

impl Mismatch {
    fn unreadable(case: &str, error: String) -> Mismatch {
        Mismatch {
            case: case.to_owned(),
            path: "case".to_owned(),
            expected: "a readable case".to_owned(),
            found: error,
        }
    }
}

/// Compares two JSON values; numbers are compared by value, members in any order.
pub(crate) fn compare(
    case: &str,
    path: &str,
    expected: &Value,
    found: &Value,
) -> Result<(), Mismatch> {
    let differs = || {
        Err(Mismatch {
            case: case.to_owned(),
            path: path.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        })
    };
    match (expected, found) {
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => Ok(()),
        (Value::Array(a), Value::Array(b)) => {
            for (index, pair) in a.iter().zip(b).enumerate() {
                compare(case, &format!("{path}[{index}]"), pair.0, pair.1)?;
            }
            let (at, nothing) = (a.len().min(b.len()), Value::from("nothing"));
            match (a.get(at), b.get(at)) {
                (None, None) => Ok(()),
                (a, b) => compare(
                    case,
                    &format!("{path}[{at}]"),
                    a.unwrap_or(&nothing),
                    b.unwrap_or(&nothing),
                ),
            }
        }
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in a {
                let Some(other) = b.get(name) else {
                    return differs();
                };
                compare(case, &format!("{path}.{name}"), value, other)?;
            }
            if a.len() == b.len() {
                Ok(())
            } else {
                differs()
            }
        }
        _ if expected == found => Ok(()),
        _ => differs(),
    }
}
