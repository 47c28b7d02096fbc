//! Log-linear histograms of integers.

use serde::{Deserialize, Serialize};

/// Values below this are counted one by one; above it an octave has [`PER_OCTAVE`] buckets.
const LINEAR: u64 = 2 * PER_OCTAVE;
/// Buckets an octave. The middle of a bucket is off by at most 1/1024 of the value.
const PER_OCTAVE: u64 = 512;
/// Buckets a page; pages are allocated when they are first hit.
const PAGE: usize = 512;

/// Counts of non-negative integers in log-linear buckets.
///
/// Quantiles read from it are off by at most 1/1024 of the value (values below 1,024 are exact); the
/// maximum is kept exactly. Addition commutes, so the order of runs, threads and shards leaves no
/// trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    total: u64,
    max: u64,
    /// `pages[p]` holds the buckets `p * PAGE ..`; an empty page is an empty vector.
    pages: Vec<Vec<u64>>,
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.count(value);
        self.note(value);
    }

    /// The part of [`Histogram::add`] that [`Histogram::uncount`] takes back.
    pub(super) fn count(&mut self, value: u64) {
        let count = self.bucket(value);
        *count = count.wrapping_add(1);
        self.total = self.total.wrapping_add(1);
    }

    /// Takes back what [`Histogram::count`] added, here or in a histogram that this one is added to.
    pub(super) fn uncount(&mut self, value: u64) {
        let count = self.bucket(value);
        *count = count.wrapping_sub(1);
        self.total = self.total.wrapping_sub(1);
    }

    /// The part of [`Histogram::add`] that cannot be taken back.
    pub(super) fn note(&mut self, value: u64) {
        self.max = self.max.max(value);
    }

    fn bucket(&mut self, value: u64) -> &mut u64 {
        let bucket = bucket_of(value);
        let (page, offset) = (bucket / PAGE, bucket % PAGE);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, Vec::new);
        }
        let counts = &mut self.pages[page];
        if counts.is_empty() {
            counts.resize(PAGE, 0);
        }
        &mut counts[offset]
    }

    /// Forgets pages on which nothing is left.
    pub(super) fn trim(&mut self) {
        for counts in &mut self.pages {
            if counts.iter().all(|count| *count == 0) {
                *counts = Vec::new();
            }
        }
        while self.pages.last().is_some_and(Vec::is_empty) {
            self.pages.pop();
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.count_all_of(other);
        self.note(other.max);
    }

    /// The part of [`Histogram::merge`] without the maximum.
    pub(super) fn count_all_of(&mut self, other: &Histogram) {
        if self.pages.len() < other.pages.len() {
            self.pages.resize_with(other.pages.len(), Vec::new);
        }
        for (mine, theirs) in self.pages.iter_mut().zip(&other.pages) {
            if mine.is_empty() {
                mine.clone_from(theirs);
                continue;
            }
            for (count, more) in mine.iter_mut().zip(theirs) {
                *count = count.wrapping_add(*more);
            }
        }
        self.total = self.total.wrapping_add(other.total);
    }

    /// False for what no values can add up to.
    pub(crate) fn is_sound(&self) -> bool {
        let pages = bucket_of(u64::MAX) / PAGE + 1;
        let counts = self.pages.iter().flatten();
        let counted = counts.copied().try_fold(0_u64, u64::checked_add);
        self.pages.len() <= pages
            && self
                .pages
                .iter()
                .all(|page| page.is_empty() || page.len() == PAGE)
            && counted == Some(self.total)
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, exactly; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The smallest value that at least `share` of all values do not exceed (0 < share <= 1), as
    /// the middle of its bucket; `None` if nothing was counted.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = (share * self.total as f64)
            .ceil()
            .clamp(1.0, self.total as f64) as u64;
        Some(self.at_rank(rank))
    }

    /// The value at a rank, 1 being the smallest, as the middle of its bucket; ranks are clamped to
    /// the values that there are.
    pub fn at_rank(&self, rank: u64) -> u64 {
        if rank >= self.total {
            return self.max;
        }
        let mut seen = 0;
        for (value, count) in self.buckets() {
            seen += count;
            if seen >= rank.max(1) {
                return value.min(self.max);
            }
        }
        self.max
    }

    /// The buckets that hold something, in ascending order: middle value and count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pages.iter().enumerate().flat_map(|(page, counts)| {
            counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(move |(offset, count)| (middle_of(page * PAGE + offset), *count))
        })
    }

    /// How many values exceed `threshold` (to bucket resolution).
    pub fn count_above(&self, threshold: u64) -> u64 {
        self.buckets()
            .filter(|(value, _)| *value > threshold)
            .map(|(_, count)| count)
            .sum()
    }
}

fn bucket_of(value: u64) -> usize {
    if value < LINEAR {
        return value as usize;
    }
    let octave = u64::from(63 - value.leading_zeros()); // at least 10
    let shift = octave - 9;
    let within = (value >> shift) - PER_OCTAVE;
    (LINEAR + (octave - 10) * PER_OCTAVE + within) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let octave = (bucket - LINEAR) / PER_OCTAVE + 10;
    let within = (bucket - LINEAR) % PER_OCTAVE;
    let shift = octave - 9;
    let low = (PER_OCTAVE + within) << shift;
    low + ((1 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_bucket_is_within_a_1024th_of_every_value_in_it() {
        let mut value = 1_u64;
        while value < u64::MAX / 3 {
            for v in [value, value + 1, value + value / 3, value * 2 - 1] {
                let middle = middle_of(bucket_of(v));
                assert!(
                    middle.abs_diff(v) as f64 <= v as f64 / 1024.0,
                    "{v} {middle}"
                );
            }
            value *= 2;
        }
        assert!(u64::MAX - middle_of(bucket_of(u64::MAX)) <= u64::MAX / 1024);
    }

    #[test]
    fn small_values_and_the_maximum_are_exact() {
        let mut histogram = Histogram::default();
        for v in [3, 1, 2, 1_000_003] {
            histogram.add(v);
        }
        assert_eq!(histogram.quantile(0.25), Some(1));
        assert_eq!(histogram.quantile(0.5), Some(2));
        assert_eq!(histogram.quantile(1.0), Some(1_000_003));
        assert_eq!(histogram.count_above(2), 2);
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn merging_in_any_order_gives_the_same_histogram() {
        let values = [0, 5, 70_000, 5, 1 << 40];
        let mut whole = Histogram::default();
        values.iter().for_each(|v| whole.add(*v));
        for split in 0..=values.len() {
            let (mut left, mut right) = (Histogram::default(), Histogram::default());
            values[..split].iter().for_each(|v| left.add(*v));
            values[split..].iter().for_each(|v| right.add(*v));
            right.merge(&left);
            assert_eq!(
                whole.buckets().collect::<Vec<_>>(),
                right.buckets().collect::<Vec<_>>()
            );
            assert_eq!(whole.max(), right.max());
        }
    }
}
