//! Exact money: whole picodollars (1e-12 USD), never a float.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An exact amount of US dollars, counted in units of 1e-12 USD.
///
/// Prices a token are a few microdollars, so twelve decimals hold every published price per million
/// tokens with six decimals exactly; sums and comparisons are integer operations and do not depend
/// on their order. The range (about ±1.7e26 USD) is far beyond any ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(i128);

/// Why a text is not an exact amount of money.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// The text is no decimal number (NaN and infinities included).
    #[error("`{0}` is not a decimal number")]
    NotDecimal(String),
    /// The value has digits below 1e-12 USD.
    #[error("`{0}` has digits below 1e-12 USD")]
    TooFine(String),
    /// The value does not fit the integer range.
    #[error("`{0}` is too large an amount")]
    TooLarge(String),
}

/// What to do with digits below the unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Refuse,
    HalfEven,
}

const DECIMALS: i32 = 12;

impl Money {
    /// No money.
    pub const ZERO: Money = Money(0);
    /// More than any run can spend; stands for "no limit" where a plain comparison is wanted.
    pub const MAX: Money = Money(i128::MAX / 4);

    /// An amount in units of 1e-12 USD.
    pub const fn from_picos(picos: i128) -> Money {
        Money(picos)
    }

    /// The amount in units of 1e-12 USD.
    pub const fn picos(self) -> i128 {
        self.0
    }

    /// An amount in microdollars (1e-6 USD).
    pub const fn from_micros(micros: i64) -> Money {
        Money(micros as i128 * 1_000_000)
    }

    /// An amount in whole dollars.
    pub const fn from_dollars(dollars: i64) -> Money {
        Money(dollars as i128 * 1_000_000_000_000)
    }

    /// Reads a decimal such as `0.25`, `-3` or `1.5e-3`; digits below 1e-12 USD are an error.
    pub fn parse_exact(text: &str) -> Result<Money, MoneyError> {
        parse(text, Below::Refuse)
    }

    /// Reads a decimal and rounds it half to even at 1e-12 USD: for recorded costs, which often
    /// carry the 17 digits of a double.
    pub fn parse_rounded(text: &str) -> Result<Money, MoneyError> {
        parse(text, Below::HalfEven)
    }

    /// The amount nearest to a double, half to even at 1e-12 USD; `None` if it is not finite or out
    /// of range. For tallies only: no decision is made on it.
    pub fn from_f64_rounded(usd: f64) -> Option<Money> {
        if !usd.is_finite() || usd.abs() > 1e20 {
            return None;
        }
        // Up to 100 USD the errors of the double and of this product stay below 0.02 units, so away
        // from a tie the nearest unit is certain.
        let units = usd * 1e12;
        let nearest = units.round();
        if units.abs() < 1e14 && (units - nearest).abs() < 0.45 {
            return Some(Money(nearest as i128));
        }
        // The shortest text that reads back as this double, so that 0.1 becomes exactly 0.1.
        parse(&format!("{usd:e}"), Below::HalfEven).ok()
    }

    /// The nearest double, in dollars. For reports only.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// `self` times a count.
    pub const fn times(self, count: i64) -> Money {
        Money(self.0 * count as i128)
    }

    /// Sum that stays at the ends of the range.
    pub const fn saturating_add(self, other: Money) -> Money {
        Money(self.0.saturating_add(other.0))
    }

    /// The amount, or nothing where it is negative.
    pub fn or_zero(self) -> Money {
        self.max(Money::ZERO)
    }

    /// True for amounts below zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

fn parse(text: &str, below: Below) -> Result<Money, MoneyError> {
    let not_decimal = || MoneyError::NotDecimal(text.to_owned());
    let too_large = || MoneyError::TooLarge(text.to_owned());
    let body = text.trim();
    let (negative, body) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (
            &body[..at],
            body[at + 1..].parse::<i32>().map_err(|_| not_decimal())?,
        ),
        None => (body, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(not_decimal());
    }
    if !whole
        .bytes()
        .chain(fraction.bytes())
        .all(|b| b.is_ascii_digit())
    {
        return Err(not_decimal());
    }
    let digits: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|b| b - b'0')
        .skip_while(|d| *d == 0)
        .collect();
    // The value is digits * 10^scale picodollars.
    let scale = i64::from(exponent) - fraction.len() as i64 + i64::from(DECIMALS);
    if digits.is_empty() {
        return Ok(Money::ZERO);
    }
    let kept = digits.len() as i64 + scale.min(0);
    if kept + scale.max(0) > 38 {
        return Err(too_large());
    }
    let mut value: i128 = 0;
    for digit in digits.iter().take(kept.max(0) as usize) {
        value = value * 10 + i128::from(*digit);
    }
    for _ in 0..scale.max(0) {
        value = value.checked_mul(10).ok_or_else(too_large)?;
    }
    if kept < digits.len() as i64 {
        let dropped = &digits[kept.max(0) as usize..];
        if dropped.iter().any(|d| *d != 0) {
            if below == Below::Refuse {
                return Err(MoneyError::TooFine(text.to_owned()));
            }
            // With kept < 0 the value is below a tenth of the unit.
            if kept >= 0 {
                let half = dropped[0] == 5 && dropped[1..].iter().all(|d| *d == 0);
                if (half && value % 2 == 1) || (!half && dropped[0] >= 5) {
                    value += 1;
                }
            }
        }
    }
    Ok(Money(if negative { -value } else { value }))
}

impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Money, MoneyError> {
        Money::parse_exact(text)
    }
}

/// The shortest exact decimal: `0.25`, `5`, `-0.000001`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u128.pow(DECIMALS as u32);
        let magnitude = self.0.unsigned_abs();
        let (whole, fraction) = (magnitude / unit, magnitude % unit);
        let sign = if self.0 < 0 { "-" } else { "" };
        if fraction == 0 {
            return f.pad(&format!("{sign}{whole}"));
        }
        let fraction = format!("{fraction:012}");
        f.pad(&format!("{sign}{whole}.{}", fraction.trim_end_matches('0')))
    }
}

impl Add for Money {
    type Output = Money;
    fn add(self, other: Money) -> Money {
        Money(self.0 + other.0)
    }
}

impl Sub for Money {
    type Output = Money;
    fn sub(self, other: Money) -> Money {
        Money(self.0 - other.0)
    }
}

impl Neg for Money {
    type Output = Money;
    fn neg(self) -> Money {
        Money(-self.0)
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Money) {
        self.0 += other.0;
    }
}

impl SubAssign for Money {
    fn sub_assign(&mut self, other: Money) {
        self.0 -= other.0;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Money>>(amounts: I) -> Money {
        amounts.fold(Money::ZERO, Add::add)
    }
}

/// Written as a decimal string, so that no reader turns it into a double.
impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_reads_and_prints_exactly() {
        for (text, picos) in [
            ("0.25", 250_000_000_000),
            ("5.00", 5_000_000_000_000),
            ("-0.000001", -1_000_000),
            ("1.5e-3", 1_500_000_000),
            ("2E2", 200_000_000_000_000),
            (".5", 500_000_000_000),
            ("7.", 7_000_000_000_000),
            ("0.000000000001", 1),
            ("0.0000000000010", 1),
            ("0e999999", 0),
        ] {
            assert_eq!(Money::parse_exact(text), Ok(Money(picos)), "{text}");
        }
        assert_eq!(Money(250_000_000_000).to_string(), "0.25");
        assert_eq!(Money(-1_000_000).to_string(), "-0.000001");
        assert_eq!(Money(5_000_000_000_000).to_string(), "5");
    }

    #[test]
    fn digits_below_the_unit_are_refused_in_limits_and_rounded_half_even_in_records() {
        assert!(matches!(
            Money::parse_exact("0.0000000000001"),
            Err(MoneyError::TooFine(_))
        ));
        for (text, picos) in [
            ("0.0000000000005", 0),
            ("0.0000000000015", 2),
            ("0.00000000000051", 1),
            ("0.00000000000049", 0),
            ("1e-40", 0),
            ("0.1000000000000000055511151231257827", 100_000_000_000),
        ] {
            assert_eq!(Money::parse_rounded(text), Ok(Money(picos)), "{text}");
        }
        assert_eq!(Money::from_f64_rounded(0.1), Some(Money(100_000_000_000)));
        assert_eq!(Money::from_f64_rounded(f64::NAN), None);
    }

    #[test]
    fn a_double_rounds_as_its_shortest_decimal_does() {
        let mut usd = 1e-15_f64;
        while usd < 1e19 {
            for usd in [usd, -usd, usd * 1.5, usd + 5e-13, usd + 1.5e-12] {
                let shortest = parse(&format!("{usd:e}"), Below::HalfEven).ok();
                assert_eq!(Money::from_f64_rounded(usd), shortest, "{usd:e}");
            }
            usd *= 1.000_37;
        }
    }

    #[test]
    fn what_is_no_finite_decimal_is_refused() {
        for text in ["", "-", ".", "NaN", "inf", "1,5", "0x10", "1e", "$5", "1 2"] {
            assert!(
                matches!(Money::parse_exact(text), Err(MoneyError::NotDecimal(_))),
                "{text}"
            );
        }
        assert!(matches!(
            Money::parse_exact("1e30"),
            Err(MoneyError::TooLarge(_))
        ));
    }

    #[test]
    fn the_same_charges_in_any_order_give_the_same_verdict() {
        let limit = Money::from_dollars(1);
        let charges = [Money::parse_exact("0.1").unwrap(); 10];
        let spent: Money = charges.into_iter().sum();
        assert_eq!(spent, limit);
    }
}
