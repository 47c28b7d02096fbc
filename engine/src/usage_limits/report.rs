//! The counters of a run as the reference reports them.

use super::guards::Exploration;
use super::limits::Config;
use super::state::{Expiry, Fired, State};
use crate::protocol::Usage;

/// What the reference reports about a run, at any moment. A counter is `None` where nothing is
/// configured that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report<'a> {
    /// Turns counted.
    pub turns: u64,
    /// Calls executed.
    pub tool_calls: u64,
    /// Units spent.
    pub tool_units: Option<u64>,
    /// Grants given.
    pub grants: Option<u64>,
    /// The cap on calls in force.
    pub max_tool_calls: Option<u64>,
    /// The 50 percent notice was told, or restored as told.
    pub notice_50: bool,
    /// The 80 percent notice was told, or restored as told.
    pub notice_80: bool,
    /// The summary turn was sent, even if it then failed.
    pub summary_used: bool,
    /// The finalization window was entered.
    pub window_entered: Option<bool>,
    /// The guards' counters.
    pub exploration: Option<Exploration<'a>>,
    /// Evidence entries recorded in the conversation, and how many the contract asks for.
    pub evidence: Option<(u64, u64)>,
    /// Usage of the run.
    pub usage: Usage,
    /// Cost of the run in USD, summed call by call.
    pub cost_usd: f64,
    /// Spent from the account in USD, with what was spent before the run.
    pub spent_usd: Option<f64>,
    /// Provider errors that were tried again in this process.
    pub transport_retries: u64,
    /// The tool budget that expired.
    pub expiry: Option<Expiry>,
}

impl State {
    pub(super) fn report(&self, config: &Config) -> Report<'_> {
        let Fired { at_50, at_80 } = self.fired;
        let told = config.notices && config.max_tool_calls.is_some();
        let watches_window = config.max_tool_calls.is_some()
            || config.max_units.is_some()
            || config.extension.is_some()
            || config.reserve_turns.is_some();
        Report {
            turns: self.turns(),
            tool_calls: self.used(),
            tool_units: config.max_units.map(|_| self.guards.units()),
            grants: config.extension.map(|_| self.grants),
            max_tool_calls: config.max_tool_calls.map(|_| self.cap),
            notice_50: told && at_50,
            notice_80: told && at_80,
            summary_used: self.summary_used,
            window_entered: watches_window.then_some(self.window_entered),
            exploration: self.guards.report(config),
            evidence: config
                .evidence
                .map(|contract| (self.history.recorded, contract.min_entries)),
            usage: self.counters.usage,
            cost_usd: self.account.cost(),
            spent_usd: config.budget.map(|_| self.account.spent()),
            transport_retries: self.transport_retries,
            expiry: self.expiry,
        }
    }
}
