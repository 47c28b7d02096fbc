//! Tallies: commutative integer sums and histograms of runs.

mod histogram;
mod record;
mod sums;

use std::collections::BTreeMap;

use holdback_engine::Money;
use serde::{Deserialize, Serialize};

pub use histogram::Histogram;
pub use record::{Cause, Event, Outcome, RunRecord, Seen};
use sums::Amount;
pub use sums::{Group, Sums};

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
        self.count(run, record);
        self.note(&Noted::of(run, record));
        self.total(&Group::of(record));
    }

    /// The part of [`Tally::add`] that [`Tally::uncount`] takes back, without the totals over groups.
    pub(crate) fn count(&mut self, run: u64, record: &RunRecord) {
        self.groups[(run % GROUPS as u64) as usize].join(Group::of(record));
        self.each_count(record, u64::join, Histogram::count);
    }

    /// Takes back what [`Tally::count`] added: here, and in all tallies that add this one up.
    pub(crate) fn uncount(&mut self, run: u64, record: &RunRecord) {
        self.groups[(run % GROUPS as u64) as usize].part(Group::of(record));
        self.each_count(record, u64::part, Histogram::uncount);
    }

    fn each_count(
        &mut self,
        record: &RunRecord,
        change: fn(&mut u64, u64),
        value: fn(&mut Histogram, u64),
    ) {
        let cause = (record.outcome, record.cause);
        change(self.causes.entry(cause).or_default(), 1);
        value(&mut self.billed, histogram_units(record.billed));
        value(&mut self.duration, record.duration.max(0) as u64);
        if let Some(overspend) = record.overspend {
            value(&mut self.overspend, histogram_units(overspend));
        }
        if let Some(left) = record.reserve_left {
            value(&mut self.reserve_left, histogram_units(left));
        }
        let mut bits = record.seen.0;
        while bits != 0 {
            change(&mut self.seen[bits.trailing_zeros() as usize], 1);
            bits &= bits - 1;
        }
    }

    /// The part of [`Tally::add`] that cannot be taken back.
    pub(crate) fn note(&mut self, noted: &Noted) {
        self.largest_call = self.largest_call.max(noted.largest_call);
        self.billed.note(noted.billed);
        self.duration.note(noted.duration);
        self.overspend.note(noted.overspend);
        self.reserve_left.note(noted.reserve_left);
        self.overspend_max = self.overspend_max.max(noted.overspend_max);
        self.examples.merge(&noted.examples);
    }

    /// Adds what the tally before it has counted: the inverse of counting only differences.
    pub(crate) fn count_all_of(&mut self, before: &Tally) {
        for (mine, theirs) in self.groups.iter_mut().zip(&before.groups) {
            mine.join(*theirs);
        }
        for (cause, count) in &before.causes {
            self.causes.entry(*cause).or_default().join(*count);
        }
        self.billed.count_all_of(&before.billed);
        self.duration.count_all_of(&before.duration);
        self.overspend.count_all_of(&before.overspend);
        self.reserve_left.count_all_of(&before.reserve_left);
        for (mine, theirs) in self.seen.iter_mut().zip(&before.seen) {
            mine.join(*theirs);
        }
    }

    /// Completes a tally that was only counted: totals over groups, and nothing that is not there.
    pub(crate) fn complete(&mut self) {
        let mut sum = Group::default();
        for group in &self.groups {
            sum.join(*group);
        }
        self.total(&sum);
        self.causes.retain(|_, count| *count > 0);
        for histogram in [
            &mut self.billed,
            &mut self.duration,
            &mut self.overspend,
            &mut self.reserve_left,
        ] {
            histogram.trim();
        }
    }

    fn total(&mut self, sum: &Group) {
        self.runs += sum.runs;
        self.answered += sum.answered;
        self.partial += sum.partial;
        self.unanswered += sum.runs - sum.answered - sum.partial;
        self.overspent += sum.overspent;
        self.capped += sum.capped;
        self.reserve_violations += sum.reserve_violations;
        self.late += sum.late;
        self.sums.join(sum.sums);
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
        self.sums.join(other.sums);
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

/// What a run is noted for: the largest of something, or the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    billed: u64,
    duration: u64,
    overspend: u64,
    reserve_left: u64,
    overspend_max: Money,
    largest_call: Money,
    examples: Examples,
}

impl Noted {
    /// Adds what a later run is noted for.
    #[inline]
    pub(crate) fn absorb(&mut self, later: &Noted) {
        self.billed = self.billed.max(later.billed);
        self.duration = self.duration.max(later.duration);
        self.overspend = self.overspend.max(later.overspend);
        self.reserve_left = self.reserve_left.max(later.reserve_left);
        self.overspend_max = self.overspend_max.max(later.overspend_max);
        self.largest_call = self.largest_call.max(later.largest_call);
        self.examples.merge(&later.examples);
    }

    pub(crate) fn of(run: u64, record: &RunRecord) -> Noted {
        let overspend = record.overspend.unwrap_or(Money::ZERO);
        Noted {
            billed: histogram_units(record.billed),
            duration: record.duration.max(0) as u64,
            overspend: histogram_units(overspend),
            reserve_left: histogram_units(record.reserve_left.unwrap_or(Money::ZERO)),
            overspend_max: overspend,
            largest_call: record.largest_call,
            examples: Examples::of(run, record),
        }
    }
}

/// Money as histograms count it: nanodollars, rounded down, negative amounts as zero.
fn histogram_units(money: Money) -> u64 {
    u64::try_from(money.or_zero().picos() / PICOS_PER_HISTOGRAM_UNIT).unwrap_or(u64::MAX)
}

impl Examples {
    fn of(run: u64, record: &RunRecord) -> Examples {
        Examples {
            first_unanswered: (record.outcome == Outcome::Unanswered).then_some(run),
            largest_overspend: record
                .overspend
                .filter(|overspend| *overspend > Money::ZERO)
                .map(|overspend| (overspend, run)),
            dearest: Some((record.billed, run)),
        }
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
        self.count(answered_here, answered_there);
        self.note(run, answered_here, answered_there);
    }

    /// The part of [`Pairs::add`] that [`Pairs::uncount`] takes back.
    pub(crate) fn count(&mut self, answered_here: bool, answered_there: bool) {
        self.of(answered_here, answered_there).join(1);
    }

    /// Takes back what [`Pairs::count`] added.
    pub(crate) fn uncount(&mut self, answered_here: bool, answered_there: bool) {
        self.of(answered_here, answered_there).part(1);
    }

    fn of(&mut self, answered_here: bool, answered_there: bool) -> &mut u64 {
        match (answered_here, answered_there) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.only_here,
            (false, true) => &mut self.only_there,
            (false, false) => &mut self.neither,
        }
    }

    /// The part of [`Pairs::add`] that cannot be taken back.
    pub(crate) fn note(&mut self, run: u64, answered_here: bool, answered_there: bool) {
        let first = match (answered_here, answered_there) {
            (true, false) => &mut self.first_only_here,
            (false, true) => &mut self.first_only_there,
            _ => return,
        };
        *first = lowest(*first, Some(run));
    }

    /// Adds what the comparison before it has counted.
    pub(crate) fn count_all_of(&mut self, before: &Pairs) {
        self.both.join(before.both);
        self.only_here.join(before.only_here);
        self.only_there.join(before.only_there);
        self.neither.join(before.neither);
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
