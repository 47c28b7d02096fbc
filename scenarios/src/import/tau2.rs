//! Result files of tau2-bench: one file, many simulations of one agent.
//!
//! A turn is a message of the agent. The scripted greeting, which no model wrote, is dropped, and so
//! is what the simulated user says and calls. A cost of 0 without usage is "not recorded".
//!
//! Simulations are handed over one by one, and of each only one message is held with its texts. Whose
//! they are stands in `info`; where that comes after them, the file is read twice.

use std::num::NonZeroU64;

use holdback_engine::Money;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess};
use serde_json::value::RawValue;

use super::Content;
use super::document::{self, Each, Fold, Object, One, Stopped};
use super::stream::Out;
use super::usage::{ChatUsage, Dollars, identity, micros};
use crate::read::FileError;
use crate::trace::{Call, NameId, Run, Turn};

/// What stands beside the simulations.
#[derive(Deserialize)]
struct Heading {
    #[serde(default, deserialize_with = "document::or_default")]
    info: Info,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    #[serde(deserialize_with = "document::or_default")]
    agent_info: AgentInfo,
    #[serde(deserialize_with = "document::or_default")]
    environment_info: EnvironmentInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AgentInfo {
    llm: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EnvironmentInfo {
    domain_name: Option<String>,
}

/// A call of the agent, its tool by name.
struct Proposed {
    id: String,
    tool: String,
    arguments: NonZeroU64,
    result: Option<NonZeroU64>,
    error: bool,
}

#[derive(Deserialize)]
struct Simulation {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    task_id: Option<TaskId>,
    #[serde(default)]
    trial: Option<i64>,
    #[serde(default)]
    termination_reason: Option<String>,
    #[serde(deserialize_with = "document::folded")]
    messages: Talk,
}

/// The turns of the messages so far, each with its calls.
#[derive(Default)]
struct Talk {
    turns: Vec<(Turn, Vec<Proposed>)>,
    messages: usize,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TaskId {
    Text(String),
    Number(i64),
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    role: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(default)]
    tool_messages: Option<Vec<ToolMessage>>,
    #[serde(default)]
    error: Option<bool>,
    #[serde(default)]
    cost: Option<Dollars>,
    #[serde(default)]
    usage: Option<ChatUsage>,
    #[serde(default)]
    raw_data: Option<RawData>,
    #[serde(default)]
    generation_time_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct ToolCall {
    #[serde(default)]
    id: String,
    name: String,
    arguments: Box<RawValue>,
}

#[derive(Deserialize)]
struct ToolMessage {
    #[serde(default)]
    id: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    error: Option<bool>,
}

/// What the provider answered, which knows cached and reasoning tokens.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawData {
    usage: Option<ChatUsage>,
}

impl Message {
    fn is_greeting(&self) -> bool {
        self.usage.is_none()
            && self.raw_data.is_none()
            && self.tool_calls.as_ref().is_none_or(Vec::is_empty)
            && self.cost.is_none_or(|cost| cost.0 == Money::ZERO)
    }

    fn turn(&self) -> Turn {
        let reported = self.usage.as_ref().map(ChatUsage::turn);
        let raw = self
            .raw_data
            .as_ref()
            .and_then(|raw| raw.usage.as_ref())
            .map(ChatUsage::turn)
            .unwrap_or_default();
        let mut turn = reported.unwrap_or(raw);
        turn.input_tokens = turn.input_tokens.or(raw.input_tokens);
        turn.output_tokens = turn.output_tokens.or(raw.output_tokens);
        turn.cached_tokens = turn.cached_tokens.or(raw.cached_tokens);
        turn.cache_write_tokens = turn.cache_write_tokens.or(raw.cache_write_tokens);
        turn.reasoning_tokens = turn.reasoning_tokens.or(raw.reasoning_tokens);
        let cost = self.cost.map(|cost| cost.0);
        turn.cost = cost.filter(|cost| *cost != Money::ZERO || turn.input_tokens.is_some());
        turn.latency = self.generation_time_seconds.and_then(micros);
        turn
    }
}

impl Fold for Talk {
    type Message = Message;

    fn take(&mut self, message: Message) -> usize {
        let is_first = self.messages == 0;
        self.messages += 1;
        match message.role.as_str() {
            "assistant" if is_first && message.is_greeting() => {}
            "assistant" => {
                let turn = message.turn();
                let calls = message.tool_calls.unwrap_or_default();
                let number = calls.len();
                let calls = calls.into_iter().map(Proposed::from).collect();
                self.turns.push((turn, calls));
                return number;
            }
            "tool" => {
                let results = message.tool_messages.unwrap_or_else(|| {
                    vec![ToolMessage {
                        id: message.id.unwrap_or_default(),
                        content: message.content,
                        error: message.error,
                    }]
                });
                if let Some((_, calls)) = self.turns.last_mut() {
                    results.iter().for_each(|result| answer(calls, result));
                }
            }
            _ => {}
        }
        0
    }

    fn turns(&self) -> usize {
        self.turns.len()
    }
}

impl From<ToolCall> for Proposed {
    fn from(call: ToolCall) -> Proposed {
        Proposed {
            id: call.id,
            arguments: identity(call.arguments.get()),
            tool: call.name,
            result: None,
            error: false,
        }
    }
}

/// Gives a result to the call that it names; results of the user's own calls find none.
fn answer(calls: &mut [Proposed], result: &ToolMessage) {
    let open = |call: &&mut Proposed| call.id == result.id && call.result.is_none();
    if let Some(call) = calls.iter_mut().find(open) {
        call.result = Some(identity(result.content.as_deref().unwrap_or_default()));
        call.error = result.error.unwrap_or(false);
    }
}

/// Whose simulations those of a document are.
#[derive(Clone, Copy)]
struct Agent {
    source: NameId,
    model: Option<NameId>,
}

impl Info {
    fn agent(self, out: &mut Out) -> Result<Agent, Stopped> {
        let llm = self.agent_info.llm;
        let mut label = "tau2".to_owned();
        if let Some(domain) = &self.environment_info.domain_name {
            label = format!("{label}/{domain}");
        }
        if let Some(llm) = &llm {
            label = format!("{label}:{llm}");
        }
        Ok(Agent {
            source: out.name(&label)?,
            model: out.maybe_name(llm.as_deref())?,
        })
    }
}

/// The document that is being read.
struct Results<'o> {
    file: &'o str,
    content: &'o Content,
    out: &'o mut Out,
    agent: Option<Agent>,
    has_simulations: bool,
    /// Documents before this one.
    before: usize,
    /// The agents of all documents, once the file was read for them.
    agents: Option<Vec<Agent>>,
}

/// Reads the runs of a file.
pub(super) fn read(file: &str, content: &Content, out: &mut Out) -> Result<(), FileError> {
    let mut results = Results {
        file,
        content,
        out,
        agent: None,
        has_simulations: false,
        before: 0,
        agents: None,
    };
    document::walk(file, content()?, EXPECTED, |json| {
        One(&mut results).deserialize(json)
    })
}

const EXPECTED: &str = "a result file of tau2";

impl Object for Results<'_> {
    const EXPECTED: &'static str = "an object with `simulations`";

    fn begin(&mut self) {
        self.agent = None;
        self.has_simulations = false;
    }

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "info" => {
                let info = map.next_value::<Option<Info>>()?.unwrap_or_default();
                self.agent = Some(info.agent(self.out).map_err(A::Error::custom)?);
            }
            "simulations" => {
                self.has_simulations = true;
                let agent = self.agent().map_err(A::Error::custom)?;
                let out = &mut *self.out;
                let each = Each::to(|simulation: Simulation| {
                    let run = simulation.run(agent, out)?;
                    out.run(run)
                });
                map.next_value_seed(each)?;
            }
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn end<E: Error>(&mut self) -> Result<(), E> {
        self.before += 1;
        if self.has_simulations {
            return Ok(());
        }
        Err(E::missing_field("simulations"))
    }
}

impl Results<'_> {
    /// Whose simulations follow. Where that is not yet known, the file is read for it.
    fn agent(&mut self) -> Result<Agent, Stopped> {
        if let Some(agent) = self.agent {
            return Ok(agent);
        }
        if self.agents.is_none() {
            let mut agents = Vec::new();
            let out = &mut *self.out;
            let read = self.content.as_ref()().and_then(|input| {
                document::each(self.file, input, EXPECTED, |heading: Heading| {
                    agents.push(heading.info.agent(out)?);
                    Ok(())
                })
            });
            read.map_err(|error| self.out.fail(error))?;
            self.agents = Some(agents);
        }
        let agents = self.agents.as_deref().unwrap_or_default();
        match agents.get(self.before) {
            Some(agent) => Ok(*agent),
            None => Err(self.out.changed()),
        }
    }
}

impl Simulation {
    fn run(self, agent: Agent, out: &mut Out) -> Result<Run, Stopped> {
        let mut turns = Vec::with_capacity(self.messages.turns.len());
        for (turn, proposed) in self.messages.turns {
            let mut calls = Vec::with_capacity(proposed.len());
            for call in proposed {
                calls.push(Call {
                    tool: out.name(&call.tool)?,
                    args: Some(call.arguments),
                    result: call.result,
                    error: call.error,
                    latency: None,
                });
            }
            turns.push((turn, calls));
        }
        let task = self.task_id.map(|id| match id {
            TaskId::Text(text) => text,
            TaskId::Number(number) => number.to_string(),
        });
        let trial = self.trial.unwrap_or(0);
        let by_task = || format!("{}/{trial}", task.unwrap_or_default());
        let mut run = Run::of_turns(agent.source, self.id.unwrap_or_else(by_task), turns);
        let ending = self.termination_reason.as_deref();
        run.final_answer = ending.and_then(answered);
        run.exit = out.maybe_name(ending)?;
        run.model = agent.model;
        Ok(run)
    }
}

/// Whether a talk that ended so ended with an answer; `None` where that cannot be told.
fn answered(termination: &str) -> Option<bool> {
    match termination {
        "user_stop" | "agent_stop" => Some(true),
        "max_steps" | "too_many_errors" | "agent_error" | "user_error" | "timeout" => Some(false),
        _ => None,
    }
}
