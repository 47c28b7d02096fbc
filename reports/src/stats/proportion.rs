//! Intervals of one proportion.

use super::{Interval, binomial, bisect, normal_quantile};

/// The score interval of a proportion.
///
/// E. B. Wilson, "Probable inference, the law of succession, and statistical inference" (1927). It
/// stays inside 0..1, needs no correction at 0 or at 1, and its mean coverage is close to the
/// nominal one (R. G. Newcombe, Statistics in Medicine 17 (1998), 857-872, method 3).
/// Without trials nothing is known: 0 to 1.
pub fn wilson(successes: u64, trials: u64, confidence: f64) -> Interval {
    if trials == 0 {
        return Interval::new(0.0, 1.0);
    }
    let n = trials as f64;
    let p = successes as f64 / n;
    let z = normal_quantile(0.5 + confidence / 2.0);
    let square = z * z;
    let middle = p + square / (2.0 * n);
    let arm = z * (p * (1.0 - p) / n + square / (4.0 * n * n)).sqrt();
    let scale = 1.0 + square / n;
    let lo = if successes == 0 {
        0.0
    } else {
        (middle - arm) / scale
    };
    let hi = if successes == trials {
        1.0
    } else {
        (middle + arm) / scale
    };
    Interval::new(lo.max(0.0), hi.min(1.0))
}

/// The exact interval of a proportion: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934). Its
/// coverage is never below `confidence`.
pub fn clopper_pearson(successes: u64, trials: u64, confidence: f64) -> Interval {
    let tail = (1.0 - confidence) / 2.0;
    Interval::new(
        exact_lower(successes, trials, 1.0 - tail),
        exact_upper(successes, trials, 1.0 - tail),
    )
}

/// The one-sided exact lower limit: the proportion is at least this, with `confidence`.
pub fn exact_lower(successes: u64, trials: u64, confidence: f64) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    let tail = 1.0 - confidence;
    if successes == trials {
        return libm::exp(libm::log(tail) / trials as f64);
    }
    // P(X >= successes) grows with the proportion.
    bisect(0.0, 1.0, tail, |p| {
        binomial::incomplete_beta(successes, trials - successes + 1, p)
    })
}

/// The one-sided exact upper limit: the proportion is at most this, with `confidence`.
pub fn exact_upper(successes: u64, trials: u64, confidence: f64) -> f64 {
    1.0 - exact_lower(trials - successes.min(trials), trials, confidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: Interval, lo: f64, hi: f64) {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-11;
        assert!(
            near(found.lo, lo) && near(found.hi, hi),
            "{found:?} {lo} {hi}"
        );
    }

    /// The first four are Newcombe's worked examples (1998), to the digits of statsmodels 0.14.
    #[test]
    fn wilson_intervals_agree_with_published_examples() {
        assert_close(
            wilson(81, 263, 0.95),
            0.2552885198782742,
            0.36620957698280004,
        );
        assert_close(
            wilson(15, 148, 0.95),
            0.06238639953073628,
            0.16048724172330803,
        );
        assert_close(wilson(0, 20, 0.95), 0.0, 0.1611251580528194);
        assert_close(
            wilson(1, 29, 0.95),
            0.006113214292762667,
            0.17175521879320294,
        );
        assert_close(wilson(29, 29, 0.95), 0.8830302015002592, 1.0);
        assert_close(
            wilson(6120, 10000, 0.95),
            0.6024079311406986,
            0.6215060532242699,
        );
        assert_eq!(wilson(0, 0, 0.95), Interval::new(0.0, 1.0));
    }

    /// Reference values: beta quantiles of scipy 1.17.
    #[test]
    fn exact_intervals_agree_with_beta_quantiles() {
        for (k, n, lo, hi) in [
            (10, 100, 0.04900468922148596, 0.17622259774002266),
            (0, 10, 0.0, 0.3084971078187607),
            (148, 263, 0.5004643658805439, 0.6235809710223439),
            (15, 148, 0.057844010083448576, 0.161650490349479),
            (9999, 10000, 0.9994429630020529, 0.9999974682224065),
            (
                123_456_789,
                1_000_000_000,
                0.12343640076269403,
                0.12347717941704354,
            ),
        ] {
            assert_close(clopper_pearson(k, n, 0.95), lo, hi);
        }
        assert_close(clopper_pearson(10, 10, 0.95), 1.0 - 0.3084971078187607, 1.0);
    }

    #[test]
    fn the_rule_of_three_bounds_what_was_never_seen() {
        let upper = exact_upper(0, 1000, 0.95);
        assert!((upper - 3.0 / 1000.0).abs() < 2e-5, "{upper}");
    }
}
