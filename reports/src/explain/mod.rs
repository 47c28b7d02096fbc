//! One run as a timeline that a person can follow, alone or beside the same run under another policy.

mod blocks;
mod layout;
mod line;

use std::collections::BTreeSet;

use holdback_sim::explain::{Divergence, Side, Timeline, What, first_difference};
use serde::Serialize;
use serde_json::Value;

use crate::definition::in_words;
use crate::numbers::{count, shell};
use crate::table::Style;
use blocks::{Block, blocks};
use line::{Line, Tone, usd};

/// The published JSON Schema of an explanation, as text.
pub const JSON_SCHEMA: &str = include_str!("schema.json");

/// A run that is explained, under one policy or two.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Version of this form.
    schema: u32,
    /// The version that explains.
    holdback: String,
    run: Subject,
    policies: Vec<Told>,
    /// Where two policies part; null for one policy, and where both do the same.
    first_difference: Option<Divergence>,
}

/// Which run.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// A run of a scenario.
    Simulated {
        /// The scenario.
        scenario: String,
        /// Its number, from 0.
        run: u64,
        /// The seed of its luck.
        seed: u64,
    },
    /// A recorded run.
    Recorded {
        /// The label of its source.
        source: String,
        /// Its position among the played runs of that source, from 0.
        run: u64,
        /// Its identity at the source.
        run_id: String,
        /// The seed of the luck of obedience.
        seed: u64,
    },
}

/// The run under one policy.
#[derive(Clone, Debug, Serialize)]
struct Told {
    /// The policy as its file defines it.
    definition: Value,
    #[serde(flatten)]
    timeline: Timeline,
}

impl Explained {
    /// Puts an explanation together; each timeline comes with its policy's definition. Two of them
    /// are compared.
    pub fn new(version: &str, run: Subject, told: Vec<(Value, Timeline)>) -> Explained {
        let first_difference = match told.as_slice() {
            [(_, first), (_, second), ..] => first_difference(first, second),
            _ => None,
        };
        let policies = told
            .into_iter()
            .map(|(definition, timeline)| Told {
                definition,
                timeline,
            })
            .collect();
        Explained {
            schema: 1,
            holdback: version.to_owned(),
            run,
            policies,
            first_difference,
        }
    }

    /// For machines.
    ///
    /// # Errors
    /// Never in practice; see `serde_json`.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// For people.
    pub fn render(&self, style: Style) -> String {
        let style = Style {
            width: style.width.max(60),
            ..style
        };
        let mut lines = vec![Line::text(self.run.title(), Tone::Strong)];
        match self.policies.as_slice() {
            [first, second] => self.pair(first, second, style, lines),
            told => {
                for told in told {
                    lines.extend(told.heading());
                    lines.push(Line::blank());
                    lines.extend(layout::columns_of_numbers());
                    lines.extend(
                        told.blocks(None, 0)
                            .into_iter()
                            .flat_map(|block| block.lines),
                    );
                    lines.push(Line::blank());
                    lines.extend(told.judged());
                }
                layout::wide(&lines, style)
            }
        }
    }

    fn pair(&self, first: &Told, second: &Told, style: Style, mut head: Vec<Line>) -> String {
        for told in [first, second] {
            head.push(Line::blank());
            head.extend(told.heading());
        }
        head.push(Line::blank());
        head.extend(self.parting(first, second));
        head.push(Line::blank());
        let mut text = layout::wide(&head, style);
        if style.width >= layout::TWO_COLUMNS {
            text.push_str(&self.side_by_side(first, second, style));
            return text;
        }
        let sides = self.first_difference.as_ref();
        for (told, side) in [
            (first, sides.map(|sides| &sides.first)),
            (second, sides.map(|sides| &sides.second)),
        ] {
            let mut lines = vec![Line::text(told.name(), Tone::Strong)];
            lines.extend(layout::columns_of_numbers());
            let told_blocks = told.blocks(side, 0);
            lines.extend(told_blocks.into_iter().flat_map(|block| block.lines));
            lines.push(Line::blank());
            lines.extend(told.judged());
            lines.push(Line::blank());
            text.push_str(&layout::wide(&lines, style));
        }
        text
    }

    /// What parts the two runs, before anything else is shown.
    fn parting(&self, first: &Told, second: &Told) -> Vec<Line> {
        let Some(sides) = &self.first_difference else {
            return vec![Line::text(
                "No difference: both policies do the same in this run.".to_owned(),
                Tone::Strong,
            )];
        };
        let mut lines = vec![Line::text(
            format!(
                "First difference, {} (marked >>)",
                blocks::place(&first.timeline, sides.first.event)
            ),
            Tone::Strong,
        )];
        for (told, side) in [(first, &sides.first), (second, &sides.second)] {
            lines.push(Line::text(format!("  {}", told.name()), Tone::Plain));
            let event = &told.timeline.events[side.event];
            lines.push(Line::indented(
                4,
                blocks::effect(&told.timeline, event),
                Tone::Plain,
            ));
            let decisions: Vec<usize> = side
                .decisions
                .iter()
                .copied()
                .filter(|at| !is_idle_clamp(&told.timeline, *at, side.event))
                .collect();
            if decisions.is_empty() {
                lines.push(Line::indented(
                    4,
                    "no limit intervenes".to_owned(),
                    Tone::Dim,
                ));
            }
            let unmarked = BTreeSet::new();
            lines.extend(blocks::decision_lines(
                &told.timeline,
                &decisions,
                &unmarked,
                4,
            ));
        }
        lines
    }

    fn side_by_side(&self, first: &Told, second: &Told, style: Style) -> String {
        let sides = self.first_difference.as_ref();
        // One block of what is the same is shown; where nothing parts them, the last one.
        let parted = |told: &Told, side: &Side| blocks::block_of(&told.timeline, side.event);
        let shared = match sides {
            Some(sides) => parted(first, &sides.first)
                .min(parted(second, &sides.second))
                .saturating_sub(1),
            None => blocks::block_of(&first.timeline, first.timeline.events.len()),
        };
        let shared = if shared > 2 { shared } else { 0 };
        let left = first.blocks(sides.map(|sides| &sides.first), shared);
        let right = second.blocks(sides.map(|sides| &sides.second), shared);
        let mut text = layout::beside(
            &[
                &[Line::text(first.name(), Tone::Strong)],
                &*layout::columns_of_numbers(),
            ]
            .concat(),
            &[
                &[Line::text(second.name(), Tone::Strong)],
                &*layout::columns_of_numbers(),
            ]
            .concat(),
            style,
        );
        if shared > 0 {
            text.push_str(&layout::wide(&same_so_far(&left[..shared]), style));
        }
        let none = Block::default();
        for at in shared..left.len().max(right.len()) {
            let lines = |blocks: &[Block]| blocks.get(at).unwrap_or(&none).lines.clone();
            text.push_str(&layout::beside(&lines(&left), &lines(&right), style));
        }
        text.push('\n');
        text.push_str(&layout::beside(&first.judged(), &second.judged(), style));
        text
    }
}

/// An output cap was lowered, and the request that carried it was not cut by it.
fn is_idle_clamp(timeline: &Timeline, decision: usize, event: usize) -> bool {
    let clamped = matches!(&timeline.events[decision].what, What::Decision(decided) if decided.verdict == "clamped");
    let is_cut =
        matches!(&timeline.events[event].what, What::ModelCall(call) if call.ended == "cut");
    clamped && !is_cut
}

/// One line for turns that are the same on both sides.
fn same_so_far(blocks: &[Block]) -> Vec<Line> {
    let turns: Vec<&Block> = blocks.iter().filter(|block| block.turn.is_some()).collect();
    let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
        return Vec::new();
    };
    let (from, to) = (first.turn.unwrap_or(1), last.turn.unwrap_or(1));
    let calls: usize = turns.iter().map(|block| block.tool_calls).sum();
    let span = if from == to {
        format!("turn {from} is")
    } else {
        format!("turns {from} to {to} are")
    };
    vec![
        Line::blank(),
        Line::text(
            format!(
                "{span} the same on both sides: {} model calls, {} tool calls, USD {} billed",
                count(turns.len() as u64),
                count(calls as u64),
                usd(last.billed),
            ),
            Tone::Dim,
        ),
        Line::blank(),
    ]
}

impl Subject {
    fn title(&self) -> String {
        match self {
            Subject::Simulated {
                scenario,
                run,
                seed,
            } => format!("Run {run} of {}, seed {seed}", shell(scenario)),
            Subject::Recorded {
                source,
                run,
                run_id,
                ..
            } => format!("Recorded run {run} of {source}: {run_id}"),
        }
    }
}

impl Told {
    fn name(&self) -> String {
        format!("{} ({})", self.timeline.policy, self.timeline.family)
    }

    fn heading(&self) -> Vec<Line> {
        let outcome = &self.timeline.outcome;
        let mut end = format!("{}: {}", outcome.outcome, outcome.reason);
        if let Some(limiter) = outcome.limiter {
            end.push_str(&format!(", by {limiter}"));
        }
        let tone = match outcome.outcome {
            "answered" => Tone::Good,
            "partial" => Tone::Warn,
            _ => Tone::Bad,
        };
        vec![
            Line::text(format!("Policy   {}", self.name()), Tone::Plain),
            Line::hanging(9, format!("Limits   {}", in_words(&self.definition))),
            Line::text(format!("Outcome  {end}"), tone),
        ]
    }

    fn blocks(&self, side: Option<&Side>, from: usize) -> Vec<Block> {
        blocks(&self.timeline, side, from)
    }

    /// The outcome and the measures, after the timeline.
    fn judged(&self) -> Vec<Line> {
        let it = &self.timeline.outcome;
        let mut facts = vec![
            format!("outcome   {}, {}", it.outcome, it.reason),
            format!(
                "billed    USD {}{}",
                usd(it.billed_usd),
                match it.cap_usd {
                    Some(cap) => format!(" of a cap of {}", usd(cap)),
                    None => ", no cap".to_owned(),
                }
            ),
            format!("ledger    USD {}", usd(it.ledger_usd)),
        ];
        if let (Some(over), Some(left)) = (it.overspend_usd, it.reserve_left_usd) {
            facts.push(format!("overspend USD {}, left {}", usd(over), usd(left)));
        }
        let counted = |number: u64, what: &str| match number {
            1 => format!("1 {what}"),
            n => format!("{} {what}s", count(n)),
        };
        facts.push(format!(
            "used      {}, {}, {}",
            counted(it.steps, "turn"),
            counted(it.model_calls, "model call"),
            counted(it.tool_calls, "tool call"),
        ));
        facts.push(format!(
            "calls     {} refused, {} skipped, {} denied",
            it.refused_calls, it.skipped_calls, it.denied_calls
        ));
        facts.push(format!(
            "evidence  {}, {} never read by the model",
            counted(it.evidence, "result"),
            it.unread_results
        ));
        if it.kills > 0 {
            facts.push(format!(
                "restarts  {}, {} paid again, USD {}",
                counted(it.kills, "kill"),
                counted(it.repaid_calls, "call"),
                usd(it.repaid_usd)
            ));
        }
        facts.push(format!(
            "written   {}",
            counted(it.checkpoints, "checkpoint")
        ));
        let late = if it.late { ", late" } else { "" };
        facts.push(format!("took      {}{late}", line::clock(it.duration)));
        facts
            .into_iter()
            .map(|fact| Line::hanging(10, fact))
            .collect()
    }
}

#[cfg(test)]
mod tests;
