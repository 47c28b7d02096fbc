//! Trajectories of mini-swe-agent: one file, one run.
//!
//! A turn is an `assistant` message. In version 1 its one fenced shell block is the call and the next
//! message the observation; a message with none or several is a format error without a call. In
//! version 2 the calls stand in `extra.actions` and each observation names its return code.

use std::collections::VecDeque;
use std::io::BufRead;
use std::num::NonZeroU64;

use serde::Deserialize;

use super::usage::{ChatUsage, Dollars, identity};
use super::{Imported, document};
use crate::read::FileError;
use crate::trace::{Call, Run, Turn};

/// The tool behind every call.
const SHELL: &str = "bash";

#[derive(Deserialize)]
struct Trajectory {
    #[serde(default)]
    info: Info,
    messages: Vec<Step>,
    #[serde(default)]
    instance_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    exit_status: Option<String>,
    config: Config,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    model: ModelConfig,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelConfig {
    model_name: Option<String>,
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
) -> Result<(Vec<Run>, Imported), FileError> {
    let mut imported = Imported::default();
    let mut runs = Vec::new();
    let expected = "a trajectory of mini-swe-agent";
    document::each(file, input, expected, |trajectory: Trajectory| {
        runs.push(run(trajectory, stem, &mut imported, file)?);
        Ok(())
    })?;
    Ok((runs, imported))
}

fn run(
    trajectory: Trajectory,
    stem: &str,
    imported: &mut Imported,
    file: &str,
) -> Result<Run, FileError> {
    let shell = imported.name(file, SHELL)?;
    let mut turns: Vec<(Turn, Vec<Call>)> = Vec::new();
    // Calls of the last turn that wait for their observation, by position.
    let mut waiting = VecDeque::new();
    for step in trajectory.messages {
        match step {
            Step::Spoken { turn, commands } => {
                waiting = (0..commands.len()).collect();
                let calls = commands.into_iter().map(|command| Call {
                    tool: shell,
                    args: Some(command),
                    result: None,
                    error: false,
                    latency: None,
                });
                turns.push((turn, calls.collect()));
            }
            Step::Observed { result, error } => {
                if let (Some(at), Some((_, calls))) = (waiting.pop_front(), turns.last_mut()) {
                    calls[at].result = Some(result);
                    calls[at].error = error;
                }
            }
            Step::Other => {}
        }
    }
    let info = trajectory.info;
    let submitted = info.exit_status.as_deref() == Some("Submitted");
    if let (true, Some((_, calls))) = (submitted, turns.last_mut()) {
        // What follows the submitting command is the submission, not an observation.
        for call in calls {
            call.result = None;
            call.error = false;
        }
    }
    let model = info.config.model.model_name;
    let label = match &model {
        Some(model) => format!("mini-swe-agent:{model}"),
        None => "mini-swe-agent".to_owned(),
    };
    let source = imported.name(file, &label)?;
    let run_id = trajectory.instance_id.unwrap_or_else(|| stem.to_owned());
    let mut run = Run::of_turns(source, run_id, turns);
    run.final_answer = info.exit_status.is_some().then_some(submitted);
    run.exit = imported.maybe_name(file, info.exit_status.as_deref())?;
    run.model = imported.maybe_name(file, model.as_deref())?;
    Ok(run)
}
