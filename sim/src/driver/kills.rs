//! When the process dies.

use holdback_scenarios::scenario::Kills;

use crate::luck::{Chance, another, purpose};
use crate::sampler::Sampler;

/// Deaths of the process, compiled.
#[derive(Clone, Debug)]
pub struct KillPlan {
    per_model_call: Chance,
    per_tool_call: Chance,
    after_model_calls: Vec<u32>,
    after_tool_calls: Vec<u32>,
    max: u64,
    downtime_us: Sampler,
    tail_loss: Chance,
}

impl KillPlan {
    /// Compiles the kills of a scenario.
    pub fn new(kills: &Kills) -> KillPlan {
        KillPlan {
            per_model_call: Chance::new(kills.per_model_call.get()),
            per_tool_call: Chance::new(kills.per_tool_call.get()),
            after_model_calls: kills.after_model_calls.clone(),
            after_tool_calls: kills.after_tool_calls.clone(),
            max: kills.max.map_or(u64::MAX, u64::from),
            downtime_us: Sampler::new(&kills.downtime_s, 1e6),
            tail_loss: Chance::new(kills.journal_tail_loss.get()),
        }
    }

    /// True if any kill can happen: only then is durable state kept at all.
    pub fn possible(&self) -> bool {
        self.max > 0
            && (self.per_model_call.possible()
                || self.per_tool_call.possible()
                || !self.after_model_calls.is_empty()
                || !self.after_tool_calls.is_empty())
    }

    /// Whether the process dies behind the model request with this number of the run.
    pub fn after_model(&self, kills: u64, request: u64, word: u32) -> bool {
        let planned = |at: &u32| u64::from(*at) == request;
        kills < self.max
            && (self.per_model_call.happens(word) || self.after_model_calls.iter().any(planned))
    }

    /// Whether the process dies behind the tool execution with this number of the run.
    pub fn after_tool(&self, kills: u64, execution: u64, word: u32) -> bool {
        let planned = |at: &u32| u64::from(*at) == execution;
        kills < self.max
            && (self.per_tool_call.happens(word) || self.after_tool_calls.iter().any(planned))
    }

    /// Whether the newest durable item is lost too.
    pub fn loses_tail(&self, word: u32) -> bool {
        self.tail_loss.happens(word)
    }

    /// Microseconds until the restart.
    pub fn downtime(&self, word: u32) -> i64 {
        let word = another(word, purpose::DOWNTIME);
        self.downtime_us.count(word).min(i64::MAX as u64 / 4) as i64
    }
}
