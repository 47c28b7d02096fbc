//! The finalization window: which dimension binds, and the entry (section 7 of the semantics).

use super::limits::Config;
use super::machine::{Because, Machine};
use super::rule::Rule;
use super::state::{EntrySite, Phase, State};
use super::thresholds::Threshold;
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
#[inline]
pub(super) fn binding(config: &Config, state: &State) -> Option<Binding> {
    let budget = budget_left(config, state)
        .filter(|(_, remaining)| *remaining <= budget_reserve(config, state));
    let turns = turns_left(config, state);
    if budget.is_none() && turns.is_none() {
        return None;
    }
    Some(tighter(config, state, budget, turns))
}

/// What is left of the tool budget, calls or units, where a window watches it.
#[inline]
fn budget_left(config: &Config, state: &State) -> Option<(Limiter, u64)> {
    config.window?;
    let calls = config
        .max_tool_calls
        .map(|_| state.cap.saturating_sub(state.used()));
    let units = config
        .max_units
        .map(|max| max.saturating_sub(state.guards.units()));
    match (calls, units) {
        (Some(calls), Some(units)) if units < calls => Some((Limiter::ToolUnits, units)),
        (Some(calls), _) => Some((Limiter::ToolCalls, calls)),
        (None, Some(units)) => Some((Limiter::ToolUnits, units)),
        (None, None) => None,
    }
}

/// The reserve in calls or units, widened by an evidence deficit where that is asked for.
#[inline]
fn budget_reserve(config: &Config, state: &State) -> u64 {
    let Some(window) = config.window else {
        return 0;
    };
    match widening_deficit(config, state) {
        0 => window.calls,
        deficit => window.calls.max(deficit.saturating_add(1)),
    }
}

/// The evidence deficit opens the window whatever its reserve is.
#[inline]
fn widening_admits(config: &Config, state: &State, remaining: u64) -> bool {
    match widening_deficit(config, state) {
        0 => false,
        deficit => remaining <= deficit.saturating_add(1),
    }
}

#[inline]
fn widening_deficit(config: &Config, state: &State) -> u64 {
    match config.window {
        Some(window) if window.for_evidence_deficit => state.deficit(config),
        _ => 0,
    }
}

/// The turns left, if they are within their reserve. The current turn counts as used; repair turns
/// do not count.
#[inline]
fn turns_left(config: &Config, state: &State) -> Option<u64> {
    let reserve = config.reserve_turns?;
    let remaining = config.max_turns.saturating_sub(state.turns());
    (remaining <= reserve).then_some(remaining)
}

#[cold]
fn tighter(
    config: &Config,
    state: &State,
    budget: Option<(Limiter, u64)>,
    turns: Option<u64>,
) -> Binding {
    let by_turns = |remaining| Binding {
        dimension: Limiter::Turns,
        remaining,
        reserve: config.reserve_turns.unwrap_or(0),
        widened: None,
    };
    match (budget, turns) {
        (Some((_, left)), Some(turns)) if turns < left => by_turns(turns),
        (Some((dimension, remaining)), _) => {
            let deficit = widening_deficit(config, state);
            let min_entries = config.evidence.map_or(0, |contract| contract.min_entries);
            Binding {
                dimension,
                remaining,
                reserve: budget_reserve(config, state),
                widened: (deficit > 0).then_some((deficit, min_entries)),
            }
        }
        (None, turns) => by_turns(turns.unwrap_or(0)),
    }
}

impl<O: Observer> Machine<'_, O> {
    /// The window as it stands now.
    #[inline]
    pub(super) fn binding(&self) -> Option<Binding> {
        if !self.config.has_window {
            return None;
        }
        let budget = budget_left(self.config, self.state);
        if let Some((_, remaining)) = budget
            && !widening_admits(self.config, self.state, remaining)
        {
            self.compared(Threshold::WindowCalls, i128::from(remaining) - 1);
        }
        self.compared(Threshold::TurnsOutside, self.state.turns());
        let binding = binding(self.config, self.state);
        // Where both axes are watched, the tighter one is named, and grants ask for its name.
        if binding.is_some() && budget.is_some() && self.config.reserve_turns.is_some() {
            self.read(Threshold::MaxTurns);
        }
        binding
    }

    /// The window is open for the first time: makes the entry durable.
    pub(super) fn enter_window(&mut self, binding: &Binding, site: EntrySite) -> Action {
        self.state.phase = Phase::Entering(site);
        Action::Journal(JournalEntry::Window {
            remaining: binding.remaining,
            reserve: binding.reserve,
            dimension: binding.dimension,
            widened: binding.widened,
        })
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
