//! From a timeline to lines: one block a model call, with what leads to it and what comes of it.

use std::collections::{BTreeMap, BTreeSet};

use holdback_engine::Money;
use holdback_engine::protocol::Micros;
use holdback_sim::explain::{
    Decided, Event, Message, ModelCall, Resumed, Side, Timeline, ToolCall, What,
};

use super::line::{Books, Line, Tone, amount, duration, usd};
use crate::numbers::count;

/// A model call with what leads to it and what comes of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) lines: Vec<Line>,
    /// The turn, once there is one.
    pub(super) turn: Option<u32>,
    /// Calls that ran.
    pub(super) tool_calls: usize,
    /// The bill at its end.
    pub(super) billed: Money,
}

/// The blocks of a timeline; `side` marks where it parts from another.
/// Blocks before `from` are not shown, so a rule that they apply is explained again.
pub(super) fn blocks(timeline: &Timeline, side: Option<&Side>, from: usize) -> Vec<Block> {
    let mut writer = Writer {
        timeline,
        admissions: admissions(timeline),
        marked: side.map_or_else(BTreeSet::new, |side| {
            let decisions = side.decisions.iter().copied();
            decisions.chain([side.event]).collect()
        }),
        explained: BTreeSet::new(),
    };
    let starts = starts(timeline);
    let ends = starts.iter().skip(1).copied();
    starts
        .iter()
        .zip(ends.chain([timeline.events.len()]))
        .enumerate()
        .map(|(index, (start, end))| {
            if index == from {
                writer.explained.clear();
            }
            writer.block(*start, end)
        })
        .collect()
}

/// Where blocks begin: what comes before the first request, which may be nothing, and with what leads
/// to each model call.
fn starts(timeline: &Timeline) -> Vec<usize> {
    let events = &timeline.events;
    let mut starts = vec![0];
    for (at, event) in events.iter().enumerate() {
        if !matches!(event.what, What::ModelCall(_)) {
            continue;
        }
        let leads = |event: &&Event| match &event.what {
            What::Notice(_) | What::Record(_) | What::Wait { .. } => true,
            What::Decision(decided) => decided.call.is_none(),
            _ => false,
        };
        let leading = events[..at].iter().rev().take_while(leads).count();
        starts.push(at - leading);
    }
    starts
}

/// The decision that admitted each call that ran, by the position of the call's event.
fn admissions(timeline: &Timeline) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    // Since the last turn or restart: events of calls, and decisions, that have no partner yet.
    let mut waiting: BTreeMap<u32, (bool, usize)> = BTreeMap::new();
    for (at, event) in timeline.events.iter().enumerate() {
        let (call, is_decision) = match &event.what {
            What::ModelCall(_) | What::Resume(_) => {
                waiting.clear();
                continue;
            }
            What::ToolCall(call) if call.limiter.is_none() && !call.lost => (call.call, false),
            What::Decision(Decided {
                verdict: "executed",
                call: Some(call),
                ..
            }) => (*call, true),
            _ => continue,
        };
        match waiting.remove(&call) {
            Some((was_decision, other)) if was_decision != is_decision => {
                let (event, decision) = if is_decision {
                    (other, at)
                } else {
                    (at, other)
                };
                found.insert(event, decision);
            }
            _ => {
                waiting.insert(call, (is_decision, at));
            }
        }
    }
    found
}

/// The verdict on a request's output cap.
const CLAMPED: &str = "clamped";

/// The block in which an event stands.
pub(super) fn block_of(timeline: &Timeline, event: usize) -> usize {
    let begun = starts(timeline).into_iter();
    begun.filter(|start| *start <= event).count() - 1
}

struct Writer<'t> {
    timeline: &'t Timeline,
    admissions: BTreeMap<usize, usize>,
    marked: BTreeSet<usize>,
    /// Rules of admissions whose sentence was given.
    explained: BTreeSet<&'t str>,
}

impl<'t> Writer<'t> {
    fn block(&mut self, start: usize, end: usize) -> Block {
        let events = &self.timeline.events[start..end];
        let mut block = Block {
            billed: events.last().map_or(Money::ZERO, |event| event.billed),
            ..Block::default()
        };
        let dies = |event: &Event| matches!(event.what, What::Kill { .. } | What::Resume(_));
        let in_place = events.iter().any(dies);
        let mut saved: Vec<String> = Vec::new();
        let mut at = start;
        while at < end {
            let event = &self.timeline.events[at];
            if let What::ModelCall(call) = &event.what {
                block.turn = block.turn.or(Some(call.turn));
            }
            if let What::Checkpoint(message) = &event.what {
                saved.push(phrase(message));
                at += 1;
                continue;
            }
            if in_place || matches!(event.what, What::End(_)) {
                block.lines.extend(checkpoints(&mut saved));
            }
            let run = self.decisions_from(at, end);
            if run > 0 {
                block.lines.extend(self.decided(at, run));
                at += run;
                continue;
            }
            let lines = self.event(at, event);
            if let What::ToolCall(call) = &event.what {
                block.tool_calls += usize::from(ran(call));
            }
            block.lines.extend(lines);
            at += 1;
        }
        block.lines.extend(checkpoints(&mut saved));
        block
    }

    /// How many decisions from here on stand together, those beside their calls left out.
    fn decisions_from(&self, at: usize, end: usize) -> usize {
        if self.stands_beside_its_call(at) {
            return 1;
        }
        let follows = |position: &usize| match &self.timeline.events[*position].what {
            What::Decision(_) => !self.stands_beside_its_call(*position),
            _ => false,
        };
        (at..end).take_while(follows).count()
    }

    /// The decision admitted a call that ran, or capped the request that follows it.
    fn stands_beside_its_call(&self, at: usize) -> bool {
        self.admissions.values().any(|decision| *decision == at)
            || matches!(&self.timeline.events[at].what, What::Decision(decided) if decided.verdict == CLAMPED)
    }

    fn decided(&self, at: usize, run: usize) -> Vec<Line> {
        if self.stands_beside_its_call(at) {
            return Vec::new();
        }
        let positions: Vec<usize> = (at..at + run).collect();
        let mut lines = decision_lines(self.timeline, &positions, &self.marked, 2);
        for line in &mut lines {
            line.timed = true;
        }
        lines
    }

    fn event(&mut self, at: usize, event: &'t Event) -> Vec<Line> {
        let marked = self.marked.contains(&at);
        let mut lines = match &event.what {
            What::ModelCall(call) => self.model_call(at, event, call),
            What::ToolCall(call) => self.tool_call(at, event, call),
            What::Notice(message) => {
                vec![Line::below(
                    2,
                    format!("notice: {}", phrase(message)),
                    Tone::Dim,
                )]
            }
            What::Journal(message) => vec![Line::at(
                event.at,
                2,
                format!("journalled: {}", phrase(message)),
                Tone::Dim,
            )],
            What::Wait { pause } => vec![Line::at(
                event.at,
                2,
                format!("waits {} before it tries again", duration(*pause)),
                Tone::Dim,
            )],
            What::Kill { during } => {
                let text = match *during {
                    "model_call" => "KILLED: the process dies before the reply is recorded",
                    _ => "KILLED: the process dies before the tool's result is stored",
                };
                let text = text.to_owned();
                vec![Line::at(event.at, 0, text, Tone::Bad)]
            }
            What::Resume(resumed) => vec![Line::at(event.at, 0, restart(resumed), Tone::Warn)],
            What::End(_) => vec![Line::at(
                event.at,
                0,
                effect(self.timeline, event),
                Tone::Strong,
            )],
            What::Decision(_) | What::Checkpoint(_) | What::Record(_) => Vec::new(),
        };
        if let Some(first) = lines.first_mut() {
            first.mark = marked;
        }
        lines
    }

    fn model_call(&mut self, at: usize, event: &'t Event, call: &ModelCall) -> Vec<Line> {
        let mut lines = model_call(event, call);
        let before = self.timeline.events[..at].iter().rev();
        let clamp = before
            .take_while(|event| !matches!(event.what, What::ModelCall(_)))
            .find_map(|event| match &event.what {
                What::Decision(decided) if decided.verdict == CLAMPED => Some(decided),
                _ => None,
            });
        if let Some(cap) = call.output_cap {
            let mut text = format!("output cap {}", count(cap));
            if let Some(decided) = clamp {
                let numbers = compared(decided).unwrap_or_default();
                text.push_str(&format!(" ({}: {numbers})", decided.limiter));
            }
            if let Some(tokens) = call.estimated_tokens {
                let tokens = count(tokens.max(0.0) as u64);
                text.push_str(&format!(", prompt estimated at {tokens}"));
            }
            lines.push(Line::below(2, text, Tone::Dim));
        }
        lines.extend(clamp.and_then(|decided| self.rule(decided, 4)));
        lines
    }

    /// The rule of a decision beside its call, where it is first applied.
    fn rule(&mut self, decided: &'t Decided, indent: usize) -> Option<Line> {
        let is_new = self.explained.insert(decided.rule.as_str());
        is_new.then(|| {
            let text = format!("the rule: {}", decided.sentence);
            Line::below(indent, text, Tone::Dim)
        })
    }

    fn tool_call(&mut self, at: usize, event: &'t Event, call: &ToolCall) -> Vec<Line> {
        if call.limiter.is_some() && self.is_told_by_decision(at, call) {
            return Vec::new();
        }
        let mut text = format!("{}: {}", call.tool, fate(call));
        let mut lines = Vec::new();
        if let Some(admission) = self.admissions.get(&at)
            && let What::Decision(decided) = &self.timeline.events[*admission].what
        {
            if let Some(numbers) = compared(decided) {
                text.push_str(&format!(" ({}: {numbers})", decided.limiter));
            }
            lines.extend(self.rule(decided, 6));
        }
        let tone = match call.verdict {
            _ if call.lost => Tone::Bad,
            "succeeded" | "accepted" => Tone::Plain,
            _ => Tone::Warn,
        };
        let mut line = Line::at(event.at, 4, text, tone);
        if ran(call) {
            line.books = Some(Books {
                cost: call.cost_usd,
                billed: event.billed,
                ledger: event.ledger,
            });
        }
        lines.insert(0, line);
        lines
    }

    /// A decision near a call that the engine answered says the same and more.
    fn is_told_by_decision(&self, at: usize, call: &ToolCall) -> bool {
        let events = &self.timeline.events;
        let turn = |event: &Event| matches!(event.what, What::ModelCall(_));
        let from = events[..at].iter().rposition(turn).unwrap_or(0);
        let to = events[at..]
            .iter()
            .position(turn)
            .map_or(events.len(), |next| at + next);
        events[from..to].iter().any(|event| {
            matches!(&event.what, What::Decision(decided)
                if decided.call == Some(call.call) && decided.verdict == call.verdict)
        })
    }
}

fn alike(a: &Decided, b: &Decided) -> bool {
    (
        a.verdict,
        a.limiter,
        &a.rule,
        a.left,
        a.right,
        a.call.is_some(),
    ) == (
        b.verdict,
        b.limiter,
        &b.rule,
        b.left,
        b.right,
        b.call.is_some(),
    )
}

fn ran(call: &ToolCall) -> bool {
    matches!(call.verdict, "succeeded" | "failed") && !call.stored
}

/// Decisions as lines; consecutive ones that are the same but for their calls share one.
pub(super) fn decision_lines(
    timeline: &Timeline,
    positions: &[usize],
    marked: &BTreeSet<usize>,
    indent: usize,
) -> Vec<Line> {
    let decisions: Vec<(usize, &Decided)> = positions
        .iter()
        .filter_map(|at| match &timeline.events[*at].what {
            What::Decision(decided) => Some((*at, decided)),
            _ => None,
        })
        .collect();
    let mut before = None;
    let mut lines = Vec::new();
    for group in decisions.chunk_by(|(_, a), (_, b)| alike(a, b)) {
        let (at, first) = group[0];
        let tools: Vec<&str> = group
            .iter()
            .filter_map(|(_, decided)| decided.tool.as_deref())
            .collect();
        // An ending repeats what blocked or exceeded.
        let because = (&first.rule, first.left, first.right);
        let reason = if before == Some(because) {
            "by the same rule".to_owned()
        } else {
            because_of(first)
        };
        before = Some(because);
        lines.push(Line {
            at: Some(timeline.events[at].at),
            hang: 3,
            mark: group.iter().any(|(at, _)| marked.contains(at)),
            ..Line::indented(
                indent,
                format!("-> {} {reason}", what_of(first, &tools)),
                tone_of(first, timeline),
            )
        });
    }
    lines
}

fn because_of(decided: &Decided) -> String {
    let numbers = compared(decided).map_or_else(String::new, |numbers| format!(" {numbers}"));
    format!("[{}{numbers}] {}", decided.limiter, decided.sentence)
}

fn what_of(decided: &Decided, tools: &[&str]) -> String {
    let verdict = match decided.verdict {
        "violation" => "rejected as a violation".to_owned(),
        "loop" => "stopped as a loop".to_owned(),
        other => other.replace('_', " "),
    };
    match tools {
        [] => verdict,
        [tool] => format!("{tool} {verdict}"),
        tools => format!("{} calls {verdict}: {}", tools.len(), listed(tools)),
    }
}

fn tone_of(decided: &Decided, timeline: &Timeline) -> Tone {
    match decided.verdict {
        "executed" | "terminal_accepted" | "granted" => Tone::Plain,
        "ended" if timeline.outcome.outcome == "answered" => Tone::Good,
        "ended" | "violation" | "exceeded" | "loop" | "dropped" => Tone::Bad,
        _ => Tone::Warn,
    }
}

/// The two numbers.
fn compared(decided: &Decided) -> Option<String> {
    match (amount(decided.left), amount(decided.right)) {
        (Some(left), Some(right)) => Some(format!("{left} vs {right}")),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => None,
    }
}

/// Names, repeated ones counted: `search x2, fetch`.
fn listed(names: &[&str]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counted.iter_mut().find(|(known, _)| known == name) {
            Some((_, times)) => *times += 1,
            None => counted.push((name, 1)),
        }
    }
    let names: Vec<String> = counted
        .into_iter()
        .map(|(name, times)| match times {
            1 => name.to_owned(),
            _ => format!("{name} x{times}"),
        })
        .collect();
    names.join(", ")
}

fn phrase(message: &Message) -> String {
    let kind = message.kind.replace('_', " ");
    let limiter = message.limiter.map(|limiter| format!("by {limiter}"));
    let numbers = message.numbers.0.iter();
    let numbers =
        numbers.map(|(name, number)| format!("{} {}", name.replace('_', " "), count(*number)));
    let details: Vec<String> = limiter.into_iter().chain(numbers).collect();
    if details.is_empty() {
        return kind;
    }
    format!("{kind} ({})", details.join(", "))
}

fn checkpoints(saved: &mut Vec<String>) -> Option<Line> {
    if saved.is_empty() {
        return None;
    }
    let names = std::mem::take(saved).join(", ");
    Some(Line::below(2, format!("checkpoints: {names}"), Tone::Dim))
}

fn model_call(event: &Event, call: &ModelCall) -> Vec<Line> {
    let mut first = Line::at(event.at, 0, request(call), Tone::Strong);
    first.tokens = Some([call.input_tokens, call.cached_tokens, call.output_tokens]);
    first.books = Some(Books {
        cost: call.cost_usd,
        billed: event.billed,
        ledger: event.ledger,
    });
    let mut lines = vec![first];
    let mut more = |text: String, tone| lines.push(Line::below(2, text, tone));
    if let Some(instruction) = &call.instruction {
        more(
            format!("told for this request: {}", phrase(instruction)),
            Tone::Warn,
        );
    }
    if !call.notices.is_empty() {
        let notices: Vec<String> = call.notices.iter().map(phrase).collect();
        more(
            format!("carries notices: {}", notices.join("; ")),
            Tone::Dim,
        );
    }
    if call.requests > 1 {
        more(
            format!("{} requests below the engine", call.requests),
            Tone::Dim,
        );
    }
    if !call.usage_reported && call.cost_usd > Money::ZERO {
        more(
            "the engine is not told what this used".to_owned(),
            Tone::Warn,
        );
    } else if call.usage_reported && call.reported_cost_usd != call.cost_usd {
        let told = usd(call.reported_cost_usd);
        more(format!("the engine is told of USD {told}"), Tone::Warn);
    }
    lines
}

/// What a request is and how it ended, on one line.
fn request(call: &ModelCall) -> String {
    let attempt = match call.attempt {
        0 | 1 => String::new(),
        n => format!(", attempt {n}"),
    };
    let tools = match call.tools {
        "all" => "all tools",
        "withheld" => "tools withheld",
        "absent" => "no tools",
        _ => "window's tools",
    };
    let took = lasting(", ", call.latency);
    format!(
        "turn {}{attempt}, {tools}: {}{took}",
        call.turn,
        ending(call)
    )
}

fn ending(call: &ModelCall) -> String {
    let ended = match (call.ended, call.fault) {
        ("calls", _) => match call.calls.len() {
            1 => "1 call".to_owned(),
            n => format!("{n} calls"),
        },
        ("blank", _) => "a blank text".to_owned(),
        ("empty", _) => "no text, no calls".to_owned(),
        ("cut", _) => "text cut by its cap".to_owned(),
        ("fault", Some(fault)) => format!("fault, {}", fault.replace('_', " ")),
        (other, _) => other.replace('_', " "),
    };
    if call.lost {
        format!("{ended}, lost")
    } else {
        ended
    }
}

/// A duration behind some words; recorded runs know none.
fn lasting(before: &str, time: Micros) -> String {
    match time {
        0 => String::new(),
        time => format!("{before}{}", duration(time)),
    }
}

fn fate(call: &ToolCall) -> String {
    if call.stored {
        return format!("stored outcome taken over ({})", call.verdict);
    }
    let how = match (call.verdict, call.limiter) {
        ("succeeded", _) => match call.new_result {
            Some(false) if !call.again => format!("ran{}, nothing new", lasting(" ", call.latency)),
            _ => format!("ran{}", lasting(" ", call.latency)),
        },
        ("failed", _) => format!("failed{}", lasting(" after ", call.latency)),
        ("denied", None) => "denied by the permission policy".to_owned(),
        (verdict, Some(limiter)) => format!("{verdict} by {limiter}"),
        (verdict, None) => verdict.to_owned(),
    };
    let again = if call.again { ", paid again" } else { "" };
    let lost = if call.lost { ", result lost" } else { "" };
    format!("{how}{again}{lost}")
}

fn restart(resumed: &Resumed) -> String {
    let from = match resumed.from {
        "checkpoint" => "the last checkpoint",
        _ => "the beginning, no checkpoint was written",
    };
    let mut text = format!("RESTARTED after {} from {from}", duration(resumed.downtime));
    if resumed.tail_lost {
        text.push_str("; the newest durable item is lost too");
    }
    if !resumed.calls.is_empty() {
        let tools: Vec<&str> = resumed
            .calls
            .iter()
            .map(|call| call.tool.as_str())
            .collect();
        text.push_str(&format!(
            "; takes up {} calls: {}",
            tools.len(),
            listed(&tools)
        ));
    }
    text
}

/// What an event does, in a few words.
pub(super) fn effect(timeline: &Timeline, event: &Event) -> String {
    match &event.what {
        What::ModelCall(call) => {
            let told = call.instruction.iter().chain(&call.notices);
            let told: Vec<String> = told.map(|message| message.kind.replace('_', " ")).collect();
            match told.is_empty() {
                true => request(call),
                false => format!("{}; told: {}", request(call), told.join(", ")),
            }
        }
        What::ToolCall(call) => format!("{}: {}", call.tool, fate(call)),
        What::Kill { during } => format!("killed in a {}", during.replace('_', " ")),
        What::Resume(resumed) => restart(resumed),
        What::End(end) => {
            let limiter = end
                .limiter
                .map_or_else(String::new, |by| format!(", by {by}"));
            format!("ended: {}, {}{limiter}", end.status, end.reason)
        }
        What::Decision(_)
        | What::Notice(_)
        | What::Journal(_)
        | What::Checkpoint(_)
        | What::Record(_)
        | What::Wait { .. } => timeline.policy.clone(),
    }
}

/// Where an event stands: before the first turn, or in a turn.
pub(super) fn place(timeline: &Timeline, at: usize) -> String {
    let turn = timeline.events[..=at]
        .iter()
        .rev()
        .find_map(|event| match &event.what {
            What::ModelCall(call) => Some(call.turn),
            _ => None,
        });
    match turn {
        Some(turn) => format!("in turn {turn}"),
        None => "before the first turn".to_owned(),
    }
}
