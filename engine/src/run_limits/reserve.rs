//! Which reserve a run has entered (reference, section 3).

use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::config::Config;
use super::rule::Rule;
use crate::Money;
use crate::protocol::{Counters, Limiter, Quantity};

/// The reserve that a run has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entered {
    /// Not a reserve but the end of the tool calls, which obliges to answer as one does.
    ToolCallsExhausted,
    Steps,
    ModelCalls,
    ToolCalls,
    Cost,
}

/// The reserve that the run is in, the first one in the reference's order. `in_step` is true after
/// the step was counted; the one added to the steps left makes both values of a step equal.
/// `tool_calls` are the used ones to judge by.
///
/// All comparisons are made at once: nearly always, none of them holds.
#[inline]
pub(super) fn entered(
    config: &Config,
    used: &Counters,
    tool_calls: i64,
    in_step: bool,
) -> Option<Entered> {
    let outside = &config.outside;
    let exhausted = tool_calls >= config.tool_calls;
    let steps = used.steps - i64::from(in_step) >= outside.steps;
    let model_calls = used.model_calls >= outside.model_calls;
    let tool_calls = tool_calls >= outside.tool_calls;
    let cost = used.cost >= outside.cost;
    if !(exhausted | steps | model_calls | tool_calls | cost) {
        return None;
    }
    Some(if exhausted {
        Entered::ToolCallsExhausted
    } else if steps {
        Entered::Steps
    } else if model_calls {
        Entered::ModelCalls
    } else if tool_calls {
        Entered::ToolCalls
    } else {
        Entered::Cost
    })
}

impl Entered {
    /// The dimension as the control and the failure name it.
    pub(super) const fn limiter(self) -> Limiter {
        match self {
            Entered::ToolCallsExhausted | Entered::ToolCalls => Limiter::ToolCalls,
            Entered::Steps => Limiter::Steps,
            Entered::ModelCalls => Limiter::ModelCalls,
            Entered::Cost => Limiter::Cost,
        }
    }

    /// The comparison that holds, inside a step.
    pub(super) fn cause(self, config: &Config, used: &Counters) -> Cause {
        let reserves = &config.reserves;
        let count = |left, reserve| (Quantity::Count(left), Quantity::Count(reserve));
        let (rule, (left, right)) = match self {
            Entered::ToolCallsExhausted => (
                Rule::ToolCallsExhausted,
                count(tool_calls_left(config, used.tool_calls), 0),
            ),
            Entered::Steps => (
                Rule::StepsReserve,
                count(steps_left(config, used, true), reserves.steps),
            ),
            Entered::ModelCalls => (
                Rule::ModelCallsReserve,
                count(model_calls_left(config, used), reserves.model_calls),
            ),
            Entered::ToolCalls => (
                Rule::ToolCallsReserve,
                count(
                    tool_calls_left(config, used.tool_calls),
                    reserves.tool_calls,
                ),
            ),
            Entered::Cost => (
                Rule::CostReserve,
                (
                    Quantity::Money(money_left(config, used)),
                    Quantity::Money(reserves.cost),
                ),
            ),
        };
        Cause {
            rule,
            limiter: self.limiter(),
            left,
            right,
        }
    }
}

/// Tool calls that may still be dispatched.
pub(super) const fn tool_calls_left(config: &Config, used: i64) -> i64 {
    config.tool_calls.saturating_sub(used)
}

const fn steps_left(config: &Config, used: &Counters, in_step: bool) -> i64 {
    config
        .steps
        .saturating_sub(used.steps)
        .saturating_add(in_step as i64)
}

const fn model_calls_left(config: &Config, used: &Counters) -> i64 {
    config.model_calls.saturating_sub(used.model_calls)
}

fn money_left(config: &Config, used: &Counters) -> Money {
    config.cost - used.cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_limits::{Limits, Rules};

    fn config(limits: Limits) -> Config {
        Config::new(&limits, &Rules::default(), None)
    }

    fn entered(config: &Config, used: &Counters, in_step: bool) -> Option<Entered> {
        super::entered(config, used, used.tool_calls, in_step)
    }

    fn used(steps: i64, model_calls: i64, tool_calls: i64, dollars: i64) -> Counters {
        Counters {
            steps,
            model_calls,
            tool_calls,
            cost: Money::from_dollars(dollars),
            ..Counters::default()
        }
    }

    #[test]
    fn exhausted_tool_calls_outrank_everything_and_need_no_reserve() {
        let without = config(Limits::default());
        let exhausted = Some(Entered::ToolCallsExhausted);
        assert_eq!(entered(&without, &used(1, 1, 24, 0), true), exhausted);
        let with = config(Limits {
            synthesis_reserve_steps: 11,
            ..Limits::default()
        });
        assert_eq!(entered(&with, &used(11, 1, 24, 0), true), exhausted);
    }

    #[test]
    fn without_reserves_other_dimensions_are_not_compared() {
        let config = config(Limits::default());
        assert_eq!(entered(&config, &used(12, 12, 23, 0), true), None);
    }

    #[test]
    fn one_positive_reserve_compares_the_others_with_zero() {
        let config = config(Limits {
            max_cost: Some(Money::from_dollars(5)),
            synthesis_reserve_steps: 1,
            ..Limits::default()
        });
        assert_eq!(
            entered(&config, &used(2, 12, 1, 0), true),
            Some(Entered::ModelCalls)
        );
        assert_eq!(
            entered(&config, &used(2, 2, 1, 5), true),
            Some(Entered::Cost)
        );
        assert_eq!(entered(&config, &used(2, 2, 1, 4), true), None);
    }

    #[test]
    fn the_steps_reserve_reads_the_same_just_before_a_step_and_inside_it() {
        let config = config(Limits {
            synthesis_reserve_steps: 2,
            ..Limits::default()
        });
        for begun in 1..=12 {
            assert_eq!(
                entered(&config, &used(begun - 1, 0, 0, 0), false),
                entered(&config, &used(begun, 0, 0, 0), true),
                "step {begun}"
            );
        }
        assert_eq!(
            entered(&config, &used(10, 0, 0, 0), false),
            Some(Entered::Steps)
        );
        assert_eq!(entered(&config, &used(9, 0, 0, 0), false), None);
    }

    #[test]
    fn steps_then_model_calls_then_tool_calls_then_cost() {
        let all = config(Limits {
            max_cost: Some(Money::from_dollars(5)),
            synthesis_reserve_steps: 1,
            synthesis_reserve_model_calls: 1,
            synthesis_reserve_tool_calls: 1,
            synthesis_reserve_cost: Money::from_dollars(1),
            ..Limits::default()
        });
        assert_eq!(
            entered(&all, &used(12, 11, 23, 4), true),
            Some(Entered::Steps)
        );
        assert_eq!(
            entered(&all, &used(1, 11, 23, 4), true),
            Some(Entered::ModelCalls)
        );
        assert_eq!(
            entered(&all, &used(1, 1, 23, 4), true),
            Some(Entered::ToolCalls)
        );
        assert_eq!(entered(&all, &used(1, 1, 1, 4), true), Some(Entered::Cost));
        assert_eq!(entered(&all, &used(1, 1, 1, 3), true), None);
    }

    #[test]
    fn limits_at_the_ends_of_their_range_do_not_overflow() {
        let config = config(Limits {
            max_steps: i64::MIN,
            max_model_calls: i64::MAX,
            max_tool_calls: i64::MAX,
            synthesis_reserve_model_calls: 1,
            ..Limits::default()
        });
        assert_eq!(
            entered(&config, &used(1, 1, 1, 0), true),
            Some(Entered::Steps)
        );
    }
}
