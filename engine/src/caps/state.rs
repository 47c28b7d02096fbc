//! What a run under caps remembers.

use serde::{Deserialize, Serialize};

use super::{CountTurns, Dimension};
use crate::Money;
use crate::protocol::{Call, CallStatus, Counters, Micros, Text, ToolId, Usage};

/// What is durable after each completed turn: counters, the clock's origin, and whether the next
/// turn is the closing one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Model turns (as steps), requests, tool calls, tokens and money so far.
    pub counters: Counters,
    /// Turns with calls that no cap refused.
    pub tool_turns: u64,
    /// Calls that ran, by tool number.
    pub calls_of_tool: Vec<u64>,
    /// When the run first started.
    pub started_at: Option<Micros>,
    /// The cap for which the next turn is the closing one.
    pub closing: Option<Dimension>,
    /// Where the last text that was not blank is.
    pub text: LastText,
}

/// Where the last text that was not blank is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LastText {
    /// There is none.
    #[default]
    None,
    /// In the last turn.
    Latest,
    /// In an earlier one.
    Earlier,
}

/// The whole state of a run.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(super) progress: Checkpoint,
    pub(super) phase: Phase,
    /// Attempt of the turn in progress, from 1.
    pub(super) attempt: u32,
    pub(super) cancelled: bool,
    /// The batch in progress and what is to happen to each of its calls.
    pub(super) calls: Vec<Call>,
    pub(super) fates: Vec<Fate>,
    /// The cap that the batch in progress crosses, if one.
    pub(super) crossed: Option<Dimension>,
}

/// What the engine waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// The start.
    #[default]
    Ready,
    /// The model.
    Calling,
    /// The end of a pause before a retry.
    Waiting,
    /// The call of this index.
    Running(u32),
    /// Error results for the calls before this index.
    Answering(u32),
    /// A checkpoint.
    Saving,
    /// Nothing: the run is over.
    Finished,
}

/// What is to happen to a proposed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fate {
    /// It runs.
    Run,
    /// It gets an error result, because of this cap.
    Refused(Dimension),
}

impl Clone for State {
    fn clone(&self) -> State {
        let mut copy = State::default();
        copy.clone_from(self);
        copy
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &State) {
        let State {
            progress,
            phase,
            attempt,
            cancelled,
            calls,
            fates,
            crossed,
        } = source;
        self.progress.copy_from(progress);
        self.phase = *phase;
        self.attempt = *attempt;
        self.cancelled = *cancelled;
        self.calls.clone_from(calls);
        self.fates.clone_from(fates);
        self.crossed = *crossed;
    }
}

impl State {
    /// Back to the beginning, keeping memory.
    pub(super) fn reset(&mut self) {
        self.progress.restart();
        self.phase = Phase::Ready;
        self.attempt = 0;
        self.cancelled = false;
        self.calls.clear();
        self.fates.clear();
        self.crossed = None;
    }
}

impl Checkpoint {
    fn restart(&mut self) {
        self.calls_of_tool.clear();
        self.copy_scalars(&Checkpoint::default());
    }

    /// Overwrites this with `other`, keeping memory.
    pub(super) fn copy_from(&mut self, other: &Checkpoint) {
        self.calls_of_tool.clone_from(&other.calls_of_tool);
        self.copy_scalars(other);
    }

    fn copy_scalars(&mut self, other: &Checkpoint) {
        self.counters = other.counters;
        self.tool_turns = other.tool_turns;
        self.started_at = other.started_at;
        self.closing = other.closing;
        self.text = other.text;
    }

    /// What is used of a dimension at `now`: a count, picodollars or microseconds.
    pub(super) fn used(&self, dimension: Dimension, count: CountTurns, now: Micros) -> i128 {
        let counters = &self.counters;
        match dimension {
            Dimension::Time => match self.started_at {
                Some(start) => i128::from(now) - i128::from(start),
                None => 0,
            },
            Dimension::Turns => match count {
                CountTurns::Model => i128::from(counters.steps),
                CountTurns::ToolTurns => i128::from(self.tool_turns),
                CountTurns::Supersteps => i128::from(counters.steps) + i128::from(self.tool_turns),
            },
            Dimension::ModelCalls => i128::from(counters.model_calls),
            Dimension::Cost => counters.cost.picos(),
            Dimension::InputTokens => i128::from(counters.usage.input),
            Dimension::OutputTokens => i128::from(counters.usage.output),
            Dimension::TotalTokens => {
                i128::from(counters.usage.input) + i128::from(counters.usage.output)
            }
            Dimension::ToolCalls | Dimension::CallsPerTool => i128::from(counters.tool_calls),
        }
    }

    /// Calls of one tool that ran.
    pub(super) fn calls_of(&self, tool: ToolId) -> u64 {
        self.calls_of_tool
            .get(usize::from(tool.0))
            .copied()
            .unwrap_or(0)
    }

    /// Counts a request and what it used.
    pub(super) fn count_request(&mut self, usage: Usage, cost: Money) {
        let total = &mut self.counters.usage;
        self.counters.model_calls += 1;
        total.input = total.input.saturating_add(usage.input);
        total.cached = total.cached.saturating_add(usage.cached);
        total.cache_write = total.cache_write.saturating_add(usage.cache_write);
        total.output = total.output.saturating_add(usage.output);
        if let Some(reasoning) = usage.reasoning {
            total.reasoning = Some(total.reasoning.unwrap_or(0).saturating_add(reasoning));
        }
        self.counters.cost = self.counters.cost.saturating_add(cost);
    }

    /// Counts a completed turn of the model with this text.
    pub(super) fn count_turn(&mut self, text: Text) {
        self.counters.steps += 1;
        self.text = match (text, self.text) {
            (Text::Content, _) => LastText::Latest,
            (_, LastText::None) => LastText::None,
            (_, LastText::Latest | LastText::Earlier) => LastText::Earlier,
        };
    }

    /// Counts a call that was run, unless the permission policy denied it.
    pub(super) fn count_call(&mut self, tool: ToolId, status: CallStatus, cost: Money) {
        if status == CallStatus::Denied {
            return;
        }
        let at = usize::from(tool.0);
        if self.calls_of_tool.len() <= at {
            self.calls_of_tool.resize(at + 1, 0);
        }
        self.calls_of_tool[at] += 1;
        self.counters.tool_calls += 1;
        self.counters.cost = self.counters.cost.saturating_add(cost);
    }
}
