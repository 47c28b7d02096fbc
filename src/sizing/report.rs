//! The result as data: what `size.json` holds.

use holdback_engine::Money;
use serde::Serialize;
use serde_json::Value;

use super::closing::ClosingCost;
use super::goal::{Goal, Requirement};
use super::search::Method;

/// The published JSON Schema of `size.json`, as text.
pub(crate) const JSON_SCHEMA: &str = include_str!("schema.json");

/// The answer to a question about limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sizing {
    /// The version of this format.
    pub(crate) schema: u32,
    /// The version of Holdback that made it.
    pub(crate) version: String,
    /// The command that reproduces it.
    pub(crate) command: String,
    /// The master seed.
    pub(crate) seed: u64,
    /// Runs of each scenario in a proof, and the most of a candidate in the search.
    pub(crate) runs: u64,
    /// Where runs are recorded: how many the search and the proof have, over all sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recorded: Option<Halves>,
    /// The policy that was started from.
    pub(crate) policy: String,
    /// Its family.
    pub(crate) family: String,
    /// What was asked for.
    pub(crate) goal: Goal,
    /// The answer.
    pub(crate) verdict: Outcome,
    /// The varied fields as recommended, or as best reachable.
    pub(crate) fields: Vec<FieldValue>,
    /// The limits object to paste; where nothing is recommended, the best reachable one.
    pub(crate) limits: Value,
    /// The whole policy, if a varied field stands beside the limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) whole_policy: Option<Value>,
    /// What to expect, by scenario, measured on luck that the search never saw.
    pub(crate) expected: Vec<Expected>,
    /// What the search had measured of it, minus what fresh luck showed.
    pub(crate) winners_curse: Vec<Curse>,
    /// Steps of the proof.
    pub(crate) proof: Vec<ProofStep>,
    /// A few steps less and more.
    pub(crate) frontier: Vec<FrontierRow>,
    /// What changes the answer.
    pub(crate) sensitivity: Vec<SensitivityRow>,
    /// The closing call from first principles; only where a money reserve is varied.
    pub(crate) closing_call: Vec<ClosingCost>,
    /// What it took.
    pub(crate) spent: Spent,
}

/// Recorded runs, parted at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Halves {
    /// Runs that the search plays.
    pub(crate) search: u64,
    /// Runs that only the proof and the tables play.
    pub(crate) proof: u64,
}

/// Whether there is a recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The limits reach the goal in every scenario, proven.
    Recommended,
    /// Nothing in the range does; this is what is in the way.
    Infeasible {
        /// The scenario that is not served.
        scenario: String,
        /// The requirement that binds there.
        binding: Requirement,
        /// The search found candidates, but fresh luck did not bear them out.
        only_in_search: bool,
    },
}

/// A varied field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FieldValue {
    /// Its dotted path.
    pub(crate) field: String,
    /// Its value.
    pub(crate) value: Money,
}

/// A measured number with its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// The estimate.
    pub(crate) value: f64,
    /// The interval, where the number of runs leaves it uncertain.
    pub(crate) interval: Option<[f64; 2]>,
}

/// What to expect in one scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Expected {
    /// The scenario.
    pub(crate) scenario: String,
    /// Share of runs that reach the target.
    pub(crate) reached: f64,
    /// The proven lower limit of that share (Clopper-Pearson, one-sided, at the step's error).
    pub(crate) at_least: f64,
    /// Answered share.
    pub(crate) answered: Option<Measured>,
    /// Answered or partly answered share.
    pub(crate) delivered: Option<Measured>,
    /// 99% of runs overspend by at most this.
    pub(crate) overspend_p99_usd: Option<Measured>,
    /// Mean bill.
    pub(crate) cost_mean_usd: Option<Measured>,
    /// Evidence as a share of what no limits would gather.
    pub(crate) evidence_kept: Option<Measured>,
    /// Evidence given up against the base, as a share.
    pub(crate) evidence_loss: Option<f64>,
    /// Rise of the mean bill against the base, as a share.
    pub(crate) cost_increase: Option<f64>,
}

/// The winner's curse in one scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Curse {
    /// The scenario.
    pub(crate) scenario: String,
    /// What the search measured.
    pub(crate) search: f64,
    /// What fresh luck showed.
    pub(crate) fresh: f64,
    /// The difference.
    pub(crate) difference: f64,
}

/// A step of the proof.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProofStep {
    /// From 1.
    pub(crate) step: u32,
    /// The seed of its luck.
    pub(crate) seed: u64,
    /// The error of each of its tests.
    pub(crate) error: f64,
    /// The candidate.
    pub(crate) candidate: String,
    /// What was not shown, if anything.
    pub(crate) lacking: Option<Requirement>,
}

/// A candidate near the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FrontierRow {
    /// The scenario.
    pub(crate) scenario: String,
    /// The candidate.
    pub(crate) candidate: String,
    /// It is the one that the report is about.
    pub(crate) here: bool,
    /// Answered share.
    pub(crate) answered: Option<Measured>,
    /// Answered or partly answered share.
    pub(crate) delivered: Option<Measured>,
    /// 99% of runs overspend by at most this.
    pub(crate) overspend_p99_usd: Option<f64>,
    /// Mean bill.
    pub(crate) cost_mean_usd: Option<f64>,
    /// Evidence as a share of what no limits would gather.
    pub(crate) evidence_kept: Option<f64>,
}

/// The result in a changed world.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SensitivityRow {
    /// What is different.
    pub(crate) change: String,
    /// The lowest share that reaches the target, over the scenarios.
    pub(crate) reached: f64,
    /// The scenario in which it is lowest.
    pub(crate) scenario: String,
    /// What a search would then find; none if nothing in the range will do.
    pub(crate) smallest: Option<String>,
}

/// Runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spent {
    /// How the candidate was found.
    pub(crate) method: Method,
    /// Candidates of the grid.
    pub(crate) candidates: u64,
    /// Runs of the search.
    pub(crate) search: u64,
    /// Runs that every candidate in every scenario would have taken.
    pub(crate) full_grid: u64,
    /// Runs of the proof.
    pub(crate) proof: u64,
    /// Runs of frontier and sensitivity.
    pub(crate) picture: u64,
}
