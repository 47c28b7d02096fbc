//! The limits that are only compared, and the comparisons as an observer hears of them.
//!
//! The caps on calls and units and the money are not among them: their values join the state and the
//! messages, so configurations that differ there have nothing in common.

use super::limits::Config;
use super::machine::Machine;
use crate::protocol::{Observer, Thresholds};

/// The places in [`Thresholds::thresholds`].
#[derive(Clone, Copy)]
#[repr(usize)]
pub(super) enum Threshold {
    Timeout,
    MaxTurns,
    /// Turns used at which no more than their reserve are left.
    TurnsOutside,
    /// `finalizationWindow.reserveCalls`.
    WindowCalls,
    MaxSignature,
    MaxStale,
    NoProgressTurns,
    CheckpointEvery,
}

impl Thresholds for Config {
    /// In the order of [`Threshold`].
    fn thresholds(&self) -> Vec<i128> {
        let count = |limit: Option<u64>| limit.map_or(i128::MAX, i128::from);
        vec![
            self.timeout.map_or(i128::MAX, i128::from),
            self.max_turns.into(),
            self.reserve_turns.map_or(i128::MAX, |reserve| {
                i128::from(self.max_turns.saturating_sub(reserve))
            }),
            count(self.window.map(|window| window.calls)),
            count(self.max_signature),
            count(self.max_stale),
            self.no_progress_turns.into(),
            count(self.checkpoint_every),
        ]
    }

    fn differs_in_thresholds_only(&self, other: &Config) -> bool {
        let mut like = self.clone();
        like.max_turns = other.max_turns;
        like.no_progress_turns = other.no_progress_turns;
        take_value(&mut like.timeout, other.timeout);
        take_value(&mut like.reserve_turns, other.reserve_turns);
        take_value(&mut like.max_signature, other.max_signature);
        take_value(&mut like.max_stale, other.max_stale);
        take_value(&mut like.checkpoint_every, other.checkpoint_every);
        if let (Some(mine), Some(theirs)) = (&mut like.window, &other.window) {
            mine.calls = theirs.calls;
        }
        like == *other
    }
}

/// A limit that exists on one side only stays a difference.
fn take_value<T>(mine: &mut Option<T>, theirs: Option<T>) {
    if let (Some(mine), Some(theirs)) = (mine, theirs) {
        *mine = theirs;
    }
}

impl<O: Observer> Machine<'_, O> {
    #[inline]
    pub(super) fn compared(&self, threshold: Threshold, used: impl Into<i128>) {
        self.observer.compared(threshold as usize, used.into());
    }

    /// Going by the value of a limit, and not only by a comparison with it.
    #[inline]
    pub(super) fn read(&self, threshold: Threshold) {
        self.observer.read(threshold as usize);
    }
}
