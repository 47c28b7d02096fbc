//! The engine: which event leads where.

use super::checkpoint::{self, Checkpoint};
use super::config::Config;
use super::failure::Failure;
use super::resume;
use super::state::{Phase, Start, State};
use crate::Money;
use crate::protocol::{
    Action, Call, CheckpointKind, Counters, Durable, Event, Limiter, LimitsEngine, Micros, Observer,
};

/// The engine of one run under `run_limits`.
#[derive(Debug)]
pub struct Engine {
    pub(super) state: State,
}

impl Clone for Engine {
    fn clone(&self) -> Engine {
        Engine {
            state: self.state.clone(),
        }
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &Engine) {
        self.state.clone_from(&source.state);
    }
}

impl Engine {
    /// What the run failed with, once it has failed.
    pub const fn failure(&self) -> Option<&Failure> {
        self.state.failure.as_ref()
    }
}

impl LimitsEngine for Engine {
    type Config = Config;
    type State = State;
    type Checkpoint = Checkpoint;

    fn new(_config: &Config) -> Engine {
        Engine {
            state: State::new(),
        }
    }

    fn resume(_config: &Config, durable: Durable<'_, Checkpoint>) -> Engine {
        Engine {
            state: resume::restore(&durable),
        }
    }

    fn reset(&mut self, _config: &Config) {
        self.state.reset();
    }

    fn advance<O: Observer>(
        &mut self,
        config: &Config,
        now: Micros,
        event: Event<'_>,
        observer: &mut O,
    ) -> Action {
        Run {
            state: &mut self.state,
            config,
            now,
            observer,
        }
        .advance(event)
    }

    fn request_cancel(&mut self) {
        self.state.cancel_requested = true;
    }

    fn calls(&self) -> &[Call] {
        &self.state.calls
    }

    fn counters(&self) -> &Counters {
        &self.state.counters
    }

    fn save(&self, _config: &Config, into: &mut Checkpoint) {
        into.write(&self.state);
    }

    fn ledger(&self, _config: &Config) -> Money {
        self.state.counters.cost
    }

    fn over_cap(&self, config: &Config) -> Option<Limiter> {
        let used = &self.state.counters;
        [
            (used.steps, config.steps, Limiter::Steps),
            (used.model_calls, config.model_calls, Limiter::ModelCalls),
            (used.tool_calls, config.tool_calls, Limiter::ToolCalls),
        ]
        .into_iter()
        .find_map(|(used, cap, limiter)| (used > cap.max(0)).then_some(limiter))
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn from_state(_config: &Config, state: State) -> Engine {
        Engine { state }
    }
}

/// One call of `advance`: the state and all that its rules may look at.
pub(super) struct Run<'a, O> {
    pub(super) state: &'a mut State,
    pub(super) config: &'a Config,
    pub(super) now: Micros,
    pub(super) observer: &'a mut O,
}

impl<O: Observer> Run<'_, O> {
    /// Most events say no more than that something is done.
    #[inline(always)]
    fn advance(&mut self, event: Event<'_>) -> Action {
        match event {
            Event::Done => self.done(),
            Event::ModelDone(turn) if self.state.phase == Phase::CallingModel => {
                self.attempt_completed(&turn)
            }
            Event::ModelFailed(fault) if self.state.phase == Phase::CallingModel => {
                self.attempt_failed(&fault)
            }
            Event::UsageReported(..) if self.state.phase == Phase::CallingModel => {
                Action::ContinueStream
            }
            Event::BatchDone(results) if self.state.phase == Phase::RunningBatch => {
                self.batch_done(results)
            }
            Event::CallDone(result) => match self.state.phase {
                Phase::RunningCall(index) => self.call_done(index, &result),
                _ => self.no_answer(event),
            },
            Event::Start => match self.state.phase {
                Phase::Ready(start) => self.start(start),
                _ => self.no_answer(event),
            },
            _ => self.no_answer(event),
        }
    }

    /// The action that was asked for last is done.
    fn done(&mut self) -> Action {
        match self.state.phase {
            Phase::SavingSeed | Phase::SavingRecovered => self.begin_step(),
            Phase::RecordingStep => self.attempt(),
            Phase::RecordingModel(attempt) => self.attempt_recorded(attempt),
            Phase::SavingResponse { has_calls: false } => self.complete(),
            Phase::SavingResponse { has_calls: true } => self.take_up_turn(),
            Phase::RefusingCalls => self.save_pending(),
            Phase::RefusingTurn => self.save(CheckpointKind::ToolCall, Phase::SavingBatch),
            Phase::SavingPending => self.dispatch(),
            Phase::RecordingTools => self.batch_recorded(),
            Phase::SavingBatch => self.batch_saved(),
            Phase::SavingTerminal(ending) => self.finish(ending),
            Phase::Ready(_)
            | Phase::CallingModel
            | Phase::RunningBatch
            | Phase::RunningCall(_)
            | Phase::Finished(_) => self.no_answer(Event::Done),
        }
    }

    /// # Panics
    /// Always: the driver has a defect.
    #[cold]
    fn no_answer(&self, event: Event<'_>) -> ! {
        panic!("the driver answered {:?} with {event:?}", self.state.phase)
    }

    fn start(&mut self, start: Start) -> Action {
        match start {
            Start::Fresh => self.save(CheckpointKind::Seed, Phase::SavingSeed),
            Start::NextStep => self.begin_step(),
            Start::PendingBatch => self.dispatch(),
            Start::UnansweredTurn => self.take_up_turn(),
            Start::Ended(ending) => self.finish(ending),
        }
    }

    /// Asks for a checkpoint of the state as it is now.
    ///
    /// The watermark marks what was recorded before the batch that is about to run, so that a
    /// resume can tell whether it was recorded; the pending checkpoint keeps it, since a batch that
    /// was rebuilt from the conversation may have been recorded before the crash.
    pub(super) fn save(&mut self, kind: CheckpointKind, phase: Phase) -> Action {
        let state = &mut *self.state;
        state.version += 1;
        state.full = checkpoint::is_full(state.version, kind);
        if !matches!(kind, CheckpointKind::ToolPending | CheckpointKind::Terminal) {
            state.watermark = state.counters.tool_calls;
        }
        state.phase = phase;
        Action::Save(kind)
    }
}
