//! Headroom left below the cap at the end of a run: a range a policy.

use maud::html;

use super::axis::Axis;
use super::frame::{Plot, WIDTH, path, px, shortened};
use super::{MOST_ROWS, picked, shown_of};
use crate::numbers::usd;
use crate::summary::{Cell, Scenario, Summary};

const ROW: f64 = 38.0;
/// Policies whose headroom is this many times that of the middle one leave the scale.
const FAR: f64 = 3.0;

/// The plot; `None` where no policy has a cap.
pub(super) fn plot(id: &str, summary: &Summary, scenario: &Scenario) -> Option<Plot> {
    let rows: Vec<(&Cell, [f64; 5])> = picked(summary, scenario, MOST_ROWS, |cell| {
        cell.reserve_left_quantiles_usd.is_some()
    })
    .into_iter()
    .filter_map(|cell| Some((cell, cell.reserve_left_quantiles_usd?)))
    .collect();
    let all = scenario
        .cells
        .iter()
        .filter(|cell| cell.reserve_left_quantiles_usd.is_some())
        .count();
    let largest = rows
        .iter()
        .map(|(_, quantiles)| quantiles[4])
        .fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    // The labels of the ticks are centred and must not leave the plot on either side.
    let x = Axis::linear(0.0, end(&rows), 16.0, WIDTH - 24.0);
    let bottom = 6.0 + rows.len() as f64 * ROW;
    let body = html! {
        @for tick in x.ticks(6) {
            path class="g" d=(path(&[(x.at(tick), 4.0), (x.at(tick), bottom)])) {}
            text class="m" x=(px(x.at(tick))) y=(px(bottom + 16.0)) { (usd(tick)) }
        }
        text class="a e" x=(px(WIDTH - 14.0)) y=(px(bottom + 34.0)) {
            "headroom left, USD (line: 90% of runs, box: half of them, bar: median)"
        }
        @for (row, (cell, q)) in rows.iter().enumerate() {
            @let y = 6.0 + row as f64 * ROW;
            text x="2" y=(px(y + 11.0)) { (shortened(&cell.policy, 50)) }
            @if q[4] > end(&rows) {
                text class="e" x=(px(WIDTH - 14.0)) y=(px(y + 11.0)) { "median " (usd(q[2])) ", off scale" }
            }
            path class="w s0" d=(path(&[(x.at(q[0]), y + 23.0), (x.at(q[4]), y + 23.0)])) {}
            rect class="f s0" x=(px(x.at(q[1]))) y=(px(y + 18.0)) height="10"
                width=(px((x.at(q[3]) - x.at(q[1])).max(1.0))) { title { (described(cell, q)) } }
            path class="l s1" d=(path(&[(x.at(q[2]), y + 15.0), (x.at(q[2]), y + 31.0)])) {}
        }
    };
    let text = format!(
        "By the engine's own ledger.{} {}",
        shown_of(rows.len(), all),
        rows.iter()
            .take(12)
            .map(|(cell, q)| described(cell, q))
            .collect::<Vec<_>>()
            .join(" ")
    );
    let note = shown_of(rows.len(), all);
    Some(
        Plot::new(
            format!("{id}-headroom"),
            "How much of the budget is left at the end?",
            text,
            bottom + 42.0,
            body,
        )
        .with_note(&note),
    )
}

/// The end of the scale: the largest value, unless a few policies with far more headroom would press
/// all others to the edge.
fn end(rows: &[(&Cell, [f64; 5])]) -> f64 {
    let mut tops: Vec<f64> = rows.iter().map(|(_, quantiles)| quantiles[4]).collect();
    tops.sort_by(f64::total_cmp);
    let limit = FAR * tops[tops.len() / 2];
    let within = tops.iter().copied().filter(|top| *top <= limit);
    match within.fold(0.0, f64::max) {
        0.0 => tops.last().copied().unwrap_or(1.0),
        end => end,
    }
}

fn described(cell: &Cell, q: &[f64; 5]) -> String {
    format!(
        "{}: median USD {}, half of the runs {} to {}, nine in ten {} to {}.",
        cell.policy,
        usd(q[2]),
        usd(q[1]),
        usd(q[3]),
        usd(q[0]),
        usd(q[4])
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::frame::text_width;
    use crate::sample;

    #[test]
    fn no_label_of_the_axis_leaves_the_plot() {
        let summary = Summary::new(&sample::study());
        let plot = plot("a", &summary, &summary.scenarios[0]).unwrap();
        let labels: Vec<&str> = plot.body.split("<text class=\"m\" x=\"").skip(1).collect();
        assert!(labels.len() > 1);
        for label in labels {
            let (x, rest) = label.split_once('"').unwrap();
            let text = rest.split(['>', '<']).nth(1).unwrap();
            let (x, half): (f64, f64) = (x.parse().unwrap(), text_width(text) / 2.0);
            assert!(x - half >= 0.0 && x + half <= WIDTH, "{text} at {x}");
        }
    }
}
