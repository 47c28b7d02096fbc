//! `holdback conformance`: recorded vectors of the reference engines.

use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use holdback_sim::conformance;

use crate::cli::Conformance;
use crate::failure::{Failure, Verdict, print};

pub(super) fn run(args: &Conformance) -> Result<Verdict, Failure> {
    let (mut passed, mut failed) = (0_u64, 0_u64);
    for file in &args.files {
        let report = conformance::run_lines(&file.display().to_string(), open(file)?)?;
        let mut text = String::new();
        for mismatch in &report.mismatches {
            writeln!(text, "{mismatch}").map_err(|error| Failure::Internal(error.to_string()))?;
        }
        print(&text)?;
        passed += report.passed;
        failed += report.mismatches.len() as u64;
    }
    print(&format!("{passed} passed, {failed} failed\n"))?;
    Ok(if failed == 0 { Verdict::Holds } else { Verdict::Fails })
}
