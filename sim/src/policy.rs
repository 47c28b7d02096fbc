//! Policies compiled for one scenario: names resolved, limits checked, facts that the world and the
//! tally need.

use holdback_engine::Money;
use holdback_engine::protocol::{Micros, ToolId};
use holdback_scenarios::Scenario;
use holdback_scenarios::policy::Family;

use crate::luck::Chance;

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
            min_entries: None,
            terminal_tool: None,
            typed: Chance::new(1.0),
        }
    }
}

/// The tools of a scenario by number: those of the file, `record_evidence`, then names that only
/// scripts and policies use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolNames {
    names: Vec<String>,
    /// Names below this are known; all are if the scenario lists no tool.
    known: usize,
}

impl ToolNames {
    /// The names of a scenario.
    pub fn new(scenario: &Scenario) -> ToolNames {
        let mut names: Vec<String> = scenario
            .tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect();
        names.push("record_evidence".to_owned());
        let known = if scenario.tools.is_empty() {
            usize::MAX
        } else {
            names.len()
        };
        ToolNames { names, known }
    }

    /// The number of a name, given out when it is first asked for, and whether the tool is known.
    pub fn resolve(&mut self, name: &str) -> (ToolId, bool) {
        let at = self
            .names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                self.names.push(name.to_owned());
                self.names.len() - 1
            });
        (
            ToolId(at.min(usize::from(u16::MAX)) as u16),
            at < self.known,
        )
    }

    /// The name of a number.
    pub fn name(&self, tool: ToolId) -> &str {
        self.names
            .get(usize::from(tool.0))
            .map_or("?", String::as_str)
    }
}
