//! Scenarios and policies from TOML text, run through the real driver.
#![allow(dead_code, reason = "each test file uses its part of this module")]

use std::sync::Mutex;

use holdback_scenarios::read::policy_from_toml;
use holdback_scenarios::{Loader, Policy, Scenario};
use holdback_sim::campaign::{Campaign, Listener, Row, RunSet, Workload, watch};
use holdback_sim::driver::Witness;
use holdback_sim::tally::{RunRecord, Tally};
use holdback_sim::workload::{Prepared, Visitor};

/// The seed of all these tests.
pub(crate) const SEED: u64 = 7;

/// A scenario from TOML text; it needs no name.
pub(crate) fn scenario(text: &str) -> Scenario {
    let text = format!("schema = 1\nname = \"test\"\n{text}");
    Loader::default()
        .scenario_from_toml("scenario.toml", &text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A policy from TOML text; it needs no name.
pub(crate) fn policy(text: &str) -> Policy {
    let text = format!("name = \"policy\"\n{text}");
    policy_from_toml("policy.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// `run_limits` without any limit but those given, in the words of its limits object.
pub(crate) fn run_limits(limits: &str) -> Policy {
    let mut all = String::new();
    for key in ["max_steps", "max_model_calls", "max_tool_calls"] {
        if !limits.contains(key) {
            all.push_str(&format!("{key} = \"unlimited\", "));
        }
    }
    policy(&format!(
        "family = \"run_limits\"\nlimits = {{ {all}{limits} }}"
    ))
}

/// `usage_limits` without any limit but those given, in the words of its limits object.
pub(crate) fn usage_limits(limits: &str) -> Policy {
    let turns = if limits.contains("maxTurns") {
        ""
    } else {
        "maxTurns = 1000000, "
    };
    policy(&format!(
        "family = \"usage_limits\"\nlimits = {{ {turns}{limits} }}"
    ))
}

/// `caps` with these limits.
pub(crate) fn caps(limits: &str) -> Policy {
    policy(&format!("family = \"caps\"\nlimits = {{ {limits} }}"))
}

/// No limit at all.
pub(crate) fn no_limits() -> Policy {
    run_limits("")
}

/// A campaign of the runs `0..runs` under these policies, the first being the baseline.
pub(crate) fn campaign(scenario: &Scenario, policies: &[Policy], runs: u64) -> Campaign {
    prepared(scenario, policies).campaign(0, RunSet::range(0, runs), 2, &())
}

/// A scenario compiled with policies.
pub(crate) fn prepared<'s>(scenario: &'s Scenario, policies: &[Policy]) -> Prepared<'s> {
    Prepared::new(scenario, policies, SEED).unwrap_or_else(|error| panic!("{error}"))
}

/// What one policy brings in `runs` runs.
pub(crate) fn tally(scenario: &Scenario, policy: &Policy, runs: u64) -> Tally {
    let campaign = campaign(scenario, std::slice::from_ref(policy), runs);
    campaign.cells[0].tally.clone()
}

/// The records of the runs `0..runs`, policy by policy and in each run by run.
pub(crate) fn records(scenario: &Scenario, policies: &[Policy], runs: u64) -> Vec<Vec<RunRecord>> {
    let kept = Rows::default();
    prepared(scenario, policies).campaign(0, RunSet::range(0, runs), 2, &kept);
    let mut rows = kept.0.into_inner().unwrap();
    rows.sort_by_key(|row| (row.policy, row.run));
    let mut by_policy = vec![Vec::new(); policies.len()];
    for row in rows {
        by_policy[row.policy].push(row.record);
    }
    by_policy
}

/// The record of run 0 under one policy.
pub(crate) fn record(scenario: &Scenario, policy: &Policy) -> RunRecord {
    watched(scenario, policy, 0, &mut ())
}

/// One run before a witness.
pub(crate) fn watched<T: Witness>(
    scenario: &Scenario,
    policy: &Policy,
    run: u64,
    witness: &mut T,
) -> RunRecord {
    struct Watch<'w, T> {
        policy: holdback_sim::policy::CompiledPolicy,
        run: u64,
        witness: &'w mut T,
    }
    impl<T: Witness> Visitor for Watch<'_, T> {
        type Output = RunRecord;
        fn visit<L: Workload>(self, workload: &L) -> RunRecord {
            watch(workload, &self.policy, self.run, self.witness)
        }
    }
    let prepared = prepared(scenario, std::slice::from_ref(policy));
    prepared.with(Watch {
        policy: prepared.policies()[0].clone(),
        run,
        witness,
    })
}

#[derive(Default)]
struct Rows(Mutex<Vec<Row>>);

impl Listener for Rows {
    fn wants_rows(&self) -> bool {
        true
    }

    fn rows(&self, _chunk: u64, rows: Vec<Row>) {
        self.0.lock().unwrap().extend(rows);
    }
}

/// A mean of observations with its standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    pub(crate) standard_error: f64,
    pub(crate) variance: f64,
}

impl Estimate {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Estimate {
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for value in values {
            n += 1.0;
            sum += value;
            squares += value * value;
        }
        let mean = sum / n;
        let variance = (squares / n - mean * mean).max(0.0) * n / (n - 1.0);
        Estimate {
            mean,
            standard_error: (variance / n).sqrt(),
            variance,
        }
    }

    /// Fails unless the truth lies within so many standard errors. `what` names the quantity.
    #[track_caller]
    pub(crate) fn agrees(&self, what: &str, truth: f64, standard_errors: f64) {
        let distance = (self.mean - truth).abs();
        assert!(
            distance <= standard_errors * self.standard_error + 1e-12 * truth.abs(),
            "{what}: {} measured, {truth} expected, {:.1} standard errors of {} apart",
            self.mean,
            distance / self.standard_error,
            self.standard_error,
        );
    }
}

/// Fails unless `hits` of `trials` agree with a probability within so many standard errors.
#[track_caller]
pub(crate) fn rate_agrees(what: &str, hits: u64, trials: u64, truth: f64, standard_errors: f64) {
    let standard_error = (truth * (1.0 - truth) / trials as f64).sqrt();
    let measured = hits as f64 / trials as f64;
    assert!(
        (measured - truth).abs() <= standard_errors * standard_error + 1e-12,
        "{what}: {measured} measured, {truth} expected, {:.1} standard errors of {standard_error} apart",
        (measured - truth).abs() / standard_error,
    );
}
