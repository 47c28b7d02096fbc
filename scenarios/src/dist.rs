//! Distributions, each sampled from one uniform by the inverse of its distribution function.
//!
//! | name | parameters | inverse distribution function `Q(u)`, `0 <= u < 1` |
//! |---|---|---|
//! | `constant` | value | value |
//! | `uniform` | low, high | low + u (high - low) |
//! | `lognormal` | median, p95 | median exp(s z(u)), s = ln(p95 / median) / z(0.95), z the inverse of the standard normal |
//! | `exponential` | mean | -mean ln(1 - u) |
//! | `pareto` | min, alpha | min (1 - u)^(-1/alpha) (type I) |
//! | `geometric` | mean m | least k >= 0 with 1 - (m / (1 + m))^(k+1) > u |
//! | `poisson` | mean m | least k >= 0 with P(X <= k) > u |
//! | `empirical` | values, weights | least value whose share of the weight, with all smaller ones, exceeds u |
//! | `mixture` | parts, each with a weight | the uniform is split: part i owns an interval as long as its share, and gets u rescaled to it |
//!
//! Parametrisations after Johnson, Kotz, Balakrishnan, *Continuous Univariate Distributions* vol. 1,
//! 2nd ed. (lognormal ch. 14, exponential ch. 19, Pareto ch. 20), and Johnson, Kemp, Kotz,
//! *Univariate Discrete Distributions*, 3rd ed. (Poisson ch. 4, geometric section 5.2); inversion
//! after Devroye, *Non-Uniform Random Variate Generation* (1986), sections II.2 and III.2.
//!
//! `min` and `max` clamp the drawn value: what lies beyond an end becomes that end. The clamps do
//! not change the parameters, so `mean` is the mean before clamping.

use crate::normal;

/// The largest uniform that is used; `1 - u` is then 2^-53, so every quantile is finite.
const LARGEST_UNIFORM: f64 = 1.0 - f64::EPSILON / 2.0;

/// The largest mean of a Poisson distribution.
pub const MAX_POISSON_MEAN: f64 = 100_000.0;

/// Why a set of parameters is no distribution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key}: found {found}, expected {expected}")]
pub struct DistError {
    /// The parameter at fault.
    pub key: &'static str,
    /// What was given.
    pub found: String,
    /// What is allowed.
    pub expected: &'static str,
}

/// A number or a distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// Always the same; needs no luck.
    Fixed(f64),
    /// Drawn anew each time.
    Drawn(Dist),
}

impl Quantity {
    /// Nothing, for what is not given.
    pub const ZERO: Quantity = Quantity::Fixed(0.0);
    /// One, for counts and factors that are not given.
    pub const ONE: Quantity = Quantity::Fixed(1.0);

    /// The value at the uniform `u`.
    pub fn quantile(&self, u: f64) -> f64 {
        match self {
            Quantity::Fixed(value) => *value,
            Quantity::Drawn(dist) => dist.quantile(u),
        }
    }

    /// The value at the uniform `u` as a count: rounded half up, never negative.
    pub fn quantile_count(&self, u: f64) -> u64 {
        count(self.quantile(u))
    }

    /// The value, if it never varies.
    pub fn fixed(&self) -> Option<f64> {
        match self {
            Quantity::Fixed(value) => Some(*value),
            Quantity::Drawn(_) => None,
        }
    }

    /// True if every draw is zero.
    pub fn is_zero(&self) -> bool {
        self.fixed() == Some(0.0)
    }
}

/// A distribution with optional clamps, ready to be sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Dist {
    shape: Shape,
    min: Option<f64>,
    max: Option<f64>,
    sampler: Sampler,
}

/// The kinds of distribution and their parameters; see the table of the module.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Always `value`.
    Constant {
        /// The value, finite.
        value: f64,
    },
    /// Evenly between two ends.
    Uniform {
        /// The lower end, finite.
        low: f64,
        /// The upper end, at least `low`.
        high: f64,
    },
    /// The logarithm is normal.
    Lognormal {
        /// Half of the draws lie below; above 0.
        median: f64,
        /// 95% of the draws lie below; at least `median`.
        p95: f64,
    },
    /// Memoryless waiting time.
    Exponential {
        /// The mean; 0 or more.
        mean: f64,
    },
    /// Pareto type I.
    Pareto {
        /// The smallest value; above 0.
        min: f64,
        /// The tail index; above 0. The mean is infinite up to 1, the variance up to 2.
        alpha: f64,
    },
    /// Failures before the first success: 0, 1, 2 ...
    Geometric {
        /// The mean; 0 or more.
        mean: f64,
    },
    /// Number of independent rare events.
    Poisson {
        /// The mean; 0 up to [`MAX_POISSON_MEAN`].
        mean: f64,
    },
    /// One of the given values.
    Empirical {
        /// The values, at least one.
        values: Vec<f64>,
        /// Their weights, of the same number; equal if `None`.
        weights: Option<Vec<f64>>,
    },
    /// One of the given distributions.
    Mixture {
        /// Weight and distribution, at least one.
        parts: Vec<(f64, Dist)>,
    },
}

/// What is computed once from the parameters.
#[derive(Clone, Debug, PartialEq)]
enum Sampler {
    Constant(f64),
    Uniform {
        low: f64,
        span: f64,
    },
    Lognormal {
        median: f64,
        sigma: f64,
    },
    Exponential {
        mean: f64,
    },
    Pareto {
        min: f64,
        exponent: f64,
    },
    /// `ln_q` is the logarithm of the chance to go on.
    Geometric {
        ln_q: f64,
    },
    /// `upto[i]` is the chance of a value not above `values[i]`; the last one is 1.
    Table {
        values: Vec<f64>,
        upto: Vec<f64>,
    },
    /// Share of the uniform below each part, its own share, and the part.
    Mixture {
        parts: Vec<(f64, f64, Dist)>,
    },
}

impl Dist {
    /// Checks the parameters and prepares the sampling.
    ///
    /// # Errors
    /// The first parameter out of its range.
    pub fn new(shape: Shape, min: Option<f64>, max: Option<f64>) -> Result<Dist, DistError> {
        for (key, bound) in [("min", min), ("max", max)] {
            if let Some(bound) = bound {
                check(key, bound, bound.is_finite(), "a finite number")?;
            }
        }
        if let (Some(low), Some(high)) = (min, max) {
            check("max", high, low <= high, "a number not below `min`")?;
        }
        let sampler = Sampler::new(&shape)?;
        Ok(Dist {
            shape,
            min,
            max,
            sampler,
        })
    }

    /// Always the same value.
    ///
    /// # Errors
    /// If the value is not finite.
    pub fn constant(value: f64) -> Result<Dist, DistError> {
        Dist::new(Shape::Constant { value }, None, None)
    }

    /// The kind and its parameters.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The clamps, `(min, max)`.
    pub fn clamps(&self) -> (Option<f64>, Option<f64>) {
        (self.min, self.max)
    }

    /// The value at the uniform `u`; below 0 is taken as 0, 1 and above as the largest double below
    /// 1. Always finite where the clamps are.
    pub fn quantile(&self, u: f64) -> f64 {
        let mut value = self.sampler.quantile(u.clamp(0.0, LARGEST_UNIFORM));
        if let Some(min) = self.min {
            value = value.max(min);
        }
        if let Some(max) = self.max {
            value = value.min(max);
        }
        value
    }

    /// The value at the uniform `u` as a count: clamped, then rounded half up, never negative.
    pub fn quantile_count(&self, u: f64) -> u64 {
        count(self.quantile(u))
    }

    /// No draw is below this.
    pub fn lowest(&self) -> f64 {
        let least = match &self.sampler {
            Sampler::Mixture { parts } => parts
                .iter()
                .map(|(_, _, dist)| dist.lowest())
                .fold(f64::INFINITY, f64::min),
            sampler => sampler.quantile(0.0),
        };
        let least = self.min.map_or(least, |min| least.max(min));
        self.max.map_or(least, |max| least.min(max))
    }

    /// No draw is above this; infinite where there is no bound.
    pub fn highest(&self) -> f64 {
        let most = match &self.sampler {
            Sampler::Constant(value) => *value,
            Sampler::Uniform { low, span } => low + span,
            Sampler::Lognormal { median, sigma } if *sigma == 0.0 => *median,
            Sampler::Exponential { mean } if *mean == 0.0 => 0.0,
            Sampler::Geometric { ln_q } if *ln_q == f64::NEG_INFINITY => 0.0,
            Sampler::Table { values, .. } if !matches!(self.shape, Shape::Poisson { .. }) => {
                values.last().copied().unwrap_or(0.0)
            }
            Sampler::Mixture { parts } => parts
                .iter()
                .map(|(_, _, dist)| dist.highest())
                .fold(f64::NEG_INFINITY, f64::max),
            _ => f64::INFINITY,
        };
        let most = self.max.map_or(most, |max| most.min(max));
        self.min.map_or(most, |min| most.max(min))
    }
}

impl Sampler {
    fn new(shape: &Shape) -> Result<Sampler, DistError> {
        const FINITE: &str = "a finite number";
        const POSITIVE: &str = "a finite number above 0";
        const NOT_NEGATIVE: &str = "a finite number not below 0";
        Ok(match shape {
            Shape::Constant { value } => {
                check("value", *value, value.is_finite(), FINITE)?;
                Sampler::Constant(*value)
            }
            Shape::Uniform { low, high } => {
                check("low", *low, low.is_finite(), FINITE)?;
                let span = high - low;
                let ok = span.is_finite() && span >= 0.0;
                check("high", *high, ok, "a finite number not below `low`")?;
                Sampler::Uniform { low: *low, span }
            }
            Shape::Lognormal { median, p95 } => {
                check("median", *median, positive(*median), POSITIVE)?;
                let ok = p95.is_finite() && p95 >= median;
                check("p95", *p95, ok, "a finite number not below `median`")?;
                let sigma = libm::log(p95 / median) / normal::inverse_cdf(0.95);
                Sampler::Lognormal {
                    median: *median,
                    sigma,
                }
            }
            Shape::Exponential { mean } => {
                check("mean", *mean, not_negative(*mean), NOT_NEGATIVE)?;
                Sampler::Exponential { mean: *mean }
            }
            Shape::Pareto { min, alpha } => {
                check("min", *min, positive(*min), POSITIVE)?;
                check("alpha", *alpha, positive(*alpha), POSITIVE)?;
                Sampler::Pareto {
                    min: *min,
                    exponent: -1.0 / alpha,
                }
            }
            Shape::Geometric { mean } => {
                check("mean", *mean, not_negative(*mean), NOT_NEGATIVE)?;
                // ln(m / (1 + m)), without cancellation for large means.
                Sampler::Geometric {
                    ln_q: -libm::log1p(1.0 / mean),
                }
            }
            Shape::Poisson { mean } => {
                let ok = not_negative(*mean) && *mean <= MAX_POISSON_MEAN;
                check("mean", *mean, ok, "a number from 0 to 100000")?;
                poisson_table(*mean)
            }
            Shape::Empirical { values, weights } => empirical_table(values, weights.as_deref())?,
            Shape::Mixture { parts } => mixture(parts)?,
        })
    }

    /// `u` lies in [0, 1).
    fn quantile(&self, u: f64) -> f64 {
        match self {
            Sampler::Constant(value) => *value,
            Sampler::Uniform { low, span } => low + u * span,
            Sampler::Lognormal { median, sigma } => {
                if *sigma == 0.0 {
                    return *median;
                }
                median * libm::exp(sigma * normal::inverse_cdf(u))
            }
            Sampler::Exponential { mean } => -mean * libm::log1p(-u),
            Sampler::Pareto { min, exponent } => {
                (min * libm::exp(exponent * libm::log1p(-u))).min(f64::MAX)
            }
            Sampler::Geometric { ln_q } => libm::floor(libm::log1p(-u) / ln_q),
            Sampler::Table { values, upto } => {
                let at = upto.partition_point(|chance| *chance <= u);
                values[at.min(values.len() - 1)]
            }
            Sampler::Mixture { parts } => {
                let at = parts.partition_point(|(below, _, _)| *below <= u);
                let (below, share, dist) = &parts[at.saturating_sub(1)];
                dist.quantile((u - below) / share)
            }
        }
    }
}

/// The distribution function of a Poisson law over every value of more than negligible chance.
///
/// The chances are computed outwards from the mode, relative to it, so nothing underflows where it
/// matters; their sum normalises them.
fn poisson_table(mean: f64) -> Sampler {
    const NEGLIGIBLE: f64 = 1e-20;
    let mode = libm::floor(mean);
    let mut below = Vec::new();
    let (mut value, mut chance) = (mode, 1.0);
    while value > 0.0 && chance > NEGLIGIBLE {
        chance *= value / mean;
        value -= 1.0;
        below.push((value, chance));
    }
    let mut relative: Vec<(f64, f64)> = below.into_iter().rev().collect();
    relative.push((mode, 1.0));
    let (mut value, mut chance) = (mode, 1.0);
    while chance > NEGLIGIBLE {
        value += 1.0;
        chance *= mean / value;
        relative.push((value, chance));
    }
    cumulate(relative)
}

fn empirical_table(values: &[f64], weights: Option<&[f64]>) -> Result<Sampler, DistError> {
    let found = || format!("{} entries", values.len());
    if values.is_empty() {
        return Err(DistError {
            key: "values",
            found: found(),
            expected: "at least one number",
        });
    }
    for value in values {
        check("values", *value, value.is_finite(), "finite numbers")?;
    }
    let mut pairs: Vec<(f64, f64)> = match weights {
        None => values.iter().map(|value| (*value, 1.0)).collect(),
        Some(weights) => {
            if weights.len() != values.len() {
                return Err(DistError {
                    key: "weights",
                    found: format!("{} weights for {}", weights.len(), found()),
                    expected: "one weight for each value",
                });
            }
            check_weights(weights.iter().copied())?;
            values
                .iter()
                .copied()
                .zip(weights.iter().copied())
                .collect()
        }
    };
    pairs.retain(|(_, weight)| *weight > 0.0);
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(cumulate(pairs))
}

/// Turns values (ascending) with weights (positive) into a table of their distribution function.
fn cumulate(pairs: Vec<(f64, f64)>) -> Sampler {
    let total: f64 = pairs.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let mut upto = Vec::with_capacity(pairs.len());
    let mut values = Vec::with_capacity(pairs.len());
    for (value, weight) in pairs {
        sum += weight;
        values.push(value);
        upto.push(sum / total);
    }
    if let Some(last) = upto.last_mut() {
        *last = 1.0;
    }
    Sampler::Table { values, upto }
}

fn mixture(parts: &[(f64, Dist)]) -> Result<Sampler, DistError> {
    if parts.is_empty() {
        return Err(DistError {
            key: "parts",
            found: "no parts".to_owned(),
            expected: "at least one part",
        });
    }
    check_weights(parts.iter().map(|(weight, _)| *weight))?;
    let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let mut below = 0.0;
    let mut split = Vec::with_capacity(parts.len());
    for (weight, dist) in parts.iter().filter(|(weight, _)| *weight > 0.0) {
        let share = weight / total;
        split.push((below, share, dist.clone()));
        below += share;
    }
    Ok(Sampler::Mixture { parts: split })
}

fn check_weights(weights: impl Iterator<Item = f64>) -> Result<(), DistError> {
    let mut total = 0.0;
    for weight in weights {
        check(
            "weights",
            weight,
            not_negative(weight),
            "finite numbers not below 0",
        )?;
        total += weight;
    }
    check("weights", total, positive(total), "a finite sum above 0")
}

fn positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

fn not_negative(x: f64) -> bool {
    x.is_finite() && x >= 0.0
}

fn check(key: &'static str, x: f64, ok: bool, expected: &'static str) -> Result<(), DistError> {
    if ok {
        return Ok(());
    }
    Err(DistError {
        key,
        found: x.to_string(),
        expected,
    })
}

/// Rounds half up to a count; negative values are no count and become 0.
fn count(x: f64) -> u64 {
    libm::floor(x + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dist(shape: Shape) -> Dist {
        Dist::new(shape, None, None).unwrap()
    }

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= 1e-12 * (1.0 + expected.abs()),
            "{found} {expected}"
        );
    }

    /// Evenly spread uniforms, a million of them, so that sums approximate integrals.
    fn mean(dist: &Dist) -> f64 {
        let steps = 1_000_000;
        let at = |step: u32| dist.quantile((f64::from(step) + 0.5) / f64::from(steps));
        (0..steps).map(at).sum::<f64>() / f64::from(steps)
    }

    #[test]
    fn the_parameters_of_continuous_distributions_are_met_exactly() {
        let lognormal = dist(Shape::Lognormal {
            median: 350.0,
            p95: 1200.0,
        });
        close(lognormal.quantile(0.5), 350.0);
        close(lognormal.quantile(0.95), 1200.0);
        let exponential = dist(Shape::Exponential { mean: 4.0 });
        close(exponential.quantile(0.5), 4.0 * std::f64::consts::LN_2);
        close(exponential.quantile(0.0), 0.0);
        let pareto = dist(Shape::Pareto {
            min: 3.0,
            alpha: 1.5,
        });
        close(pareto.quantile(0.0), 3.0);
        close(pareto.quantile(0.875), 12.0);
        let uniform = dist(Shape::Uniform {
            low: -1.0,
            high: 3.0,
        });
        close(uniform.quantile(0.25), 0.0);
    }

    #[test]
    fn quantiles_invert_independent_distribution_functions() {
        use statrs::distribution::{ContinuousCDF, Exp, LogNormal, Pareto};
        let sigma = (1200.0_f64 / 350.0).ln() / 1.644_853_626_951_472_7;
        let lognormal = LogNormal::new(350.0_f64.ln(), sigma).unwrap();
        let exponential = Exp::new(0.25).unwrap();
        let pareto = Pareto::new(3.0, 1.5).unwrap();
        let ours = [
            dist(Shape::Lognormal {
                median: 350.0,
                p95: 1200.0,
            }),
            dist(Shape::Exponential { mean: 4.0 }),
            dist(Shape::Pareto {
                min: 3.0,
                alpha: 1.5,
            }),
        ];
        for step in 1..500 {
            let u = f64::from(step) / 500.0;
            for (ours, cdf) in
                ours.iter()
                    .zip([&|x| lognormal.cdf(x), &|x| exponential.cdf(x), &|x| {
                        pareto.cdf(x)
                    }] as [&dyn Fn(f64) -> f64; 3])
            {
                assert!((cdf(ours.quantile(u)) - u).abs() < 1e-9, "{ours:?} at {u}");
            }
        }
    }

    #[test]
    fn counts_are_drawn_with_the_chances_of_their_laws() {
        use statrs::distribution::{Discrete, DiscreteCDF, Geometric, Poisson};
        for mean in [0.3, 2.5, 40.0, 900.0] {
            let poisson = dist(Shape::Poisson { mean });
            let geometric = dist(Shape::Geometric { mean });
            let exact_poisson = Poisson::new(mean).unwrap();
            // statrs counts trials, from 1; here failures are counted, from 0.
            let exact_geometric = Geometric::new(1.0 / (1.0 + mean)).unwrap();
            for step in 0..200 {
                let u = (f64::from(step) + 0.5) / 200.0;
                let k = poisson.quantile(u) as u64;
                let upto = exact_poisson.cdf(k);
                assert!(
                    upto >= u - 1e-9 && upto - exact_poisson.pmf(k) <= u + 1e-9,
                    "{mean} {u}"
                );
                let k = geometric.quantile(u) as u64 + 1;
                let upto = exact_geometric.cdf(k);
                let below = upto - exact_geometric.pmf(k);
                assert!(upto >= u - 1e-9 && below <= u + 1e-9, "{mean} {u}");
            }
        }
    }

    #[test]
    fn means_are_what_they_are_called() {
        for (shape, expected, tolerance) in [
            (Shape::Exponential { mean: 4.0 }, 4.0, 1e-4),
            (Shape::Geometric { mean: 2.5 }, 2.5, 1e-4),
            (Shape::Poisson { mean: 3.6 }, 3.6, 1e-4),
            (
                Shape::Uniform {
                    low: 1.0,
                    high: 2.0,
                },
                1.5,
                1e-9,
            ),
        ] {
            let found = mean(&dist(shape.clone()));
            assert!((found - expected).abs() < tolerance, "{shape:?} {found}");
        }
    }

    #[test]
    fn an_empirical_law_gives_each_value_its_weight() {
        let law = dist(Shape::Empirical {
            values: vec![5.0, 1.0, 9.0],
            weights: Some(vec![1.0, 2.0, 1.0]),
        });
        for (u, value) in [
            (0.0, 1.0),
            (0.49, 1.0),
            (0.5, 5.0),
            (0.74, 5.0),
            (0.75, 9.0),
            (1.0, 9.0),
        ] {
            assert_eq!(law.quantile(u), value, "{u}");
        }
    }

    #[test]
    fn a_mixture_hands_each_part_its_share_of_the_uniform() {
        let law = dist(Shape::Mixture {
            parts: vec![
                (
                    3.0,
                    dist(Shape::Uniform {
                        low: 0.0,
                        high: 1.0,
                    }),
                ),
                (0.0, dist(Shape::Constant { value: 7.0 })),
                (
                    1.0,
                    dist(Shape::Uniform {
                        low: 10.0,
                        high: 11.0,
                    }),
                ),
            ],
        });
        close(law.quantile(0.375), 0.5);
        close(law.quantile(0.75), 10.0);
        close(law.quantile(0.875), 10.5);
        assert_eq!((law.lowest(), law.highest()), (0.0, 11.0));
        close(mean(&law), 0.75 * 0.5 + 0.25 * 10.5);
    }

    #[test]
    fn counts_are_rounded_half_up_after_clamping() {
        let law = Dist::new(
            Shape::Uniform {
                low: 0.0,
                high: 10.0,
            },
            Some(1.5),
            Some(3.0),
        )
        .unwrap();
        assert_eq!(law.quantile_count(0.0), 2);
        assert_eq!(law.quantile_count(0.249), 2);
        assert_eq!(law.quantile_count(0.251), 3);
        assert_eq!(law.quantile_count(0.9), 3);
        assert_eq!(Quantity::Fixed(2.5).quantile_count(0.1), 3);
        assert_eq!(Quantity::Fixed(0.49).quantile_count(0.1), 0);
    }

    #[test]
    fn every_uniform_gives_a_finite_value() {
        let laws = [
            dist(Shape::Lognormal {
                median: 1.0,
                p95: 5.0,
            }),
            dist(Shape::Exponential { mean: 1.0 }),
            dist(Shape::Pareto {
                min: 1.0,
                alpha: 0.01,
            }),
            dist(Shape::Geometric { mean: 1e9 }),
            dist(Shape::Geometric { mean: 0.0 }),
            dist(Shape::Poisson { mean: 0.0 }),
            dist(Shape::Poisson { mean: 100_000.0 }),
            dist(Shape::Lognormal {
                median: 2.0,
                p95: 2.0,
            }),
        ];
        for law in &laws {
            for u in [0.0, 1e-300, 0.5, 1.0 - f64::EPSILON, 1.0, 2.0, -1.0] {
                let value = law.quantile(u);
                assert!(
                    value.is_finite() && value >= law.lowest(),
                    "{law:?} at {u}: {value}"
                );
            }
        }
    }

    #[test]
    fn impossible_parameters_are_named() {
        for (shape, key) in [
            (
                Shape::Lognormal {
                    median: 0.0,
                    p95: 1.0,
                },
                "median",
            ),
            (
                Shape::Lognormal {
                    median: 2.0,
                    p95: 1.0,
                },
                "p95",
            ),
            (
                Shape::Uniform {
                    low: 2.0,
                    high: 1.0,
                },
                "high",
            ),
            (Shape::Exponential { mean: -1.0 }, "mean"),
            (Shape::Exponential { mean: f64::NAN }, "mean"),
            (
                Shape::Pareto {
                    min: 0.0,
                    alpha: 1.0,
                },
                "min",
            ),
            (
                Shape::Pareto {
                    min: 1.0,
                    alpha: 0.0,
                },
                "alpha",
            ),
            (Shape::Poisson { mean: 1e6 }, "mean"),
            (
                Shape::Empirical {
                    values: vec![],
                    weights: None,
                },
                "values",
            ),
            (
                Shape::Empirical {
                    values: vec![1.0],
                    weights: Some(vec![]),
                },
                "weights",
            ),
            (
                Shape::Empirical {
                    values: vec![1.0],
                    weights: Some(vec![0.0]),
                },
                "weights",
            ),
            (Shape::Mixture { parts: vec![] }, "parts"),
        ] {
            assert_eq!(Dist::new(shape, None, None).unwrap_err().key, key);
        }
        let crossed = Dist::new(Shape::Constant { value: 1.0 }, Some(2.0), Some(1.0));
        assert_eq!(crossed.unwrap_err().key, "max");
    }
}
