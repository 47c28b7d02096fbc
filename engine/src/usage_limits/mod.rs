//! The UsageLimits vocabulary of Rulvar with its USD ceiling.
//!
//! Semantics as recorded from `@rulvar/core` 1.248.0: turns, executed calls and weighted units, each
//! decided call by call; notices, grants, a finalization window, a summary turn after an expired
//! tool budget; an evidence contract and a terminal tool; a USD ceiling with an output clamp.
//!
//! - [`limits`]: the limits, the settings around them, the compiled form; [`merge`] and
//!   [`validate`] for the layers
//! - `turn`, `attempt`, `call`, `boundary`, `closing`: the loop, from the turn down to one call
//! - `window`, `grant`, `guards`, `usd`: what the decisions are made on
//! - `checkpoint`, `resume`: what survives a restart

mod attempt;
mod boundary;
mod call;
mod checkpoint;
mod closing;
mod grant;
mod guards;
pub mod limits;
mod machine;
mod merge;
mod report;
mod resume;
mod rule;
mod state;
#[cfg(test)]
mod tests;
mod thresholds;
mod turn;
mod usd;
mod validate;
mod window;

pub use checkpoint::Checkpoint;
pub use guards::Exploration;
pub use limits::{Config, DEFAULT_NO_PROGRESS_TURNS, Settings, UsageLimits};
pub use merge::{DEFAULT_MAX_TURNS, DEFAULT_STREAM_IDLE_TIMEOUT_MS, merge};
pub use report::Report;
pub use rule::Rule;
pub use state::{Expiry, State};
pub use usd::{PriceSource, Prices};
pub use validate::{Invalid, validate};

use machine::Machine;
use state::{AfterSave, Phase};

use crate::Money;
use crate::protocol::{
    Action, Call, Counters, Durable, Event, Limiter, LimitsEngine, Micros, Observer,
};

/// The engine of `usage_limits`.
#[derive(Debug)]
pub struct Engine {
    state: State,
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
    /// The counters of the run as the reference reports them.
    pub fn report(&self, config: &Config) -> Report<'_> {
        self.state.report(config)
    }
}

impl LimitsEngine for Engine {
    type Config = Config;
    type State = State;
    type Checkpoint = Checkpoint;

    fn new(config: &Config) -> Engine {
        Engine {
            state: State::new(config),
        }
    }

    fn resume(config: &Config, durable: Durable<'_, Checkpoint>) -> Engine {
        Engine {
            state: resume::restore(config, &durable),
        }
    }

    fn reset(&mut self, config: &Config) {
        self.state.reset(config);
    }

    fn advance<O: Observer>(
        &mut self,
        config: &Config,
        now: Micros,
        event: Event<'_>,
        observer: &mut O,
    ) -> Action {
        let mut machine = Machine {
            state: &mut self.state,
            config,
            now,
            observer,
        };
        machine.advance(&event)
    }

    fn request_cancel(&mut self) {
        self.state.cancel_requested = true;
    }

    fn calls(&self) -> &[Call] {
        &self.state.batch.calls
    }

    fn counters(&self) -> &Counters {
        &self.state.counters
    }

    fn save(&self, _config: &Config, into: &mut Checkpoint) {
        self.state.save(into);
    }

    fn ledger(&self, config: &Config) -> Money {
        match config.budget.map(|budget| budget.prices) {
            Some(PriceSource::AsReported) => self.state.counters.cost,
            _ => Money::from_f64_rounded(self.state.account.cost()).unwrap_or(Money::MAX),
        }
    }

    fn over_cap(&self, config: &Config) -> Option<Limiter> {
        let repair_turns = config
            .terminal_tool
            .map_or(0, |terminal| terminal.repair_turn_reserve);
        // The one turn more is the summary after an expired budget.
        let turns = config
            .max_turns
            .saturating_add(repair_turns)
            .saturating_add(1);
        if self.state.turns() > turns {
            return Some(Limiter::Turns);
        }
        (config.max_tool_calls.is_some() && self.state.used() > self.state.cap)
            .then_some(Limiter::ToolCalls)
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn from_state(_config: &Config, state: State) -> Engine {
        Engine { state }
    }
}

impl<O: Observer> Machine<'_, O> {
    fn advance(&mut self, event: &Event<'_>) -> Action {
        match (&self.state.phase, event) {
            (Phase::Created, Event::Start) => self.start(),
            (Phase::Estimating, Event::PromptEstimated(tokens)) => self.dispatch(*tokens),
            (Phase::Calling, Event::UsageReported(usage, cost)) => {
                self.usage_reported(usage, *cost)
            }
            (Phase::Calling, Event::ModelDone(turn)) => self.model_done(turn),
            (Phase::Calling, Event::ModelFailed(fault)) => self.model_failed(fault),
            (Phase::Waiting, Event::Done) => self.retry(),
            (Phase::Running, Event::CallDone(result)) => self.call_done(result),
            (Phase::Judging, Event::TerminalJudged(accepted)) => self.terminal_judged(*accepted),
            (Phase::Answering, Event::Done) => self.walk_on(),
            (Phase::AnsweringTail, Event::Done) => self.begin_summary(),
            (Phase::Granting(site), Event::Done) => self.granted(*site),
            (Phase::Entering(site), Event::Done) => self.window_entered(*site),
            (Phase::SavingMidBatch, Event::Done) => self.next_call(),
            (Phase::Notifying, Event::Done) => self.notify_and_save(),
            (Phase::SavingBoundary(then), Event::Done) => match *then {
                AfterSave::Turn => self.next_turn(),
                AfterSave::Finish(ending) => self.finish(ending),
                AfterSave::FailedSummary { idle } => self.failed_summary_saved(idle),
            },
            (phase, event) => panic!("the driver answered {phase:?} with {event:?}"),
        }
    }
}
