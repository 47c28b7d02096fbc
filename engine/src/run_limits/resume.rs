//! What a new process takes up after a crash (reference, sections 11.4 to 11.6).

use super::checkpoint::Checkpoint;
use super::state::{Origin, Phase, Start, State};
use crate::protocol::{Call, Durable, HistoryEntry};

/// The state of a run as far as it is durable.
///
/// - With a pending batch, that batch is dispatched again: not fitted, not counted as a repetition,
///   not checked against a reserve, its denials not counted.
/// - With a last turn whose calls have no answers, the batch is rebuilt from it and the step
///   continues behind its response: reserve and repetition are judged, and the batch is fitted,
///   under the tool calls that were recorded when it was proposed (the checkpoint's watermark).
///   The later reference does so (its ADR-0166); the recorded snapshot failed here.
/// - A run that had ended ends again.
/// - Otherwise the next step begins; an interrupted one stays consumed.
pub(super) fn restore(durable: &Durable<'_, Checkpoint>) -> State {
    let mut state = State::new();
    state.counters = *durable.counters;
    let Some(checkpoint) = durable.checkpoint else {
        return state;
    };
    state.version = checkpoint.version;
    state.full = checkpoint.full;
    state
        .identical_calls
        .clone_from(&checkpoint.identical_calls);
    state
        .identical_denials
        .clone_from(&checkpoint.identical_denials);
    state.watermark = checkpoint.watermark;
    state.announced = checkpoint.announced;
    state.allowance_used = checkpoint.allowance_used;
    let start = if let Some(ending) = checkpoint.ending {
        state.failure = checkpoint.failure;
        Start::Ended(ending)
    } else if checkpoint.pending.is_empty() {
        unanswered_calls(durable.history, &mut state.calls);
        state.origin = Origin::History;
        if state.calls.is_empty() {
            Start::NextStep
        } else {
            Start::UnansweredTurn
        }
    } else {
        state.calls.extend_from_slice(&checkpoint.pending);
        state.fitted = state.calls.len() as u32;
        state.is_pending = true;
        state.origin = Origin::Checkpoint;
        Start::PendingBatch
    };
    state.phase = Phase::Ready(start);
    state
}

/// The calls of the last turn that nothing in the conversation answers.
fn unanswered_calls(history: &[HistoryEntry], into: &mut Vec<Call>) {
    for entry in history {
        match entry {
            HistoryEntry::Turn => into.clear(),
            HistoryEntry::Proposed(call) => into.push(*call),
            HistoryEntry::Result { call, .. } | HistoryEntry::Answered { call } => {
                into.retain(|proposed| proposed.id != call.id);
            }
        }
    }
}
