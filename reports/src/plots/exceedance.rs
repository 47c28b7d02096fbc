//! How often the bill passes the cap by more than some amount.

use maud::html;

use super::axis::Axis;
use super::frame::{self, Area, LINE, Plot, legend, line, mark};
use super::{MOST_LINES, picked, shown_of};
use crate::cap::Cap;
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
    let cells = picked(summary, scenario, MOST_LINES, |cell| {
        !cell.overspend_exceedance.is_empty()
    });
    let named = |cell: &Cell| {
        format!(
            "{} ({})",
            cell.policy,
            Cap::of(summary, scenario, &cell.policy).note()
        )
    };
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
            @let curve = falling(cell, &x, &y, area);
            (line(series, &curve))
            @for at in marked(&curve, series, cells.len(), area) {
                @let [amount, share] = cell.overspend_exceedance[at];
                (mark(series, curve[at].0, curve[at].1, &format!(
                    "{}: {} of runs by more than USD {}", cell.policy, percent(share), usd(amount))))
            }
        }
        (legend(&cells.iter().map(|cell| named(cell)).collect::<Vec<_>>(), area.bottom + 58.0))
    };
    let note = format!(
        "Each curve is measured against the amount beside its name.{}",
        shown_of(cells.len(), all)
    );
    let described: Vec<String> = cells.iter().map(|cell| described(cell)).collect();
    let text = format!(
        "For each policy, the share of runs whose bill passes the cap by more than an amount. {}{}",
        described.join(" "),
        shown_of(cells.len(), all),
    );
    let height = area.bottom + 58.0 + cells.len() as f64 * LINE;
    Some(
        Plot::new(
            format!("{id}-overspend"),
            "How far do bills pass the cap?",
            text,
            height,
            body,
        )
        .with_note(&note),
    )
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

/// Marks of a curve, apart from the edges of the plot.
const MARKS: usize = 4;

/// The points of a curve that carry its mark: about four, each series at other places, so that curves
/// which lie on each other can still be told apart.
fn marked(curve: &[(f64, f64)], series: usize, of: usize, area: Area) -> Vec<usize> {
    let spacing = (area.right - area.left) / MARKS as f64;
    let shift = (series as f64 + 0.5) / of.max(1) as f64;
    let inside = |y: f64| y < area.bottom;
    let nearest = |wanted: f64| {
        let far = |at: &usize| (curve[*at].0 - wanted).abs();
        (0..curve.len())
            .filter(|at| inside(curve[*at].1))
            .min_by(|a, b| far(a).total_cmp(&far(b)))
    };
    let mut marked: Vec<usize> = (0..MARKS)
        .filter_map(|step| nearest(area.left + (step as f64 + shift) * spacing))
        .collect();
    marked.dedup();
    marked
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_curve_carries_the_mark_of_its_legend() {
        let summary = Summary::new(&sample::study());
        let plot = plot("a", &summary, &summary.scenarios[0]).unwrap();
        let curves = plot.body.matches("class=\"l s").count() / 2;
        assert!(curves > 1);
        for series in 0..curves {
            let marks = ["f", "o"].map(|fill| format!("class=\"{fill} s{series}\""));
            let drawn: usize = marks
                .iter()
                .map(|mark| plot.body.matches(mark).count())
                .sum();
            assert!(
                drawn > 1,
                "series {series} has {drawn} marks with that of the legend"
            );
        }
    }

    #[test]
    fn curves_on_each_other_are_marked_at_different_places() {
        let area = Area::usual(HEIGHT);
        let curve: Vec<(f64, f64)> = (0..100)
            .map(|at| (area.left + f64::from(at) * 4.0, 100.0))
            .collect();
        let (one, other) = (marked(&curve, 0, 2, area), marked(&curve, 1, 2, area));
        assert_eq!(one.len(), MARKS);
        assert!(one.iter().all(|at| !other.contains(at)));
    }
}
