//! Tallies: commutative integer sums and histograms of runs.

mod histogram;
mod record;

use std::collections::BTreeMap;

use holdback_engine::Money;
use serde::{Deserialize, Serialize};

pub use histogram::Histogram;
pub use record::{Cause, Event, Outcome, RunRecord, Seen};

/// Groups of runs (run number modulo this) whose sums are kept apart, for resampled intervals.
pub const GROUPS: usize = 1024;

/// The unit of money in histograms: nanodollars, so that 64 bits hold up to 18 billion dollars.
pub const PICOS_PER_HISTOGRAM_UNIT: i128 = 1000;

/// Everything that is measured of one scenario under one policy.
///
/// Adding runs commutes and merging associates, so threads, shards and interruptions leave no trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Runs counted.
    pub runs: u64,
    /// Runs by outcome.
    pub answered: u64,
    /// Runs with a partial answer.
    pub partial: u64,
    /// Runs without an answer.
    pub unanswered: u64,
    /// Runs by outcome and cause.
    pub causes: BTreeMap<(Outcome, Cause), u64>,
    /// Runs whose bill passed the money cap; meaningless without a cap.
    pub overspent: u64,
    /// Runs that had a money cap to pass.
    pub capped: u64,
    /// Runs that violated a synthesis reserve.
    pub reserve_violations: u64,
    /// Runs that ended after their deadline.
    pub late: u64,
    /// Sums over all runs.
    pub sums: Sums,
    /// Bill of a run, in nanodollars.
    pub billed: Histogram,
    /// Overspend of a run, in nanodollars.
    pub overspend: Histogram,
    /// Headroom left, in nanodollars.
    pub reserve_left: Histogram,
    /// Duration, in microseconds.
    pub duration: Histogram,
    /// The largest overspend, exactly.
    pub overspend_max: Money,
    /// The largest single model call, exactly.
    pub largest_call: Money,
    /// Per group of runs: the sums that resampled intervals need.
    pub groups: Vec<Group>,
    /// Runs in which each rare event was seen.
    pub seen: Vec<u64>,
    /// Runs worth explaining.
    pub examples: Examples,
}

/// Sums over all runs of a tally. Definitions: [`RunRecord`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Sums {
    pub steps: u64,
    pub model_calls: u64,
    pub tool_calls: u64,
    pub tool_batches: u64,
    pub messages: u64,
    pub refused_calls: u64,
    pub skipped_calls: u64,
    pub denied_calls: u64,
    pub evidence: u64,
    pub evidence_entries: u64,
    pub unread_results: u64,
    pub billed: Money,
    pub ledger: Money,
    pub overspend: Money,
    pub reserve_left: Money,
    pub wasted: Money,
    pub kills: u64,
    pub repaid_calls: u64,
    pub repaid: Money,
    pub checkpoints: u64,
    pub checkpoint_bytes: u64,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub written_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_tokens: u64,
    pub duration_us: u64,
}

/// Sums over the runs of one group (run number modulo [`GROUPS`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Runs of the group.
    pub runs: u64,
    /// Runs with an answer.
    pub answered: u64,
    /// Runs with a partial answer.
    pub partial: u64,
    /// Runs that had a money cap to pass.
    pub capped: u64,
    /// Runs whose bill passed it.
    pub overspent: u64,
    /// Runs that violated a synthesis reserve.
    pub reserve_violations: u64,
    /// Runs that ended after their deadline.
    pub late: u64,
    /// Sums over the runs of the group.
    pub sums: Sums,
}

/// Run numbers worth explaining; the lowest number wins ties, so that they do not depend on order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examples {
    /// The first run that ended without an answer.
    pub first_unanswered: Option<u64>,
    /// The run with the largest positive overspend, and how much.
    pub largest_overspend: Option<(Money, u64)>,
    /// The dearest run, and its bill.
    pub dearest: Option<(Money, u64)>,
}

/// A policy against the baseline on the same luck, run by run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairs {
    /// Answered under both.
    pub both: u64,
    /// Answered under this policy only.
    pub only_here: u64,
    /// Answered under the baseline only.
    pub only_there: u64,
    /// Answered under neither.
    pub neither: u64,
    /// The first run that only this policy answers.
    pub first_only_here: Option<u64>,
    /// The first run that only the baseline answers.
    pub first_only_there: Option<u64>,
}

impl Tally {
    /// An empty tally.
    pub fn new() -> Tally {
        Tally {
            groups: vec![Group::default(); GROUPS],
            seen: vec![0; Event::ALL.len()],
            ..Tally::default()
        }
    }

    /// Counts run number `run`.
    pub fn add(&mut self, run: u64, record: &RunRecord) {
        self.runs += 1;
        match record.outcome {
            Outcome::Answered => self.answered += 1,
            Outcome::Partial => self.partial += 1,
            Outcome::Unanswered => self.unanswered += 1,
        }
        *self
            .causes
            .entry((record.outcome, record.cause))
            .or_default() += 1;
        self.reserve_violations += u64::from(record.reserve_violation);
        self.late += u64::from(record.late);
        self.largest_call = self.largest_call.max(record.largest_call);
        self.billed.add(histogram_units(record.billed));
        self.duration.add(record.duration.max(0) as u64);
        if let Some(overspend) = record.overspend {
            self.capped += 1;
            self.overspent += u64::from(overspend > Money::ZERO);
            self.overspend.add(histogram_units(overspend));
            self.overspend_max = self.overspend_max.max(overspend);
        }
        if let Some(left) = record.reserve_left {
            self.reserve_left.add(histogram_units(left));
        }
        self.sums.add(record);
        self.groups[(run % GROUPS as u64) as usize].add(record);
        let mut bits = record.seen.0;
        while bits != 0 {
            self.seen[bits.trailing_zeros() as usize] += 1;
            bits &= bits - 1;
        }
        self.examples.add(run, record);
    }

    /// False for what no runs can add up to.
    pub(crate) fn is_sound(&self) -> bool {
        let outcomes = [self.answered, self.partial, self.unanswered];
        let counted = outcomes
            .iter()
            .try_fold(0_u64, |sum, n| sum.checked_add(*n));
        let histograms = [
            &self.billed,
            &self.overspend,
            &self.reserve_left,
            &self.duration,
        ];
        counted == Some(self.runs)
            && self.groups.len() == GROUPS
            && self.seen.len() == Event::ALL.len()
            && histograms.iter().all(|histogram| histogram.is_sound())
    }

    /// Adds the runs of another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.runs += other.runs;
        self.answered += other.answered;
        self.partial += other.partial;
        self.unanswered += other.unanswered;
        for (cause, count) in &other.causes {
            *self.causes.entry(*cause).or_default() += count;
        }
        self.overspent += other.overspent;
        self.capped += other.capped;
        self.reserve_violations += other.reserve_violations;
        self.late += other.late;
        self.sums.merge(&other.sums);
        self.billed.merge(&other.billed);
        self.overspend.merge(&other.overspend);
        self.reserve_left.merge(&other.reserve_left);
        self.duration.merge(&other.duration);
        self.overspend_max = self.overspend_max.max(other.overspend_max);
        self.largest_call = self.largest_call.max(other.largest_call);
        for (mine, theirs) in self.groups.iter_mut().zip(&other.groups) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.seen.iter_mut().zip(&other.seen) {
            *mine += theirs;
        }
        self.examples.merge(&other.examples);
    }
}

/// Money as histograms count it: nanodollars, rounded down, negative amounts as zero.
fn histogram_units(money: Money) -> u64 {
    u64::try_from(money.or_zero().picos() / PICOS_PER_HISTOGRAM_UNIT).unwrap_or(u64::MAX)
}

impl Sums {
    fn add(&mut self, record: &RunRecord) {
        self.steps += record.steps;
        self.model_calls += record.model_calls;
        self.tool_calls += record.tool_calls;
        self.tool_batches += record.tool_batches;
        self.messages += record.messages;
        self.refused_calls += record.refused_calls;
        self.skipped_calls += record.skipped_calls;
        self.denied_calls += record.denied_calls;
        self.evidence += record.evidence;
        self.evidence_entries += record.evidence_entries;
        self.unread_results += record.unread_results;
        self.billed += record.billed;
        self.ledger += record.ledger;
        self.overspend += record.overspend.unwrap_or(Money::ZERO);
        self.reserve_left += record.reserve_left.unwrap_or(Money::ZERO);
        if record.outcome == Outcome::Unanswered {
            self.wasted += record.billed;
        }
        self.kills += record.kills;
        self.repaid_calls += record.repaid_calls;
        self.repaid += record.repaid;
        self.checkpoints += record.checkpoints;
        self.checkpoint_bytes += record.checkpoint_bytes;
        self.input_tokens += record.input_tokens;
        self.cached_tokens += record.cached_tokens;
        self.written_tokens += record.written_tokens;
        self.output_tokens += record.output_tokens;
        self.reasoning_tokens += record.reasoning_tokens;
        self.duration_us += record.duration.max(0) as u64;
    }

    fn merge(&mut self, other: &Sums) {
        self.steps += other.steps;
        self.model_calls += other.model_calls;
        self.tool_calls += other.tool_calls;
        self.tool_batches += other.tool_batches;
        self.messages += other.messages;
        self.refused_calls += other.refused_calls;
        self.skipped_calls += other.skipped_calls;
        self.denied_calls += other.denied_calls;
        self.evidence += other.evidence;
        self.evidence_entries += other.evidence_entries;
        self.unread_results += other.unread_results;
        self.billed += other.billed;
        self.ledger += other.ledger;
        self.overspend += other.overspend;
        self.reserve_left += other.reserve_left;
        self.wasted += other.wasted;
        self.kills += other.kills;
        self.repaid_calls += other.repaid_calls;
        self.repaid += other.repaid;
        self.checkpoints += other.checkpoints;
        self.checkpoint_bytes += other.checkpoint_bytes;
        self.input_tokens += other.input_tokens;
        self.cached_tokens += other.cached_tokens;
        self.written_tokens += other.written_tokens;
        self.output_tokens += other.output_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.duration_us += other.duration_us;
    }
}

impl Group {
    fn add(&mut self, record: &RunRecord) {
        self.runs += 1;
        self.answered += u64::from(record.outcome == Outcome::Answered);
        self.partial += u64::from(record.outcome == Outcome::Partial);
        self.capped += u64::from(record.overspend.is_some());
        self.overspent += u64::from(record.overspend.is_some_and(|o| o > Money::ZERO));
        self.reserve_violations += u64::from(record.reserve_violation);
        self.late += u64::from(record.late);
        self.sums.add(record);
    }

    /// Adds the runs of another group.
    pub fn merge(&mut self, other: &Group) {
        self.runs += other.runs;
        self.answered += other.answered;
        self.partial += other.partial;
        self.capped += other.capped;
        self.overspent += other.overspent;
        self.reserve_violations += other.reserve_violations;
        self.late += other.late;
        self.sums.merge(&other.sums);
    }
}

impl Examples {
    fn add(&mut self, run: u64, record: &RunRecord) {
        let here = Examples {
            first_unanswered: (record.outcome == Outcome::Unanswered).then_some(run),
            largest_overspend: record
                .overspend
                .filter(|overspend| *overspend > Money::ZERO)
                .map(|overspend| (overspend, run)),
            dearest: Some((record.billed, run)),
        };
        self.merge(&here);
    }

    fn merge(&mut self, other: &Examples) {
        self.first_unanswered = lowest(self.first_unanswered, other.first_unanswered);
        self.largest_overspend = largest(self.largest_overspend, other.largest_overspend);
        self.dearest = largest(self.dearest, other.dearest);
    }
}

impl Pairs {
    /// Counts run number `run`.
    pub fn add(&mut self, run: u64, answered_here: bool, answered_there: bool) {
        match (answered_here, answered_there) {
            (true, true) => self.both += 1,
            (true, false) => {
                self.only_here += 1;
                self.first_only_here = lowest(self.first_only_here, Some(run));
            }
            (false, true) => {
                self.only_there += 1;
                self.first_only_there = lowest(self.first_only_there, Some(run));
            }
            (false, false) => self.neither += 1,
        }
    }

    /// Adds the runs of another comparison.
    pub fn merge(&mut self, other: &Pairs) {
        self.both += other.both;
        self.only_here += other.only_here;
        self.only_there += other.only_there;
        self.neither += other.neither;
        self.first_only_here = lowest(self.first_only_here, other.first_only_here);
        self.first_only_there = lowest(self.first_only_there, other.first_only_there);
    }
}

fn lowest(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn largest(a: Option<(Money, u64)>, b: Option<(Money, u64)>) -> Option<(Money, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let b_wins = b.0 > a.0 || (b.0 == a.0 && b.1 < a.1);
            Some(if b_wins { b } else { a })
        }
        (a, b) => a.or(b),
    }
}
