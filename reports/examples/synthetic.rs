//! Writes the reports of a synthetic study: `synthetic DIR [SCENARIOS POLICIES RUNS]`, or its table to
//! stdout without arguments.

#[path = "../tests/common/sample.rs"]
mod sample;

use std::time::Instant;

use holdback_reports::summary::Summary;
use holdback_reports::{folder, table};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let study = sample::sized(number(1, 3), number(2, 7), number(3, 10_000) as u64);
    let started = Instant::now();
    let summary = Summary::new(&study);
    eprintln!("summary: {:?}", started.elapsed());
    let Some(directory) = arguments.first() else {
        print!("{}", table::render(&summary, table::Style::default()));
        return Ok(());
    };
    let started = Instant::now();
    let files = folder::files(&summary)?;
    eprintln!("files: {:?}", started.elapsed());
    std::fs::create_dir_all(format!("{directory}/plots"))?;
    for file in &files {
        std::fs::write(format!("{directory}/{}", file.path), &file.content)?;
    }
    let manifest = folder::manifest(&summary, &files).to_json()?;
    std::fs::write(format!("{directory}/manifest.json"), manifest)?;
    Ok(())
}
