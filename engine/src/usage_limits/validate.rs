//! Which limits objects are valid, and the first field that makes one invalid.

use serde_json::{Map, Value};

/// Why a limits object is refused: the first offending field in the reference's checking order.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// The limits are no object at all.
    #[error("the limits must be an object, found {found}")]
    NotAnObject {
        /// The value found, as JSON.
        found: String,
    },
    /// One field is wrong.
    #[error("{field}: expected {expected}, found {found}")]
    Field {
        /// Path of the field within the limits object, such as `toolUnits.costs['search']`.
        field: String,
        /// What is allowed there.
        expected: &'static str,
        /// The value found, as JSON (`nothing` where it is missing).
        found: String,
    },
}

impl Invalid {
    pub(super) fn not_an_object(limits: &Value) -> Invalid {
        Invalid::NotAnObject {
            found: limits.to_string(),
        }
    }

    /// The path of the offending field, if it is one field.
    pub fn field(&self) -> Option<&str> {
        match self {
            Invalid::NotAnObject { .. } => None,
            Invalid::Field { field, .. } => Some(field),
        }
    }
}

type Checked = Result<(), Invalid>;

/// Checks one layer of limits. A field is checked when it is present with any value, null included
/// (null is always wrong); unknown members are ignored. A layer that is null fails; another value
/// without members has no field to check and passes, as in the reference
/// ([`super::UsageLimits::from_json`] refuses it). Source: section 1 of the semantics.
pub fn validate(limits: &Value) -> Checked {
    let limits = match limits {
        Value::Object(limits) => limits,
        Value::Null => return Err(Invalid::not_an_object(limits)),
        _ => return Ok(()),
    };
    let at = Path { limits, prefix: "" };
    at.optional("maxTurns", positive)?;
    at.optional("maxToolCalls", whole)?;
    at.optional("maxOutputTokensPerTurn", positive)?;
    at.optional("timeoutMs", positive)?;
    at.optional("streamIdleTimeoutMs", timer)?;
    at.optional("noProgressTurns", positive)?;
    at.optional("toolBudgetNotices", flag)?;
    at.optional("maxRepeatedToolSignature", positive)?;
    at.optional("maxNoNewEvidenceCalls", positive)?;
    at.record_of_whole("maxCallsPerTool")?;
    at.object("toolUnits", |units| {
        units.required("max", positive)?;
        units.record_of_whole("costs")
    })?;
    at.optional("checkpointEveryToolCalls", positive)?;
    at.object("finalizationReserve", |reserve| {
        reserve.optional("maxOutputTokens", positive)
    })?;
    at.object("toolBudgetExtension", |extension| {
        extension.required("increment", positive)?;
        extension.required("maxExtensions", positive)?;
        extension.optional("minHeadroomUsd", amount)?;
        extension.optional("requireNewEvidence", flag)?;
        extension.optional("coverEvidenceDeficit", flag)
    })?;
    at.object("finalizationWindow", |window| {
        window.required("reserveCalls", positive)?;
        window.optional("reserveForEvidenceDeficit", flag)?;
        window.names("allow")
    })?;
    at.object("finalizationTurns", |turns| {
        turns.required("reserveTurns", positive)?;
        turns.names("allow")
    })
}

/// What a value must be; `Err` says it in words.
type Test = fn(&Value) -> Result<(), &'static str>;

fn positive(value: &Value) -> Result<(), &'static str> {
    integer_between(value, 1.0, f64::MAX).ok_or("an integer of at least 1")
}

fn whole(value: &Value) -> Result<(), &'static str> {
    integer_between(value, 0.0, f64::MAX).ok_or("an integer of at least 0")
}

fn timer(value: &Value) -> Result<(), &'static str> {
    integer_between(value, 1.0, 2_147_483_647.0).ok_or("an integer from 1 to 2147483647")
}

fn amount(value: &Value) -> Result<(), &'static str> {
    value
        .as_f64()
        .filter(|usd| usd.is_finite() && *usd >= 0.0)
        .map(drop)
        .ok_or("a finite amount of USD of at least 0")
}

fn flag(value: &Value) -> Result<(), &'static str> {
    value.as_bool().map(drop).ok_or("true or false")
}

fn tool_name(value: &Value) -> Result<(), &'static str> {
    value
        .as_str()
        .filter(|name| !name.is_empty())
        .map(drop)
        .ok_or("a tool name that is not empty")
}

/// "Integer" is mathematical: 3.0 and 1e308 are integers.
fn integer_between(value: &Value, low: f64, high: f64) -> Option<()> {
    value
        .as_f64()
        .filter(|number| *number >= low && *number <= high && number.fract() == 0.0)
        .map(drop)
}

/// An object within the limits and the path that leads to it.
struct Path<'a> {
    limits: &'a Map<String, Value>,
    prefix: &'a str,
}

impl Path<'_> {
    fn path(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }

    fn optional(&self, field: &str, test: Test) -> Checked {
        match self.limits.get(field) {
            Some(value) => check(self.path(field), value, test),
            None => Ok(()),
        }
    }

    fn required(&self, field: &str, test: Test) -> Checked {
        match self.limits.get(field) {
            Some(value) => check(self.path(field), value, test),
            None => Err(Invalid::Field {
                field: self.path(field),
                expected: test(&Value::Null).err().unwrap_or("a value"),
                found: "nothing".to_owned(),
            }),
        }
    }

    fn object(&self, field: &str, members: impl FnOnce(&Path<'_>) -> Checked) -> Checked {
        match self.limits.get(field) {
            None => Ok(()),
            Some(Value::Object(limits)) => members(&Path {
                limits,
                prefix: &format!("{}.", self.path(field)),
            }),
            Some(other) => Err(wrong(self.path(field), "an object", other)),
        }
    }

    fn record_of_whole(&self, field: &str) -> Checked {
        match self.limits.get(field) {
            None => Ok(()),
            Some(Value::Object(record)) => record.iter().try_for_each(|(name, value)| {
                check(format!("{}['{name}']", self.path(field)), value, whole)
            }),
            Some(other) => Err(wrong(
                self.path(field),
                "an object from tool names to integers",
                other,
            )),
        }
    }

    fn names(&self, field: &str) -> Checked {
        match self.limits.get(field) {
            None => Ok(()),
            Some(Value::Array(names)) => names.iter().enumerate().try_for_each(|(index, name)| {
                check(format!("{}[{index}]", self.path(field)), name, tool_name)
            }),
            Some(other) => Err(wrong(self.path(field), "a list of tool names", other)),
        }
    }
}

fn check(field: String, value: &Value, test: Test) -> Checked {
    test(value).map_err(|expected| wrong(field, expected, value))
}

fn wrong(field: String, expected: &'static str, found: &Value) -> Invalid {
    Invalid::Field {
        field,
        expected,
        found: found.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn field(limits: Value) -> Option<String> {
        validate(&limits).err()?.field().map(str::to_owned)
    }

    #[test]
    fn the_first_bad_field_in_checking_order_is_named() {
        assert_eq!(
            field(json!({"finalizationTurns": {}, "maxToolCalls": -1})).as_deref(),
            Some("maxToolCalls")
        );
        assert_eq!(
            field(json!({"toolUnits": {"max": 5, "costs": {"a": 1, "b": "2"}}})).as_deref(),
            Some("toolUnits.costs['b']")
        );
        assert_eq!(
            field(json!({"finalizationWindow": {"allow": [""], "reserveCalls": 1}})).as_deref(),
            Some("finalizationWindow.allow[0]")
        );
    }

    #[test]
    fn a_message_says_where_what_and_what_is_allowed() {
        let message = validate(&json!({"timeoutMs": 1.5}))
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "timeoutMs: expected an integer of at least 1, found 1.5"
        );
        let message = validate(&json!({"toolUnits": {}})).unwrap_err().to_string();
        assert_eq!(
            message,
            "toolUnits.max: expected an integer of at least 1, found nothing"
        );
    }

    #[test]
    fn large_and_negative_zero_integers_pass_where_they_are_in_range() {
        assert_eq!(
            validate(&json!({"maxTurns": 1e308, "maxToolCalls": -0.0})),
            Ok(())
        );
        assert_eq!(
            field(json!({"streamIdleTimeoutMs": 2_147_483_648_u64})).as_deref(),
            Some("streamIdleTimeoutMs")
        );
    }
}
