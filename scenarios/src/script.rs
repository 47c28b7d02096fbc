//! A fixed course of model turns, for incidents and tests.

use holdback_engine::Money;
use holdback_engine::protocol::Micros;

/// What the model does, request by request.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The distinct turns.
    turns: Vec<ScriptTurn>,
    /// Which turn answers the n-th model request (from 0), `times` written out.
    order: Vec<u32>,
    /// What an obeying model does, in order, once it is told to finish. Empty: one answer at the
    /// cost of the scripted turn of that position.
    pub closing: Vec<ScriptTurn>,
    /// What happens past the end of the script.
    pub on_end: OnEnd,
}

impl Script {
    /// A script of turns that each repeat a number of times.
    pub fn new(turns: Vec<(ScriptTurn, u32)>, closing: Vec<ScriptTurn>, on_end: OnEnd) -> Script {
        let order = (0_u32..)
            .zip(&turns)
            .flat_map(|(index, (_, times))| (0..*times).map(move |_| index))
            .collect();
        Script {
            turns: turns.into_iter().map(|(turn, _)| turn).collect(),
            order,
            closing,
            on_end,
        }
    }

    /// How many model requests the script covers.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True for a script without any turn.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The turn that answers the model request `position` (from 0, retries included).
    pub fn turn(&self, position: usize) -> Option<&ScriptTurn> {
        self.order.get(position).map(|at| &self.turns[*at as usize])
    }

    /// The last turn of the script, which `hungry` and `repeat` go on with.
    pub fn last(&self) -> Option<&ScriptTurn> {
        self.order.last().map(|at| &self.turns[*at as usize])
    }

    /// The last turn of the script that proposes calls.
    pub fn last_with_calls(&self) -> Option<&ScriptTurn> {
        let calls = |turn: &&ScriptTurn| matches!(turn.act, Act::Calls { .. });
        self.order
            .iter()
            .rev()
            .map(|at| &self.turns[*at as usize])
            .find(calls)
    }
}

/// What happens past the end of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnEnd {
    /// The model answers.
    #[default]
    Answer,
    /// The last turn's calls, with fresh arguments.
    Hungry,
    /// The last turn's calls, with the same arguments.
    Repeat,
    /// No text and no calls.
    Stop,
}

/// One scripted turn.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptTurn {
    /// What the model does.
    pub act: Act,
    /// What it is billed.
    pub bill: Bill,
    /// How long the request takes.
    pub latency: Micros,
}

/// What the model does in a scripted turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Proposes calls, perhaps with text beside them.
    Calls {
        /// The calls, in order; at least one.
        calls: Vec<ScriptCall>,
        /// Text beside them.
        text: Option<String>,
    },
    /// Answers (through the terminal tool where the policy has one).
    Answer(String),
    /// Writes text without calls and without meaning it as the terminal answer; ends the run as an
    /// answer where no terminal tool is asked for.
    Say(String),
    /// The request fails, or its turn is empty or cut.
    Fault {
        /// How.
        fault: ScriptFault,
        /// Text that a truncated turn holds.
        text: Option<String>,
    },
}

/// The faults that can be scripted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptFault {
    /// An error worth a retry, before any output.
    Transient,
    /// An error worth a retry, after some output.
    TransientAfterOutput,
    /// An error that no retry mends.
    Permanent,
    /// An answer that breaks the protocol.
    Protocol,
    /// The provider refuses for now.
    RateLimit,
    /// A success without text and calls.
    Empty,
    /// The stream falls silent.
    Stall,
    /// A turn cut at its output cap.
    Truncated,
}

/// What a scripted turn is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bill {
    /// Nothing was given: nothing is billed.
    Nothing,
    /// This amount, without any tokens unless given beside it.
    Cost {
        /// The amount.
        cost: Money,
        /// Tokens to record beside it.
        tokens: Tokens,
    },
    /// Tokens at the model's price, used as given.
    Tokens(Tokens),
}

/// Token counts of a scripted turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input, cached and written tokens included.
    pub input: u64,
    /// Input read from the cache.
    pub cached: u64,
    /// Input written to the cache.
    pub cache_write: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Reasoning; `None` = not told.
    pub reasoning: Option<u64>,
}

/// One scripted call.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptCall {
    /// Name of the tool.
    pub tool: String,
    /// What the call's identity is made of.
    pub args: Args,
    /// The result value, from which its digest is made; fresh if `None`.
    pub result: Option<serde_json::Value>,
    /// Names the content of the result: equal names are equal content, whatever `result` says.
    pub content: Option<String>,
    /// The call fails.
    pub error: bool,
    /// The permission policy denies it.
    pub denied: bool,
    /// How long the call takes; the tool's own latency if `None`.
    pub latency: Option<Micros>,
}

/// The arguments of a scripted call.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Args {
    /// Like no other call's, each time the turn is played.
    #[default]
    Fresh,
    /// These.
    Given {
        /// The parsed arguments; `None` where the raw text is no JSON.
        value: Option<serde_json::Value>,
        /// The text exactly as the model wrote it.
        raw: String,
    },
}
