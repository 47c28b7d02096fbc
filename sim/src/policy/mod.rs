//! Policies compiled for one scenario: names resolved, limits checked, facts that the world and the
//! tally need.

mod compile;
mod defaults;
mod names;

use holdback_engine::Money;
use holdback_engine::protocol::{Micros, ToolId};
use holdback_engine::{caps, run_limits, usage_limits};
use holdback_scenarios::policy::Family;

use crate::luck::Chance;

pub use compile::{CompileError, Ledger, compile};
pub(crate) use compile::{doubles, run_limits_of};
pub use defaults::defaults;
pub use names::ToolNames;

/// What a world and the tally know of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The family; `None` for a run without any engine.
    pub family: Option<Family>,
    /// The money cap that overspend is measured against: the policy's, else the scenario's budget.
    pub money_cap: Option<Money>,
    /// Spent in the account before the run.
    pub already_spent: Money,
    /// Time after which a run is late.
    pub time_limit: Option<Micros>,
    /// The output cap of an ordinary request, where the policy sets one or the model has its own: a
    /// smaller one on the wire was clamped by money.
    pub output_cap: Option<u64>,
    /// The output cap of a request that asks for the summary.
    pub closing_output_cap: Option<u64>,
    /// Evidence entries that a contract asks for.
    pub min_entries: Option<u64>,
    /// The terminal tool, if the policy has one.
    pub terminal_tool: Option<ToolId>,
    /// Chance that a final text holds a valid value of the schema; certain without a schema.
    pub typed: Chance,
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            family: None,
            money_cap: None,
            already_spent: Money::ZERO,
            time_limit: None,
            output_cap: None,
            closing_output_cap: None,
            min_entries: None,
            terminal_tool: None,
            typed: Chance::new(1.0),
        }
    }
}

impl Facts {
    /// The model has an output cap of its own.
    pub(crate) fn cap_output(&mut self, cap: Option<u64>) {
        for known in [&mut self.output_cap, &mut self.closing_output_cap] {
            *known = known.iter().copied().chain(cap).min();
        }
    }
}

/// A policy compiled for one workload.
#[derive(Clone, Debug)]
pub struct CompiledPolicy {
    /// Its name.
    pub name: String,
    /// Its family.
    pub family: Family,
    /// What the world and the tally know of it.
    pub facts: Facts,
    /// Its engine's configuration.
    pub engine: Engine,
    /// Billed for each checkpoint written.
    pub checkpoint_cost: Money,
}

/// The configuration of one family's engine.
#[derive(Clone, Debug)]
pub enum Engine {
    /// Of `run_limits`.
    RunLimits(Box<Configs<run_limits::Config>>),
    /// Of `usage_limits`.
    UsageLimits(Box<Configs<usage_limits::Config>>),
    /// Of `caps`.
    Caps(Box<Configs<caps::Config>>),
}

/// The configuration of a run and, if it changes, that after the first restart.
#[derive(Clone, Debug)]
pub struct Configs<C> {
    /// From the start.
    pub first: C,
    /// From the first restart on.
    pub resumed: Option<C>,
}
