//! The limits of child runs, derived from what their parent has left (reference, section 15).

use super::limits::Limits;
use crate::Money;
use crate::protocol::{Counters, Limiter, Micros};

/// What a parent has.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// Its limits.
    pub limits: &'a Limits,
    /// What it has used of them.
    pub used: &'a Counters,
    /// Its deadline, on the driver's clock.
    pub deadline: Option<Micros>,
}

/// What is asked for one child; what is not given takes the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// Steps.
    pub max_steps: Option<i64>,
    /// Model calls.
    pub max_model_calls: Option<i64>,
    /// Tool calls.
    pub max_tool_calls: Option<i64>,
    /// Money.
    pub max_cost: Option<Money>,
    /// Wall-clock time.
    pub wall: Option<Micros>,
}

/// What a child gets where its brief does not say, within what the parent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefDefaults {
    /// Steps.
    pub max_steps: i64,
    /// Model calls.
    pub max_model_calls: i64,
    /// Tool calls.
    pub max_tool_calls: i64,
    /// Money.
    pub max_cost: Money,
    /// Wall-clock time.
    pub wall: Micros,
}

/// Reserves that are put on every child: inferred from the design text of a later version of the
/// reference, whose code could not be read. The child's totals are not widened for them, and a
/// child whose derived limit is not above its reserve is refused. The recorded version puts none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildReserves {
    /// Steps.
    pub steps: i64,
    /// Model calls.
    pub model_calls: i64,
    /// Money.
    pub cost: Money,
}

impl ChildReserves {
    /// The later version's defaults: one step, one model call, USD 0.25.
    pub const LATER_VERSION: ChildReserves = ChildReserves {
        steps: 1,
        model_calls: 1,
        cost: Money::from_micros(250_000),
    };
}

/// The limits of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its limits.
    pub limits: Limits,
    /// Its deadline, on the driver's clock.
    pub deadline: Micros,
}

/// The parent has too little left (`delegation.budget_insufficient`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("delegation.budget_insufficient: {}", limiter.as_str())]
pub struct Insufficient {
    /// What is missing; `Time` for the deadline.
    pub limiter: Limiter,
}

/// Derives the limits of the children that a parent asks for at once.
///
/// Count limits are not shared out: every child may get the whole remainder. Money is, in the order
/// of the briefs. The parent's own reserves are not subtracted.
pub fn derive_children(
    parent: &Parent<'_>,
    now: Micros,
    briefs: &[Brief],
    defaults: &BriefDefaults,
    reserves: Option<&ChildReserves>,
) -> Result<Vec<Child>, Insufficient> {
    let left = Left::of(parent, now)?;
    let mut money = left.money;
    briefs
        .iter()
        .map(|brief| {
            let child = left.child(parent, now, brief, defaults, money)?;
            if let (Some(available), Some(cost)) = (&mut money, child.limits.max_cost) {
                *available -= cost;
            }
            with_reserves(child, reserves)
        })
        .collect()
}

/// What the parent has left.
struct Left {
    steps: i64,
    model_calls: i64,
    tool_calls: i64,
    money: Option<Money>,
}

impl Left {
    /// Steps, model calls, tool calls, money, then time: the first that is used up refuses.
    fn of(parent: &Parent<'_>, now: Micros) -> Result<Left, Insufficient> {
        let (limits, used) = (parent.limits, parent.used);
        let left = Left {
            steps: limits.max_steps.saturating_sub(used.steps),
            model_calls: limits.max_model_calls.saturating_sub(used.model_calls),
            tool_calls: limits.max_tool_calls.saturating_sub(used.tool_calls),
            money: limits.max_cost.map(|max| max - used.cost),
        };
        let used_up = [
            (left.steps <= 0, Limiter::Steps),
            (left.model_calls <= 0, Limiter::ModelCalls),
            (left.tool_calls <= 0, Limiter::ToolCalls),
            (
                left.money.is_some_and(|money| money <= Money::ZERO),
                Limiter::Cost,
            ),
            (
                parent.deadline.is_some_and(|deadline| deadline <= now),
                Limiter::Time,
            ),
        ];
        match used_up.into_iter().find(|(is_used_up, _)| *is_used_up) {
            Some((_, limiter)) => Err(Insufficient { limiter }),
            None => Ok(left),
        }
    }

    fn child(
        &self,
        parent: &Parent<'_>,
        now: Micros,
        brief: &Brief,
        defaults: &BriefDefaults,
        money: Option<Money>,
    ) -> Result<Child, Insufficient> {
        let wanted = brief.max_cost.unwrap_or(defaults.max_cost);
        let cost = match money {
            Some(available) if available <= Money::ZERO => {
                return Err(Insufficient {
                    limiter: Limiter::Cost,
                });
            }
            Some(available) => wanted.min(available),
            None => wanted,
        };
        let asked = now.saturating_add(brief.wall.unwrap_or(defaults.wall));
        Ok(Child {
            limits: Limits {
                max_steps: brief
                    .max_steps
                    .unwrap_or(defaults.max_steps)
                    .min(self.steps),
                max_model_calls: brief
                    .max_model_calls
                    .unwrap_or(defaults.max_model_calls)
                    .min(self.model_calls),
                max_tool_calls: brief
                    .max_tool_calls
                    .unwrap_or(defaults.max_tool_calls)
                    .min(self.tool_calls),
                max_input_tokens: parent.limits.max_input_tokens,
                max_output_tokens: parent.limits.max_output_tokens,
                max_cost: Some(cost),
                ..Limits::default()
            },
            deadline: parent
                .deadline
                .map_or(asked, |deadline| deadline.min(asked)),
        })
    }
}

fn with_reserves(
    mut child: Child,
    reserves: Option<&ChildReserves>,
) -> Result<Child, Insufficient> {
    let Some(reserves) = reserves else {
        return Ok(child);
    };
    let limits = &mut child.limits;
    let too_small = [
        (limits.max_steps <= reserves.steps, Limiter::Steps),
        (
            limits.max_model_calls <= reserves.model_calls,
            Limiter::ModelCalls,
        ),
        (
            limits.max_cost.is_some_and(|cost| cost <= reserves.cost),
            Limiter::Cost,
        ),
    ];
    if let Some((_, limiter)) = too_small
        .into_iter()
        .find(|(is_too_small, _)| *is_too_small)
    {
        return Err(Insufficient { limiter });
    }
    limits.synthesis_reserve_steps = reserves.steps;
    limits.synthesis_reserve_model_calls = reserves.model_calls;
    limits.synthesis_reserve_cost = reserves.cost;
    Ok(child)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: BriefDefaults = BriefDefaults {
        max_steps: 8,
        max_model_calls: 8,
        max_tool_calls: 16,
        max_cost: Money::from_dollars(2),
        wall: 600_000_000,
    };

    fn children(
        limits: &Limits,
        briefs: &[Brief],
        reserves: Option<&ChildReserves>,
    ) -> Result<Vec<Child>, Insufficient> {
        let parent = Parent {
            limits,
            used: &Counters::default(),
            deadline: None,
        };
        derive_children(&parent, 0, briefs, &DEFAULTS, reserves)
    }

    #[test]
    fn money_is_shared_out_and_counts_are_not() {
        let limits = Limits {
            max_steps: 5,
            max_cost: Some(Money::from_dollars(3)),
            ..Limits::default()
        };
        let both = children(&limits, &[Brief::default(); 2], None).unwrap();
        assert_eq!(both[0].limits.max_cost, Some(Money::from_dollars(2)));
        assert_eq!(both[1].limits.max_cost, Some(Money::from_dollars(1)));
        assert_eq!((both[0].limits.max_steps, both[1].limits.max_steps), (5, 5));
        let refused = children(&limits, &[Brief::default(); 3], None);
        assert_eq!(
            refused,
            Err(Insufficient {
                limiter: Limiter::Cost
            })
        );
    }

    #[test]
    fn child_reserves_do_not_widen_a_child_and_refuse_one_that_is_too_small() {
        let reserves = Some(&ChildReserves::LATER_VERSION);
        let limits = Limits::default();
        let child = children(&limits, &[Brief::default()], reserves).unwrap()[0];
        assert_eq!(child.limits.max_steps, 8);
        assert_eq!(child.limits.synthesis_reserve_steps, 1);
        assert_eq!(child.limits.synthesis_reserve_cost.to_string(), "0.25");
        assert_eq!(crate::run_limits::check(&child.limits), Ok(()));
        let small = Brief {
            max_model_calls: Some(1),
            ..Brief::default()
        };
        assert_eq!(
            children(&limits, &[small], reserves),
            Err(Insufficient {
                limiter: Limiter::ModelCalls
            })
        );
    }
}
