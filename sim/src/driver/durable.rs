//! What survives a kill: checkpoints, counters, journalled decisions and stored tool outcomes.

use holdback_engine::protocol::{Call, Counters, Durable, HistoryEntry, JournalEntry};

use crate::world::Ran;

/// A checkpoint with what the driver keeps beside it.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot<C, M> {
    pub(super) checkpoint: C,
    pub(super) mark: M,
    /// Length of the conversation.
    history: usize,
    /// Answers of the batch that the checkpoint interrupts.
    answers: Vec<HistoryEntry>,
    /// Requests sent and calls executed until then, for what a kill loses.
    pub(super) model_calls: u64,
    pub(super) tool_calls: u64,
    pub(super) unread: u64,
    /// False: no checkpoint was written, the run starts from the beginning.
    written: bool,
}

impl<C, M: Clone> Slot<C, M> {
    /// Holds no checkpoint: whoever restores it starts from the beginning.
    fn forget(&mut self, beginning: &M) {
        self.written = false;
        self.history = 0;
        self.answers.clear();
        self.mark = beginning.clone();
        self.model_calls = 0;
        self.tool_calls = 0;
        self.unread = 0;
    }
}

/// The durable store of a run.
#[derive(Debug)]
pub(super) struct DurableStore<C, M> {
    pub(super) counters: Counters,
    pub(super) journal: Vec<JournalEntry>,
    /// The conversation: its durable part is the first `history` entries of the newest slot.
    history: Vec<HistoryEntry>,
    /// Answers of the batch in progress, which have not joined the conversation.
    answers: Vec<HistoryEntry>,
    outcomes: Vec<(u32, Ran)>,
    /// Newest checkpoint, the one before it, and the one being written.
    slots: [Slot<C, M>; 3],
    /// Position of the newest.
    newest: usize,
    /// Where the run began.
    beginning: M,
}

impl<C: Default, M: Default> Default for DurableStore<C, M> {
    fn default() -> Self {
        DurableStore {
            counters: Counters::default(),
            journal: Vec::new(),
            history: Vec::new(),
            answers: Vec::new(),
            outcomes: Vec::new(),
            slots: Default::default(),
            newest: 0,
            beginning: M::default(),
        }
    }
}

impl<C: Clone + Default, M: Clone + Default> DurableStore<C, M> {
    /// Empties the store for a new run that begins at `mark`.
    pub(super) fn clear(&mut self, mark: M) {
        self.counters = Counters::default();
        self.journal.clear();
        self.history.clear();
        self.answers.clear();
        self.outcomes.clear();
        self.newest = 0;
        for slot in &mut self.slots {
            slot.forget(&mark);
        }
        self.beginning = mark;
    }

    /// A turn joins the conversation with the calls that it proposes.
    pub(super) fn propose(&mut self, calls: &[Call]) {
        self.history.push(HistoryEntry::Turn);
        self.history
            .extend(calls.iter().map(|call| HistoryEntry::Proposed(*call)));
    }

    /// A call of the batch in progress has an answer.
    pub(super) fn answer(&mut self, entry: HistoryEntry) {
        self.answers.push(entry);
    }

    /// The answers of the batch join the conversation.
    pub(super) fn flush_answers(&mut self) {
        self.history.append(&mut self.answers);
    }

    /// Stores the outcome of a call on its own.
    pub(super) fn store(&mut self, call: u32, ran: Ran) {
        self.outcomes.push((call, ran));
    }

    /// The stored outcome of a call.
    pub(super) fn stored(&self, call: u32) -> Option<Ran> {
        self.outcomes
            .iter()
            .rev()
            .find(|(id, _)| *id == call)
            .map(|(_, ran)| *ran)
    }

    /// Executions between two counts whose outcomes are not stored: at most the one in flight.
    pub(super) fn unstored_since(&self, saved: u64, executed: u64) -> u64 {
        let stored_in_all = self.outcomes.len() as u64;
        (executed - saved)
            .min(executed.saturating_sub(stored_in_all))
            .min(1)
    }

    /// The slot for a checkpoint that is being written; it counts from [`DurableStore::commit`] on.
    pub(super) fn next_slot(&mut self) -> &mut Slot<C, M> {
        &mut self.slots[(self.newest + 1) % 3]
    }

    /// The checkpoint in [`DurableStore::next_slot`] is durable.
    pub(super) fn commit(&mut self) {
        self.newest = (self.newest + 1) % 3;
        let slot = &mut self.slots[self.newest];
        slot.history = self.history.len();
        slot.answers.clone_from(&self.answers);
        slot.written = true;
    }

    /// Loses the newest checkpoint; false if there was none.
    pub(super) fn drop_newest(&mut self) -> bool {
        let had_one = self.slots[self.newest].written;
        if had_one {
            self.slots[self.newest].forget(&self.beginning);
            self.newest = (self.newest + 2) % 3;
        }
        had_one
    }

    /// Brings the conversation back to the newest checkpoint and returns it. The answers of a batch
    /// that it interrupts are kept: they join the conversation with the rest of the batch.
    pub(super) fn restore(&mut self) -> Slot<C, M> {
        let slot = self.slots[self.newest].clone();
        self.answers.clone_from(&slot.answers);
        self.history.truncate(slot.history);
        slot
    }

    /// What a resume may look at.
    pub(super) fn durable(&self) -> Durable<'_, C> {
        let newest = &self.slots[self.newest];
        Durable {
            checkpoint: newest.written.then_some(&newest.checkpoint),
            counters: &self.counters,
            journal: &self.journal,
            history: &self.history,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use holdback_engine::protocol::{Signature, ToolId};

    use super::*;

    fn call(id: u32) -> Call {
        let signature = Signature(NonZeroU64::MIN);
        Call {
            id,
            tool: ToolId(0),
            raw_signature: signature,
            canonical_signature: Some(signature),
            denial_key: signature,
            denied: false,
            parallel: false,
            terminal: false,
        }
    }

    #[test]
    fn answers_before_a_checkpoint_within_a_batch_join_the_conversation_after_a_restart() {
        let mut store = DurableStore::<(), ()>::default();
        let answered = |id| HistoryEntry::Answered { call: call(id) };
        store.clear(());
        store.propose(&[call(0), call(1), call(2)]);
        store.answer(answered(0));
        store.commit();
        store.answer(answered(1));
        store.restore();
        assert_eq!(
            store.durable().history.len(),
            4,
            "a turn and its three calls"
        );
        store.answer(answered(1));
        store.answer(answered(2));
        store.flush_answers();
        assert_eq!(
            store.durable().history[4..],
            [answered(0), answered(1), answered(2)]
        );
    }
}
