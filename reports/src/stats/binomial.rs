//! The binomial distribution for up to billions of trials.

/// Below this count the logarithm of the factorial is exact enough to be used directly.
const EXACT_FACTORIAL: u64 = 16;
/// Steps of the continued fraction; it needs a few times the square root of the trials.
const MAX_STEPS: u32 = 2_000_000;

/// The probability of exactly `successes` in `trials` at a chance of `p` each.
///
/// Saddle-point expansion: C. Loader, "Fast and Accurate Computation of Binomial Probabilities"
/// (2000). Differences of log-gammas would lose the digits that a billion trials need.
pub fn pmf(successes: u64, trials: u64, p: f64) -> f64 {
    if successes > trials {
        return 0.0;
    }
    let q = 1.0 - p;
    if p <= 0.0 || q <= 0.0 {
        let certain = if p <= 0.0 { 0 } else { trials };
        return if successes == certain { 1.0 } else { 0.0 };
    }
    let n = trials as f64;
    let (k, rest) = (successes as f64, (trials - successes) as f64);
    if successes == 0 {
        return libm::exp(n * libm::log1p(-p));
    }
    if successes == trials {
        return libm::exp(n * libm::log(p));
    }
    let exponent = stirling_error(trials)
        - stirling_error(successes)
        - stirling_error(trials - successes)
        - deviance(k, n * p)
        - deviance(rest, n * q);
    let scale = std::f64::consts::TAU * k * (rest / n);
    libm::exp(exponent) / scale.sqrt()
}

/// The probability of at most `successes` in `trials` at a chance of `p` each.
pub fn cdf(successes: u64, trials: u64, p: f64) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    incomplete_beta(trials - successes, successes + 1, 1.0 - p)
}

/// The smallest count that at least `probability` of the distribution does not exceed.
pub fn quantile(probability: f64, trials: u64, p: f64) -> u64 {
    let (mut below, mut at) = (0, trials);
    while below < at {
        let middle = below + (at - below) / 2;
        if cdf(middle, trials, p) >= probability {
            at = middle;
        } else {
            below = middle + 1;
        }
    }
    at
}

/// The regularised incomplete beta function I_x(a, b) for whole a, b >= 1.
///
/// Continued fraction 26.5.8 of Abramowitz and Stegun by the method of Lentz; its prefactor is a
/// binomial probability.
pub(super) fn incomplete_beta(a: u64, b: u64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let (af, bf) = (a as f64, b as f64);
    if x > (af + 1.0) / (af + bf + 2.0) {
        return 1.0 - beta_tail(b, a, 1.0 - x);
    }
    beta_tail(a, b, x)
}

fn beta_tail(a: u64, b: u64, x: f64) -> f64 {
    let (af, bf) = (a as f64, b as f64);
    pmf(a, a + b, x) * (bf / (af + bf)) * beta_fraction(af, bf, x)
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..MAX_STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// ln n! minus Stirling's formula.
fn stirling_error(n: u64) -> f64 {
    let x = n as f64;
    if n < EXACT_FACTORIAL {
        let factorial = (1..=n).fold(1.0, |product, factor| product * factor as f64);
        let stirling = if n == 0 {
            0.0
        } else {
            (x + 0.5) * libm::log(x) - x
        };
        return libm::log(factorial) - stirling - 0.5 * libm::log(std::f64::consts::TAU);
    }
    let square = x * x;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0) / square) / square) / square) / x
}

/// x ln(x / mean) + mean - x, without cancellation near the mean.
fn deviance(x: f64, mean: f64) -> f64 {
    if (x - mean).abs() >= 0.1 * (x + mean) {
        return x * libm::log(x / mean) + mean - x;
    }
    let v = (x - mean) / (x + mean);
    let mut sum = (x - mean) * v;
    let mut term = 2.0 * x * v;
    for j in 1..1000 {
        term *= v * v;
        let next = sum + term / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values: 40-digit log-gammas and an exact tail sum (mpmath); scipy's own are off in the
    /// seventh digit for a billion trials.
    #[test]
    fn probabilities_agree_with_an_independent_implementation() {
        let close = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 1e-10, "{found} {expected}");
        };
        close(cdf(3, 20, 0.2), 0.41144886195656893);
        close(pmf(500_000_000, 1_000_000_000, 0.5), 2.523132521389377e-05);
        close(cdf(990_000_300, 1_000_000_000, 0.99), 0.53802278048738);
        close(
            cdf(499_950_000, 1_000_000_000, 0.5),
            0.001565572261083583 / 2.0,
        );
        close(
            cdf(499_900_000, 1_000_000_000, 0.5),
            2.540148359754266e-10 / 2.0,
        );
    }

    #[test]
    fn small_distributions_sum_to_one_and_agree_with_pascals_triangle() {
        let mut row = vec![1.0_f64];
        for n in 1..40_u64 {
            let mut next = vec![1.0; row.len() + 1];
            for k in 1..row.len() {
                next[k] = row[k - 1] + row[k];
            }
            row = next;
            let mut sum = 0.0;
            for (k, ways) in row.iter().enumerate() {
                let k = k as u64;
                let exact = ways * 0.3_f64.powi(k as i32) * 0.7_f64.powi((n - k) as i32);
                assert!((pmf(k, n, 0.3) / exact - 1.0).abs() < 1e-12, "{k} of {n}");
                sum += exact;
                assert!((cdf(k, n, 0.3) - sum).abs() < 1e-13, "{k} of {n}");
            }
        }
    }

    #[test]
    fn a_certain_outcome_has_all_the_probability() {
        assert_eq!(pmf(0, 5, 0.0), 1.0);
        assert_eq!(pmf(5, 5, 1.0), 1.0);
        assert_eq!(pmf(4, 5, 1.0), 0.0);
        assert_eq!(pmf(6, 5, 0.5), 0.0);
        assert_eq!(cdf(7, 5, 0.5), 1.0);
    }

    #[test]
    fn the_quantile_is_the_smallest_count_that_reaches_the_probability() {
        for probability in [0.001, 0.025, 0.5, 0.975, 0.999] {
            let count = quantile(probability, 500, 0.99);
            assert!(cdf(count, 500, 0.99) >= probability);
            assert!(cdf(count - 1, 500, 0.99) < probability);
        }
    }
}
