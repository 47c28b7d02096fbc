//! Work repeated after restarts against how often checkpoints are written.

use maud::html;

use super::axis::Axis;
use super::frame::{self, Area, Plot, mark, px, shortened, text_width};
use crate::measure::Measure;
use crate::numbers::{fixed, usd};
use crate::summary::{Cell, Scenario};

const HEIGHT: f64 = 220.0;

/// The plot; `None` where no process dies.
pub(super) fn plot(id: &str, scenario: &Scenario) -> Option<Plot> {
    let points: Vec<(&Cell, f64, f64)> = scenario
        .cells
        .iter()
        .filter_map(|cell| {
            let kills = cell.number(Measure::Kills)?;
            let runs = cell.number(Measure::Runs)?;
            let checkpoints = cell.number(Measure::Checkpoints)? / runs;
            let repaid = cell.number(Measure::RepaidCalls)? / kills;
            (kills > 0.0).then_some((cell, checkpoints, repaid))
        })
        .collect();
    if points.is_empty() {
        return None;
    }
    let area = Area::usual(HEIGHT);
    let most = |read: fn(&(&Cell, f64, f64)) -> f64| points.iter().map(read).fold(0.0, f64::max);
    let x = Axis::linear(0.0, most(|p| p.1).max(1.0) * 1.08, area.left, area.right);
    let y = Axis::linear(0.0, most(|p| p.2).max(1.0) * 1.1, area.bottom, area.top);
    let mut occupied: Vec<(f64, f64)> = Vec::new();
    let body = html! {
        (frame::axes(
            area,
            (&x, "checkpoints written a run", &|value| short(value)),
            (&y, "calls executed again a kill", &|value| short(value)),
        ))
        @for (cell, checkpoints, repaid) in &points {
            @let (at, height) = (x.at(*checkpoints), y.at(*repaid));
            (mark(0, at, height, &described(cell, *checkpoints, *repaid)))
            @let name = shortened(&cell.policy, 28);
            @if room(&mut occupied, at, height) {
                @if at + text_width(&name) + 10.0 < area.right {
                    text x=(px(at + 9.0)) y=(px(height - 6.0)) { (name) }
                } @else {
                    text x=(px(at - 9.0 - text_width(&name))) y=(px(height - 6.0)) { (name) }
                }
            }
        }
    };
    let described: Vec<String> = points
        .iter()
        .take(12)
        .map(|(cell, checkpoints, repaid)| described(cell, *checkpoints, *repaid))
        .collect();
    Some(Plot::new(
        format!("{id}-repaid"),
        "What does a crash cost again?",
        described.join(" "),
        area.bottom + 44.0,
        body,
    ))
}

/// Whether a label at this height keeps clear of the earlier ones.
fn room(occupied: &mut Vec<(f64, f64)>, x: f64, y: f64) -> bool {
    let clear = occupied
        .iter()
        .all(|(at, height)| (at - x).abs() > 190.0 || (height - y).abs() > 15.0);
    if clear {
        occupied.push((x, y));
    }
    clear
}

fn described(cell: &Cell, checkpoints: f64, repaid: f64) -> String {
    let runs = cell.number(Measure::Runs).unwrap_or(1.0);
    let paid = cell.number(Measure::Repaid).unwrap_or(0.0) / runs;
    format!(
        "{}: {} checkpoints a run, {} calls again a kill, USD {} repaid a run.",
        cell.policy,
        fixed(checkpoints, 1),
        fixed(repaid, 2),
        usd(paid)
    )
}

fn short(value: f64) -> String {
    let text = fixed(value, 2);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
