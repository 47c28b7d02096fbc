//! How runs end: outcomes by reason, one bar a policy.

use std::collections::BTreeMap;

use maud::html;

use super::frame::{LINE, Plot, WIDTH, px, shortened, text_width};
use super::{MOST_ROWS, picked, shown_of};
use crate::numbers::{count, percent};
use crate::summary::{Cause, Cell, Scenario, Summary};

const ROW: f64 = 40.0;
const BAR: f64 = 16.0;
/// Reasons with a colour of their own, besides being answered.
const REASONS: usize = 6;
const OTHER: &str = "other reasons";

/// The plot; `None` without runs.
pub(super) fn plot(id: &str, summary: &Summary, scenario: &Scenario) -> Option<Plot> {
    let cells = picked(summary, scenario, MOST_ROWS, |_| true);
    if cells.iter().all(|cell| cell.causes.is_empty()) {
        return None;
    }
    let reasons = reasons(&cells);
    let names: Vec<String> = std::iter::once("answered".to_owned())
        .chain(reasons.iter().cloned())
        .collect();
    let legend = legend_spots(&names);
    let top = legend.last().map_or(LINE, |spot| spot.1) + 14.0;
    let body = html! {
        @for (series, (x, y)) in legend.iter().enumerate() {
            rect class={ "f s" (series) } x=(px(*x)) y=(px(y - 10.0)) width="12" height="12" {}
            text x=(px(x + 17.0)) y=(px(*y)) { (names[series]) }
        }
        @for (row, cell) in cells.iter().enumerate() {
            @let y = top + row as f64 * ROW;
            text x="2" y=(px(y + 13.0)) { (shortened(&cell.policy, 60)) }
            @for part in parts(cell, &reasons) {
                rect class={ "f bar s" (part.series) } x=(px(2.0 + part.from * (WIDTH - 4.0)))
                    y=(px(y + 18.0)) width=(px(part.share * (WIDTH - 4.0))) height=(px(BAR)) {
                    title { (part.title) }
                }
            }
        }
    };
    let text = format!(
        "One bar a policy, all runs wide: answered first, then the reasons of the others.{} {}",
        shown_of(cells.len(), scenario.cells.len()),
        cells
            .iter()
            .take(12)
            .map(|cell| described(cell))
            .collect::<Vec<_>>()
            .join(" ")
    );
    let height = top + cells.len() as f64 * ROW + 4.0;
    let note = shown_of(cells.len(), scenario.cells.len());
    Some(
        Plot::new(
            format!("{id}-outcomes"),
            "How do runs end?",
            text,
            height,
            body,
        )
        .with_note(&note),
    )
}

struct Part {
    series: usize,
    from: f64,
    share: f64,
    title: String,
}

/// The most frequent reasons of runs that are not answered, in a fixed order.
fn reasons(cells: &[&Cell]) -> Vec<String> {
    let mut runs: BTreeMap<String, u64> = BTreeMap::new();
    for cause in cells.iter().flat_map(|cell| &cell.causes) {
        if cause.outcome != "answered" {
            *runs.entry(label(cause)).or_default() += cause.runs;
        }
    }
    let mut ranked: Vec<(String, u64)> = runs.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let more = ranked.len() > REASONS;
    let mut reasons: Vec<String> = ranked.into_iter().take(REASONS).map(|r| r.0).collect();
    if more {
        reasons.push(OTHER.to_owned());
    }
    reasons
}

fn label(cause: &Cause) -> String {
    if cause.outcome == "partial" {
        format!("partial: {}", cause.cause)
    } else {
        cause.cause.clone()
    }
}

fn parts(cell: &Cell, reasons: &[String]) -> Vec<Part> {
    let total = cell
        .causes
        .iter()
        .map(|cause| cause.runs)
        .sum::<u64>()
        .max(1) as f64;
    let mut by_series: BTreeMap<usize, (u64, String)> = BTreeMap::new();
    for cause in &cell.causes {
        let name = label(cause);
        let (series, name) = match reasons.iter().position(|reason| *reason == name) {
            _ if cause.outcome == "answered" => (0, "answered".to_owned()),
            Some(at) => (at + 1, name),
            None => (reasons.len(), OTHER.to_owned()),
        };
        by_series.entry(series).or_insert((0, name)).0 += cause.runs;
    }
    let mut from = 0.0;
    let mut parts = Vec::new();
    for (series, (runs, name)) in by_series {
        let share = runs as f64 / total;
        let title = format!(
            "{}: {name} {} ({} runs)",
            cell.policy,
            percent(share),
            count(runs)
        );
        parts.push(Part {
            series,
            from,
            share,
            title,
        });
        from += share;
    }
    parts
}

fn described(cell: &Cell) -> String {
    let total = cell
        .causes
        .iter()
        .map(|cause| cause.runs)
        .sum::<u64>()
        .max(1) as f64;
    let causes: Vec<String> = cell
        .causes
        .iter()
        .take(3)
        .map(|cause| {
            let name = if cause.outcome == "answered" {
                "answered"
            } else {
                &cause.cause
            };
            format!("{name} {}", percent(cause.runs as f64 / total))
        })
        .collect();
    format!("{}: {}.", cell.policy, causes.join(", "))
}

/// Places of the legend's entries, wrapped into lines.
fn legend_spots(names: &[String]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (2.0, 14.0);
    let mut spots = Vec::new();
    for name in names {
        let width = 17.0 + text_width(name) + 14.0;
        if x > 2.0 && x + width > WIDTH {
            (x, y) = (2.0, y + LINE);
        }
        spots.push((x, y));
        x += width;
    }
    spots
}
