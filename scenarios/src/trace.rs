//! Recorded runs in the neutral trace format: JSON lines, one run a line.

use std::num::NonZeroU64;

use holdback_engine::Money;

/// A recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The label of its source, a position in [`Names`].
    pub source: NameId,
    /// Its identity at the source.
    pub run_id: String,
    /// Its model calls, in order.
    pub turns: Vec<Turn>,
    /// The tool calls of all turns, in order.
    calls: Vec<Call>,
    /// Whether it ended with an answer; `None` = not recorded.
    pub final_answer: Option<bool>,
    /// How the source says it ended, a position in [`Names`].
    pub exit: Option<NameId>,
}

impl Run {
    /// The tool calls of one turn.
    pub fn calls(&self, turn: &Turn) -> &[Call] {
        &self.calls[turn.calls.0 as usize..turn.calls.1 as usize]
    }

    /// All tool calls of the run.
    pub fn all_calls(&self) -> &[Call] {
        &self.calls
    }
}

/// One recorded model call. `None` = not recorded, which is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Input tokens, cached ones included.
    pub input_tokens: Option<u64>,
    /// Output tokens, reasoning included.
    pub output_tokens: Option<u64>,
    /// Input tokens read from the cache.
    pub cached_tokens: Option<u64>,
    /// Reasoning tokens.
    pub reasoning_tokens: Option<u64>,
    /// What it cost, rounded half to even at 1e-12 USD.
    pub cost: Option<Money>,
    /// First and past-the-last call of this turn.
    calls: (u32, u32),
}

/// One recorded tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The tool's name, a position in [`Names`].
    pub tool: NameId,
    /// Identity of the arguments; `None` = not recorded.
    pub args: Option<NonZeroU64>,
    /// Identity of the result; `None` = not recorded.
    pub result: Option<NonZeroU64>,
    /// The call failed; `null` and absent mean that it succeeded.
    pub error: bool,
}

/// A name that occurs in many runs, by its position in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// The names of sources, tools and exits, each stored once, in order of appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// The text of a name.
    pub fn get(&self, id: NameId) -> &str {
        &self.0[id.0 as usize]
    }

    /// All names, in order of appearance.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}
