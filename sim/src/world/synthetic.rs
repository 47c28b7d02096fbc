//! A synthetic model, provider and tools, drawn from a scenario's distributions.

use std::num::NonZeroU64;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Call, CallResult, CallStatus, Digest, FaultKind, Finish, Instruction, Limiter, Micros,
    ModelRequest, Notice, Signature, Text, ToolId, Tools, Usage, Verdict,
};
use holdback_scenarios::Scenario;
use holdback_scenarios::price::Price;
use holdback_scenarios::scenario::{Demand, TransportReported};

use super::{Ran, Reply, ReplyOutcome, World};
use crate::driver::KillPlan;
use crate::luck::{Chance, Luck, LuckKey, MODEL_WORDS, TOOL_WORDS, model, run, tool, uniform};
use crate::policy::Facts;
use crate::sampler::Sampler;
use crate::tally::{Event, Seen};

/// The longest that a silent stream is listened to where the policy sets no idle timeout.
const LONGEST_SILENCE: Micros = 600_000_000;
/// A rate limit that does not tell when to come back is over after a second.
const RATE_LIMIT_PAUSE: Micros = 1_000_000;

/// A scenario made ready to be run many times.
#[derive(Clone, Debug)]
pub struct Compiled {
    price: Price,
    long_context: Option<(u64, Price)>,
    window: Option<u64>,
    clamp_to_window: bool,
    max_output: Option<u64>,
    base_input: Sampler,
    caching: bool,
    cache_hit: Chance,
    cache_hit_under_control: Chance,
    cache_ttl: Micros,
    output: Sampler,
    reasoning: Sampler,
    final_output: Sampler,
    latency_us: Sampler,
    demand: Option<Sampler>,
    batch: Sampler,
    estimate_error: f64,
    synthesis_only: Chance,
    tools_withheld: Chance,
    budget_notice: Chance,
    window_compliance: Chance,
    repeat_call: Chance,
    record_evidence: Chance,
    faults: FaultTable,
    billed_share: f64,
    storm: Sampler,
    retry_after_us: Option<Sampler>,
    transport_retries: u32,
    transport_reported: TransportReported,
    missing: Chance,
    factor: f64,
    spike: Chance,
    spike_size: Sampler,
    tools: Vec<CompiledTool>,
    /// Word below `choice[i]` (and not below an earlier one) chooses tool `i`.
    choice: Vec<u64>,
    record_tool: ToolId,
    kills: KillPlan,
}

#[derive(Clone, Debug)]
struct CompiledTool {
    cost: Money,
    result_tokens: Sampler,
    denied: f64,
    error: f64,
    error_after_error: f64,
    novelty: f64,
    latency_us: Sampler,
    parallel: bool,
}

/// The kinds of drawn faults, by ascending thresholds of one word.
#[derive(Clone, Debug)]
struct FaultTable {
    total: u64,
    below: [(u64, Drawn); 7],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawn {
    Transient,
    TransientAfterOutput,
    Permanent,
    Protocol,
    Empty,
    Stall,
    RateLimit,
}

impl Compiled {
    /// Compiles a scenario. Tools are numbered in file order, then `record_evidence`.
    pub fn new(scenario: &Scenario) -> Compiled {
        let model = &scenario.model;
        let free = Price {
            input: Money::ZERO,
            cached_input: Money::ZERO,
            cache_write: Money::ZERO,
            output: Money::ZERO,
        };
        let faults = &model.faults;
        Compiled {
            price: model.price.unwrap_or(free),
            long_context: model
                .long_context
                .map(|long| (long.above_tokens, long.price)),
            window: model.context_window,
            clamp_to_window: model.clamp_to_window,
            max_output: model.max_output_tokens,
            base_input: Sampler::new(&model.base_input_tokens, 1.0),
            caching: model.cache_hit.get() > 0.0,
            cache_hit: Chance::new(model.cache_hit.get()),
            cache_hit_under_control: Chance::new(model.cache_hit_under_control.get()),
            cache_ttl: model.cache_ttl.unwrap_or(Micros::MAX),
            output: Sampler::new(&model.output_tokens, 1.0),
            reasoning: Sampler::new(&model.reasoning_tokens, 1.0),
            final_output: Sampler::new(&model.final_output_tokens, 1.0),
            latency_us: Sampler::new(&model.latency_s, 1e6),
            demand: match &model.demand {
                Demand::Endless => None,
                Demand::Results(quantity) => Some(Sampler::new(quantity, 1.0)),
            },
            batch: Sampler::new(&model.batch, 1.0),
            estimate_error: model.estimate_error.fixed().unwrap_or(1.0),
            synthesis_only: Chance::new(model.compliance.synthesis_only.get()),
            tools_withheld: Chance::new(model.compliance.tools_withheld.get()),
            budget_notice: Chance::new(model.compliance.budget_notice.get()),
            window_compliance: Chance::new(model.compliance.window.get()),
            repeat_call: Chance::new(model.habits.repeat_call.get()),
            record_evidence: Chance::new(model.habits.record_evidence.get()),
            faults: FaultTable::new(faults),
            billed_share: faults.billed.get(),
            storm: Sampler::new(&faults.storm, 1.0),
            retry_after_us: faults.retry_after_s.as_ref().map(|s| Sampler::new(s, 1e6)),
            transport_retries: faults.transport_retries,
            transport_reported: faults.transport_reported,
            missing: Chance::new(model.reporting.missing.get()),
            factor: model.reporting.factor,
            spike: Chance::new(model.spike.probability.get()),
            spike_size: Sampler::new(&model.spike.output_multiplier, 1.0),
            tools: scenario.tools.iter().map(CompiledTool::new).collect(),
            choice: choice_thresholds(scenario),
            record_tool: ToolId(scenario.tools.len() as u16),
            kills: KillPlan::new(&scenario.kills),
        }
    }
}

impl Compiled {
    /// The model never has enough.
    pub fn endless(&self) -> bool {
        self.demand.is_none()
    }
}

impl CompiledTool {
    fn new(tool: &holdback_scenarios::scenario::Tool) -> CompiledTool {
        CompiledTool {
            cost: tool.cost,
            result_tokens: Sampler::new(&tool.result_tokens, 1.0),
            denied: tool.denied.get(),
            error: tool.error.get(),
            error_after_error: tool.error_after_error.get(),
            novelty: tool.novelty.get(),
            latency_us: Sampler::new(&tool.latency_s, 1e6),
            parallel: tool.parallel,
        }
    }
}

fn choice_thresholds(scenario: &Scenario) -> Vec<u64> {
    let total: f64 = scenario.tools.iter().map(|tool| tool.weight).sum();
    let mut sum = 0.0;
    let last = scenario.tools.len().saturating_sub(1);
    let threshold = |(at, tool): (usize, &holdback_scenarios::scenario::Tool)| {
        sum += tool.weight;
        // Rounding must not leave a word that chooses no tool.
        if at == last {
            1 << 32
        } else {
            (sum / total * 4_294_967_296.0).round() as u64
        }
    };
    scenario.tools.iter().enumerate().map(threshold).collect()
}

impl FaultTable {
    fn new(faults: &holdback_scenarios::scenario::Faults) -> FaultTable {
        let mut sum = 0.0;
        let below = [
            (faults.transient, Drawn::Transient),
            (faults.transient_after_output, Drawn::TransientAfterOutput),
            (faults.permanent, Drawn::Permanent),
            (faults.protocol, Drawn::Protocol),
            (faults.empty, Drawn::Empty),
            (faults.stall, Drawn::Stall),
            (faults.rate_limit, Drawn::RateLimit),
        ]
        .map(|(probability, drawn)| {
            sum += probability.get();
            ((sum.min(1.0) * 4_294_967_296.0).round() as u64, drawn)
        });
        FaultTable {
            total: below[6].0,
            below,
        }
    }

    #[inline]
    fn draw(&self, word: u32) -> Option<Drawn> {
        let word = u64::from(word);
        if word >= self.total {
            return None;
        }
        self.below
            .iter()
            .find(|(threshold, _)| word < *threshold)
            .map(|(_, drawn)| *drawn)
    }
}

/// A synthetic world; one is reused for all runs of a thread.
#[derive(Clone, Debug)]
pub struct Synthetic<'s> {
    scenario: &'s Compiled,
    luck: Luck,
    facts: Facts,
    /// Drawn once a run.
    demand: u64,
    final_output: u64,
    /// Calls that the last turn proposes.
    proposed: Vec<Call>,
    /// Every call ever proposed in the run, by its id; kept through kills, so that a call that runs
    /// again keeps its draw.
    proposals: Vec<Proposal>,
    /// Ids of calls that a tool or the permission policy answered, oldest first.
    answered: Vec<u32>,
    talk: Talk,
    /// Requests that a rate limit still refuses.
    storm_left: u64,
    last_request_end: Micros,
}

/// The conversation, as far as it decides what happens next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Talk {
    context: u64,
    previous_input: u64,
    answered: usize,
    evidence: u64,
    entries: u64,
    records_due: u32,
    /// Bit i: tool i's previous call failed.
    failed_before: u64,
    /// Obeys the budget notice.
    paces: Told,
    /// Obeys the window.
    finishes: Told,
    /// Digest of the latest successful result.
    latest_digest: Option<Digest>,
}

/// Whether the model was told something, and what it makes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Not,
    /// Told; the draw is due with the next request.
    Due,
    Obeys,
    Ignores,
}

impl Told {
    fn settle(&mut self, chance: Chance, word: u32) {
        if *self == Told::Due {
            *self = if chance.happens(word) {
                Told::Obeys
            } else {
                Told::Ignores
            };
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Proposal {
    kind: ProposalKind,
    words: [u32; TOOL_WORDS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProposalKind {
    Fresh { tool: u16 },
    Repeat { of: u32 },
    RecordEvidence,
    Terminal,
}

/// What the model does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    Answer,
    Nothing,
    Plan,
    Record(u32),
}

impl<'s> Synthetic<'s> {
    /// A world of this scenario under this key of luck.
    pub fn new(scenario: &'s Compiled, key: LuckKey) -> Synthetic<'s> {
        Synthetic {
            scenario,
            luck: Luck::new(key),
            facts: Facts::default(),
            demand: 0,
            final_output: 0,
            proposed: Vec::new(),
            proposals: Vec::new(),
            answered: Vec::new(),
            talk: Talk::default(),
            storm_left: 0,
            last_request_end: 0,
        }
    }

    fn satisfied(&self) -> bool {
        self.talk.evidence >= self.demand
    }

    fn intent(&self, request: &ModelRequest, words: &[u32; MODEL_WORDS]) -> Intent {
        let answers = |chance: Chance, word: usize| chance.happens(words[word]);
        if matches!(request.tools, Tools::Withheld | Tools::Absent) {
            return if answers(self.scenario.tools_withheld, model::TOOLS_WITHHELD) {
                Intent::Answer
            } else {
                Intent::Nothing
            };
        }
        let told = matches!(
            request.instruction,
            Some(Instruction::SynthesisOnly(_) | Instruction::FinalTurn(_))
        );
        if told && answers(self.scenario.synthesis_only, model::SYNTHESIS_ONLY) {
            return Intent::Answer;
        }
        if self.talk.finishes == Told::Obeys
            || matches!(request.instruction, Some(Instruction::Drained { .. }))
        {
            return match self.records_owed() {
                0 => Intent::Answer,
                owed => Intent::Record(owed),
            };
        }
        if self.satisfied() {
            Intent::Answer
        } else {
            Intent::Plan
        }
    }

    /// Entries that a model which finishes still records: what it has found and not recorded, up to
    /// what a contract asks for.
    fn records_owed(&self) -> u32 {
        let unrecorded = self.talk.evidence.saturating_sub(self.talk.entries);
        let owed = match self.facts.min_entries {
            Some(min) => unrecorded.min(min.saturating_sub(self.talk.entries)),
            None => unrecorded,
        };
        owed.min(1_000) as u32
    }

    fn propose(&mut self, intent: Intent, batch_word: u32) {
        match intent {
            Intent::Plan => {
                let wanted = self.scenario.batch.count(batch_word).max(1);
                let calls = if self.talk.paces == Told::Obeys {
                    1
                } else {
                    wanted.min(10_000)
                };
                for _ in 0..calls {
                    self.propose_tool();
                }
                for _ in 0..std::mem::take(&mut self.talk.records_due) {
                    self.propose_own(ProposalKind::RecordEvidence);
                }
            }
            Intent::Record(entries) => {
                self.talk.records_due = 0;
                for _ in 0..entries {
                    self.propose_own(ProposalKind::RecordEvidence);
                }
            }
            Intent::Answer if self.facts.terminal_tool.is_some() => {
                self.propose_own(ProposalKind::Terminal)
            }
            Intent::Answer | Intent::Nothing => {}
        }
    }

    fn propose_tool(&mut self) {
        let words = *self.luck.tool();
        let earlier = self.talk.answered as u64;
        if earlier > 0 && self.scenario.repeat_call.happens(words[tool::REPEAT]) {
            let which = (u64::from(words[tool::WHICH]) * earlier) >> 32;
            let of = self.answered[which as usize];
            let copied = self.proposals[of as usize];
            let kind = match copied.kind {
                ProposalKind::Fresh { .. } => ProposalKind::Repeat { of },
                other => other,
            };
            return self.push(kind, words);
        }
        let word = u64::from(words[tool::CHOICE]);
        let chosen = self.scenario.choice.iter().position(|below| word < *below);
        self.push(
            ProposalKind::Fresh {
                tool: chosen.unwrap_or(0) as u16,
            },
            words,
        );
    }

    fn propose_own(&mut self, kind: ProposalKind) {
        let words = *self.luck.tool();
        self.push(kind, words);
    }

    fn push(&mut self, kind: ProposalKind, words: [u32; TOOL_WORDS]) {
        let id = self.proposals.len() as u32;
        self.proposals.push(Proposal { kind, words });
        let origin = self.origin(id);
        let identity = Signature(identity(origin));
        let (tool, denied, parallel) = match self.proposals[origin as usize].kind {
            ProposalKind::Fresh { tool } => {
                let compiled = &self.scenario.tools[usize::from(tool)];
                let denied =
                    uniform(self.proposals[origin as usize].words[tool::STATUS]) < compiled.denied;
                (ToolId(tool), denied, compiled.parallel)
            }
            ProposalKind::Terminal => (self.facts.terminal_tool.unwrap_or_default(), false, false),
            _ => (self.scenario.record_tool, false, true),
        };
        self.proposed.push(Call {
            id,
            tool,
            raw_signature: identity,
            canonical_signature: Some(identity),
            denial_key: identity,
            denied,
            parallel,
            terminal: kind == ProposalKind::Terminal,
        });
    }

    /// The call whose arguments and result a call has: itself, or the one that it repeats.
    fn origin(&self, id: u32) -> u32 {
        match self.proposals[id as usize].kind {
            ProposalKind::Repeat { of } => of,
            _ => id,
        }
    }

    /// Status, digest and context tokens of a call, without putting it into the conversation.
    fn outcome(&self, call: &Call) -> (CallStatus, Option<Digest>, u64, bool) {
        let proposal = &self.proposals[call.id as usize];
        let (of, repeats) = match proposal.kind {
            ProposalKind::Fresh { .. } => (call.id, false),
            ProposalKind::Repeat { of } => (of, true),
            ProposalKind::RecordEvidence | ProposalKind::Terminal => {
                return (
                    CallStatus::Succeeded,
                    Some(Digest(identity(call.id))),
                    0,
                    false,
                );
            }
        };
        let words = &self.proposals[of as usize].words;
        let tool = &self.scenario.tools[usize::from(call.tool.0)];
        if call.denied {
            return (CallStatus::Denied, None, 0, false);
        }
        let tokens = tool.result_tokens.count(words[tool::SIZE]);
        // One uniform decides: denied, then failed, then novel or seen before.
        let mut u = uniform(words[tool::STATUS]);
        u = (u - tool.denied) / (1.0 - tool.denied);
        let failed_before = self.talk.failed_before >> (call.tool.0 & 63) & 1 == 1;
        let error = if failed_before {
            tool.error_after_error
        } else {
            tool.error
        };
        if u < error {
            return (CallStatus::Failed, None, tokens, false);
        }
        u = (u - error) / (1.0 - error);
        let digest = Digest(identity(of));
        if repeats {
            return (CallStatus::Succeeded, Some(digest), tokens, false);
        }
        match self.talk.latest_digest {
            // A result can only be known if there is one to equal.
            Some(known) if u >= tool.novelty => (CallStatus::Succeeded, Some(known), tokens, false),
            _ => (CallStatus::Succeeded, Some(digest), tokens, true),
        }
    }

    /// Puts a result into the conversation.
    fn learn(&mut self, call: &Call, result: &CallResult, tokens: u64, novel: bool) {
        self.talk.context = self.talk.context.saturating_add(tokens);
        match self.proposals[call.id as usize].kind {
            ProposalKind::RecordEvidence => {
                self.talk.entries += u64::from(result.recorded_evidence);
                return;
            }
            ProposalKind::Terminal => return,
            ProposalKind::Fresh { .. } | ProposalKind::Repeat { .. } => {}
        }
        self.answered.truncate(self.talk.answered);
        self.answered.push(self.origin(call.id));
        self.talk.answered += 1;
        let bit = 1_u64 << (call.tool.0 & 63);
        match result.status {
            CallStatus::Failed => self.talk.failed_before |= bit,
            CallStatus::Succeeded => self.talk.failed_before &= !bit,
            CallStatus::Denied => {}
        }
        if result.status == CallStatus::Succeeded {
            self.talk.latest_digest = result.digest;
        }
        if novel {
            self.talk.evidence += 1;
            let words = &self.proposals[call.id as usize].words;
            if self.scenario.record_evidence.happens(words[tool::RECORD]) {
                self.talk.records_due += 1;
            }
        }
    }

    /// A refusal, skip or denial that the model sees gives it one more chance to obey the window.
    fn nudge(&mut self, call: &Call) {
        let word = self.proposals[call.id as usize].words[tool::LATENCY_OR_WINDOW];
        self.talk.finishes = Told::Due;
        self.talk
            .finishes
            .settle(self.scenario.window_compliance, word);
    }
}

fn identity(id: u32) -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(u64::from(id))
}

/// One request on the wire, before the engine's attempt is put together.
struct Wire {
    outcome: ReplyOutcome,
    usage: Usage,
    billed: Money,
    latency: Micros,
    /// The provider refused to work on it, so a retry below the engine may follow.
    retryable: bool,
}

impl Synthetic<'_> {
    fn wire(
        &mut self,
        request: &ModelRequest,
        words: &[u32; MODEL_WORDS],
        now: Micros,
        seen: &mut Seen,
    ) -> Wire {
        let scenario = self.scenario;
        let input = self.talk.context;
        let latency = scenario
            .latency_us
            .count(words[model::LATENCY])
            .min(i64::MAX as u64 / 4) as Micros;
        let mut cap = request
            .output_cap
            .unwrap_or(u64::MAX)
            .min(scenario.max_output.unwrap_or(u64::MAX));
        if let Some(window) = scenario.window {
            if scenario.clamp_to_window {
                cap = cap.min(window.saturating_sub(input));
            }
            let wanted = if cap == u64::MAX { 1 } else { cap.max(1) };
            if input.saturating_add(wanted) > window {
                seen.mark(Event::ContextOverflow);
                return Wire {
                    outcome: ReplyOutcome::Overflow,
                    usage: Usage::default(),
                    billed: Money::ZERO,
                    latency: 0,
                    retryable: false,
                };
            }
        }
        let price = match scenario.long_context {
            Some((above, long)) if input > above => {
                seen.mark(Event::LongContext);
                long
            }
            _ => scenario.price,
        };
        if let Some(wire) = self.fault(request, words, &price, latency, cap, seen) {
            return wire;
        }
        let intent = self.intent(request, words);
        let usage = self.generate(request, words, intent, cap, now, seen);
        let cut = usage.1;
        let usage = usage.0;
        let billed = price.cost(&usage);
        self.talk.previous_input = input;
        if cut {
            self.proposed.clear();
        } else {
            self.propose(intent, words[model::BATCH]);
        }
        if !self.proposed.is_empty()
            && request.tools != Tools::All
            && request.tools != Tools::WindowOnly
        {
            seen.mark(Event::ToolCallInClosingTurn);
        }
        if intent == Intent::Nothing && request.instruction.is_some() {
            seen.mark(Event::EmptyClosingTurn);
        }
        let text = match intent {
            _ if cut => Text::Content,
            Intent::Answer if self.proposed.is_empty() => Text::Content,
            _ => Text::Absent,
        };
        Wire {
            outcome: ReplyOutcome::Turn {
                text,
                finish: if cut { Finish::Length } else { Finish::Stop },
                typed: text == Text::Content && self.facts.typed.happens(words[model::RETRY_AFTER]),
            },
            usage,
            billed,
            latency,
            retryable: false,
        }
    }

    /// A fault of the provider, if one is drawn or a storm goes on.
    fn fault(
        &mut self,
        request: &ModelRequest,
        words: &[u32; MODEL_WORDS],
        price: &Price,
        latency: Micros,
        cap: u64,
        seen: &mut Seen,
    ) -> Option<Wire> {
        let scenario = self.scenario;
        let drawn = if self.storm_left > 0 {
            self.storm_left -= 1;
            Drawn::RateLimit
        } else {
            let drawn = scenario.faults.draw(words[model::FAULT])?;
            if drawn == Drawn::RateLimit {
                self.storm_left = scenario.storm.count(words[model::SPIKE_SIZE]).max(1) - 1;
            }
            drawn
        };
        let input = self.talk.context;
        let half = || scenario.output.count(words[model::OUTPUT]).min(cap) / 2;
        let share = if scenario.billed_share >= 1.0 {
            input
        } else {
            (input as f64 * scenario.billed_share + 0.5) as u64
        };
        let (kind, produced_output, input, output) = match drawn {
            Drawn::Transient => (Some(FaultKind::Transient), false, share, 0),
            Drawn::TransientAfterOutput => (Some(FaultKind::Transient), true, input, half()),
            Drawn::Permanent => (Some(FaultKind::Permanent), false, share, 0),
            Drawn::Protocol => (Some(FaultKind::Protocol), false, share, 0),
            Drawn::Empty => (None, false, input, 0),
            Drawn::Stall => (Some(FaultKind::Idle), false, input, half()),
            Drawn::RateLimit => (
                Some(FaultKind::RateLimit {
                    retry_after: self.retry_after(words),
                }),
                false,
                share,
                0,
            ),
        };
        let mut latency = latency;
        match drawn {
            Drawn::Stall => {
                seen.mark(Event::Stall);
                latency = request
                    .idle_timeout
                    .unwrap_or(LONGEST_SILENCE)
                    .min(LONGEST_SILENCE);
            }
            Drawn::RateLimit => seen.mark(Event::RateLimited),
            _ => {}
        }
        let usage = Usage {
            input,
            output,
            ..Usage::default()
        };
        let outcome = match kind {
            Some(kind) => ReplyOutcome::Fault {
                kind,
                produced_output,
            },
            None => ReplyOutcome::Turn {
                text: Text::Absent,
                finish: Finish::Stop,
                typed: false,
            },
        };
        let retryable = matches!(drawn, Drawn::Transient | Drawn::RateLimit);
        Some(Wire {
            outcome,
            usage,
            billed: price.cost(&usage),
            latency,
            retryable,
        })
    }

    fn retry_after(&self, words: &[u32; MODEL_WORDS]) -> Option<Micros> {
        let sampler = self.scenario.retry_after_us.as_ref()?;
        Some(
            sampler
                .count(words[model::RETRY_AFTER])
                .min(i64::MAX as u64 / 4) as Micros,
        )
    }

    /// Tokens of a turn that the model writes, and whether the output cap cuts it.
    fn generate(
        &mut self,
        request: &ModelRequest,
        words: &[u32; MODEL_WORDS],
        intent: Intent,
        cap: u64,
        now: Micros,
        seen: &mut Seen,
    ) -> (Usage, bool) {
        let scenario = self.scenario;
        let input = self.talk.context;
        let mut visible = match intent {
            Intent::Answer => self.final_output,
            Intent::Nothing => 0,
            Intent::Plan | Intent::Record(_) => scenario.output.count(words[model::OUTPUT]),
        };
        if scenario.spike.happens(words[model::SPIKE]) {
            seen.mark(Event::CostSpike);
            let factor = scenario.spike_size.value(words[model::SPIKE_SIZE]);
            visible = (visible as f64 * factor + 0.5) as u64;
        }
        let mut reasoning = scenario.reasoning.count(words[model::REASONING]);
        let cut = visible.saturating_add(reasoning) > cap;
        if cut {
            seen.mark(Event::TruncatedTurn);
            reasoning = reasoning.min(cap);
            visible = cap - reasoning;
        }
        let controlled = request.instruction.is_some() || request.tools != Tools::All;
        let chance = if controlled {
            scenario.cache_hit_under_control
        } else {
            scenario.cache_hit
        };
        let fresh = now - self.last_request_end <= scenario.cache_ttl;
        let hit = fresh && chance.happens(words[model::CACHE]);
        let cached = if hit {
            self.talk.previous_input.min(input)
        } else {
            0
        };
        self.talk.context = input.saturating_add(visible);
        let usage = Usage {
            input,
            cached,
            cache_write: if scenario.caching { input - cached } else { 0 },
            output: visible + reasoning,
            reasoning: Some(reasoning),
        };
        (usage, cut)
    }

    /// What the engine is told of a usage and a cost.
    fn report(
        &self,
        words: &[u32; MODEL_WORDS],
        usage: Usage,
        cost: Money,
    ) -> (Option<Usage>, Money) {
        let scenario = self.scenario;
        if scenario.missing.happens(words[model::REPORTING]) {
            return (None, Money::ZERO);
        }
        if scenario.factor == 1.0 {
            return (Some(usage), cost);
        }
        let scaled = |tokens: u64| (tokens as f64 * scenario.factor + 0.5) as u64;
        let told = Usage {
            input: scaled(usage.input),
            cached: scaled(usage.cached),
            cache_write: scaled(usage.cache_write),
            output: scaled(usage.output),
            reasoning: usage.reasoning.map(scaled),
        };
        (
            Some(told),
            Money::from_picos((cost.picos() as f64 * scenario.factor) as i128),
        )
    }
}

impl World for Synthetic<'_> {
    type Mark = Talk;

    fn start(&mut self, run: u64, facts: &Facts) {
        let words = self.luck.start(run);
        self.facts.clone_from(facts);
        self.demand = match &self.scenario.demand {
            Some(sampler) => sampler.count(words[run::DEMAND]),
            None => u64::MAX,
        };
        self.final_output = self.scenario.final_output.count(words[run::FINAL_OUTPUT]);
        self.proposed.clear();
        self.proposals.clear();
        self.answered.clear();
        self.talk = Talk {
            context: self.scenario.base_input.count(words[run::BASE_INPUT]),
            ..Talk::default()
        };
        self.storm_left = 0;
        self.last_request_end = 0;
    }

    fn kills(&self) -> &KillPlan {
        &self.scenario.kills
    }

    fn estimate(&self) -> f64 {
        (self.talk.context as f64 * self.scenario.estimate_error).round()
    }

    fn request(&mut self, request: &ModelRequest, now: Micros) -> Reply {
        let mut seen = Seen::default();
        let mut latency = 0;
        let mut billed = Money::ZERO;
        let mut usage = Usage::default();
        let mut told = (None, Money::ZERO);
        let mut dearest = Money::ZERO;
        let mut requests = 0;
        loop {
            let words = *self.luck.model();
            self.talk
                .paces
                .settle(self.scenario.budget_notice, words[model::BUDGET_NOTICE]);
            self.talk
                .finishes
                .settle(self.scenario.window_compliance, words[model::WINDOW]);
            self.proposed.clear();
            let wire = self.wire(request, &words, now + latency, &mut seen);
            requests += 1;
            latency += wire.latency;
            self.last_request_end = now + latency;
            billed += wire.billed;
            dearest = dearest.max(wire.billed);
            usage = add(usage, wire.usage);
            let report = if wire.usage == Usage::default() {
                (None, Money::ZERO)
            } else {
                self.report(&words, wire.usage, wire.billed)
            };
            told = match self.scenario.transport_reported {
                TransportReported::Last => report,
                TransportReported::All => add_reports(told, report),
            };
            if wire.retryable && requests <= self.scenario.transport_retries {
                latency += self.retry_after(&words).unwrap_or(RATE_LIMIT_PAUSE);
                continue;
            }
            return Reply {
                outcome: wire.outcome,
                told: told.0,
                told_cost: told.1,
                billed,
                usage,
                dearest,
                requests,
                latency,
                seen,
                kill_word: words[model::KILL],
                tail_word: words[model::TAIL_LOSS],
            };
        }
    }

    fn proposed(&self) -> &[Call] {
        &self.proposed
    }

    fn run(&mut self, call: &Call) -> Ran {
        let (status, digest, tokens, novel) = self.outcome(call);
        let words = &self.proposals[call.id as usize].words;
        let kill_word = words[tool::KILL];
        let own = call.tool == self.scenario.record_tool;
        let (cost, latency) = match self.scenario.tools.get(usize::from(call.tool.0)) {
            Some(tool) if status != CallStatus::Denied => (
                tool.cost,
                tool.latency_us
                    .count(words[tool::LATENCY_OR_WINDOW])
                    .min(i64::MAX as u64 / 4),
            ),
            _ => (Money::ZERO, 0),
        };
        let result = CallResult {
            status,
            digest,
            recorded_evidence: own,
            cost,
        };
        self.learn(call, &result, tokens, novel);
        Ran {
            result,
            latency: latency as Micros,
            kill_word,
        }
    }

    fn replay(&mut self, call: &Call, ran: &Ran) {
        let (_, _, tokens, novel) = self.outcome(call);
        self.learn(call, &ran.result, tokens, novel);
    }

    fn judge(&mut self, _call: &Call) -> bool {
        true
    }

    fn answered(&mut self, call: &Call, verdict: Verdict, _limiter: Limiter) {
        if verdict != Verdict::Denied || self.talk.finishes != Told::Not {
            self.nudge(call);
        }
    }

    fn notify(&mut self, notice: &Notice) {
        match notice {
            Notice::Budget { .. } if self.talk.paces == Told::Not => self.talk.paces = Told::Due,
            Notice::Window { .. } => self.talk.finishes = Told::Due,
            // The cap was raised: research may go on until something is refused again.
            Notice::Extension { .. } => self.talk.finishes = Told::Not,
            _ => {}
        }
    }

    fn mark(&self) -> Talk {
        self.talk
    }

    fn rewind(&mut self, mark: &Talk) {
        self.talk = *mark;
        self.answered.truncate(mark.answered);
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

/// The sum of two usages.
pub(super) fn add(a: Usage, b: Usage) -> Usage {
    Usage {
        input: a.input + b.input,
        cached: a.cached + b.cached,
        cache_write: a.cache_write + b.cache_write,
        output: a.output + b.output,
        reasoning: match (a.reasoning, b.reasoning) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        },
    }
}

fn add_reports(a: (Option<Usage>, Money), b: (Option<Usage>, Money)) -> (Option<Usage>, Money) {
    let usage = match (a.0, b.0) {
        (Some(a), Some(b)) => Some(add(a, b)),
        (a, b) => a.or(b),
    };
    (usage, a.1 + b.1)
}
