//! What is counted about calls: units, executions by tool and by signature, and the novelty of
//! results (section 4 of the semantics).

use serde::{Deserialize, Serialize};

use super::limits::Config;
use crate::counts::Counts;
use crate::protocol::{Call, CallResult, CallStatus, Digest, Signature, ToolId};

/// Counters about the executed calls of a run. None of them is in a checkpoint.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Guards {
    units: u64,
    by_tool: Vec<u32>,
    signatures: Counts,
    /// Executions whose arguments have no canonical form; each is a signature of its own.
    unsigned: u64,
    repeated: u64,
    digests: Counts,
    duplicates: u64,
    /// Known results in a row.
    streak: u64,
    denied_by_signature: u64,
    denied_by_tool_cap: u64,
}

impl Clone for Guards {
    fn clone(&self) -> Guards {
        let mut copy = Guards::default();
        copy.clone_from(self);
        copy
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &Guards) {
        let mut by_tool = std::mem::take(&mut self.by_tool);
        let mut signatures = std::mem::take(&mut self.signatures);
        let mut digests = std::mem::take(&mut self.digests);
        by_tool.clone_from(&source.by_tool);
        signatures.clone_from(&source.signatures);
        digests.clone_from(&source.digests);
        *self = Guards {
            by_tool,
            signatures,
            digests,
            ..*source
        };
    }
}

impl Guards {
    pub(super) fn clear(&mut self) {
        self.units = 0;
        self.by_tool.fill(0);
        self.signatures.clear();
        self.unsigned = 0;
        self.repeated = 0;
        self.digests.clear();
        self.duplicates = 0;
        self.streak = 0;
        self.denied_by_signature = 0;
        self.denied_by_tool_cap = 0;
    }

    /// One execution begins: failed ones count as well.
    #[inline]
    pub(super) fn count_execution(&mut self, config: &Config, call: &Call) {
        self.units = self.units.saturating_add(config.tool(call.tool).cost);
        if !config.tracks_calls {
            return;
        }
        let tool = usize::from(call.tool.0);
        if self.by_tool.len() <= tool {
            self.by_tool.resize(tool + 1, 0);
        }
        self.by_tool[tool] += 1;
        match call.canonical_signature {
            Some(Signature(key)) => self.repeated += u64::from(self.signatures.add(key) > 1),
            None => self.unsigned += 1,
        }
    }

    /// The result of an execution: a new digest ends the streak, a known one extends it, a failure
    /// does neither. A value without canonical form is new, but no evidence for a grant. True if the
    /// result was a known one.
    #[inline]
    pub(super) fn count_result(&mut self, config: &Config, result: &CallResult) -> bool {
        if result.status != CallStatus::Succeeded || !config.tracks_calls {
            return false;
        }
        let known = result
            .digest
            .is_some_and(|Digest(key)| self.digests.add(key) > 1);
        if known {
            self.streak += 1;
            self.duplicates += 1;
        } else {
            self.streak = 0;
        }
        known
    }

    pub(super) fn count_denied_by_signature(&mut self) {
        self.denied_by_signature += 1;
    }

    pub(super) fn count_denied_by_tool_cap(&mut self) {
        self.denied_by_tool_cap += 1;
    }

    /// Units spent.
    #[inline]
    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// Executions of a tool.
    #[inline]
    pub(super) fn executions(&self, tool: ToolId) -> u64 {
        let count = self.by_tool.get(usize::from(tool.0));
        count.copied().unwrap_or(0).into()
    }

    /// Executions of a signature; a call without one equals no other.
    #[inline]
    pub(super) fn executions_of_signature(&self, signature: Option<Signature>) -> u64 {
        signature.map_or(0, |Signature(key)| u64::from(self.signatures.get(key)))
    }

    /// Known results in a row.
    #[inline]
    pub(super) fn streak(&self) -> u64 {
        self.streak
    }

    /// Different results so far: the evidence that a grant asks for.
    #[inline]
    pub(super) fn distinct_results(&self) -> u64 {
        self.digests.len() as u64
    }

    /// The counters as the reference reports them.
    pub(super) fn report(&self, config: &Config) -> Option<Exploration<'_>> {
        config.tracks_calls.then(|| Exploration {
            distinct_signatures: self.signatures.len() as u64 + self.unsigned,
            repeated_calls: self.repeated,
            duplicate_results: self.duplicates,
            denied_repeats: self.denied_by_signature,
            denied_by_tool_cap: config.caps_per_tool.then_some(self.denied_by_tool_cap),
            units: config.max_units.map(|_| self.units),
            by_tool: &self.by_tool,
        })
    }
}

/// The guards' counters as the reference reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploration<'a> {
    /// Different calls executed.
    pub distinct_signatures: u64,
    /// Executions of a call executed before.
    pub repeated_calls: u64,
    /// Results seen before.
    pub duplicate_results: u64,
    /// Calls denied for their signature.
    pub denied_repeats: u64,
    /// Calls denied for their tool's cap, where such caps exist.
    pub denied_by_tool_cap: Option<u64>,
    /// Units spent, where units exist.
    pub units: Option<u64>,
    /// Executions by tool number.
    pub by_tool: &'a [u32],
}
