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

/// At most `most` cells of a scenario: the baseline, the recommended one, and an even spread of the
/// others by their answered rate; in the order of the study.
fn picked<'a>(summary: &Summary, scenario: &'a Scenario, most: usize) -> Vec<&'a Cell> {
    if scenario.cells.len() <= most {
        return scenario.cells.iter().collect();
    }
    let rate = |cell: &Cell| cell.number(Measure::AnsweredRate).unwrap_or(0.0);
    let mut ranked: Vec<&Cell> = scenario.cells.iter().collect();
    ranked.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let recommended = crate::recommended(scenario).map(|cell| cell.policy.as_str());
    let mut names: Vec<&str> = [Some(summary.study.baseline.as_str()), recommended]
        .into_iter()
        .flatten()
        .collect();
    names.dedup();
    let left = most.saturating_sub(names.len()).max(1);
    for step in 0..left {
        let at = step * (ranked.len() - 1) / left.saturating_sub(1).max(1);
        let name = ranked[at].policy.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let chosen = scenario
        .cells
        .iter()
        .filter(|cell| names.contains(&cell.policy.as_str()));
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
