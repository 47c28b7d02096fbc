//! What the reports are made of: the tallies of a study, with the names and files behind them.

use std::collections::BTreeMap;

use holdback_engine::Money;
use holdback_sim::tally::{Pairs, Tally};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where the runs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Simulated runs.
    Simulated,
    /// Recorded runs, replayed.
    Replayed,
}

/// A study that has been run.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyResult {
    /// The study's display name.
    pub name: String,
    /// Where the runs come from.
    pub kind: Kind,
    /// The seed of all luck.
    pub seed: u64,
    /// Runs asked for, a cell; a scenario states how many it had.
    pub runs: u64,
    /// The version that ran it.
    pub version: String,
    /// The name of the policy that the others are compared with.
    pub baseline: String,
    /// The canonical command that reproduces the study.
    pub command: String,
    /// What `holdback explain` needs beside scenario, policy and run, such as `--study FILE`; empty
    /// if nothing.
    pub explain_options: String,
    /// The user's volume, for costs a month.
    pub runs_per_month: Option<u64>,
    /// The policies, in the study's order.
    pub policies: Vec<PolicyInfo>,
    /// The scenarios, in the study's order.
    pub scenarios: Vec<ScenarioInfo>,
    /// Combinations that the study asked for and that cannot exist, with the reason.
    pub skipped: Vec<String>,
    /// What a reader must know besides, such as estimates that the figures rest on.
    pub notes: Vec<String>,
}

/// A policy of the study.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyInfo {
    /// The display name, unique in the study.
    pub name: String,
    /// `run_limits`, `usage_limits` or `caps`.
    pub family: String,
    /// The policy as a file would hold it. Sizes of reserves are read from its `limits`.
    pub definition: Value,
    /// What holds for the fields that it leaves open, laid out as `definition`.
    pub defaults: Value,
}

/// A scenario of the study, with what was measured in it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioInfo {
    /// The display name, unique in the study.
    pub name: String,
    /// What it is, in a sentence.
    pub summary: String,
    /// The scenario as a file would hold it; null for recorded runs.
    pub definition: Value,
    /// The operator's intent, which the overspend of policies without a money cap is measured
    /// against.
    pub budget: Option<Money>,
    /// Runs of each cell.
    pub runs: u64,
    /// How `holdback explain` is told of it: `--scenario NAME` or `--traces FILE`, quoted for a
    /// shell. Empty: `--scenario` and the quoted name.
    pub explain: String,
    /// Recorded runs that were left out, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// What the same runs gather without any engine and without kills; `None` if they do not end.
    pub twin: Option<Twin>,
    /// One a policy, in the order of the policies.
    pub cells: Vec<Cell>,
}

/// Evidence gathered without any engine and without kills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Novel results over all runs.
    pub evidence: u64,
    /// The same by group of runs, for an interval; empty if it was not kept.
    pub groups: Vec<u64>,
}

/// One policy in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The name of the policy.
    pub policy: String,
    /// What was measured.
    pub tally: Tally,
    /// Against the baseline, run by run; `None` for the baseline itself.
    pub pairs: Option<Pairs>,
    /// The structural worst case of the overspend; `None` if unbounded.
    pub overspend_bound: Option<Money>,
    /// The policy's own money cap.
    pub money_cap: Option<Money>,
}

impl StudyResult {
    /// The policy of that name.
    pub fn policy(&self, name: &str) -> Option<&PolicyInfo> {
        self.policies.iter().find(|policy| policy.name == name)
    }
}
