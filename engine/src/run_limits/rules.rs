//! The rules beside the limits: thresholds that the reference fixes, and variants that no reference
//! has, to try a change before building it. The default is exactly the reference.

use serde::{Deserialize, Serialize};

use crate::{Money, MoneyError};

/// Thresholds and rule variants of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules {
    /// Attempts of one step, the first included (reference: 3). With 0 the first one is made all
    /// the same.
    pub attempts: u32,
    /// How often one call may be proposed: the proposal that reaches this number fails the run
    /// (reference: 5).
    pub identical_calls: u32,
    /// How often one denial may happen: the batch that reaches this number fails the run
    /// (reference: 3).
    pub identical_denials: u32,
    /// What happens to a crossing turn.
    pub crossing_turn: CrossingTurn,
    /// What happens to an answer whose own cost crosses the money cap.
    pub answer_over_cap: AnswerOverCap,
    /// Tool calls that may still run inside a reserve, counted over the whole run (ADR-0078 rejects
    /// one; reference: 0). A batch is fitted to what is left of them, as it is to the tool budget;
    /// a turn that finds none left fails as ever. The hard limits hold.
    pub reserve_tool_allowance: u32,
    /// A share of each limit that is reserved where no larger reserve is declared (the other
    /// alternative that ADR-0078 rejects; reference: 0). Counts are rounded up, so a limit of 1 is
    /// reserved as a whole and its run may do nothing but answer.
    pub reserve_fraction: Fraction,
    /// The ledger also counts what tools charge (no reference does). The money cap and its reserve
    /// then see it, from the recording of the batch on.
    pub count_tool_cost: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            attempts: 3,
            identical_calls: 5,
            identical_denials: 3,
            crossing_turn: CrossingTurn::Fail,
            answer_over_cap: AnswerOverCap::Discard,
            reserve_tool_allowance: 0,
            reserve_fraction: Fraction::ZERO,
            count_tool_cost: false,
        }
    }
}

/// What happens to a crossing turn: a tool turn whose own usage brings model calls or money to
/// their reserve, so that its request could not carry the control (reference, section 13.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossingTurn {
    /// It fails the run, as if it had been told (the reference).
    #[default]
    Fail,
    /// None of its calls runs; each is answered with an error, and the next step's request carries
    /// the control. It does not count as a repetition. All of the reserve is left for the answer:
    /// research ends earlier with a larger reserve, and whatever room a smaller one leaves for the
    /// answer, a larger one leaves too.
    RefuseThenSynthesize,
    /// Its batch runs as any other, and the next step's request carries the control. What its tools
    /// bring makes that request larger, so the reserve has to pay for it.
    RunThenSynthesize,
}

/// What happens to a final answer that is paid for and crosses the money cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOverCap {
    /// It is lost (the reference, section 13.3).
    #[default]
    Discard,
    /// It is delivered. Only the money cap is forgiven, and only to a turn that has text, proposes
    /// no calls and was not cancelled.
    Keep,
}

/// A share between 0 and 1, exact to twelve decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction {
    parts: i64,
}

/// Why a text is no [`Fraction`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FractionError {
    /// No decimal with at most twelve digits after the point.
    #[error("`{0}` is not a decimal with at most 12 digits after the point")]
    NotDecimal(String),
    /// Not in the range.
    #[error("`{0}` is not at least 0 and below 1")]
    OutOfRange(String),
}

const WHOLE: i64 = 1_000_000_000_000;

impl Fraction {
    /// Nothing.
    pub const ZERO: Fraction = Fraction { parts: 0 };

    /// Reads a decimal that is at least 0 and below 1.
    pub fn parse(text: &str) -> Result<Fraction, FractionError> {
        // Money has twelve decimals, too, and reads them exactly.
        let parts = match Money::parse_exact(text) {
            Ok(value) => value.picos(),
            Err(MoneyError::TooLarge(_)) => return Err(FractionError::OutOfRange(text.to_owned())),
            Err(_) => return Err(FractionError::NotDecimal(text.to_owned())),
        };
        match i64::try_from(parts) {
            Ok(parts) if (0..WHOLE).contains(&parts) => Ok(Fraction { parts }),
            _ => Err(FractionError::OutOfRange(text.to_owned())),
        }
    }

    /// This share of a count, rounded up; 0 of what is not positive.
    pub(super) fn of_count(self, count: i64) -> i64 {
        let share = div_up(
            i128::from(count.max(0)) * i128::from(self.parts),
            i128::from(WHOLE),
        );
        // A share is not larger than the whole.
        share as i64
    }

    /// This share of an amount, rounded up to the unit of money; 0 of what is not positive.
    pub(super) fn of_money(self, amount: Money) -> Money {
        let (whole, parts) = (i128::from(WHOLE), i128::from(self.parts));
        let picos = amount.or_zero().picos();
        Money::from_picos(picos / whole * parts + div_up(picos % whole * parts, whole))
    }
}

/// Division of non-negative numbers, rounded up.
const fn div_up(number: i128, by: i128) -> i128 {
    number / by + (number % by != 0) as i128
}

impl std::fmt::Display for Fraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Money::from_picos(i128::from(self.parts)).fmt(f)
    }
}

impl std::str::FromStr for Fraction {
    type Err = FractionError;

    fn from_str(text: &str) -> Result<Fraction, FractionError> {
        Fraction::parse(text)
    }
}

/// Written as a decimal string.
impl Serialize for Fraction {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Fraction, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(text: &str) -> Fraction {
        Fraction::parse(text).unwrap()
    }

    #[test]
    fn shares_of_counts_round_up() {
        assert_eq!(fraction("0.1").of_count(24), 3);
        assert_eq!(fraction("0.1").of_count(20), 2);
        assert_eq!(fraction("0.000000000001").of_count(1), 1);
        assert_eq!(fraction("0").of_count(1), 0);
        assert_eq!(fraction("0.5").of_count(-3), 0);
        assert_eq!(fraction("0.5").of_count(i64::MAX), i64::MAX / 2 + 1);
    }

    #[test]
    fn shares_are_decimal_where_doubles_would_round_away() {
        // In doubles 0.07 * 100 is 7.000000000000001, which rounds up to 8.
        assert_eq!(fraction("0.07").of_count(100), 7);
        let five = Money::from_dollars(5);
        assert_eq!(fraction("0.07").of_money(five).to_string(), "0.35");
        assert_eq!(fraction("0.5").of_money(Money::from_picos(1)).picos(), 1);
    }

    #[test]
    fn only_shares_below_one_are_fractions() {
        assert!(matches!(
            Fraction::parse("1"),
            Err(FractionError::OutOfRange(_))
        ));
        assert!(matches!(
            Fraction::parse("-0.1"),
            Err(FractionError::OutOfRange(_))
        ));
        assert!(matches!(
            Fraction::parse("1e30"),
            Err(FractionError::OutOfRange(_))
        ));
        assert!(matches!(
            Fraction::parse("a tenth"),
            Err(FractionError::NotDecimal(_))
        ));
        assert!(matches!(
            Fraction::parse("0.0000000000001"),
            Err(FractionError::NotDecimal(_))
        ));
    }
}
