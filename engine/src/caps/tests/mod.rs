//! Runs of the engine against a small scripted world.

mod batches;
mod durability;
mod endings;
mod frameworks;
mod incidents;
mod money;
mod properties;

use std::num::NonZeroU64;

use serde_json::Value;

use super::{Checkpoint, Config, Dimension, Engine, InvalidLimits, Limits, Rule, State};
use crate::Money;
use crate::protocol::{
    Action, Call, CallResult, CallStatus, Counters, Decision, Durable, Ending, Event, Fault,
    FaultKind, Finish, Limiter, LimitsEngine, Micros, ModelRequest, ModelTurn, Output, Reason,
    Signature, Status, Text, ToolId, Tools, Usage, Verdict,
};

/// What the model does at one request.
#[derive(Clone, Debug, PartialEq)]
enum Reply {
    /// Calls these tools, with a text beside them.
    Calls(Vec<u16>, Text),
    /// A text without calls.
    Says(Text, Finish),
    /// The request fails.
    Fails(FaultKind),
}

fn calls(count: usize) -> Reply {
    Reply::Calls(vec![0; count], Text::Absent)
}

fn answer() -> Reply {
    Reply::Says(Text::Content, Finish::Stop)
}

fn blank() -> Reply {
    Reply::Says(Text::Blank, Finish::Stop)
}

fn transient() -> Reply {
    Reply::Fails(FaultKind::Transient)
}

/// A provider and its tools. The n-th request gets the n-th reply, or the last one for ever; where
/// no tools are offered an obedient model answers instead of calling them.
#[derive(Clone, Debug)]
struct World {
    replies: Vec<Reply>,
    obeys: bool,
    usage: Usage,
    cost: Money,
    tool_cost: Money,
    latency: Micros,
    /// Tools that the permission policy denies.
    denied: Vec<u16>,
    now: Micros,
    requests: Vec<ModelRequest>,
    executed: Vec<u16>,
    refused: u32,
    saves: u32,
    proposed: usize,
    billed: Money,
}

impl World {
    fn new(replies: Vec<Reply>) -> World {
        World {
            replies,
            obeys: true,
            usage: Usage {
                input: 100,
                output: 10,
                ..Usage::default()
            },
            cost: cents(10),
            tool_cost: Money::ZERO,
            latency: 1_000_000,
            denied: Vec::new(),
            now: 0,
            requests: Vec::new(),
            executed: Vec::new(),
            refused: 0,
            saves: 0,
            proposed: 0,
            billed: Money::ZERO,
        }
    }

    /// A model that calls `count` tools a turn as long as any are offered.
    fn hungry(count: usize) -> World {
        World::new(vec![calls(count)])
    }

    /// The calls of the reply in flight; kept by the driver, because events borrow them.
    fn reply(&mut self, request: ModelRequest) -> Reply {
        let at = self.requests.len().min(self.replies.len() - 1);
        self.requests.push(request);
        self.now += self.latency;
        self.billed += self.cost;
        match self.replies[at].clone() {
            Reply::Calls(..) if self.obeys && request.tools == Tools::Absent => answer(),
            reply => reply,
        }
    }

    fn run_tool(&mut self, tool: u16) -> CallResult {
        let denied = self.denied.contains(&tool);
        if !denied {
            self.executed.push(tool);
            self.billed += self.tool_cost;
        }
        CallResult {
            status: if denied {
                CallStatus::Denied
            } else {
                CallStatus::Succeeded
            },
            digest: None,
            recorded_evidence: false,
            cost: if denied { Money::ZERO } else { self.tool_cost },
        }
    }
}

/// An engine, its world, and what has become durable.
#[derive(Clone)]
struct Run {
    config: Config,
    engine: Engine,
    world: World,
    durable: Option<Checkpoint>,
    listens: bool,
    decisions: Vec<Decision>,
    action: Action,
}

impl Run {
    fn new(config: &Config, world: World) -> Run {
        Run::start(config, world, true)
    }

    /// A run to whose decisions nobody listens.
    fn unheard(config: &Config, world: World) -> Run {
        Run::start(config, world, false)
    }

    fn start(config: &Config, world: World, listens: bool) -> Run {
        let mut run = Run {
            config: config.clone(),
            engine: Engine::new(config),
            world,
            durable: None,
            listens,
            decisions: Vec::new(),
            action: Action::ContinueStream,
        };
        run.advance(Event::Start);
        run
    }

    fn advance(&mut self, event: Event<'_>) {
        let (config, now) = (&self.config, self.world.now);
        self.action = if self.listens {
            self.engine.advance(config, now, event, &mut self.decisions)
        } else {
            self.engine.advance(config, now, event, &mut ())
        };
    }

    /// Performs the pending action; false if the run is over.
    fn step(&mut self) -> bool {
        match self.action {
            Action::CallModel(request) => self.call_model(request),
            Action::Wait(pause) => {
                self.world.now += pause;
                self.advance(Event::Done);
            }
            Action::RunCall { index, .. } => {
                let tool = self.engine.calls()[index as usize].tool.0;
                let result = self.world.run_tool(tool);
                self.advance(Event::CallDone(result));
            }
            Action::AnswerCalls { count, .. } => {
                self.world.refused += count;
                self.advance(Event::Done);
            }
            Action::Save(_) => {
                let mut checkpoint = self.durable.take().unwrap_or_default();
                self.engine.save(&self.config, &mut checkpoint);
                self.durable = Some(checkpoint);
                self.world.saves += 1;
                self.advance(Event::Done);
            }
            Action::Finish(_) => return false,
            other => unreachable!("caps never ask for {other:?}"),
        }
        true
    }

    fn call_model(&mut self, request: ModelRequest) {
        let reply = self.world.reply(request);
        let (usage, cost) = (self.world.usage, self.world.cost);
        let mut proposed = Vec::new();
        let (text, finish) = match reply {
            Reply::Fails(kind) => {
                let fault = Fault {
                    kind,
                    produced_output: false,
                    usage: Some(usage),
                    cost,
                };
                return self.advance(Event::ModelFailed(fault));
            }
            Reply::Calls(tools, text) => {
                let denied = &self.world.denied;
                let proposes = |tool| Call {
                    denied: denied.contains(&tool),
                    ..call(tool)
                };
                proposed = tools.into_iter().map(proposes).collect();
                self.world.proposed += proposed.len();
                (text, Finish::Stop)
            }
            Reply::Says(text, finish) => (text, finish),
        };
        self.advance(Event::ModelDone(ModelTurn {
            usage,
            cost,
            text,
            calls: &proposed,
            finish,
            typed: false,
        }));
    }

    /// The process dies and another one takes over.
    fn restart(&mut self, config: &Config) {
        self.config = config.clone();
        let durable = Durable {
            checkpoint: self.durable.as_ref(),
            counters: &Counters::default(),
            journal: &[],
            history: &[],
        };
        self.engine = Engine::resume(config, durable);
        self.advance(Event::Start);
    }

    fn finish(mut self) -> Outcome {
        for _ in 0..100_000 {
            if !self.step() {
                let Action::Finish(ending) = self.action else {
                    unreachable!()
                };
                return Outcome { ending, run: self };
            }
        }
        panic!("the run does not end");
    }
}

/// A finished run.
struct Outcome {
    ending: Ending,
    run: Run,
}

impl Outcome {
    /// Model calls, executions, refused calls.
    fn numbers(&self) -> (usize, usize, u32) {
        let world = &self.run.world;
        (world.requests.len(), world.executed.len(), world.refused)
    }

    fn is_answer(&self) -> bool {
        self.ending.status == Status::Completed
    }

    fn told(&self, rule: Rule) -> Option<Decision> {
        let rule = crate::protocol::Rule::Caps(rule);
        self.run
            .decisions
            .iter()
            .find(|decision| decision.rule == rule)
            .copied()
    }

    fn verdicts(&self, verdict: Verdict) -> usize {
        self.run
            .decisions
            .iter()
            .filter(|decision| decision.verdict == verdict)
            .count()
    }
}

fn call(tool: u16) -> Call {
    let signature = Signature(NonZeroU64::MIN);
    Call {
        id: 0,
        tool: ToolId(tool),
        raw_signature: signature,
        canonical_signature: None,
        denial_key: signature,
        denied: false,
        parallel: true,
        terminal: false,
    }
}

fn cents(count: i64) -> Money {
    Money::from_micros(10_000 * count)
}

/// Tools are called `t0`, `t1`, ... in limits.
fn compile(limits: Value) -> Result<Config, Vec<InvalidLimits>> {
    let limits: Limits = serde_json::from_value(limits).unwrap();
    limits.compile(|name| name.strip_prefix('t')?.parse().ok().map(ToolId))
}

fn config(limits: Value) -> Config {
    compile(limits).unwrap()
}

fn run(limits: Value, world: World) -> Outcome {
    Run::new(&config(limits), world).finish()
}

fn ended(status: Status, reason: Reason, limiter: Option<Limiter>, output: Output) -> Ending {
    Ending {
        status,
        reason,
        limiter,
        output,
    }
}
