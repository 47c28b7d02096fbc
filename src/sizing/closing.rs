//! What the closing call costs: measured, by a conformal quantile, and at its fail-closed worst.

use holdback_engine::Money;
use holdback_engine::protocol::{Call, Decision, Micros, ModelRequest, Observer};
use holdback_scenarios::Scenario;
use holdback_scenarios::policy::Policy;
use holdback_sim::bound::{dearest_call, largest_call};
use holdback_sim::campaign::{Workload, watch};
use holdback_sim::driver::Witness;
use holdback_sim::policy::CompiledPolicy;
use holdback_sim::tally::Outcome;
use holdback_sim::workload::{Prepared, Visitor};
use holdback_sim::world::{Reply, ReplyOutcome};
use serde::Serialize;

use crate::failure::Failure;

/// Runs watched for their closing calls.
const WATCHED: u64 = 2_000;

/// The cost of the closing call (the last completed call of a run that delivers something) in one
/// scenario, beside the reserve that was recommended for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ClosingCost {
    /// The scenario.
    pub(crate) scenario: String,
    /// Runs watched that had a closing call.
    pub(crate) runs: u64,
    /// Half of the closing calls cost at most this.
    pub(crate) p50_usd: Option<Money>,
    /// 99% of them.
    pub(crate) p99_usd: Option<Money>,
    /// The conformal quantile at the target: the ceil((n + 1) target)-th smallest of n costs. The
    /// next closing call costs at most this with a chance of at least the target, if it is
    /// exchangeable with those watched (V. Vovk, A. Gammerman and G. Shafer, "Algorithmic Learning
    /// in a Random World", 2005). Absent where n is too small for the target.
    pub(crate) conformal_usd: Option<Money>,
    /// Fail-closed: the largest context that a closing call carried, nothing of it cached, and the
    /// longest output that the model may write.
    pub(crate) worst_case_usd: Option<Money>,
    /// The same for a full context window.
    pub(crate) full_window_usd: Option<Money>,
    /// `worst_case_usd` over the recommended reserve.
    pub(crate) over_reservation: Option<f64>,
}

/// Watches the closing calls of a policy.
///
/// # Errors
/// If the policy cannot be used with the scenario.
pub(crate) fn measure(
    scenario: &Scenario,
    policy: &Policy,
    seed: u64,
    target: f64,
    reserve: Money,
) -> Result<ClosingCost, Failure> {
    let prepared = Prepared::new(scenario, std::slice::from_ref(policy), seed)?;
    let mut calls = match prepared.policies() {
        [compiled, ..] => prepared.with(Closings { policy: compiled }),
        [] => Vec::new(),
    };
    calls.sort_unstable();
    let costs: Vec<Money> = calls.iter().map(|call| call.cost).collect();
    let context = calls.iter().map(|call| call.input).max();
    let worst = context.and_then(|input| dearest_call(&scenario.model, input));
    let scripted = scenario.script.is_some();
    let worst = worst.filter(|_| !scripted);
    let ratio = |worst: Money| worst.to_f64() / reserve.to_f64();
    Ok(ClosingCost {
        scenario: scenario.name.clone(),
        runs: costs.len() as u64,
        p50_usd: order_statistic(&costs, 0.5, costs.len()),
        p99_usd: order_statistic(&costs, 0.99, costs.len()),
        conformal_usd: order_statistic(&costs, target, costs.len() + 1),
        worst_case_usd: worst,
        full_window_usd: largest_call(scenario).filter(|_| !scripted),
        over_reservation: worst
            .filter(|_| reserve > Money::ZERO)
            .map(|worst| (ratio(worst) * 100.0).round() / 100.0),
    })
}

/// The ceil(share × of)-th smallest cost, if there are so many.
fn order_statistic(sorted: &[Money], share: f64, of: usize) -> Option<Money> {
    let rank = (share * of as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// A closing call; ordered by its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClosingCall {
    cost: Money,
    input: u64,
}

struct Closings<'c> {
    policy: &'c CompiledPolicy,
}

impl Visitor for Closings<'_> {
    type Output = Vec<ClosingCall>;

    fn visit<L: Workload>(self, workload: &L) -> Vec<ClosingCall> {
        let watched = |run| {
            let mut last = LastCall(None);
            let record = watch(workload, self.policy, run, &mut last);
            last.0.filter(|_| record.outcome != Outcome::Unanswered)
        };
        (0..WATCHED).filter_map(watched).collect()
    }
}

/// Remembers the last completed call.
struct LastCall(Option<ClosingCall>);

impl Observer for LastCall {
    fn decided(&mut self, _decision: Decision) {}
}

impl Witness for LastCall {
    fn replied(&mut self, _now: Micros, _request: &ModelRequest, reply: &Reply, _calls: &[Call]) {
        if matches!(reply.outcome, ReplyOutcome::Turn { .. }) {
            self.0 = Some(ClosingCall {
                cost: reply.billed,
                input: reply.usage.input,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conformal_quantile_needs_enough_runs_for_its_target() {
        let costs: Vec<Money> = (1..=99).map(Money::from_dollars).collect();
        // The 99th of 99: ceil(100 x 0.99) = 99.
        assert_eq!(
            order_statistic(&costs, 0.99, 100),
            Some(Money::from_dollars(99))
        );
        assert_eq!(order_statistic(&costs[..98], 0.99, 99), None);
        assert_eq!(
            order_statistic(&costs, 0.5, 99),
            Some(Money::from_dollars(50))
        );
        assert_eq!(order_statistic(&[], 0.5, 0), None);
    }
}
