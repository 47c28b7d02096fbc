//! From recorded runs of one source to a scenario: the same quantities that the simulated model draws,
//! counted in the record.
//!
//! A turn without calls that is not the last stands as a call of the tool `continue`, as in a replay.
//! The last turn is the answer unless the record says that there was none.

mod caching;
mod fit;
mod kinds;
mod price;
mod sample;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use holdback_engine::Money;

use crate::price::{ModelPrice, PriceTable};
use crate::trace::{Call, Names, Run, Turn};

pub use fit::Fit;
pub use price::{FoundPrice, PriceSource};
pub use sample::{Law, Sample};
pub use write::{Calibrated, FitRow};

/// Below this a fit says little.
pub const FEW_RUNS: u64 = 30;
/// The tool that stands for a turn without calls.
pub const CONTINUE: &str = "continue";
/// Tools beyond this many share the name `other`.
const MOST_TOOLS: usize = 40;

/// What was seen of one source; memory does not grow with the number of runs.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    runs: u64,
    turns: u64,
    calls: u64,
    failed_requests: u64,
    turns_without_usage: u64,
    turns_with_input: u64,
    demand: Sample,
    demand_cut: Sample,
    batch: Sample,
    output: Sample,
    reasoning: Sample,
    final_output: Sample,
    base_input: Sample,
    latency_ms: Sample,
    /// Costs of turns and of answers in millionths of a dollar.
    turn_cost: Sample,
    final_cost: Sample,
    repeats: u64,
    could_repeat: u64,
    again: Again,
    /// Growth of the context by results, and the calls that brought it.
    grown_tokens: u128,
    grown_calls: u64,
    wholes: kinds::Wholes,
    cache: caching::CacheSeen,
    tools: BTreeMap<String, ToolSeen>,
    models: BTreeMap<String, u64>,
    costed: price::CostedTurns,
    totals: Totals,
}

/// Sums over all turns of a source, as recorded; `None` where no turn records it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs with at least one turn.
    pub runs: u64,
    /// Model calls.
    pub turns: u64,
    /// Tool calls.
    pub calls: u64,
    /// Tool calls that failed.
    pub errors: u64,
    /// Input tokens, cached ones included.
    pub input_tokens: Option<u128>,
    /// Input tokens read from the cache.
    pub cached_tokens: Option<u128>,
    /// Output tokens, reasoning included.
    pub output_tokens: Option<u128>,
    /// Costs.
    pub cost: Option<Money>,
}

impl Totals {
    fn add(&mut self, run: &Run) {
        self.runs += 1;
        self.turns += run.turns.len() as u64;
        self.calls += run.all_calls().len() as u64;
        self.errors += run.all_calls().iter().filter(|call| call.error).count() as u64;
        let add = |sum: &mut Option<u128>, tokens: Option<u64>| {
            if let Some(tokens) = tokens {
                *sum = Some(sum.unwrap_or(0) + u128::from(tokens));
            }
        };
        for turn in &run.turns {
            add(&mut self.input_tokens, turn.input_tokens);
            add(&mut self.cached_tokens, turn.cached_tokens);
            add(&mut self.output_tokens, turn.output_tokens);
            if let Some(cost) = turn.cost {
                self.cost = Some(self.cost.unwrap_or(Money::ZERO) + cost);
            }
        }
    }
}

/// What was seen of one tool.
#[derive(Clone, Debug, Default)]
struct ToolSeen {
    /// Calls that repeat no earlier one.
    fresh: u64,
    errors: u64,
    /// Fresh calls after a failed call of the same tool, and those of them that failed.
    after_error: u64,
    errors_after_error: u64,
    new_results: u64,
    result_tokens: Sample,
    latency_ms: Sample,
}

impl ToolSeen {
    fn merge(&mut self, other: ToolSeen) {
        self.fresh += other.fresh;
        self.errors += other.errors;
        self.after_error += other.after_error;
        self.errors_after_error += other.errors_after_error;
        self.new_results += other.new_results;
        self.result_tokens.merge(&other.result_tokens);
        self.latency_ms.merge(&other.latency_ms);
    }
}

/// Repeats after the first of their run: how often one copies the call that was repeated last.
#[derive(Clone, Copy, Debug, Default)]
struct Again {
    repeats: u64,
    same: u64,
    /// How often that would be so if every earlier call were as likely.
    by_chance: f64,
}

impl Again {
    /// The share that a choice among all earlier calls does not explain.
    fn share(&self) -> f64 {
        let left = self.repeats as f64 - self.by_chance;
        if left <= 0.0 {
            return 0.0;
        }
        ((self.same as f64 - self.by_chance) / left).max(0.0)
    }
}

/// What a run has seen so far.
#[derive(Default)]
struct Sight<'n> {
    /// Calls by tool and arguments, with how often each was made.
    asked: BTreeMap<(&'n str, u64), u64>,
    repeated: Option<(&'n str, u64)>,
    results: BTreeSet<u64>,
    failed: BTreeMap<&'n str, bool>,
    calls: u64,
}

impl Observed {
    /// How many runs were seen.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Sums over what was seen.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Adds a run; one without turns says nothing and is left out.
    pub fn add(&mut self, run: &Run, names: &Names) {
        let Some(last) = run.turns.len().checked_sub(1) else {
            return;
        };
        self.runs += 1;
        let before = self.marks();
        self.totals.add(run);
        self.failed_requests += u64::from(run.failed_requests);
        if let Some(model) = run.model {
            *self.models.entry(names.get(model).to_owned()).or_default() += 1;
        }
        let is_answered = run
            .final_answer
            .unwrap_or(run.turns[last].call_count() == 0);
        let mut sight = Sight::default();
        for (at, turn) in run.turns.iter().enumerate() {
            let is_answer = at == last && is_answered;
            self.turn(turn, at == 0, is_answer);
            if !is_answer {
                self.planning_turn(run.calls(turn), names, &mut sight);
                self.growth(run.calls(turn), turn, run.turns.get(at + 1), names);
            }
            if let Some(input) = turn.input_tokens {
                let of = |at: usize| run.turns[at].input_tokens.unwrap_or(0);
                let cached = turn.cached_tokens;
                match at.checked_sub(1) {
                    Some(before) => self.cache.add_later(input, cached, of(before), of(0)),
                    None => self.cache.add_first(input, cached),
                }
            }
        }
        let planning = run.turns.len() as u64 - u64::from(is_answered);
        if is_answered {
            self.demand.add(planning);
        } else {
            self.demand_cut.add(planning);
        }
        let own = self.marks().since(&before);
        self.wholes.add(planning, is_answered, own);
    }

    /// Sums so far, of which the differences are a run's own.
    fn marks(&self) -> kinds::Marks {
        kinds::Marks {
            output: self.output.sums(),
            reasoning: self.reasoning.sums(),
            results: (self.grown_tokens, self.grown_calls),
            costs: self.turn_cost.sums(),
            cache: self.cache.reads(),
            repeats: self.repeats,
            could_repeat: self.could_repeat,
            input: (self.totals.input_tokens.unwrap_or(0), self.turns_with_input),
        }
    }

    fn turn(&mut self, turn: &Turn, is_first: bool, is_answer: bool) {
        self.turns += 1;
        if turn.usage().is_none() {
            self.turns_without_usage += 1;
        }
        self.turns_with_input += u64::from(turn.input_tokens.is_some());
        let reasoning = turn.reasoning_tokens.unwrap_or(0);
        if let Some(output) = turn.output_tokens {
            let visible = output.saturating_sub(reasoning);
            if is_answer {
                self.final_output.add(visible);
            } else {
                self.output.add(visible);
            }
            self.reasoning.add(reasoning.min(output));
        }
        if let Some(input) = turn.input_tokens
            && is_first
        {
            self.base_input.add(input);
        }
        if let Some(latency) = turn.latency {
            self.latency_ms.add((latency.max(0) / 1000) as u64);
        }
        let Some(cost) = turn.cost else { return };
        let micros = (cost.picos() / 1_000_000) as u64;
        if is_answer {
            self.final_cost.add(micros);
        } else {
            self.turn_cost.add(micros);
        }
        if let (Some(usage), Some(_), Some(_)) =
            (turn.usage(), turn.input_tokens, turn.output_tokens)
        {
            self.costed.add(usage, cost);
        }
    }

    fn planning_turn<'n>(&mut self, calls: &[Call], names: &'n Names, sight: &mut Sight<'n>) {
        self.batch.add(calls.len().max(1) as u64);
        if calls.is_empty() {
            self.could_repeat += u64::from(sight.calls > 0);
            sight.calls += 1;
            self.calls += 1;
            self.tools.entry(CONTINUE.to_owned()).or_default().fresh += 1;
        }
        for call in calls {
            self.call(call, names.get(call.tool), sight);
        }
    }

    fn call<'n>(&mut self, call: &Call, name: &'n str, sight: &mut Sight<'n>) {
        self.could_repeat += u64::from(sight.calls > 0);
        let is_repeat = call
            .args
            .is_some_and(|args| self.asked_before((name, args.get()), sight));
        sight.calls += 1;
        self.calls += 1;
        let is_new = !call.error
            && call
                .result
                .is_none_or(|result| sight.results.insert(result.get()));
        let had_failed = sight.failed.insert(name, call.error).unwrap_or(false);
        if is_repeat {
            self.repeats += 1;
            return;
        }
        if !self.tools.contains_key(name) {
            self.tools.insert(name.to_owned(), ToolSeen::default());
        }
        if let Some(tool) = self.tools.get_mut(name) {
            tool.fresh += 1;
            tool.errors += u64::from(call.error);
            tool.after_error += u64::from(had_failed);
            tool.errors_after_error += u64::from(had_failed && call.error);
            tool.new_results += u64::from(is_new);
            if let Some(latency) = call.latency {
                tool.latency_ms.add((latency.max(0) / 1000) as u64);
            }
        }
    }

    /// Counts a call by its identity; true if the run has made it before.
    fn asked_before<'n>(&mut self, call: (&'n str, u64), sight: &mut Sight<'n>) -> bool {
        let times = sight.asked.entry(call).or_default();
        *times += 1;
        if *times == 1 {
            return false;
        }
        if let Some(last) = sight.repeated.replace(call) {
            self.again.repeats += 1;
            self.again.same += u64::from(last == call);
            let made = sight
                .asked
                .get(&last)
                .map_or(0, |times| times - u64::from(last == call));
            self.again.by_chance += made as f64 / sight.calls as f64;
        }
        true
    }

    /// The growth of the context from a turn to the next, beyond what the model wrote, is the results
    /// of its calls, in equal parts.
    fn growth(&mut self, calls: &[Call], turn: &Turn, next: Option<&Turn>, names: &Names) {
        let (Some(before), Some(after), Some(output)) = (
            turn.input_tokens,
            next.and_then(|next| next.input_tokens),
            turn.output_tokens,
        ) else {
            return;
        };
        let visible = output.saturating_sub(turn.reasoning_tokens.unwrap_or(0));
        let grown = after.saturating_sub(before).saturating_sub(visible);
        let parts = calls.len().max(1) as u64;
        self.grown_tokens += u128::from(grown);
        self.grown_calls += parts;
        let of_calls = calls.iter().map(|call| names.get(call.tool));
        let of_talk = calls.is_empty().then_some(CONTINUE);
        for name in of_calls.chain(of_talk) {
            if let Some(tool) = self.tools.get_mut(name) {
                tool.result_tokens.add(grown / parts);
            }
        }
    }

    /// The scenario of these runs.
    ///
    /// # Errors
    /// If there is nothing to fit: no run, or none with a tool call or a word before its answer.
    pub fn calibrate(
        self,
        label: &str,
        given: Option<&ModelPrice>,
        table: &PriceTable,
    ) -> Result<Calibrated, crate::FileError> {
        write::calibrated(self.with_few_tools(), label, given, table)
    }

    /// The most used tools, the others under one name.
    fn with_few_tools(mut self) -> Observed {
        if self.tools.len() <= MOST_TOOLS {
            return self;
        }
        let mut by_use: Vec<_> = std::mem::take(&mut self.tools).into_iter().collect();
        by_use.sort_by_key(|(_, tool)| std::cmp::Reverse(tool.fresh));
        let rest = by_use.split_off(MOST_TOOLS - 1);
        self.tools = by_use.into_iter().collect();
        let other = self.tools.entry("other".to_owned()).or_default();
        for (_, tool) in rest {
            other.merge(tool);
        }
        self
    }
}
