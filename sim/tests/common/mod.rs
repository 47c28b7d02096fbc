//! Scenarios and policies from TOML text, run through the real driver.
#![allow(dead_code, reason = "each test file uses its part of this module")]

use std::sync::Mutex;

use holdback_scenarios::read::policy_from_toml;
use holdback_scenarios::{Loader, Policy, Scenario};
use holdback_sim::campaign::{Campaign, Listener, Row, RunSet, Work, Workload, watch};
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

/// Every kind of draw is active, kills as well.
pub(crate) fn eventful() -> Scenario {
    scenario(
        r#"
budget_usd = "0.50"
[model]
price = { input_per_mtok = "3.00", cached_input_per_mtok = "0.30", cache_write_per_mtok = "3.75", output_per_mtok = "15.00" }
long_context = { above_tokens = 20000, input_multiplier = "2", output_multiplier = "1.5" }
context_window = 60000
max_output_tokens = 4000
base_input_tokens = { dist = "uniform", low = 1000, high = 4000 }
cache_hit = 0.7
cache_ttl_s = 60
cache_hit_under_control = 0.2
output_tokens = { dist = "lognormal", median = 350, p95 = 1200 }
reasoning_tokens = { dist = "exponential", mean = 200 }
final_output_tokens = { dist = "lognormal", median = 1400, p95 = 4000 }
latency_s = { dist = "lognormal", median = 6, p95 = 25 }
demand = { dist = "lognormal", median = 12, p95 = 30 }
batch = { dist = "geometric", mean = 2.5, min = 1 }
estimate_error = { dist = "uniform", low = 0.8, high = 1.3 }
[model.compliance]
synthesis_only = 0.9
tools_withheld = 0.95
budget_notice = 0.5
window = 0.8
[model.habits]
repeat_call = 0.1
record_evidence = 0.2
[model.faults]
transient = 0.02
transient_after_output = 0.005
permanent = 0.002
protocol = 0.002
empty = 0.01
stall = 0.005
rate_limit = 0.01
billed = 0.5
storm = { dist = "geometric", mean = 2, min = 1 }
retry_after_s = 3
transport_retries = 1
[model.reporting]
missing = 0.01
[model.spike]
probability = 0.02
output_multiplier = { dist = "pareto", min = 3, alpha = 1.5, max = 40 }
[[tools]]
name = "search"
weight = 3
cost_usd = "0.005"
result_tokens = { dist = "lognormal", median = 800, p95 = 3000 }
error = 0.05
error_after_error = 0.3
denied = 0.02
novelty = 0.8
latency_s = { dist = "exponential", mean = 2 }
parallel = true
[[tools]]
name = "fetch"
result_tokens = 1500
latency_s = 1
[storage]
checkpoint_usd = "0.0001"
[kills]
per_model_call = 0.02
per_tool_call = 0.01
max = 3
downtime_s = { dist = "exponential", mean = 100 }
journal_tail_loss = 0.3
"#,
    )
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
    prepared(scenario, policies).campaign(0, RunSet::range(0, runs), Work::on(2), &())
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
    prepared(scenario, policies).campaign(0, RunSet::range(0, runs), Work::on(2), &kept);
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

/// Keeps the rows of a campaign.
#[derive(Default)]
pub(crate) struct Rows(pub(crate) Mutex<Vec<Row>>);

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
