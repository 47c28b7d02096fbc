//! The distribution of a file that stands for an observed law.

use super::sample::Law;
use crate::dist::{Dist, Quantity, Shape};

/// A quantity fitted to observations, with how well it fits.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The quantity as the file has it, in the unit of the observations.
    pub quantity: Quantity,
    /// The observed law.
    pub law: Law,
    /// How many observations there are.
    pub number: u64,
    /// Kolmogorov-Smirnov distance: the largest difference of the distribution functions, 0 to 1.
    pub ks: f64,
    /// Wasserstein distance over the observed mean: how far a draw must be moved, on average.
    pub moved: f64,
}

/// Beyond these a family does not stand for the data; small samples get the distance that chance
/// alone would explain (Kolmogorov's 95% point, 1.36 / sqrt(n)).
const MOST_KS: f64 = 0.03;
const MOST_MOVED: f64 = 0.06;

/// Counts of at most so many values stand as recorded. A family hardly moves for rare large batches, and
/// one call in twenty may be theirs.
const MOST_LISTED: usize = 16;

impl Fit {
    /// The values themselves where they are few counts, else the nearest family if it is near enough, else
    /// the values again. Families of counts are tried only for what is counted in ones (`unit` 1).
    pub fn of(law: Law, number: u64, unit: f64) -> Fit {
        let chance = 1.0 / (number.max(1) as f64).sqrt();
        let near = |fit: &Fit| {
            fit.ks <= f64::max(MOST_KS, 1.36 * chance)
                && fit.moved <= f64::max(MOST_MOVED, 0.5 * chance)
        };
        let (low, high) = law.ends();
        if low == high {
            return Fit::judged(Quantity::Fixed(low), law, number);
        }
        if unit == 1.0 && law.steps().len() <= MOST_LISTED {
            return Fit::judged(empirical(&law), law, number);
        }
        let mut best: Option<Fit> = None;
        for shape in families(&law, unit == 1.0) {
            let clamps = match shape {
                Shape::Mixture { .. } => (None, Some(high)),
                _ => (Some(low), Some(high)),
            };
            let Ok(dist) = Dist::new(shape, clamps.0.filter(|low| *low > 0.0), clamps.1) else {
                continue;
            };
            let fit = Fit::judged(Quantity::Drawn(dist), law.clone(), number);
            if near(&fit) && best.as_ref().is_none_or(|best| fit.ks < best.ks) {
                best = Some(fit);
            }
        }
        best.unwrap_or_else(|| Fit::judged(empirical(&law), law, number))
    }

    fn judged(quantity: Quantity, law: Law, number: u64) -> Fit {
        let ks = kolmogorov(&quantity, &law);
        let moved = wasserstein(&quantity, &law);
        Fit {
            quantity,
            law,
            number,
            ks,
            moved,
        }
    }

    /// The family's name.
    pub fn family(&self) -> &'static str {
        match &self.quantity {
            Quantity::Fixed(_) => "constant",
            Quantity::Drawn(dist) => match dist.shape() {
                Shape::Constant { .. } => "constant",
                Shape::Uniform { .. } => "uniform",
                Shape::Lognormal { .. } => "lognormal",
                Shape::Exponential { .. } => "exponential",
                Shape::Pareto { .. } => "pareto",
                Shape::Geometric { .. } => "geometric",
                Shape::Poisson { .. } => "poisson",
                Shape::Empirical { .. } => "empirical",
                Shape::Mixture { .. } => "zero or lognormal",
            },
        }
    }

    /// Observed and fitted value at a uniform.
    pub fn at(&self, u: f64) -> (f64, f64) {
        (self.law.quantile(u), self.quantity.quantile_count(u) as f64)
    }
}

/// The families that could stand for a law, parameters rounded as a file shows them.
fn families(law: &Law, is_count: bool) -> Vec<Shape> {
    let mean = rounded(law.mean());
    let mut shapes = Vec::new();
    let (positive, zeros) = law.without_zeros();
    if zeros == 0.0 {
        shapes.extend(lognormals(law));
    } else if zeros < 1.0 {
        shapes.extend(lognormals(&positive).into_iter().filter_map(|shape| {
            let (low, high) = positive.ends();
            let zero = Dist::constant(0.0).ok()?;
            let share = rounded(zeros);
            let rest = Dist::new(shape, Some(low), Some(high)).ok()?;
            let parts = vec![(share, zero), (rounded(1.0 - share), rest)];
            Some(Shape::Mixture { parts })
        }));
    }
    shapes.push(Shape::Exponential { mean });
    if is_count {
        shapes.push(Shape::Geometric { mean });
    }
    if is_count && mean <= 200.0 {
        shapes.push(Shape::Poisson { mean });
    }
    shapes
}

/// Through the median and the 95th percentile, and by the moments of the logarithm.
fn lognormals(law: &Law) -> Vec<Shape> {
    let (mut log_mean, mut square) = (0.0, 0.0);
    for (value, share) in law.shares() {
        let log = libm::log(value.max(0.5));
        log_mean += share * log;
        square += share * log * log;
    }
    let sigma = f64::max(square - log_mean * log_mean, 0.0).sqrt();
    const Z95: f64 = 1.644_853_626_951_472_7;
    let pairs = [
        (law.quantile(0.5), law.quantile(0.95)),
        (libm::exp(log_mean), libm::exp(log_mean + Z95 * sigma)),
    ];
    pairs
        .into_iter()
        .map(|(median, p95)| Shape::Lognormal {
            median: rounded(median),
            p95: rounded(p95).max(rounded(median)),
        })
        .collect()
}

/// The law itself: every value where they are few, else means of slices of it, thinner in the upper
/// tail, where the money is.
pub(super) fn empirical(law: &Law) -> Quantity {
    const FEW: usize = 60;
    let (low, high) = law.ends();
    if low == high {
        return Quantity::Fixed(low);
    }
    let (values, weights): (Vec<f64>, Vec<f64>) = if law.steps().len() <= FEW {
        law.shares()
            .map(|(value, share)| (value, (share * 1e5).round().max(1.0)))
            .unzip()
    } else {
        slices(law).into_iter().unzip()
    };
    let shape = Shape::Empirical {
        values,
        weights: Some(weights),
    };
    Dist::new(shape, None, None).map_or(Quantity::Fixed(law.mean()), Quantity::Drawn)
}

/// 95 slices of a hundredth and 25 of a five-hundredth.
fn slices(law: &Law) -> Vec<(f64, f64)> {
    let bulk = (0..95).map(|at| (f64::from(at) / 100.0, f64::from(at + 1) / 100.0, 5.0));
    let tail = (475..500).map(|at| (f64::from(at) / 500.0, f64::from(at + 1) / 500.0, 1.0));
    let mut slices: Vec<(f64, f64)> = Vec::new();
    for (from, to, weight) in bulk.chain(tail) {
        let value = law.mean_between(from, to).round();
        match slices.last_mut() {
            Some((last, sum)) if *last == value => *sum += weight,
            _ => slices.push((value, weight)),
        }
    }
    slices
}

/// Four significant digits, as a file shows them.
pub(super) fn rounded(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    format!("{x:.3e}").parse().unwrap_or(x)
}

/// The largest difference of the distribution functions, at the observed values and just below them.
fn kolmogorov(quantity: &Quantity, law: &Law) -> f64 {
    const MOST_POINTS: usize = 400;
    let steps = law.steps();
    let stride = steps.len().div_ceil(MOST_POINTS).max(1);
    let mut most: f64 = 0.0;
    for (at, (value, share)) in steps.iter().enumerate() {
        if at % stride != 0 && at + 1 != steps.len() {
            continue;
        }
        let below = if at == 0 { 0.0 } else { steps[at - 1].1 };
        most = most.max((share_upto(quantity, *value) - share).abs());
        if *value >= 1.0 {
            most = most.max((share_upto(quantity, value - 1.0) - below).abs());
        }
    }
    most
}

/// The chance of a count not above `value`, from the inverse by bisection.
fn share_upto(quantity: &Quantity, value: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    if quantity.quantile_count(high) as f64 <= value {
        return 1.0;
    }
    if quantity.quantile_count(low) as f64 > value {
        return 0.0;
    }
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        if quantity.quantile_count(middle) as f64 <= value {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The mean distance of equal quantiles, over the observed mean.
fn wasserstein(quantity: &Quantity, law: &Law) -> f64 {
    const POINTS: u32 = 1000;
    let sum: f64 = (0..POINTS)
        .map(|at| (f64::from(at) + 0.5) / f64::from(POINTS))
        .map(|u| (quantity.quantile_count(u) as f64 - law.quantile(u)).abs())
        .sum();
    let mean = law.mean();
    if mean == 0.0 {
        return sum / f64::from(POINTS);
    }
    sum / f64::from(POINTS) / mean
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::*;

    /// Draws of a quantity at evenly spread uniforms.
    fn drawn(shape: Shape, number: u32) -> Sample {
        let dist = Dist::new(shape, None, None).unwrap();
        let mut sample = Sample::default();
        for at in 0..number {
            sample.add(dist.quantile_count((f64::from(at) + 0.5) / f64::from(number)));
        }
        sample
    }

    fn fit(sample: &Sample) -> Fit {
        Fit::of(sample.law(), sample.len(), 1.0)
    }

    #[test]
    fn draws_of_a_family_are_fitted_by_it_with_its_parameters() {
        let lognormal = fit(&drawn(
            Shape::Lognormal {
                median: 350.0,
                p95: 1200.0,
            },
            5000,
        ));
        assert_eq!(lognormal.family(), "lognormal");
        assert!(
            lognormal.ks < 0.01 && lognormal.moved < 0.02,
            "{lognormal:?}"
        );
        let (data, fitted) = lognormal.at(0.9);
        assert!((data / fitted - 1.0).abs() < 0.03);
        let geometric = fit(&drawn(Shape::Geometric { mean: 2.5 }, 5000));
        assert_eq!(geometric.family(), "geometric");
        assert!(geometric.ks < 0.01);
        let poisson = fit(&drawn(Shape::Poisson { mean: 6.0 }, 5000));
        assert_eq!(poisson.family(), "poisson");
    }

    #[test]
    fn what_no_family_fits_stays_empirical_and_bounded() {
        let mut sample = Sample::default();
        for at in 0..4000 {
            sample.add(if at % 2 == 0 { 10 + at % 7 } else { 5000 + at });
        }
        let fit = fit(&sample);
        assert_eq!(fit.family(), "empirical");
        assert!(
            fit.ks < 0.02 && fit.moved < 0.01,
            "{} {}",
            fit.ks,
            fit.moved
        );
        let Quantity::Drawn(dist) = &fit.quantity else {
            panic!("drawn");
        };
        let Shape::Empirical { values, .. } = dist.shape() else {
            panic!("empirical");
        };
        assert!(values.len() <= 120);
    }

    #[test]
    fn many_zeros_beside_a_lognormal_are_a_mixture() {
        let mut sample = drawn(
            Shape::Lognormal {
                median: 104.0,
                p95: 800.0,
            },
            1000,
        );
        (0..9000).for_each(|_| sample.add(0));
        let fit = fit(&sample);
        assert_eq!(fit.family(), "zero or lognormal");
        assert!((share_upto(&fit.quantity, 0.0) - 0.9).abs() < 0.01);
    }

    #[test]
    fn one_value_is_a_number() {
        let mut sample = Sample::default();
        (0..50).for_each(|_| sample.add(3));
        assert_eq!(fit(&sample).quantity, Quantity::Fixed(3.0));
        assert_eq!(fit(&sample).ks, 0.0);
    }

    #[test]
    fn a_wrong_quantity_is_far() {
        let mut sample = Sample::default();
        (0..100).for_each(|_| sample.add(10));
        let far = Fit::judged(Quantity::Fixed(30.0), sample.law(), 100);
        assert_eq!((far.ks, far.moved), (1.0, 2.0));
    }
}
