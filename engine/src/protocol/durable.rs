//! What survives a crash.

use serde::{Deserialize, Serialize};

use super::{Call, CallResult, JournalEntry, Usage};
use crate::Money;

/// Counters that are durable on their own, apart from checkpoints (`run_limits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Steps begun.
    pub steps: i64,
    /// Model calls recorded.
    pub model_calls: i64,
    /// Tool calls recorded.
    pub tool_calls: i64,
    /// Tokens recorded.
    pub usage: Usage,
    /// Money recorded.
    pub cost: Money,
}

/// Everything that a resume may look at.
#[derive(Debug)]
pub struct Durable<'a, C> {
    /// The newest checkpoint that was written, if any.
    pub checkpoint: Option<&'a C>,
    /// The counters of the last `Record` (`run_limits`; others keep theirs in the checkpoint).
    pub counters: &'a Counters,
    /// The decisions that were journalled, oldest first (`usage_limits`).
    pub journal: &'a [JournalEntry],
    /// The conversation as the newest checkpoint holds it, oldest first. Answers of a batch that the
    /// checkpoint interrupts are no part of it yet; where they are given, they follow the last
    /// [`HistoryEntry::Turn`].
    pub history: &'a [HistoryEntry],
}

/// One item of the conversation, reduced to what a resume looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryEntry {
    /// A tool call that the model proposed; calls of one turn follow each other.
    Proposed(Call),
    /// A result that joined the conversation. An accepted terminal call is one as well.
    Result {
        /// The call that it answers.
        call: Call,
        /// What came back.
        result: CallResult,
    },
    /// An error result put there by the engine or the host (refused, denied, skipped, rejected).
    Answered {
        /// The call that it answers.
        call: Call,
    },
    /// A turn of the model begins.
    Turn,
}
