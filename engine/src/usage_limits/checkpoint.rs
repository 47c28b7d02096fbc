//! What a checkpoint holds, and nothing else (section 10 of the semantics).

use serde::{Deserialize, Serialize};

use super::state::{InHistory, Phase, State};
use crate::Money;
use crate::protocol::{Call, Usage};

/// A checkpoint of `usage_limits`, beside the conversation that the driver stores with it. It does
/// *not* hold units, signature, tool and novelty counters, streaks, told thresholds, queued notices,
/// grants, the window or the clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Turns counted.
    pub turns: i64,
    /// Calls executed.
    pub used: i64,
    /// Model requests of the run.
    pub model_calls: i64,
    /// Usage of the run.
    pub usage: Usage,
    /// Cost of the run in USD, summed call by call.
    pub cost_usd: f64,
    /// The same as the driver reported it, where it does.
    pub reported_cost: Money,
    /// Texts that did not match the schema.
    pub schema_attempts: u64,
    /// The calls of the running batch; empty at a boundary.
    pub calls: Vec<Call>,
    /// How many of them have an answer; the next one is awaited.
    pub answered: u32,
    /// What the answers so far add to the conversation.
    pub(super) adds: InHistory,
}

impl Checkpoint {
    /// The checkpoint was written within a batch.
    pub fn is_mid_batch(&self) -> bool {
        !self.calls.is_empty()
    }
}

impl State {
    pub(super) fn save(&self, into: &mut Checkpoint) {
        into.turns = self.counters.steps;
        into.used = self.counters.tool_calls;
        into.model_calls = self.counters.model_calls;
        into.usage = self.counters.usage;
        into.cost_usd = self.account.cost();
        into.reported_cost = self.counters.cost;
        into.schema_attempts = self.schema_attempts;
        into.calls.clear();
        into.answered = 0;
        into.adds = InHistory::default();
        if self.phase == Phase::SavingMidBatch {
            into.calls.extend_from_slice(&self.batch.calls);
            into.answered = self.batch.index();
            into.adds = self.batch.adds;
        }
    }
}
