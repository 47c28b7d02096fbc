//! Answered rate against cost per answer, with the Pareto front.

use maud::{Markup, html};

use super::axis::Axis;
use super::frame::{self, Area, LINE, Plot, path, px, text_width};
use crate::measure::Measure;
use crate::numbers::{percent, usd};
use crate::summary::{Cell, Scenario, Summary};

const HEIGHT: f64 = 250.0;
const LONGEST_LABEL: usize = 26;
/// Prices further apart than this factor get a logarithmic axis.
const FAR: f64 = 3.0;
/// The series of marks on the front: filled circles.
const ON_FRONT: usize = 0;
/// The series of all other marks: hollow triangles.
const OFF_FRONT: usize = 6;
/// Policies of the front that are listed below the plot.
const MOST_LISTED: usize = 8;

const NOTE: &str = "Named or numbered are the front (filled marks; no policy is both cheaper and answers \
                    more) and the baseline. The other marks say their policy and figures under the pointer.";

struct Point<'a> {
    cell: &'a Cell,
    price: f64,
    rate: f64,
    on_front: bool,
}

/// The plot; `None` unless two policies answer at all.
pub(super) fn plot(id: &str, summary: &Summary, scenario: &Scenario) -> Option<Plot> {
    let points = points(scenario);
    if points.len() < 2 {
        return None;
    }
    let area = Area::usual(HEIGHT);
    let (x, y) = axes_of(&points, area);
    let x_title = if x.is_log() {
        "cost per answer, USD (log scale)"
    } else {
        "cost per answer, USD"
    };
    let front: Vec<&Point<'_>> = points.iter().filter(|point| point.on_front).collect();
    let base = points
        .iter()
        .find(|point| !point.on_front && point.cell.policy == summary.study.baseline);
    let listed: Vec<(usize, String)> = front[..front.len().min(MOST_LISTED)]
        .iter()
        .enumerate()
        .map(|(at, point)| (ON_FRONT, format!("{}. {}", at + 1, described(point))))
        .chain(base.map(|base| (OFF_FRONT, format!("baseline {}", described(base)))))
        .collect();
    let body = html! {
        (frame::axes(
            area,
            (&x, x_title, &usd),
            (&y, "runs answered, % (bars: 95% intervals)", &|rate| format!("{:.0}", rate * 100.0)),
        ))
        (front_line(&front, &x, &y, area))
        @for point in &points { (drawn(point, &x, &y)) }
        (labels(&points, summary, &x, &y, area))
        @for (row, (series, words)) in listed.iter().enumerate() {
            @let y = area.bottom + 58.0 + row as f64 * LINE;
            (frame::mark(*series, 8.0, y, words))
            text x="20" y=(px(y + 4.5)) { (frame::shortened(words, 72)) }
        }
    };
    let names: Vec<String> = front.iter().map(|point| described(point)).collect();
    let text = format!(
        "Each mark is a policy: the higher, the more runs are answered; the further left, the \
         cheaper an answer. No policy is both cheaper and answers more than: {}.",
        names.join("; ")
    );
    Some(
        Plot::new(
            format!("{id}-price"),
            "Which policies buy answers most cheaply?",
            text,
            area.bottom + 58.0 + listed.len() as f64 * LINE,
            body,
        )
        .with_note(NOTE),
    )
}

fn points(scenario: &Scenario) -> Vec<Point<'_>> {
    let mut points: Vec<Point<'_>> = scenario
        .cells
        .iter()
        .filter_map(|cell| {
            Some(Point {
                cell,
                price: cell.number(Measure::CostPerAnswer)?,
                rate: cell.number(Measure::AnsweredRate)?,
                on_front: false,
            })
        })
        .collect();
    points.sort_by(|a, b| a.price.total_cmp(&b.price).then(b.rate.total_cmp(&a.rate)));
    let mut best = -1.0;
    for point in &mut points {
        point.on_front = point.rate > best;
        best = best.max(point.rate);
    }
    points
}

fn axes_of(points: &[Point<'_>], area: Area) -> (Axis, Axis) {
    let prices = || points.iter().map(|point| point.price);
    let (low, high) = (
        prices().fold(f64::INFINITY, f64::min),
        prices().fold(0.0, f64::max),
    );
    let margin = (high - low).max(high * 0.05) * 0.08;
    let lowest = points.iter().map(|point| point.rate).fold(1.0, f64::min);
    let floor = (lowest * 10.0 - 0.5).floor() / 10.0;
    // Far dearer policies would press all others to the edge.
    let far = high > FAR * low && low > 0.0;
    let x = if far {
        Axis::log(low * 0.9, high * 1.1, area.left, area.right)
    } else {
        Axis::linear(
            (low - margin).max(0.0),
            high + margin,
            area.left,
            area.right,
        )
    };
    (x, Axis::linear(floor.max(0.0), 1.0, area.bottom, area.top))
}

fn drawn(point: &Point<'_>, x: &Axis, y: &Axis) -> Markup {
    let series = if point.on_front { ON_FRONT } else { OFF_FRONT };
    let (px_x, px_y) = (x.at(point.price), y.at(point.rate));
    let interval = |measure| {
        point
            .cell
            .figure(measure)
            .and_then(|figure| figure.interval)
    };
    html! {
        @if let Some(i) = interval(Measure::AnsweredRate) {
            path class={ "w s" (series) } d=(path(&[(px_x, y.at(i.lo)), (px_x, y.at(i.hi))])) {}
        }
        @if let Some(i) = interval(Measure::CostPerAnswer) {
            path class={ "w s" (series) } d=(path(&[(x.at(i.lo), px_y), (x.at(i.hi), px_y)])) {}
        }
        (frame::mark(series, px_x, px_y, &described(point)))
    }
}

fn described(point: &Point<'_>) -> String {
    format!(
        "{}: {} answered, USD {} an answer",
        point.cell.policy,
        percent(point.rate),
        usd(point.price)
    )
}

fn front_line(front: &[&Point<'_>], x: &Axis, y: &Axis, area: Area) -> Markup {
    let mut corners = Vec::new();
    let mut level = area.bottom;
    for point in front {
        let (at, height) = (x.at(point.price), y.at(point.rate));
        corners.extend([(at, level), (at, height)]);
        level = height;
    }
    corners.push((area.right, level));
    html! { path class="b" d=(path(&corners)) {} }
}

/// Names or else numbers beside the marks of the front, and the name of the baseline, where there is
/// room; all of them are also listed below the plot.
fn labels(points: &[Point<'_>], summary: &Summary, x: &Axis, y: &Axis, area: Area) -> Markup {
    let mut taken: Vec<[f64; 4]> = points
        .iter()
        .map(|point| {
            let (at, height) = (x.at(point.price), y.at(point.rate));
            [at - 6.0, height - 6.0, at + 6.0, height + 6.0]
        })
        .collect();
    let mut placed = Vec::new();
    let named = points
        .iter()
        .filter(|point| point.on_front || point.cell.policy == summary.study.baseline);
    let mut number = 0;
    for point in named {
        number += usize::from(point.on_front);
        let full = frame::shortened(&point.cell.policy, LONGEST_LABEL);
        // Where marks crowd, the number in the list below takes less room than the name.
        let listed = point.on_front && number <= MOST_LISTED;
        let texts = [Some(full), listed.then(|| number.to_string())];
        let (at, height) = (x.at(point.price), y.at(point.rate));
        let placed_text = texts.into_iter().flatten().find_map(|name| {
            let spot = free_spot(&taken, at, height, text_width(&name), area)?;
            Some((spot, name))
        });
        if let Some(((left, baseline), name)) = placed_text {
            taken.push([
                left,
                baseline - 12.0,
                left + text_width(&name),
                baseline + 3.0,
            ]);
            placed.push((left, baseline, name));
        }
    }
    html! {
        @for (left, baseline, name) in placed { text x=(px(left)) y=(px(baseline)) { (name) } }
    }
}

fn free_spot(taken: &[[f64; 4]], x: f64, y: f64, width: f64, area: Area) -> Option<(f64, f64)> {
    let spots = [
        (x + 9.0, y + 15.0),
        (x + 9.0, y - 6.0),
        (x - 9.0 - width, y + 15.0),
        (x - 9.0 - width, y - 6.0),
        (x + 9.0, y + 30.0),
        (x - 9.0 - width, y + 30.0),
        (x - width / 2.0, y + 22.0),
    ];
    spots.into_iter().find(|(left, baseline)| {
        let inside = *left >= area.left
            && left + width <= area.right + 8.0
            && *baseline - 12.0 >= area.top - 10.0
            && *baseline <= area.bottom - 4.0;
        let clear = taken.iter().all(|[l, t, r, b]| {
            left + width < *l || left > r || *baseline + 3.0 < *t || baseline - 12.0 > *b
        });
        inside && clear
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_front_and_the_baseline_are_listed_and_all_marks_have_a_tooltip() {
        let summary = Summary::new(&sample::study());
        let scenario = &summary.scenarios[0];
        let plot = plot("a", &summary, scenario).unwrap();
        let points = points(scenario);
        for point in &points {
            // Names are escaped as in the plot.
            let words = html! { (described(point)) }.into_string();
            assert!(
                plot.body.contains(&format!("<title>{words}</title>")),
                "{words}"
            );
        }
        let front = points.iter().filter(|point| point.on_front);
        for (at, point) in front.take(MOST_LISTED).enumerate() {
            let words = frame::shortened(&format!("{}. {}", at + 1, described(point)), 72);
            assert!(
                plot.body
                    .contains(&format!(">{}</text>", html! { (words) }.into_string()))
            );
        }
        assert!(plot.body.contains(&format!(">{}", summary.study.baseline)));
        assert!(
            plot.note
                .is_some_and(|note| note.contains("under the pointer"))
        );
    }
}
