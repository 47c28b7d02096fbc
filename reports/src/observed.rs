//! Measures computed from a tally, with their intervals.

use std::collections::BTreeMap;

use holdback_engine::Money;
use holdback_sim::tally::{Group, Histogram, Pairs, Tally};

use crate::measure::{Amount, Measure, NANODOLLARS, Source, Sum, Unit};
use crate::stats::paired::{self, Table};
use crate::stats::resample::{Estimate, Resampler, Unseen};
use crate::stats::{CONFIDENCE, Interval, order, proportion};
use crate::study::{Cell, Twin};
use crate::summary::{Figure, Value};

/// One policy in one scenario, ready to be measured.
pub(crate) struct Observed<'a> {
    tally: &'a Tally,
    total: Group,
    twin: Option<&'a Twin>,
    bound: Option<Money>,
    cap: Option<Money>,
    family: &'a str,
}

/// What intervals need that is the same for many cells: made once, used for all.
#[derive(Default)]
pub(crate) struct Tools {
    resamplers: BTreeMap<usize, Resampler>,
    ranks: BTreeMap<(u64, u64), (Option<u64>, Option<u64>)>,
}

impl Tools {
    /// Whatever `cells` will need.
    pub(crate) fn for_cells<'a>(cells: impl Iterator<Item = &'a Observed<'a>>) -> Tools {
        let mut tools = Tools::default();
        for cell in cells {
            let groups = cell.groups().count();
            tools
                .resamplers
                .entry(groups)
                .or_insert_with(|| Resampler::new(groups));
            for measure in Measure::ALL {
                if let Source::Quantile { of, share, .. } = measure.spec().source {
                    let runs = of(cell.tally).total();
                    tools
                        .ranks
                        .entry((runs, share.to_bits()))
                        .or_insert_with(|| order::ranks(runs, share, CONFIDENCE));
                }
            }
        }
        tools
    }

    /// The resampled interval of each estimate, all of them over the same groups.
    pub(crate) fn intervals(&self, estimates: &[&Estimate]) -> Vec<Interval> {
        let groups = estimates.first().map_or(0, |estimate| estimate.groups());
        match self.resamplers.get(&groups) {
            Some(resampler) => resampler.intervals(estimates, CONFIDENCE),
            None => Resampler::new(groups).intervals(estimates, CONFIDENCE),
        }
    }

    fn ranks(&self, runs: u64, share: f64) -> (Option<u64>, Option<u64>) {
        match self.ranks.get(&(runs, share.to_bits())) {
            Some(ranks) => *ranks,
            None => order::ranks(runs, share, CONFIDENCE),
        }
    }
}

/// How two policies differ in a measure, before its interval is known.
pub(crate) enum Difference {
    /// The interval is known without resampling.
    Known(f64, Option<Interval>),
    /// The interval is to be resampled.
    Resampled(Estimate),
}

impl<'a> Observed<'a> {
    pub(crate) fn new(cell: &'a Cell, family: &'a str, twin: Option<&'a Twin>) -> Observed<'a> {
        let mut total = Group::default();
        cell.tally
            .groups
            .iter()
            .for_each(|group| total.merge(group));
        Observed {
            tally: &cell.tally,
            total,
            twin,
            bound: cell.overspend_bound,
            cap: cell.money_cap,
            family,
        }
    }

    /// Whether the measure means anything here.
    pub(crate) fn applies(&self, measure: Measure) -> bool {
        let spec = measure.spec();
        (!spec.needs_cap || self.total.capped > 0)
            && spec.family.is_none_or(|family| family == self.family)
    }

    /// The value of a measure; `None` where it does not apply or nothing defines it.
    pub(crate) fn value(&self, measure: Measure) -> Option<Value> {
        if !self.applies(measure) || self.total.runs == 0 {
            return None;
        }
        let read = |sum: Sum| sum(&self.total).to_f64();
        let quotient = |of: f64, over: f64| (over > 0.0).then(|| Value::real(of / over));
        match measure.spec().source {
            Source::Total(sum) => Some(match sum(&self.total) {
                Amount::Count(count) => Value::Count(count),
                Amount::Usd(money) => Value::Usd(money),
            }),
            Source::Share { of, among: over } | Source::Ratio { of, over } => {
                quotient(read(of), read(over))
            }
            Source::Kept => self
                .twin
                .and_then(|twin| quotient(self.total.sums.evidence as f64, twin.evidence as f64)),
            Source::Quantile {
                of,
                share,
                per_unit,
            } => of(self.tally)
                .quantile(share)
                .map(|value| Value::real(value as f64 / per_unit)),
            Source::LargestOverspend => Some(Value::Usd(self.tally.overspend_max)),
            Source::OverspendBound => self.bound.map(Value::Usd),
        }
    }

    /// The interval of a measure that needs no resampling.
    pub(crate) fn direct_interval(&self, measure: Measure, tools: &Tools) -> Option<Interval> {
        if !self.applies(measure) {
            return None;
        }
        match measure.spec().source {
            Source::Share { of, among } => {
                let (of, among) = self.counts(of, among);
                Some(proportion::wilson(of, among, CONFIDENCE))
            }
            Source::Quantile {
                of,
                share,
                per_unit,
            } => quantile_interval(of(self.tally), share, tools)
                .map(|interval| interval.map(|value| value / per_unit)),
            _ => None,
        }
    }

    /// The measure as an estimate over groups of runs, where its source is sums: a total counts as a
    /// mean a run.
    pub(crate) fn estimate(&self, measure: Measure) -> Option<Estimate> {
        if !self.applies(measure) {
            return None;
        }
        let runs: Sum = |group| Amount::Count(group.runs);
        let (groups, each) = match measure.spec().source {
            // Each run weighs one in the denominator, but not where only some are counted.
            Source::Total(of) => (self.sums(of, runs), true),
            Source::Share { of, among: over } => (self.sums(of, over), true),
            Source::Ratio { of, over } => (self.sums(of, over), measure != Measure::CostPerAnswer),
            Source::Kept => (self.kept()?, false),
            _ => return None,
        };
        let most = self.most_of_a_run(measure, &groups);
        let estimate = Estimate::ratio(&groups)?;
        let below: f64 = groups.iter().map(|(_, below)| below).sum();
        let weight = self.total.runs as f64 / below;
        let (least_over, most_over) = match measure.spec().source {
            _ if each => (1.0, 1.0),
            Source::Kept => (0.0, most),
            _ => (0.0, 1.0),
        };
        let unseen = Unseen {
            runs: self.total.runs,
            above: weight * (most - estimate.value * least_over).max(0.0),
            below: weight * estimate.value * most_over,
        };
        Some(estimate.with_unseen(unseen))
    }

    /// The most of what a measure sums that a single run can bring: its structural bound where there
    /// is one, else the largest seen. Counts are kept by group only, so theirs is the sum of the
    /// largest group, and at least one event.
    fn most_of_a_run(&self, measure: Measure, groups: &[(f64, f64)]) -> f64 {
        let largest_bill = self.tally.billed.max() as f64 / NANODOLLARS;
        let bounded_bill = self.cap.zip(self.bound).map(|(cap, over)| cap + over);
        let spec = measure.spec();
        match (measure, spec.unit) {
            (Measure::OverspendMean, _) => self.bound.map_or(largest_bill, Money::to_f64),
            (_, Unit::Usd) => {
                bounded_bill.map_or(largest_bill, |bill| bill.to_f64().max(largest_bill))
            }
            _ if matches!(spec.source, Source::Share { .. }) || measure.counts_runs() => 1.0,
            _ => groups
                .iter()
                .fold(1.0, |most: f64, (sum, over)| match spec.source {
                    Source::Kept => most.max(*sum).max(*over),
                    _ => most.max(*sum),
                }),
        }
    }

    /// `self - other` in a measure, on the same runs.
    pub(crate) fn difference(
        &self,
        other: &Observed<'_>,
        measure: Measure,
        pairs: Option<&Pairs>,
        tools: &Tools,
    ) -> Option<Difference> {
        let spec = measure.spec();
        match (spec.source, pairs) {
            (Source::Share { .. }, pairs) => {
                let (value, interval) = self.share_difference(other, measure, pairs, CONFIDENCE)?;
                Some(Difference::Known(value, Some(interval)))
            }
            (Source::Quantile { .. }, _) => {
                let own = self.value(measure)?.to_f64();
                let theirs = other.value(measure)?.to_f64();
                let limits = self
                    .direct_interval(measure, tools)
                    .zip(other.direct_interval(measure, tools));
                let interval = limits.map(|(a, b)| paired::combine((own, a), (theirs, b), 0.0));
                Some(Difference::Known(own - theirs, interval))
            }
            (Source::LargestOverspend | Source::OverspendBound, _) => {
                let own = self.value(measure)?.to_f64();
                Some(Difference::Known(
                    own - other.value(measure)?.to_f64(),
                    None,
                ))
            }
            (Source::Total(_) | Source::Ratio { .. } | Source::Kept, _) => {
                let own = self.estimate(measure)?;
                Some(Difference::Resampled(own.minus(&other.estimate(measure)?)))
            }
        }
    }

    /// `self - other` in a share, on the same runs, by Newcombe's method: from the table of runs where
    /// it was kept, else with the correlation between the groups of runs.
    pub(crate) fn share_difference(
        &self,
        other: &Observed<'_>,
        measure: Measure,
        pairs: Option<&Pairs>,
        confidence: f64,
    ) -> Option<(f64, Interval)> {
        // Where no text but answers was delivered, what is delivered is what is answered.
        let is_answered = match measure {
            Measure::AnsweredRate => true,
            Measure::DeliveredRate => self.total.partial == 0 && other.total.partial == 0,
            _ => false,
        };
        if let Some(table) = pairs.filter(|_| is_answered).map(table) {
            return Some((table.difference(), paired::newcombe(&table, confidence)));
        }
        let Source::Share { of, among } = measure.spec().source else {
            return None;
        };
        let correlation = self
            .estimate(measure)
            .zip(other.estimate(measure))
            .map_or(0.0, |(own, theirs)| own.correlation(&theirs));
        let (own, theirs) = (self.counts(of, among), other.counts(of, among));
        let rate = |(part, whole): (u64, u64)| (whole > 0).then(|| part as f64 / whole as f64);
        let interval = paired::newcombe_correlated(own, theirs, correlation, confidence);
        Some((rate(own)? - rate(theirs)?, interval))
    }

    /// An interval of the measure itself without what it cannot be: below zero, or a share above one.
    pub(crate) fn possible(&self, measure: Measure, interval: Interval) -> Interval {
        let value = self.value(measure).map_or(0.0, Value::to_f64);
        let most = match measure.spec().unit {
            // Evidence beyond what was gathered without limits is odd, but was seen then.
            Unit::Share => value.max(1.0),
            _ => f64::INFINITY,
        };
        interval.map(|end| end.clamp(0.0, most))
    }

    /// All measures that apply, with the intervals that need resampling still to come: `pending`
    /// names them.
    pub(crate) fn figures(
        &self,
        tools: &Tools,
    ) -> (BTreeMap<Measure, Figure>, Vec<(Measure, Estimate)>) {
        let mut figures = BTreeMap::new();
        let mut pending = Vec::new();
        for &measure in Measure::ALL {
            let Some(value) = self.value(measure) else {
                continue;
            };
            let resampled = matches!(measure.spec().source, Source::Ratio { .. } | Source::Kept);
            if let Some(estimate) = self.estimate(measure).filter(|_| resampled) {
                pending.push((measure, estimate));
            }
            let interval = self.direct_interval(measure, tools);
            figures.insert(measure, Figure::new(value, interval));
        }
        (figures, pending)
    }

    pub(crate) fn counts(&self, of: Sum, among: Sum) -> (u64, u64) {
        let count = |sum: Sum| match sum(&self.total) {
            Amount::Count(count) => count,
            Amount::Usd(_) => 0,
        };
        (count(of), count(among))
    }

    /// Groups that hold runs; the same for all policies of a scenario.
    fn groups(&self) -> impl Iterator<Item = &Group> {
        self.tally.groups.iter().filter(|group| group.runs > 0)
    }

    fn sums(&self, of: Sum, over: Sum) -> Vec<(f64, f64)> {
        self.groups()
            .map(|group| (of(group).to_f64(), over(group).to_f64()))
            .collect()
    }

    fn kept(&self) -> Option<Vec<(f64, f64)>> {
        let twin = self.twin?;
        let groups = self.tally.groups.iter().zip(&twin.groups);
        Some(
            groups
                .filter(|(group, _)| group.runs > 0)
                .map(|(group, twin)| (group.sums.evidence as f64, *twin as f64))
                .collect(),
        )
    }
}

pub(crate) fn table(pairs: &Pairs) -> Table {
    Table {
        both: pairs.both,
        only_here: pairs.only_here,
        only_there: pairs.only_there,
        neither: pairs.neither,
    }
}

fn quantile_interval(histogram: &Histogram, share: f64, tools: &Tools) -> Option<Interval> {
    let (lower, upper) = tools.ranks(histogram.total(), share);
    let at = |rank| histogram.at_rank(rank) as f64;
    Some(Interval::new(at(lower?), at(upper?)))
}
