//! Running a study and putting its result together.

use std::collections::BTreeMap;

use holdback_engine::Money;
use holdback_reports::numbers::shell;
use holdback_reports::study::{Cell, Kind, PolicyInfo, ScenarioInfo, StudyResult, Twin};
use holdback_scenarios::policy::Policy;
use holdback_scenarios::{Scenario, Study};
use holdback_sim::bound::overspend_bound;
use holdback_sim::campaign::{Campaign, Listener, RunSet, Work};
use holdback_sim::policy::defaults;
use holdback_sim::workload::Prepared;

use crate::defect;
use crate::failure::Failure;

/// How a study is run.
pub(crate) struct Setting<'s> {
    /// The study.
    pub(crate) study: &'s Study,
    /// How its runs are made.
    pub(crate) work: Work,
    /// The canonical command.
    pub(crate) command: String,
    /// What `explain` needs beside scenario, policy and run.
    pub(crate) explain_options: String,
    /// The user's volume.
    pub(crate) runs_per_month: Option<u64>,
}

impl Setting<'_> {
    /// The result without any scenario, to which scenarios are added as they are done.
    pub(crate) fn empty_result(&self) -> StudyResult {
        let study = self.study;
        StudyResult {
            name: study.name.clone(),
            kind: Kind::Simulated,
            seed: study.seed,
            runs: study.runs,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            baseline: study
                .policies
                .get(study.baseline)
                .map_or_else(String::new, |policy| policy.name.clone()),
            command: self.command.clone(),
            explain_options: self.explain_options.clone(),
            runs_per_month: self.runs_per_month,
            policies: study.policies.iter().map(policy_info).collect(),
            scenarios: Vec::new(),
            skipped: study
                .skipped
                .iter()
                .map(|skipped| format!("{}: {}", skipped.name, skipped.reason))
                .collect(),
            notes: Vec::new(),
        }
    }
}

/// A policy as reports print it.
pub(crate) fn policy_info(policy: &Policy) -> PolicyInfo {
    PolicyInfo {
        name: policy.name.clone(),
        family: policy.family.as_str().to_owned(),
        definition: policy.document.clone(),
        defaults: defaults(policy),
    }
}

/// Runs one scenario of a study.
///
/// # Errors
/// A defect that a run brings to light.
pub(crate) fn run_scenario(
    prepared: &Prepared<'_>,
    setting: &Setting<'_>,
    scenario: &Scenario,
    runs: RunSet,
    listener: &dyn Listener,
) -> Result<Campaign, Failure> {
    let study = setting.study;
    defect::told(
        || prepared.campaign(study.baseline, runs, setting.work, listener),
        || {
            let options = setting.explain_options.as_str();
            let mut words = vec![format!(
                "holdback explain --scenario {}",
                shell(&scenario.name)
            )];
            if !options.is_empty() {
                words.push(options.to_owned());
            }
            if !options.contains("--seed ") {
                words.push(format!("--seed {}", study.seed));
            }
            words.join(" ")
        },
    )
}

/// A scenario with what was measured in it.
pub(crate) fn scenario_info(
    scenario: &Scenario,
    study: &Study,
    campaign: Campaign,
    runs: u64,
) -> ScenarioInfo {
    let twin = (campaign.twins_without_end == 0).then_some(Twin {
        evidence: campaign.twin_evidence,
        groups: campaign.twin_groups,
    });
    ScenarioInfo {
        name: scenario.name.clone(),
        summary: scenario.summary.clone(),
        definition: scenario.document.clone(),
        budget: scenario.budget,
        runs,
        explain: String::new(),
        left_out: BTreeMap::new(),
        twin,
        cells: cells(&study.policies, study.baseline, campaign.cells, |policy| {
            overspend_bound(scenario, policy)
        }),
    }
}

/// The cells of a scenario, in the order of the policies.
pub(crate) fn cells(
    policies: &[Policy],
    baseline: usize,
    tallies: Vec<holdback_sim::campaign::CellTally>,
    bound: impl Fn(&Policy) -> Option<Money>,
) -> Vec<Cell> {
    let cell = |(at, (policy, cell)): (usize, (&Policy, holdback_sim::campaign::CellTally))| Cell {
        policy: policy.name.clone(),
        tally: cell.tally,
        pairs: (at != baseline).then_some(cell.pairs),
        overspend_bound: bound(policy),
        money_cap: policy.money_cap(),
    };
    policies.iter().zip(tallies).enumerate().map(cell).collect()
}

/// Prepares a scenario of a study.
pub(crate) fn prepare<'s>(scenario: &'s Scenario, study: &Study) -> Result<Prepared<'s>, Failure> {
    Ok(Prepared::new(scenario, &study.policies, study.seed)?)
}
