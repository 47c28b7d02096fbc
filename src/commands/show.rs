//! Printing results and timings.

use std::io::IsTerminal;
use std::time::Duration;

use holdback_reports::summary::Summary;
use holdback_reports::table::{self, Style};
use indicatif::HumanCount;

use crate::cli::{Format, Shared};
use crate::failure::{Failure, print, remark};
use crate::output::Folder;

/// Prints a summary in the format that was asked for.
pub(super) fn summary(
    summary: &Summary,
    format: Format,
    folder: Option<&Folder>,
) -> Result<(), Failure> {
    let text = match format {
        Format::Table => table::render(summary, style()),
        Format::Csv => holdback_reports::csv::render(summary),
        Format::Json => summary
            .to_json()
            .map_err(|error| Failure::Internal(error.to_string()))?,
        Format::Markdown => holdback_reports::markdown::render(summary),
    };
    print(&text)?;
    if let Some(folder) = folder
        && format == Format::Table
    {
        print(&format!("Written: {}\n", folder.path().display()))?;
    }
    Ok(())
}

/// Colour only on a terminal, and never against `NO_COLOR` (<https://no-color.org>).
pub(super) fn style() -> Style {
    let colour = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Style {
        colour,
        ..Style::default()
    }
}

/// Says on stderr how long the runs took.
pub(super) fn timing(shared: &Shared, runs: u64, elapsed: Duration) {
    if shared.quiet {
        return;
    }
    let seconds = elapsed.as_secs_f64();
    let rate = HumanCount((runs as f64 / seconds.max(1e-9)) as u64);
    let runs = HumanCount(runs);
    remark(&format!(
        "{runs} runs in {seconds:.2} s ({rate} runs a second)"
    ));
}
