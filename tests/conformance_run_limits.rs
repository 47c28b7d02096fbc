//! The recorded vectors of the `run_limits` reference, played through the engine.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use flate2::read::GzDecoder;
use holdback_sim::conformance::{self, Report};

/// Plays one file of vectors.
fn play(file: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors/run-limits")
        .join(file);
    let vectors = GzDecoder::new(File::open(&path).unwrap());
    conformance::run_lines(BufReader::new(vectors)).unwrap()
}

#[track_caller]
fn assert_all_agree(file: &str, vectors: usize) {
    let report = play(file);
    let first: Vec<String> = report
        .failed
        .iter()
        .take(10)
        .map(ToString::to_string)
        .collect();
    assert!(
        report.failed.is_empty(),
        "{} of {vectors} disagree:\n{}",
        report.failed.len(),
        first.join("\n")
    );
    assert_eq!(report.passed, vectors);
}

#[test]
fn every_recorded_run_agrees_in_every_field_and_trace_event() {
    assert_all_agree("cases.jsonl.gz", 4145);
}

#[test]
fn the_readable_examples_agree() {
    assert_all_agree("examples.jsonl.gz", 27);
}

#[test]
fn limits_are_accepted_refused_and_read_as_the_reference_does() {
    assert_all_agree("invalid.jsonl.gz", 160);
}

#[test]
fn children_get_the_limits_that_the_reference_derives() {
    assert_all_agree("delegation.jsonl.gz", 240);
}
