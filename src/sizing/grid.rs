//! The candidates: policies with the varied fields set, the preferred ones first.

use holdback_engine::Money;
use holdback_scenarios::policy::Policy;
use holdback_scenarios::read;
use serde_json::Value;

use super::axis::Axis;
use crate::failure::Failure;

/// The most candidates of a grid.
pub(crate) const MOST_CANDIDATES: usize = 10_000;

/// One way of setting the varied fields.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Positions on the axes.
    pub(crate) at: Vec<usize>,
    /// The policy that they make.
    pub(crate) policy: Policy,
}

/// All candidates of some axes.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// The varied fields.
    pub(crate) axes: Vec<Axis>,
    /// Possible combinations in the order of preference: fewer steps from the preferred ends first,
    /// then the earlier fields nearer to theirs.
    pub(crate) candidates: Vec<Candidate>,
    /// What losses and increases are measured against: the policy with its varied reserves off.
    pub(crate) base: Policy,
}

impl Grid {
    /// Writes the candidates out. Combinations that exclude each other, such as a reserve that is
    /// not below its limit, are left out.
    ///
    /// # Errors
    /// If a field or value is none of the family's, or no combination is possible.
    pub(crate) fn new(policy: &Policy, axes: Vec<Axis>) -> Result<Grid, Failure> {
        let size = axes
            .iter()
            .try_fold(1_usize, |size, axis| size.checked_mul(axis.values.len()))
            .filter(|size| *size <= MOST_CANDIDATES)
            .ok_or_else(|| {
                Failure::Usage(format!(
                    "--vary: found more combinations, expected at most {MOST_CANDIDATES}: give larger steps"
                ))
            })?;
        let mut places: Vec<Vec<usize>> = (0..size).map(|number| place(&axes, number)).collect();
        places.sort_by_key(|at| (at.iter().sum::<usize>(), at.clone()));
        let mut candidates = Vec::with_capacity(size);
        let mut impossible = None;
        for at in places {
            match candidate(policy, &axes, &at) {
                Ok(policy) => candidates.push(Candidate { at, policy }),
                Err(error) if error.is_impossible() => impossible = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        match impossible {
            Some(error) if candidates.is_empty() => Err(error.into()),
            _ => Ok(Grid {
                base: base(policy, &axes),
                axes,
                candidates,
            }),
        }
    }

    /// True if a later candidate differs from an earlier one in one field only, always the same way.
    pub(crate) fn is_ordered(&self) -> bool {
        self.axes.len() == 1
    }

    /// The values of a candidate, field by field.
    pub(crate) fn values(&self, candidate: usize) -> Vec<(&Axis, Money)> {
        let at = &self.candidates[candidate].at;
        let value = |(axis, at): (&'_ Axis, &usize)| axis.values[*at];
        self.axes
            .iter()
            .zip(at)
            .map(|pair| (pair.0, value(pair)))
            .collect()
    }

    /// The candidates at most `steps` away from one in one field, in the order of preference.
    pub(crate) fn around(&self, candidate: usize, steps: usize) -> Vec<usize> {
        let here = &self.candidates[candidate].at;
        let near = |other: &&usize| {
            let there = &self.candidates[**other].at;
            let apart: Vec<usize> = here
                .iter()
                .zip(there)
                .map(|(a, b)| a.abs_diff(*b))
                .collect();
            apart.iter().filter(|apart| **apart > 0).count() <= 1
                && apart.iter().all(|apart| *apart <= steps)
        };
        let all: Vec<usize> = (0..self.candidates.len()).collect();
        all.iter().filter(near).copied().collect()
    }
}

/// The positions of a combination; the last field varies fastest.
fn place(axes: &[Axis], number: usize) -> Vec<usize> {
    let mut left = number;
    let mut at: Vec<usize> = axes
        .iter()
        .rev()
        .map(|axis| {
            let here = left % axis.values.len();
            left /= axis.values.len();
            here
        })
        .collect();
    at.reverse();
    at
}

fn candidate(policy: &Policy, axes: &[Axis], at: &[usize]) -> Result<Policy, read::FileError> {
    let value = |(axis, at): (&Axis, &usize)| axis.values[*at];
    let named: Vec<String> = axes
        .iter()
        .zip(at)
        .map(|(axis, at)| format!("{}={}", axis.field, value((axis, at))))
        .collect();
    let fields: Vec<(&str, Option<Value>)> = axes
        .iter()
        .zip(at)
        .map(|(axis, at)| (axis.field.as_str(), axis.json(value((axis, at)))))
        .collect();
    read::policy_with("--vary", &policy.document, &named.join(" "), &fields)
}

fn base(policy: &Policy, axes: &[Axis]) -> Policy {
    let off: Vec<(&str, Option<Value>)> = axes
        .iter()
        .filter(|axis| axis.is_reserve())
        .map(|axis| (axis.field.as_str(), axis.json(Money::ZERO)))
        .collect();
    let name = if off.is_empty() {
        "as given"
    } else {
        "without the reserve"
    };
    // A reserve that cannot be 0 (an output cap, say) stays as it is given.
    read::policy_with("--vary", &policy.document, name, &off).unwrap_or_else(|_| Policy {
        name: "as given".to_owned(),
        ..policy.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(limits: &str, vary: &[&str]) -> Grid {
        let text = format!("name = \"p\"\nlimits = {{ {limits} }}\n");
        let policy = read::policy_from_toml("p.toml", &text).unwrap();
        let axes = vary.iter().map(|text| Axis::read(text, &policy).unwrap());
        Grid::new(&policy, axes.collect()).unwrap()
    }

    #[test]
    fn fewer_steps_from_the_preferred_ends_come_first() {
        let grid = grid(
            "max_steps = 4",
            &[
                "synthesis_reserve_steps=0..1",
                "synthesis_reserve_tool_calls=0..1",
            ],
        );
        let at: Vec<&[usize]> = grid.candidates.iter().map(|c| c.at.as_slice()).collect();
        assert_eq!(at, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert!(!grid.is_ordered());
        assert_eq!(grid.around(0, 1), [0, 1, 2]);
    }

    #[test]
    fn combinations_that_exclude_each_other_are_left_out() {
        let grid = grid("max_steps = 4", &["synthesis_reserve_steps=2..9"]);
        assert_eq!(grid.candidates.len(), 2);
        assert_eq!(
            grid.candidates[1].policy.limits["synthesis_reserve_steps"],
            3
        );
    }

    #[test]
    fn a_window_of_no_calls_is_no_window() {
        let grid = grid("maxToolCalls = 3", &["finalizationWindow.reserveCalls"]);
        assert!(
            !grid.candidates[0]
                .policy
                .limits
                .contains_key("finalizationWindow")
        );
        assert_eq!(
            grid.candidates[2].policy.limits["finalizationWindow"]["reserveCalls"],
            2
        );
    }

    #[test]
    fn losses_are_measured_against_the_policy_without_its_varied_reserves() {
        let grid = grid(
            "max_steps = 4, synthesis_reserve_steps = 2, synthesis_reserve_tool_calls = 5",
            &["synthesis_reserve_steps"],
        );
        assert_eq!(grid.base.limits["synthesis_reserve_steps"], 0);
        assert_eq!(grid.base.limits["synthesis_reserve_tool_calls"], 5);
    }
}
