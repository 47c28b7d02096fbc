//! Which limits are legal: the rules of section 2 of the reference, written once for limits as they
//! are declared and as they are compared.

use serde::{Deserialize, Serialize};

use super::limits::{Field, LimitsOf};

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The value alone is wrong: no number of the kind, not finite, not whole, a negative reserve.
    Field,
    /// A positive reserve that is not below its limit.
    ReserveNotBelowLimit,
    /// A cost reserve without a cost limit.
    RequiresMaxCost,
}

impl Problem {
    /// The word used in recorded vectors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Problem::Field => "field",
            Problem::ReserveNotBelowLimit => "reserve_not_below_limit",
            Problem::RequiresMaxCost => "requires_max_cost",
        }
    }
}

/// Why a limits object is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", names(fields), message(*problem))]
pub struct Invalid {
    /// The fields concerned: all field failures, or the one field of the first cross-field rule
    /// that is broken.
    pub fields: Vec<Field>,
    /// What is wrong with them.
    pub problem: Problem,
}

fn names(fields: &[Field]) -> String {
    let names: Vec<&str> = fields.iter().map(|field| field.as_str()).collect();
    names.join(", ")
}

fn message(problem: Problem) -> &'static str {
    match problem {
        Problem::Field => "expected a finite number, whole for a count, at least 0 for a reserve",
        Problem::ReserveNotBelowLimit => "a positive reserve must be below its limit",
        Problem::RequiresMaxCost => "a cost reserve needs `max_cost`",
    }
}

/// Checks limits as the reference does at construction: first every field by itself, then, only if
/// all are well, the cross-field rules in order, of which the first broken one is reported.
///
/// The tool-call rule stands third. Its place among the reference's rules could not be read
/// (section 2.3), so an object that breaks it together with another may there be refused for the
/// other one.
pub fn check<C, M>(limits: &LimitsOf<C, M>) -> Result<(), Invalid>
where
    C: PartialOrd + Default,
    M: PartialOrd + Default,
{
    let negative = negative_reserves(limits);
    if !negative.is_empty() {
        return Err(Invalid {
            fields: negative,
            problem: Problem::Field,
        });
    }
    match first_broken_rule(limits) {
        None => Ok(()),
        Some((field, problem)) => Err(Invalid {
            fields: vec![field],
            problem,
        }),
    }
}

/// The reserves below zero, in the order of the fields.
pub(super) fn negative_reserves<C, M>(limits: &LimitsOf<C, M>) -> Vec<Field>
where
    C: PartialOrd + Default,
    M: PartialOrd + Default,
{
    let zero = C::default();
    [
        (
            limits.synthesis_reserve_steps < zero,
            Field::SynthesisReserveSteps,
        ),
        (
            limits.synthesis_reserve_model_calls < zero,
            Field::SynthesisReserveModelCalls,
        ),
        (
            limits.synthesis_reserve_tool_calls < zero,
            Field::SynthesisReserveToolCalls,
        ),
        (
            limits.synthesis_reserve_cost < M::default(),
            Field::SynthesisReserveCost,
        ),
    ]
    .into_iter()
    .filter_map(|(negative, field)| negative.then_some(field))
    .collect()
}

/// The cross-field rules in the reference's order.
fn first_broken_rule<C, M>(limits: &LimitsOf<C, M>) -> Option<(Field, Problem)>
where
    C: PartialOrd + Default,
    M: PartialOrd + Default,
{
    let counts = [
        (
            &limits.synthesis_reserve_steps,
            &limits.max_steps,
            Field::SynthesisReserveSteps,
        ),
        (
            &limits.synthesis_reserve_model_calls,
            &limits.max_model_calls,
            Field::SynthesisReserveModelCalls,
        ),
        (
            &limits.synthesis_reserve_tool_calls,
            &limits.max_tool_calls,
            Field::SynthesisReserveToolCalls,
        ),
    ];
    for (reserve, limit, field) in counts {
        if reserve_not_below(reserve, limit) {
            return Some((field, Problem::ReserveNotBelowLimit));
        }
    }
    let reserve = &limits.synthesis_reserve_cost;
    let problem = match &limits.max_cost {
        None if *reserve != M::default() => Problem::RequiresMaxCost,
        Some(limit) if reserve_not_below(reserve, limit) => Problem::ReserveNotBelowLimit,
        _ => return None,
    };
    Some((Field::SynthesisReserveCost, problem))
}

/// A reserve of zero is always fine, also with a limit of zero.
fn reserve_not_below<T: PartialOrd + Default>(reserve: &T, limit: &T) -> bool {
    *reserve > T::default() && reserve >= limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Money;
    use crate::run_limits::Limits;

    fn problem(limits: Limits) -> Option<(Vec<&'static str>, Problem)> {
        check(&limits).err().map(|invalid| {
            let names = invalid.fields.iter().map(|field| field.as_str()).collect();
            (names, invalid.problem)
        })
    }

    #[test]
    fn defaults_zero_limits_and_negative_limits_are_legal() {
        assert_eq!(problem(Limits::default()), None);
        let limits = Limits {
            max_steps: 0,
            max_model_calls: -3,
            max_cost: Some(Money::ZERO),
            ..Limits::default()
        };
        assert_eq!(problem(limits), None);
    }

    #[test]
    fn only_the_first_broken_rule_is_reported() {
        let limits = Limits {
            max_model_calls: 2,
            synthesis_reserve_model_calls: 2,
            synthesis_reserve_cost: Money::from_dollars(1),
            ..Limits::default()
        };
        let expected = (
            vec!["synthesis_reserve_model_calls"],
            Problem::ReserveNotBelowLimit,
        );
        assert_eq!(problem(limits), Some(expected));
    }

    #[test]
    fn all_negative_reserves_are_reported_and_hide_the_other_rules() {
        let limits = Limits {
            synthesis_reserve_steps: -1,
            synthesis_reserve_model_calls: 99,
            synthesis_reserve_cost: Money::from_dollars(-1),
            ..Limits::default()
        };
        let expected = (
            vec!["synthesis_reserve_steps", "synthesis_reserve_cost"],
            Problem::Field,
        );
        assert_eq!(problem(limits), Some(expected));
    }

    #[test]
    fn a_cost_reserve_needs_a_cost_limit_above_it() {
        let reserve = |max_cost| Limits {
            max_cost,
            synthesis_reserve_cost: Money::from_dollars(1),
            ..Limits::default()
        };
        let field = vec!["synthesis_reserve_cost"];
        assert_eq!(
            problem(reserve(None)),
            Some((field.clone(), Problem::RequiresMaxCost))
        );
        assert_eq!(
            problem(reserve(Some(Money::from_dollars(1)))),
            Some((field, Problem::ReserveNotBelowLimit))
        );
        assert_eq!(problem(reserve(Some(Money::from_dollars(2)))), None);
    }
}
