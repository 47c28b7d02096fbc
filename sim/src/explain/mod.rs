//! One run told event by event, and where two tellings of the same luck part.

mod diverge;
mod event;
mod teller;
mod words;

use holdback_engine::Money;
use holdback_engine::protocol::{Limiter, Micros};
use serde::Serialize;

pub use diverge::{Divergence, Side, first_difference};
pub use event::{
    Amount, Decided, End, Event, Message, ModelCall, Numbers, Proposed, Recorded, Resumed,
    ToolCall, What,
};
pub use teller::Teller;

use crate::campaign::{Workload, watch};
use crate::policy::{CompiledPolicy, ToolNames};
use crate::tally::{Cause, RunRecord};
use crate::workload::{Prepared, Visitor};

/// A run under one policy: what happened, and how the tally judges it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// The policy.
    pub policy: String,
    /// Its family.
    pub family: &'static str,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// How the tally judges the run, and its measures.
    pub outcome: Judged,
}

/// The outcome and the measures of a run, by the names that `runs.csv` uses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// `answered`, `partial` or `unanswered`.
    pub outcome: &'static str,
    /// Why: the family's own reason, or one of the tally's.
    pub reason: &'static str,
    /// The limit that ended the run, if one did.
    pub limiter: Option<&'static str>,
    /// Turns begun.
    pub steps: u64,
    /// Model requests sent, retries and lost ones included.
    pub model_calls: u64,
    /// Tool executions, repeated ones included.
    pub tool_calls: u64,
    /// Calls that did not fit.
    pub refused_calls: u64,
    /// Calls that nobody ran or looked at.
    pub skipped_calls: u64,
    /// Calls denied by the permission policy or a guard.
    pub denied_calls: u64,
    /// Novel results in the conversation at the end.
    pub evidence: u64,
    /// Results that no later request carried.
    pub unread_results: u64,
    /// The money cap that overspend is measured against.
    pub cap_usd: Option<Money>,
    /// What provider and tools charged.
    pub billed_usd: Money,
    /// What the engine recorded.
    pub ledger_usd: Money,
    /// What was charged above the cap; null without a cap.
    pub overspend_usd: Option<Money>,
    /// What the ledger leaves of the cap; null without a cap.
    pub reserve_left_usd: Option<Money>,
    /// A synthesis reserve was violated.
    pub reserve_violation: bool,
    /// Times that the process died.
    pub kills: u64,
    /// Calls executed again after a restart.
    pub repaid_calls: u64,
    /// What work executed again after a restart was charged.
    pub repaid_usd: Money,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Simulated time from start to end.
    #[serde(rename = "sim_seconds", serialize_with = "event::seconds")]
    pub duration: Micros,
    /// It ended after the policy's deadline or time limit.
    pub late: bool,
}

impl Judged {
    fn new(record: &RunRecord, cap: Option<Money>) -> Judged {
        Judged {
            outcome: record.outcome.as_str(),
            reason: record.cause.as_str(),
            limiter: record.limiter.map(Limiter::as_str),
            steps: record.steps,
            model_calls: record.model_calls,
            tool_calls: record.tool_calls,
            refused_calls: record.refused_calls,
            skipped_calls: record.skipped_calls,
            denied_calls: record.denied_calls,
            evidence: record.evidence,
            unread_results: record.unread_results,
            cap_usd: cap,
            billed_usd: record.billed,
            ledger_usd: record.ledger,
            overspend_usd: record.overspend,
            reserve_left_usd: record.reserve_left,
            reserve_violation: record.reserve_violation,
            kills: record.kills,
            repaid_calls: record.repaid_calls,
            repaid_usd: record.repaid,
            checkpoints: record.checkpoints,
            duration: record.duration,
            late: record.late,
        }
    }
}

/// Tells run number `run` of a workload under a policy.
pub fn tell<L: Workload>(
    workload: &L,
    policy: &CompiledPolicy,
    names: &ToolNames,
    run: u64,
) -> Timeline {
    let mut teller = Teller::new(names);
    let record = watch(workload, policy, run, &mut teller);
    if record.cause == Cause::Endless {
        teller.stopped();
    }
    Timeline {
        policy: policy.name.clone(),
        family: policy.family.as_str(),
        events: teller.into_events(),
        outcome: Judged::new(&record, policy.facts.money_cap),
    }
}

/// Tells run number `run` of a scenario under each of its policies.
pub fn tell_prepared(prepared: &Prepared<'_>, run: u64) -> Vec<Timeline> {
    prepared.with(TellAll { prepared, run })
}

struct TellAll<'p, 's> {
    prepared: &'p Prepared<'s>,
    run: u64,
}

impl Visitor for TellAll<'_, '_> {
    type Output = Vec<Timeline>;

    fn visit<L: Workload>(self, workload: &L) -> Vec<Timeline> {
        let names = self.prepared.names();
        let policies = self.prepared.policies().iter();
        policies
            .map(|policy| tell(workload, policy, names, self.run))
            .collect()
    }
}

#[cfg(test)]
mod tests;
