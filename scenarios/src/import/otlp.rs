//! OpenTelemetry spans with GenAI attributes, as OTLP/JSON.
//!
//! Attribute names of the current semantic conventions (`gen_ai.provider.name`,
//! `gen_ai.usage.input_tokens`, `gen_ai.usage.cache_read.input_tokens` ...) and of the previous ones
//! (`gen_ai.system`, `gen_ai.usage.prompt_tokens`, `gen_ai.usage.completion_tokens`,
//! `llm.request.type` ...), and the cost that some exporters add (`gen_ai.usage.cost`,
//! `operation.cost`).
//!
//! A run is an `invoke_agent` span with the model calls and tool calls whose nearest agent it is, so
//! several agents of a trace are several runs; a trace without agents is one run. Spans may come in
//! any order and from interleaved traces: they are put in order by their start. A span exported
//! twice counts once, the copy that ended last; another span under its id, told by its start, counts too. A failed model request without usage is a retry, not
//! a turn.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::num::NonZeroU64;

use serde::Deserialize;

use super::usage::{Dollars, identity};
use super::{Imported, document};
use crate::read::FileError;
use crate::trace::{Call, MAX_TOKENS, Run, Turn};

#[derive(Deserialize)]
struct Export {
    #[serde(alias = "resource_spans")]
    #[serde(rename = "resourceSpans")]
    resources: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
struct ResourceSpans {
    #[serde(default)]
    resource: Resource,
    #[serde(
        default,
        rename = "scopeSpans",
        alias = "scope_spans",
        alias = "instrumentationLibrarySpans"
    )]
    scopes: Vec<ScopeSpans>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
struct ScopeSpans {
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Attribute {
    key: String,
    #[serde(default)]
    value: AnyValue,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnyValue {
    string_value: Option<String>,
    int_value: Option<Number>,
    double_value: Option<f64>,
    array_value: Option<ArrayValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ArrayValue {
    values: Vec<AnyValue>,
}

/// A 64-bit integer, which JSON of protocol buffers writes as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Text(String),
    Whole(i64),
    Real(f64),
}

impl Number {
    fn text(&self) -> String {
        match self {
            Number::Text(text) => text.clone(),
            Number::Whole(number) => number.to_string(),
            Number::Real(number) => number.to_string(),
        }
    }
}

impl AnyValue {
    /// The value as text; of a list its last.
    fn text(self) -> Option<String> {
        if let Some(text) = self.string_value {
            return Some(text);
        }
        if let Some(number) = self.int_value {
            return Some(number.text());
        }
        if let Some(number) = self.double_value {
            return Some(number.to_string());
        }
        self.array_value?.values.pop()?.text()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpan {
    #[serde(default, alias = "trace_id")]
    trace_id: String,
    #[serde(default, alias = "span_id")]
    span_id: String,
    #[serde(default, alias = "parent_span_id")]
    parent_span_id: String,
    #[serde(default)]
    name: String,
    #[serde(default, alias = "start_time_unix_nano")]
    start_time_unix_nano: Option<Number>,
    #[serde(default, alias = "end_time_unix_nano")]
    end_time_unix_nano: Option<Number>,
    #[serde(default)]
    attributes: Vec<Attribute>,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: Option<Number>,
}

/// A span without its texts.
#[derive(Deserialize)]
#[serde(try_from = "RawSpan")]
struct Span {
    trace: String,
    id: String,
    parent: String,
    /// Nanoseconds since 1970.
    start: u64,
    end: u64,
    kind: Kind,
}

enum Kind {
    Agent {
        name: Option<String>,
        conversation: Option<String>,
    },
    Model {
        turn: Turn,
        model: Option<String>,
        finish: Option<String>,
        /// It failed and brought nothing.
        failed: bool,
    },
    Tool {
        name: String,
        args: Option<NonZeroU64>,
        result: Option<NonZeroU64>,
        error: bool,
    },
    Other,
}

/// The attributes of a span, by key.
struct Attributes(BTreeMap<String, String>);

impl Attributes {
    fn of(list: Vec<Attribute>) -> Attributes {
        let text = |attribute: Attribute| Some((attribute.key, attribute.value.text()?));
        Attributes(list.into_iter().filter_map(text).collect())
    }

    /// The first of these keys that is there.
    fn get(&self, keys: &[&str]) -> Option<&str> {
        keys.iter()
            .find_map(|key| self.0.get(*key).map(String::as_str))
    }

    fn owned(&self, keys: &[&str]) -> Option<String> {
        self.get(keys).map(str::to_owned)
    }

    fn tokens(&self, keys: &[&str]) -> Result<Option<u64>, String> {
        let Some(text) = self.get(keys) else {
            return Ok(None);
        };
        match text.parse::<u64>() {
            Ok(tokens) if tokens <= MAX_TOKENS => Ok(Some(tokens)),
            _ => Err(format!(
                "`{}` is {}, not a whole number from 0 to {MAX_TOKENS}",
                keys[0],
                text.chars().take(40).collect::<String>()
            )),
        }
    }
}

const OPERATION: &[&str] = &["gen_ai.operation.name", "llm.request.type"];
const MODEL: &[&str] = &["gen_ai.request.model", "gen_ai.response.model"];
const INPUT: &[&str] = &[
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.usage.prompt_tokens",
];
const OUTPUT: &[&str] = &[
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
];
const CACHED: &[&str] = &[
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.input_tokens.cached",
];
const CACHE_WRITE: &[&str] = &[
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
];
const REASONING: &[&str] = &[
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.output_tokens.reasoning",
];
const COST: &[&str] = &["gen_ai.usage.cost", "operation.cost", "gen_ai.cost.total"];
const AGENT: &[&str] = &["gen_ai.agent.name", "gen_ai.agent.id"];
const TOOL: &[&str] = &["gen_ai.tool.name", "tool.name"];

impl TryFrom<RawSpan> for Span {
    type Error = String;

    fn try_from(raw: RawSpan) -> Result<Span, String> {
        let nanos = |number: Option<Number>| {
            number.map_or(Ok(0), |number| {
                let text = number.text();
                text.parse::<u64>()
                    .map_err(|_| format!("a time of {text:.40}, not nanoseconds since 1970"))
            })
        };
        let start = nanos(raw.start_time_unix_nano)?;
        let end = nanos(raw.end_time_unix_nano)?;
        let attributes = Attributes::of(raw.attributes);
        let code = raw.status.code.as_ref().map(Number::text);
        let error = matches!(code.as_deref(), Some("2" | "STATUS_CODE_ERROR"))
            || attributes.get(&["error.type"]).is_some();
        let kind = kind(&raw.name, &attributes, error)
            .map_err(|message| format!("span {}: {message}", raw.span_id))?;
        let mut span = Span {
            trace: raw.trace_id,
            id: raw.span_id,
            parent: raw.parent_span_id,
            start,
            end,
            kind,
        };
        let took = span.took();
        if let Kind::Model { turn, .. } = &mut span.kind {
            turn.latency = took;
        }
        Ok(span)
    }
}

impl Span {
    fn took(&self) -> Option<i64> {
        let known = self.start > 0 && self.end >= self.start;
        known.then(|| i64::try_from((self.end - self.start) / 1000).unwrap_or(i64::MAX))
    }
}

fn kind(name: &str, attributes: &Attributes, error: bool) -> Result<Kind, String> {
    let operation = attributes
        .get(OPERATION)
        .or_else(|| name.split_whitespace().next())
        .unwrap_or_default();
    Ok(match operation {
        "invoke_agent" | "agent" => Kind::Agent {
            name: attributes.owned(AGENT),
            conversation: attributes.owned(&["gen_ai.conversation.id"]),
        },
        "execute_tool" | "tool" => Kind::Tool {
            name: attributes
                .owned(TOOL)
                .or_else(|| name.split_once(' ').map(|(_, tool)| tool.to_owned()))
                .unwrap_or_else(|| "tool".to_owned()),
            args: attributes
                .get(&["gen_ai.tool.call.arguments"])
                .map(identity),
            result: attributes.get(&["gen_ai.tool.call.result"]).map(identity),
            error,
        },
        "chat" | "generate_content" | "text_completion" | "completion" => {
            model_call(attributes, error)?
        }
        "embeddings" | "create_agent" | "invoke_workflow" => Kind::Other,
        _ if attributes.get(MODEL).is_some() && attributes.get(INPUT).is_some() => {
            model_call(attributes, error)?
        }
        _ => Kind::Other,
    })
}

fn model_call(attributes: &Attributes, error: bool) -> Result<Kind, String> {
    let cost = attributes.get(COST).map(Dollars::parse).transpose()?;
    let turn = Turn {
        input_tokens: attributes.tokens(INPUT)?,
        output_tokens: attributes.tokens(OUTPUT)?,
        cached_tokens: attributes.tokens(CACHED)?,
        cache_write_tokens: attributes.tokens(CACHE_WRITE)?,
        reasoning_tokens: attributes.tokens(REASONING)?,
        cost: cost.map(|cost| cost.0),
        ..Turn::default()
    };
    Ok(Kind::Model {
        turn,
        model: attributes.owned(MODEL),
        finish: attributes.owned(&[
            "gen_ai.response.finish_reasons",
            "gen_ai.response.finish_reason",
        ]),
        failed: error && turn.output_tokens.is_none(),
    })
}

/// A span with the service that exported it.
struct Placed {
    span: Span,
    service: usize,
}

/// All spans of a file.
#[derive(Default)]
struct Spans {
    services: Vec<String>,
    spans: Vec<Placed>,
    /// Position by trace and span id.
    places: BTreeMap<(String, String), usize>,
    twice: u64,
    /// Spans that have the id of another.
    same_id: u64,
}

/// Reads the runs of a file.
pub(super) fn read(
    file: &str,
    input: Box<dyn BufRead + Send>,
) -> Result<(Vec<Run>, Imported), FileError> {
    let mut spans = Spans::default();
    let expected = "an OTLP/JSON export of spans";
    document::each(file, input, expected, |export: Export| {
        for resource in export.resources {
            spans.add(resource);
        }
        Ok(())
    })?;
    spans.runs(file)
}

impl Spans {
    fn add(&mut self, resource: ResourceSpans) {
        let attributes = Attributes::of(resource.resource.attributes);
        let name = attributes.get(&["service.name"]).unwrap_or_default();
        let known = self.services.iter().position(|service| service == name);
        let service = known.unwrap_or_else(|| {
            self.services.push(name.to_owned());
            self.services.len() - 1
        });
        for span in resource.scopes.into_iter().flat_map(|scope| scope.spans) {
            self.place(Placed { span, service });
        }
    }

    fn place(&mut self, placed: Placed) {
        let key = (placed.span.trace.clone(), placed.span.id.clone());
        if placed.span.id.is_empty() {
            self.spans.push(placed);
            return;
        }
        if let Some(at) = self.places.get(&key) {
            if placed.span.start != self.spans[*at].span.start {
                self.same_id += 1;
                self.spans.push(placed);
                return;
            }
            self.twice += 1;
            if placed.span.end > self.spans[*at].span.end {
                self.spans[*at] = placed;
            }
            return;
        }
        self.places.insert(key, self.spans.len());
        self.spans.push(placed);
    }

    /// The agent that a span belongs to, by position: its nearest ancestor of that kind.
    fn agent_of(&self, span: &Span) -> Option<usize> {
        const DEEPEST: usize = 1000;
        let mut parent = &span.parent;
        for _ in 0..DEEPEST {
            let at = *self.places.get(&(span.trace.clone(), parent.clone()))?;
            let above = &self.spans[at].span;
            if matches!(above.kind, Kind::Agent { .. }) {
                return Some(at);
            }
            parent = &above.parent;
        }
        None
    }

    fn runs(self, file: &str) -> Result<(Vec<Run>, Imported), FileError> {
        let mut groups: BTreeMap<(Option<usize>, &str), Vec<usize>> = BTreeMap::new();
        let mut has_children = vec![false; self.spans.len()];
        for (at, placed) in self.spans.iter().enumerate() {
            let span = &placed.span;
            let group = match span.kind {
                Kind::Other => continue,
                Kind::Agent { .. } => {
                    if let Some(above) = self.agent_of(span) {
                        has_children[above] = true;
                    }
                    groups.entry((Some(at), &span.trace)).or_default();
                    continue;
                }
                _ => (self.agent_of(span), span.trace.as_str()),
            };
            groups.entry(group).or_default().push(at);
        }
        let mut imported = Imported::default();
        let mut runs = Vec::new();
        for ((agent, trace), mut members) in groups {
            // An agent that only hands work on to others has no run of its own.
            if members.is_empty() && agent.is_some_and(|at| has_children[at]) {
                continue;
            }
            members.sort_by_key(|at| (self.spans[*at].span.start, self.spans[*at].span.end, *at));
            let first = agent.or(members.first().copied());
            let start = first.map_or(0, |at| self.spans[at].span.start);
            let run = self.run(agent, trace, &members, file, &mut imported)?;
            runs.push((start, run));
        }
        runs.sort_by_key(|(start, _)| *start);
        if self.twice > 0 {
            let remark = format!("{file}: {} spans exported twice count once", self.twice);
            imported.remarks.push(remark);
        }
        if self.same_id > 0 {
            let remark = format!(
                "{file}: {} spans have the id of another span of their trace and count beside it",
                self.same_id
            );
            imported.remarks.push(remark);
        }
        let failed: u64 = runs
            .iter()
            .map(|(_, run)| u64::from(run.failed_requests))
            .sum();
        if failed > 0 {
            let remark = format!("{file}: {failed} failed model requests are no turns");
            imported.remarks.push(remark);
        }
        Ok((runs.into_iter().map(|(_, run)| run).collect(), imported))
    }

    fn run(
        &self,
        agent: Option<usize>,
        trace: &str,
        members: &[usize],
        file: &str,
        imported: &mut Imported,
    ) -> Result<Run, FileError> {
        let mut turns: Vec<(Turn, Vec<Call>)> = Vec::new();
        let mut early = Vec::new();
        let (mut model, mut finish, mut failures) = (None, None, 0);
        for at in members {
            let span = &self.spans[*at].span;
            match &span.kind {
                Kind::Model { failed: true, .. } => failures += 1,
                Kind::Model {
                    turn,
                    model: called,
                    finish: reason,
                    ..
                } => {
                    model = model.or(called.as_deref());
                    finish = reason.as_deref();
                    turns.push((*turn, std::mem::take(&mut early)));
                }
                Kind::Tool {
                    name,
                    args,
                    result,
                    error,
                } => {
                    let call = Call {
                        tool: imported.name(file, name)?,
                        args: *args,
                        result: *result,
                        error: *error,
                        latency: span.took(),
                    };
                    match turns.last_mut() {
                        Some((_, calls)) => calls.push(call),
                        None => early.push(call),
                    }
                }
                Kind::Agent { .. } | Kind::Other => {}
            }
        }
        let label = self.label(agent, members, model);
        let source = imported.name(file, &label)?;
        let last_calls = turns.last().map_or(0, |(_, calls)| calls.len());
        let run_id = self.run_id(agent, trace);
        let mut run = Run::of_turns(source, run_id, turns);
        run.final_answer = match finish {
            // Cut, or calls whose spans are missing: no answer.
            Some("length" | "max_tokens" | "content_filter") => Some(false),
            Some("tool_calls" | "tool_call" | "tool_use") if last_calls == 0 => Some(false),
            _ => None,
        };
        run.exit = imported.maybe_name(file, finish)?;
        run.model = imported.maybe_name(file, model)?;
        run.failed_requests = failures;
        Ok(run)
    }

    /// `service/agent:model`, of which what is not known is left out.
    fn label(&self, agent: Option<usize>, members: &[usize], model: Option<&str>) -> String {
        let place = agent.or(members.first().copied());
        let service = place.map_or("", |at| self.services[self.spans[at].service].as_str());
        let name = agent.and_then(|at| match &self.spans[at].span.kind {
            Kind::Agent { name, .. } => name.as_deref(),
            _ => None,
        });
        let mut label = match (service, name) {
            ("", None) => "otlp".to_owned(),
            ("", Some(name)) => name.to_owned(),
            (service, None) => service.to_owned(),
            (service, Some(name)) => format!("{service}/{name}"),
        };
        if let Some(model) = model {
            label = format!("{label}:{model}");
        }
        label
    }

    /// The conversation where the agent names one, else the trace, with the agent's span.
    fn run_id(&self, agent: Option<usize>, trace: &str) -> String {
        let Some(at) = agent else {
            return trace.to_owned();
        };
        let span = &self.spans[at].span;
        match &span.kind {
            Kind::Agent {
                conversation: Some(conversation),
                ..
            } => format!("{conversation}/{}", span.id),
            _ => format!("{trace}/{}", span.id),
        }
    }
}
