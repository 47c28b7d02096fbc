//! A span as it stands in the file, and what is kept of it.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use holdback_engine::protocol::Micros;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::import::document::{Stopped, or_default};
use crate::import::stream::Out;
use crate::import::usage::{Dollars, identity};
use crate::trace::{MAX_TOKENS, NameId, Turn};

/// What a resource tells of its spans.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Resource {
    #[serde(deserialize_with = "or_default")]
    attributes: Vec<Attribute>,
}

impl Resource {
    /// The service that exported them, if it has a name.
    pub(super) fn service(self) -> Option<String> {
        let attributes = Attributes::of(self.attributes);
        let name = attributes.owned(&["service.name"]);
        name.filter(|name| !name.is_empty())
    }
}

#[derive(Deserialize)]
struct Attribute {
    key: String,
    #[serde(default, deserialize_with = "or_default")]
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
    #[serde(deserialize_with = "or_default")]
    values: Vec<AnyValue>,
}

/// A time in nanoseconds since 1970, which some exporters write as a number.
#[derive(Clone, Copy)]
pub(super) struct Nanos(pub(super) u64);

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        struct Time;
        impl Visitor<'_> for Time {
            type Value = Nanos;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nanoseconds since 1970")
            }
            fn visit_u64<E: Error>(self, nanos: u64) -> Result<Nanos, E> {
                Ok(Nanos(nanos))
            }
            fn visit_i64<E: Error>(self, nanos: i64) -> Result<Nanos, E> {
                self.visit_str(&nanos.to_string())
            }
            fn visit_f64<E: Error>(self, nanos: f64) -> Result<Nanos, E> {
                self.visit_str(&nanos.to_string())
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Nanos, E> {
                text.parse().map(Nanos).map_err(|_| {
                    E::custom(format!("a time of {text:.40}, not nanoseconds since 1970"))
                })
            }
        }
        from.deserialize_any(Time)
    }
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
    #[serde(default, alias = "trace_id", deserialize_with = "or_default")]
    trace_id: String,
    #[serde(default, alias = "span_id", deserialize_with = "or_default")]
    span_id: String,
    #[serde(default, alias = "parent_span_id", deserialize_with = "or_default")]
    parent_span_id: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, alias = "start_time_unix_nano")]
    start_time_unix_nano: Option<Nanos>,
    #[serde(default, alias = "end_time_unix_nano")]
    end_time_unix_nano: Option<Nanos>,
    #[serde(default, deserialize_with = "or_default")]
    attributes: Vec<Attribute>,
    #[serde(default, deserialize_with = "or_default")]
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
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) kind: Kind<String>,
}

/// What a span stands for, with names as `N`. Many are held, so what is large is apart.
pub(super) enum Kind<N> {
    Agent(Box<Agent>),
    Model {
        turn: Box<Turn>,
        model: Option<N>,
        finish: Option<N>,
        /// It failed and brought nothing.
        failed: bool,
    },
    Tool {
        name: N,
        args: Option<NonZeroU64>,
        result: Option<NonZeroU64>,
        error: bool,
    },
    Other,
}

pub(super) struct Agent {
    pub(super) name: Option<String>,
    pub(super) conversation: Option<String>,
}

impl Kind<String> {
    /// With each name in the place of its text.
    pub(super) fn named(self, out: &mut Out) -> Result<Kind<NameId>, Stopped> {
        Ok(match self {
            Kind::Agent(agent) => Kind::Agent(agent),
            Kind::Model {
                turn,
                model,
                finish,
                failed,
            } => Kind::Model {
                turn,
                model: out.maybe_name(model.as_deref())?,
                finish: out.maybe_name(finish.as_deref())?,
                failed,
            },
            Kind::Tool {
                name,
                args,
                result,
                error,
            } => Kind::Tool {
                name: out.name(&name)?,
                args,
                result,
                error,
            },
            Kind::Other => Kind::Other,
        })
    }
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
        let nanos = |nanos: Option<Nanos>| nanos.map_or(0, |nanos| nanos.0);
        let start = nanos(raw.start_time_unix_nano);
        let end = nanos(raw.end_time_unix_nano);
        let attributes = Attributes::of(raw.attributes);
        let code = raw.status.code.as_ref().map(Number::text);
        let error = matches!(code.as_deref(), Some("2" | "STATUS_CODE_ERROR"))
            || attributes.get(&["error.type"]).is_some();
        let mut kind = kind(&raw.name, &attributes, error)
            .map_err(|message| format!("span {}: {message}", raw.span_id))?;
        if let Kind::Model { turn, .. } = &mut kind {
            turn.latency = took(start, end);
        }
        Ok(Span {
            trace: raw.trace_id,
            id: raw.span_id,
            parent: raw.parent_span_id,
            start,
            end,
            kind,
        })
    }
}

/// How long a span took; `None` where its times are not known.
pub(super) fn took(start: u64, end: u64) -> Option<Micros> {
    let known = start > 0 && end >= start;
    known.then(|| i64::try_from((end - start) / 1000).unwrap_or(i64::MAX))
}

fn kind(name: &str, attributes: &Attributes, error: bool) -> Result<Kind<String>, String> {
    let operation = attributes
        .get(OPERATION)
        .or_else(|| name.split_whitespace().next())
        .unwrap_or_default();
    Ok(match operation {
        "invoke_agent" | "agent" => Kind::Agent(Box::new(Agent {
            name: attributes.owned(AGENT),
            conversation: attributes.owned(&["gen_ai.conversation.id"]),
        })),
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

fn model_call(attributes: &Attributes, error: bool) -> Result<Kind<String>, String> {
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
    let failed = error && turn.output_tokens.is_none();
    Ok(Kind::Model {
        turn: Box::new(turn),
        model: attributes.owned(MODEL),
        finish: attributes.owned(&[
            "gen_ai.response.finish_reasons",
            "gen_ai.response.finish_reason",
        ]),
        failed,
    })
}
