//! The runs of one trace, once all its spans are there.

use std::collections::BTreeMap;

use super::span::{Agent, Kind, took};
use crate::import::document::{Stopped, within};
use crate::import::stream::Out;
use crate::trace::{Call, NameId, Run, Turn};

/// A span as it is held.
pub(super) struct Held {
    pub(super) id: SpanId,
    pub(super) parent: SpanId,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Position among the services.
    pub(super) service: u32,
    pub(super) kind: Kind<NameId>,
}

/// The identity of a span in its trace. As the conventions have it, sixteen lower-case hex digits, it
/// takes no room of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpanId {
    Hex(u64),
    Text(Box<str>),
}

impl SpanId {
    pub(super) fn new(text: String) -> SpanId {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == 16
            && text.bytes().all(is_digit)
            && let Ok(number) = u64::from_str_radix(&text, 16)
        {
            return SpanId::Hex(number);
        }
        SpanId::Text(text.into())
    }

    fn is_missing(&self) -> bool {
        matches!(self, SpanId::Text(text) if text.is_empty())
    }
}

impl std::fmt::Display for SpanId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpanId::Hex(number) => write!(f, "{number:016x}"),
            SpanId::Text(text) => f.write_str(text),
        }
    }
}

/// What was odd about the spans of a file.
#[derive(Default)]
pub(super) struct Oddities {
    /// Spans that were exported twice.
    pub(super) twice: u64,
    /// Spans that have the id of another.
    pub(super) same_id: u64,
    pub(super) failed_requests: u64,
}

/// A run with what decides when it leaves: its start, and the position of its agent in the trace.
pub(super) struct Timed {
    pub(super) start: u64,
    pub(super) agent: Option<usize>,
    pub(super) run: Run,
}

/// All spans of a trace, each once.
struct Trace<'t> {
    id: &'t str,
    spans: Vec<Held>,
    /// Position by span id.
    places: BTreeMap<SpanId, usize>,
    services: &'t [Option<NameId>],
}

/// The runs of a trace.
pub(super) fn runs(
    id: &str,
    held: Vec<Held>,
    services: &[Option<NameId>],
    odd: &mut Oddities,
    out: &mut Out,
) -> Result<Vec<Timed>, Stopped> {
    let mut trace = Trace {
        id,
        spans: Vec::with_capacity(held.len()),
        places: BTreeMap::new(),
        services,
    };
    for span in held {
        trace.place(span, odd);
    }
    trace.runs(odd, out)
}

impl Trace<'_> {
    fn place(&mut self, span: Held, odd: &mut Oddities) {
        if span.id.is_missing() {
            self.spans.push(span);
            return;
        }
        let Some(at) = self.places.get(&span.id) else {
            self.places.insert(span.id.clone(), self.spans.len());
            self.spans.push(span);
            return;
        };
        let other = &mut self.spans[*at];
        if span.start != other.start {
            odd.same_id += 1;
            self.spans.push(span);
            return;
        }
        odd.twice += 1;
        if span.end > other.end {
            *other = span;
        }
    }

    /// The agent that a span belongs to, by position: its nearest ancestor of that kind.
    fn agent_of(&self, span: &Held) -> Option<usize> {
        const DEEPEST: usize = 1000;
        let mut parent = &span.parent;
        for _ in 0..DEEPEST {
            let at = *self.places.get(parent)?;
            let above = &self.spans[at];
            if matches!(above.kind, Kind::Agent(_)) {
                return Some(at);
            }
            parent = &above.parent;
        }
        None
    }

    fn runs(&self, odd: &mut Oddities, out: &mut Out) -> Result<Vec<Timed>, Stopped> {
        let mut groups: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        let mut has_children = vec![false; self.spans.len()];
        for (at, span) in self.spans.iter().enumerate() {
            match span.kind {
                Kind::Other => {}
                Kind::Agent(_) => {
                    if let Some(above) = self.agent_of(span) {
                        has_children[above] = true;
                    }
                    groups.entry(Some(at)).or_default();
                }
                Kind::Model { .. } | Kind::Tool { .. } => {
                    groups.entry(self.agent_of(span)).or_default().push(at);
                }
            }
        }
        let mut runs = Vec::new();
        for (agent, mut members) in groups {
            // An agent that only hands work on to others has no run of its own.
            if members.is_empty() && agent.is_some_and(|at| has_children[at]) {
                continue;
            }
            members.sort_by_key(|at| (self.spans[*at].start, self.spans[*at].end, *at));
            let first = agent.or(members.first().copied());
            let start = first.map_or(0, |at| self.spans[at].start);
            let run = self.run(agent, &members, out)?;
            odd.failed_requests += u64::from(run.failed_requests);
            runs.push(Timed { start, agent, run });
        }
        Ok(runs)
    }

    fn run(&self, agent: Option<usize>, members: &[usize], out: &mut Out) -> Result<Run, Stopped> {
        let mut turns: Vec<(Turn, Vec<Call>)> = Vec::new();
        let mut early = Vec::new();
        let (mut first_model, mut last_finish, mut failures, mut all_calls) = (None, None, 0, 0);
        for at in members {
            let span = &self.spans[*at];
            match &span.kind {
                Kind::Model { failed: true, .. } => failures += 1,
                Kind::Model {
                    turn,
                    model,
                    finish,
                    ..
                } => {
                    first_model = first_model.or(*model);
                    last_finish = *finish;
                    turns.push((**turn, std::mem::take(&mut early)));
                }
                Kind::Tool {
                    name,
                    args,
                    result,
                    error,
                } => {
                    all_calls += 1;
                    let call = Call {
                        tool: *name,
                        args: *args,
                        result: *result,
                        error: *error,
                        latency: took(span.start, span.end),
                    };
                    match turns.last_mut() {
                        Some((_, calls)) => calls.push(call),
                        None => early.push(call),
                    }
                }
                Kind::Agent(_) | Kind::Other => {}
            }
        }
        if let Err(found) = within(turns.len(), all_calls) {
            let found = format!("{found} in a run of the trace {}", self.id);
            return Err(out.stop(found, "shorter runs"));
        }
        let label = self.label(agent, members, first_model, out);
        let source = out.name(&label)?;
        let last_calls = turns.last().map_or(0, |(_, calls)| calls.len());
        let mut run = Run::of_turns(source, self.run_id(agent), turns);
        run.final_answer = match last_finish.map(|finish| out.text(finish)) {
            // Cut, or calls whose spans are missing: no answer.
            Some("length" | "max_tokens" | "content_filter") => Some(false),
            Some("tool_calls" | "tool_call" | "tool_use") if last_calls == 0 => Some(false),
            _ => None,
        };
        run.exit = last_finish;
        run.model = first_model;
        run.failed_requests = failures;
        Ok(run)
    }

    fn agent(&self, at: Option<usize>) -> Option<&Agent> {
        match &self.spans[at?].kind {
            Kind::Agent(agent) => Some(agent),
            _ => None,
        }
    }

    /// `service/agent:model`, of which what is not known is left out.
    fn label(
        &self,
        agent: Option<usize>,
        members: &[usize],
        model: Option<NameId>,
        out: &Out,
    ) -> String {
        let place = agent.or(members.first().copied());
        let service = place.and_then(|at| self.services[self.spans[at].service as usize]);
        let service = service.map(|name| out.text(name));
        let name = self.agent(agent).and_then(|agent| agent.name.as_deref());
        let mut label = match (service, name) {
            (None, None) => "otlp".to_owned(),
            (None, Some(name)) => name.to_owned(),
            (Some(service), None) => service.to_owned(),
            (Some(service), Some(name)) => format!("{service}/{name}"),
        };
        if let Some(model) = model {
            label = format!("{label}:{}", out.text(model));
        }
        label
    }

    /// The conversation where the agent names one, else the trace, with the agent's span.
    fn run_id(&self, agent: Option<usize>) -> String {
        let Some(at) = agent else {
            return self.id.to_owned();
        };
        let span = &self.spans[at].id;
        match self
            .agent(agent)
            .and_then(|agent| agent.conversation.as_deref())
        {
            Some(conversation) => format!("{conversation}/{span}"),
            None => format!("{}/{span}", self.id),
        }
    }
}
