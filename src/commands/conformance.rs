//! `holdback conformance`: recorded vectors of the reference engines.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use holdback_sim::conformance;

use crate::cli::Conformance;
use crate::failure::{Failure, Verdict, print};

pub(super) fn run(args: &Conformance) -> Result<Verdict, Failure> {
    let (mut passed, mut failed) = (0, 0);
    for file in &args.files {
        let report = conformance::run_lines(open(file)?)
            .map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
        if report.passed + report.failed.len() == 0 {
            return Err(Failure::Usage(format!(
                "{}: found no vector, expected at least one",
                file.display()
            )));
        }
        let mismatches: String = report
            .failed
            .iter()
            .map(|mismatch| format!("{mismatch}\n"))
            .collect();
        print(&mismatches)?;
        passed += report.passed;
        failed += report.failed.len();
    }
    print(&format!("{passed} passed, {failed} failed\n"))?;
    Ok(if failed == 0 {
        Verdict::Holds
    } else {
        Verdict::Fails
    })
}

/// A file, plain or gzip by its first bytes.
fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path.is_dir() {
        return Err(Failure::Usage(format!(
            "{}: found a directory, expected a file of vectors",
            path.display()
        )));
    }
    let file = File::open(path).map_err(|error| Failure::io(path, error))?;
    let mut plain = BufReader::new(file);
    let start = plain.fill_buf().map_err(|error| Failure::io(path, error))?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(plain))));
    }
    Ok(Box::new(plain))
}
