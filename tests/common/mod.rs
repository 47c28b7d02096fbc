//! Recorded vectors and how they are played.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use flate2::read::GzDecoder;
use holdback_sim::conformance::{self, Report};

/// Plays one file of vectors.
fn play(file: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(file);
    let vectors = GzDecoder::new(File::open(&path).unwrap());
    conformance::run_lines(BufReader::new(vectors)).unwrap()
}

#[track_caller]
pub(crate) fn assert_all_agree(file: &str, vectors: usize) {
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
