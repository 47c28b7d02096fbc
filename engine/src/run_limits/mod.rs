//! ADR-0078 as amended by ADR-0115: steps, model calls, tool calls, tokens, money and time, with
//! synthesis reserves.
//!
//! Section numbers in this module are those of the description of the reference loop that the
//! recorded vectors come with; the vectors, not the ADRs, decide where the two differ:
//!
//! - The control that asks for the final answer is in a request when the reserve was entered
//!   *before* it. Model calls and money change between the request and the check of the turn, so a
//!   turn that enters their reserve by its own usage fails unannounced ([`CrossingTurn`]; vectors
//!   rl-03392, rl-01447 and rl-03204, which is the interactive defaults).
//! - One positive reserve makes the comparisons of all other dimensions active with their zero
//!   (rl-04010).
//! - A call that crosses the money cap fails the run even when it brought the answer
//!   ([`AnswerOverCap`]; rl-02662), and outranks the error that it brought (rl-01711).
//!
//! Not modelled: suspension (approvals, questions, child runs leave the loop with their batch
//! pending) and repeated call ids (a driver numbers its calls itself).
//!
//! After a crash between the response of a tool turn and its pending batch, the recorded snapshot of
//! the reference could not go on. This engine does what the later reference does: it rebuilds the
//! batch from the conversation and continues ([`Engine`], section 11.6).
//!
//! One step is in `step`, its attempts in `attempt`, its batch in `dispatch`; what a new process does
//! first is in `resume`, how a run ends in `ending`.

mod attempt;
mod cause;
mod check;
mod checkpoint;
mod config;
mod delegation;
mod dispatch;
mod ending;
mod engine;
mod failure;
mod limits;
mod reading;
mod reserve;
mod resume;
mod rule;
mod rules;
mod state;
mod step;
mod thresholds;
mod validation;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod variant_tests;

pub use checkpoint::Checkpoint;
pub use config::{Config, Reserves};
pub use delegation::{
    Brief, BriefDefaults, Child, ChildReserves, Insufficient, Parent, derive_children,
};
pub use engine::Engine;
pub use failure::{ErrorClass, Failure};
pub use limits::{Declared, Field, Limits, LimitsOf, UNLIMITED};
pub use reading::{ReadError, read};
pub use rule::Rule;
pub use rules::{AnswerOverCap, CrossingTurn, Fraction, FractionError, Rules};
pub use state::State;
pub use validation::{Invalid, Problem, check};
