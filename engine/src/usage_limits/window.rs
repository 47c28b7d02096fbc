//! The finalization window: which dimension binds, and the entry (section 7 of the semantics).

use super::limits::Config;
use super::machine::{Because, Machine};
use super::rule::Rule;
use super::state::{EntrySite, Phase, State};
use crate::protocol::{Action, JournalEntry, Limiter, Notice, Observer, Verdict};

/// The dimension that holds the window open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    /// [`Limiter::ToolCalls`], [`Limiter::ToolUnits`] or [`Limiter::Turns`].
    pub(super) dimension: Limiter,
    pub(super) remaining: u64,
    pub(super) reserve: u64,
    /// Deficit and minimum of the evidence contract, where the reserve looks at them.
    pub(super) widened: Option<(u64, u64)>,
}

impl Binding {
    pub(super) fn because(&self, rule: Rule) -> Because {
        Because::counts(self.dimension, rule, self.remaining, self.reserve)
    }
}

/// The binding dimension if the window is open now. Ties go to calls over units and to either of
/// them over turns; only the tighter budget dimension is compared with the reserve.
pub(super) fn binding(config: &Config, state: &State) -> Option<Binding> {
    let budget = budget_dimension(config, state);
    let turns = turns_dimension(config, state);
    match (budget, turns) {
        (Some(budget), Some(turns)) if turns.remaining < budget.remaining => Some(turns),
        (None, turns) => turns,
        (budget, _) => budget,
    }
}

fn budget_dimension(config: &Config, state: &State) -> Option<Binding> {
    let window = config.window?;
    let calls = config
        .max_tool_calls
        .map(|_| state.cap.saturating_sub(state.used()));
    let units = config
        .max_units
        .map(|max| max.saturating_sub(state.guards.units()));
    let (dimension, remaining) = match (calls, units) {
        (Some(calls), Some(units)) if units < calls => (Limiter::ToolUnits, units),
        (Some(calls), _) => (Limiter::ToolCalls, calls),
        (None, Some(units)) => (Limiter::ToolUnits, units),
        (None, None) => return None,
    };
    let deficit = state.deficit(config);
    let widened = config
        .evidence
        .filter(|_| window.for_evidence_deficit && deficit > 0)
        .map(|contract| (deficit, contract.min_entries));
    let reserve = match widened {
        Some((deficit, _)) => window.calls.max(deficit.saturating_add(1)),
        None => window.calls,
    };
    (remaining <= reserve).then_some(Binding {
        dimension,
        remaining,
        reserve,
        widened,
    })
}

/// The current turn counts as used; repair turns do not count.
fn turns_dimension(config: &Config, state: &State) -> Option<Binding> {
    let reserve = config.reserve_turns?;
    let remaining = config.max_turns.saturating_sub(state.turns());
    (remaining <= reserve).then_some(Binding {
        dimension: Limiter::Turns,
        remaining,
        reserve,
        widened: None,
    })
}

impl<O: Observer> Machine<'_, O> {
    /// The window as it stands now.
    pub(super) fn binding(&self) -> Option<Binding> {
        if self.config.has_window() {
            binding(self.config, self.state)
        } else {
            None
        }
    }

    /// If the window is open for the first time: makes the entry durable.
    pub(super) fn enter_window(&mut self, site: EntrySite) -> Option<Action> {
        if self.state.window_entered {
            return None;
        }
        let binding = self.binding()?;
        self.state.phase = Phase::Entering(site);
        Some(Action::Journal(JournalEntry::Window {
            remaining: binding.remaining,
            reserve: binding.reserve,
            dimension: binding.dimension,
            widened: binding.widened,
        }))
    }

    /// The entry is durable: the model will be told.
    pub(super) fn window_entered(&mut self, site: EntrySite) -> Action {
        self.state.window_entered = true;
        if let Some(binding) = self.binding() {
            self.decided(Verdict::Entered, binding.because(Rule::WindowEntry));
            self.state.queue.set_window(Notice::Window {
                remaining: binding.remaining,
                reserve: binding.reserve,
                dimension: binding.dimension,
                deficit: binding.widened.map(|(deficit, _)| deficit),
            });
        }
        match site {
            EntrySite::Call => self.admit_to_window(),
            EntrySite::EndOfBatch => self.batch_complete(),
        }
    }
}
