//! Random limits, random models and tools, and a driver that can fork, snapshot and kill a run.

use std::num::NonZeroU64;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::Money;
use crate::protocol::{
    Action, Call, CallResult, CallStatus, CheckpointKind, Counters, Decision, Digest, Durable,
    Ending, Event, Fault, FaultKind, Finish, HistoryEntry, JournalEntry, LimitsEngine, Micros,
    ModelTurn, Signature, Text, ToolId, Usage,
};
use crate::usage_limits::limits::{
    Budget, EvidenceContract, Exposure, ExposureWait, ModelCaps, SchemaRun, TerminalTool,
};
use crate::usage_limits::{Checkpoint, Config, Engine, PriceSource, Prices, Settings, UsageLimits};

pub(super) const TOOLS: [&str; 4] = ["search", "fetch", "record_evidence", "finish"];
const EVIDENCE: u16 = 2;
const FINISH: u16 = 3;

/// What the model does, attempt by attempt. Past its end it answers, or calls the terminal tool.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) attempts: Vec<Attempt>,
    /// Past the end: propose calls for ever instead of answering.
    pub(super) hungry: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) calls: Vec<Proposed>,
    pub(super) text: Text,
    pub(super) finish: Finish,
    pub(super) fault: Option<FaultKind>,
    pub(super) usage: Usage,
    /// The usage is reported before the end of the stream.
    pub(super) usage_mid: bool,
    pub(super) latency: Micros,
}

/// A call and what comes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposed {
    pub(super) tool: u16,
    pub(super) arguments: u8,
    pub(super) result: u8,
    pub(super) fails: bool,
    pub(super) denied: bool,
    pub(super) accepted: bool,
}

/// Limits as JSON and what stands around them.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) limits: Value,
    pub(super) budget: Option<Budget>,
    pub(super) evidence: Option<EvidenceContract>,
    pub(super) repair_turns: Option<u64>,
    pub(super) schema: bool,
}

impl Policy {
    pub(super) fn of(limits: Value) -> Policy {
        Policy {
            limits,
            budget: None,
            evidence: None,
            repair_turns: None,
            schema: false,
        }
    }

    pub(super) fn config(&self) -> Config {
        let settings = Settings {
            limits: UsageLimits::from_json(&self.limits).unwrap(),
            budget: self.budget,
            evidence: self.evidence,
            terminal_tool: self.repair_turns.map(|repair_turn_reserve| TerminalTool {
                repair_turn_reserve,
            }),
            schema: self.schema.then(SchemaRun::default),
            attempts: 3,
            model: ModelCaps::default(),
        };
        let offered = [ToolId(0), ToolId(1), ToolId(2), ToolId(3)];
        Config::compile(&settings, &offered, |name| {
            let known = TOOLS.iter().position(|tool| *tool == name);
            ToolId(known.unwrap_or(TOOLS.len()) as u16)
        })
    }
}

/// A run in progress. `Clone` forks the world and the engine together.
#[derive(Clone)]
pub(super) struct Drive<'s> {
    pub(super) config: &'s Config,
    script: &'s Script,
    pub(super) engine: Engine,
    pub(super) clock: Micros,
    next_attempt: usize,
    calls: Vec<(Call, Proposed)>,
    history: Vec<HistoryEntry>,
    stored: Option<(Checkpoint, Vec<HistoryEntry>)>,
    journal: Vec<JournalEntry>,
    in_flight: Option<Attempt>,
    /// The action to perform next.
    pub(super) action: Action,
    /// All actions so far, the next one included.
    pub(super) trace: Vec<Action>,
    pub(super) decisions: Vec<Decision>,
    /// Calls executed, by number, each time.
    pub(super) executed: Vec<u32>,
    /// Price of the dearest attempt so far, in USD.
    pub(super) dearest: f64,
}

const MS: Micros = 1000;

impl<'s> Drive<'s> {
    pub(super) fn start(config: &'s Config, script: &'s Script) -> Drive<'s> {
        Drive::start_with(Engine::new(config), config, script)
    }

    pub(super) fn start_with(engine: Engine, config: &'s Config, script: &'s Script) -> Drive<'s> {
        let mut drive = Drive {
            config,
            script,
            engine,
            clock: 0,
            next_attempt: 0,
            calls: Vec::new(),
            history: Vec::new(),
            stored: None,
            journal: Vec::new(),
            in_flight: None,
            action: Action::EstimatePrompt,
            trace: Vec::new(),
            decisions: Vec::new(),
            executed: Vec::new(),
            dearest: 0.0,
        };
        drive.tell(Event::Start);
        drive
    }

    /// Performs actions until the run is over.
    pub(super) fn finish(mut self) -> Drive<'s> {
        while self.ending().is_none() {
            self.step();
        }
        self
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        match self.action {
            Action::Finish(ending) => Some(ending),
            _ => None,
        }
    }

    /// Performs the next action and reports it.
    pub(super) fn step(&mut self) {
        let turn_calls: Vec<Call>;
        let event = match self.action {
            Action::CallModel(_) => {
                let attempt = self.next_attempt();
                self.clock += attempt.latency;
                let early = attempt.usage_mid || attempt.fault.is_some();
                let usage = attempt.usage;
                self.in_flight = Some(attempt);
                if early {
                    Event::UsageReported(usage, price(&usage))
                } else {
                    turn_calls = self.take_turn();
                    self.turn_event(&turn_calls)
                }
            }
            Action::ContinueStream => {
                turn_calls = self.take_turn();
                self.turn_event(&turn_calls)
            }
            Action::SeverStream => failed(FaultKind::Severed, self.in_flight.take()),
            Action::RunCall { index, .. } => Event::CallDone(self.run(index)),
            Action::JudgeTerminal { index } => {
                let (call, proposed) = self.calls[self.engine.calls()[index as usize].id as usize];
                if !proposed.accepted {
                    self.history.push(HistoryEntry::Answered { call });
                }
                Event::TerminalJudged(proposed.accepted)
            }
            Action::AnswerCalls { first, count, .. } => {
                for call in &self.engine.calls()[first as usize..(first + count) as usize] {
                    self.history.push(HistoryEntry::Answered { call: *call });
                }
                Event::Done
            }
            Action::Save(_) => {
                let mut checkpoint = Checkpoint::default();
                self.engine.save(self.config, &mut checkpoint);
                self.stored = Some((checkpoint, self.history.clone()));
                Event::Done
            }
            Action::Journal(entry) => {
                self.journal.push(entry);
                Event::Done
            }
            Action::EstimatePrompt => Event::PromptEstimated(100.0 * self.history.len() as f64),
            Action::Wait(pause) => {
                self.clock += pause;
                Event::Done
            }
            Action::Notify(_) => Event::Done,
            Action::Record(_) | Action::RunBatch { .. } | Action::Finish(_) => {
                panic!("usage_limits does not ask for {:?}", self.action)
            }
        };
        self.tell(event);
    }

    /// The process dies, with the next action not performed, or performed and not reported.
    pub(super) fn kill(&mut self, performed: bool) {
        match self.action {
            _ if !performed => {}
            Action::Save(_) | Action::Journal(_) | Action::CallModel(_) => {
                // Reported to an engine that is about to be dropped.
                let mut lost = self.clone();
                lost.step();
                self.stored = lost.stored;
                self.journal = lost.journal;
                self.next_attempt = lost.next_attempt;
            }
            Action::RunCall { index, .. } => {
                let id = self.engine.calls()[index as usize].id;
                self.executed.push(id);
            }
            _ => {}
        }
        self.history = self
            .stored
            .as_ref()
            .map_or(Vec::new(), |(_, history)| history.clone());
        self.in_flight = None;
        self.engine = Engine::resume(
            self.config,
            Durable {
                checkpoint: self.stored.as_ref().map(|(checkpoint, _)| checkpoint),
                counters: &Counters::default(),
                journal: &self.journal,
                history: &self.history,
            },
        );
        self.tell(Event::Start);
    }

    fn tell(&mut self, event: Event<'_>) {
        let Drive {
            engine,
            config,
            clock,
            decisions,
            ..
        } = self;
        self.action = engine.advance(config, *clock, event, decisions);
        self.trace.push(self.action);
    }

    fn next_attempt(&mut self) -> Attempt {
        let scripted = self.script.attempts.get(self.next_attempt);
        self.next_attempt += 1;
        let attempt = scripted.cloned().unwrap_or_else(|| {
            let hungry = self.script.hungry;
            past_the_end(hungry, self.next_attempt)
        });
        self.dearest = self.dearest.max(PRICES.price(&attempt.usage));
        attempt
    }

    /// The calls of the turn in flight join the conversation.
    fn take_turn(&mut self) -> Vec<Call> {
        let Some(attempt) = self
            .in_flight
            .as_ref()
            .filter(|attempt| attempt.fault.is_none())
        else {
            return Vec::new();
        };
        self.history.push(HistoryEntry::Turn);
        let mut turn = Vec::new();
        for proposed in &attempt.calls {
            let call = call(self.calls.len() as u32, proposed);
            self.calls.push((call, *proposed));
            self.history.push(HistoryEntry::Proposed(call));
            turn.push(call);
        }
        turn
    }

    fn turn_event<'a>(&mut self, calls: &'a [Call]) -> Event<'a> {
        let attempt = self.in_flight.take().unwrap();
        match attempt.fault {
            Some(kind) => failed(kind, Some(attempt)),
            None => Event::ModelDone(ModelTurn {
                usage: attempt.usage,
                cost: price(&attempt.usage),
                text: attempt.text,
                calls,
                finish: attempt.finish,
                typed: attempt.text == Text::Content,
            }),
        }
    }

    fn run(&mut self, index: u32) -> CallResult {
        let id = self.engine.calls()[index as usize].id;
        let (call, proposed) = self.calls[id as usize];
        self.executed.push(id);
        self.clock += 10 * MS;
        let result = CallResult {
            status: if proposed.fails {
                CallStatus::Failed
            } else {
                CallStatus::Succeeded
            },
            digest: (!proposed.fails).then(|| Digest(number(proposed.result.into()))),
            recorded_evidence: proposed.tool == EVIDENCE && !proposed.fails,
            cost: Money::ZERO,
        };
        self.history.push(HistoryEntry::Result { call, result });
        result
    }
}

fn call(id: u32, proposed: &Proposed) -> Call {
    let signature = Signature(number(
        u64::from(proposed.tool) * 1000 + u64::from(proposed.arguments),
    ));
    Call {
        id,
        tool: ToolId(proposed.tool),
        raw_signature: signature,
        canonical_signature: Some(signature),
        denial_key: signature,
        denied: proposed.denied,
        parallel: false,
        terminal: proposed.tool == FINISH,
    }
}

fn number(value: u64) -> NonZeroU64 {
    NonZeroU64::new(value + 1).unwrap()
}

fn failed(kind: FaultKind, attempt: Option<Attempt>) -> Event<'static> {
    let usage = attempt.map(|attempt| attempt.usage);
    Event::ModelFailed(Fault {
        kind,
        produced_output: false,
        usage,
        cost: usage.as_ref().map_or(Money::ZERO, price),
    })
}

const PRICES: Prices = Prices {
    input_per_mtok: 4.0,
    output_per_mtok: 16.0,
    cache_read_per_mtok: None,
    cache_write_per_mtok: None,
};

fn price(usage: &Usage) -> Money {
    Money::from_f64_rounded(PRICES.price(usage)).unwrap()
}

fn past_the_end(hungry: bool, position: usize) -> Attempt {
    let proposed = |tool| Proposed {
        tool,
        arguments: position as u8,
        result: position as u8,
        fails: false,
        denied: false,
        accepted: true,
    };
    let calls = if hungry {
        vec![proposed(0), proposed(1)]
    } else {
        vec![proposed(FINISH)]
    };
    Attempt {
        // Without a terminal tool the call is an ordinary one; the next turn answers.
        calls: if hungry || position.is_multiple_of(2) {
            calls
        } else {
            Vec::new()
        },
        text: Text::Content,
        finish: Finish::Stop,
        fault: None,
        usage: Usage {
            input: 100,
            output: 100,
            ..Usage::default()
        },
        usage_mid: false,
        latency: MS,
    }
}

fn proposed() -> impl Strategy<Value = Proposed> {
    (0_u16..4, 0_u8..6, 0_u8..8, 0_u8..6, 0_u8..12, any::<bool>()).prop_map(
        |(tool, arguments, result, fails, denied, accepted)| Proposed {
            tool,
            arguments,
            result,
            fails: fails == 0,
            denied: denied == 0,
            accepted,
        },
    )
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let fault = prop_oneof![
        12 => Just(None),
        1 => Just(Some(FaultKind::Transient)),
        1 => Just(Some(FaultKind::Idle)),
        1 => Just(Some(FaultKind::RateLimit { retry_after: Some(700 * MS) })),
    ];
    let text = prop_oneof![Just(Text::Absent), Just(Text::Blank), Just(Text::Content)];
    let finish = prop_oneof![
        10 => Just(Finish::Stop),
        1 => Just(Finish::Length),
        1 => Just(Finish::Refusal),
    ];
    let calls = prop_oneof![
        4 => prop::collection::vec(proposed(), 1..6),
        1 => Just(Vec::new()),
    ];
    (
        calls,
        text,
        finish,
        fault,
        any::<bool>(),
        0_u64..40_000,
        0_u64..9000,
        0_i64..900,
    )
        .prop_map(
            |(calls, text, finish, fault, usage_mid, input, output, latency)| Attempt {
                calls,
                text,
                finish,
                fault,
                usage: Usage {
                    input,
                    output,
                    ..Usage::default()
                },
                usage_mid,
                latency: latency * MS,
            },
        )
}

pub(super) fn script() -> impl Strategy<Value = Script> {
    (prop::collection::vec(attempt(), 0..10), any::<bool>())
        .prop_map(|(attempts, hungry)| Script { attempts, hungry })
}

fn maybe<S: Strategy<Value = Value> + 'static>(value: S) -> impl Strategy<Value = Option<Value>> {
    prop_oneof![2 => Just(None), 3 => value.prop_map(Some)]
}

fn tool_names() -> impl Strategy<Value = Value> {
    prop::sample::subsequence(TOOLS.to_vec(), 0..=2).prop_map(|names| json!(names))
}

/// One strategy a field, each absent two times of five.
fn fields() -> Vec<(&'static str, BoxedStrategy<Option<Value>>)> {
    let small = |low: u64, high: u64| (low..high).prop_map(|n| json!(n));
    let costs =
        (0_u64..4, 0_u64..3).prop_map(|(a, b)| json!({ "search": a, "record_evidence": b }));
    let extension = (1_u64..4, 1_u64..3, 0_u8..3, any::<bool>(), any::<bool>()).prop_map(
        |(increment, max, headroom, evidence, cover)| {
            json!({
                "increment": increment,
                "maxExtensions": max,
                "minHeadroomUsd": f64::from(headroom) * 0.25,
                "requireNewEvidence": evidence,
                "coverEvidenceDeficit": cover,
            })
        },
    );
    let window = (1_u64..5, any::<bool>(), tool_names()).prop_map(|(calls, deficit, allow)| {
        json!({ "reserveCalls": calls, "reserveForEvidenceDeficit": deficit, "allow": allow })
    });
    let turns = (1_u64..4, tool_names())
        .prop_map(|(turns, allow)| json!({ "reserveTurns": turns, "allow": allow }));
    vec![
        ("maxTurns", maybe(small(1, 12)).boxed()),
        ("maxToolCalls", maybe(small(0, 14)).boxed()),
        ("maxOutputTokensPerTurn", maybe(small(1, 9000)).boxed()),
        ("timeoutMs", maybe(small(1, 20_000)).boxed()),
        ("noProgressTurns", maybe(small(1, 4)).boxed()),
        (
            "toolBudgetNotices",
            maybe(any::<bool>().prop_map(Value::from)).boxed(),
        ),
        ("maxRepeatedToolSignature", maybe(small(1, 4)).boxed()),
        ("maxNoNewEvidenceCalls", maybe(small(1, 5)).boxed()),
        (
            "maxCallsPerTool",
            maybe((0_u64..6).prop_map(|n| json!({ "search": n }))).boxed(),
        ),
        (
            "toolUnits",
            maybe(
                (1_u64..16, costs).prop_map(|(max, costs)| json!({ "max": max, "costs": costs })),
            )
            .boxed(),
        ),
        ("checkpointEveryToolCalls", maybe(small(1, 4)).boxed()),
        (
            "finalizationReserve",
            maybe((1_u64..600).prop_map(|n| json!({ "maxOutputTokens": n }))).boxed(),
        ),
        ("toolBudgetExtension", maybe(extension).boxed()),
        ("finalizationWindow", maybe(window).boxed()),
        ("finalizationTurns", maybe(turns).boxed()),
    ]
}

fn limits() -> impl Strategy<Value = Value> {
    let (names, values): (Vec<_>, Vec<_>) = fields().into_iter().unzip();
    values.prop_map(move |values| {
        let present = names.iter().zip(values);
        let present = present.filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        Value::Object(present.collect::<Map<String, Value>>())
    })
}

fn budget() -> impl Strategy<Value = Option<Budget>> {
    let source = prop_oneof![
        3 => Just(PriceSource::Priced(PRICES)),
        1 => Just(PriceSource::AsReported),
        1 => Just(PriceSource::Unknown),
    ];
    let exposure = prop::option::of((1_u8..9).prop_map(|tenths| Exposure {
        cap_usd: f64::from(tenths) * 0.1,
        wait: ExposureWait::Child,
    }));
    let ceiling = prop::option::of((1_u8..20).prop_map(|tenths| f64::from(tenths) * 0.1));
    prop::option::of(
        (ceiling, source, exposure).prop_map(|(ceiling_usd, prices, exposure)| Budget {
            ceiling_usd,
            already_spent_usd: 0.05,
            prices,
            exposure,
        }),
    )
}

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    let evidence = prop::option::of((1_u64..7, any::<bool>()).prop_map(|(min_entries, refuse)| {
        EvidenceContract {
            min_entries,
            refuse,
        }
    }));
    (
        limits(),
        budget(),
        evidence,
        prop::option::of(0_u64..3),
        any::<bool>(),
    )
        .prop_map(|(limits, budget, evidence, repair_turns, schema)| Policy {
            limits,
            budget,
            evidence,
            repair_turns,
            schema,
        })
}

/// True for checkpoints within a batch.
pub(super) fn is_mid_batch(action: &Action) -> bool {
    matches!(action, Action::Save(CheckpointKind::MidBatch { .. }))
}
