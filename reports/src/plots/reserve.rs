//! A measure against the size of a reserve, one plot a kind of reserve.

use std::collections::BTreeSet;

use maud::html;

use super::axis::Axis;
use super::frame::{self, Area, LINE, Plot, legend, line, mark, path};
use super::{MOST_LINES, shown_of};
use crate::measure::Measure;
use crate::numbers::{fixed, percent};
use crate::reserves;
use crate::summary::{Cell, Scenario, Summary};

const HEIGHT: f64 = 220.0;
/// Kinds of reserves that get a plot.
const MOST_KINDS: usize = 4;

/// One plot for each kind of reserve that takes at least two sizes, none included.
pub(super) fn plots(
    id: &str,
    summary: &Summary,
    scenario: &Scenario,
    measure: Measure,
) -> Vec<Plot> {
    let kinds: BTreeSet<&str> = scenario
        .cells
        .iter()
        .flat_map(|cell| cell.reserves.keys().map(String::as_str))
        .collect();
    kinds
        .into_iter()
        .filter_map(|kind| plot(id, summary, scenario, measure, kind))
        .take(MOST_KINDS)
        .collect()
}

/// Policies that differ in one reserve only, by its size.
struct Curve<'a> {
    name: String,
    points: Vec<(f64, &'a Cell)>,
}

fn plot(
    id: &str,
    summary: &Summary,
    scenario: &Scenario,
    measure: Measure,
    kind: &str,
) -> Option<Plot> {
    let curves = curves(summary, scenario, kind, measure);
    let drawn = &curves[..curves.len().min(MOST_LINES)];
    let largest = sizes(drawn).fold(0.0, f64::max);
    let value = |cell: &Cell| cell.number(measure).unwrap_or(0.0);
    if drawn.is_empty() {
        return None;
    }
    let area = Area::usual(HEIGHT);
    let x = Axis::linear(0.0, largest * 1.05, area.left, area.right);
    let top = drawn
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|(_, cell)| value(cell))
        .fold(1.0, f64::max);
    let y = Axis::linear(0.0, top, area.bottom, area.top);
    let base = scenario
        .cell(&summary.study.baseline)
        .and_then(|cell| cell.number(measure));
    let title = measure.spec().title.to_lowercase();
    let body = html! {
        (frame::axes(
            area,
            (&x, &format!("size of {kind}"), &size_label),
            (&y, &format!("{title}, % (bars: 95% intervals)"), &|share| fixed(share * 100.0, 0)),
        ))
        @if let Some(base) = base {
            path class="b" d=(path(&[(area.left, y.at(base)), (area.right, y.at(base))])) {
                title { "baseline " (summary.study.baseline) ": " (percent(base)) }
            }
        }
        @for (series, curve) in drawn.iter().enumerate() {
            @let points: Vec<(f64, f64)> =
                curve.points.iter().map(|(size, cell)| (x.at(*size), y.at(value(cell)))).collect();
            (line(series, &points))
            @for ((size, cell), (at, height)) in curve.points.iter().zip(&points) {
                @if let Some(i) = cell.figure(measure).and_then(|figure| figure.interval) {
                    path class={ "w s" (series) } d=(path(&[(*at, y.at(i.lo)), (*at, y.at(i.hi))])) {}
                }
                (mark(series, *at, *height,
                    &format!("{}: {} at {}", cell.policy, percent(value(cell)), size_label(*size))))
            }
        }
        (legend(&drawn.iter().map(|curve| curve.name.clone()).collect::<Vec<_>>(), area.bottom + 58.0))
    };
    let described: Vec<String> = drawn.iter().map(|curve| curve.described(measure)).collect();
    let text = format!(
        "The dashed line is the baseline. {}{}",
        described.join(" "),
        shown_of(drawn.len(), curves.len()).replace("policies", "curves")
    );
    let height = area.bottom + 58.0 + drawn.len() as f64 * LINE;
    let (short, question) = match measure {
        Measure::AnsweredRate => ("answered", format!("What does {kind} do to answers?")),
        _ => (
            "evidence",
            format!("How much research does {kind} give up?"),
        ),
    };
    let slug = crate::numbers::slug(&kind.replace(['.', '_'], "-").to_lowercase());
    let note = shown_of(drawn.len(), curves.len()).replace("policies", "curves");
    Some(
        Plot::new(
            format!("{id}-{short}-{slug}"),
            &question,
            text,
            height,
            body,
        )
        .with_note(&note),
    )
}

impl Curve<'_> {
    fn described(&self, measure: Measure) -> String {
        let points: Vec<String> = self
            .points
            .iter()
            .map(|(size, cell)| {
                let value = cell
                    .number(measure)
                    .map_or_else(|| "nothing".to_owned(), percent);
                format!("{value} at {}", size_label(*size))
            })
            .collect();
        format!("{}: {}.", self.name, points.join(", "))
    }
}

/// Policies that are alike but for one reserve: what they share, the same without the reserve, and the
/// cell of each size.
type Alike<'a> = (String, String, Vec<(f64, &'a Cell)>);

/// Policies that are alike but for the size of `kind`, with the same policy without it as size 0;
/// each group with at least two sizes.
fn curves<'a>(
    summary: &Summary,
    scenario: &'a Scenario,
    kind: &str,
    measure: Measure,
) -> Vec<Curve<'a>> {
    let mut groups: Vec<Alike<'a>> = Vec::new();
    let mut without: Vec<(String, &Cell)> = Vec::new();
    for cell in scenario
        .cells
        .iter()
        .filter(|cell| cell.number(measure).is_some())
    {
        let Some(policy) = summary
            .policies
            .iter()
            .find(|policy| policy.name == cell.policy)
        else {
            continue;
        };
        let bare = reserves::alike_without(&policy.definition, kind);
        let Some(size) = cell.reserves.get(kind) else {
            without.push((bare, cell));
            continue;
        };
        let key = reserves::alike_but_for(&policy.definition, kind);
        match groups.iter_mut().find(|(known, _, _)| *known == key) {
            Some((_, _, points)) => points.push((*size, cell)),
            None => groups.push((key, bare, vec![(*size, cell)])),
        }
    }
    let mut curves = Vec::new();
    for (_, bare, mut points) in groups {
        let zero = without.iter().find(|(key, _)| *key == bare);
        points.extend(zero.map(|(_, cell)| (0.0, *cell)));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.len() > 1 {
            curves.push(Curve {
                name: name_of(&points),
                points,
            });
        }
    }
    curves
}

fn name_of(points: &[(f64, &Cell)]) -> String {
    let mut sized = points
        .iter()
        .filter(|(size, _)| *size > 0.0)
        .map(|(_, cell)| &cell.policy);
    match (sized.next(), sized.next_back()) {
        (Some(first), Some(last)) => format!("{first} … {last}"),
        (Some(only), None) => only.clone(),
        (None, _) => String::new(),
    }
}

fn sizes<'a>(curves: &'a [Curve<'_>]) -> impl Iterator<Item = f64> + 'a {
    curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|(size, _)| *size))
}

fn size_label(size: f64) -> String {
    let text = fixed(size, 4);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
