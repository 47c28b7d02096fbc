//! The state of a run.

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::reserve::Entered;
use super::rule::Rule;
use crate::Money;
use crate::counts::Counts;
use crate::protocol::{Call, Counters, Ending};

/// The whole state of a run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub(super) phase: Phase,
    /// Durable on their own.
    pub(super) counters: Counters,
    /// Attempts of the current step; 0 in a step that a restart took up.
    pub(super) attempt: u32,
    /// The reserve found just before the step began, kept for all its attempts (S2).
    pub(super) step_reserve: Option<Entered>,
    /// The last request carried the control.
    pub(super) announced: bool,
    /// The calls of the turn in progress, the fitted ones first.
    pub(super) calls: Vec<Call>,
    /// How many of them fit and are dispatched.
    pub(super) fitted: u32,
    /// The fitted calls wait for their results to join the conversation.
    pub(super) is_pending: bool,
    /// Why the batch in progress runs, and where it came from.
    pub(super) admission: Admission,
    pub(super) origin: Origin,
    /// Indices of the calls of the batch that came back denied.
    pub(super) denied: Vec<u32>,
    /// What the tools of the batch charged.
    pub(super) batch_cost: Money,
    pub(super) identical_calls: Counts,
    pub(super) identical_denials: Counts,
    pub(super) allowance_used: u32,
    /// The newest checkpoint.
    pub(super) version: u64,
    pub(super) full: bool,
    pub(super) watermark: i64,
    pub(super) cancel_requested: bool,
    pub(super) failure: Option<Failure>,
}

/// What the engine waits for. Each names the action that was asked for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// `Event::Start` of this process.
    Ready(Start),
    SavingSeed,
    RecordingStep,
    CallingModel,
    RecordingModel(Attempt),
    SavingResponse {
        has_calls: bool,
    },
    /// Some calls of the batch are refused, the others will run.
    RefusingCalls,
    /// All calls of the turn are refused.
    RefusingTurn,
    SavingPending,
    RunningBatch,
    RunningCall(u32),
    RecordingTools,
    SavingBatch,
    SavingRecovered,
    SavingTerminal(Ending),
    Finished(Ending),
}

/// Where a process takes up the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Start {
    /// Nothing is durable yet.
    Fresh,
    /// Between steps.
    NextStep,
    /// The checkpoint holds a fitted batch.
    PendingBatch,
    /// The conversation ends with calls that have no results (section 11.6).
    UnansweredTurn,
    /// The run had ended.
    Ended(Ending),
}

/// What an attempt brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Attempt {
    Failed(Failed),
    Empty,
    Turn { has_text: bool, cancelled: bool },
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Failed {
    Transient,
    TransientAfterOutput,
    Permanent,
    Protocol,
}

/// Why a batch may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Admission {
    /// It is outside every reserve.
    Budget,
    /// It is a crossing turn that the variant lets run.
    Crossing,
    /// It runs inside a reserve on the allowance.
    Allowance,
}

impl Admission {
    pub(super) const fn rule(self) -> Rule {
        match self {
            Admission::Budget => Rule::BatchFit,
            Admission::Crossing => Rule::CrossingTurnRun,
            Admission::Allowance => Rule::ReserveToolAllowance,
        }
    }
}

/// Where a batch came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Origin {
    /// A turn of this process.
    Turn,
    /// The pending calls of a checkpoint.
    Checkpoint,
    /// The conversation of a checkpoint.
    History,
}

impl Clone for State {
    fn clone(&self) -> State {
        let mut copy = State::new();
        copy.clone_from(self);
        copy
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &State) {
        let mut calls = std::mem::take(&mut self.calls);
        let mut denied = std::mem::take(&mut self.denied);
        let mut identical_calls = std::mem::take(&mut self.identical_calls);
        let mut identical_denials = std::mem::take(&mut self.identical_denials);
        calls.clone_from(&source.calls);
        denied.clone_from(&source.denied);
        identical_calls.clone_from(&source.identical_calls);
        identical_denials.clone_from(&source.identical_denials);
        *self = State {
            calls,
            denied,
            identical_calls,
            identical_denials,
            ..*source
        };
    }
}

impl State {
    pub(super) fn new() -> State {
        State {
            phase: Phase::Ready(Start::Fresh),
            counters: Counters::default(),
            attempt: 0,
            step_reserve: None,
            announced: false,
            calls: Vec::new(),
            fitted: 0,
            is_pending: false,
            admission: Admission::Budget,
            origin: Origin::Turn,
            denied: Vec::new(),
            batch_cost: Money::ZERO,
            identical_calls: Counts::new(),
            identical_denials: Counts::new(),
            allowance_used: 0,
            version: 0,
            full: false,
            watermark: 0,
            cancel_requested: false,
            failure: None,
        }
    }

    /// Back to [`State::new`], keeping memory.
    pub(super) fn reset(&mut self) {
        let mut calls = std::mem::take(&mut self.calls);
        let mut denied = std::mem::take(&mut self.denied);
        let mut identical_calls = std::mem::take(&mut self.identical_calls);
        let mut identical_denials = std::mem::take(&mut self.identical_denials);
        calls.clear();
        denied.clear();
        identical_calls.clear();
        identical_denials.clear();
        *self = State {
            calls,
            denied,
            identical_calls,
            identical_denials,
            ..State::new()
        };
    }

    /// How the run ends, once that is decided.
    pub(super) const fn ending(&self) -> Option<Ending> {
        match self.phase {
            Phase::SavingTerminal(ending) | Phase::Finished(ending) => Some(ending),
            _ => None,
        }
    }

    /// The calls that a checkpoint written now lists as pending.
    pub(super) fn pending(&self) -> &[Call] {
        if self.is_pending {
            &self.calls[..self.fitted as usize]
        } else {
            &[]
        }
    }
}
