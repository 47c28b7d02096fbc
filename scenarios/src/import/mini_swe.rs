//! Trajectories of mini-swe-agent: one file, one run.
//!
//! A turn is an `assistant` message. In version 1 its one fenced shell block is the call and the next
//! message the observation; a message with none or several is a format error without a call. In
//! version 2 the calls stand in `extra.actions` and each observation names its return code.

use std::collections::VecDeque;
use std::io::BufRead;
use std::num::NonZeroU64;

use serde::Deserialize;

use super::document::{self, Fold, Stopped};
use super::stream::Out;
use super::usage::{ChatUsage, Dollars, identity};
use crate::read::FileError;
use crate::trace::{Call, Run, Turn};

/// The tool behind every call.
const SHELL: &str = "bash";

#[derive(Deserialize)]
struct Trajectory {
    #[serde(default, deserialize_with = "document::or_default")]
    info: Info,
    #[serde(deserialize_with = "document::folded")]
    messages: Talk,
    #[serde(default)]
    instance_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    exit_status: Option<String>,
    #[serde(deserialize_with = "document::or_default")]
    config: Config,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(deserialize_with = "document::or_default")]
    model: ModelConfig,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelConfig {
    model_name: Option<String>,
}

/// The turns of the messages so far, each with its calls.
#[derive(Default)]
struct Talk {
    turns: Vec<(Turn, Vec<Shell>)>,
    /// Calls of the last turn that wait for their observation, by position.
    waiting: VecDeque<usize>,
}

/// A call of the one tool.
struct Shell {
    command: NonZeroU64,
    result: Option<NonZeroU64>,
    error: bool,
}

impl Fold for Talk {
    type Message = Step;

    fn take(&mut self, step: Step) -> usize {
        match step {
            Step::Spoken { turn, commands } => {
                let number = commands.len();
                self.waiting = (0..number).collect();
                let calls = commands.into_iter().map(|command| Shell {
                    command,
                    result: None,
                    error: false,
                });
                self.turns.push((turn, calls.collect()));
                return number;
            }
            Step::Observed { result, error } => {
                if let (Some(at), Some((_, calls))) =
                    (self.waiting.pop_front(), self.turns.last_mut())
                {
                    calls[at].result = Some(result);
                    calls[at].error = error;
                }
            }
            Step::Other => {}
        }
        0
    }

    fn turns(&self) -> usize {
        self.turns.len()
    }
}

/// A message without its text.
#[derive(Deserialize)]
#[serde(from = "Message")]
enum Step {
    Spoken {
        turn: Turn,
        commands: Vec<NonZeroU64>,
    },
    Observed {
        result: NonZeroU64,
        error: bool,
    },
    Other,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    extra: Option<Extra>,
}

/// A text, or a list of parts of which the texts count.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

impl Content {
    fn text(self) -> String {
        match self {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Extra {
    response: Option<Response>,
    cost: Option<Dollars>,
    actions: Option<Vec<Action>>,
    returncode: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    usage: Option<ChatUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Action {
    command: String,
}

impl From<Message> for Step {
    fn from(message: Message) -> Step {
        let text = message.content.map(Content::text).unwrap_or_default();
        let extra = message.extra.unwrap_or_default();
        match message.role.as_str() {
            "assistant" => {
                let usage = extra.response.and_then(|response| response.usage);
                let mut turn = usage.unwrap_or_default().turn();
                turn.cost = turn.cost.or(extra.cost.map(|cost| cost.0));
                let commands = match extra.actions {
                    Some(actions) => actions
                        .iter()
                        .map(|action| identity(action.command.trim()))
                        .collect(),
                    None => fenced(&text).map(identity).into_iter().collect(),
                };
                Step::Spoken { turn, commands }
            }
            "user" | "tool" => Step::Observed {
                result: identity(&text),
                error: match extra.returncode {
                    Some(code) => code != 0,
                    None => failed(&text),
                },
            },
            _ => Step::Other,
        }
    }
}

/// The command of a message: its one fenced shell block.
fn fenced(text: &str) -> Option<&str> {
    let mut blocks = text.split("```bash").skip(1).filter_map(|rest| {
        let (first_line, body) = rest.split_once('\n')?;
        let (command, _) = body.split_once("\n```")?;
        first_line.trim().is_empty().then_some(command.trim())
    });
    let only = blocks.next()?;
    blocks.next().is_none().then_some(only)
}

/// Whether an observation of version 1 tells of a failure: a return code other than 0, or a time-out.
fn failed(text: &str) -> bool {
    let code = text
        .split_once("<returncode>")
        .and_then(|(_, rest)| rest.split_once("</returncode>"));
    match code {
        Some((code, _)) => code.trim() != "0",
        None => text.contains("timed out"),
    }
}

/// Reads the run of a file; `stem` names it where the trajectory does not.
pub(super) fn read(
    file: &str,
    stem: &str,
    input: Box<dyn BufRead + Send>,
    out: &mut Out,
) -> Result<(), FileError> {
    let expected = "a trajectory of mini-swe-agent";
    document::each(file, input, expected, |trajectory| {
        let run = run(trajectory, stem, out)?;
        out.run(run)
    })
}

fn run(trajectory: Trajectory, stem: &str, out: &mut Out) -> Result<Run, Stopped> {
    let shell = out.name(SHELL)?;
    let info = trajectory.info;
    let submitted = info.exit_status.as_deref() == Some("Submitted");
    let mut turns = trajectory.messages.turns;
    if let (true, Some((_, calls))) = (submitted, turns.last_mut()) {
        // What follows the submitting command is the submission, not an observation.
        for call in calls {
            call.result = None;
            call.error = false;
        }
    }
    let call = |call: Shell| Call {
        tool: shell,
        args: Some(call.command),
        result: call.result,
        error: call.error,
        latency: None,
    };
    let turns = turns
        .into_iter()
        .map(|(turn, calls)| (turn, calls.into_iter().map(call).collect()))
        .collect();
    let model = info.config.model.model_name;
    let label = match &model {
        Some(model) => format!("mini-swe-agent:{model}"),
        None => "mini-swe-agent".to_owned(),
    };
    let source = out.name(&label)?;
    let run_id = trajectory.instance_id.unwrap_or_else(|| stem.to_owned());
    let mut run = Run::of_turns(source, run_id, turns);
    run.final_answer = info.exit_status.is_some().then_some(submitted);
    run.exit = out.maybe_name(info.exit_status.as_deref())?;
    run.model = out.maybe_name(model.as_deref())?;
    Ok(run)
}
