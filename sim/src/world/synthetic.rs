//! A synthetic model, provider and tools, drawn from a scenario's distributions.

use std::num::NonZeroU64;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Call, CallResult, CallStatus, Digest, FaultKind, Finish, Instruction, Limiter, Micros,
    ModelRequest, Notice, Signature, Text, ToolId, Tools, Usage, Verdict,
};
use holdback_scenarios::Scenario;
use holdback_scenarios::price::Price;
use holdback_scenarios::scenario::{Demand, Kind, Model, Probability, TransportReported};

use super::{Before, Ran, Reply, ReplyOutcome, World, kill_word, scaled};
use crate::driver::KillPlan;
use crate::luck::{
    Chance, Luck, LuckKey, MODEL_WORDS, TOOL_WORDS, another, model, purpose, run, tool, uniform,
};
use crate::policy::Facts;
use crate::sampler::Sampler;
use crate::tally::{Event, Seen};

/// The longest that a silent stream is listened to where the policy sets no idle timeout.
const LONGEST_SILENCE: Micros = 600_000_000;
/// The transport waits a second before it sends a request again, unless the provider tells how long.
const TRANSPORT_PAUSE: Micros = 1_000_000;
/// The digest of a result that brings nothing new although the run has seen no other result.
const NOTHING_NEW: Digest = Digest(NonZeroU64::MAX);

/// A scenario made ready to be run many times.
#[derive(Clone, Debug)]
pub struct Compiled {
    price: Price,
    long_context: Option<(u64, Price)>,
    window: Option<u64>,
    clamp_to_window: bool,
    max_output: Option<u64>,
    base_input: Sampler,
    cache_ttl: Micros,
    cache_hit_share: f64,
    cache_prefix: u64,
    cache_up_to: u64,
    output: Sampler,
    reasoning: Sampler,
    final_output: Sampler,
    latency_us: Sampler,
    batch: Sampler,
    estimate_error: Sampler,
    synthesis_only: Chance,
    tools_withheld: Chance,
    budget_notice: Chance,
    window_compliance: Chance,
    repeat_same: Chance,
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
    /// At least one.
    kinds: Vec<CompiledKind>,
}

/// How the provider caches input.
#[derive(Clone, Copy, Debug)]
struct Cache {
    hit: Chance,
    hit_under_control: Chance,
}

/// A kind of run; where the scenario has none, the only one.
#[derive(Clone, Debug)]
struct CompiledKind {
    /// A word below this (and not below an earlier kind's) draws it.
    below: u64,
    demand: CompiledDemand,
    output_scale: f64,
    reasoning_scale: f64,
    result_scale: f64,
    cache: Option<Cache>,
    repeat_call: Chance,
    gives_up: Chance,
}

#[derive(Clone, Debug)]
enum CompiledDemand {
    Endless,
    Results(Sampler),
    Turns(Sampler),
}

/// What a run needs.
#[derive(Clone, Copy, Debug)]
enum Need {
    Results(u64),
    Turns(u64),
}

#[derive(Clone, Debug)]
struct CompiledTool {
    cost: Money,
    result_tokens: Sampler,
    /// Words below this are denied.
    denied_below: u64,
    /// What the other words bring, after a success of the tool and after a failure.
    after_success: Fates,
    after_failure: Fates,
    /// A call can bring something new.
    brings_news: bool,
    latency_us: Sampler,
    parallel: bool,
}

/// What a permitted call brings, by ascending thresholds of one word.
#[derive(Clone, Copy, Debug)]
struct Fates {
    fails_below: u64,
    /// Of those that do not fail.
    novel_below: u64,
}

impl Fates {
    /// One uniform decides: denied, then failed, then novel or seen before. What is left of it after
    /// one question is stretched to answer the next; that keeps its order, so thresholds of the word
    /// say the same.
    fn new(denied: f64, error: f64, novelty: f64) -> Fates {
        let of_permitted = |word| (uniform(word) - denied) / (1.0 - denied);
        let of_successful = |word| (of_permitted(word) - error) / (1.0 - error);
        Fates {
            fails_below: first_not(|word| of_permitted(word) < error),
            novel_below: first_not(|word| of_successful(word) < novelty),
        }
    }
}

/// The first word that is not `small`, where all smaller ones are; 2^32 if all words are.
fn first_not(small: impl Fn(u32) -> bool) -> u64 {
    let (mut from, mut to) = (0, 1 << 32);
    while from < to {
        let middle = from + (to - from) / 2;
        if small(middle as u32) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
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
            cache_ttl: model.cache_ttl.unwrap_or(Micros::MAX),
            cache_hit_share: model.cache_hit_share.get(),
            cache_prefix: model.cache_prefix,
            cache_up_to: model.cache_up_to.unwrap_or(u64::MAX),
            output: Sampler::new(&model.output_tokens, 1.0),
            reasoning: Sampler::new(&model.reasoning_tokens, 1.0),
            final_output: Sampler::new(&model.final_output_tokens, 1.0),
            latency_us: Sampler::new(&model.latency_s, 1e6),
            batch: Sampler::new(&model.batch, 1.0),
            estimate_error: Sampler::new(&model.estimate_error, 1.0),
            synthesis_only: Chance::new(model.compliance.synthesis_only.get()),
            tools_withheld: Chance::new(model.compliance.tools_withheld.get()),
            budget_notice: Chance::new(model.compliance.budget_notice.get()),
            window_compliance: Chance::new(model.compliance.window.get()),
            repeat_same: Chance::new(model.habits.repeat_same.get()),
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
            kinds: compiled_kinds(scenario),
        }
    }
}

fn compiled_kinds(scenario: &Scenario) -> Vec<CompiledKind> {
    let model = &scenario.model;
    let total: f64 = scenario.kinds.iter().map(|kind| kind.weight).sum();
    let mut sum = 0.0;
    let mut kinds: Vec<CompiledKind> = scenario
        .kinds
        .iter()
        .map(|kind| {
            sum += kind.weight;
            CompiledKind::new(model, kind, (sum / total * 4_294_967_296.0).round() as u64)
        })
        .collect();
    match kinds.last_mut() {
        // Rounding must not leave a word that draws no kind.
        Some(last) => last.below = 1 << 32,
        None => kinds.push(CompiledKind::new(model, &PLAIN, 1 << 32)),
    }
    kinds
}

/// A kind that changes nothing.
const PLAIN: Kind = Kind {
    name: String::new(),
    weight: 1.0,
    demand: None,
    output_scale: 1.0,
    reasoning_scale: 1.0,
    result_scale: 1.0,
    cache_hit: None,
    repeat_call: None,
    gives_up: None,
};

impl CompiledKind {
    fn new(model: &Model, kind: &Kind, below: u64) -> CompiledKind {
        let chance = |probability: Probability| Chance::new(probability.get());
        let told_apart = model
            .cache_hit_under_control
            .filter(|under_control| Some(*under_control) != model.cache_hit);
        CompiledKind {
            below,
            demand: match kind.demand.as_ref().unwrap_or(&model.demand) {
                Demand::Endless => CompiledDemand::Endless,
                Demand::Results(quantity) => CompiledDemand::Results(Sampler::new(quantity, 1.0)),
                Demand::Turns(quantity) => CompiledDemand::Turns(Sampler::new(quantity, 1.0)),
            },
            output_scale: kind.output_scale,
            reasoning_scale: kind.reasoning_scale,
            result_scale: kind.result_scale,
            cache: kind.cache_hit.or(model.cache_hit).map(|hit| Cache {
                hit: chance(hit),
                hit_under_control: chance(told_apart.unwrap_or(hit)),
            }),
            repeat_call: chance(kind.repeat_call.unwrap_or(model.habits.repeat_call)),
            gives_up: chance(kind.gives_up.unwrap_or(model.habits.gives_up)),
        }
    }
}

impl Compiled {
    /// In some runs the model never has enough: its demand has no end, or nothing can meet it.
    pub fn endless(&self) -> bool {
        let mut from = 0;
        self.kinds.iter().any(|kind| {
            let drawn = kind.below > std::mem::replace(&mut from, kind.below);
            drawn && self.never_ends(kind)
        })
    }

    fn never_ends(&self, kind: &CompiledKind) -> bool {
        let least = match &kind.demand {
            CompiledDemand::Endless => return true,
            CompiledDemand::Turns(_) => return false,
            CompiledDemand::Results(demand) => demand.count(0),
        };
        let chosen =
            |at: usize| self.choice[at] > at.checked_sub(1).map_or(0, |at| self.choice[at]);
        let mut tools = self.tools.iter().enumerate();
        let barren = !tools.any(|(at, tool)| chosen(at) && tool.brings_news);
        let repeats = kind.repeat_call.happens(u32::MAX);
        (least > 0 && barren) || (least > 1 && repeats)
    }
}

impl CompiledTool {
    fn new(tool: &holdback_scenarios::scenario::Tool) -> CompiledTool {
        let [denied, error, error_after_error, novelty] = [
            tool.denied,
            tool.error,
            tool.error_after_error,
            tool.novelty,
        ]
        .map(Probability::get);
        let can_succeed = error < 1.0 || error_after_error < 1.0;
        CompiledTool {
            cost: tool.cost,
            result_tokens: Sampler::new(&tool.result_tokens, 1.0),
            denied_below: first_not(|word| uniform(word) < denied),
            after_success: Fates::new(denied, error, novelty),
            after_failure: Fates::new(denied, error_after_error, novelty),
            brings_news: denied < 1.0 && can_succeed && novelty > 0.0,
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
#[derive(Debug)]
pub struct Synthetic<'s> {
    scenario: &'s Compiled,
    luck: Luck,
    facts: Facts,
    /// Drawn once a run.
    kind: &'s CompiledKind,
    need: Need,
    gives_up: bool,
    final_output: u64,
    /// Calls that the last turn proposes.
    proposed: Vec<Call>,
    /// Every call ever proposed in the run, by its id; kept through kills, so that a call that runs
    /// again keeps its draw.
    proposals: Vec<Proposal>,
    /// Origins of the calls that a tool or the permission policy answered, oldest first.
    answered: Vec<u32>,
    /// By tool: its previous call failed.
    failed_before: Vec<bool>,
    talk: Talk,
    provider: Provider,
}

impl Clone for Synthetic<'_> {
    fn clone(&self) -> Self {
        Synthetic {
            scenario: self.scenario,
            luck: self.luck.clone(),
            facts: self.facts.clone(),
            kind: self.kind,
            need: self.need,
            gives_up: self.gives_up,
            final_output: self.final_output,
            proposed: self.proposed.clone(),
            proposals: self.proposals.clone(),
            answered: self.answered.clone(),
            failed_before: self.failed_before.clone(),
            talk: self.talk,
            provider: self.provider,
        }
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &Self) {
        let Synthetic {
            scenario,
            luck,
            facts,
            kind,
            need,
            gives_up,
            final_output,
            proposed,
            proposals,
            answered,
            failed_before,
            talk,
            provider,
        } = source;
        self.scenario = scenario;
        self.luck.clone_from(luck);
        self.facts.clone_from(facts);
        self.kind = kind;
        self.need = *need;
        self.gives_up = *gives_up;
        self.final_output = *final_output;
        self.proposed.clone_from(proposed);
        self.proposals.clone_from(proposals);
        self.answered.clone_from(answered);
        self.failed_before.clone_from(failed_before);
        self.talk = *talk;
        self.provider = *provider;
    }
}

/// What the provider remembers of the run; no kill takes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Provider {
    /// Input of the last request that it worked on.
    previous_input: u64,
    last_request_end: Micros,
    /// Requests that a rate limit still refuses.
    storm_left: u64,
}

/// The conversation, as far as it decides what happens next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Talk {
    context: u64,
    answered: usize,
    evidence: u64,
    entries: u64,
    records_due: u32,
    /// Obeys the budget notice.
    paces: Told,
    /// Obeys the window.
    finishes: Told,
    /// Has proposed the entries that it records before it answers.
    has_recorded: bool,
    /// Digest of the latest successful result.
    latest_digest: Option<Digest>,
    /// Planning turns.
    planned: u64,
    /// Origin of the latest repeat.
    repeated: Option<u32>,
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
    /// What it brought when it ran: running it again, or repeating it, brings the same.
    outcome: Option<Outcome>,
    /// Executions.
    ran: u32,
}

/// What a call brings.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    status: CallStatus,
    digest: Option<Digest>,
    /// Counts as evidence.
    novel: bool,
    /// Added to the context.
    tokens: u64,
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
            kind: &scenario.kinds[0],
            need: Need::Results(0),
            gives_up: false,
            final_output: 0,
            proposed: Vec::new(),
            proposals: Vec::new(),
            answered: Vec::new(),
            failed_before: vec![false; scenario.tools.len()],
            talk: Talk::default(),
            provider: Provider::default(),
        }
    }

    fn satisfied(&self) -> bool {
        match self.need {
            Need::Results(results) => self.talk.evidence >= results,
            Need::Turns(turns) => self.talk.planned >= turns,
        }
    }

    fn intent(&self, request: &ModelRequest, words: &[u32; MODEL_WORDS]) -> Intent {
        let answers = |chance: Chance, word: usize| chance.happens(words[word]);
        if !offers_tools(request) {
            let answers = answers(self.scenario.tools_withheld, model::TOOLS_WITHHELD);
            return if answers || self.satisfied() {
                Intent::Answer
            } else {
                Intent::Nothing
            };
        }
        let told = |instruction| match instruction {
            Instruction::SynthesisOnly(_) | Instruction::FinalTurn(_) => Some(Intent::Answer),
            Instruction::Drained { .. } => Some(self.finish()),
            Instruction::ReserveSummary { .. } => None,
        };
        if let Some(intent) = request.instruction.and_then(told)
            && answers(self.scenario.synthesis_only, model::SYNTHESIS_ONLY)
        {
            return intent;
        }
        if self.talk.finishes == Told::Obeys {
            self.finish()
        } else if self.satisfied() {
            if self.gives_up {
                Intent::Nothing
            } else {
                Intent::Answer
            }
        } else {
            Intent::Plan
        }
    }

    /// Records what it owes, once, then answers.
    fn finish(&self) -> Intent {
        match self.records_owed() {
            owed if owed > 0 && !self.talk.has_recorded => Intent::Record(owed),
            _ => Intent::Answer,
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

    fn propose(&mut self, intent: Intent, request: &ModelRequest, batch_word: u32) {
        match intent {
            Intent::Plan => {
                self.talk.planned += 1;
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
                self.talk.has_recorded = true;
                for _ in 0..entries {
                    self.propose_own(ProposalKind::RecordEvidence);
                }
            }
            Intent::Answer if self.facts.terminal_tool.is_some() && offers_tools(request) => {
                self.propose_own(ProposalKind::Terminal)
            }
            Intent::Answer | Intent::Nothing => {}
        }
    }

    fn propose_tool(&mut self) {
        let words = *self.luck.tool();
        let earlier = self.talk.answered as u64;
        if earlier > 0 && self.kind.repeat_call.happens(words[tool::REPEAT]) {
            let word = words[tool::WHICH];
            let same = another(word, purpose::REPEAT_SAME);
            let of = match self.talk.repeated {
                Some(of) if self.scenario.repeat_same.happens(same) => of,
                _ => self.answered[((u64::from(word) * earlier) >> 32) as usize],
            };
            self.talk.repeated = Some(of);
            return self.push(ProposalKind::Repeat { of }, words);
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
        self.proposals.push(Proposal {
            kind,
            words,
            outcome: None,
            ran: 0,
        });
        let origin = self.origin(id);
        let identity = Signature(identity(origin));
        let (tool, denied, parallel) = match self.proposals[origin as usize].kind {
            ProposalKind::Fresh { tool } => {
                let compiled = &self.scenario.tools[usize::from(tool)];
                let word = self.proposals[origin as usize].words[tool::STATUS];
                let denied = u64::from(word) < compiled.denied_below;
                (ToolId(tool), denied, compiled.parallel && !denied)
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

    /// What a call brings, without putting it into the conversation.
    fn outcome(&self, call: &Call) -> Outcome {
        let proposal = &self.proposals[call.id as usize];
        if let Some(known) = proposal.outcome {
            return known;
        }
        match proposal.kind {
            ProposalKind::Fresh { tool } => self.drawn(call, usize::from(tool), &proposal.words),
            ProposalKind::Repeat { of } => match self.proposals[of as usize].outcome {
                Some(outcome) => Outcome {
                    novel: false,
                    ..outcome
                },
                None => unreachable!("only calls that ran are repeated"),
            },
            ProposalKind::RecordEvidence | ProposalKind::Terminal => Outcome {
                status: CallStatus::Succeeded,
                digest: Some(Digest(identity(call.id))),
                novel: false,
                tokens: 0,
            },
        }
    }

    fn drawn(&self, call: &Call, at: usize, words: &[u32; TOOL_WORDS]) -> Outcome {
        let tool = &self.scenario.tools[at];
        let without_result = |status, tokens| Outcome {
            status,
            digest: None,
            novel: false,
            tokens,
        };
        if call.denied {
            return without_result(CallStatus::Denied, 0);
        }
        let tokens = times(
            &tool.result_tokens,
            words[tool::SIZE],
            self.kind.result_scale,
        );
        let fates = if self.failed_before[at] {
            &tool.after_failure
        } else {
            &tool.after_success
        };
        let word = u64::from(words[tool::STATUS]);
        if word < fates.fails_below {
            return without_result(CallStatus::Failed, tokens);
        }
        let novel = word < fates.novel_below;
        let digest = if novel {
            Digest(identity(call.id))
        } else {
            self.talk.latest_digest.unwrap_or(NOTHING_NEW)
        };
        Outcome {
            status: CallStatus::Succeeded,
            digest: Some(digest),
            novel,
            tokens,
        }
    }

    /// Puts a result into the conversation.
    fn learn(&mut self, call: &Call, outcome: &Outcome) {
        let proposal = &mut self.proposals[call.id as usize];
        proposal.outcome = Some(*outcome);
        match proposal.kind {
            ProposalKind::RecordEvidence => {
                self.talk.entries += 1;
                return;
            }
            ProposalKind::Terminal => return,
            ProposalKind::Fresh { .. } | ProposalKind::Repeat { .. } => {}
        }
        self.talk.context = self.talk.context.saturating_add(outcome.tokens);
        self.talk.records_due += u32::from(
            outcome.novel
                && self
                    .scenario
                    .record_evidence
                    .happens(proposal.words[tool::RECORD]),
        );
        self.answered.push(self.origin(call.id));
        self.talk.answered += 1;
        self.remember_failure(call.tool, outcome.status);
        if outcome.status == CallStatus::Succeeded {
            self.talk.latest_digest = outcome.digest;
        }
        self.talk.evidence += u64::from(outcome.novel);
    }

    fn remember_failure(&mut self, tool: ToolId, status: CallStatus) {
        if status != CallStatus::Denied {
            self.failed_before[usize::from(tool.0)] = status == CallStatus::Failed;
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

/// A drawn count, multiplied before it is rounded.
fn times(sampler: &Sampler, word: u32, scale: f64) -> u64 {
    (sampler.value(word) * scale + 0.5) as u64
}

fn offers_tools(request: &ModelRequest) -> bool {
    !matches!(request.tools, Tools::Withheld | Tools::Absent)
}

/// One request on the wire, before the engine's attempt is put together.
struct Wire {
    outcome: ReplyOutcome,
    usage: Usage,
    billed: Money,
    /// What the usage costs at the plain price.
    plain: Money,
    latency: Micros,
    /// The provider refused to work on it: how long the transport waits before it sends it again.
    again_after: Option<Micros>,
}

/// A request that fits the context window, with what is drawn for it.
struct Sent<'a> {
    request: &'a ModelRequest,
    words: &'a [u32; MODEL_WORDS],
    cap: u64,
    input: Usage,
    intent: Intent,
}

/// What the model would write.
struct Draft {
    visible: u64,
    reasoning: u64,
    /// The output cap cuts it.
    cut: bool,
    spiked: bool,
}

impl Draft {
    fn output(&self) -> u64 {
        self.visible + self.reasoning
    }
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
        let Some(cap) = self.output_cap(request) else {
            return OVERFLOW;
        };
        let sent = Sent {
            request,
            words,
            cap,
            input: self.input(request, words, now),
            intent: self.intent(request, words),
        };
        let mut wire = match self.draw_fault(words) {
            Some(fault) => self.fault(fault, &sent, seen),
            None => self.turn(&sent, seen),
        };
        wire.plain = scenario.price.cost(&wire.usage);
        wire.billed = match &scenario.long_context {
            Some((above, price)) if sent.input.input > *above => {
                seen.mark(Event::LongContext);
                price.cost(&wire.usage)
            }
            _ => wire.plain,
        };
        wire
    }

    /// The output cap on the wire; `None` if the request does not fit the context window.
    fn output_cap(&self, request: &ModelRequest) -> Option<u64> {
        let scenario = self.scenario;
        let mut cap = request
            .output_cap
            .unwrap_or(u64::MAX)
            .min(scenario.max_output.unwrap_or(u64::MAX));
        if let Some(window) = scenario.window {
            let input = self.talk.context;
            if scenario.clamp_to_window {
                cap = cap.min(window.saturating_sub(input));
            }
            let wanted = if cap == u64::MAX { 1 } else { cap.max(1) };
            if input.saturating_add(wanted) > window {
                return None;
            }
        }
        Some(cap)
    }

    /// The input of a request, with what of it is read from the cache and what is written to it.
    fn input(&self, request: &ModelRequest, words: &[u32; MODEL_WORDS], now: Micros) -> Usage {
        let input = self.talk.context;
        let Some(cache) = &self.kind.cache else {
            return Usage {
                input,
                ..Usage::default()
            };
        };
        let chance = if request.instruction.is_some() || request.tools != Tools::All {
            cache.hit_under_control
        } else {
            cache.hit
        };
        let fresh = now - self.provider.last_request_end <= self.scenario.cache_ttl;
        let own = if fresh && chance.happens(words[model::CACHE]) {
            self.cached(self.provider.previous_input.min(input))
        } else {
            0
        };
        // Other runs keep the shared start in the cache, whatever becomes of this run's own requests.
        let cached = if input > self.scenario.cache_up_to {
            0
        } else {
            own.max(self.scenario.cache_prefix.min(input))
        };
        Usage {
            input,
            cached,
            cache_write: input - cached,
            ..Usage::default()
        }
    }

    /// What a hit reads of the previous request's input.
    fn cached(&self, previous: u64) -> u64 {
        let share = self.scenario.cache_hit_share;
        if share >= 1.0 {
            return previous;
        }
        (previous as f64 * share + 0.5) as u64
    }

    /// A completed turn.
    fn turn(&mut self, sent: &Sent<'_>, seen: &mut Seen) -> Wire {
        let Sent { words, intent, .. } = *sent;
        let draft = self.draft(sent);
        if draft.spiked {
            seen.mark(Event::CostSpike);
        }
        self.provider.previous_input = sent.input.input;
        self.talk.context = sent.input.input.saturating_add(draft.visible);
        if !draft.cut {
            self.propose(intent, sent.request, words[model::BATCH]);
        }
        let speaks = if draft.cut {
            draft.visible > 0
        } else {
            intent == Intent::Answer && self.proposed.is_empty()
        };
        let usage = Usage {
            output: draft.output(),
            reasoning: Some(draft.reasoning),
            ..sent.input
        };
        let outcome = ReplyOutcome::Turn {
            text: if speaks { Text::Content } else { Text::Absent },
            finish: if draft.cut {
                Finish::Length
            } else {
                Finish::Stop
            },
            typed: speaks && self.facts.typed.happens(words[model::RETRY_AFTER]),
        };
        Wire::new(outcome, usage, self.latency(words))
    }

    fn latency(&self, words: &[u32; MODEL_WORDS]) -> Micros {
        micros(&self.scenario.latency_us, words[model::LATENCY])
    }

    /// What the model would write, up to the output cap.
    fn draft(&self, sent: &Sent<'_>) -> Draft {
        let scenario = self.scenario;
        let Sent { words, cap, .. } = *sent;
        let mut visible = match sent.intent {
            Intent::Answer => self.final_output,
            Intent::Nothing => 0,
            Intent::Plan | Intent::Record(_) => times(
                &scenario.output,
                words[model::OUTPUT],
                self.kind.output_scale,
            ),
        };
        let spiked = scenario.spike.happens(words[model::SPIKE]);
        if spiked {
            let factor = scenario.spike_size.value(words[model::SPIKE_SIZE]);
            visible = (visible as f64 * factor + 0.5) as u64;
        }
        let mut reasoning = times(
            &scenario.reasoning,
            words[model::REASONING],
            self.kind.reasoning_scale,
        );
        let cut = visible.saturating_add(reasoning) > cap;
        if cut {
            reasoning = reasoning.min(cap);
            visible = cap - reasoning;
        }
        Draft {
            visible,
            reasoning,
            cut,
            spiked,
        }
    }

    /// The fault of this request, if one is drawn or a storm goes on.
    fn draw_fault(&mut self, words: &[u32; MODEL_WORDS]) -> Option<Drawn> {
        if self.provider.storm_left > 0 {
            self.provider.storm_left -= 1;
            return Some(Drawn::RateLimit);
        }
        let drawn = self.scenario.faults.draw(words[model::FAULT])?;
        if drawn == Drawn::RateLimit {
            let storm = self.scenario.storm.count(words[model::SPIKE_SIZE]);
            self.provider.storm_left = storm.max(1) - 1;
        }
        Some(drawn)
    }

    /// A request that goes wrong. Where the provider had begun to work, it charges the whole input and
    /// half of what it would have written; where it refused, the billed share of the input.
    fn fault(&mut self, drawn: Drawn, sent: &Sent<'_>, seen: &mut Seen) -> Wire {
        let failed = |kind, produced_output| ReplyOutcome::Fault {
            kind,
            produced_output,
        };
        let outcome = match drawn {
            Drawn::Transient => failed(FaultKind::Transient, false),
            Drawn::TransientAfterOutput => failed(FaultKind::Transient, true),
            Drawn::Permanent => failed(FaultKind::Permanent, false),
            Drawn::Protocol => failed(FaultKind::Protocol, false),
            Drawn::Stall => failed(FaultKind::Idle, false),
            Drawn::RateLimit => {
                seen.mark(Event::RateLimited);
                let retry_after = self.retry_after(sent.words);
                failed(FaultKind::RateLimit { retry_after }, false)
            }
            Drawn::Empty => ReplyOutcome::Turn {
                text: Text::Absent,
                finish: Finish::Stop,
                typed: false,
            },
        };
        let usage = match drawn {
            Drawn::TransientAfterOutput | Drawn::Stall => Usage {
                output: self.draft(sent).output() / 2,
                ..sent.input
            },
            Drawn::Empty => sent.input,
            Drawn::Transient | Drawn::Permanent | Drawn::Protocol | Drawn::RateLimit => {
                self.billed_share(&sent.input)
            }
        };
        let mut wire = Wire::new(outcome, usage, self.latency(sent.words));
        match drawn {
            Drawn::TransientAfterOutput | Drawn::Empty => {
                self.provider.previous_input = sent.input.input;
            }
            Drawn::Stall => {
                seen.mark(Event::Stall);
                self.provider.previous_input = sent.input.input;
                let silence = sent.request.idle_timeout.unwrap_or(LONGEST_SILENCE);
                wire.latency = silence.min(LONGEST_SILENCE);
            }
            Drawn::Transient => wire.again_after = Some(TRANSPORT_PAUSE),
            Drawn::RateLimit => {
                wire.again_after = self.retry_after(sent.words).or(Some(TRANSPORT_PAUSE));
            }
            Drawn::Permanent | Drawn::Protocol => {}
        }
        wire
    }

    fn billed_share(&self, input: &Usage) -> Usage {
        let share = |tokens: u64| {
            if self.scenario.billed_share >= 1.0 {
                tokens
            } else {
                (tokens as f64 * self.scenario.billed_share + 0.5) as u64
            }
        };
        let (billed, cached) = (share(input.input), share(input.cached));
        Usage {
            input: billed,
            cached: cached.min(billed),
            cache_write: share(input.cache_write).min(billed - cached.min(billed)),
            ..Usage::default()
        }
    }

    fn retry_after(&self, words: &[u32; MODEL_WORDS]) -> Option<Micros> {
        let sampler = self.scenario.retry_after_us.as_ref()?;
        Some(micros(sampler, words[model::RETRY_AFTER]))
    }

    /// What the engine is told of a usage and a cost.
    fn report(
        &self,
        words: &[u32; MODEL_WORDS],
        usage: Usage,
        cost: Money,
    ) -> (Option<Usage>, Money) {
        let scenario = self.scenario;
        if usage == Usage::default() || scenario.missing.happens(words[model::REPORTING]) {
            return (None, Money::ZERO);
        }
        scaled(usage, cost, scenario.factor)
    }
}

impl Wire {
    /// What it costs is filled in by [`Synthetic::wire`].
    fn new(outcome: ReplyOutcome, usage: Usage, latency: Micros) -> Wire {
        Wire {
            outcome,
            usage,
            billed: Money::ZERO,
            plain: Money::ZERO,
            latency,
            again_after: None,
        }
    }
}

/// The request does not fit the context window: refused at once, and free.
const OVERFLOW: Wire = Wire {
    outcome: ReplyOutcome::Overflow,
    usage: Usage {
        input: 0,
        cached: 0,
        cache_write: 0,
        output: 0,
        reasoning: None,
    },
    billed: Money::ZERO,
    plain: Money::ZERO,
    latency: 0,
    again_after: None,
};

/// A duration in whole microseconds, small enough to be added up.
fn micros(sampler: &Sampler, word: u32) -> Micros {
    sampler.count(word).min(i64::MAX as u64 / 4) as Micros
}

impl World for Synthetic<'_> {
    type Mark = Talk;

    fn start(&mut self, run: u64, facts: &Facts) {
        let words = self.luck.start(run);
        self.facts.clone_from(facts);
        let word = u64::from(words[run::KIND]);
        let kinds = &self.scenario.kinds;
        self.kind = kinds
            .iter()
            .find(|kind| word < kind.below)
            .unwrap_or(&kinds[0]);
        self.need = match &self.kind.demand {
            CompiledDemand::Endless => Need::Results(u64::MAX),
            CompiledDemand::Results(sampler) => Need::Results(sampler.count(words[run::DEMAND])),
            CompiledDemand::Turns(sampler) => Need::Turns(sampler.count(words[run::DEMAND])),
        };
        self.gives_up = self.kind.gives_up.happens(words[run::GIVES_UP]);
        self.final_output = self.scenario.final_output.count(words[run::FINAL_OUTPUT]);
        self.proposed.clear();
        self.proposals.clear();
        self.answered.clear();
        self.failed_before.fill(false);
        self.talk = Talk {
            context: self.scenario.base_input.count(words[run::BASE_INPUT]),
            ..Talk::default()
        };
        self.provider = Provider::default();
    }

    fn kills(&self) -> &KillPlan {
        &self.scenario.kills
    }

    fn estimate(&mut self) -> f64 {
        let word = self.luck.peek_model()[model::ESTIMATE];
        (self.talk.context as f64 * self.scenario.estimate_error.value(word)).round()
    }

    fn request(&mut self, request: &ModelRequest, now: Micros, before: Before) -> Reply {
        let scenario = self.scenario;
        let mut reply = Reply {
            outcome: ReplyOutcome::Overflow,
            told: None,
            told_cost: Money::ZERO,
            billed: Money::ZERO,
            usage: Usage::default(),
            dearest: Money::ZERO,
            requests: 0,
            latency: 0,
            seen: Seen::default(),
            died: false,
            tail_word: 0,
        };
        loop {
            let words = *self.luck.model();
            self.talk
                .paces
                .settle(scenario.budget_notice, words[model::BUDGET_NOTICE]);
            self.talk
                .finishes
                .settle(scenario.window_compliance, words[model::WINDOW]);
            self.proposed.clear();
            let wire = self.wire(request, &words, now + reply.latency, &mut reply.seen);
            reply.requests += 1;
            reply.latency += wire.latency;
            self.provider.last_request_end = now + reply.latency;
            reply.outcome = wire.outcome;
            reply.billed += wire.billed;
            reply.dearest = reply.dearest.max(wire.billed);
            reply.usage = add(reply.usage, wire.usage);
            let told = self.report(&words, wire.usage, wire.plain);
            (reply.told, reply.told_cost) = match scenario.transport_reported {
                TransportReported::Last => told,
                TransportReported::All => add_reports((reply.told, reply.told_cost), told),
            };
            let sent = before.requests + u64::from(reply.requests);
            reply.died = scenario
                .kills
                .after_model(before.kills, sent, words[model::KILL]);
            reply.tail_word = words[model::TAIL_LOSS];
            match wire.again_after {
                Some(pause) if !reply.died && reply.requests <= scenario.transport_retries => {
                    reply.latency += pause;
                }
                _ => return reply,
            }
        }
    }

    fn proposed(&self) -> &[Call] {
        &self.proposed
    }

    fn run(&mut self, call: &Call) -> Ran {
        let outcome = self.outcome(call);
        self.learn(call, &outcome);
        let proposal = &mut self.proposals[call.id as usize];
        let words = &proposal.words;
        let (cost, latency) = match self.scenario.tools.get(usize::from(call.tool.0)) {
            Some(tool) if outcome.status != CallStatus::Denied => (
                tool.cost,
                micros(&tool.latency_us, words[tool::LATENCY_OR_WINDOW]),
            ),
            _ => (Money::ZERO, 0),
        };
        let ran_before = proposal.ran;
        proposal.ran += 1;
        Ran {
            result: CallResult {
                status: outcome.status,
                digest: outcome.digest,
                recorded_evidence: call.tool == self.scenario.record_tool,
                cost,
            },
            latency,
            kill_word: kill_word(&proposal.words, ran_before),
        }
    }

    fn replay(&mut self, call: &Call, _ran: &Ran) {
        let outcome = self.outcome(call);
        self.learn(call, &outcome);
    }

    fn judge(&mut self, _call: &Call) -> bool {
        true
    }

    fn answered(&mut self, call: &Call, verdict: Verdict, _limiter: Limiter) {
        if verdict == Verdict::Denied && call.denied {
            let outcome = self.outcome(call);
            self.learn(call, &outcome);
        }
        if verdict != Verdict::Denied || self.talk.finishes != Told::Not {
            self.nudge(call);
        }
    }

    fn notify(&mut self, notice: &Notice) {
        match notice {
            Notice::Budget { .. } if self.talk.paces == Told::Not => self.talk.paces = Told::Due,
            Notice::Window { .. } => {
                self.talk.finishes = Told::Due;
                self.talk.has_recorded = false;
            }
            // The cap was raised: research may go on until something is refused again.
            Notice::Extension { .. } => {
                self.talk.finishes = Told::Not;
                self.talk.has_recorded = false;
            }
            _ => {}
        }
    }

    fn mark(&self) -> Talk {
        self.talk
    }

    fn rewind(&mut self, mark: &Talk) {
        self.talk = *mark;
        self.answered.truncate(mark.answered);
        self.failed_before.fill(false);
        for at in 0..self.answered.len() {
            let proposal = &self.proposals[self.answered[at] as usize];
            if let (ProposalKind::Fresh { tool }, Some(outcome)) = (proposal.kind, proposal.outcome)
            {
                self.remember_failure(ToolId(tool), outcome.status);
            }
        }
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
fn add(a: Usage, b: Usage) -> Usage {
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
