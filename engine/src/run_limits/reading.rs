//! Reads a limits object exactly as liberally as the reference does: numbers in texts, whole
//! doubles, booleans as counts, unknown fields ignored (section 2, and the lax mode of the
//! validation library behind it). Files of users are read more strictly elsewhere.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::limits::{Declared, Field, LimitsOf};
use super::validation::{self, Invalid, Problem};
use crate::decimal::Decimal;
use crate::{Money, MoneyError};

/// Reads and checks the JSON text of a limits object.
///
/// # Errors
/// [`ReadError::NotAnObject`] for anything but a JSON object, [`ReadError::Invalid`] for what the
/// reference refuses.
pub fn read(json: &str) -> Result<Declared, ReadError> {
    let fields: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(json).map_err(|error| ReadError::NotAnObject(error.to_string()))?;
    let mut reader = Reader {
        fields: &fields,
        failed: Vec::new(),
    };
    let declared = reader.limits();
    let mut failed = reader.failed;
    // A failed reserve was read as its default, which is not negative.
    failed.extend(validation::negative_reserves(&declared));
    failed.sort_unstable();
    if !failed.is_empty() {
        return Err(ReadError::Invalid(Invalid {
            fields: failed,
            problem: Problem::Field,
        }));
    }
    validation::check(&declared).map_err(ReadError::Invalid)?;
    Ok(declared)
}

/// Why limits could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The text is no JSON object.
    #[error("expected a JSON object of limits: {0}")]
    NotAnObject(String),
    /// The reference refuses the object.
    #[error(transparent)]
    Invalid(Invalid),
}

impl Declared {
    /// The limits as the engine compares them. Counts and amounts too large for the engine become
    /// the ends of its ranges, which no run reaches.
    ///
    /// # Errors
    /// If an amount of money has digits below 1e-12 USD.
    pub fn limits(&self) -> Result<LimitsOf<i64, Money>, MoneyError> {
        Ok(LimitsOf {
            max_steps: self.max_steps.to_i64_saturating(),
            max_model_calls: self.max_model_calls.to_i64_saturating(),
            max_tool_calls: self.max_tool_calls.to_i64_saturating(),
            max_input_tokens: self
                .max_input_tokens
                .as_ref()
                .map(Decimal::to_i64_saturating),
            max_output_tokens: self
                .max_output_tokens
                .as_ref()
                .map(Decimal::to_i64_saturating),
            max_cost: self.max_cost.as_ref().map(money).transpose()?,
            synthesis_reserve_steps: self.synthesis_reserve_steps.to_i64_saturating(),
            synthesis_reserve_model_calls: self.synthesis_reserve_model_calls.to_i64_saturating(),
            synthesis_reserve_tool_calls: self.synthesis_reserve_tool_calls.to_i64_saturating(),
            synthesis_reserve_cost: money(&self.synthesis_reserve_cost)?,
        })
    }
}

/// Amounts of 1e20 USD and more are as good as unlimited.
const LARGE_USD_EXPONENT: i64 = 20;

fn money(amount: &Decimal) -> Result<Money, MoneyError> {
    if !amount.is_zero() && amount.adjusted_exponent() >= LARGE_USD_EXPONENT {
        return Ok(if amount.is_negative() {
            -Money::MAX
        } else {
            Money::MAX
        });
    }
    Money::parse_exact(&amount.to_string())
}

/// A JSON value, as far as a limit can be one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Null(()),
    Bool(bool),
    Text(String),
    Other(serde::de::IgnoredAny),
}

struct Reader<'a> {
    fields: &'a BTreeMap<String, Box<RawValue>>,
    failed: Vec<Field>,
}

impl Reader<'_> {
    fn limits(&mut self) -> Declared {
        let defaults = Declared::default();
        let _ = self.field(Field::DeadlineAt, None, |value| instant(value).map(Some));
        LimitsOf {
            max_steps: self.field(Field::MaxSteps, defaults.max_steps, integer),
            max_model_calls: self.field(Field::MaxModelCalls, defaults.max_model_calls, integer),
            max_tool_calls: self.field(Field::MaxToolCalls, defaults.max_tool_calls, integer),
            max_input_tokens: self.field(Field::MaxInputTokens, None, optional(integer)),
            max_output_tokens: self.field(Field::MaxOutputTokens, None, optional(integer)),
            max_cost: self.field(Field::MaxCost, None, optional(amount)),
            synthesis_reserve_steps: self.reserve(Field::SynthesisReserveSteps),
            synthesis_reserve_model_calls: self.reserve(Field::SynthesisReserveModelCalls),
            synthesis_reserve_tool_calls: self.reserve(Field::SynthesisReserveToolCalls),
            synthesis_reserve_cost: self.field(
                Field::SynthesisReserveCost,
                Decimal::default(),
                amount,
            ),
        }
    }

    fn reserve(&mut self, field: Field) -> Decimal {
        self.field(field, Decimal::default(), integer)
    }

    fn field<T>(&mut self, field: Field, default: T, read: impl Fn(&str) -> Option<T>) -> T {
        let Some(value) = self.fields.get(field.as_str()) else {
            return default;
        };
        read(value.get()).unwrap_or_else(|| {
            self.failed.push(field);
            default
        })
    }
}

fn optional<T>(read: impl Fn(&str) -> Option<T>) -> impl Fn(&str) -> Option<Option<T>> {
    move |json| {
        if json == "null" {
            return Some(None);
        }
        read(json).map(Some)
    }
}

/// A count: a whole JSON number, a text of one, or a boolean.
fn integer(json: &str) -> Option<Decimal> {
    match serde_json::from_str(json).ok()? {
        Scalar::Bool(value) => Some(Decimal::from(i64::from(value))),
        Scalar::Text(text) => integer_text(&text),
        Scalar::Null(()) => None,
        Scalar::Other(_) => integer_number(json),
    }
}

/// An integer literal may have any size. One with a point or an exponent is a double, which must be
/// whole and within 64 bits.
fn integer_number(json: &str) -> Option<Decimal> {
    if !json.contains(['.', 'e', 'E']) {
        return Decimal::parse(json);
    }
    let value: f64 = json.parse().ok()?;
    let within = value > i64::MIN as f64 && value < i64::MAX as f64;
    Decimal::from_f64(value).filter(|decimal| within && decimal.is_integral())
}

/// The longest text that is read as an integer.
const LONGEST_INTEGER: usize = 4300;

/// Digits with an optional sign, single underscores between digits, and an optional fraction of
/// zeros; surrounding white space is ignored. No exponent.
fn integer_text(text: &str) -> Option<Decimal> {
    let text = text.trim();
    if text.len() > LONGEST_INTEGER {
        return None;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = match unsigned.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|b| b == b'0') => whole,
        Some(_) => return None,
        None => unsigned,
    };
    let digits_between_underscores = whole
        .split('_')
        .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    if !digits_between_underscores {
        return None;
    }
    Decimal::parse(text)
}

/// An amount: a JSON number or a text of a finite decimal. A literal with a point or an exponent
/// passes through a double first.
fn amount(json: &str) -> Option<Decimal> {
    match serde_json::from_str(json).ok()? {
        Scalar::Text(text) => Decimal::parse(&text),
        Scalar::Other(_) if json.contains(['.', 'e', 'E']) => Decimal::from_f64(json.parse().ok()?),
        Scalar::Other(_) => Decimal::parse(json),
        Scalar::Null(()) | Scalar::Bool(_) => None,
    }
}

/// A point in time or null: a number, or an ISO 8601 date with an optional time and zone. Its value
/// plays no part in the rules of the limits.
fn instant(json: &str) -> Option<()> {
    match serde_json::from_str(json).ok()? {
        Scalar::Null(()) => Some(()),
        Scalar::Text(text) => is_instant(&text).then_some(()),
        Scalar::Bool(_) => None,
        Scalar::Other(_) => Decimal::parse(json).map(|_| ()),
    }
}

fn is_instant(text: &str) -> bool {
    if Decimal::parse(text).is_some() {
        return true;
    }
    let Some((date, rest)) = text.split_at_checked(10) else {
        return false;
    };
    if !is_date(date) {
        return false;
    }
    let Some(time) = rest.strip_prefix(['T', 't', ' ', '_']) else {
        return rest.is_empty();
    };
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    is_time(&time[..zone]) && is_zone(&time[zone..])
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    let days = match number(month, 2) {
        Some(4 | 6 | 9 | 11) => 30,
        Some(2) if number(year, 4).is_some_and(is_leap_year) => 29,
        Some(2) => 28,
        Some(1..=12) => 31,
        _ => return false,
    };
    number(year, 4).is_some_and(|year| year >= 1)
        && number(day, 2).is_some_and(|day| (1..=days).contains(&day))
}

fn is_leap_year(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.ffffff`.
fn is_time(text: &str) -> bool {
    let (clock, fraction) = match text.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let in_range = match parts[..] {
        [hour, minute] => below(hour, 24) && below(minute, 60) && fraction.is_none(),
        [hour, minute, second] => below(hour, 24) && below(minute, 60) && below(second, 60),
        _ => false,
    };
    in_range && fraction.is_none_or(|f| !f.is_empty() && f.bytes().all(|b| b.is_ascii_digit()))
}

/// Nothing, `Z`, `+HH:MM` or `+HHMM`.
fn is_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else {
        return matches!(text, "" | "Z" | "z");
    };
    let digits = offset.replacen(':', "", 1);
    digits.len() == 4 && digits.is_ascii() && below(&digits[..2], 24) && below(&digits[2..], 60)
}

fn below(text: &str, end: u32) -> bool {
    number(text, 2).is_some_and(|value| value < end)
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let all_digits = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_fields(json: &str) -> Vec<&'static str> {
        match read(json) {
            Ok(_) => Vec::new(),
            Err(ReadError::Invalid(invalid)) => invalid.fields.iter().map(|f| f.as_str()).collect(),
            Err(other) => panic!("{json}: {other}"),
        }
    }

    fn max_steps(value: &str) -> Option<Decimal> {
        read(&format!("{{\"max_steps\":{value}}}"))
            .ok()
            .map(|limits| limits.max_steps)
    }

    #[test]
    fn whole_numbers_in_any_dress_are_counts() {
        for (value, expected) in [
            ("7", "7"),
            ("7.0", "7"),
            ("7e0", "7"),
            ("\"7\"", "7"),
            ("\"7.00\"", "7"),
            ("\" +7 \"", "7"),
            ("\"-1_000\"", "-1000"),
            ("true", "1"),
            ("false", "0"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
        ] {
            assert_eq!(max_steps(value), Decimal::parse(expected), "{value}");
        }
    }

    #[test]
    fn what_is_no_whole_number_is_no_count() {
        for value in [
            "7.5",
            "1e308",
            "null",
            "[7]",
            "{}",
            "\"7.5\"",
            "\"seven\"",
            "\"\"",
            "\"1e3\"",
            "\"1__0\"",
            "\"_1\"",
            "\"NaN\"",
            "\"--7\"",
            "\".0\"",
        ] {
            assert_eq!(max_steps(value), None, "{value}");
        }
    }

    #[test]
    fn amounts_of_any_finite_size_are_read() {
        for value in [
            "\"1e308\"",
            "1e308",
            "\"1E+400\"",
            "\"123456789012345678901234567890.5\"",
            "0.1",
        ] {
            assert!(
                read(&format!("{{\"max_cost\":{value}}}")).is_ok(),
                "{value}"
            );
        }
        for value in ["\"NaN\"", "\"Infinity\"", "\"\"", "true", "[1]", "1e999"] {
            assert_eq!(
                failed_fields(&format!("{{\"max_cost\":{value}}}")),
                ["max_cost"],
                "{value}"
            );
        }
    }

    #[test]
    fn reserves_are_compared_as_decimals_of_any_size() {
        assert_eq!(
            failed_fields(r#"{"max_cost":"1e308","synthesis_reserve_cost":"10e307"}"#),
            ["synthesis_reserve_cost"]
        );
        assert_eq!(
            failed_fields(r#"{"max_cost":"1e308","synthesis_reserve_cost":"9e307"}"#),
            [""; 0]
        );
    }

    #[test]
    fn huge_limits_are_as_good_as_none_and_tiny_digits_are_refused() {
        let huge = read(r#"{"max_steps":1000000000000000000000,"max_cost":"1e308"}"#).unwrap();
        let limits = huge.limits().unwrap();
        assert_eq!(limits.max_steps, i64::MAX);
        assert_eq!(limits.max_cost, Some(Money::MAX));
        let tiny = read(r#"{"max_cost":"1e-13"}"#).unwrap();
        assert!(matches!(tiny.limits(), Err(MoneyError::TooFine(_))));
    }

    #[test]
    fn a_deadline_must_be_a_point_in_time() {
        for value in [
            "\"2026-07-25T13:00:00+00:00\"",
            "\"2026-07-25 13:00\"",
            "\"2024-02-29\"",
            "\"2026-07-25T13:00:00.5Z\"",
            "1700000000",
            "null",
        ] {
            assert_eq!(
                failed_fields(&format!("{{\"deadline_at\":{value}}}")),
                [""; 0],
                "{value}"
            );
        }
        for value in [
            "\"soon\"",
            "\"2026-13-01\"",
            "\"2025-02-29\"",
            "\"2026-07-25T25:00\"",
            "true",
            "[]",
        ] {
            assert_eq!(
                failed_fields(&format!("{{\"deadline_at\":{value}}}")),
                ["deadline_at"],
                "{value}"
            );
        }
    }
}
