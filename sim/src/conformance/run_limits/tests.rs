//! A crash behind the response of a tool turn, which the recorded snapshot of the reference could
//! not survive: its vectors end in an internal error, the engine continues (section 11.6).

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::super::compare::first_difference;
use super::case::Case;
use super::{outcome, play_case};

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/vectors/run-limits/extra-model-response-crash.jsonl.gz");
    BufReader::new(GzDecoder::new(File::open(path).unwrap()))
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

/// The outcome without the crash itself and the mark of calls that a resume dispatched.
fn without_crash(mut outcome: Value) -> Value {
    let trace = outcome["trace"].as_array_mut().unwrap();
    trace.retain(|entry| entry.get("crash").is_none() && entry.get("resume").is_none());
    for entry in trace {
        if let Some(call) = entry.get_mut("call").and_then(Value::as_object_mut) {
            call.remove("recovered");
        }
    }
    outcome
}

#[test]
fn a_run_that_crashes_behind_a_tool_turn_continues_as_if_it_had_not() {
    let cases = cases();
    assert_eq!(cases.len(), 90);
    let mut ended = 0;
    for case in cases {
        let undisturbed = Case {
            kill: None,
            ..case.clone()
        };
        let expected = outcome(&undisturbed).unwrap();
        assert_eq!(without_crash(outcome(&case).unwrap()), expected);
        // The scripts are cut where the snapshot failed, so not every run gets to its end.
        ended += u32::from(expected["status"] == "COMPLETED");
    }
    assert!(ended > 30, "only {ended} runs get to their end");
}

/// The trace up to the resume and with it.
fn up_to_resume(outcome: &Value) -> Vec<Value> {
    let mut trace = outcome["trace"].as_array().unwrap().clone();
    let resume = trace.iter().position(|entry| entry.get("resume").is_some());
    trace.truncate(resume.unwrap() + 1);
    trace
}

#[test]
fn the_snapshot_agrees_up_to_the_crash_and_fails_behind_it() {
    for case in cases() {
        let found = outcome(&case).unwrap();
        let recorded = up_to_resume(&case.expect);
        assert!(recorded.len() > 3);
        let difference = first_difference(&recorded.into(), &up_to_resume(&found).into());
        assert_eq!(difference, None);
        assert!(play_case(&case).unwrap().is_some());
    }
}
