//! Plays recorded reference vectors through the engine and compares every field and trace event.
//!
//! Vectors are JSON objects one after the other (usually one a line). What a vector is follows from
//! its fields, so files of different kinds can be given in any order.

mod compare;
mod run_limits;
mod usage_limits;

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use compare::Difference;

/// What came of a stream of vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many vectors agree.
    pub passed: usize,
    /// Those that do not, in the order of the stream.
    pub failed: Vec<Mismatch>,
}

impl Report {
    /// Adds what another stream came to.
    pub fn merge(&mut self, other: Report) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
    }
}

/// A vector that the engine does not reproduce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The vector's `id`; `#n` for the n-th of the stream where it has none.
    pub id: String,
    /// The first field or trace event that differs, as a path below `expect`.
    pub place: String,
    /// What is recorded there.
    pub expected: String,
    /// What the engine did.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch {
            id,
            place,
            expected,
            found,
        } = self;
        write!(f, "{id}: {place}: expected {expected}, found {found}")
    }
}

/// Why a stream of vectors cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The stream cannot be read or is no JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A vector of no known kind.
    #[error(
        "vector {0}: expected a run case (`script`, `limits`, `expect`), a limits check (`limits`, `valid`), a delegation (`parent`, `briefs`) or a merge (`call`, `profile`, `engine`, `effective`)"
    )]
    UnknownKind(String),
    /// A vector whose fields are not as they should be.
    #[error("vector {id}: {message}")]
    BadVector {
        /// The vector.
        id: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Plays all vectors of a stream.
///
/// # Errors
/// If the stream is no sequence of vectors. That a vector disagrees is no error but part of the
/// report.
pub fn run_lines(reader: impl io::BufRead) -> Result<Report, ConformanceError> {
    let mut report = Report::default();
    let vectors = serde_json::Deserializer::from_reader(reader).into_iter::<Box<RawValue>>();
    for (index, vector) in vectors.enumerate() {
        let vector = Vector::new(vector?, index)?;
        match vector.play()? {
            None => report.passed += 1,
            Some(difference) => report.failed.push(Mismatch {
                id: vector.id,
                place: difference.place,
                expected: difference.expected,
                found: difference.found,
            }),
        }
    }
    Ok(report)
}

/// What the engine makes of a run case, in the shape of its `expect`, which is not looked at.
///
/// # Errors
/// If the value is no run case.
pub(crate) fn expected(case: &Value) -> Result<Value, ConformanceError> {
    let vector = Vector::new(RawValue::from_string(case.to_string())?, 0)?;
    let outcome = match vector.kind {
        Kind::RunLimitsCase => run_limits::outcome(&vector.parse()?),
        Kind::UsageLimitsCase => usage_limits::outcome(&vector.parse()?),
        _ => return Err(ConformanceError::UnknownKind(vector.id)),
    };
    outcome.map_err(|message| vector.bad(message))
}

/// One vector of a stream.
struct Vector {
    id: String,
    kind: Kind,
    /// Its text: numbers must be read as they are written.
    json: Box<RawValue>,
}

/// The fields of an object, unread: a recorded number may be larger than any type holds.
type Fields = BTreeMap<String, Box<RawValue>>;

/// The kinds of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    RunLimitsCase,
    RunLimitsCheck,
    RunLimitsDelegation,
    UsageLimitsCase,
    UsageLimitsCheck,
    UsageLimitsMerge,
}

impl Kind {
    fn of(fields: &Fields) -> Option<Kind> {
        let has = |name: &str| fields.contains_key(name);
        let limits_have = |name: &str| {
            let limits = fields.get("limits").map(|limits| limits.get());
            let limits = limits.and_then(|json| serde_json::from_str::<Fields>(json).ok());
            limits.is_some_and(|limits| limits.contains_key(name))
        };
        if has("parent") && has("briefs") {
            Some(Kind::RunLimitsDelegation)
        } else if has("valid") && has("fields") {
            Some(Kind::RunLimitsCheck)
        } else if has("script") && limits_have("max_steps") {
            Some(Kind::RunLimitsCase)
        } else if has("effective") && has("engine") {
            Some(Kind::UsageLimitsMerge)
        } else if has("valid") && has("field") {
            Some(Kind::UsageLimitsCheck)
        } else if has("script") && has("limits") && has("toolResults") {
            Some(Kind::UsageLimitsCase)
        } else {
            None
        }
    }
}

impl Vector {
    fn new(json: Box<RawValue>, index: usize) -> Result<Vector, ConformanceError> {
        let fields: Fields = serde_json::from_str(json.get())?;
        let id = fields.get("id").map(|id| serde_json::from_str(id.get()));
        let id = match id {
            Some(Ok(id)) => id,
            _ => format!("#{}", index + 1),
        };
        match Kind::of(&fields) {
            Some(kind) => Ok(Vector { id, kind, json }),
            None => Err(ConformanceError::UnknownKind(id)),
        }
    }

    fn play(&self) -> Result<Option<Difference>, ConformanceError> {
        let difference = match self.kind {
            Kind::RunLimitsCase => run_limits::play_case(&self.parse()?),
            Kind::RunLimitsCheck => run_limits::play_check(&self.parse()?),
            Kind::RunLimitsDelegation => run_limits::play_delegation(&self.parse()?),
            Kind::UsageLimitsCase => usage_limits::play_case(&self.parse()?),
            Kind::UsageLimitsCheck => Ok(usage_limits::play_check(&self.parse()?)),
            Kind::UsageLimitsMerge => Ok(usage_limits::play_merge(&self.parse()?)),
        };
        difference.map_err(|message| self.bad(message))
    }

    fn parse<T: DeserializeOwned>(&self) -> Result<T, ConformanceError> {
        serde_json::from_str(self.json.get()).map_err(|error| self.bad(error.to_string()))
    }

    fn bad(&self, message: String) -> ConformanceError {
        ConformanceError::BadVector {
            id: self.id.clone(),
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_vector_is_named() {
        let error = run_lines(r#"{"id":"x","what":1}"#.as_bytes()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("vector x: expected a run case"),
            "{error}"
        );
        let error = run_lines(r#"{"valid":true,"fields":7}"#.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("vector #1: "), "{error}");
        assert!(matches!(
            run_lines("[".as_bytes()),
            Err(ConformanceError::Json(_))
        ));
    }

    #[test]
    fn a_vector_that_disagrees_names_the_first_difference() {
        let lines = r#"{"id":"a","limits":{},"valid":true,"fields":[],"kind":null}
            {"id":"b","limits":{"max_steps":"x"},"valid":true,"fields":[],"kind":null}"#;
        let report = run_lines(lines.as_bytes()).unwrap();
        assert_eq!(report.passed, 1);
        assert_eq!(
            report.failed[0].to_string(),
            "b: valid: expected true, found false"
        );
    }
}
