//! A field to vary, and the values that it may take.

use holdback_engine::Money;
use holdback_scenarios::policy::Policy;
use holdback_scenarios::read;
use serde_json::Value;

use super::grid::MOST_CANDIDATES;
use crate::failure::Failure;

/// Reserves whose range is known: the reserve and the limit that it is taken from.
const RESERVES: [(&str, &str); 6] = [
    ("synthesis_reserve_steps", "max_steps"),
    ("synthesis_reserve_model_calls", "max_model_calls"),
    ("synthesis_reserve_tool_calls", "max_tool_calls"),
    ("synthesis_reserve_cost", "max_cost"),
    ("finalizationWindow.reserveCalls", "maxToolCalls"),
    ("finalizationTurns.reserveTurns", "maxTurns"),
];
/// Features that are off without their table: a reserve of 0 takes the table away.
const OFF_WITHOUT_TABLE: [&str; 2] = [
    "finalizationWindow.reserveCalls",
    "finalizationTurns.reserveTurns",
];
/// A money range without a step has about this many values.
const MONEY_STEPS: i128 = 100;
/// What stands for a count without a limit in some families; no range can be taken from it.
const BEYOND_COUNTS: u64 = 1 << 52;

/// A field and its values in the order of preference, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// The dotted path, as in a sweep.
    pub(crate) field: String,
    /// Counts as whole dollars, everything else as it is.
    pub(crate) values: Vec<Money>,
}

impl Axis {
    /// Reads `FIELD[=LO..HI[:STEP]]`. The end that stands first is preferred: `0..8` looks for the
    /// smallest value that will do, `20..1` for the largest, which makes sense for a limit only.
    ///
    /// # Errors
    /// If the field is not one of the policy's family, or the range makes no sense.
    pub(crate) fn read(text: &str, policy: &Policy) -> Result<Axis, Failure> {
        let (field, range) = match text.split_once('=') {
            Some((field, range)) => (field, Some(range)),
            None => (text, None),
        };
        let field = field.trim();
        if field.is_empty() {
            return Err(wrong(text, "a field before the range: FIELD=LO..HI"));
        }
        let field = field.strip_prefix("limits.").unwrap_or(field).to_owned();
        let (from, to, step) = match range {
            Some(range) => parse_range(text, &field, range)?,
            None => default_range(&field, policy)?,
        };
        Ok(Axis {
            values: values(text, from, to, step)?,
            field,
        })
    }

    /// Whether it is an amount of money.
    pub(crate) fn is_money(&self) -> bool {
        read::is_money(&self.field)
    }

    /// Whether it is a reserve, which is off at 0.
    pub(crate) fn is_reserve(&self) -> bool {
        is_reserve(&self.field)
    }

    /// A value as the policy file holds it; `None` = the table that holds the field is left out.
    pub(crate) fn json(&self, value: Money) -> Option<Value> {
        if value == Money::ZERO && OFF_WITHOUT_TABLE.contains(&self.field.as_str()) {
            return None;
        }
        Some(json(&self.field, value))
    }
}

fn is_reserve(field: &str) -> bool {
    field.to_lowercase().contains("reserve")
}

fn json(field: &str, value: Money) -> Value {
    let text = value.to_string();
    if read::is_money(field) {
        return text.into();
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn wrong(text: &str, expected: &str) -> Failure {
    Failure::Usage(format!("--vary: found `{text}`, expected {expected}"))
}

fn parse_range(text: &str, field: &str, range: &str) -> Result<(Money, Money, Money), Failure> {
    const EXPECTED: &str = "FIELD=LO..HI or FIELD=LO..HI:STEP with numbers from 0, such as synthesis_reserve_steps=0..4";
    let (ends, step) = match range.split_once(':') {
        Some((ends, step)) => (ends, Some(step)),
        None => (range, None),
    };
    let number = |digits: &str| {
        let digits = digits.trim();
        // `0...3` has a dot too many rather than an end of three tenths.
        let is_plain = !digits.starts_with('.') && !digits.ends_with('.');
        Money::parse_exact(digits)
            .ok()
            .filter(|_| is_plain)
            .filter(|value| !value.is_negative())
            .ok_or_else(|| wrong(text, EXPECTED))
    };
    let (from, to) = ends.split_once("..").ok_or_else(|| wrong(text, EXPECTED))?;
    let (from, to) = (number(from)?, number(to)?);
    if is_reserve(field) && from > to {
        let expected = format!(
            "a reserve's range from its smallest value: {field}={to}..{from} (a range that goes down looks for \
             the largest value that will do, which is a question for a limit)"
        );
        return Err(wrong(text, &expected));
    }
    let step = match step {
        Some(step) => {
            let step = number(step)?;
            let width = Money::from_picos((to - from).picos().abs());
            if step == Money::ZERO {
                return Err(wrong(text, "a step above 0"));
            }
            if step > width && from != to {
                let expected = format!("a step of at most {width}, from one end to the other");
                return Err(wrong(text, &expected));
            }
            step
        }
        None if read::is_money(field) || !is_whole(from) || !is_whole(to) => {
            round_step(Money::from_picos((to - from).picos().abs()))
        }
        None => Money::from_dollars(1),
    };
    Ok((from, to, step))
}

fn is_whole(value: Money) -> bool {
    value.picos() % Money::from_dollars(1).picos() == 0
}

/// From nothing to just below the limit that the reserve is taken from.
fn default_range(field: &str, policy: &Policy) -> Result<(Money, Money, Money), Failure> {
    probe(field, policy)?;
    let limit_name = RESERVES
        .iter()
        .find(|(reserve, _)| *reserve == field)
        .map(|(_, limit)| *limit)
        .ok_or_else(|| wrong(field, &format!("a range for this field: {field}=LO..HI")))?;
    let limit = limit_of(limit_name, policy).ok_or_else(|| {
        wrong(
            field,
            &format!("a limit on `{limit_name}` in the policy, or a range: {field}=LO..HI"),
        )
    })?;
    if !read::is_money(field) {
        let one = Money::from_dollars(1);
        return Ok((Money::ZERO, (limit - one).or_zero(), one));
    }
    let step = round_step(limit);
    let below = (limit.picos() - 1) / step.picos().max(1);
    Ok((Money::ZERO, Money::from_picos(step.picos() * below), step))
}

/// Asks the strict reader whether the family has such a field.
fn probe(field: &str, policy: &Policy) -> Result<(), Failure> {
    let value = json(field, Money::from_dollars(1));
    match read::policy_with(
        "--vary",
        &policy.document,
        &policy.name,
        &[(field, Some(value))],
    ) {
        Err(error) if !error.is_impossible() => Err(error.into()),
        _ => Ok(()),
    }
}

fn limit_of(name: &str, policy: &Policy) -> Option<Money> {
    if read::is_money(name) {
        let text = policy.limits.get(name)?.as_str()?;
        return Money::parse_exact(text).ok();
    }
    let given = policy.limits.get(name).and_then(Value::as_u64);
    let count = given.or_else(|| read::default_count(policy.family, name))?;
    let count = i64::try_from(count)
        .ok()
        .filter(|_| count < BEYOND_COUNTS)?;
    Some(Money::from_dollars(count))
}

/// The smallest of 1, 2, 5 times a power of ten that makes at most about 100 steps of a width.
fn round_step(width: Money) -> Money {
    let least = (width.picos() + MONEY_STEPS - 1) / MONEY_STEPS;
    let mut decade = 1_i128;
    loop {
        for factor in [1, 2, 5] {
            if decade * factor >= least {
                return Money::from_picos(decade * factor);
            }
        }
        decade *= 10;
    }
}

fn values(text: &str, from: Money, to: Money, step: Money) -> Result<Vec<Money>, Failure> {
    let width = (to - from).picos();
    let steps = width.abs() / step.picos().max(1);
    let most = MOST_CANDIDATES as i128;
    if steps >= most {
        return Err(Failure::Usage(format!(
            "--vary: found {} values in `{text}`, expected at most {most}: give a larger step",
            steps + 1
        )));
    }
    let sign = width.signum();
    Ok((0..=steps)
        .map(|at| Money::from_picos(from.picos() + sign * at * step.picos()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(limits: &str) -> Policy {
        let text = format!("name = \"p\"\nlimits = {{ {limits} }}\n");
        read::policy_from_toml("p.toml", &text).unwrap()
    }

    fn shown(text: &str, limits: &str) -> Vec<String> {
        let axis = Axis::read(text, &policy(limits)).unwrap();
        axis.values.iter().map(Money::to_string).collect()
    }

    fn refused(text: &str, limits: &str) -> String {
        Axis::read(text, &policy(limits)).unwrap_err().to_string()
    }

    #[test]
    fn a_reserve_ranges_from_nothing_to_below_its_limit() {
        assert_eq!(
            shown("synthesis_reserve_steps", "max_steps = 4"),
            ["0", "1", "2", "3"]
        );
        // The production default of 24.
        assert_eq!(
            shown("synthesis_reserve_tool_calls", "max_steps = 4").len(),
            24
        );
        assert_eq!(
            shown("finalizationWindow.reserveCalls", "maxToolCalls = 3").len(),
            3
        );
    }

    #[test]
    fn a_money_reserve_takes_about_a_hundred_round_steps_below_its_limit() {
        let values = shown("synthesis_reserve_cost", "max_cost = \"5.00\"");
        assert_eq!(values[..3], ["0", "0.05", "0.1"]);
        assert_eq!(values.last().unwrap(), "4.95");
    }

    #[test]
    fn the_end_that_stands_first_is_preferred() {
        assert_eq!(shown("max_steps=3..1", "max_steps = 4"), ["3", "2", "1"]);
        assert_eq!(
            shown("synthesis_reserve_cost=0.5..0.7:0.1", "max_cost = 5"),
            ["0.5", "0.6", "0.7"]
        );
    }

    #[test]
    fn a_field_of_no_family_or_without_a_range_is_refused_with_advice() {
        let near = refused("synthesis_reserve_stepz", "max_steps = 4");
        assert!(
            near.contains("did you mean `synthesis_reserve_steps`?"),
            "{near}"
        );
        let range = refused("max_steps", "max_steps = 4");
        assert!(range.contains("max_steps=LO..HI"), "{range}");
        let limit = refused("synthesis_reserve_cost", "max_steps = 4");
        assert!(limit.contains("`max_cost`"), "{limit}");
        for broken in [
            "max_steps=1",
            "max_steps=a..b",
            "max_steps=-1..3",
            "max_steps=1..9:0",
            "max_steps=3..3:0",
            "max_steps=0..NaN",
            "max_steps=0..inf",
            "max_steps=0..3:NaN",
            "max_steps=0..3:-1",
            "max_steps=0..3:4",
            "max_steps=0...3",
            "max_steps=..",
            "max_steps=1..2=3",
            "=0..3",
            "",
        ] {
            assert!(
                refused(broken, "max_steps = 4").contains("--vary: found"),
                "{broken}"
            );
        }
        let many = refused("max_steps=1..999999", "max_steps = 4");
        assert_eq!(
            many,
            "--vary: found 999999 values in `max_steps=1..999999`, expected at most 10000: give a larger step"
        );
    }

    #[test]
    fn a_reserve_whose_range_goes_down_is_refused_with_the_range_that_was_meant() {
        for (text, meant) in [
            (
                "synthesis_reserve_steps=5..1",
                "synthesis_reserve_steps=1..5",
            ),
            (
                "synthesis_reserve_cost=0.7..0.5:0.1",
                "synthesis_reserve_cost=0.5..0.7",
            ),
        ] {
            let told = refused(text, "max_steps = 6, max_cost = 5");
            assert!(
                told.contains(&format!("found `{text}`")) && told.contains(meant),
                "{told}"
            );
        }
    }
}
