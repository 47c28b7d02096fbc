//! A model that follows a script, for incidents and tests.

use std::num::NonZeroU64;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Call, CallResult, CallStatus, Digest, FaultKind, Finish, Instruction, Limiter, Micros,
    ModelRequest, Notice, Signature, Text, ToolId, Tools, Usage, Verdict,
};
use holdback_engine::signature;
use holdback_scenarios::policy::Family;
use holdback_scenarios::script::{
    Act, Args, Bill, OnEnd, Script, ScriptCall, ScriptFault, ScriptTurn,
};
use holdback_scenarios::{Quantity, Scenario};

use super::{Before, Ran, Reply, ReplyOutcome, World, kill_word, scaled};
use crate::driver::KillPlan;
use crate::luck::{Chance, Luck, LuckKey, model, tool, uniform};
use crate::policy::{Facts, ToolNames};
use crate::tally::{Event, Seen};

/// The longest that a silent stream is listened to where the policy sets no idle timeout.
const LONGEST_SILENCE: Micros = 600_000_000;

/// A scripted world; one is reused for all runs of a thread.
#[derive(Clone, Debug)]
pub struct Scripted<'s> {
    scenario: &'s Scenario,
    script: &'s Script,
    names: ToolNames,
    kills: KillPlan,
    luck: Luck,
    facts: Facts,
    proposed: Vec<Call>,
    /// What each call proposed so far does when it runs, by its id; kept through kills.
    known: Vec<Known>,
    /// Digests of the successful results in the conversation.
    digests: Vec<Digest>,
    /// Position of the script's last turn with calls, which `on_end` may go on with.
    last_calls: Option<usize>,
    talk: ScriptTalk,
}

/// The conversation, as far as it decides what happens next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScriptTalk {
    /// Position of the next request in the script.
    position: usize,
    /// Position of the next closing turn.
    closing: usize,
    digests: usize,
    evidence: u64,
    entries: u64,
    context: u64,
    /// Told by a window or a refusal that it should finish, and what it made of it.
    window: Window,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Window {
    #[default]
    NotTold,
    Due,
    Obeys,
    Ignores,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    status: CallStatus,
    digest: Digest,
    records: bool,
    cost: Money,
    latency: Micros,
    tokens: u64,
    words: [u32; crate::luck::TOOL_WORDS],
    /// Executions.
    ran: u32,
}

impl<'s> Scripted<'s> {
    /// A world that follows `script`, which is the script of `scenario`.
    pub fn new(
        scenario: &'s Scenario,
        script: &'s Script,
        names: ToolNames,
        key: LuckKey,
    ) -> Scripted<'s> {
        Scripted {
            scenario,
            script,
            names,
            kills: KillPlan::new(&scenario.kills),
            luck: Luck::new(key),
            facts: Facts::default(),
            proposed: Vec::new(),
            known: Vec::new(),
            digests: Vec::new(),
            last_calls: (0..script.len()).rev().find(|at| {
                matches!(
                    script.turn(*at).map(|turn| &turn.act),
                    Some(Act::Calls { .. })
                )
            }),
            talk: ScriptTalk::default(),
        }
    }

    /// Without any engine the script never comes to an end: no turn of it answers or fails, and what
    /// follows it goes on for ever.
    pub fn endless(&self) -> bool {
        let goes_on = |turn: &ScriptTurn| match &turn.act {
            Act::Calls { .. } => true,
            Act::Answer(text) | Act::Say(text) => text.is_empty(),
            Act::Fault { fault, .. } => !matches!(
                fault,
                ScriptFault::Permanent | ScriptFault::Protocol | ScriptFault::Truncated
            ),
        };
        let model = &self.scenario.model;
        self.script.on_end != OnEnd::Answer
            && model.max_output_tokens.is_none()
            && model.context_window.is_none()
            && (0..self.script.len())
                .filter_map(|at| self.script.turn(at))
                .all(goes_on)
    }

    /// The scripted turn of a position, past the end the one that `on_end` asks for.
    fn scripted(&self, position: usize) -> Planned<'s> {
        if let Some(turn) = self.script.turn(position) {
            // What is repeated past the end is this very turn.
            let is_first = self.script.on_end == OnEnd::Repeat && self.last_calls == Some(position);
            return Planned::Turn(
                turn,
                if is_first {
                    Repetition::Same
                } else {
                    Repetition::Never
                },
            );
        }
        match self.script.on_end {
            OnEnd::Answer => Planned::Answer(self.script.last()),
            OnEnd::Stop => Planned::Nothing(self.script.last()),
            OnEnd::Hungry | OnEnd::Repeat => {
                match self.last_calls.and_then(|at| self.script.turn(at)) {
                    Some(turn) if self.script.on_end == OnEnd::Repeat => {
                        Planned::Turn(turn, Repetition::Same)
                    }
                    Some(turn) => Planned::Turn(turn, Repetition::Fresh),
                    None => Planned::Answer(self.script.last()),
                }
            }
        }
    }

    /// What the model does with a request.
    fn plan(&self, request: &ModelRequest, words: &[u32; crate::luck::MODEL_WORDS]) -> Planned<'s> {
        let compliance = &self.scenario.model.compliance;
        let obeys = |chance: f64, word: usize| Chance::new(chance).happens(words[word]);
        let position = self.talk.position;
        if matches!(request.tools, Tools::Withheld | Tools::Absent) {
            return if obeys(compliance.tools_withheld.get(), model::TOOLS_WITHHELD) {
                self.closing(position)
            } else {
                Planned::Nothing(self.script.turn(position).or(self.script.last()))
            };
        }
        let told = matches!(
            request.instruction,
            Some(
                Instruction::SynthesisOnly(_)
                    | Instruction::FinalTurn(_)
                    | Instruction::Drained { .. }
            )
        );
        if told && obeys(compliance.synthesis_only.get(), model::SYNTHESIS_ONLY) {
            return self.closing(position);
        }
        if self.talk.window == Window::Obeys {
            return self.closing(position);
        }
        self.scripted(position)
    }

    fn closing(&self, position: usize) -> Planned<'s> {
        if self.script.closing.is_empty() {
            return Planned::Answer(self.script.turn(position).or(self.script.last()));
        }
        let last = self.script.closing.len() - 1;
        Planned::Closing(&self.script.closing[self.talk.closing.min(last)])
    }

    fn propose(&mut self, calls: &[ScriptCall], repetition: Repetition) {
        for (at, call) in calls.iter().enumerate() {
            let id = self.known.len() as u32;
            let (tool, known_tool) = self.names.resolve(&call.tool);
            let fresh = match repetition {
                Repetition::Same => repeated_identity(at),
                Repetition::Never | Repetition::Fresh => fresh_identity(id),
            };
            let (raw, canonical, denial) = match &call.args {
                Args::Given { value, raw } if !matches!(repetition, Repetition::Fresh) => (
                    signature::raw(&call.tool, raw),
                    // What is no JSON is passed on as the text that it is.
                    match value {
                        Some(_) => signature::canonical(&call.tool, value.as_ref()),
                        None => signature::canonical(&call.tool, Some(&raw.as_str().into())),
                    },
                    signature::denial(&call.tool, raw, "policy"),
                ),
                _ => (Signature(fresh), Some(Signature(fresh)), Signature(fresh)),
            };
            let unknown_denied = !known_tool && self.facts.family == Some(Family::RunLimits);
            let status = if call.denied || unknown_denied {
                CallStatus::Denied
            } else if call.error || !known_tool {
                CallStatus::Failed
            } else {
                CallStatus::Succeeded
            };
            let digest = match (&call.content, &call.result) {
                (Some(content), _) => {
                    signature::digest(&serde_json::Value::String(content.clone()))
                }
                (None, Some(result)) => signature::digest(result),
                (None, None) => None,
            };
            let records = call.tool == "record_evidence"
                && call.result.as_ref().is_none_or(|result| {
                    result.get("recorded") == Some(&serde_json::Value::Bool(true))
                });
            let words = *self.luck.tool();
            let tool_spec = self.scenario.tools.get(usize::from(tool.0));
            let drawn_latency = || {
                tool_spec.map_or(0, |spec| {
                    let seconds = spec
                        .latency_s
                        .quantile(uniform(words[tool::LATENCY_OR_WINDOW]));
                    (seconds * 1e6 + 0.5) as Micros
                })
            };
            self.known.push(Known {
                status,
                digest: digest.unwrap_or(Digest(fresh)),
                records,
                cost: tool_spec
                    .filter(|_| status != CallStatus::Denied)
                    .map_or(Money::ZERO, |spec| spec.cost),
                latency: call.latency.unwrap_or_else(drawn_latency),
                tokens: tool_spec.map_or(0, |spec| {
                    spec.result_tokens
                        .quantile_count(uniform(words[tool::SIZE]))
                }),
                words,
                ran: 0,
            });
            self.proposed.push(Call {
                id,
                tool,
                raw_signature: raw,
                canonical_signature: canonical,
                denial_key: denial,
                denied: call.denied,
                parallel: !call.denied && tool_spec.is_some_and(|spec| spec.parallel),
                terminal: self.facts.terminal_tool == Some(tool),
            });
        }
    }

    fn propose_terminal(&mut self, tool: ToolId) {
        let id = self.known.len() as u32;
        let fresh = fresh_identity(id);
        self.known.push(Known {
            status: CallStatus::Succeeded,
            digest: Digest(fresh),
            records: false,
            cost: Money::ZERO,
            latency: 0,
            tokens: 0,
            words: *self.luck.tool(),
            ran: 0,
        });
        self.proposed.push(Call {
            id,
            tool,
            raw_signature: Signature(fresh),
            canonical_signature: Some(Signature(fresh)),
            denial_key: Signature(fresh),
            denied: false,
            parallel: false,
            terminal: true,
        });
    }

    fn learn(&mut self, known: &Known, status: CallStatus) {
        self.talk.context += known.tokens;
        if status != CallStatus::Succeeded {
            return;
        }
        if known.records {
            self.talk.entries += 1;
            return;
        }
        if !self.digests.contains(&known.digest) {
            self.digests.push(known.digest);
            self.talk.digests += 1;
            self.talk.evidence += 1;
        }
    }

    /// What a turn is billed, with the output cap and the window applied where tokens are given;
    /// `None` if the request does not fit the window.
    fn charge(&self, bill: &Bill, request: &ModelRequest) -> Option<Charge> {
        let model = &self.scenario.model;
        let tokens = match bill {
            Bill::Nothing => return Some(Charge::default()),
            Bill::Cost { cost, tokens } => {
                return Some(Charge {
                    usage: usage_of(tokens),
                    billed: *cost,
                    plain: *cost,
                    cut: false,
                });
            }
            Bill::Tokens(tokens) => tokens,
        };
        let mut usage = usage_of(tokens);
        let mut cap = request
            .output_cap
            .unwrap_or(u64::MAX)
            .min(model.max_output_tokens.unwrap_or(u64::MAX));
        if let Some(window) = model.context_window {
            if model.clamp_to_window {
                cap = cap.min(window.saturating_sub(usage.input));
            }
            let wanted = if cap == u64::MAX { 1 } else { cap.max(1) };
            if usage.input.saturating_add(wanted) > window {
                return None;
            }
        }
        let cut = usage.output > cap;
        usage.output = usage.output.min(cap);
        let plain = model.price.map_or(Money::ZERO, |price| price.cost(&usage));
        let billed = match model.long_context {
            Some(long) if usage.input > long.above_tokens => long.price.cost(&usage),
            _ => plain,
        };
        Some(Charge {
            usage,
            billed,
            plain,
            cut,
        })
    }
}

/// What a scripted turn is charged.
#[derive(Clone, Copy, Debug, Default)]
struct Charge {
    usage: Usage,
    billed: Money,
    /// At the model's plain price.
    plain: Money,
    /// The output cap cut it.
    cut: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Planned<'s> {
    Turn(&'s ScriptTurn, Repetition),
    Closing(&'s ScriptTurn),
    /// An answer at the cost of this turn.
    Answer(Option<&'s ScriptTurn>),
    /// No text, no calls, at the cost of this turn.
    Nothing(Option<&'s ScriptTurn>),
}

/// Whether a turn is played past the end of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repetition {
    /// It is the turn of its position.
    Never,
    /// Again, with fresh arguments.
    Fresh,
    /// Again, with the same arguments.
    Same,
}

fn usage_of(tokens: &holdback_scenarios::script::Tokens) -> Usage {
    Usage {
        input: tokens.input,
        cached: tokens.cached,
        cache_write: tokens.cache_write,
        output: tokens.output,
        reasoning: tokens.reasoning,
    }
}

fn fresh_identity(id: u32) -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(u64::from(id))
}

/// The identity of a call of the repeated turn; ids stay below 2^32 and cannot meet it.
fn repeated_identity(at: usize) -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(1 << 32 | at as u64)
}

fn text_of(text: Option<&str>) -> Text {
    match text {
        None | Some("") => Text::Absent,
        Some(text) if text.trim().is_empty() => Text::Blank,
        Some(_) => Text::Content,
    }
}

impl World for Scripted<'_> {
    type Mark = ScriptTalk;

    fn start(&mut self, run: u64, facts: &Facts) {
        self.luck.start(run);
        self.facts.clone_from(facts);
        self.proposed.clear();
        self.known.clear();
        self.digests.clear();
        self.talk = ScriptTalk::default();
    }

    fn kills(&self) -> &KillPlan {
        &self.kills
    }

    fn estimate(&mut self) -> f64 {
        let turn = match self.scripted(self.talk.position) {
            Planned::Turn(turn, _) | Planned::Closing(turn) => Some(turn),
            Planned::Answer(turn) | Planned::Nothing(turn) => turn,
        };
        let input = match turn.map(|turn| &turn.bill) {
            Some(Bill::Tokens(tokens) | Bill::Cost { tokens, .. }) => tokens.input,
            _ => 0,
        };
        let u = uniform(self.luck.peek_model()[model::ESTIMATE]);
        (input as f64 * self.scenario.model.estimate_error.quantile(u)).round()
    }

    fn request(&mut self, request: &ModelRequest, _now: Micros, before: Before) -> Reply {
        let words = *self.luck.model();
        self.proposed.clear();
        if self.talk.window == Window::Due {
            self.settle_window(words[model::WINDOW]);
        }
        let planned = self.plan(request, &words);
        self.talk.position += 1;
        let turn = match planned {
            Planned::Turn(turn, _) => Some(turn),
            Planned::Closing(turn) => {
                self.talk.closing += 1;
                Some(turn)
            }
            Planned::Answer(turn) | Planned::Nothing(turn) => turn,
        };
        let bill = turn.map_or(Bill::Nothing, |turn| turn.bill);
        let mut reply = Reply {
            outcome: ReplyOutcome::Overflow,
            told: None,
            told_cost: Money::ZERO,
            billed: Money::ZERO,
            usage: Usage::default(),
            dearest: Money::ZERO,
            requests: 1,
            latency: 0,
            seen: Seen::default(),
            died: self
                .kills
                .after_model(before.kills, before.requests + 1, words[model::KILL]),
            tail_word: words[model::TAIL_LOSS],
        };
        let Some(charge) = self.charge(&bill, request) else {
            return reply;
        };
        reply.usage = charge.usage;
        reply.billed = charge.billed;
        reply.dearest = charge.billed;
        reply.latency = turn.map_or(0, |turn| turn.latency);
        let usage = &charge.usage;
        let visible = usage.output - usage.reasoning.unwrap_or(0).min(usage.output);
        self.talk.context = usage.input.saturating_add(visible);
        reply.outcome = match planned {
            Planned::Nothing(_) => turn_of(Text::Absent, charge.cut),
            Planned::Answer(_) => self.answer(Text::Content, charge.cut, request),
            Planned::Turn(turn, repetition) => {
                self.act(&turn.act, repetition, &charge, request, &words, &mut reply)
            }
            Planned::Closing(turn) => {
                let never = Repetition::Never;
                self.act(&turn.act, never, &charge, request, &words, &mut reply)
            }
        };
        if let ReplyOutcome::Turn { typed, .. } = &mut reply.outcome {
            *typed = *typed && self.facts.typed.happens(words[model::RETRY_AFTER]);
        }
        let is_turn = matches!(reply.outcome, ReplyOutcome::Turn { .. });
        if bill != Bill::Nothing || is_turn {
            (reply.told, reply.told_cost) = self.report(&words, &charge);
        }
        reply
    }

    fn proposed(&self) -> &[Call] {
        &self.proposed
    }

    fn run(&mut self, call: &Call) -> Ran {
        let known = self.known[call.id as usize];
        self.known[call.id as usize].ran += 1;
        self.learn(&known, known.status);
        Ran {
            result: CallResult {
                status: known.status,
                digest: (known.status == CallStatus::Succeeded).then_some(known.digest),
                recorded_evidence: known.records && known.status == CallStatus::Succeeded,
                cost: known.cost,
            },
            latency: known.latency,
            kill_word: kill_word(known.words[tool::KILL], known.ran),
        }
    }

    fn replay(&mut self, call: &Call, ran: &Ran) {
        let known = self.known[call.id as usize];
        self.learn(&known, ran.result.status);
    }

    fn judge(&mut self, _call: &Call) -> bool {
        true
    }

    fn answered(&mut self, call: &Call, verdict: Verdict, _limiter: Limiter) {
        if verdict != Verdict::Denied || self.talk.window != Window::NotTold {
            let word = self.known[call.id as usize].words[tool::LATENCY_OR_WINDOW];
            self.settle_window(word);
        }
    }

    fn notify(&mut self, notice: &Notice) {
        match notice {
            Notice::Window { .. } => self.talk.window = Window::Due,
            Notice::Extension { .. } => self.talk.window = Window::NotTold,
            _ => {}
        }
    }

    fn mark(&self) -> ScriptTalk {
        self.talk
    }

    fn rewind(&mut self, mark: &ScriptTalk) {
        self.talk = *mark;
        self.digests.truncate(mark.digests);
    }

    fn context_tokens(&self) -> u64 {
        self.talk.context
    }

    fn evidence(&self) -> u64 {
        self.talk.evidence
    }

    fn evidence_entries(&self) -> u64 {
        self.talk.entries
    }
}

impl Scripted<'_> {
    fn settle_window(&mut self, word: u32) {
        let obeys = Chance::new(self.scenario.model.compliance.window.get()).happens(word);
        self.talk.window = if obeys {
            Window::Obeys
        } else {
            Window::Ignores
        };
    }

    /// What comes of a scripted turn.
    fn act(
        &mut self,
        act: &Act,
        repetition: Repetition,
        charge: &Charge,
        request: &ModelRequest,
        words: &[u32; crate::luck::MODEL_WORDS],
        reply: &mut Reply,
    ) -> ReplyOutcome {
        match act {
            Act::Calls { .. } if charge.cut => turn_of(Text::Content, true),
            Act::Calls { calls, text } => {
                self.propose(calls, repetition);
                turn_of(text_of(text.as_deref()), false)
            }
            Act::Answer(text) => self.answer(text_of(Some(text)), charge.cut, request),
            Act::Say(text) => turn_of(text_of(Some(text)), charge.cut),
            Act::Fault { fault, text } => {
                match fault {
                    ScriptFault::Stall => {
                        let silence = request.idle_timeout.unwrap_or(LONGEST_SILENCE);
                        reply.latency = silence.min(LONGEST_SILENCE);
                        reply.seen.mark(Event::Stall);
                    }
                    ScriptFault::RateLimit => reply.seen.mark(Event::RateLimited),
                    _ => {}
                }
                let retry_after = self.scenario.model.faults.retry_after_s.as_ref();
                let told = |seconds: &Quantity| {
                    (seconds.quantile(uniform(words[model::RETRY_AFTER])) * 1e6 + 0.5) as Micros
                };
                fault_of(*fault, text.as_deref(), retry_after.map(told))
            }
        }
    }

    /// What the engine is told of a charge.
    fn report(
        &self,
        words: &[u32; crate::luck::MODEL_WORDS],
        charge: &Charge,
    ) -> (Option<Usage>, Money) {
        let reporting = &self.scenario.model.reporting;
        if Chance::new(reporting.missing.get()).happens(words[model::REPORTING]) {
            return (None, Money::ZERO);
        }
        scaled(charge.usage, charge.plain, reporting.factor)
    }

    /// An answer: through the terminal tool where the policy has one and the request offers it.
    fn answer(&mut self, text: Text, cut: bool, request: &ModelRequest) -> ReplyOutcome {
        match self.facts.terminal_tool {
            Some(tool) if !cut && !matches!(request.tools, Tools::Withheld | Tools::Absent) => {
                self.propose_terminal(tool);
                turn_of(Text::Absent, false)
            }
            _ => turn_of(text, cut),
        }
    }
}

fn turn_of(text: Text, cut: bool) -> ReplyOutcome {
    ReplyOutcome::Turn {
        text,
        finish: if cut { Finish::Length } else { Finish::Stop },
        typed: text == Text::Content,
    }
}

fn fault_of(fault: ScriptFault, text: Option<&str>, retry_after: Option<Micros>) -> ReplyOutcome {
    let failed = |kind, produced_output| ReplyOutcome::Fault {
        kind,
        produced_output,
    };
    match fault {
        ScriptFault::Transient => failed(FaultKind::Transient, false),
        ScriptFault::TransientAfterOutput => failed(FaultKind::Transient, true),
        ScriptFault::Permanent => failed(FaultKind::Permanent, false),
        ScriptFault::Protocol => failed(FaultKind::Protocol, false),
        ScriptFault::RateLimit => failed(FaultKind::RateLimit { retry_after }, false),
        ScriptFault::Stall => failed(FaultKind::Idle, false),
        ScriptFault::Empty => turn_of(Text::Absent, false),
        ScriptFault::Truncated => {
            turn_of(text.map_or(Text::Content, |text| text_of(Some(text))), true)
        }
    }
}
