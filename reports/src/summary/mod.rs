//! Every number of a report, computed once: what `summary.json` holds and all other formats read.

mod build;
mod curve;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use holdback_engine::Money;
use serde::{Deserialize, Serialize};

use crate::measure::Measure;
use crate::numbers;
use crate::stats::Interval;
use crate::study::Kind;

pub use crate::findings::{Finding, FindingKind};

/// The version of the format of `summary.json`.
pub const SCHEMA: u32 = 1;

/// The JSON Schema of `summary.json`.
pub const JSON_SCHEMA: &str = include_str!("schema.json");

/// A study's results, without anything that could differ between two runs of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The version of this format.
    pub schema: u32,
    /// The version of Holdback that made it.
    pub version: String,
    /// What was run.
    pub study: Study,
    /// How sure the numbers are.
    pub statistics: Statistics,
    /// What stands out, by rules, in words.
    pub findings: Vec<Finding>,
    /// The policies, in the study's order.
    pub policies: Vec<Policy>,
    /// The scenarios with all their measures.
    pub scenarios: Vec<Scenario>,
    /// Combinations that cannot exist, with the reason.
    pub skipped: Vec<String>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The display name.
    pub name: String,
    /// Simulated or recorded runs.
    pub kind: Kind,
    /// The seed of all luck.
    pub seed: u64,
    /// Runs asked for, a cell.
    pub runs: u64,
    /// The policy that the others are compared with.
    pub baseline: String,
    /// The command that reproduces it.
    pub command: String,
    /// What `holdback explain` needs beside scenario, policy and run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub explain_options: String,
    /// The user's volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_month: Option<u64>,
}

/// How sure the numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// The confidence of every interval.
    pub confidence: f64,
    /// Comparisons with the baseline that the study holds; verdicts are corrected for their number.
    pub comparisons: u64,
    /// Groups of runs that intervals of means are resampled from.
    pub groups: u64,
    /// Resamples.
    pub resamples: u64,
}

/// A policy of the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The display name.
    pub name: String,
    /// `run_limits`, `usage_limits` or `caps`.
    pub family: String,
    /// The policy as a file would hold it.
    pub definition: serde_json::Value,
    /// What held for the fields that it leaves open, laid out as `definition`.
    #[serde(default)]
    pub defaults: serde_json::Value,
}

/// A scenario with its measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The display name.
    pub name: String,
    /// What it is, in a sentence.
    pub summary: String,
    /// The operator's intent.
    pub budget_usd: Option<Money>,
    /// Runs of each cell.
    pub runs: u64,
    /// How `holdback explain` is told of it.
    pub explain: String,
    /// Policies whose answered rate is not clearly below the best one, best first.
    pub leaders: Vec<String>,
    /// Recorded runs that were left out, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// What was measured, one a policy, in the order of the policies.
    pub cells: Vec<Cell>,
    /// The scenario as a file would hold it.
    pub definition: serde_json::Value,
}

/// One policy in one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The name of the policy.
    pub policy: String,
    /// Its family.
    pub family: String,
    /// The measures that apply.
    pub measures: BTreeMap<Measure, Figure>,
    /// Against the baseline; absent for the baseline itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Runs by outcome and reason, most frequent first.
    pub causes: Vec<Cause>,
    /// Runs in which each rare event was seen, if any.
    pub events: BTreeMap<String, u64>,
    /// Runs worth explaining.
    pub examples: Vec<Example>,
    /// Points of the exceedance curve of the overspend: dollars, and the share of runs above them.
    pub overspend_exceedance: Vec<[f64; 2]>,
    /// The 5th, 25th, 50th, 75th and 95th percentile of the headroom left, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_left_quantiles_usd: Option<[f64; 5]>,
    /// Sizes of the reserves that the policy's limits hold, by their key.
    pub reserves: BTreeMap<String, f64>,
    /// What its reserves do to the answered rate, if the study holds the same policy without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_effect: Option<ReserveEffect>,
    /// What it comes to at the user's volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_month: Option<PerMonth>,
}

/// A policy against the same policy without its reserves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReserveEffect {
    /// The name of the policy without reserves.
    pub without: String,
    /// With the reserves minus without them.
    pub answered_rate: Difference,
    /// Whether the difference is beyond noise: where the policy without reserves is the baseline, what
    /// the comparison with it says; else by the interval, corrected for the number of the study's
    /// cells (Bonferroni).
    pub clear: bool,
}

/// A measured value, with its interval where the number of runs leaves it uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The value.
    pub value: Value,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// A value: exact where it is a total, with six decimals elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Count(u64),
    /// An exact amount of money.
    Usd(Money),
    /// A mean, rate or quantile.
    Real(f64),
}

/// A policy against the baseline, on the same luck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Runs answered under both.
    pub both: u64,
    /// Runs answered under this policy only.
    pub only_here: u64,
    /// Runs answered under the baseline only.
    pub only_there: u64,
    /// Runs answered under neither.
    pub neither: u64,
    /// The exact two-sided p-value of McNemar's test.
    pub mcnemar_p: f64,
    /// The same, corrected by Holm for all comparisons of the study.
    pub adjusted_p: f64,
    /// What can be said about the answered rate.
    pub verdict: Verdict,
    /// This policy minus the baseline, with a paired interval.
    pub differences: BTreeMap<Measure, Difference>,
}

/// A difference with its paired interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The difference.
    pub value: f64,
    /// Its interval; absent where so few runs give none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// What can be said about the answered rate of a policy against the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It answers more, beyond noise.
    Better,
    /// It answers less, beyond noise.
    Worse,
    /// Nothing can be said: the difference may be noise, which does not show that there is none.
    NoDifference,
}

/// Runs that ended in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// `answered`, `partial` or `unanswered`.
    pub outcome: String,
    /// The reason, in the family's own word.
    pub cause: String,
    /// How many.
    pub runs: u64,
}

/// A run worth explaining.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// Its number, from 0.
    pub run: u64,
    /// Why it is worth it.
    pub why: String,
    /// The command that explains it.
    pub command: String,
}

/// What a policy comes to at the user's volume.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerMonth {
    /// Runs a month.
    pub runs: u64,
    /// The bill, in dollars.
    pub cost_usd: f64,
    /// Runs without an answer.
    pub answers_lost: f64,
    /// The overspend, in dollars; absent without a cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overspend_usd: Option<f64>,
}

impl Summary {
    /// The summary as the file holds it.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// The family of a policy; empty if the study has none of that name.
    pub fn family(&self, policy: &str) -> &str {
        let found = self.policies.iter().find(|known| known.name == policy);
        found.map_or("", |policy| &policy.family)
    }
}

impl Scenario {
    /// The cell of a policy.
    pub fn cell(&self, policy: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.policy == policy)
    }
}

impl Cell {
    /// The figure of a measure; `None` where it does not apply.
    pub fn figure(&self, measure: Measure) -> Option<&Figure> {
        self.measures.get(&measure)
    }

    /// The value of a measure as a number; `None` where it does not apply.
    pub fn number(&self, measure: Measure) -> Option<f64> {
        self.figure(measure).map(|figure| figure.value.to_f64())
    }

    /// The runs in which an event was seen.
    pub fn event(&self, name: &str) -> u64 {
        self.events.get(name).copied().unwrap_or(0)
    }

    /// The difference from the baseline in a measure.
    pub fn difference(&self, measure: Measure) -> Option<&Difference> {
        self.comparison.as_ref()?.differences.get(&measure)
    }
}

impl Figure {
    /// A value with its interval, which no measure lets fall below zero; one that has no end is none.
    pub fn new(value: Value, interval: Option<Interval>) -> Figure {
        Figure {
            value,
            interval: interval
                .map(|i| i.map(|end| end.max(0.0)))
                .filter(|i| i.is_bounded())
                .map(|i| i.map(numbers::rounded)),
        }
    }
}

impl Value {
    /// A mean, rate or quantile, with six decimals.
    pub fn real(value: f64) -> Value {
        Value::Real(numbers::rounded(value))
    }

    /// The value as the nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Value::Count(count) => count as f64,
            Value::Usd(money) => money.to_f64(),
            Value::Real(value) => value,
        }
    }

    /// The value as data files hold it.
    pub fn to_data(self) -> String {
        match self {
            Value::Count(count) => count.to_string(),
            Value::Usd(money) => money.to_string(),
            Value::Real(value) => numbers::data(value),
        }
    }
}

impl Difference {
    /// A difference with six decimals; an interval without an end is none.
    pub fn new(value: f64, interval: Option<Interval>) -> Difference {
        Difference {
            value: numbers::rounded(value),
            interval: interval
                .filter(|i| i.is_bounded())
                .map(|i| i.map(numbers::rounded)),
        }
    }

    /// Whether the difference is beyond noise.
    pub fn is_clear(&self) -> bool {
        self.interval.is_some_and(Interval::excludes_zero)
    }
}

impl Comparison {
    /// The difference of the answered rates.
    pub fn answered(&self) -> Difference {
        self.differences
            .get(&Measure::AnsweredRate)
            .copied()
            .unwrap_or(Difference {
                value: 0.0,
                interval: None,
            })
    }
}

impl Verdict {
    /// The word used in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifference => "not clear",
        }
    }
}
