//! Plain caps as mainstream frameworks ship them: count, compare, and stop one way or another.
//!
//! [`Limits`] is the object that a user writes, [`Config`] its validated form, [`Engine`] the state
//! machine, [`presets`] the settings under which it behaves as a named framework does.
//!
//! # When a cap is exhausted
//! A cap of n permits n; it is *exhausted* when something would go past it:
//!
//! | cap | compared | exhausted when |
//! |---|---|---|
//! | `max_time_s` | before every request | elapsed >= cap; nothing in flight is cut |
//! | `max_turns` | before a turn's first request (`model`, `supersteps`) and before its tools run (`tool_turns`, `supersteps`) | used >= cap |
//! | `max_model_calls` | before every request, retries included | used >= cap |
//! | `max_cost_usd`, `max_*_tokens` | [`Check`]: before a request, after it, or both | spent >= cap before, spent > cap after |
//! | `max_tool_calls`, `max_calls_per_tool` | when a batch is proposed ([`Batch`]) | executed + proposed > cap |
//!
//! Before a request they are compared in that order and the first that is exhausted decides, except
//! that one which ends the run goes before one which grants a final turn. A call that the permission
//! policy denies does not count as a tool call; one that runs and fails does.
//!
//! # What then happens
//! [`OnExhausted`] says, and documents every combination. A turn without tool calls ends the run by
//! itself ([`Status::Completed`](crate::protocol::Status::Completed)) whatever its text: whether a
//! blank or cut text is an answer is for the reader of the run to judge. [`CutTurn`] and
//! [`BlankAnswer`] change that.

mod batch;
mod config;
mod dimension;
mod engine;
mod limits;
pub mod presets;
mod rule;
mod state;
#[cfg(test)]
mod tests;

pub use config::{Config, InvalidLimits};
pub use dimension::Dimension;
pub use engine::Engine;
pub use limits::{
    Batch, BlankAnswer, ByDimension, Check, CountTurns, CutTurn, Durability, Limit, Limits,
    OnExhausted, Seconds,
};
pub use rule::Rule;
pub use state::{Checkpoint, State};
