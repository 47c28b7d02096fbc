//! Recorded runs made ready to be played (design section 8).

use std::num::NonZeroU64;

use holdback_engine::protocol::ToolId;
use holdback_scenarios::price::Price;
use holdback_scenarios::trace::{Names, Run};

use crate::policy::ToolNames;
use crate::world::{Record, RecordedCall, RecordedTurn};

/// The name of the pseudo-tool that stands for a turn without calls in the middle of a run.
pub const CONTINUE: &str = "continue";

/// Why a recorded run cannot be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// It has no turn.
    NoTurns,
    /// A turn has neither a recorded cost nor tokens with a price.
    NoCost,
    /// A turn before the last has no tool call, and such runs are not wanted.
    Dialogue,
}

impl LeftOut {
    /// The reason in files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            LeftOut::NoTurns => "without any turn",
            LeftOut::NoCost => "a turn has neither a recorded cost nor tokens with a price",
            LeftOut::Dialogue => "a turn before the last has no tool call",
        }
    }
}

/// Turns recorded runs into records, with one numbering of tools for all of them.
#[derive(Debug)]
pub struct Recorder {
    names: ToolNames,
    /// Tool numbers by position of the name in the trace's names.
    numbers: Vec<Option<ToolId>>,
    price: Option<Price>,
    skip_dialogue: bool,
    pseudo: ToolId,
}

impl Recorder {
    /// A recorder whose tools are numbered from those that policies name, which are in `names`.
    pub fn new(mut names: ToolNames, price: Option<Price>, skip_dialogue: bool) -> Recorder {
        let pseudo = names.resolve(CONTINUE).0;
        Recorder {
            names,
            numbers: Vec::new(),
            price,
            skip_dialogue,
            pseudo,
        }
    }

    /// The tools by number.
    pub fn names(&self) -> &ToolNames {
        &self.names
    }

    /// Forgets which names of a trace are which tools: another trace numbers its names anew.
    pub fn forget_names(&mut self) {
        self.numbers.clear();
    }

    /// The record of a run.
    ///
    /// # Errors
    /// Why the run cannot be played.
    pub fn record(&mut self, run: &Run, names: &Names) -> Result<Record, LeftOut> {
        let last = run.turns.len().checked_sub(1).ok_or(LeftOut::NoTurns)?;
        let mut turns = Vec::with_capacity(run.turns.len());
        let mut calls = Vec::with_capacity(run.all_calls().len());
        for (at, turn) in run.turns.iter().enumerate() {
            let cost = turn
                .cost_or_priced(self.price.as_ref())
                .ok_or(LeftOut::NoCost)?;
            let first = calls.len() as u32;
            for call in run.calls(turn) {
                let tool = self.number(call.tool, names);
                calls.push(RecordedCall {
                    tool,
                    signature: call.args.map(|args| with_tool(args, tool)),
                    digest: call.result,
                    error: call.error,
                    pseudo: false,
                });
            }
            if turn.call_count() == 0 && at < last {
                if self.skip_dialogue {
                    return Err(LeftOut::Dialogue);
                }
                calls.push(RecordedCall {
                    tool: self.pseudo,
                    signature: None,
                    digest: None,
                    error: false,
                    pseudo: true,
                });
            }
            turns.push(RecordedTurn {
                usage: turn.usage().unwrap_or_default(),
                cost,
                calls: (first, calls.len() as u32),
            });
        }
        Ok(Record {
            source: names.get(run.source).to_owned(),
            run_id: run.run_id.clone(),
            turns,
            calls,
            answered: run
                .final_answer
                .unwrap_or(run.turns[last].call_count() == 0),
        })
    }

    fn number(&mut self, name: holdback_scenarios::trace::NameId, names: &Names) -> ToolId {
        let at = usize::from(name.0);
        if self.numbers.len() <= at {
            self.numbers.resize(at + 1, None);
        }
        *self.numbers[at].get_or_insert_with(|| self.names.resolve(names.get(name)).0)
    }
}

/// The identity of a call is that of its tool and of its arguments together.
fn with_tool(args: NonZeroU64, tool: ToolId) -> NonZeroU64 {
    let mixed = args.get() ^ (u64::from(tool.0) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    NonZeroU64::new(mixed).unwrap_or(args)
}
