//! What can be watched of a run from outside.

use holdback_engine::Money;
use holdback_engine::protocol::{Action, Call, Counters, Micros, ModelRequest, Observer};

use crate::world::{Ran, Reply};

/// The books of a run when the engine asks for an action.
#[derive(Clone, Copy, Debug)]
pub struct Books<'e> {
    /// What provider and tools have charged so far.
    pub billed: Money,
    /// What the engine has recorded so far.
    pub ledger: Money,
    /// The counters that the engine makes durable on their own.
    pub counters: &'e Counters,
}

/// How a process took up a run after a kill.
#[derive(Clone, Copy, Debug)]
pub struct Resumption<'e> {
    /// A checkpoint was found; without one the run starts from the beginning.
    pub from_checkpoint: bool,
    /// The newest durable item was lost with the process.
    pub tail_lost: bool,
    /// Time from the kill to the restart.
    pub downtime: Micros,
    /// The batch that is taken up again, if there is one: indices in decisions refer to it.
    pub calls: &'e [Call],
}

/// Watches a run from outside. The unit witness costs nothing.
#[allow(unused_variables)]
pub trait Witness: Observer {
    /// The engine asked for an action.
    fn acted(&mut self, now: Micros, action: &Action, books: &Books<'_>) {}
    /// The next request was estimated to have this many tokens.
    fn estimated(&mut self, tokens: f64) {}
    /// A request was answered; the calls are those that the turn proposes, and indices in decisions
    /// refer to them from now on.
    fn replied(&mut self, now: Micros, request: &ModelRequest, reply: &Reply, calls: &[Call]) {}
    /// A call ran; `recovered` if its stored outcome was used.
    fn ran(&mut self, now: Micros, call: &Call, ran: &Ran, recovered: bool) {}
    /// The process died.
    fn killed(&mut self, now: Micros) {}
    /// The process was restarted.
    fn resumed(&mut self, now: Micros, resumption: &Resumption<'_>) {}
}

impl Witness for () {}
