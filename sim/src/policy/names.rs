//! Tools by name and number.

use holdback_engine::protocol::ToolId;
use holdback_scenarios::Scenario;

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

    /// Names for recorded runs, in which every tool is known.
    pub fn of_records() -> ToolNames {
        ToolNames {
            names: Vec::new(),
            known: usize::MAX,
        }
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

    /// The tools that a request offers: the known ones and the terminal tool.
    pub fn offered(&mut self, terminal: Option<&str>) -> Vec<ToolId> {
        let listed = self.names.len().min(self.known);
        let mut offered: Vec<ToolId> = (0..listed).map(|at| ToolId(at as u16)).collect();
        if let Some(name) = terminal {
            let (tool, _) = self.resolve(name);
            if !offered.contains(&tool) {
                offered.push(tool);
            }
        }
        offered
    }

    /// The name of a number.
    pub fn name(&self, tool: ToolId) -> &str {
        self.names
            .get(usize::from(tool.0))
            .map_or("?", String::as_str)
    }
}
