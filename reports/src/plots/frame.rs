//! The frame of a plot: size, axes with units, marks, legend, and the text that stands for it.

use maud::{Markup, PreEscaped, html};

use super::axis::Axis;

/// Width of every plot, in its own units; text is 13 of them high.
pub(super) const WIDTH: f64 = 520.0;
/// Series that differ in colour, dash and mark.
pub(super) const SERIES: usize = 8;
/// Height of a line of text.
pub(super) const LINE: f64 = 18.0;

/// A finished plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Unique in the report; `[a-z0-9-]`.
    pub id: String,
    /// The question that it answers.
    pub title: String,
    /// What it shows, in words: the text alternative.
    pub text: String,
    /// What it leaves out or how to read it, if that is not plain; shown beside the plot.
    pub note: Option<String>,
    /// Height in the plot's units; the width is 520.
    pub height: f64,
    /// What is inside the `svg` element.
    pub body: String,
}

impl Plot {
    pub(super) fn new(id: String, title: &str, text: String, height: f64, body: Markup) -> Plot {
        Plot {
            id,
            title: title.to_owned(),
            text,
            note: None,
            height,
            body: body.into_string(),
        }
    }

    /// The plot with a note, unless that is empty.
    pub(super) fn with_note(mut self, note: &str) -> Plot {
        let note = note.trim();
        self.note = (!note.is_empty()).then(|| note.to_owned());
        self
    }

    /// The plot for a page that has the style sheet of [`super::STYLE`].
    pub fn inline(&self) -> Markup {
        let (title, text) = (format!("{}-t", self.id), format!("{}-d", self.id));
        html! {
            svg class="plot" role="img" aria-labelledby={ (title) " " (text) }
                viewBox={ "0 0 " (px(WIDTH)) " " (px(self.height)) } {
                title id=(title) { (self.title) }
                desc id=(text) { (self.text) }
                (PreEscaped(&self.body))
            }
        }
    }

    /// The plot as a file of its own.
    pub fn file(&self) -> String {
        let notes = self
            .note
            .as_deref()
            .map_or_else(Vec::new, |note| lines(note, 80));
        let height = self.height + notes.len() as f64 * LINE;
        let body = html! {
            title id="t" { (self.title) }
            desc id="d" { (self.text) }
            style { (PreEscaped(super::STYLE)) }
            rect class="paper" width="100%" height="100%" {}
            (PreEscaped(&self.body))
            @for (row, note) in notes.iter().enumerate() {
                text class="a" x="2" y=(px(self.height + 8.0 + row as f64 * LINE)) { (note) }
            }
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot file\" role=\"img\" \
             aria-labelledby=\"t d\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\">{}</svg>\n",
            px(WIDTH),
            px(height),
            px(WIDTH * 1.5),
            px(height * 1.5),
            body.into_string()
        )
    }
}

/// The area inside the axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Area {
    /// The usual area, `height` high, with room for tick labels and both titles.
    pub(super) fn usual(height: f64) -> Area {
        Area {
            left: 54.0,
            right: WIDTH - 14.0,
            top: 26.0,
            bottom: 26.0 + height,
        }
    }
}

/// A coordinate with at most one decimal.
pub(super) fn px(value: f64) -> String {
    let text = crate::numbers::fixed(value, 1);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Both axes with grid, tick labels and titles; `y_title` stands above the axis.
pub(super) fn axes(
    area: Area,
    (x, x_title, x_label): (&Axis, &str, &dyn Fn(f64) -> String),
    (y, y_title, y_label): (&Axis, &str, &dyn Fn(f64) -> String),
) -> Markup {
    html! {
        @for tick in y.ticks(5) {
            path class="g" d={ "M" (px(area.left)) " " (px(y.at(tick))) "H" (px(area.right)) } {}
            text class="e" x=(px(area.left - 6.0)) y=(px(y.at(tick) + 4.0)) { (y_label(tick)) }
        }
        @for tick in x.ticks(6) {
            path class="k" d={ "M" (px(x.at(tick))) " " (px(area.bottom)) "v5" } {}
            text class="m" x=(px(x.at(tick))) y=(px(area.bottom + 18.0)) { (x_label(tick)) }
        }
        path class="k" d={ "M" (px(area.left)) " " (px(area.bottom)) "H" (px(area.right)) } {}
        text class="a" x="2" y="13" { (y_title) }
        text class="a e" x=(px(area.right)) y=(px(area.bottom + 36.0)) { (x_title) }
    }
}

/// A mark of a series at a point, with what it stands for.
pub(super) fn mark(series: usize, x: f64, y: f64, title: &str) -> Markup {
    let shape = match series % 4 {
        0 => format!("M{} {}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", px(x), px(y)),
        1 => format!("M{} {}h8v8h-8z", px(x - 4.0), px(y - 4.0)),
        2 => format!("M{} {}l5 9h-10z", px(x), px(y - 5.5)),
        _ => format!("M{} {}l5 5l-5 5l-5-5z", px(x), px(y - 5.0)),
    };
    html! {
        path class={ (mark_class(series)) " s" (series % SERIES) } d=(shape) { title { (title) } }
    }
}

/// Four shapes, filled and then hollow, tell eight series apart without their colours.
fn mark_class(series: usize) -> &'static str {
    if series % SERIES < SERIES / 2 {
        "f"
    } else {
        "o"
    }
}

/// A text in lines of at most `most` characters, broken at spaces.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A line of a series through points.
pub(super) fn line(series: usize, points: &[(f64, f64)]) -> Markup {
    html! {
        path class={ "l s" (series % SERIES) } d=(path(points)) {}
    }
}

pub(super) fn path(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (at, (x, y)) in points.iter().enumerate() {
        d.push(if at == 0 { 'M' } else { 'L' });
        d.push_str(&format!("{} {}", px(*x), px(*y)));
    }
    d
}

/// One line a series below the plot: its mark and name.
pub(super) fn legend(names: &[String], top: f64) -> Markup {
    html! {
        @for (series, name) in names.iter().enumerate() {
            @let y = top + series as f64 * LINE;
            (line(series, &[(8.0, y), (32.0, y)]))
            (mark(series, 20.0, y, name))
            text x="40" y=(px(y + 4.5)) { (shortened(name, 68)) }
        }
    }
}

/// A name cut in the middle to `most` characters.
pub(super) fn shortened(name: &str, most: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= most {
        return name.to_owned();
    }
    let (head, tail) = (most * 2 / 3, most - most * 2 / 3 - 1);
    let start: String = characters[..head].iter().collect();
    let end: String = characters[characters.len() - tail..].iter().collect();
    format!("{start}…{end}")
}

/// The width of a text in the plot's units, roughly.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.5
}
