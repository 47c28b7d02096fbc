//! The whole state of a run.

use serde::{Deserialize, Serialize};

use super::guards::Guards;
use super::limits::Config;
use super::usd::Account;
use crate::Money;
use crate::protocol::{Call, Counters, Ending, Limiter, Micros, Notice, Usage};

/// The whole state of a `usage_limits` run, for forks and snapshots.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub(super) phase: Phase,
    /// When this process began; `timeoutMs` counts from here.
    pub(super) started_at: Micros,
    pub(super) cancel_requested: bool,
    /// `steps` are turns, `tool_calls` executed calls, `cost` is kept for reported costs only.
    pub(super) counters: Counters,
    pub(super) account: Account,
    pub(super) seat: Seat,
    /// Number of the attempt within the turn, from 1.
    pub(super) attempt: u32,
    /// Usage and reported cost before the attempt in flight.
    pub(super) before_attempt: (Usage, Money),
    pub(super) transport_retries: u64,
    /// Turns in a row without calls.
    pub(super) no_progress: u64,
    pub(super) schema_attempts: u64,
    /// The cap on calls in force, where there is one.
    pub(super) cap: u64,
    pub(super) grants: u64,
    /// Distinct results at the last grant.
    pub(super) evidence_at_grant: u64,
    pub(super) window_entered: bool,
    pub(super) fired: Fired,
    pub(super) history: InHistory,
    pub(super) batch: Batch,
    pub(super) queue: NoticeQueue,
    pub(super) guards: Guards,
    pub(super) expiry: Option<Expiry>,
    pub(super) summary_used: bool,
    /// A journalled cap was found below the live one.
    pub(super) restored_cap_ignored: Option<u64>,
}

/// What the engine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// The start of the first process, or of one after a restart.
    Created,
    Estimating,
    Calling,
    Waiting,
    Judging,
    Running,
    /// One call of the batch gets an answer without running.
    Answering,
    /// The tail of an expired batch gets its answers.
    AnsweringTail,
    Granting(GrantSite),
    Entering(EntrySite),
    SavingMidBatch,
    Notifying,
    SavingBoundary(AfterSave),
    Finished,
}

/// Where a grant is asked for (section 6 of the semantics).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum GrantSite {
    Expiry,
    Window,
    Deficit,
}

impl GrantSite {
    /// How the journal and the decisions name the site.
    pub(super) const fn limiter(self) -> Limiter {
        match self {
            GrantSite::Expiry => Limiter::ToolCalls,
            GrantSite::Window => Limiter::Window,
            GrantSite::Deficit => Limiter::Evidence,
        }
    }
}

/// Where the window is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum EntrySite {
    Call,
    EndOfBatch,
}

/// What follows a boundary checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum AfterSave {
    Turn,
    Finish(Ending),
    /// The summary turn failed after it was made.
    FailedSummary {
        idle: bool,
    },
}

/// What kind of turn is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Seat {
    #[default]
    Planning,
    /// The one turn after an expired tool budget.
    Summary,
    /// The one turn of a child's seat that the exposure cap refuses.
    Drained,
}

/// Thresholds of the budget notice that were told, or restored as told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fired {
    pub(super) at_50: bool,
    pub(super) at_80: bool,
}

/// What is counted in results that joined the conversation, as opposed to the running batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InHistory {
    /// Evidence entries recorded.
    pub(super) recorded: u64,
    /// Error results under the terminal tool's name.
    pub(super) terminal_errors: u64,
}

/// The calls of one turn, walked in source order.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) calls: Vec<Call>,
    /// The call that is looked at.
    pub(super) at: usize,
    /// Where the last terminal call is.
    pub(super) last_terminal: Option<usize>,
    /// A terminal call was judged although a budget had expired.
    pub(super) terminal_admitted: bool,
    /// Calls executed since the last checkpoint of this batch in this process.
    pub(super) since_checkpoint: u64,
    /// What its results add to the conversation once they join it.
    pub(super) adds: InHistory,
}

impl Clone for Batch {
    fn clone(&self) -> Batch {
        let mut copy = Batch::default();
        copy.clone_from(self);
        copy
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &Batch) {
        let mut calls = std::mem::take(&mut self.calls);
        calls.clone_from(&source.calls);
        *self = Batch { calls, ..*source };
    }
}

impl Batch {
    pub(super) fn load(&mut self, calls: &[Call]) {
        self.calls.clear();
        self.calls.extend_from_slice(calls);
        self.at = 0;
        self.last_terminal = calls.iter().rposition(|call| call.terminal);
        self.terminal_admitted = false;
        self.since_checkpoint = 0;
        self.adds = InHistory::default();
    }

    pub(super) fn clear(&mut self) {
        self.load(&[]);
    }

    /// The call that is looked at, by index.
    #[inline]
    pub(super) fn index(&self) -> u32 {
        self.at as u32
    }

    /// Calls from the one looked at to the end.
    #[inline]
    pub(super) fn rest(&self) -> u32 {
        (self.calls.len() - self.at) as u32
    }
}

/// Messages that join the conversation at the next boundary: grants in their order, then the window,
/// then one more (the budget notice, or a re-prompt).
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct NoticeQueue {
    extensions: Vec<Notice>,
    sent: usize,
    window: Option<Notice>,
    last: Option<Notice>,
}

impl Clone for NoticeQueue {
    fn clone(&self) -> NoticeQueue {
        let mut copy = NoticeQueue::default();
        copy.clone_from(self);
        copy
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &NoticeQueue) {
        let mut extensions = std::mem::take(&mut self.extensions);
        extensions.clone_from(&source.extensions);
        *self = NoticeQueue {
            extensions,
            ..*source
        };
    }
}

impl NoticeQueue {
    pub(super) fn push_extension(&mut self, notice: Notice) {
        self.extensions.push(notice);
    }

    pub(super) fn set_window(&mut self, notice: Notice) {
        self.window = Some(notice);
    }

    pub(super) fn set_last(&mut self, notice: Notice) {
        self.last = Some(notice);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Notice> {
        if let Some(notice) = self.extensions.get(self.sent) {
            self.sent += 1;
            return Some(*notice);
        }
        self.extensions.clear();
        self.sent = 0;
        self.window.take().or_else(|| self.last.take())
    }

    pub(super) fn clear(&mut self) {
        self.extensions.clear();
        self.sent = 0;
        self.window = None;
        self.last = None;
    }
}

/// The tool budget that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    /// [`Limiter::ToolCalls`] or [`Limiter::ToolUnits`].
    pub limiter: Limiter,
    /// Calls executed or units spent.
    pub used: u64,
    /// The cap in force.
    pub cap: u64,
    /// Calls of the batch that were not looked at any more, the one that tripped included.
    pub skipped: u32,
}

impl Clone for State {
    fn clone(&self) -> State {
        State {
            batch: self.batch.clone(),
            queue: self.queue.clone(),
            guards: self.guards.clone(),
            ..*self
        }
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &State) {
        let mut batch = std::mem::take(&mut self.batch);
        let mut queue = std::mem::take(&mut self.queue);
        let mut guards = std::mem::take(&mut self.guards);
        batch.clone_from(&source.batch);
        queue.clone_from(&source.queue);
        guards.clone_from(&source.guards);
        *self = State {
            batch,
            queue,
            guards,
            ..*source
        };
    }
}

impl State {
    pub(super) fn new(config: &Config) -> State {
        let mut state = State {
            phase: Phase::Created,
            started_at: 0,
            cancel_requested: false,
            counters: Counters::default(),
            account: Account::default(),
            seat: Seat::Planning,
            attempt: 0,
            before_attempt: (Usage::default(), Money::ZERO),
            transport_retries: 0,
            no_progress: 0,
            schema_attempts: 0,
            cap: 0,
            grants: 0,
            evidence_at_grant: 0,
            window_entered: false,
            fired: Fired::default(),
            history: InHistory::default(),
            batch: Batch::default(),
            queue: NoticeQueue::default(),
            guards: Guards::default(),
            expiry: None,
            summary_used: false,
            restored_cap_ignored: None,
        };
        state.open(config);
        state
    }

    /// Back to the start, keeping the memory of the batch, the queue and the guards.
    pub(super) fn reset(&mut self, config: &Config) {
        let mut fresh = State {
            batch: std::mem::take(&mut self.batch),
            queue: std::mem::take(&mut self.queue),
            guards: std::mem::take(&mut self.guards),
            ..State::new(config)
        };
        fresh.batch.clear();
        fresh.queue.clear();
        fresh.guards.clear();
        *self = fresh;
    }

    fn open(&mut self, config: &Config) {
        self.account = Account::open(config.budget.map_or(0.0, |budget| budget.already_spent_usd));
        self.cap = config.max_tool_calls.unwrap_or(0);
    }

    /// Turns counted.
    #[inline]
    pub(super) fn turns(&self) -> u64 {
        self.counters.steps as u64
    }

    /// Calls executed.
    #[inline]
    pub(super) fn used(&self) -> u64 {
        self.counters.tool_calls as u64
    }

    /// Evidence entries that the contract still asks for, as the conversation shows it; 0 without a
    /// contract.
    #[inline]
    pub(super) fn deficit(&self, config: &Config) -> u64 {
        config.evidence.map_or(0, |contract| {
            contract.min_entries.saturating_sub(self.history.recorded)
        })
    }

    /// The results of the batch join the conversation.
    #[inline]
    pub(super) fn join_history(&mut self) {
        let adds = std::mem::take(&mut self.batch.adds);
        self.history.recorded += adds.recorded;
        self.history.terminal_errors += adds.terminal_errors;
    }
}
