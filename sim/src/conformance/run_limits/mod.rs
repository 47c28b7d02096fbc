//! The vectors of `run_limits`: run cases, checks of limits, derived limits of children.

mod case;
mod delegation;
mod driver;
mod limits;
mod world;

use serde_json::Value;

use super::compare::{Difference, first_difference};

pub(super) use case::Case;
pub(super) use delegation::play_delegation;
pub(super) use limits::play_check;

/// Plays a recorded run and compares its outcome, its last checkpoint and its whole trace.
pub(super) fn play_case(case: &Case) -> Result<Option<Difference>, String> {
    let found = outcome(case)?;
    Ok(first_difference(&case.expect, &found))
}

/// What the engine makes of a recorded run, in the shape of `expect`.
pub(super) fn outcome(case: &Case) -> Result<Value, String> {
    driver::run(case)
}

#[cfg(test)]
mod tests;
