//! A scenario made ready: probabilities as thresholds of words, quantities as tables.

use holdback_engine::Money;
use holdback_engine::protocol::{Micros, ToolId};
use holdback_scenarios::Scenario;
use holdback_scenarios::price::Price;
use holdback_scenarios::scenario::{Demand, Kind, Model, Probability, TransportReported};

use crate::driver::KillPlan;
use crate::luck::{Chance, uniform};
use crate::sampler::Sampler;

/// A scenario made ready to be run many times.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(super) price: Price,
    pub(super) long_context: Option<(u64, Price)>,
    pub(super) window: Option<u64>,
    pub(super) clamp_to_window: bool,
    pub(super) max_output: Option<u64>,
    pub(super) base_input: Sampler,
    pub(super) cache_ttl: Micros,
    pub(super) cache_hit_share: f64,
    pub(super) cache_prefix: u64,
    pub(super) cache_up_to: u64,
    pub(super) output: Sampler,
    pub(super) reasoning: Sampler,
    pub(super) final_output: Sampler,
    pub(super) latency_us: Sampler,
    pub(super) batch: Sampler,
    pub(super) estimate_error: Sampler,
    pub(super) synthesis_only: Chance,
    pub(super) tools_withheld: Chance,
    pub(super) budget_notice: Chance,
    pub(super) window_compliance: Chance,
    pub(super) repeat_same: Chance,
    pub(super) record_evidence: Chance,
    pub(super) faults: FaultTable,
    pub(super) billed_share: f64,
    pub(super) storm: Sampler,
    pub(super) retry_after_us: Option<Sampler>,
    pub(super) transport_retries: u32,
    pub(super) transport_reported: TransportReported,
    pub(super) missing: Chance,
    pub(super) factor: f64,
    pub(super) spike: Chance,
    pub(super) spike_size: Sampler,
    pub(super) tools: Vec<CompiledTool>,
    /// Word below `choice[i]` (and not below an earlier one) chooses tool `i`.
    pub(super) choice: Vec<u64>,
    pub(super) record_tool: ToolId,
    pub(super) kills: KillPlan,
    /// At least one.
    pub(super) kinds: Vec<CompiledKind>,
}

/// How the provider caches input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache {
    pub(super) hit: Chance,
    pub(super) hit_under_control: Chance,
}

/// A kind of run; where the scenario has none, the only one.
#[derive(Clone, Debug)]
pub(super) struct CompiledKind {
    /// A word below this (and not below an earlier kind's) draws it.
    pub(super) below: u64,
    pub(super) demand: CompiledDemand,
    pub(super) output_scale: f64,
    pub(super) reasoning_scale: f64,
    pub(super) result_scale: f64,
    pub(super) cache: Option<Cache>,
    pub(super) repeat_call: Chance,
    pub(super) gives_up: Chance,
}

#[derive(Clone, Debug)]
pub(super) enum CompiledDemand {
    Endless,
    Results(Sampler),
    Turns(Sampler),
}

#[derive(Clone, Debug)]
pub(super) struct CompiledTool {
    pub(super) cost: Money,
    pub(super) result_tokens: Sampler,
    /// Words below this are denied.
    pub(super) denied_below: u64,
    /// What the other words bring, after a success of the tool and after a failure.
    pub(super) after_success: Fates,
    pub(super) after_failure: Fates,
    /// A call can bring something new.
    pub(super) brings_news: bool,
    pub(super) latency_us: Sampler,
    pub(super) parallel: bool,
}

/// What a permitted call brings, by ascending thresholds of one word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fates {
    pub(super) fails_below: u64,
    /// Of those that do not fail.
    pub(super) novel_below: u64,
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
pub(super) struct FaultTable {
    total: u64,
    below: [(u64, Drawn); 7],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drawn {
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
    pub(super) fn draw(&self, word: u32) -> Option<Drawn> {
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
/// A drawn count, multiplied before it is rounded.
pub(super) fn times(sampler: &Sampler, word: u32, scale: f64) -> u64 {
    (sampler.value(word) * scale + 0.5) as u64
}
/// A duration in whole microseconds, small enough to be added up.
pub(super) fn micros(sampler: &Sampler, word: u32) -> Micros {
    sampler.count(word).min(i64::MAX as u64 / 4) as Micros
}
