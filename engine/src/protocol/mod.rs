//! The driver protocol that all policy families share.
//!
//! The engine is sans-IO: it never calls a model or a tool and never reads a clock. A *driver* (the
//! simulator, the conformance runner, somebody's production runtime) asks it what to do, does it,
//! and reports what happened:
//!
//! ```text
//!            now, Event::Start
//!   driver ------------------------> engine
//!          <------------------------          Action::CallModel(..)
//!   (calls the model)
//!            now, Event::ModelDone(..)
//!          ------------------------>
//!          <------------------------          Action::Record(..)      make the counters durable
//!            now, Event::Done
//!          ------------------------>
//!          <------------------------          Action::Save(..)        write a checkpoint
//!            ...                              ...
//!          <------------------------          Action::Finish(..)      the run is over
//! ```
//!
//! Every action is answered by exactly one event. A process may die between any two of them; what
//! the driver must keep through that is in [`Durable`], and [`LimitsEngine::resume`] starts the next
//! process from it. Time is passed in with every event as whole microseconds.
//!
//! Each decision that the engine takes is told to an [`Observer`] with the rule, the limiter and the
//! numbers compared; the unit observer `()` costs nothing.

mod action;
mod call;
mod decision;
mod durable;
mod event;
mod thresholds;

pub use action::{
    Action, CheckpointKind, Counted, Ending, Instruction, JournalEntry, ModelRequest, Notice,
    Output, Reason, Status, Tools,
};
pub use call::{Call, CallResult, CallStatus, Digest, Signature, ToolId};
pub use decision::{Decision, Limiter, Observer, Quantity, Rule, Verdict};
pub use durable::{Counters, Durable, HistoryEntry};
pub use event::{Event, Fault, FaultKind, Finish, ModelTurn, Text, Usage};
pub use thresholds::Thresholds;

use crate::Money;

/// Microseconds on the driver's clock. Only differences and comparisons matter, so any origin will
/// do as long as it stays the same for a run (restarts included).
pub type Micros = i64;

/// One policy family's engine, as a driver sees it.
///
/// Implementations are deterministic: the same configuration and the same events give the same
/// actions. `Clone` forks a run at any point; `Serialize`/`Deserialize` of [`LimitsEngine::State`]
/// carry the whole state through bytes. What *survives a crash* is the smaller
/// [`LimitsEngine::Checkpoint`], with all the losses that the reference engines have.
pub trait LimitsEngine: Clone {
    /// The compiled limits and rules, shared by all runs of a policy.
    type Config: Thresholds;
    /// The whole state of a run.
    type State: Clone + PartialEq + serde::Serialize + serde::de::DeserializeOwned;
    /// What a checkpoint of this family holds, and nothing else.
    type Checkpoint: Clone + Default + serde::Serialize + serde::de::DeserializeOwned;

    /// A run that has not started. Its first event is [`Event::Start`].
    fn new(config: &Self::Config) -> Self;

    /// A run restarted from what survived a crash, in a new process. Its first event is
    /// [`Event::Start`].
    fn resume(config: &Self::Config, durable: Durable<'_, Self::Checkpoint>) -> Self;

    /// Goes back to the state of [`LimitsEngine::new`], keeping allocated memory.
    fn reset(&mut self, config: &Self::Config);

    /// Reports what happened since the last action and asks for the next one.
    ///
    /// # Panics
    /// If the event does not answer the last action: that is a defect of the driver.
    fn advance<O: Observer>(
        &mut self,
        config: &Self::Config,
        now: Micros,
        event: Event<'_>,
        observer: &mut O,
    ) -> Action;

    /// Asks for cancellation; the engine ends the run at the next place where its family looks.
    fn request_cancel(&mut self);

    /// The calls of the batch in progress; indices in actions and decisions refer to it.
    fn calls(&self) -> &[Call];

    /// The counters that [`Action::Record`] makes durable.
    fn counters(&self) -> &Counters;

    /// Writes what a checkpoint written now would hold, reusing the memory of `into`.
    fn save(&self, config: &Self::Config, into: &mut Self::Checkpoint);

    /// What the engine's own ledger has recorded as spent so far, without what the account had
    /// spent before the run.
    fn ledger(&self, config: &Self::Config) -> Money;

    /// The limiter whose counter has passed the cap in force by more than its family's rules allow,
    /// which within one process life is a defect of the engine. Looks at nothing but counters, so a
    /// driver can afford to ask it of every run.
    fn over_cap(&self, config: &Self::Config) -> Option<Limiter>;

    /// The whole state, for forks, snapshots and tests.
    fn state(&self) -> &Self::State;

    /// The inverse of [`LimitsEngine::state`].
    fn from_state(config: &Self::Config, state: Self::State) -> Self;
}
