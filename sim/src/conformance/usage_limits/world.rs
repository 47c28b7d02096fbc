//! The scripted world of a case: its clock, its model, its tools, its store and its kills.

use holdback_engine::Money;
use holdback_engine::protocol::{
    Action, Call, CallResult, CallStatus, CheckpointKind, Decision, Durable, Ending, Event, Fault,
    FaultKind, Finish, HistoryEntry, Instruction, JournalEntry, Limiter, LimitsEngine, Micros,
    ModelRequest, ModelTurn, Text, Tools, Usage, Verdict,
};
use holdback_engine::usage_limits::{Checkpoint, Config, Engine};
use holdback_engine::{protocol, signature, usage_limits};
use serde_json::{Value, json};

use super::case::{Case, Entry, ScriptCall, UsageSpec, arguments_are_valid, typed_value};
use super::event;
use super::outcome::{Outcome, dimension_name, limiter_name, notice_json};

/// Everything around the engine that a case scripts.
pub(super) struct World<'c> {
    pub(super) case: &'c Case,
    names: Vec<String>,
    /// All proposed calls; a call's number is its position.
    calls: Vec<ScriptCall>,
    clock: Micros,
    next_entry: usize,
    next_estimate: usize,
    next_kill: usize,
    pub(super) counts: Counts,
    pub(super) trace: Vec<Value>,
    /// Skipped calls: the recorder sees them with the next event, and never if the run throws.
    unseen: Vec<Value>,
    talk: Conversation,
    store: Store,
    in_flight: Option<InFlight>,
    /// The estimate of the attempt that is priced.
    estimate: f64,
    /// The calls of the last turn, for the event that reports it.
    turn_calls: Vec<Call>,
    pub(super) last_text: Option<String>,
}

/// Events counted over the whole case.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) model_calls: u64,
    pub(super) executions: u64,
    pub(super) segments: u64,
    invocations: u64,
    saves: u64,
    grants: u64,
    windows: u64,
}

/// What the model is shown, as far as the trace tells it.
#[derive(Clone, Debug, Default)]
struct Conversation {
    history: Vec<HistoryEntry>,
    /// User-role messages after the last turn of the model.
    notices: Vec<Value>,
}

/// What survives a kill.
#[derive(Debug, Default)]
struct Store {
    checkpoint: Option<(Checkpoint, Conversation)>,
    journal: Vec<JournalEntry>,
}

/// An attempt whose usage was reported before its end.
#[derive(Debug)]
struct InFlight {
    entry: Entry,
    idle_timeout: Micros,
}

/// The process was killed.
struct Killed;

type Lives<T> = Result<T, Killed>;

const MS: Micros = 1000;

impl<'c> World<'c> {
    pub(super) fn new(case: &'c Case) -> World<'c> {
        World {
            case,
            names: Vec::new(),
            calls: Vec::new(),
            clock: 0,
            next_entry: 0,
            next_estimate: 0,
            next_kill: 0,
            counts: Counts::default(),
            trace: Vec::new(),
            unseen: Vec::new(),
            talk: Conversation::default(),
            store: Store::default(),
            in_flight: None,
            estimate: 0.0,
            turn_calls: Vec::new(),
            last_text: None,
        }
    }

    /// Runs the case to its end, over all its kills, and returns what `expect` would hold.
    pub(super) fn run(mut self) -> Result<Value, String> {
        let mut config = self.case.config(false, &mut self.names)?;
        let mut engine = Engine::new(&config);
        loop {
            self.counts.segments += 1;
            match self.live(&mut engine, &config) {
                Ok(ending) => {
                    let outcome = Outcome {
                        ending,
                        report: engine.report(&config),
                        clock: self.clock,
                        accepted: self.accepted_result(&engine, &ending),
                        names: &self.names,
                    };
                    return Ok(outcome.to_json(&self, config_has_reserve(self.case, &self.counts)));
                }
                Err(Killed) => {
                    self.next_kill += 1;
                    config = self.case.config(true, &mut self.names)?;
                    engine = self.restart(&config);
                }
            }
        }
    }

    /// One process life.
    fn live(&mut self, engine: &mut Engine, config: &Config) -> Lives<Ending> {
        let mut decisions: Vec<Decision> = Vec::new();
        let mut action = engine.advance(config, self.clock, Event::Start, &mut decisions);
        loop {
            self.trace_decisions(engine, &mut decisions);
            if let Action::Finish(ending) = action {
                return Ok(ending);
            }
            let calls = std::mem::take(&mut self.turn_calls);
            let event = self.perform(engine, config, action, calls)?;
            let event = event.borrow(&self.turn_calls);
            action = engine.advance(config, self.clock, event, &mut decisions);
        }
    }

    fn restart(&mut self, config: &Config) -> Engine {
        let counters = protocol::Counters::default();
        self.in_flight = None;
        self.talk = match &self.store.checkpoint {
            Some((_, talk)) => talk.clone().restored(),
            None => Conversation::default(),
        };
        self.trace_resume();
        Engine::resume(
            config,
            Durable {
                checkpoint: self
                    .store
                    .checkpoint
                    .as_ref()
                    .map(|(checkpoint, _)| checkpoint),
                counters: &counters,
                journal: &self.store.journal,
                history: &self.talk.history,
            },
        )
    }

    fn trace_resume(&mut self) {
        let checkpoint = self
            .store
            .checkpoint
            .as_ref()
            .map(|(checkpoint, _)| checkpoint);
        let pending = checkpoint
            .filter(|checkpoint| checkpoint.is_mid_batch())
            .map(|checkpoint| {
                let answered = checkpoint.answered as usize;
                json!({
                    "executed": answered,
                    "awaiting": self.calls[checkpoint.calls[answered].id as usize].id,
                    "remaining": checkpoint.calls.len() - answered - 1,
                })
            });
        let newest = self.store.journal.iter().filter_map(|entry| match entry {
            JournalEntry::Grant { ordinal, cap, .. } => Some((*ordinal, *cap)),
            JournalEntry::Window { .. } => None,
        });
        let newest = newest.max_by_key(|(ordinal, _)| *ordinal);
        let entered = |entry: &JournalEntry| matches!(entry, JournalEntry::Window { .. });
        let restored = (!self.store.journal.is_empty()).then(|| {
            json!({
                "extensionsGranted": newest.map_or(0, |(ordinal, _)| ordinal),
                "cap": newest.map(|(_, cap)| cap),
                "windowEntered": self.store.journal.iter().any(entered),
            })
        });
        let event = event(
            "resume",
            json!({
                "checkpoint": checkpoint.is_some(),
                "turns": checkpoint.map_or(0, |checkpoint| checkpoint.turns),
                "used": checkpoint.map_or(0, |checkpoint| checkpoint.used),
                "pending": pending,
                "restored": restored,
            }),
        );
        self.record(event);
    }

    fn record(&mut self, event: Value) {
        self.trace.append(&mut self.unseen);
        self.trace.push(event);
    }

    fn min_entries(&self) -> u64 {
        self.case
            .evidence_contract
            .as_ref()
            .map_or(0, |contract| contract.min_entries)
    }

    /// Dies if the armed kill is this one.
    fn survive(&mut self, at: &str, n: u64, id: Option<&str>) -> Lives<()> {
        let armed = self.case.kills.get(self.next_kill);
        if !armed.is_some_and(|kill| kill.at == at && kill.n == n) {
            return Ok(());
        }
        let mut fields = json!({ "at": at, "n": n });
        if let Some(id) = id {
            fields["id"] = json!(id);
        }
        self.record(event("kill", fields));
        Err(Killed)
    }

    fn perform(
        &mut self,
        engine: &mut Engine,
        config: &Config,
        action: Action,
        calls: Vec<Call>,
    ) -> Lives<Reply> {
        self.turn_calls = calls;
        match action {
            Action::EstimatePrompt => {
                let estimates = &self.case.estimates;
                self.estimate = estimates.get(self.next_estimate).copied().unwrap_or(0.0);
                self.next_estimate += 1;
                Ok(Reply::Event(Event::PromptEstimated(self.estimate)))
            }
            Action::CallModel(request) => self.call_model(config, &request),
            Action::ContinueStream => Ok(self.end_of_stream()),
            Action::SeverStream => Ok(self.severed()),
            Action::Wait(wait) => {
                self.clock += wait;
                Ok(Reply::Event(Event::Done))
            }
            Action::RunCall { index, .. } => {
                let used = engine.report(config).tool_calls;
                let result = self.run_call(engine.calls()[index as usize], used)?;
                Ok(Reply::Event(Event::CallDone(result)))
            }
            Action::JudgeTerminal { index } => Ok(self.judge(engine.calls()[index as usize])),
            Action::AnswerCalls {
                first,
                count,
                verdict,
                limiter,
            } => {
                for index in first..first + count {
                    self.answer(engine.calls()[index as usize], verdict, limiter);
                }
                Ok(Reply::Event(Event::Done))
            }
            Action::Notify(notice) => {
                self.talk
                    .notices
                    .push(notice_json(&notice, self.min_entries()));
                Ok(Reply::Event(Event::Done))
            }
            Action::Journal(entry) => self.journal(engine, config, entry),
            Action::Save(kind) => self.save(engine, config, kind),
            Action::Record(_) | Action::RunBatch { .. } | Action::Finish(_) => {
                Ok(Reply::Event(Event::Done))
            }
        }
    }

    fn call_model(&mut self, config: &Config, request: &ModelRequest) -> Lives<Reply> {
        let index = self.next_entry;
        let scripted = self.case.script.get(index);
        self.next_entry += 1;
        self.counts.model_calls += 1;
        self.trace_request(config, request, scripted.is_some().then_some(index));
        self.survive("in-model", self.counts.model_calls, None)?;
        let entry = scripted.cloned().unwrap_or_else(Entry::past_the_end);
        let idle_timeout = request.idle_timeout.unwrap_or(Micros::MAX);
        for gap in &entry.gaps_ms {
            if gap * MS >= idle_timeout {
                self.clock += idle_timeout;
                self.record(event("fault", json!({ "kind": "idle-gap" })));
                return Ok(failed(FaultKind::Idle, None));
            }
            self.clock += gap * MS;
        }
        let reported_early = entry
            .usage
            .filter(|_| entry.fault.is_some() || entry.usage_mid);
        self.in_flight = Some(InFlight {
            entry,
            idle_timeout,
        });
        Ok(match reported_early {
            Some(spec) => Reply::Event(Event::UsageReported(usage(&spec), Money::ZERO)),
            None => self.end_of_stream(),
        })
    }

    fn trace_request(&mut self, config: &Config, request: &ModelRequest, entry: Option<usize>) {
        let again = request.attempt > 1;
        let instruction = request.instruction.as_ref().and_then(instruction_json);
        let mut notices: Vec<Value> = self
            .talk
            .notices
            .iter()
            .cloned()
            .chain(instruction)
            .collect();
        if again {
            for notice in &mut notices {
                notice["again"] = json!(true);
            }
        }
        let tools = match request.tools {
            Tools::All => json!("all"),
            Tools::Withheld => json!("withheld"),
            Tools::Absent => json!("absent"),
            Tools::WindowOnly => {
                let rides = config.drained_tools().iter();
                rides
                    .map(|tool| self.names[usize::from(tool.0)].as_str())
                    .collect()
            }
        };
        let mut fields = json!({
            "entry": entry,
            "attempt": request.attempt,
            "now": self.clock / MS,
            "tools": tools,
            "maxOut": request.output_cap,
            "notices": notices,
        });
        if self.case.budget.is_some() {
            fields["est"] = json!(self.estimate);
        }
        self.record(event("model", fields));
    }

    /// What follows the usage report of an attempt that was not severed.
    fn end_of_stream(&mut self) -> Reply {
        let Some(InFlight {
            entry,
            idle_timeout,
        }) = self.in_flight.take()
        else {
            return Reply::Event(Event::Done);
        };
        let used = entry.usage.as_ref().map(usage);
        let Some(kind) = &entry.fault else {
            return self.finished_turn(&entry);
        };
        self.record(event("fault", json!({ "kind": kind })));
        let kind = match kind.as_str() {
            "stall" => {
                self.clock += idle_timeout;
                FaultKind::Idle
            }
            "cut" => FaultKind::Cut,
            "rate-limit" => FaultKind::RateLimit {
                retry_after: entry.retry_after_ms.map(|ms| ms * MS),
            },
            "transient" => FaultKind::Transient,
            _ => FaultKind::Permanent,
        };
        failed(kind, used)
    }

    fn severed(&mut self) -> Reply {
        let in_flight = self.in_flight.take();
        let used = in_flight.and_then(|attempt| attempt.entry.usage);
        failed(FaultKind::Severed, used.as_ref().map(usage))
    }

    fn finished_turn(&mut self, entry: &Entry) -> Reply {
        self.talk.notices.clear();
        self.talk.history.push(HistoryEntry::Turn);
        self.turn_calls.clear();
        for scripted in &entry.calls {
            let id = self.calls.len() as u32;
            let call = self.case.call(id, scripted, &mut self.names);
            self.calls.push(scripted.clone());
            self.turn_calls.push(call);
            self.talk.history.push(HistoryEntry::Proposed(call));
        }
        self.last_text.clone_from(&entry.text);
        let text = entry.text.as_deref().unwrap_or_default();
        Reply::Turn {
            usage: entry.usage.as_ref().map(usage).unwrap_or_default(),
            text: match text {
                "" => Text::Absent,
                _ if text.trim().is_empty() => Text::Blank,
                _ => Text::Content,
            },
            finish: match entry.finish.as_deref() {
                Some("max-tokens") => Finish::Length,
                Some("refusal") => Finish::Refusal,
                Some("context-window-exceeded") => Finish::ContextOverflow,
                _ => Finish::Stop,
            },
            typed: self.case.schema && typed_value(text).is_some(),
        }
    }

    fn run_call(&mut self, call: Call, used: u64) -> Lives<CallResult> {
        let scripted = self.calls[call.id as usize].clone();
        self.counts.executions += 1;
        let error = if !self.case.offers(&scripted.name) {
            Some("unknown-tool")
        } else if !arguments_are_valid(scripted.args.as_ref()) {
            Some("invalid-arguments")
        } else {
            None
        };
        if let Some(error) = error {
            return Ok(self.executed(call, &scripted, used, Err(error)));
        }
        self.counts.invocations += 1;
        let outcome = self
            .case
            .tool_results
            .get(&scripted.id)
            .cloned()
            .unwrap_or_default();
        self.survive("in-call", self.counts.invocations, Some(&scripted.id))?;
        self.clock += outcome.latency_ms * MS;
        let result = match outcome.error.as_deref() {
            Some("retry") => Err("model-retry"),
            Some(_) => Err("throw"),
            None => Ok(outcome.value),
        };
        Ok(self.executed(call, &scripted, used, result))
    }

    fn executed(
        &mut self,
        call: Call,
        scripted: &ScriptCall,
        used: u64,
        outcome: Result<Value, &str>,
    ) -> CallResult {
        let mut fields = json!({ "id": scripted.id, "name": scripted.name, "v": "executed" });
        if let Err(error) = &outcome {
            fields["v"] = json!("executed-error");
            fields["error"] = json!(error);
        }
        fields["used"] = json!(used);
        self.record(event("call", fields));
        let result = CallResult {
            status: match outcome {
                Ok(_) => CallStatus::Succeeded,
                Err(_) => CallStatus::Failed,
            },
            digest: outcome.as_ref().ok().and_then(signature::digest),
            recorded_evidence: scripted.name == "record_evidence"
                && outcome.is_ok_and(|value| value.get("recorded") == Some(&Value::Bool(true))),
            cost: Money::ZERO,
        };
        self.talk
            .history
            .push(HistoryEntry::Result { call, result });
        result
    }

    fn judge(&mut self, call: Call) -> Reply {
        let accepted = self.case.accepts_terminal(&self.calls[call.id as usize]);
        let verdict = if accepted {
            "terminal"
        } else {
            "terminal-rejected"
        };
        self.trace_call(call, json!({ "v": verdict }));
        // An accepted call is a result like any other to a restart after the last checkpoint.
        let arguments = self.calls[call.id as usize].args.as_ref();
        self.talk.history.push(if accepted {
            let result = CallResult {
                status: CallStatus::Succeeded,
                digest: arguments.and_then(signature::digest),
                recorded_evidence: false,
                cost: Money::ZERO,
            };
            HistoryEntry::Result { call, result }
        } else {
            HistoryEntry::Answered { call }
        });
        Reply::Event(Event::TerminalJudged(accepted))
    }

    fn answer(&mut self, call: Call, verdict: Verdict, limiter: Limiter) {
        let fields = match (verdict, limiter) {
            (Verdict::Skipped, limiter) => {
                json!({ "v": "skipped", "limiter": limiter_name(limiter) })
            }
            (Verdict::Refused, _) => json!({ "v": "refused", "guard": "finalization-window" }),
            (_, Limiter::CallsPerTool) => json!({ "v": "denied", "guard": "per-tool-cap" }),
            (_, Limiter::IdenticalCalls) => json!({ "v": "denied", "guard": "repeated-signature" }),
            _ => json!({ "v": "denied", "guard": "policy" }),
        };
        let event = self.call_event(call, fields);
        if verdict == Verdict::Skipped {
            self.unseen.push(event);
        } else {
            self.record(event);
        }
        self.talk.history.push(HistoryEntry::Answered { call });
    }

    fn trace_call(&mut self, call: Call, fields: Value) {
        let event = self.call_event(call, fields);
        self.record(event);
    }

    fn call_event(&self, call: Call, fields: Value) -> Value {
        let scripted = &self.calls[call.id as usize];
        let mut all = json!({ "id": scripted.id, "name": scripted.name });
        if let (Value::Object(all), Value::Object(fields)) = (&mut all, fields) {
            all.extend(fields);
        }
        event("call", all)
    }

    fn journal(&mut self, engine: &Engine, config: &Config, entry: JournalEntry) -> Lives<Reply> {
        let (kind, n, traced) = match entry {
            JournalEntry::Grant {
                ordinal,
                cap,
                trigger,
            } => {
                self.counts.grants += 1;
                let fields = json!({
                    "grant": ordinal,
                    "maxGrants": config.max_grants(),
                    "used": engine.report(config).tool_calls,
                    "cap": cap,
                    "trigger": match trigger {
                        Limiter::Window => "window",
                        Limiter::Evidence => "deficit",
                        _ => "expiry",
                    },
                });
                ("grant", self.counts.grants, fields)
            }
            JournalEntry::Window {
                remaining,
                reserve,
                dimension,
                widened,
            } => {
                self.counts.windows += 1;
                let mut fields = json!({
                    "remaining": remaining,
                    "reserve": reserve,
                    "dimension": dimension_name(dimension),
                });
                if let Some((deficit, min_entries)) = widened {
                    fields["deficit"] = json!(deficit);
                    fields["minEntries"] = json!(min_entries);
                }
                ("window", self.counts.windows, fields)
            }
        };
        self.survive(&format!("before-{kind}"), n, None)?;
        self.store.journal.push(entry);
        self.record(event(kind, traced));
        self.survive(&format!("after-{kind}"), n, None)?;
        Ok(Reply::Event(Event::Done))
    }

    fn save(&mut self, engine: &Engine, config: &Config, kind: CheckpointKind) -> Lives<Reply> {
        self.counts.saves += 1;
        self.survive("before-save", self.counts.saves, None)?;
        let mut checkpoint = Checkpoint::default();
        engine.save(config, &mut checkpoint);
        let mut fields = json!({
            "kind": "boundary",
            "turns": checkpoint.turns,
            "used": checkpoint.used,
        });
        if let CheckpointKind::MidBatch {
            executed,
            awaiting,
            remaining,
        } = kind
        {
            let awaited = engine.calls()[awaiting as usize];
            fields["kind"] = json!("mid-batch");
            fields["executed"] = json!(executed);
            fields["awaiting"] = json!(self.calls[awaited.id as usize].id);
            fields["remaining"] = json!(remaining);
        }
        self.store.checkpoint = Some((checkpoint, self.talk.clone()));
        self.record(event("checkpoint", fields));
        self.survive("after-save", self.counts.saves, None)?;
        Ok(Reply::Event(Event::Done))
    }

    fn accepted_result(&self, engine: &Engine, ending: &Ending) -> Option<Value> {
        let protocol::Output::Terminal { index } = ending.output else {
            return None;
        };
        let call = engine.calls().get(index as usize)?;
        let args = self.calls[call.id as usize].args.as_ref()?;
        args.get("result").cloned()
    }

    /// Those decisions that the trace shows and no action tells.
    fn trace_decisions(&mut self, engine: &Engine, decisions: &mut Vec<Decision>) {
        for decision in decisions.drain(..) {
            let rule = match decision.rule {
                protocol::Rule::UsageLimits(rule) => rule,
                _ => continue,
            };
            let call = decision
                .call
                .and_then(|index| engine.calls().get(index as usize));
            if let (Verdict::Unanswered, Some(call)) = (decision.verdict, call) {
                self.trace_call(*call, json!({ "v": "unanswered" }));
                continue;
            }
            let traced = match (decision.verdict, rule) {
                (
                    Verdict::Blocked,
                    usage_limits::Rule::CeilingBeforeTurn | usage_limits::Rule::SummaryAtCeiling,
                ) => event("turn-blocked", json!({ "by": "ceiling" })),
                (Verdict::Blocked, _) => event("dispatch-refused", json!({ "est": self.estimate })),
                (Verdict::TerminalAdmitted, _) => event(
                    "terminal-admitted",
                    json!({ "limiter": limiter_name(decision.limiter) }),
                ),
                (Verdict::SummarySkipped, _) => {
                    let by = match decision.limiter {
                        Limiter::Cost => "ceiling",
                        Limiter::Exposure => "exposure",
                        _ => "output-floor",
                    };
                    event("reserve-skipped", json!({ "by": by }))
                }
                (Verdict::SummaryFailed, _) => {
                    let idle = decision.limiter == Limiter::Time;
                    event(
                        "reserve-failed",
                        json!({ "by": if idle { "idle" } else { "wire" } }),
                    )
                }
                (Verdict::DrainedSkipped, _) => event("drained-skipped", json!({})),
                (Verdict::DrainedSpent, _) => {
                    let calls = match decision.left {
                        protocol::Quantity::Count(calls) => calls,
                        _ => 0,
                    };
                    event("drained-spent", json!({ "toolCalls": calls }))
                }
                (Verdict::Warned, usage_limits::Rule::NoticesInert) => {
                    event("warn", json!({ "kind": "notices-inert" }))
                }
                (Verdict::Warned, _) => event("warn", json!({ "kind": "restored-cap-ignored" })),
                _ => continue,
            };
            self.record(traced);
        }
    }
}

impl Conversation {
    /// As it comes out of a checkpoint.
    fn restored(mut self) -> Conversation {
        for notice in &mut self.notices {
            notice["restored"] = json!(true);
            // A notice does not say which thresholds it was for; the recorder knew.
            if let Value::Object(members) = notice {
                members.shift_remove("thresholds");
            }
        }
        self
    }
}

/// An event for the engine, before it borrows the calls of the turn.
enum Reply {
    Event(Event<'static>),
    Turn {
        usage: Usage,
        text: Text,
        finish: Finish,
        typed: bool,
    },
}

impl Reply {
    fn borrow(self, calls: &[Call]) -> Event<'_> {
        match self {
            Reply::Event(event) => event,
            Reply::Turn {
                usage,
                text,
                finish,
                typed,
            } => Event::ModelDone(ModelTurn {
                usage,
                cost: Money::ZERO,
                text,
                calls,
                finish,
                typed,
            }),
        }
    }
}

fn failed(kind: FaultKind, usage: Option<Usage>) -> Reply {
    Reply::Event(Event::ModelFailed(Fault {
        kind,
        produced_output: false,
        usage,
        cost: Money::ZERO,
    }))
}

fn usage(spec: &UsageSpec) -> Usage {
    Usage {
        input: spec.input_tokens,
        cached: spec.cache_read_tokens,
        cache_write: spec.cache_write_tokens,
        output: spec.output_tokens,
        reasoning: None,
    }
}

fn instruction_json(instruction: &Instruction) -> Option<Value> {
    match *instruction {
        Instruction::ReserveSummary {
            limiter,
            used,
            cap,
            skipped,
        } => Some(json!({
            "kind": "reserve-summary",
            "limiter": limiter_name(limiter),
            "used": used,
            "cap": cap,
            "skipped": skipped,
        })),
        Instruction::Drained { tools_ride } => {
            Some(json!({ "kind": "drained", "toolsRide": tools_ride }))
        }
        Instruction::SynthesisOnly(_) | Instruction::FinalTurn(_) => None,
    }
}

fn config_has_reserve(case: &Case, counts: &Counts) -> bool {
    let live = case.resume_limits.as_ref().filter(|_| counts.segments > 1);
    live.unwrap_or(&case.limits)
        .get("finalizationReserve")
        .is_some()
}
