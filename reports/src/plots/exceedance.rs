//! How often the bill passes the cap by more than some amount.

use maud::html;

use super::axis::Axis;
use super::frame::{self, Area, LINE, Plot, legend, line};
use super::{MOST_LINES, picked, shown_of};
use crate::measure::Measure;
use crate::numbers::{percent, usd};
use crate::summary::{Cell, Scenario, Summary};

const HEIGHT: f64 = 240.0;

/// The plot; `None` if nothing overspends.
pub(super) fn plot(id: &str, summary: &Summary, scenario: &Scenario) -> Option<Plot> {
    let all = scenario
        .cells
        .iter()
        .filter(|cell| !cell.overspend_exceedance.is_empty())
        .count();
    let cells: Vec<&Cell> = picked(summary, scenario, MOST_LINES)
        .into_iter()
        .filter(|cell| !cell.overspend_exceedance.is_empty())
        .collect();
    let points = || cells.iter().flat_map(|cell| &cell.overspend_exceedance);
    let largest = points().map(|point| point[0]).fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    let area = Area::usual(HEIGHT);
    let amounts = points().map(|point| point[0]).filter(|usd| *usd > 0.0);
    let smallest = amounts.fold(largest, f64::min).max(largest / 1e4);
    let x = Axis::log(smallest, largest * 1.1, area.left, area.right);
    let rarest = points()
        .map(|point| point[1])
        .filter(|share| *share > 0.0)
        .fold(1.0, f64::min);
    let commonest = points().map(|point| point[1]).fold(0.0, f64::max);
    let top = [0.01, 0.1]
        .into_iter()
        .find(|top| *top >= commonest)
        .unwrap_or(1.0);
    let y = Axis::log(rarest * 0.7, top, area.bottom, area.top);
    let body = html! {
        (frame::axes(
            area,
            (&x, "overspend, USD (log scale)", &usd),
            (&y, "runs that overspend by more, % (log scale)", &|share| percent(share).trim_end_matches('%').trim_end_matches(".0").to_owned()),
        ))
        @for (series, cell) in cells.iter().enumerate() {
            (line(series, &falling(cell, &x, &y, area)))
        }
        (legend(&cells.iter().map(|cell| cell.policy.clone()).collect::<Vec<_>>(), area.bottom + 58.0))
    };
    let described: Vec<String> = cells.iter().map(|cell| described(cell)).collect();
    let text = format!(
        "For each policy, the share of runs whose bill passes the cap by more than an amount. {}{}",
        described.join(" "),
        shown_of(cells.len(), all),
    );
    let height = area.bottom + 58.0 + cells.len() as f64 * LINE;
    Some(Plot::new(
        format!("{id}-overspend"),
        "How far do bills pass the cap?",
        text,
        height,
        body,
    ))
}

/// From the share that overspends at all down to the largest overspend.
fn falling(cell: &Cell, x: &Axis, y: &Axis, area: Area) -> Vec<(f64, f64)> {
    let height = |share: f64| {
        if share > 0.0 {
            y.at(share)
        } else {
            area.bottom
        }
    };
    let points = cell.overspend_exceedance.iter();
    points
        .map(|[usd, share]| (x.at(*usd), height(*share)))
        .collect()
}

fn described(cell: &Cell) -> String {
    let amount = |measure| cell.number(measure).map_or_else(|| "?".to_owned(), usd);
    format!(
        "{}: {} of runs, p99 USD {}, at most USD {}.",
        cell.policy,
        cell.number(Measure::OverspendRate)
            .map_or_else(String::new, percent),
        amount(Measure::OverspendP99),
        amount(Measure::OverspendMax)
    )
}
