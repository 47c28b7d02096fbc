//! The recorded vectors of the `usage_limits` reference, played through the engine.

mod common;

use common::assert_all_agree;

#[test]
fn every_recorded_case_agrees_in_every_field_and_event() {
    assert_all_agree("usage-limits/cases.jsonl.gz", 5936);
}

#[test]
fn every_example_agrees_in_every_field_and_event() {
    assert_all_agree("usage-limits/examples.jsonl.gz", 53);
}

#[test]
fn the_validator_names_the_field_that_the_reference_names() {
    assert_all_agree("usage-limits/invalid.jsonl.gz", 385);
}

#[test]
fn three_layers_merge_as_in_the_reference() {
    assert_all_agree("usage-limits/merge.jsonl.gz", 220);
}
