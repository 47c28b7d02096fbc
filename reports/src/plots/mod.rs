//! Plots as SVG: one question each, with axes that name their units and a text that stands for the
//! picture. Written by hand rather than by a plotting crate, because these are inlined in a page
//! that has a light, a dark and a printed form, are read by screen readers, and must come out the
//! same to the byte.
//!
//! Every number in a plot is in `summary.json`.

mod axis;
mod exceedance;
mod frame;
mod outcomes;
mod pareto;
mod ranges;
mod repaid;
mod reserve;

use crate::measure::Measure;
use crate::numbers::slug;
use crate::summary::{Cell, Scenario, Summary};

pub use frame::Plot;

/// The style sheet of all plots, in light, dark and print.
pub const STYLE: &str = include_str!("style.css");

/// Policies that a plot of lines can tell apart.
const MOST_LINES: usize = frame::SERIES;
/// Policies that a plot of rows shows.
const MOST_ROWS: usize = 32;

/// The plots of a scenario, in the order of a reader's questions.
pub fn of_scenario(summary: &Summary, scenario: &Scenario) -> Vec<Plot> {
    let id = slug(&scenario.name);
    let mut plots = Vec::new();
    plots.extend(pareto::plot(&id, summary, scenario));
    plots.extend(outcomes::plot(&id, summary, scenario));
    plots.extend(reserve::plots(
        &id,
        summary,
        scenario,
        Measure::AnsweredRate,
    ));
    plots.extend(exceedance::plot(&id, summary, scenario));
    plots.extend(reserve::plots(
        &id,
        summary,
        scenario,
        Measure::EvidenceKept,
    ));
    plots.extend(ranges::plot(&id, summary, scenario));
    plots.extend(repaid::plot(&id, scenario));
    plots
}

/// At most `most` of those cells of a scenario that `drawable` accepts: the baseline, the recommended
/// one, and an even spread of the others by their answered rate; in the order of the study.
fn picked<'a>(
    summary: &Summary,
    scenario: &'a Scenario,
    most: usize,
    drawable: impl Fn(&Cell) -> bool,
) -> Vec<&'a Cell> {
    let cells = || scenario.cells.iter().filter(|cell| drawable(cell));
    if cells().count() <= most {
        return cells().collect();
    }
    let recommended = crate::recommended(scenario).map(|cell| cell.policy.as_str());
    let always = [Some(summary.study.baseline.as_str()), recommended];
    let is_always = |cell: &&Cell| always.contains(&Some(cell.policy.as_str()));
    let mut names: Vec<&str> = cells()
        .filter(is_always)
        .map(|cell| cell.policy.as_str())
        .collect();
    let rate = |cell: &Cell| cell.number(Measure::AnsweredRate).unwrap_or(0.0);
    let mut others: Vec<&Cell> = cells().filter(|cell| !is_always(cell)).collect();
    others.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    // More others than room, or all would have fitted: the steps meet different ones.
    let left = most.saturating_sub(names.len());
    for step in 0..left {
        let at = step * (others.len() - 1) / left.saturating_sub(1).max(1);
        names.push(others[at].policy.as_str());
    }
    let chosen = cells().filter(|cell| names.contains(&cell.policy.as_str()));
    chosen.take(most).collect()
}

/// A note for plots that leave policies out.
fn shown_of(shown: usize, all: usize) -> String {
    if shown < all {
        format!(" Shown are {shown} of {all} policies; the table holds all.")
    } else {
        String::new()
    }
}
