//! The recorded vectors of the `run_limits` reference, played through the engine.

mod common;

use common::assert_all_agree;

#[test]
fn every_recorded_run_agrees_in_every_field_and_trace_event() {
    assert_all_agree("run-limits/cases.jsonl.gz", 4145);
}

#[test]
fn the_readable_examples_agree() {
    assert_all_agree("run-limits/examples.jsonl.gz", 27);
}

#[test]
fn limits_are_accepted_refused_and_read_as_the_reference_does() {
    assert_all_agree("run-limits/invalid.jsonl.gz", 160);
}

#[test]
fn children_get_the_limits_that_the_reference_derives() {
    assert_all_agree("run-limits/delegation.jsonl.gz", 240);
}
