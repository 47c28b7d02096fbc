//! The engines under random limits, models, tools, streams and deaths, with what must hold at every
//! action.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use holdback_engine::Money;
use holdback_engine::caps::Engine as Caps;
use holdback_engine::protocol::{
    Action, Call, CallResult, CallStatus, Counters, Digest, Durable, Event, Fault, FaultKind,
    Finish, HistoryEntry, JournalEntry, LimitsEngine, Micros, ModelTurn, Signature, Text, ToolId,
    Usage,
};
use holdback_engine::run_limits::Engine as RunLimits;
use holdback_engine::usage_limits::{Engine as UsageLimits, Prices};
use holdback_scenarios::price::Price;
use holdback_scenarios::read;
use holdback_sim::policy::{CompiledPolicy, Engine, Ledger, ToolNames, compile};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::bytes::Bytes;

const TOOLS: [&str; 4] = ["record_evidence", "search", "fetch", "finish"];
const FINISH: u16 = 3;
/// More actions than any of these runs needs.
const ACTIONS: usize = 50_000;
const SECOND: Micros = 1_000_000;

/// Rates a million tokens.
const INPUT_USD: i64 = 4;
const OUTPUT_USD: i64 = 16;

/// `run_limits` under random actions.
pub fn run_limits(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let limits = run_limits_limits(&mut bytes);
    let rules = json!({
        "crossing_turn": bytes.one_of(&["fail", "refuse_then_synthesize", "run_then_synthesize"]),
        "answer_over_cap": bytes.one_of(&["discard", "keep"]),
        "reserve_tool_allowance": bytes.below(3),
        "reserve_fraction": bytes.one_of(&[0.0, 0.1, 0.5]),
    });
    let mut policy =
        json!({ "name": "fuzz", "family": "run_limits", "limits": limits, "rules": rules });
    put(&mut policy, "deadline_s", bytes.maybe(|b| 1 + b.below(60)));
    put(&mut policy, "attempts", bytes.maybe(|b| 1 + b.below(4)));
    put(
        &mut policy,
        "identical_calls",
        bytes.maybe(|b| 1 + b.below(6)),
    );
    put(
        &mut policy,
        "identical_denials",
        bytes.maybe(|b| 1 + b.below(4)),
    );
    let Some(compiled) = compiled(&policy) else {
        return;
    };
    let Engine::RunLimits(configs) = &compiled.engine else {
        unreachable!("the policy names its family")
    };
    let limit = |name: &str| limits.get(name).and_then(Value::as_i64);
    let steps = limit("max_steps").unwrap_or(12);
    let model_calls = limit("max_model_calls").unwrap_or(12);
    let tool_calls = limit("max_tool_calls").unwrap_or(24);
    let cost = limits.get("max_cost").and_then(Value::as_str);
    let cost = cost.map(|cost| Money::parse_exact(cost).expect("it is written by us"));
    let check = |engine: &RunLimits, run: &Seen| {
        let used = engine.counters();
        assert!(used.steps <= steps, "{} steps of {steps}", used.steps);
        assert!(
            used.model_calls <= model_calls,
            "{} model calls of {model_calls}",
            used.model_calls
        );
        assert!(
            used.tool_calls <= tool_calls,
            "{} tool calls of {tool_calls}",
            used.tool_calls
        );
        if let Some(cost) = cost {
            assert!(used.cost <= cost + run.dearest, "{} of {cost}", used.cost);
        }
        assert!(
            run.kills > 0 || run.executed as i64 <= tool_calls,
            "{} executed of {tool_calls}",
            run.executed
        );
    };
    Play::<RunLimits>::new(&configs.first, None, bytes).run(check);
}

fn run_limits_limits(bytes: &mut Bytes<'_>) -> Map<String, Value> {
    let mut limits = Map::new();
    for (limit, reserve, most) in [
        ("max_steps", "synthesis_reserve_steps", 14),
        ("max_model_calls", "synthesis_reserve_model_calls", 14),
        ("max_tool_calls", "synthesis_reserve_tool_calls", 20),
    ] {
        if let Some(value) = bytes.maybe(|b| 1 + b.below(most)) {
            limits.insert(limit.to_owned(), value.into());
        }
        if let Some(value) = bytes.maybe(|b| b.below(4)) {
            limits.insert(reserve.to_owned(), value.into());
        }
    }
    for name in ["max_input_tokens", "max_output_tokens"] {
        if bytes.below(4) == 1 {
            limits.insert(name.to_owned(), (1 + 1000 * bytes.below(200)).into());
        }
    }
    if let Some(cents) = bytes.maybe(|b| 1 + b.below(200)) {
        limits.insert(
            "max_cost".to_owned(),
            format!("{}.{:02}", cents / 100, cents % 100).into(),
        );
        let reserve = bytes.below(100).min(cents - 1);
        limits.insert(
            "synthesis_reserve_cost".to_owned(),
            format!("0.{reserve:02}").into(),
        );
    }
    limits
}

/// `usage_limits` under random actions.
pub fn usage_limits(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let limits = usage_limits_limits(&mut bytes);
    let mut policy = json!({ "name": "fuzz", "family": "usage_limits", "limits": limits });
    let ceiling = bytes.maybe(|b| 0.01 * (1 + b.below(200)) as f64);
    if let Some(ceiling) = ceiling {
        let mut budget =
            json!({ "ceiling_usd": format!("{ceiling:.2}"), "already_spent_usd": "0.005" });
        put(
            &mut budget,
            "exposure_cap_usd",
            bytes.maybe(|b| format!("0.{:02}", 1 + b.below(99))),
        );
        budget["exposure_wait"] = match bytes.below(3) {
            0 => json!(false),
            1 => json!(true),
            _ => json!("child"),
        };
        policy["budget"] = budget;
    }
    let evidence = bytes.maybe(|b| {
        json!({ "min_entries": 1 + b.below(6), "enforce": b.one_of(&["warn", "refuse", "off"]) })
    });
    put(&mut policy, "evidence", evidence);
    let repair = bytes.maybe(|b| b.below(3));
    let terminal = repair.map(|turns| json!({ "name": "finish", "repair_turn_reserve": turns }));
    put(&mut policy, "terminal_tool", terminal.clone());
    put(
        &mut policy,
        "retry_attempts",
        bytes.maybe(|b| 1 + b.below(4)),
    );
    let Some(compiled) = compiled(&policy) else {
        return;
    };
    let Engine::UsageLimits(configs) = &compiled.engine else {
        unreachable!("the policy names its family")
    };
    let max_turns = limits.get("maxTurns").and_then(Value::as_u64).unwrap_or(32);
    let units = limits
        .get("toolUnits")
        .and_then(|units| units["max"].as_u64());
    let check = |engine: &UsageLimits, run: &Seen| {
        let report = engine.report(&configs.first);
        if let (Some(cap), Action::RunCall { .. }) = (report.max_tool_calls, run.action) {
            assert!(
                report.tool_calls <= cap,
                "{} tool calls of {cap}",
                report.tool_calls
            );
        }
        if let (Some(spent), Some(max)) = (report.tool_units, units) {
            assert!(spent < max + DEAREST_UNIT, "{spent} units of {max}");
        }
        let most = max_turns + repair.unwrap_or(0) + 1;
        assert!(report.turns <= most, "{} turns of {most}", report.turns);
        if let (Some(ceiling), Some(spent)) = (ceiling, report.spent_usd) {
            let most = ceiling + run.dearest_usd + 1e-6;
            assert!(
                spent <= most.max(0.005 + run.dearest_usd),
                "{spent} USD of {most}"
            );
        }
    };
    let terminal = terminal.map(|_| ToolId(FINISH));
    Play::<UsageLimits>::new(&configs.first, terminal, bytes).run(check);
}

/// What the dearest tool costs in units.
const DEAREST_UNIT: u64 = 3;

fn usage_limits_limits(bytes: &mut Bytes<'_>) -> Map<String, Value> {
    let mut limits = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            limits.insert(name.to_owned(), value);
        }
    };
    for (name, most) in [
        ("maxTurns", 14),
        ("maxToolCalls", 16),
        ("maxOutputTokensPerTurn", 250),
        ("noProgressTurns", 4),
        ("maxRepeatedToolSignature", 4),
        ("maxNoNewEvidenceCalls", 6),
        ("checkpointEveryToolCalls", 4),
    ] {
        set(name, bytes.maybe(|b| json!(1 + b.below(most))));
    }
    set("timeoutMs", bytes.maybe(|b| json!(1 + 500 * b.below(200))));
    set("toolBudgetNotices", bytes.maybe(|b| json!(b.flag())));
    set(
        "maxCallsPerTool",
        bytes.maybe(|b| json!({ "search": b.below(6) })),
    );
    let costs = |b: &mut Bytes<'_>| json!({ "search": b.below(4), "record_evidence": b.below(3) });
    set(
        "toolUnits",
        bytes.maybe(|b| json!({ "max": 1 + b.below(16), "costs": costs(b) })),
    );
    set(
        "finalizationReserve",
        bytes.maybe(|b| json!({ "maxOutputTokens": 1 + 10 * b.below(60) })),
    );
    set(
        "toolBudgetExtension",
        bytes.maybe(|b| {
            json!({
                "increment": 1 + b.below(4),
                "maxExtensions": 1 + b.below(3),
                "minHeadroomUsd": 0.25 * b.below(3) as f64,
                "requireNewEvidence": b.flag(),
                "coverEvidenceDeficit": b.flag(),
            })
        }),
    );
    let allowed = |b: &mut Bytes<'_>| {
        b.one_of::<&[&str]>(&[
            &[],
            &["record_evidence"],
            &["record_evidence", "finish"],
            &["nothing"],
        ])
    };
    set(
        "finalizationWindow",
        bytes.maybe(|b| {
            json!({
                "reserveCalls": 1 + b.below(5),
                "reserveForEvidenceDeficit": b.flag(),
                "allow": allowed(b),
            })
        }),
    );
    set(
        "finalizationTurns",
        bytes.maybe(|b| json!({ "reserveTurns": 1 + b.below(4), "allow": allowed(b) })),
    );
    limits
}

/// `caps` under random actions.
pub fn caps(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let mut limits = Map::new();
    let model_calls = 1 + bytes.below(25) as i64;
    limits.insert("max_model_calls".to_owned(), model_calls.into());
    let tool_calls = bytes.maybe(|b| b.below(16) as i64);
    if let Some(cap) = tool_calls {
        limits.insert("max_tool_calls".to_owned(), cap.into());
    }
    for (name, most, unit) in [
        ("max_turns", 12, 1),
        ("max_input_tokens", 100, 1000),
        ("max_output_tokens", 100, 300),
        ("max_total_tokens", 100, 1300),
        ("max_time_s", 60, 1),
    ] {
        if let Some(cap) = bytes.maybe(|b| unit * (1 + b.below(most))) {
            limits.insert(name.to_owned(), cap.into());
        }
    }
    if let Some(cents) = bytes.maybe(|b| 1 + b.below(99)) {
        limits.insert("max_cost_usd".to_owned(), format!("0.{cents:02}").into());
    }
    if let Some(cap) = bytes.maybe(|b| b.below(6)) {
        limits.insert("max_calls_per_tool".to_owned(), json!({ "search": cap }));
    }
    let batch = bytes.one_of(&["reject", "trim", "run_all"]);
    let actions = [
        "error",
        "stop",
        "canned",
        "final_turn",
        "final_turn_inside",
        "block_tools",
    ];
    for (name, value) in [
        (
            "count_turns",
            bytes.one_of(&["model", "tool_turns", "supersteps"]),
        ),
        ("batch", batch),
        ("check", bytes.one_of(&["before", "after", "both"])),
        ("durable", bytes.one_of(&["turn", "none"])),
        ("cut_turn", bytes.one_of(&["end", "continue"])),
    ] {
        limits.insert(name.to_owned(), value.into());
    }
    let on_exhausted = json!({
        "tool_calls": bytes.one_of(&actions),
        "default": bytes.one_of(&actions[..4]),
    });
    limits.insert("on_exhausted".to_owned(), on_exhausted);
    limits.insert("attempts".to_owned(), (1 + bytes.below(4)).into());
    let policy = json!({ "name": "fuzz", "family": "caps", "limits": limits });
    let Some(compiled) = compiled(&policy) else {
        return;
    };
    let Engine::Caps(configs) = &compiled.engine else {
        unreachable!("the policy names its family")
    };
    let check = |engine: &Caps, run: &Seen| {
        let used = engine.counters();
        // The one more is the turn past the cap.
        assert!(
            used.model_calls <= model_calls + 1,
            "{} model calls of {model_calls}",
            used.model_calls
        );
        if let (Some(cap), "reject" | "trim") = (tool_calls, batch) {
            assert!(
                used.tool_calls <= cap,
                "{} tool calls of {cap}",
                used.tool_calls
            );
            assert!(
                run.kills > 0 || run.executed as i64 <= cap,
                "{} executed of {cap}",
                run.executed
            );
        }
    };
    Play::<Caps>::new(&configs.first, None, bytes).run(check);
}

/// Checkpoints as a runtime might find them: the engine must end the run, whatever they hold.
pub fn checkpoints(bytes: &[u8]) {
    let Some((family, text)) = bytes.split_first() else {
        return;
    };
    let policy = match family % 3 {
        0 => json!({ "name": "fuzz", "family": "run_limits", "limits": {
            "max_steps": 6, "max_model_calls": 8, "max_tool_calls": 9, "synthesis_reserve_steps": 1 } }),
        1 => json!({ "name": "fuzz", "family": "usage_limits", "limits": {
            "maxTurns": 6, "maxToolCalls": 9, "checkpointEveryToolCalls": 2,
            "toolUnits": { "max": 20 }, "maxRepeatedToolSignature": 3,
            "finalizationWindow": { "reserveCalls": 2, "allow": ["record_evidence"] } } }),
        _ => json!({ "name": "fuzz", "family": "caps", "limits": {
            "max_model_calls": 8, "max_tool_calls": 9, "max_calls_per_tool": { "search": 5 } } }),
    };
    let compiled = compiled(&policy).expect("it is a policy");
    match &compiled.engine {
        Engine::RunLimits(configs) => resumed::<RunLimits>(&configs.first, text),
        Engine::UsageLimits(configs) => resumed::<UsageLimits>(&configs.first, text),
        Engine::Caps(configs) => resumed::<Caps>(&configs.first, text),
    }
}

fn resumed<E: LimitsEngine>(config: &E::Config, text: &[u8]) {
    let Ok(checkpoint) = serde_json::from_slice::<E::Checkpoint>(text) else {
        return;
    };
    let mut play = Play::<E>::new(config, None, Bytes::new(&[]));
    play.stored = Some((checkpoint, Vec::new()));
    play.restart();
    play.run(|_, _| {});
}

fn put(table: &mut Value, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        table[key] = value.into();
    }
}

/// The policy for the tools and the price of this module; `None` if the reader refuses it.
fn compiled(policy: &Value) -> Option<CompiledPolicy> {
    let policy = read::policy_from_json("fuzz", policy).ok()?;
    let mut names = ToolNames::of_records();
    for tool in TOOLS {
        names.resolve(tool);
    }
    let micros = |usd: i64| Money::from_micros(usd);
    let price = Price {
        input: micros(INPUT_USD),
        cached_input: micros(INPUT_USD),
        cache_write: micros(INPUT_USD),
        output: micros(OUTPUT_USD),
    };
    let ledger = Ledger {
        price: Some(price),
        as_reported: false,
        budget: None,
        checkpoint_cost: Money::ZERO,
    };
    compile(&policy, &mut names, &ledger).ok()
}

/// What the driver has seen of a run.
struct Seen {
    action: Action,
    executed: u64,
    kills: u64,
    dearest: Money,
    dearest_usd: f64,
}

/// What answers the last action.
#[derive(Clone, Debug)]
enum Happened {
    Start,
    Done,
    Estimated(f64),
    Usage(Usage, Money),
    Turn(Attempt),
    Failed(Fault),
    Call(CallResult),
    Batch(Vec<CallResult>),
    Judged(bool),
}

#[derive(Clone, Debug)]
struct Attempt {
    usage: Usage,
    cost: Money,
    calls: Vec<Call>,
    text: Text,
    finish: Finish,
    fault: Option<Fault>,
}

impl Happened {
    fn event(&self) -> Event<'_> {
        match self {
            Happened::Start => Event::Start,
            Happened::Done => Event::Done,
            Happened::Estimated(tokens) => Event::PromptEstimated(*tokens),
            Happened::Usage(usage, cost) => Event::UsageReported(*usage, *cost),
            Happened::Turn(turn) => Event::ModelDone(ModelTurn {
                usage: turn.usage,
                cost: turn.cost,
                text: turn.text,
                calls: &turn.calls,
                finish: turn.finish,
                typed: true,
            }),
            Happened::Failed(fault) => Event::ModelFailed(*fault),
            Happened::Call(result) => Event::CallDone(*result),
            Happened::Batch(results) => Event::BatchDone(results),
            Happened::Judged(accepted) => Event::TerminalJudged(*accepted),
        }
    }
}

/// One run, in one process or several.
struct Play<'c, 'b, E: LimitsEngine> {
    config: &'c E::Config,
    engine: E,
    terminal: Option<ToolId>,
    bytes: Bytes<'b>,
    /// After how many actions the process dies, the next one last.
    deaths: Vec<usize>,
    snapshots: bool,
    now: Micros,
    happened: Happened,
    in_flight: Option<Attempt>,
    next_call: u32,
    history: Vec<HistoryEntry>,
    stored: Option<(E::Checkpoint, Vec<HistoryEntry>)>,
    counters: Counters,
    journal: Vec<JournalEntry>,
    outcomes: BTreeMap<u32, CallResult>,
    seen: Seen,
}

impl<'c, 'b, E: LimitsEngine> Play<'c, 'b, E> {
    fn new(config: &'c E::Config, terminal: Option<ToolId>, mut bytes: Bytes<'b>) -> Self {
        let snapshots = bytes.flag();
        let count = bytes.below(4);
        let mut deaths: Vec<usize> = (0..count).map(|_| bytes.byte().into()).collect();
        deaths.sort_unstable_by(|a, b| b.cmp(a));
        Play {
            config,
            engine: E::new(config),
            terminal,
            bytes,
            deaths,
            snapshots,
            now: 0,
            happened: Happened::Start,
            in_flight: None,
            next_call: 0,
            history: Vec::new(),
            stored: None,
            counters: Counters::default(),
            journal: Vec::new(),
            outcomes: BTreeMap::new(),
            seen: Seen {
                action: Action::EstimatePrompt,
                executed: 0,
                kills: 0,
                dearest: Money::ZERO,
                dearest_usd: 0.0,
            },
        }
    }

    /// Plays to the end.
    fn run(mut self, check: impl Fn(&E, &Seen)) {
        let mut ledger = self.engine.ledger(self.config);
        for number in 0..ACTIONS {
            let action = self.advance();
            self.seen.action = action;
            let booked = self.engine.ledger(self.config);
            assert!(
                booked >= ledger,
                "the ledger falls from {ledger} to {booked}"
            );
            ledger = booked;
            check(&self.engine, &self.seen);
            // A restart may have lost a grant.
            let over_cap = self.engine.over_cap(self.config);
            assert!(
                self.seen.kills > 0 || over_cap.is_none(),
                "past {over_cap:?}"
            );
            if matches!(action, Action::Finish(_)) {
                return;
            }
            let dies = self.deaths.last().is_some_and(|at| *at <= number);
            let performed = !dies || self.bytes.flag();
            if performed {
                self.happened = self.perform(action);
            }
            if dies {
                self.deaths.pop();
                self.restart();
                ledger = self.engine.ledger(self.config);
            }
        }
        panic!("the run does not end");
    }

    /// The next action; with snapshots, that of the state carried through bytes must be the same.
    fn advance(&mut self) -> Action {
        let twin = self.snapshots.then(|| {
            let state = through_bytes(self.engine.state());
            E::from_state(self.config, state)
        });
        let event = self.happened.event();
        let action = self.engine.advance(self.config, self.now, event, &mut ());
        if let Some(mut twin) = twin {
            let event = self.happened.event();
            let same = twin.advance(self.config, self.now, event, &mut ());
            assert_eq!(same, action, "the restored state goes on differently");
        }
        action
    }

    fn perform(&mut self, action: Action) -> Happened {
        match action {
            Action::EstimatePrompt => Happened::Estimated(100.0 * self.history.len() as f64),
            Action::CallModel(_) => {
                let attempt = self.attempt();
                if self.bytes.flag() {
                    let reported = Happened::Usage(attempt.usage, attempt.cost);
                    self.in_flight = Some(attempt);
                    return reported;
                }
                self.end_of(attempt)
            }
            Action::ContinueStream => {
                let attempt = self.in_flight.take().expect("an attempt is in flight");
                self.end_of(attempt)
            }
            Action::SeverStream => {
                let attempt = self.in_flight.take().expect("an attempt is in flight");
                Happened::Failed(Fault {
                    kind: FaultKind::Severed,
                    produced_output: true,
                    usage: Some(attempt.usage),
                    cost: attempt.cost,
                })
            }
            Action::Wait(pause) => {
                assert!(pause >= 0, "a wait of {pause}");
                self.now += pause;
                Happened::Done
            }
            Action::RunCall { index, recovered } => {
                let call = self.engine.calls()[index as usize];
                Happened::Call(self.execute(call, recovered))
            }
            Action::RunBatch {
                first,
                count,
                recovered,
            } => {
                let calls = self.engine.calls()[first as usize..][..count as usize].to_vec();
                let results = calls.into_iter().map(|call| self.execute(call, recovered));
                Happened::Batch(results.collect())
            }
            Action::JudgeTerminal { index } => {
                let call = self.engine.calls()[index as usize];
                let accepted = self.bytes.below(3) != 1;
                if !accepted {
                    self.history.push(HistoryEntry::Answered { call });
                }
                Happened::Judged(accepted)
            }
            Action::AnswerCalls { first, count, .. } => {
                let calls = &self.engine.calls()[first as usize..][..count as usize];
                let answered = calls
                    .iter()
                    .map(|call| HistoryEntry::Answered { call: *call });
                self.history.extend(answered);
                Happened::Done
            }
            Action::Record(_) => {
                self.counters = *self.engine.counters();
                Happened::Done
            }
            Action::Journal(entry) => {
                self.journal.push(entry);
                Happened::Done
            }
            Action::Save(_) => {
                let mut checkpoint = E::Checkpoint::default();
                self.engine.save(self.config, &mut checkpoint);
                self.stored = Some((through_bytes(&checkpoint), self.history.clone()));
                Happened::Done
            }
            Action::Notify(_) => Happened::Done,
            Action::Finish(_) => unreachable!("the run is over"),
        }
    }

    /// What the model does; behind the end of the bytes it answers.
    fn attempt(&mut self) -> Attempt {
        let over = self.bytes.is_empty();
        let usage = Usage {
            input: 100 + 200 * u64::from(self.bytes.byte()),
            output: 10 + 40 * u64::from(self.bytes.byte()),
            ..Usage::default()
        };
        let micros = INPUT_USD * usage.input as i64 + OUTPUT_USD * usage.output as i64;
        let cost = Money::from_micros(micros);
        let prices = Prices {
            input_per_mtok: INPUT_USD as f64,
            output_per_mtok: OUTPUT_USD as f64,
            cache_read_per_mtok: None,
            cache_write_per_mtok: None,
        };
        self.seen.dearest = self.seen.dearest.max(cost);
        self.seen.dearest_usd = self.seen.dearest_usd.max(prices.price(&usage));
        self.now += SECOND / 4 * i64::from(self.bytes.byte());
        let mut attempt = Attempt {
            usage,
            cost,
            calls: Vec::new(),
            text: Text::Content,
            finish: Finish::Stop,
            fault: None,
        };
        if over {
            attempt
                .calls
                .extend(self.terminal.map(|tool| self.call(tool, 0, 0)));
            return attempt;
        }
        match self.bytes.below(16) {
            0..=9 => {
                let count = 1 + self.bytes.below(5);
                attempt.calls = (0..count).map(|_| self.drawn_call()).collect();
                attempt.text = self.text();
            }
            10 => attempt.text = self.text(),
            11 => {
                attempt.finish = Finish::Length;
                attempt.text = self.text();
            }
            12 => {
                attempt.finish = self.bytes.one_of(&[
                    Finish::Refusal,
                    Finish::ContextOverflow,
                    Finish::Cancelled,
                ]);
                attempt.text = self.text();
            }
            13 => self.engine.request_cancel(),
            _ => attempt.fault = Some(self.fault(usage, cost)),
        }
        attempt
    }

    fn fault(&mut self, usage: Usage, cost: Money) -> Fault {
        let retry_after = Some(SECOND * i64::from(self.bytes.byte()));
        let kind = self.bytes.one_of(&[
            FaultKind::Transient,
            FaultKind::RateLimit { retry_after },
            FaultKind::RateLimit { retry_after: None },
            FaultKind::Permanent,
            FaultKind::Protocol,
            FaultKind::Idle,
            FaultKind::Cut,
        ]);
        let billed = self.bytes.flag();
        Fault {
            kind,
            produced_output: self.bytes.flag(),
            usage: billed.then_some(usage),
            cost: if billed { cost } else { Money::ZERO },
        }
    }

    fn text(&mut self) -> Text {
        self.bytes
            .one_of(&[Text::Content, Text::Absent, Text::Blank])
    }

    fn drawn_call(&mut self) -> Call {
        let tools = if self.terminal.is_some() { 5 } else { 3 };
        let tool = ToolId(self.bytes.below(tools) as u16);
        let arguments = self.bytes.below(6);
        let facts = self.bytes.byte();
        self.call(tool, arguments, facts)
    }

    fn call(&mut self, tool: ToolId, arguments: u64, facts: u8) -> Call {
        let number = u64::from(tool.0) * 100 + arguments + 1;
        let signature = Signature(NonZeroU64::new(number).expect("it is above 0"));
        let id = self.next_call;
        self.next_call += 1;
        Call {
            id,
            tool,
            raw_signature: signature,
            canonical_signature: (facts % 16 != 15).then_some(signature),
            denial_key: signature,
            denied: facts % 8 == 7,
            parallel: facts & 0x40 != 0,
            terminal: self.terminal == Some(tool),
        }
    }

    /// The attempt ends; the calls of a turn join the conversation.
    fn end_of(&mut self, attempt: Attempt) -> Happened {
        if let Some(fault) = attempt.fault {
            return Happened::Failed(fault);
        }
        self.history.push(HistoryEntry::Turn);
        let proposed = attempt
            .calls
            .iter()
            .map(|call| HistoryEntry::Proposed(*call));
        self.history.extend(proposed);
        Happened::Turn(attempt)
    }

    fn execute(&mut self, call: Call, recovered: bool) -> CallResult {
        if let Some(result) = self.outcomes.get(&call.id).filter(|_| recovered) {
            let result = *result;
            self.history.push(HistoryEntry::Result { call, result });
            return result;
        }
        // Of a denied call nothing runs.
        self.seen.executed += u64::from(!call.denied);
        self.now += SECOND;
        let drawn = self.bytes.byte();
        let status = match drawn % 8 {
            _ if call.denied => CallStatus::Denied,
            7 => CallStatus::Failed,
            _ => CallStatus::Succeeded,
        };
        let value = NonZeroU64::new(1 + u64::from(drawn / 8)).expect("it is above 0");
        let succeeded = status == CallStatus::Succeeded;
        let result = CallResult {
            status,
            digest: succeeded.then_some(Digest(value)),
            recorded_evidence: succeeded && call.tool == ToolId(0),
            cost: Money::ZERO,
        };
        self.outcomes.insert(call.id, result);
        self.history.push(HistoryEntry::Result { call, result });
        result
    }

    /// The process dies and another takes up the run from what was durable.
    fn restart(&mut self) {
        self.seen.kills += 1;
        self.in_flight = None;
        self.history = self
            .stored
            .as_ref()
            .map_or(Vec::new(), |(_, history)| history.clone());
        let durable = Durable {
            checkpoint: self.stored.as_ref().map(|(checkpoint, _)| checkpoint),
            counters: &self.counters,
            journal: &self.journal,
            history: &self.history,
        };
        self.engine = E::resume(self.config, durable);
        self.happened = Happened::Start;
    }
}

fn through_bytes<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let bytes = serde_json::to_vec(value).expect("it is written");
    serde_json::from_slice(&bytes).expect("it is read back")
}
