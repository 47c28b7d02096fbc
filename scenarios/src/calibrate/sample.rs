//! Many observations in little memory.

use std::collections::BTreeMap;

/// Counts of whole numbers. Above 2,048 a number is kept to eleven significant bits (relative error at
/// most 1/2048), so memory is bounded however much is observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    counts: BTreeMap<u64, u64>,
    number: u64,
    sum: u128,
}

impl Sample {
    /// Adds an observation.
    pub fn add(&mut self, value: u64) {
        const BITS: u32 = 11;
        let drop = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
        let half = (1 << drop) >> 1;
        let kept = (value.saturating_add(half) >> drop) << drop;
        *self.counts.entry(kept).or_default() += 1;
        self.number += 1;
        self.sum += u128::from(value);
    }

    /// Adds the observations of another sample.
    pub fn merge(&mut self, other: &Sample) {
        for (value, count) in &other.counts {
            *self.counts.entry(*value).or_default() += count;
        }
        self.number += other.number;
        self.sum += other.sum;
    }

    /// How many observations there are.
    pub fn len(&self) -> u64 {
        self.number
    }

    /// The exact sum and how many observations there are.
    pub(super) fn sums(&self) -> (u128, u64) {
        (self.sum, self.number)
    }

    /// True without any observation.
    pub fn is_empty(&self) -> bool {
        self.number == 0
    }

    /// The exact mean; 0 without observations.
    pub fn mean(&self) -> f64 {
        if self.number == 0 {
            return 0.0;
        }
        self.sum as f64 / self.number as f64
    }

    /// Values in ascending order with how often each was observed.
    pub(super) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().map(|(value, count)| (*value, *count))
    }

    /// The observed law.
    pub fn law(&self) -> Law {
        let pairs = self.counts.iter();
        Law::new(
            pairs
                .map(|(value, count)| (*value as f64, *count as f64))
                .collect(),
        )
    }
}

/// A discrete law: values in ascending order with their chances.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    /// Each value with the chance of a value not above it; the last chance is 1.
    upto: Vec<(f64, f64)>,
}

impl Law {
    /// Values in ascending order with positive weights.
    fn new(pairs: Vec<(f64, f64)>) -> Law {
        let total: f64 = pairs.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let mut upto: Vec<(f64, f64)> = Vec::with_capacity(pairs.len());
        for (value, weight) in pairs {
            sum += weight / total;
            match upto.last_mut() {
                Some((last, share)) if *last == value => *share = sum,
                _ => upto.push((value, sum)),
            }
        }
        if let Some((_, share)) = upto.last_mut() {
            *share = 1.0;
        }
        Law { upto }
    }

    /// The value at the uniform `u`; 0 without values.
    pub fn quantile(&self, u: f64) -> f64 {
        let at = self.upto.partition_point(|(_, share)| *share <= u);
        let at = at.min(self.upto.len().saturating_sub(1));
        self.upto.get(at).map_or(0.0, |(value, _)| *value)
    }

    /// Values with the chance of a value not above them.
    pub fn steps(&self) -> &[(f64, f64)] {
        &self.upto
    }

    /// Values with their own chances.
    pub fn shares(&self) -> impl Iterator<Item = (f64, f64)> {
        let mut below = 0.0;
        self.upto.iter().map(move |(value, share)| {
            let own = share - below;
            below = *share;
            (*value, own)
        })
    }

    /// The mean of the part of the law between two uniforms.
    pub fn mean_between(&self, from: f64, to: f64) -> f64 {
        let mut below = 0.0;
        let mut sum = 0.0;
        for (value, share) in &self.upto {
            let overlap = share.min(to) - f64::max(below, from);
            if overlap > 0.0 {
                sum += value * overlap;
            }
            below = *share;
        }
        sum / (to - from)
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.mean_between(0.0, 1.0)
    }

    /// The smallest and the largest value.
    pub fn ends(&self) -> (f64, f64) {
        let first = self.upto.first().map_or(0.0, |(value, _)| *value);
        let last = self.upto.last().map_or(0.0, |(value, _)| *value);
        (first, last)
    }

    /// The law of the values above 0 and the chance of 0.
    pub fn without_zeros(&self) -> (Law, f64) {
        let zeros = match self.upto.first() {
            Some((value, share)) if *value == 0.0 => *share,
            _ => 0.0,
        };
        let positive = self.shares().filter(|(value, _)| *value > 0.0).collect();
        (Law::new(positive), zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[u64]) -> Sample {
        let mut sample = Sample::default();
        values.iter().for_each(|value| sample.add(*value));
        sample
    }

    #[test]
    fn large_numbers_are_kept_to_eleven_bits_and_the_mean_exactly() {
        let mut sample = Sample::default();
        for value in 0..100_000 {
            sample.add(value * 37);
        }
        assert!(sample.counts.len() < 16_000);
        assert_eq!(sample.mean(), 37.0 * 99_999.0 / 2.0);
        let p99 = sample.law().quantile(0.99);
        assert!(
            (p99 / (37.0 * 99_000.0) - 1.0).abs() < 1.0 / 1024.0,
            "{p99}"
        );
    }

    #[test]
    fn the_law_of_a_sample_is_what_was_observed() {
        let all = sample(&[2, 2, 7, 9]);
        let shares: Vec<_> = all.law().shares().collect();
        assert_eq!(shares, [(2.0, 0.5), (7.0, 0.25), (9.0, 0.25)]);
        assert_eq!(all.law().mean(), 5.0);
        assert_eq!(all.law().mean_between(0.5, 1.0), 8.0);
    }
}
