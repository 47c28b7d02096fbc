//! The limits engine inside somebody's own agent runtime.
//!
//! The loop asks the engine what to do, does it, and reports what happened. Nothing here is
//! particular to one policy family: the same loop drives `run_limits`, `usage_limits` and `caps`.
//! The model and the tools are fakes; a real runtime puts its clients in their place and keeps what
//! [`Store`] holds in its database.
//!
//! `cargo run -p holdback-engine --example own_runtime`

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroU64;
use std::time::{SystemTime, UNIX_EPOCH};

use holdback_engine::protocol::{
    Action, Call, CallResult, CallStatus, Counters, Decision, Durable, Ending, Event, Fault,
    Finish, HistoryEntry, JournalEntry, LimitsEngine, Micros, ModelRequest, ModelTurn, Signature,
    Text, ToolId, Tools, Usage,
};
use holdback_engine::run_limits::{self, Limits, Rules};
use holdback_engine::{Money, signature};
use serde::{Deserialize, Serialize};

fn main() -> Result<(), Box<dyn Error>> {
    let limits = Limits {
        max_model_calls: 4,
        max_cost: Some("0.50".parse()?),
        synthesis_reserve_steps: 1,
        synthesis_reserve_cost: "0.10".parse()?,
        max_steps: 4,
        ..Limits::default()
    };
    run_limits::check(&limits)?;
    let config = run_limits::Config::new(&limits, &Rules::default(), None);

    // The first process dies during the second batch; the next one takes up the run.
    let mut store = Store::default();
    let mut machine = Machine {
        tools_until_crash: Some(5),
        ..Machine::default()
    };
    while let Err(Crashed) =
        Runtime::<run_limits::Engine>::new(&config, &mut store, &mut machine)?.run()?
    {
        println!(
            "-- the process died after {} tool calls, a new one resumes",
            machine.tool_calls
        );
        machine.tools_until_crash = None;
    }
    Ok(())
}

/// What survives the process: a real runtime keeps it in a database.
#[derive(Default)]
struct Store {
    /// The newest checkpoint with the conversation as it stood, as bytes.
    checkpoint: Option<Vec<u8>>,
    /// The counters of the newest record.
    counters: Counters,
    /// Decisions that must be durable before they take effect.
    journal: Vec<JournalEntry>,
    /// What each call of a tool brought: written when the tool returns.
    outcomes: BTreeMap<u32, Outcome>,
    /// The run's last words, once it has ended.
    answer: Option<String>,
}

/// One item of the conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    Task(String),
    Model {
        text: String,
        calls: Vec<ToolRequest>,
    },
    ToolResult {
        call: Call,
        outcome: Outcome,
    },
    /// The engine refuses, denies or skips a call: the model has to be told.
    NotRun {
        call: Call,
        why: String,
    },
    Notice(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ToolRequest {
    name: String,
    arguments: String,
    call: Call,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Outcome {
    text: String,
    failed: bool,
}

/// The process died here (only this example's machine can tell).
struct Crashed;

/// One process that drives one run.
struct Runtime<'a, E: LimitsEngine> {
    config: &'a E::Config,
    engine: E,
    store: &'a mut Store,
    machine: &'a mut Machine,
    conversation: Vec<Message>,
    decisions: Vec<Decision>,
}

/// What the runtime answers an action with; [`Event`] borrows from it.
enum Answer {
    Start,
    Done,
    Estimated(f64),
    Model(Reply),
    Failed(Fault),
    Call(CallResult),
    Batch(Vec<CallResult>),
    Judged(bool),
}

impl<'a, E: LimitsEngine> Runtime<'a, E> {
    /// Starts the run, or takes up what an earlier process left.
    fn new(
        config: &'a E::Config,
        store: &'a mut Store,
        machine: &'a mut Machine,
    ) -> serde_json::Result<Self> {
        let (engine, conversation) = match &store.checkpoint {
            None => (E::new(config), vec![Message::Task("brief me".to_owned())]),
            Some(bytes) => {
                let (checkpoint, conversation): (E::Checkpoint, Vec<Message>) =
                    serde_json::from_slice(bytes)?;
                let durable = Durable {
                    checkpoint: Some(&checkpoint),
                    counters: &store.counters,
                    journal: &store.journal,
                    history: &history(&conversation),
                };
                (E::resume(config, durable), conversation)
            }
        };
        Ok(Runtime {
            config,
            engine,
            store,
            machine,
            conversation,
            decisions: Vec::new(),
        })
    }

    /// The loop.
    fn run(mut self) -> serde_json::Result<Result<Ending, Crashed>> {
        let mut answer = Answer::Start;
        loop {
            let event = answer.as_event();
            let action = self
                .engine
                .advance(self.config, now(), event, &mut self.decisions);
            self.log_decisions();
            answer = match action {
                Action::EstimatePrompt => Answer::Estimated(self.conversation.len() as f64 * 500.0),
                Action::CallModel(request) => self.call_model(&request),
                // This client does not stream, so it never reports usage on the way.
                Action::ContinueStream | Action::SeverStream => Answer::Done,
                Action::Wait(_micros) => Answer::Done,
                Action::RunCall { index, recovered } => match self.run_calls(index, 1, recovered) {
                    Ok(results) => Answer::Call(results[0]),
                    Err(crashed) => return Ok(Err(crashed)),
                },
                Action::RunBatch {
                    first,
                    count,
                    recovered,
                } => match self.run_calls(first, count, recovered) {
                    Ok(results) => Answer::Batch(results),
                    Err(crashed) => return Ok(Err(crashed)),
                },
                Action::JudgeTerminal { .. } => Answer::Judged(true),
                Action::AnswerCalls {
                    first,
                    count,
                    verdict,
                    limiter,
                } => {
                    for index in first..first + count {
                        let call = self.engine.calls()[index as usize];
                        let why = format!("{verdict:?}: {}", limiter.as_str());
                        self.conversation.push(Message::NotRun { call, why });
                    }
                    Answer::Done
                }
                Action::Notify(notice) => {
                    self.conversation
                        .push(Message::Notice(format!("{notice:?}")));
                    Answer::Done
                }
                Action::Record(_) => {
                    self.store.counters = *self.engine.counters();
                    Answer::Done
                }
                Action::Journal(entry) => {
                    self.store.journal.push(entry);
                    Answer::Done
                }
                Action::Save(_) => {
                    let mut checkpoint = E::Checkpoint::default();
                    self.engine.save(self.config, &mut checkpoint);
                    self.store.checkpoint =
                        Some(serde_json::to_vec(&(checkpoint, &self.conversation))?);
                    Answer::Done
                }
                Action::Finish(ending) => {
                    println!("-- {:?} ({})", ending.status, ending.reason.as_str());
                    self.store.answer = self.last_text();
                    return Ok(Ok(ending));
                }
            };
        }
    }

    fn call_model(&mut self, request: &ModelRequest) -> Answer {
        let reply = self.machine.complete(&self.conversation, request);
        if let Answer::Model(reply) = &reply {
            println!(
                "turn {} attempt {}: {} calls, text {:?}",
                request.turn,
                request.attempt,
                reply.requests.len(),
                reply.text
            );
            self.conversation.push(Message::Model {
                text: reply.text.clone(),
                calls: reply.requests.clone(),
            });
        }
        reply
    }

    /// Runs calls of the batch. After a restart, calls whose outcome is stored are not run again.
    fn run_calls(
        &mut self,
        first: u32,
        count: u32,
        recovered: bool,
    ) -> Result<Vec<CallResult>, Crashed> {
        let calls: Vec<Call> = self.engine.calls()[first as usize..][..count as usize].to_vec();
        calls
            .into_iter()
            .map(|call| {
                let outcome = match self.store.outcomes.get(&call.id) {
                    Some(stored) if recovered => stored.clone(),
                    _ => {
                        let outcome = self.machine.run_tool(&call)?;
                        self.store.outcomes.insert(call.id, outcome.clone());
                        outcome
                    }
                };
                let result = result_of(&outcome);
                self.conversation
                    .push(Message::ToolResult { call, outcome });
                Ok(result)
            })
            .collect()
    }

    /// Every decision says which limit made it and on which numbers: log them.
    fn log_decisions(&mut self) {
        for decision in self.decisions.drain(..) {
            println!(
                "    {:?} by {}: {:?} against {:?} ({})",
                decision.verdict,
                decision.limiter.as_str(),
                decision.left,
                decision.right,
                decision.rule.describe()
            );
        }
    }

    fn last_text(&self) -> Option<String> {
        self.conversation
            .iter()
            .rev()
            .find_map(|message| match message {
                Message::Model { text, .. } if !text.is_empty() => Some(text.clone()),
                _ => None,
            })
    }
}

impl Answer {
    fn as_event(&self) -> Event<'_> {
        match self {
            Answer::Start => Event::Start,
            Answer::Done => Event::Done,
            Answer::Estimated(tokens) => Event::PromptEstimated(*tokens),
            Answer::Model(reply) => Event::ModelDone(ModelTurn {
                usage: reply.usage,
                cost: reply.cost,
                text: if reply.text.is_empty() {
                    Text::Absent
                } else {
                    Text::Content
                },
                calls: &reply.calls,
                finish: Finish::Stop,
                typed: false,
            }),
            Answer::Failed(fault) => Event::ModelFailed(*fault),
            Answer::Call(result) => Event::CallDone(*result),
            Answer::Batch(results) => Event::BatchDone(results),
            Answer::Judged(accepted) => Event::TerminalJudged(*accepted),
        }
    }
}

/// The conversation as a resume looks at it.
fn history(conversation: &[Message]) -> Vec<HistoryEntry> {
    let mut history = Vec::new();
    for message in conversation {
        match message {
            Message::Model { calls, .. } => {
                history.push(HistoryEntry::Turn);
                history.extend(
                    calls
                        .iter()
                        .map(|request| HistoryEntry::Proposed(request.call)),
                );
            }
            Message::ToolResult { call, outcome } => history.push(HistoryEntry::Result {
                call: *call,
                result: result_of(outcome),
            }),
            Message::NotRun { call, .. } => history.push(HistoryEntry::Answered { call: *call }),
            Message::Task(_) | Message::Notice(_) => {}
        }
    }
    history
}

fn result_of(outcome: &Outcome) -> CallResult {
    CallResult {
        status: if outcome.failed {
            CallStatus::Failed
        } else {
            CallStatus::Succeeded
        },
        digest: signature::digest(&outcome.text.clone().into()),
        recorded_evidence: false,
        cost: Money::ZERO,
    }
}

/// Microseconds since 1970. Any clock will do that goes on through a restart.
fn now() -> Micros {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX)
}

/// A fake provider and its tools.
#[derive(Default)]
struct Machine {
    model_calls: u32,
    tool_calls: u32,
    /// The process dies when this many tool calls have run, before the outcome is stored.
    tools_until_crash: Option<u32>,
}

/// What the fake model says.
struct Reply {
    text: String,
    requests: Vec<ToolRequest>,
    calls: Vec<Call>,
    usage: Usage,
    cost: Money,
}

impl Machine {
    /// Searches in batches of three for as long as it is not told to answer. The second request
    /// meets a provider that is overloaded.
    fn complete(&mut self, conversation: &[Message], request: &ModelRequest) -> Answer {
        self.model_calls += 1;
        if self.model_calls == 2 {
            return Answer::Failed(Fault {
                kind: holdback_engine::protocol::FaultKind::Transient,
                produced_output: false,
                usage: None,
                cost: Money::ZERO,
            });
        }
        let found = conversation
            .iter()
            .filter(|message| matches!(message, Message::ToolResult { .. }))
            .count();
        let told_to_answer = request.instruction.is_some() || request.tools != Tools::All;
        let (text, requests) = if told_to_answer {
            (format!("a briefing from {found} sources"), Vec::new())
        } else {
            (
                String::new(),
                (0..3).map(|n| search(found as u32 + n)).collect(),
            )
        };
        Answer::Model(Reply {
            text,
            calls: requests.iter().map(|request| request.call).collect(),
            requests,
            usage: Usage {
                input: 1000,
                output: 100,
                ..Usage::default()
            },
            cost: Money::from_micros(80_000),
        })
    }

    fn run_tool(&mut self, call: &Call) -> Result<Outcome, Crashed> {
        self.tool_calls += 1;
        if self.tools_until_crash == Some(self.tool_calls) {
            return Err(Crashed);
        }
        Ok(Outcome {
            text: format!("page {}", call.id),
            failed: false,
        })
    }
}

/// The request of a search tool that may run beside others.
fn search(number: u32) -> ToolRequest {
    let (name, arguments) = ("search", format!("{{\"q\":\"topic {number}\"}}"));
    let parsed = serde_json::from_str(&arguments).ok();
    ToolRequest {
        call: Call {
            id: number,
            tool: ToolId(0),
            raw_signature: signature::raw(name, &arguments),
            canonical_signature: signature::canonical(name, parsed.as_ref()),
            denial_key: Signature(NonZeroU64::MIN),
            denied: false,
            parallel: true,
            terminal: false,
        },
        name: name.to_owned(),
        arguments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdback_engine::protocol::Status;

    /// Plays the run with a crash at the given tool call; returns the store and the tool calls made.
    fn play(tools_until_crash: Option<u32>) -> (Ending, Store, u32) {
        let limits = Limits {
            max_steps: 4,
            synthesis_reserve_steps: 1,
            ..Limits::default()
        };
        let config = run_limits::Config::new(&limits, &Rules::default(), None);
        let mut store = Store::default();
        let mut machine = Machine {
            tools_until_crash,
            ..Machine::default()
        };
        loop {
            let runtime =
                Runtime::<run_limits::Engine>::new(&config, &mut store, &mut machine).unwrap();
            if let Ok(ending) = runtime.run().unwrap() {
                return (ending, store, machine.tool_calls);
            }
            machine.tools_until_crash = None;
        }
    }

    #[test]
    fn the_reserve_gets_the_answer_out_of_a_model_that_never_stops_searching() {
        let (ending, store, tool_calls) = play(None);
        assert_eq!(ending.status, Status::Completed);
        assert_eq!(store.answer.as_deref(), Some("a briefing from 9 sources"));
        assert_eq!(tool_calls, 9);
        assert_eq!(store.counters.model_calls, 5);
    }

    #[test]
    fn a_crash_at_any_tool_call_repeats_that_call_alone() {
        let (_, undisturbed, _) = play(None);
        for at in 1..=9 {
            let (ending, store, tool_calls) = play(Some(at));
            assert_eq!(ending.status, Status::Completed, "crash at {at}");
            assert_eq!(store.answer, undisturbed.answer, "crash at {at}");
            assert_eq!(store.counters.tool_calls, 9, "crash at {at}");
            assert_eq!(tool_calls, 10, "crash at {at}");
        }
    }
}
