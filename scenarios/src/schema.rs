//! JSON Schemas of the files that are read, for editors and for programs that write them.
//!
//! The readers are stricter than a schema can say (what excludes what, which distribution is never
//! negative); tests hold keys of both to each other.

use serde_json::{Map, Value};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A workload.
    Scenario,
    /// One way of setting the limits, or several.
    Policy,
    /// Scenarios times policies.
    Study,
    /// Model prices.
    Prices,
    /// A line of recorded runs in the neutral format.
    Traces,
}

/// The schema of a kind of file, as JSON text of the 2020-12 dialect.
pub fn text(kind: Kind) -> String {
    let plain = match kind {
        Kind::Scenario => SCENARIO,
        Kind::Policy => POLICY,
        Kind::Prices => include_str!("../schemas/prices.json"),
        Kind::Traces => include_str!("../schemas/traces.json"),
        Kind::Study => return study(),
    };
    plain.to_owned()
}

const SCENARIO: &str = include_str!("../schemas/scenario.json");
const POLICY: &str = include_str!("../schemas/policy.json");

/// A study may hold scenarios and policies, so its schema holds theirs.
fn study() -> String {
    let mut study = object(include_str!("../schemas/study.json"));
    let mut defs = Map::new();
    let mut scenario = object(SCENARIO);
    for mut schema in [object(POLICY), std::mem::take(&mut scenario)] {
        if let Some(Value::Object(own)) = schema.remove("$defs") {
            defs.extend(own);
        }
        scenario = schema;
    }
    scenario.remove("$schema");
    defs.insert("scenario".to_owned(), Value::Object(scenario));
    study.insert("$defs".to_owned(), Value::Object(defs));
    let mut text = format!("{:#}", Value::Object(study));
    text.push('\n');
    text
}

/// An embedded document; that each is an object is tested.
fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}
