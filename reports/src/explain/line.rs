//! A line of a timeline before it is laid out.

use holdback_engine::Money;
use holdback_engine::protocol::Micros;
use holdback_sim::explain::Amount;

use crate::numbers::{count, fixed, grouped};

/// How a line stands out, where colour is wanted; never the only sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Strong,
    Dim,
    Good,
    Warn,
    Bad,
}

/// A line of a timeline.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) at: Option<Micros>,
    /// Columns before the text.
    pub(super) indent: usize,
    /// Columns before the text's further lines, beside the indent.
    pub(super) hang: usize,
    pub(super) text: String,
    /// Input, cached and output tokens.
    pub(super) tokens: Option<[u64; 3]>,
    pub(super) books: Option<Books>,
    pub(super) tone: Tone,
    /// The first difference.
    pub(super) mark: bool,
    /// Behind the column of times.
    pub(super) timed: bool,
    /// The heading of the numbers.
    pub(super) heading: bool,
}

/// What a line says of money.
#[derive(Clone, Copy, Debug)]
pub(super) struct Books {
    pub(super) cost: Money,
    pub(super) billed: Money,
    pub(super) ledger: Money,
}

impl Line {
    /// A line of text across the whole width.
    pub(super) fn text(text: String, tone: Tone) -> Line {
        Line {
            text,
            tone,
            ..Line::default()
        }
    }

    pub(super) fn blank() -> Line {
        Line::default()
    }

    /// The same, further to the right.
    pub(super) fn indented(indent: usize, text: String, tone: Tone) -> Line {
        Line {
            indent,
            hang: 2,
            text,
            tone,
            ..Line::default()
        }
    }

    /// A line of text whose further lines are indented.
    pub(super) fn hanging(hang: usize, text: String) -> Line {
        Line {
            hang,
            text,
            ..Line::default()
        }
    }

    /// A line of the timeline without a time of its own.
    pub(super) fn below(indent: usize, text: String, tone: Tone) -> Line {
        Line {
            indent,
            hang: 2,
            text,
            tone,
            timed: true,
            ..Line::default()
        }
    }

    /// A line of the timeline.
    pub(super) fn at(at: Micros, indent: usize, text: String, tone: Tone) -> Line {
        Line {
            at: Some(at),
            ..Line::below(indent, text, tone)
        }
    }
}

/// Dollars with four decimals, six where four would hide them.
pub(super) fn usd(amount: Money) -> String {
    let value = amount.to_f64();
    let decimals = if value != 0.0 && value.abs() < 0.001 {
        6
    } else {
        4
    };
    grouped(value, decimals)
}

/// Simulated time: `0:06.2`, `12:34.5`, `1:02:03`.
pub(super) fn clock(time: Micros) -> String {
    let tenths = time.max(0) / 100_000;
    let (seconds, tenth) = (tenths / 10, tenths % 10);
    let (minutes, second) = (seconds / 60, seconds % 60);
    if minutes < 60 {
        return format!("{minutes}:{second:02}.{tenth}");
    }
    format!("{}:{:02}:{second:02}", minutes / 60, minutes % 60)
}

/// A duration: `1.5 s`, `0 s`, `12 min`.
pub(super) fn duration(time: Micros) -> String {
    let seconds = time as f64 / 1e6;
    if time == 0 {
        return "0 s".to_owned();
    }
    if seconds >= 600.0 {
        return format!("{} min", fixed(seconds / 60.0, 0));
    }
    format!("{} s", fixed(seconds, if seconds < 0.1 { 3 } else { 1 }))
}

/// A number that a rule compares.
pub(super) fn amount(amount: Amount) -> Option<String> {
    Some(match amount {
        Amount::None => return None,
        Amount::Unlimited => "unlimited".to_owned(),
        Amount::Count(value) if value < 0 => value.to_string(),
        Amount::Count(value) => count(value.unsigned_abs()),
        Amount::Money(value) => format!("USD {}", usd(value)),
        Amount::Usd(value) => format!("USD {}", grouped(value, if value < 0.001 { 6 } else { 4 })),
        Amount::Time(value) => duration(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_amounts_are_short_and_never_hide_what_is_there() {
        assert_eq!(clock(6_249_999), "0:06.2");
        assert_eq!(clock(3_723_000_000), "1:02:03");
        assert_eq!(duration(0), "0 s");
        assert_eq!(duration(12_000), "0.012 s");
        assert_eq!(usd(Money::parse_exact("0.000045").unwrap()), "0.000045");
        assert_eq!(usd(Money::parse_exact("1234.5").unwrap()), "1,234.5000");
        assert_eq!(amount(Amount::Count(-1)).as_deref(), Some("-1"));
        assert_eq!(amount(Amount::None), None);
    }
}
