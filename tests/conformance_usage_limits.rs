//! The recorded vectors of `usage_limits`: every case in every field and every trace event.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use holdback_sim::conformance::{Mismatch, usage_limits};
use serde_json::Value;

fn rows(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors/usage-limits")
        .join(name);
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).expect("the vectors are part of the project"))
        .read_to_string(&mut text)
        .expect("the vectors are gzipped text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("the vectors are JSON lines"))
        .collect()
}

fn assert_all_agree(count: usize, verdicts: impl Iterator<Item = Result<(), Mismatch>>) {
    let verdicts: Vec<_> = verdicts.collect();
    assert_eq!(verdicts.len(), count);
    let mismatches: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| verdict.as_ref().err())
        .collect();
    let first: Vec<String> = mismatches
        .iter()
        .take(10)
        .map(ToString::to_string)
        .collect();
    assert!(
        mismatches.is_empty(),
        "{} of {count} differ:\n{}",
        mismatches.len(),
        first.join("\n")
    );
}

#[test]
fn every_recorded_case_agrees_in_every_field_and_event() {
    let cases = rows("cases.jsonl.gz");
    assert_all_agree(5936, cases.iter().map(usage_limits::run_case));
}

#[test]
fn every_example_agrees_in_every_field_and_event() {
    let cases = rows("examples.jsonl.gz");
    assert_all_agree(53, cases.iter().map(usage_limits::run_case));
}

#[test]
fn the_validator_names_the_field_that_the_reference_names() {
    let rows = rows("invalid.jsonl.gz");
    let verdict = |(line, row): (usize, &Value)| {
        usage_limits::check_validation(&format!("invalid.jsonl:{}", line + 1), row)
    };
    assert_all_agree(385, rows.iter().enumerate().map(verdict));
}

#[test]
fn three_layers_merge_as_in_the_reference() {
    let rows = rows("merge.jsonl.gz");
    let verdict = |(line, row): (usize, &Value)| {
        usage_limits::check_merge(&format!("merge.jsonl:{}", line + 1), row)
    };
    assert_all_agree(220, rows.iter().enumerate().map(verdict));
}
