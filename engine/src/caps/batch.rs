//! What runs of a batch of tool calls.
//!
//! A call that the permission policy is known to deny ([`crate::protocol::Call::denied`]) takes no
//! place: it is left to the host to deny it. One whose denial shows only when it is run has taken
//! its place in the batch, and is not counted afterwards.

use super::state::{Fate, State};
use super::{Batch, Config, Dimension, OnExhausted, Rule};
use crate::protocol::{Call, Decision, Observer, ToolId, Verdict};

/// Which caps on tool calls a batch crosses.
#[derive(Clone, Copy)]
struct Crossed {
    total: bool,
    a_tool: bool,
}

impl Crossed {
    /// The cap that decides how the run goes on: the first, but one that only blocks tools leaves
    /// the decision to one that does not.
    fn decisive(self, config: &Config) -> Option<Dimension> {
        let total = self.total.then_some(Dimension::ToolCalls);
        let a_tool = self.a_tool.then_some(Dimension::CallsPerTool);
        let decides = |d: &Dimension| config.action(*d) != OnExhausted::BlockTools;
        total
            .filter(decides)
            .or(a_tool.filter(decides))
            .or(total)
            .or(a_tool)
    }
}

impl State {
    /// Decides the fate of every proposed call, and which cap the batch crosses.
    pub(super) fn plan_batch<O: Observer>(&mut self, config: &Config, observer: &mut O) {
        self.fates.clear();
        let crossed = match config.batch {
            Batch::Reject => self.reject_or_run(config),
            Batch::Trim => self.trim(config),
            Batch::RunAll => self.run_or_shut_out(config),
        };
        self.tell_room(config, observer);
        self.crossed = crossed.decisive(config);
        if O::ACTIVE {
            self.tell_batch(config, observer);
        }
    }

    /// Tells how the plan has looked at the cap on tool calls: a trimmed batch goes by its value, the
    /// others ask whether it is used up, or passed by their calls.
    fn tell_room<O: Observer>(&self, config: &Config, observer: &O) {
        let cap = Dimension::ToolCalls as usize;
        let executed = i128::from(self.progress.counters.tool_calls);
        match config.batch {
            Batch::Reject => observer.compared(cap, executed + self.proposed() - 1),
            Batch::Trim => {
                observer.compared(cap, executed + self.proposed() - 1);
                if self.room(config).is_some_and(|room| room < self.proposed()) {
                    observer.read(cap);
                }
            }
            Batch::RunAll => {
                observer.compared(cap, executed);
                observer.compared(cap, executed + self.admitted() - 1);
            }
        }
    }

    fn reject_or_run(&mut self, config: &Config) -> Crossed {
        let crossed = Crossed {
            total: self.room(config).is_some_and(|room| self.proposed() > room),
            a_tool: self.any_tool_over(config, |tool| self.proposed_of(tool)),
        };
        let fate = match crossed {
            Crossed { total: true, .. } => Fate::Refused(Dimension::ToolCalls),
            Crossed { a_tool: true, .. } => Fate::Refused(Dimension::CallsPerTool),
            _ => Fate::Run,
        };
        self.fates.resize(self.calls.len(), fate);
        crossed
    }

    fn trim(&mut self, config: &Config) -> Crossed {
        let room = self.room(config);
        let mut admitted = 0;
        for index in 0..self.calls.len() {
            let call = self.calls[index];
            let of_tool = self.room_of(config, call.tool);
            let fate = if call.denied {
                Fate::Run
            } else if room.is_some_and(|room| admitted >= room) {
                Fate::Refused(Dimension::ToolCalls)
            } else if of_tool.is_some_and(|room| self.admitted_of(call.tool) >= room) {
                Fate::Refused(Dimension::CallsPerTool)
            } else {
                admitted += 1;
                Fate::Run
            };
            self.fates.push(fate);
        }
        self.refusing()
    }

    fn run_or_shut_out(&mut self, config: &Config) -> Crossed {
        let is_used_up = self.room(config).is_some_and(|room| room <= 0);
        for index in 0..self.calls.len() {
            let call = self.calls[index];
            let of_tool = self.room_of(config, call.tool);
            let fate = if call.denied {
                Fate::Run
            } else if is_used_up {
                Fate::Refused(Dimension::ToolCalls)
            } else if of_tool.is_some_and(|room| room <= 0) {
                Fate::Refused(Dimension::CallsPerTool)
            } else {
                Fate::Run
            };
            self.fates.push(fate);
        }
        let admitted = self.admitted();
        let refusing = self.refusing();
        Crossed {
            total: refusing.total || self.room(config).is_some_and(|room| admitted > room),
            a_tool: refusing.a_tool || self.any_tool_over(config, |tool| self.admitted_of(tool)),
        }
    }

    /// The caps that refuse a call of the batch.
    fn refusing(&self) -> Crossed {
        Crossed {
            total: self.fates.contains(&Fate::Refused(Dimension::ToolCalls)),
            a_tool: self.fates.contains(&Fate::Refused(Dimension::CallsPerTool)),
        }
    }

    /// True if so many calls of a tool of the batch would pass the tool's cap.
    fn any_tool_over(&self, config: &Config, calls_of: impl Fn(ToolId) -> i128) -> bool {
        config.caps_single_tools()
            && self.calls.iter().any(|call| {
                self.room_of(config, call.tool)
                    .is_some_and(|room| calls_of(call.tool) > room)
            })
    }

    /// What is left of `max_tool_calls`; below zero where tighter limits came with a restart.
    fn room(&self, config: &Config) -> Option<i128> {
        let cap = config.cap(Dimension::ToolCalls)?;
        Some(cap - i128::from(self.progress.counters.tool_calls))
    }

    /// What is left of one tool's cap.
    fn room_of(&self, config: &Config, tool: ToolId) -> Option<i128> {
        let cap = config.cap_of_tool(tool)?;
        Some(i128::from(cap) - i128::from(self.progress.calls_of(tool)))
    }

    fn proposed(&self) -> i128 {
        self.calls.iter().filter(|call| !call.denied).count() as i128
    }

    fn proposed_of(&self, tool: ToolId) -> i128 {
        let is_one = |call: &&Call| call.tool == tool && !call.denied;
        self.calls.iter().filter(is_one).count() as i128
    }

    /// Calls whose fate is to run and count, as far as fates are decided.
    fn admitted(&self) -> i128 {
        let pairs = self.calls.iter().zip(&self.fates);
        pairs
            .filter(|(call, fate)| !call.denied && **fate == Fate::Run)
            .count() as i128
    }

    /// The same for one tool.
    fn admitted_of(&self, tool: ToolId) -> i128 {
        let pairs = self.calls.iter().zip(&self.fates);
        let is_one = |(call, fate): &(&Call, &Fate)| {
            call.tool == tool && !call.denied && **fate == Fate::Run
        };
        pairs.filter(is_one).count() as i128
    }

    /// Tells the observer which calls are refused, and a crossing that refuses none.
    fn tell_batch<O: Observer>(&self, config: &Config, observer: &mut O) {
        let executed = i128::from(self.progress.counters.tool_calls);
        let admitted = self.admitted();
        for (index, (call, fate)) in self.calls.iter().zip(&self.fates).enumerate() {
            let Fate::Refused(dimension) = *fate else {
                continue;
            };
            let of_all = dimension == Dimension::ToolCalls;
            let before = if of_all {
                executed
            } else {
                self.progress.calls_of(call.tool).into()
            };
            let (rule, left) = match config.batch {
                Batch::Reject if of_all => (Rule::BatchRejected, before + self.proposed()),
                Batch::Reject => (Rule::BatchRejected, before + self.proposed_of(call.tool)),
                Batch::Trim if of_all => (Rule::CallTrimmed, before + admitted),
                Batch::Trim => (Rule::CallTrimmed, before + self.admitted_of(call.tool)),
                Batch::RunAll => (Rule::BatchOutside, before),
            };
            let cap = match dimension {
                Dimension::CallsPerTool => config.cap_of_tool(call.tool).map(i128::from),
                _ => config.cap(dimension),
            };
            let refused = dimension.compared(Verdict::Refused, rule, left, cap);
            observer.decided(Decision {
                call: Some(index as u32),
                ..refused
            });
        }
        if let (Batch::RunAll, Some(dimension), 1..) = (config.batch, self.crossed, admitted) {
            let (rule, cap) = (Rule::BatchCrossed, config.cap(dimension));
            observer.decided(dimension.compared(Verdict::Exceeded, rule, executed + admitted, cap));
        }
    }
}
