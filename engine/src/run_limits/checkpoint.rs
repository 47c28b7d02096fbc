//! What a checkpoint holds: exactly what the reference persists, with its losses (section 11).

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::state::State;
use crate::counts::Counts;
use crate::protocol::{Call, CheckpointKind, Ending};

/// A checkpoint. The conversation is the driver's to store with it; the counters are durable on
/// their own.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number of the checkpoint, from 1.
    pub version: u64,
    /// It is a full one, not a difference to the one before: the first and every eighth after it,
    /// and the terminal one.
    pub full: bool,
    /// The fitted calls of the batch in progress.
    pub pending: Vec<Call>,
    /// How often each call was proposed, by its raw signature.
    pub identical_calls: Counts,
    /// How often each denial happened, by its denial key.
    pub identical_denials: Counts,
    /// The recorded tool calls at the time of writing; of a terminal checkpoint, at the time of the
    /// one before it.
    pub watermark: i64,
    /// Of a terminal checkpoint: how the run ended.
    pub ending: Option<Ending>,
    /// Of a terminal checkpoint: what the run failed with, if it failed.
    pub failure: Option<Failure>,
    /// The last request carried the synthesis-only control. No reference stores it, and only the
    /// variants of [`super::Rules::crossing_turn`] look at it, after a crash.
    pub announced: bool,
    /// Tool calls that ran inside a reserve. Stays 0 without
    /// [`super::Rules::reserve_tool_allowance`], which no reference has.
    pub allowance_used: u32,
}

impl Checkpoint {
    /// Writes what a checkpoint of this state holds, reusing memory.
    pub(super) fn write(&mut self, state: &State) {
        self.version = state.version;
        self.full = state.full;
        self.pending.clear();
        self.pending.extend_from_slice(state.pending());
        self.identical_calls.clone_from(&state.identical_calls);
        self.identical_denials.clone_from(&state.identical_denials);
        self.watermark = state.watermark;
        self.ending = state.ending();
        self.failure = state.failure;
        self.announced = state.announced;
        self.allowance_used = state.allowance_used;
    }
}

impl Clone for Checkpoint {
    fn clone(&self) -> Checkpoint {
        let mut copy = Checkpoint::default();
        copy.clone_from(self);
        copy
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &Checkpoint) {
        let Checkpoint {
            version,
            full,
            pending,
            identical_calls,
            identical_denials,
            watermark,
            ending,
            failure,
            announced,
            allowance_used,
        } = source;
        self.version = *version;
        self.full = *full;
        self.pending.clone_from(pending);
        self.identical_calls.clone_from(identical_calls);
        self.identical_denials.clone_from(identical_denials);
        self.watermark = *watermark;
        self.ending = *ending;
        self.failure = *failure;
        self.announced = *announced;
        self.allowance_used = *allowance_used;
    }
}

/// A full checkpoint is written first, then at every eighth version, and last.
pub(super) const fn is_full(version: u64, kind: CheckpointKind) -> bool {
    version % 8 == 1 || matches!(kind, CheckpointKind::Terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_every_eighth_after_it_and_the_terminal_checkpoint_are_full() {
        let full: Vec<u64> = (1..=20)
            .filter(|version| is_full(*version, CheckpointKind::ToolCall))
            .collect();
        assert_eq!(full, [1, 9, 17]);
        assert!(is_full(2, CheckpointKind::Terminal));
    }
}
