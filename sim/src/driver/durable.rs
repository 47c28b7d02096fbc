//! What survives a kill: checkpoints, counters, journalled decisions and stored tool outcomes.

use holdback_engine::protocol::{Call, Counters, Durable, HistoryEntry, JournalEntry};

use super::judge::LastText;
use crate::world::Ran;

/// How many checkpoints are kept: each loss of the newest one goes back by one, and a run that loses
/// more than these in a row starts from the beginning.
const KEPT: usize = 16;

/// Where a checkpoint stands in the run, as the driver counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Requests and executions that lead there, lost ones not counted.
    pub(super) model_calls: u64,
    pub(super) tool_calls: u64,
    /// Results that no billed request has carried yet.
    pub(super) unread: u64,
    /// Requests that have carried results.
    pub(super) carries: u64,
    pub(super) text: LastText,
}

/// A checkpoint with what the driver keeps beside it.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot<C, M> {
    pub(super) checkpoint: C,
    pub(super) mark: M,
    pub(super) standing: Standing,
    /// Length of the conversation.
    history: usize,
    /// False: no checkpoint was written, the run starts from the beginning.
    written: bool,
}

impl<C, M: Clone> Slot<C, M> {
    /// Holds no checkpoint: whoever restores it starts from the beginning.
    fn forget(&mut self, beginning: &M) {
        self.written = false;
        self.history = 0;
        self.mark.clone_from(beginning);
        self.standing = Standing::default();
    }
}

/// The durable store of a run.
#[derive(Clone, Debug)]
pub(super) struct DurableStore<C, M> {
    pub(super) counters: Counters,
    pub(super) journal: Vec<JournalEntry>,
    /// The conversation: its durable part is as long as the newest checkpoint says.
    history: Vec<HistoryEntry>,
    outcomes: Vec<(u32, Ran)>,
    /// The checkpoints that are kept, in a ring.
    slots: Vec<Slot<C, M>>,
    /// Position of the newest.
    newest: usize,
    /// Where the run began.
    beginning: M,
}

impl<C: Clone + Default, M: Clone + Default> Default for DurableStore<C, M> {
    fn default() -> Self {
        DurableStore {
            counters: Counters::default(),
            journal: Vec::new(),
            history: Vec::new(),
            outcomes: Vec::new(),
            slots: vec![Slot::default(); KEPT],
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

    /// A call has an answer.
    pub(super) fn answer(&mut self, entry: HistoryEntry) {
        self.history.push(entry);
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

    /// The slot for a checkpoint that is being written; it counts from [`DurableStore::commit`] on.
    pub(super) fn next_slot(&mut self) -> &mut Slot<C, M> {
        &mut self.slots[(self.newest + 1) % KEPT]
    }

    /// The checkpoint in [`DurableStore::next_slot`] is durable, with the conversation as it stands.
    pub(super) fn commit(&mut self) {
        self.newest = (self.newest + 1) % KEPT;
        let slot = &mut self.slots[self.newest];
        slot.history = self.history.len();
        slot.written = true;
    }

    /// Loses the newest checkpoint; false if there was none.
    pub(super) fn drop_newest(&mut self) -> bool {
        let had_one = self.slots[self.newest].written;
        if had_one {
            self.slots[self.newest].forget(&self.beginning);
            self.newest = (self.newest + KEPT - 1) % KEPT;
        }
        had_one
    }

    /// Brings the conversation back to the newest checkpoint and returns it.
    pub(super) fn restore(&mut self) -> &Slot<C, M> {
        let slot = &self.slots[self.newest];
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

    fn answered(id: u32) -> HistoryEntry {
        HistoryEntry::Answered { call: call(id) }
    }

    #[test]
    fn answers_before_a_checkpoint_within_a_batch_stay_in_the_conversation_after_a_restart() {
        let mut store = DurableStore::<(), ()>::default();
        store.clear(());
        store.propose(&[call(0), call(1), call(2)]);
        store.answer(answered(0));
        store.commit();
        store.answer(answered(1));
        store.restore();
        assert_eq!(store.durable().history[4..], [answered(0)]);
        store.answer(answered(1));
        store.answer(answered(2));
        assert_eq!(
            store.durable().history[4..],
            [answered(0), answered(1), answered(2)]
        );
    }

    #[test]
    fn each_loss_of_the_newest_checkpoint_goes_back_by_one_and_then_to_the_beginning() {
        let mut store = DurableStore::<u32, u32>::default();
        store.clear(7);
        for number in 1..=3 {
            let slot = store.next_slot();
            slot.checkpoint = number;
            slot.mark = 10 * number;
            store.commit();
        }
        for number in [3, 2, 1] {
            assert_eq!(store.restore().mark, 10 * number);
            assert_eq!(store.durable().checkpoint, Some(&number));
            assert!(store.drop_newest());
        }
        assert_eq!(store.restore().mark, 7);
        assert_eq!(store.durable().checkpoint, None);
        assert!(!store.drop_newest());
    }
}
