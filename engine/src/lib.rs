//! The limits engine of Holdback: the rules that end an agent's run, as a pure state machine.
//!
//! See [`protocol`] for how a driver and an engine talk.
#![warn(missing_docs)]

pub mod caps;
pub mod counts;
pub mod decimal;
pub mod money;
pub mod protocol;
pub mod run_limits;
pub mod signature;
pub mod usage_limits;

pub use money::{Money, MoneyError};
