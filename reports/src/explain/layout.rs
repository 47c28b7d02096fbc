//! Lines of a timeline on a terminal: one column with all numbers, or two beside each other.

use holdback_engine::Money;

use super::line::{Line, Tone, clock, usd};
use crate::numbers::count;
use crate::table::Style;

/// From this width on, two policies are shown beside each other.
pub(super) const TWO_COLUMNS: usize = 100;
const TIME: usize = 8;
/// Widths of input, cached, output, cost, bill, ledger.
const NUMBERS: [usize; 6] = [8, 8, 7, 8, 8, 8];

/// The heading of the numbers of [`wide`].
pub(super) fn columns_of_numbers() -> Vec<Line> {
    let heading = Line {
        heading: true,
        timed: true,
        tone: Tone::Dim,
        ..Line::default()
    };
    vec![heading]
}

/// Lines across the whole width.
pub(super) fn wide(lines: &[Line], style: Style) -> String {
    let mut text = String::new();
    for line in lines {
        for row in wide_rows(line, style.width) {
            text.push_str(&paint(&row, line.tone, style.colour));
            text.push('\n');
        }
    }
    text
}

fn wide_rows(line: &Line, width: usize) -> Vec<String> {
    let gutter = gutter(line, TIME);
    let all: usize = NUMBERS.iter().sum();
    // The narrowest terminals have no room for tokens.
    let shown = if width >= 90 { 0 } else { 3 };
    let room = match (line.heading || line.tokens.is_some(), line.books.is_some()) {
        (true, _) => width.saturating_sub(gutter.len() + all - skipped(shown)),
        (false, true) => width.saturating_sub(gutter.len() + NUMBERS[3..].iter().sum::<usize>()),
        (false, false) => width.saturating_sub(gutter.len()),
    };
    let mut rows = wrapped(line, room);
    let mut cells = if line.heading {
        ["input", "cached", "output", "cost", "bill", "ledger"].map(str::to_owned)
    } else {
        cells(line)
    };
    if shown > 0 {
        cells[..3].fill(String::new());
    }
    let first = if line.heading || line.tokens.is_some() {
        shown
    } else {
        3
    };
    if line.heading || line.books.is_some() {
        let numbers: String = cells[first..]
            .iter()
            .zip(&NUMBERS[first..])
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        let text = rows.remove(0);
        rows.insert(0, format!("{}{numbers}", padded(&text, room)));
    }
    let mut result = Vec::with_capacity(rows.len());
    for (at, row) in rows.into_iter().enumerate() {
        let start = if at == 0 {
            gutter.clone()
        } else {
            " ".repeat(gutter.len())
        };
        result.push(format!("{start}{row}").trim_end().to_owned());
    }
    result
}

fn skipped(columns: usize) -> usize {
    NUMBERS[..columns].iter().sum()
}

fn cells(line: &Line) -> [String; 6] {
    let tokens = line
        .tokens
        .map_or_else(Default::default, |tokens| tokens.map(count));
    let [input, cached, output] = tokens;
    let (cost, bill, ledger) = match &line.books {
        // A tool that is free of charge is the rule.
        Some(books) if line.tokens.is_none() && books.cost == Money::ZERO => {
            (String::new(), usd(books.billed), usd(books.ledger))
        }
        Some(books) => (usd(books.cost), usd(books.billed), usd(books.ledger)),
        None => Default::default(),
    };
    [input, cached, output, cost, bill, ledger]
}

/// Two columns of lines beside each other.
pub(super) fn beside(left: &[Line], right: &[Line], style: Style) -> String {
    let width = (style.width - 3) / 2;
    let rows = |lines: &[Line]| -> Vec<(String, Tone)> {
        let of = |line: &Line| {
            let tone = line.tone;
            narrow_rows(line, width)
                .into_iter()
                .map(move |row| (row, tone))
        };
        lines.iter().flat_map(of).collect()
    };
    let (left, right) = (rows(left), rows(right));
    let none = (String::new(), Tone::Plain);
    let mut text = String::new();
    for at in 0..left.len().max(right.len()) {
        let (a, b) = (
            left.get(at).unwrap_or(&none),
            right.get(at).unwrap_or(&none),
        );
        let row = format!(
            "{} | {}",
            paint(&padded(&a.0, width), a.1, style.colour),
            paint(&b.0, b.1, style.colour)
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// A line in a narrow column: the bill beside it, tokens and cost below it.
fn narrow_rows(line: &Line, width: usize) -> Vec<String> {
    const BILL: usize = 9;
    let gutter = gutter(line, TIME - 1);
    let room = width.saturating_sub(gutter.len() + if line.books.is_some() { BILL } else { 0 });
    let mut rows = wrapped(line, room);
    if let Some(books) = &line.books {
        let text = rows.remove(0);
        rows.insert(
            0,
            format!("{}{:>BILL$}", padded(&text, room), usd(books.billed)),
        );
        if let Some([input, cached, output]) = line.tokens {
            let tokens = format!(
                "{} in ({} cached), {} out, cost {}, ledger {}",
                count(input),
                count(cached),
                count(output),
                usd(books.cost),
                usd(books.ledger)
            );
            rows.extend(wrapped(&Line::below(2, tokens, Tone::Plain), room + BILL));
        }
    }
    if line.heading {
        rows = vec![format!("{:>room$}", "bill")];
    }
    let blank = " ".repeat(gutter.len());
    let start = |at: usize| if at == 0 { &gutter } else { &blank };
    rows.iter()
        .enumerate()
        .map(|(at, row)| format!("{}{row}", start(at)).trim_end().to_owned())
        .collect()
}

/// The mark of the first difference, and the time.
fn gutter(line: &Line, time: usize) -> String {
    if !line.timed {
        return String::new();
    }
    let at = line.at.map(clock).unwrap_or_default();
    let mark = if line.mark { ">>" } else { "" };
    format!("{mark:<2}{at:>time$}  ", time = time)
}

/// The text in lines of at most `room` columns.
fn wrapped(line: &Line, room: usize) -> Vec<String> {
    let first = " ".repeat(line.indent);
    let further = " ".repeat(line.indent + line.hang);
    let room = room.max(12);
    let mut rows = Vec::new();
    let mut row = first;
    let mut is_empty = true;
    for word in line.text.split(' ') {
        let length = row.chars().count() + word.chars().count() + usize::from(!is_empty);
        if length > room && !is_empty {
            rows.push(std::mem::replace(&mut row, further.clone()));
            is_empty = true;
        }
        if !is_empty {
            row.push(' ');
        }
        row.push_str(word);
        is_empty = false;
    }
    rows.push(row);
    rows
}

fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

fn paint(row: &str, tone: Tone, colour: bool) -> String {
    let code = match tone {
        Tone::Plain => return row.to_owned(),
        _ if !colour || row.trim().is_empty() => return row.to_owned(),
        Tone::Strong => "1",
        Tone::Dim => "2",
        Tone::Good => "32",
        Tone::Warn => "33",
        Tone::Bad => "31",
    };
    format!("\u{1b}[{code}m{row}\u{1b}[0m")
}
