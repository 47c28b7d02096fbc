//! Result files of tau2-bench: one file, many simulations of one agent.
//!
//! A turn is a message of the agent. The scripted greeting, which no model wrote, is dropped, and so
//! is what the simulated user says and calls. A cost of 0 without usage is "not recorded".

use std::io::BufRead;
use std::num::NonZeroU64;

use holdback_engine::Money;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::{ChatUsage, Dollars, identity, micros};
use super::{Imported, document};
use crate::read::FileError;
use crate::trace::{Call, Run, Turn};

#[derive(Deserialize)]
struct Results {
    #[serde(default)]
    info: Info,
    simulations: Vec<Simulation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    agent_info: AgentInfo,
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

/// A simulation without its texts.
#[derive(Deserialize)]
#[serde(from = "RawSimulation")]
struct Simulation {
    id: String,
    termination: Option<String>,
    turns: Vec<(Turn, Vec<Proposed>)>,
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
struct RawSimulation {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    task_id: Option<TaskId>,
    #[serde(default)]
    trial: Option<i64>,
    #[serde(default)]
    termination_reason: Option<String>,
    messages: Vec<Message>,
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

impl From<RawSimulation> for Simulation {
    fn from(raw: RawSimulation) -> Simulation {
        let mut turns: Vec<(Turn, Vec<Proposed>)> = Vec::new();
        for (at, message) in raw.messages.into_iter().enumerate() {
            match message.role.as_str() {
                "assistant" if at == 0 && message.is_greeting() => {}
                "assistant" => {
                    let turn = message.turn();
                    let calls = message.tool_calls.unwrap_or_default();
                    turns.push((turn, calls.into_iter().map(Proposed::from).collect()));
                }
                "tool" => {
                    let results = message.tool_messages.unwrap_or_else(|| {
                        vec![ToolMessage {
                            id: message.id.unwrap_or_default(),
                            content: message.content,
                            error: message.error,
                        }]
                    });
                    if let Some((_, calls)) = turns.last_mut() {
                        results.iter().for_each(|result| answer(calls, result));
                    }
                }
                _ => {}
            }
        }
        let task = raw.task_id.map(|id| match id {
            TaskId::Text(text) => text,
            TaskId::Number(number) => number.to_string(),
        });
        let by_task = || format!("{}/{}", task.unwrap_or_default(), raw.trial.unwrap_or(0));
        Simulation {
            id: raw.id.unwrap_or_else(by_task),
            termination: raw.termination_reason,
            turns,
        }
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

/// Reads the runs of a file.
pub(super) fn read(
    file: &str,
    input: Box<dyn BufRead + Send>,
) -> Result<(Vec<Run>, Imported), FileError> {
    let mut imported = Imported::default();
    let mut runs = Vec::new();
    document::each(file, input, "a result file of tau2", |results: Results| {
        let llm = results.info.agent_info.llm;
        let mut label = "tau2".to_owned();
        if let Some(domain) = &results.info.environment_info.domain_name {
            label = format!("{label}/{domain}");
        }
        if let Some(llm) = &llm {
            label = format!("{label}:{llm}");
        }
        let source = imported.name(file, &label)?;
        let model = imported.maybe_name(file, llm.as_deref())?;
        for simulation in results.simulations {
            let mut turns = Vec::with_capacity(simulation.turns.len());
            for (turn, proposed) in simulation.turns {
                let mut call = |call: Proposed| -> Result<Call, FileError> {
                    Ok(Call {
                        tool: imported.name(file, &call.tool)?,
                        args: Some(call.arguments),
                        result: call.result,
                        error: call.error,
                        latency: None,
                    })
                };
                let calls: Result<_, _> = proposed.into_iter().map(&mut call).collect();
                turns.push((turn, calls?));
            }
            let mut run = Run::of_turns(source, simulation.id, turns);
            let ending = simulation.termination.as_deref();
            run.final_answer = ending.and_then(answered);
            run.exit = imported.maybe_name(file, ending)?;
            run.model = model;
            runs.push(run);
        }
        Ok(())
    })?;
    Ok((runs, imported))
}

/// Whether a talk that ended so ended with an answer; `None` where that cannot be told.
fn answered(termination: &str) -> Option<bool> {
    match termination {
        "user_stop" | "agent_stop" => Some(true),
        "max_steps" | "too_many_errors" | "agent_error" | "user_error" | "timeout" => Some(false),
        _ => None,
    }
}
