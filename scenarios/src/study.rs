//! A study: scenarios times policies.

use crate::policy::Policy;
use crate::scenario::Scenario;

/// Scenarios times policies, everything resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Name in reports.
    pub name: String,
    /// A sentence for people.
    pub summary: Option<String>,
    /// The seed of all luck.
    pub seed: u64,
    /// Runs of each cell, at least 1.
    pub runs: u64,
    /// The workloads, at least one, with different names.
    pub scenarios: Vec<Scenario>,
    /// The policies, at least one, with different names; sweeps written out.
    pub policies: Vec<Policy>,
    /// Combinations of sweeps that no engine accepts, left out.
    pub skipped: Vec<Skipped>,
    /// Position of the baseline among the policies.
    pub baseline: usize,
    /// Thresholds for `check`.
    pub gates: Gates,
}

/// A combination of a sweep that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The name that the policy would have had.
    pub name: String,
    /// Why it is impossible.
    pub reason: String,
}

/// Thresholds for `check`, by the gate's name such as `answered_drop_pp`, in file order. Which names there
/// are is decided where gates are checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gates(pub Vec<(String, f64)>);
