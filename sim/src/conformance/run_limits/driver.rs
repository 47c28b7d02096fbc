//! Drives the engine through a recorded run: its script, its clock, its crash.

use std::collections::BTreeSet;

use holdback_engine::protocol::{
    Action, Call, CallResult, CheckpointKind, Counted, Counters, Decision, Durable, Ending, Event,
    HistoryEntry, Instruction, Limiter, LimitsEngine, Micros, ModelRequest, ModelTurn, Rule,
    Status, Verdict,
};
use holdback_engine::run_limits::{self, Checkpoint, Config, Engine, ErrorClass, Rules};
use serde_json::{Map, Value, json};

use super::case::{Case, Kill, KillPoint};
use super::world::{self, World};

/// Plays the case and returns what happened, in the shape of `expect`.
pub(super) fn run(case: &Case) -> Result<Value, String> {
    let limits = run_limits::read(case.limits.get()).map_err(|error| error.to_string())?;
    let limits = limits.limits().map_err(|error| error.to_string())?;
    let config = Config::new(&limits, &Rules::default(), case.deadline);
    let mut driver = Driver::new(case, &config);
    let end = driver.play();
    Ok(driver.outcome(end))
}

/// How a played run ended.
enum End {
    Finished(Ending),
    /// The engine asked for more attempts than the script has.
    ScriptExhausted,
}

/// What an action led to.
enum Next {
    Event(Happened),
    Crash,
    End(End),
}

/// The events of the scripted world, owned.
enum Happened {
    Start,
    Done,
    Attempt(usize),
    Call(CallResult),
    Batch(Vec<CallResult>),
}

struct Driver<'a> {
    case: &'a Case,
    world: World<'a>,
    config: &'a Config,
    engine: Engine,
    now: Micros,
    /// The next attempt of the script.
    position: usize,
    /// The attempt whose text is the newest.
    answered_by: usize,
    history: Vec<HistoryEntry>,
    stored: Stored,
    kill: Option<KillCount>,
    /// Of the batch that is running: it was taken up after a crash.
    recovered: bool,
    results: Vec<CallResult>,
    /// The dimension of the last hard limit that refused or was exceeded.
    limit: Option<Value>,
    trace: Vec<Value>,
}

/// What survives the process.
#[derive(Default)]
struct Stored {
    checkpoint: Option<Checkpoint>,
    counters: Counters,
    history: Vec<HistoryEntry>,
    outcomes: BTreeSet<u32>,
}

struct KillCount {
    kill: Kill,
    seen: u32,
}

impl<'a> Driver<'a> {
    fn new(case: &'a Case, config: &'a Config) -> Driver<'a> {
        Driver {
            case,
            world: World::new(case),
            config,
            engine: Engine::new(config),
            now: 0,
            position: 0,
            answered_by: 0,
            history: Vec::new(),
            stored: Stored::default(),
            kill: case.kill.map(|kill| KillCount { kill, seen: 0 }),
            recovered: false,
            results: Vec::new(),
            limit: None,
            trace: Vec::new(),
        }
    }

    fn play(&mut self) -> End {
        let mut happened = Happened::Start;
        loop {
            let action = self.advance(&happened);
            match self.perform(action) {
                Next::Event(event) => happened = event,
                Next::Crash => {
                    self.restart();
                    happened = Happened::Start;
                }
                Next::End(end) => return end,
            }
        }
    }

    fn advance(&mut self, happened: &Happened) -> Action {
        let mut decisions: Vec<Decision> = Vec::new();
        let proposed;
        let event = match happened {
            Happened::Start => Event::Start,
            Happened::Done => Event::Done,
            Happened::Call(result) => Event::CallDone(*result),
            Happened::Batch(results) => Event::BatchDone(results),
            Happened::Attempt(index) => {
                let attempt = &self.case.script[*index];
                proposed = self.world.proposed(*index);
                match attempt.provider_fault() {
                    Some(fault) => Event::ModelFailed(fault),
                    None => Event::ModelDone(ModelTurn {
                        usage: attempt.reported_usage().unwrap_or_default(),
                        cost: attempt.reported_cost(),
                        text: attempt.text_kind(),
                        calls: &proposed,
                        finish: attempt.finish(),
                        typed: false,
                    }),
                }
            }
        };
        let action = self
            .engine
            .advance(self.config, self.now, event, &mut decisions);
        for decision in &decisions {
            self.trace_decision(decision);
        }
        action
    }

    fn perform(&mut self, action: Action) -> Next {
        match action {
            Action::CallModel(request) => self.call_model(&request),
            Action::RunCall { index, recovered } => self.run_call(index as usize, recovered),
            Action::RunBatch {
                first,
                count,
                recovered,
            } => self.run_batch(first as usize, count as usize, recovered),
            Action::AnswerCalls { first, count, .. } => {
                for index in first..first + count {
                    let call = self.engine.calls()[index as usize];
                    self.history.push(HistoryEntry::Answered { call });
                }
                Next::Event(Happened::Done)
            }
            Action::Record(counted) => self.record(counted),
            Action::Save(kind) => self.save(kind),
            Action::Finish(ending) => Next::End(End::Finished(ending)),
            other => unreachable!("run_limits never asks for {other:?}"),
        }
    }

    fn call_model(&mut self, request: &ModelRequest) -> Next {
        let control = request.instruction.map(|instruction| match instruction {
            Instruction::SynthesisOnly(limiter) => limiter.as_str(),
            other => unreachable!("run_limits never instructs {other:?}"),
        });
        self.trace.push(json!({"model": {
            "step": request.turn, "attempt": request.attempt, "synthesis_only": control, "script": self.position,
        }}));
        if self.dies_at(KillPoint::ModelInFlight) {
            return Next::Crash;
        }
        let index = self.position;
        let Some(attempt) = self.case.script.get(index) else {
            return Next::End(End::ScriptExhausted);
        };
        self.position += 1;
        self.now += attempt.latency;
        if attempt.provider_fault().is_none() {
            self.answered_by = index;
            self.history.push(HistoryEntry::Turn);
            self.history.extend(
                self.world
                    .proposed(index)
                    .into_iter()
                    .map(HistoryEntry::Proposed),
            );
        }
        Next::Event(Happened::Attempt(index))
    }

    fn run_call(&mut self, index: usize, recovered: bool) -> Next {
        self.recovered = recovered;
        if index == 0 {
            self.results.clear();
        }
        let call = self.engine.calls()[index];
        Next::Event(Happened::Call(self.run_tool(&call)))
    }

    fn run_batch(&mut self, first: usize, count: usize, recovered: bool) -> Next {
        self.recovered = recovered;
        self.results.clear();
        let calls: Vec<Call> = self.engine.calls()[first..first + count].to_vec();
        let results = calls.iter().map(|call| self.run_tool(call)).collect();
        Next::Event(Happened::Batch(results))
    }

    fn run_tool(&mut self, call: &Call) -> CallResult {
        let scripted = self.world.result(call);
        if self.stored.outcomes.contains(&call.id) {
            // Replayed: it takes no time.
        } else {
            self.now += scripted.latency;
            if self.world.stores_outcome(call) {
                self.stored.outcomes.insert(call.id);
            }
        }
        let result = world::call_result(scripted);
        self.results.push(result);
        self.history.push(HistoryEntry::Result {
            call: *call,
            result,
        });
        result
    }

    fn record(&mut self, counted: Counted) -> Next {
        if counted == Counted::Tools && self.dies_at(KillPoint::Dispatched) {
            return Next::Crash;
        }
        let counters = *self.engine.counters();
        self.stored.counters = counters;
        let (op, point) = match counted {
            Counted::Step => return Next::Event(Happened::Done),
            Counted::Model => ("model", KillPoint::ModelRecorded),
            Counted::Tools => ("tool", KillPoint::ToolRecorded),
        };
        self.trace.push(json!({"recorded": {
            "op": op, "model_calls": counters.model_calls, "tool_calls": counters.tool_calls,
            "input_tokens": counters.usage.input, "output_tokens": counters.usage.output,
            "cost": counters.cost,
        }}));
        self.done_unless_killed(Some(point))
    }

    fn save(&mut self, kind: CheckpointKind) -> Next {
        let mut checkpoint = self.stored.checkpoint.take().unwrap_or_default();
        self.engine.save(self.config, &mut checkpoint);
        let (trigger, point) = match kind {
            CheckpointKind::Seed => ("seed", None),
            CheckpointKind::ModelResponse => ("model_response", Some(KillPoint::ModelResponse)),
            CheckpointKind::ToolPending => ("tool_pending", Some(KillPoint::ToolPending)),
            CheckpointKind::ToolCall => ("tool_call", Some(KillPoint::ToolCall)),
            CheckpointKind::ToolRecovered => ("tool_recovered", None),
            CheckpointKind::Terminal => ("terminal", None),
            other => unreachable!("run_limits never saves {other:?}"),
        };
        let mut entry =
            json!({"trigger": trigger, "version": checkpoint.version, "full": checkpoint.full});
        if !checkpoint.pending.is_empty() {
            entry["pending"] = self.ids(&checkpoint.pending);
        }
        self.trace.push(json!({"checkpoint": entry}));
        self.stored.checkpoint = Some(checkpoint);
        self.stored.history.clone_from(&self.history);
        self.done_unless_killed(point)
    }

    fn done_unless_killed(&mut self, point: Option<KillPoint>) -> Next {
        match point {
            Some(point) if self.dies_at(point) => Next::Crash,
            _ => Next::Event(Happened::Done),
        }
    }

    /// Counts that this point is reached; true if the process dies here.
    fn dies_at(&mut self, point: KillPoint) -> bool {
        match &mut self.kill {
            Some(count) if count.kill.at == point => {
                count.seen += 1;
                count.seen == count.kill.nth
            }
            _ => false,
        }
    }

    fn restart(&mut self) {
        if let Some(KillCount { kill, .. }) = &self.kill {
            self.trace.push(json!({"crash": {"at": kill.at.as_str()}}));
            self.now += kill.downtime;
        }
        self.history.clone_from(&self.stored.history);
        let durable = Durable {
            checkpoint: self.stored.checkpoint.as_ref(),
            counters: &self.stored.counters,
            journal: &[],
            history: &self.history,
        };
        self.engine = Engine::resume(self.config, durable);
        let (version, pending) = match &self.stored.checkpoint {
            Some(checkpoint) => (checkpoint.version, self.ids(&checkpoint.pending)),
            None => (0, json!([])),
        };
        let counters = &self.stored.counters;
        self.trace.push(json!({"resume": {
            "version": version, "pending": pending, "step_count": counters.steps,
            "model_call_count": counters.model_calls, "tool_call_count": counters.tool_calls,
        }}));
    }

    fn trace_decision(&mut self, decision: &Decision) {
        let verdict = match decision.verdict {
            Verdict::Blocked => return self.trace_block(decision),
            Verdict::Exceeded => return self.trace_excess(decision),
            Verdict::Executed => "executed",
            Verdict::Refused => "refused",
            Verdict::Violation => "violation",
            Verdict::Loop => "loop",
            Verdict::Dropped => "dropped",
            Verdict::Cancelled => "cancelled",
            _ => return,
        };
        let Some(index) = decision.call else { return };
        let call = self.engine.calls()[index as usize];
        let scripted = self.world.scripted(&call);
        let mut entry = json!({"id": scripted.id, "verdict": verdict});
        if decision.verdict == Verdict::Executed {
            let status = self.world.result(&call).status;
            entry["status"] = json!(status.as_str());
            if let Some(code) = world::reason_code(scripted, status) {
                entry["reason_code"] = json!(code);
            }
            if self.recovered {
                entry["recovered"] = json!(true);
            }
        }
        self.trace.push(json!({"call": entry}));
    }

    fn trace_block(&mut self, decision: &Decision) {
        let reason = match decision.limiter {
            Limiter::Request => "requested",
            Limiter::Time if is_check(decision) => "deadline_exceeded",
            Limiter::Time => "deadline",
            Limiter::Steps => "max_steps_exceeded",
            _ => "budget_exceeded",
        };
        let scope = match decision.rule {
            Rule::RunLimits(run_limits::Rule::DispatchToken) => {
                self.trace
                    .push(json!({"dispatch_cancelled": {"reason": reason}}));
                return;
            }
            Rule::RunLimits(run_limits::Rule::BeforeStep) => "step",
            Rule::RunLimits(run_limits::Rule::BeforeAttempt) => "attempt",
            _ => {
                self.trace
                    .push(json!({"blocked": {"scope": "token", "reason": reason}}));
                return;
            }
        };
        let dimension = dimension(decision.limiter);
        self.limit = Some(json!({"dimension": dimension, "when": "before"}));
        self.trace
            .push(json!({"blocked": {"scope": scope, "dimension": dimension, "reason": reason}}));
    }

    fn trace_excess(&mut self, decision: &Decision) {
        let dimension = dimension(decision.limiter);
        self.limit = Some(json!({"dimension": dimension, "when": "after"}));
        if let Some(recorded) = self
            .trace
            .last_mut()
            .and_then(|entry| entry.get_mut("recorded"))
        {
            recorded["over"] = json!(dimension);
        }
    }

    fn ids(&self, calls: &[Call]) -> Value {
        calls
            .iter()
            .map(|call| self.world.scripted(call).id.as_str())
            .collect()
    }

    /// What happened, in the shape of `expect`.
    fn outcome(mut self, end: End) -> Value {
        let ending = match end {
            End::Finished(ending) => ending,
            End::ScriptExhausted => {
                return json!({"status": "the script is exhausted", "trace": self.trace});
            }
        };
        let failure = self.engine.failure().copied();
        let counters = self.engine.counters();
        let reason = (ending.status == Status::Failed).then(|| failed_reason(&ending));
        let over_budget =
            failure.is_some_and(|failure| failure.error_class == ErrorClass::BudgetExceededError);
        json!({
            "status": match ending.status {
                Status::Completed => "COMPLETED",
                Status::Cancelled => "CANCELLED",
                _ => "FAILED",
            },
            "reason": reason,
            "error_class": failure.map(|failure| failure.error_class.as_str()),
            "details": self.details(),
            "limit": if over_budget { self.limit.take() } else { None },
            "step_number": failure.and_then(|failure| failure.step_number),
            "attempt_number": failure.and_then(|failure| failure.attempt_number),
            "cancel_reason": cancel_reason(&ending),
            "final_message": self.final_message(&ending),
            "step_count": counters.steps,
            "model_call_count": counters.model_calls,
            "tool_call_count": counters.tool_calls,
            "usage": {
                "input_tokens": counters.usage.input,
                "cached_input_tokens": counters.usage.cached,
                "cache_write_input_tokens": counters.usage.cache_write,
                "output_tokens": counters.usage.output,
                "reasoning_tokens": counters.usage.reasoning,
                "model_calls": counters.model_calls,
                "tool_calls": counters.tool_calls,
                "cost": counters.cost,
            },
            "final_checkpoint": self.final_checkpoint(),
            "trace": self.trace,
        })
    }

    fn details(&self) -> Value {
        match self.engine.failure() {
            Some(failure) => match (failure.synthesis_reserve, failure.error_class) {
                (Some(reserve), _) => json!({"synthesis_reserve": reserve.as_str()}),
                (
                    None,
                    ErrorClass::ModelTransientError
                    | ErrorClass::ModelPermanentError
                    | ErrorClass::ModelProtocolError,
                ) => json!({"provider": "fake"}),
                _ => json!({}),
            },
            None => json!({}),
        }
    }

    fn final_message(&self, ending: &Ending) -> Option<&str> {
        match ending.status {
            Status::Completed => self.case.script[self.answered_by].text.as_deref(),
            _ => None,
        }
    }

    fn final_checkpoint(&self) -> Value {
        let Some(checkpoint) = &self.stored.checkpoint else {
            return Value::Null;
        };
        let mut denials: Vec<u32> = checkpoint
            .identical_denials
            .iter()
            .map(|(_, count)| count)
            .collect();
        denials.sort_unstable_by(|a, b| b.cmp(a));
        json!({
            "version": checkpoint.version,
            "pending": self.ids(&checkpoint.pending),
            "identical_calls": self.identical_calls(checkpoint),
            "identical_denials": denials,
        })
    }

    /// The counts under the texts that the signatures stand for.
    fn identical_calls(&self, checkpoint: &Checkpoint) -> Value {
        let mut counts = Map::new();
        for call in self.world.calls() {
            let signature = holdback_engine::signature::raw(&call.name, &call.args);
            let count = checkpoint.identical_calls.get(signature.0);
            if count > 0 {
                counts.insert(format!("{}:{}", call.name, call.args), json!(count));
            }
        }
        Value::Object(counts)
    }
}

/// The decision is of a hard check and not of the token.
fn is_check(decision: &Decision) -> bool {
    matches!(
        decision.rule,
        Rule::RunLimits(run_limits::Rule::BeforeStep | run_limits::Rule::BeforeAttempt)
    )
}

/// The recorder's word for a limit.
fn dimension(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::Time => "deadline",
        other => other.as_str(),
    }
}

/// The reference files a reserve violation under the budget.
fn failed_reason(ending: &Ending) -> &'static str {
    use holdback_engine::protocol::Reason;
    match ending.reason {
        Reason::SynthesisReserve => Reason::BudgetExceeded.as_str(),
        reason => reason.as_str(),
    }
}

fn cancel_reason(ending: &Ending) -> Option<&'static str> {
    use holdback_engine::protocol::Reason;
    match ending.reason {
        Reason::CancelledDeadline => Some("deadline"),
        Reason::CancelledRequested => Some("requested"),
        _ => None,
    }
}
