//! Decimals of any size and precision, for reading limits as the reference reads them.
//!
//! Nothing but validation uses them: what an engine compares at run time is [`crate::Money`] and
//! 64-bit counts.

use std::cmp::Ordering;
use std::fmt;

/// A finite decimal number: `digits * 10^exponent`, without leading or trailing zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

/// The largest exponent of the most significant digit that the reference's decimals can hold.
const MAX_ADJUSTED_EXPONENT: i64 = 999_999_999_999_999_999;

impl Decimal {
    /// Reads what Python's `Decimal` reads and is finite: an optional sign, digits with an optional
    /// point, an optional exponent; surrounding white space and underscores are ignored.
    pub fn parse(text: &str) -> Option<Decimal> {
        let text: String = text.trim().chars().filter(|c| *c != '_').collect();
        let (negative, body) = split_sign(&text);
        let (mantissa, exponent) = match body.find(['e', 'E']) {
            Some(at) => (&body[..at], parse_exponent(&body[at + 1..])?),
            None => (body, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut digits = Vec::with_capacity(mantissa.len());
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return None;
            }
            digits.push(byte - b'0');
        }
        let exponent = exponent.checked_sub(fraction.len() as i64)?;
        let value = Decimal {
            negative,
            digits,
            exponent,
        };
        value.normalised()
    }

    /// The decimal that a JSON number with a point or an exponent means to a reader that goes
    /// through a double: its shortest text. `None` if it is not finite.
    pub fn from_f64(value: f64) -> Option<Decimal> {
        if !value.is_finite() {
            return None;
        }
        Decimal::parse(&format!("{value:e}"))
    }

    /// True for zero, with either sign.
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// True for whole numbers.
    pub fn is_integral(&self) -> bool {
        self.exponent >= 0
    }

    /// The 64-bit integer of an integral value: the ends of the range stand for what lies beyond
    /// them.
    pub fn to_i64_saturating(&self) -> i64 {
        let beyond = if self.negative { i64::MIN } else { i64::MAX };
        if self.is_zero() {
            return 0;
        }
        if self.adjusted_exponent() > 18 {
            return beyond;
        }
        self.to_string().parse().unwrap_or(beyond)
    }

    /// True for values below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// The exponent of the most significant digit.
    pub fn adjusted_exponent(&self) -> i64 {
        self.exponent + self.digits.len() as i64 - 1
    }

    fn normalised(mut self) -> Option<Decimal> {
        let leading = self.digits.iter().take_while(|d| **d == 0).count();
        self.digits.drain(..leading);
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent = self.exponent.checked_add(1)?;
        }
        if self.digits.is_empty() {
            return Some(Decimal::default());
        }
        let adjusted = self.exponent.checked_add(self.digits.len() as i64 - 1)?;
        (adjusted.abs() <= MAX_ADJUSTED_EXPONENT).then_some(self)
    }

    fn cmp_magnitude(&self, other: &Decimal) -> Ordering {
        self.adjusted_exponent()
            .cmp(&other.adjusted_exponent())
            .then_with(|| self.digits.cmp(&other.digits))
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Decimal {
        // Every 64-bit integer is a decimal.
        Decimal::parse(&value.to_string()).unwrap_or_default()
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let sign = |d: &Decimal| match (d.is_zero(), d.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        sign(self).cmp(&sign(other)).then_with(|| match sign(self) {
            0 => Ordering::Equal,
            1 => self.cmp_magnitude(other),
            _ => other.cmp_magnitude(self),
        })
    }
}

/// Plain digits where they are few, otherwise digits with an exponent; [`Decimal::parse`] and
/// [`crate::Money::parse_exact`] read both.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.negative {
            f.write_str("-")?;
        }
        let digits: String = self.digits.iter().map(|d| char::from(b'0' + d)).collect();
        match self.exponent {
            0 => f.write_str(&digits),
            1..=24 => write!(f, "{digits}{}", "0".repeat(self.exponent as usize)),
            -24..=-1 => {
                let places = -self.exponent as usize;
                let padded = format!("{digits:0>width$}", width = places + 1);
                let point = padded.len() - places;
                write!(f, "{}.{}", &padded[..point], &padded[point..])
            }
            exponent => write!(f, "{digits}E{exponent:+}"),
        }
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let exponent: i64 = digits.parse().ok()?;
    Some(if negative { -exponent } else { exponent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn equal_values_are_equal_whatever_their_spelling() {
        for (a, b) in [
            ("1.00", "1"),
            ("1e2", "100"),
            ("-0", "0.000"),
            ("+.5", "0.5"),
            (" 7. ", "7"),
            ("1_000", "1e3"),
        ] {
            assert_eq!(decimal(a), decimal(b), "{a}");
        }
    }

    #[test]
    fn order_holds_far_beyond_doubles() {
        let ascending = [
            "-1e400",
            "-2",
            "-1.5",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000000000000001",
            "9",
            "10",
            "1e308",
            "1e400",
        ];
        for pair in ascending.windows(2) {
            assert!(decimal(pair[0]) < decimal(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            "0",
            "7",
            "-0.25",
            "1e30",
            "1.5e-30",
            "0.000001",
            "100",
            "123456789012345678901234567890.12",
        ] {
            assert_eq!(decimal(&decimal(text).to_string()), decimal(text), "{text}");
        }
        assert_eq!(decimal("1e2").to_string(), "100");
        assert_eq!(decimal("0.0000001").to_string(), "0.0000001");
        assert_eq!(decimal("1e308").to_string(), "1E+308");
    }

    #[test]
    fn what_is_no_finite_decimal_is_refused() {
        for text in [
            "", "-", ".", "NaN", "sNaN", "Infinity", "-inf", "1,5", "0x10", "1e", "e5", "--1",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::parse("1e1000000000000000000"), None);
    }

    #[test]
    fn a_double_means_its_shortest_text() {
        assert_eq!(Decimal::from_f64(0.1), Some(decimal("0.1")));
        assert_eq!(Decimal::from_f64(1e308), Some(decimal("1e308")));
        assert_eq!(Decimal::from_f64(f64::NAN), None);
    }

    #[test]
    fn integers_beyond_64_bits_saturate() {
        assert_eq!(decimal("7e0").to_i64_saturating(), 7);
        assert_eq!(decimal("1e30").to_i64_saturating(), i64::MAX);
        assert_eq!(
            decimal("-9300000000000000000").to_i64_saturating(),
            i64::MIN
        );
    }
}
