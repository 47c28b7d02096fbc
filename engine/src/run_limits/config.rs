//! Limits and rules compiled into plain numbers, so that deciding is comparing.

use serde::{Deserialize, Serialize};

use super::limits::{Limits, UNLIMITED};
use super::rules::Rules;
use crate::Money;
use crate::protocol::Micros;

/// The compiled limits and rules of a policy, shared by all its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    pub(super) steps: i64,
    pub(super) model_calls: i64,
    pub(super) tool_calls: i64,
    pub(super) input_tokens: i64,
    pub(super) output_tokens: i64,
    pub(super) cost: Money,
    pub(super) deadline: Micros,
    pub(super) reserves: Reserves,
    /// What may be used before a reserve is entered.
    pub(super) outside: Reserves,
    pub(super) rules: Rules,
}

/// An amount of each dimension that has a reserve: of a policy, the reserves in force, which are the
/// declared ones, widened by [`Rules::reserve_fraction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserves {
    /// Steps.
    pub steps: i64,
    /// Model calls.
    pub model_calls: i64,
    /// Tool calls.
    pub tool_calls: i64,
    /// Money.
    pub cost: Money,
}

impl Config {
    /// Compiles limits and rules. `deadline` is a point on the driver's clock; at or after it the
    /// run ends.
    ///
    /// Nothing is checked here: the reference validates limits when they are constructed, and its
    /// loop runs with whatever it is given ([`super::check`]).
    pub fn new(limits: &Limits, rules: &Rules, deadline: Option<Micros>) -> Config {
        let reserves = Reserves::in_force(limits, rules);
        Config {
            steps: limits.max_steps,
            model_calls: limits.max_model_calls,
            tool_calls: limits.max_tool_calls,
            input_tokens: limits.max_input_tokens.unwrap_or(UNLIMITED),
            output_tokens: limits.max_output_tokens.unwrap_or(UNLIMITED),
            cost: limits.max_cost.unwrap_or(Money::MAX),
            deadline: deadline.unwrap_or(Micros::MAX),
            outside: reserves.outside(limits),
            reserves,
            rules: *rules,
        }
    }

    /// The reserves in force.
    pub const fn reserves(&self) -> &Reserves {
        &self.reserves
    }

    /// The thresholds and variants in force.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }
}

impl Reserves {
    fn in_force(limits: &Limits, rules: &Rules) -> Reserves {
        let share = rules.reserve_fraction;
        // There is nothing to take a share of where nothing is limited.
        let of_count = |declared: i64, limit: i64| match limit {
            UNLIMITED => declared,
            _ => declared.max(share.of_count(limit)),
        };
        let of_money = |declared: Money, limit: Option<Money>| match limit {
            None | Some(Money::MAX) => declared,
            Some(limit) => declared.max(share.of_money(limit)),
        };
        Reserves {
            steps: of_count(limits.synthesis_reserve_steps, limits.max_steps),
            model_calls: of_count(limits.synthesis_reserve_model_calls, limits.max_model_calls),
            tool_calls: of_count(limits.synthesis_reserve_tool_calls, limits.max_tool_calls),
            cost: of_money(limits.synthesis_reserve_cost, limits.max_cost),
        }
    }

    /// The use of each dimension at which it reaches its reserve: limit - used <= reserve.
    ///
    /// One positive reserve switches on the comparisons of all dimensions, also of those whose own
    /// reserve is zero (reference, sections 3.2 and 13.2); without one, no use is enough.
    fn outside(&self, limits: &Limits) -> Reserves {
        if !self.any() {
            return Reserves {
                steps: i64::MAX,
                model_calls: i64::MAX,
                tool_calls: i64::MAX,
                cost: Money::MAX,
            };
        }
        Reserves {
            steps: limits.max_steps.saturating_sub(self.steps),
            model_calls: limits.max_model_calls.saturating_sub(self.model_calls),
            tool_calls: limits.max_tool_calls.saturating_sub(self.tool_calls),
            cost: limits
                .max_cost
                .map_or(Money::MAX, |limit| limit - self.cost),
        }
    }

    fn any(&self) -> bool {
        self.steps > 0 || self.model_calls > 0 || self.tool_calls > 0 || self.cost > Money::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_limits::Fraction;

    #[test]
    fn a_fraction_widens_declared_reserves_and_leaves_unlimited_dimensions_alone() {
        let limits = Limits {
            max_steps: UNLIMITED,
            max_model_calls: 21,
            max_tool_calls: 1,
            synthesis_reserve_model_calls: 2,
            ..Limits::default()
        };
        let rules = Rules {
            reserve_fraction: Fraction::parse("0.1").unwrap(),
            ..Rules::default()
        };
        let expected = Reserves {
            steps: 0,
            model_calls: 3,
            tool_calls: 1,
            cost: Money::ZERO,
        };
        assert_eq!(Reserves::in_force(&limits, &rules), expected);
    }

    #[test]
    fn a_zero_fraction_leaves_reserves_as_declared() {
        let limits = Limits {
            max_cost: Some(Money::from_dollars(5)),
            synthesis_reserve_cost: Money::from_dollars(1),
            synthesis_reserve_steps: 1,
            ..Limits::default()
        };
        let reserves = Reserves::in_force(&limits, &Rules::default());
        assert_eq!(reserves.cost, Money::from_dollars(1));
        assert_eq!(
            (reserves.steps, reserves.model_calls, reserves.tool_calls),
            (1, 0, 0)
        );
    }
}
