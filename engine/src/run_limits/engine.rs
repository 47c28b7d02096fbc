//! The engine: which event leads where.

use super::checkpoint::{self, Checkpoint};
use super::config::Config;
use super::failure::Failure;
use super::resume;
use super::state::{Phase, Start, State};
use crate::Money;
use crate::protocol::{
    Action, Call, CheckpointKind, Counters, Durable, Event, LimitsEngine, Micros, Observer,
};

/// The engine of one run under `run_limits`.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) state: State,
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
        let mut run = Run {
            state: &mut self.state,
            config,
            now,
            observer,
        };
        run.advance(event)
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
    fn advance(&mut self, event: Event<'_>) -> Action {
        match (self.state.phase, event) {
            (Phase::Ready(start), Event::Start) => self.start(start),
            (Phase::SavingSeed | Phase::SavingRecovered, Event::Done) => self.begin_step(),
            (Phase::RecordingStep, Event::Done) => self.attempt(),
            (Phase::CallingModel, Event::UsageReported(..)) => Action::ContinueStream,
            (Phase::CallingModel, Event::ModelDone(turn)) => self.attempt_completed(&turn),
            (Phase::CallingModel, Event::ModelFailed(fault)) => self.attempt_failed(&fault),
            (Phase::RecordingModel(attempt), Event::Done) => self.attempt_recorded(attempt),
            (Phase::SavingResponse { has_calls: false }, Event::Done) => self.complete(),
            (Phase::SavingResponse { has_calls: true }, Event::Done) => self.take_up_turn(),
            (Phase::RefusingCalls, Event::Done) => self.save_pending(),
            (Phase::RefusingTurn, Event::Done) => {
                self.save(CheckpointKind::ToolCall, Phase::SavingBatch)
            }
            (Phase::SavingPending, Event::Done) => self.dispatch(),
            (Phase::RunningBatch, Event::BatchDone(results)) => self.batch_done(results),
            (Phase::RunningCall(index), Event::CallDone(result)) => self.call_done(index, &result),
            (Phase::RecordingTools, Event::Done) => self.batch_recorded(),
            (Phase::SavingBatch, Event::Done) => self.batch_saved(),
            (Phase::SavingTerminal(ending), Event::Done) => self.finish(ending),
            (phase, event) => panic!("driver answered {phase:?} with {event:?}"),
        }
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
