//! Simulated runs as vectors in the form of the recorded ones, so that another runtime can replay
//! exactly what a simulation found.
//!
//! A vector holds the limits, what the model did in each attempt, what the tools returned, the kills,
//! and in `expect` the outcome and the whole trace. `expect` is not what the simulation saw but what
//! the conformance runner makes of the script; that both end the same way is asserted.

mod run_limits;
mod script;
mod usage_limits;

use holdback_scenarios::policy::{Family, Policy};
use serde_json::Value;

use crate::campaign::{Workload, watch};
use crate::conformance::{ConformanceError, expected};
use crate::tally::{Cause, RunRecord};
use crate::workload::{Prepared, Visitor};
use script::Script;

/// Why a run is no vector.
#[derive(Debug, thiserror::Error)]
pub enum NoVector {
    /// The form of the vectors cannot express it.
    #[error("{}", .0.as_str())]
    LeftOut(LeftOut),
    /// The conformance runner does something else with the script than the simulation did: a defect.
    #[error("run {run}: the simulation ended with {simulated}, its script with {played}")]
    Disagrees {
        /// The run.
        run: u64,
        /// What the simulation came to.
        simulated: String,
        /// What the script came to.
        played: String,
    },
    /// The conformance runner cannot play the script: a defect.
    #[error("{0}")]
    Unplayable(#[from] ConformanceError),
}

/// What the form of the vectors cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// `caps` has no reference, hence no vectors.
    Caps,
    /// The policy varies a rule or a threshold of the reference.
    VariedRules,
    /// More than one kill (`run_limits`).
    SeveralKills,
    /// Other limits after the restart (`run_limits`).
    ResumeLimits,
    /// The newest durable item was lost with the process.
    TailLoss,
    /// The transport sent a request more than once.
    TransportRetries,
    /// The ledger is debited costs that stand for no price (`usage_limits`).
    ReportedCosts,
    /// A stream fell silent for longer than the simulation listens (`usage_limits`).
    LongSilence,
    /// A batch whose calls cannot run beside each other, under a deadline (`run_limits`).
    SerialBatch,
    /// A tool call that ran again brought something else.
    UnstableResult,
    /// No limit ends the run.
    Endless,
}

impl LeftOut {
    /// The reason, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            LeftOut::Caps => "the family caps has no vectors",
            LeftOut::VariedRules => "the policy varies the rules or thresholds of the reference",
            LeftOut::SeveralKills => "the process dies more than once",
            LeftOut::ResumeLimits => "other limits hold after the restart",
            LeftOut::TailLoss => "the newest durable item is lost with the process",
            LeftOut::TransportRetries => "the transport repeats a request below the engine",
            LeftOut::ReportedCosts => "the ledger is debited costs without a price behind them",
            LeftOut::LongSilence => {
                "a stream falls silent longer than the policy's idle timeout says"
            }
            LeftOut::SerialBatch => "a batch runs call by call under a deadline",
            LeftOut::UnstableResult => "a tool call that runs again brings something else",
            LeftOut::Endless => "no limit ends the run",
        }
    }
}

/// Run number `run` of a scenario under the policy at `position`, whose source is `policy`.
///
/// # Errors
/// If the run cannot be expressed.
pub fn vector(
    prepared: &Prepared<'_>,
    position: usize,
    policy: &Policy,
    about: &About<'_>,
    run: u64,
) -> Result<Value, NoVector> {
    let (script, record) = prepared.with(Play {
        prepared,
        position,
        run,
    });
    if record.cause == Cause::Endless {
        return Err(NoVector::LeftOut(LeftOut::Endless));
    }
    script.expressible()?;
    let context = Context {
        prepared,
        policy,
        script: &script,
        about,
        run,
    };
    let mut vector = match policy.family {
        Family::RunLimits => run_limits::vector(&context),
        Family::UsageLimits => usage_limits::vector(&context),
        Family::Caps => Err(LeftOut::Caps),
    }
    .map_err(NoVector::LeftOut)?;
    let played = expected(&vector)?;
    let (simulated, told) = match policy.family {
        Family::UsageLimits => usage_limits::compared(&context, &record, &played),
        _ => run_limits::compared(&context, &played),
    };
    if simulated != told {
        return Err(NoVector::Disagrees {
            run,
            simulated,
            played: told,
        });
    }
    vector["expect"] = played;
    Ok(vector)
}

/// Where runs come from, for the names of their vectors.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The scenario.
    pub scenario: &'a str,
    /// The seed of its luck.
    pub seed: u64,
}

/// What a vector is made of.
struct Context<'c> {
    prepared: &'c Prepared<'c>,
    policy: &'c Policy,
    script: &'c Script,
    about: &'c About<'c>,
    run: u64,
}

impl Context<'_> {
    /// The vector's own name.
    fn id(&self) -> String {
        format!("{}/{}/{}", self.about.scenario, self.policy.name, self.run)
    }

    /// Where the vector comes from.
    fn origin(&self) -> String {
        format!("{}, seed {}", self.about.scenario, self.about.seed)
    }
}

struct Play<'p, 's> {
    prepared: &'p Prepared<'s>,
    position: usize,
    run: u64,
}

impl Visitor for Play<'_, '_> {
    type Output = (Script, RunRecord);

    fn visit<L: Workload>(self, workload: &L) -> (Script, RunRecord) {
        let mut script = Script::default();
        let policy = &self.prepared.policies()[self.position];
        let record = watch(workload, policy, self.run, &mut script);
        (script, record)
    }
}

/// Numbers given out in the order in which values appear, from 1.
struct Numbered<T>(Vec<T>);

impl<T: PartialEq> Numbered<T> {
    fn new() -> Numbered<T> {
        Numbered(Vec::new())
    }

    fn of(&mut self, value: T) -> usize {
        match self.0.iter().position(|known| *known == value) {
            Some(at) => at + 1,
            None => {
                self.0.push(value);
                self.0.len()
            }
        }
    }
}

#[cfg(test)]
mod tests;
