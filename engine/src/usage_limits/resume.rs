//! The start of a process after a restart: what is restored, what is rebuilt, what is lost
//! (section 10 of the semantics).

use super::boundary::thresholds;
use super::checkpoint::Checkpoint;
use super::limits::{Config, ToolBudgetExtension};
use super::state::State;
use super::window::binding;
use crate::protocol::{CallStatus, Durable, HistoryEntry, JournalEntry};

/// A state as the reference restores it. Without a checkpoint the run starts from zero and the
/// journal is not read.
pub(super) fn restore(config: &Config, durable: &Durable<'_, Checkpoint>) -> State {
    let mut state = State::new(config);
    let Some(checkpoint) = durable.checkpoint else {
        return state;
    };
    restore_checkpoint(&mut state, config, checkpoint);
    rebuild_from_history(&mut state, config, finished(checkpoint, durable.history));
    if let Some(base) = config.max_tool_calls {
        state.fired = thresholds(base, state.used());
        if let Some(extension) = &config.extension {
            restore_grants(&mut state, base, extension, durable.journal);
        }
    }
    let journalled = durable
        .journal
        .iter()
        .any(|entry| matches!(entry, JournalEntry::Window { .. }));
    // Announced or not, the model is not told again.
    state.window_entered = config.has_window && (journalled || binding(config, &state).is_some());
    state
}

fn restore_checkpoint(state: &mut State, config: &Config, checkpoint: &Checkpoint) {
    state.counters.steps = checkpoint.turns;
    state.counters.tool_calls = checkpoint.used;
    state.counters.model_calls = checkpoint.model_calls;
    state.counters.usage = checkpoint.usage;
    state.counters.cost = checkpoint.reported_cost;
    state.schema_attempts = checkpoint.schema_attempts;
    if let Some(budget) = &config.budget {
        state
            .account
            .restore(budget.prices, &checkpoint.usage, checkpoint.cost_usd);
    }
    if checkpoint.is_mid_batch() {
        state.batch.load(&checkpoint.calls);
        state.batch.at = checkpoint.answered as usize;
        state.batch.adds = checkpoint.adds;
    }
}

/// The part of the conversation whose batches are complete: the answers of a pending batch, which
/// come after the last turn's beginning, are never fed to the guards.
fn finished<'a>(checkpoint: &Checkpoint, history: &'a [HistoryEntry]) -> &'a [HistoryEntry] {
    if !checkpoint.is_mid_batch() {
        return history;
    }
    let turn = |entry: &HistoryEntry| matches!(entry, HistoryEntry::Turn);
    &history[..history.iter().rposition(turn).unwrap_or(0)]
}

/// Every result that is no error counts as one execution and feeds the novelty guard; failed
/// executions vanish.
fn rebuild_from_history(state: &mut State, config: &Config, history: &[HistoryEntry]) {
    for entry in history {
        match entry {
            HistoryEntry::Result { call, result } if result.status == CallStatus::Succeeded => {
                state.guards.count_execution(config, call);
                state.guards.count_result(config, result);
                state.history.recorded += u64::from(result.recorded_evidence);
            }
            HistoryEntry::Answered { call } if call.terminal => {
                state.history.terminal_errors += 1;
            }
            HistoryEntry::Result { .. }
            | HistoryEntry::Answered { .. }
            | HistoryEntry::Proposed(_)
            | HistoryEntry::Turn => {}
        }
    }
}

/// Grants are the larger of what the executed count proves and what the journal says; the journalled
/// cap stands unless the live base cap has passed it.
fn restore_grants(
    state: &mut State,
    base: u64,
    extension: &ToolBudgetExtension,
    journal: &[JournalEntry],
) {
    let past_base = state.used().saturating_sub(base);
    let derived = past_base
        .div_ceil(extension.increment.max(1))
        .min(extension.max_extensions);
    let newest = journal
        .iter()
        .filter_map(|entry| match entry {
            JournalEntry::Grant { ordinal, cap, .. } => Some((*ordinal, *cap)),
            JournalEntry::Window { .. } => None,
        })
        .max_by_key(|(ordinal, _)| *ordinal);
    let journalled = newest.map_or(0, |(ordinal, _)| ordinal.min(extension.max_extensions));
    let raised = |grants: u64| base.saturating_add(grants.saturating_mul(extension.increment));
    state.grants = derived.max(journalled);
    state.cap = match newest {
        Some((_, cap)) if cap >= base => cap.max(raised(derived)),
        _ => raised(state.grants),
    };
    state.restored_cap_ignored = newest.map(|(_, cap)| cap).filter(|cap| *cap < base);
    if state.grants > 0 {
        state.evidence_at_grant = state.guards.distinct_results();
    }
}
