//! Two proportions measured on the same runs.

use super::{Interval, binomial, proportion::wilson};

/// Runs by what two policies made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Success under both.
    pub both: u64,
    /// Success here only.
    pub only_here: u64,
    /// Success there only.
    pub only_there: u64,
    /// Success under neither.
    pub neither: u64,
}

impl Table {
    /// All runs.
    pub fn runs(&self) -> u64 {
        self.both + self.only_here + self.only_there + self.neither
    }

    /// Share of successes here minus share of successes there.
    pub fn difference(&self) -> f64 {
        let discordant = self.only_here as f64 - self.only_there as f64;
        discordant / self.runs().max(1) as f64
    }

    /// The correlation of the two outcomes, corrected as method 10 demands.
    fn correlation(&self) -> f64 {
        let [a, b, c, d] =
            [self.both, self.only_here, self.only_there, self.neither].map(|count| count as f64);
        let margins = ((a + b).sqrt() * (c + d).sqrt()) * ((a + c).sqrt() * (b + d).sqrt());
        corrected(a * d - b * c, margins, self.runs())
    }
}

/// The correlation from its numerator and denominator, with method 10's correction for continuity.
fn corrected(product: f64, margins: f64, runs: u64) -> f64 {
    if margins == 0.0 {
        return 0.0;
    }
    let corrected = if product > 0.0 {
        (product - runs as f64 / 2.0).max(0.0)
    } else {
        product
    };
    corrected / margins
}

/// The interval of a difference of paired proportions: square-and-add of Wilson limits.
///
/// R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions
/// based on paired data", Statistics in Medicine 17 (1998), 2635-2650, method 10. Recommended for
/// paired data by Fagerland, Lydersen and Laake, "Recommended tests and confidence intervals for
/// paired binomial proportions", Statistics in Medicine 33 (2014). On common random numbers few runs
/// differ at all; simulated with none to ten percent of them differing, on 200 to 10,000 runs, it
/// covers the true difference in 93 to 100% of studies.
pub fn newcombe(table: &Table, confidence: f64) -> Interval {
    let here = (table.both + table.only_here, table.runs());
    let there = (table.both + table.only_there, table.runs());
    square_and_add(here, there, table.correlation(), confidence)
}

/// [`newcombe`] where only the number of successes under each is known, as (successes, trials), and
/// the correlation of the outcomes from elsewhere: with the correlation of a table it is the interval
/// of that table.
pub fn newcombe_correlated(
    here: (u64, u64),
    there: (u64, u64),
    correlation: f64,
    confidence: f64,
) -> Interval {
    let side = |(successes, trials): (u64, u64)| {
        (successes as f64).sqrt() * (trials.saturating_sub(successes) as f64).sqrt()
    };
    let margins = side(here) * side(there);
    let correlation = corrected(correlation * margins, margins, here.1.min(there.1));
    square_and_add(here, there, correlation, confidence)
}

/// The same square-and-add with a correlation that was estimated otherwise; with 0 it is the
/// interval of independent proportions (Newcombe, Statistics in Medicine 17 (1998), 873-890,
/// method 10). Each proportion is given as (successes, trials).
pub fn square_and_add(
    here: (u64, u64),
    there: (u64, u64),
    correlation: f64,
    confidence: f64,
) -> Interval {
    let rate = |(successes, trials): (u64, u64)| successes as f64 / trials.max(1) as f64;
    let (p, q) = (rate(here), rate(there));
    let p_limits = wilson(here.0, here.1, confidence);
    let q_limits = wilson(there.0, there.1, confidence);
    combine((p, p_limits), (q, q_limits), correlation)
}

/// Limits of `p - q` from the limits of `p` and of `q` and their correlation (MOVER: G. Y. Zou and
/// A. Donner, Statistics in Medicine 27 (2008), 1693-1702).
pub fn combine(here: (f64, Interval), there: (f64, Interval), correlation: f64) -> Interval {
    let (p, p_limits) = here;
    let (q, q_limits) = there;
    let arm = |own: f64, other: f64| {
        (own * own - 2.0 * correlation * own * other + other * other)
            .max(0.0)
            .sqrt()
    };
    Interval::new(
        p - q - arm(p - p_limits.lo, q_limits.hi - q),
        p - q + arm(p_limits.hi - p, q - q_limits.lo),
    )
}

/// Limits of the ratio `p / q` from the limits of independent positive `p` and `q` (MOVER-R: A. Donner
/// and G. Y. Zou, Statistical Methods in Medical Research 21 (2012), 347-359); `None` where the limits
/// of `q` are too wide to bound it.
pub fn combine_ratio(here: (f64, Interval), there: (f64, Interval)) -> Option<Interval> {
    let (p, p_limits) = here;
    let (q, q_limits) = there;
    let end = |p_end: f64, q_end: f64, sign: f64| {
        let divisor = q_end * (2.0 * q - q_end);
        let root = (p * q) * (p * q) - p_end * (2.0 * p - p_end) * divisor;
        (divisor > 0.0).then(|| (p * q + sign * root.max(0.0).sqrt()) / divisor)
    };
    Some(Interval::new(
        end(p_limits.lo, q_limits.hi, -1.0)?,
        end(p_limits.hi, q_limits.lo, 1.0)?,
    ))
}

/// The exact two-sided p-value of McNemar's test: Q. McNemar, Psychometrika 12 (1947); exact,
/// conditional on the discordant runs, which split like fair coins if the policies do not differ.
pub fn mcnemar_exact(only_here: u64, only_there: u64) -> f64 {
    let discordant = only_here + only_there;
    if only_here == only_there {
        return 1.0;
    }
    (2.0 * binomial::cdf(only_here.min(only_there), discordant, 0.5)).min(1.0)
}

/// The mid-p form of [`mcnemar_exact`], which is less conservative (Fagerland, Lydersen and Laake,
/// BMC Medical Research Methodology 13 (2013), 91).
pub fn mcnemar_mid_p(only_here: u64, only_there: u64) -> f64 {
    let discordant = only_here + only_there;
    if only_here == only_there {
        return 1.0;
    }
    let fewer = only_here.min(only_there);
    2.0 * binomial::cdf(fewer, discordant, 0.5) - binomial::pmf(fewer, discordant, 0.5)
}

/// Adjusts p-values for their number: S. Holm, "A simple sequentially rejective multiple test
/// procedure", Scandinavian Journal of Statistics 6 (1979). The chance that any comparison without a
/// true difference is called different stays below the level, whatever their dependence.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]).then(a.cmp(b)));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut running: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        let scaled = p_values[index] * (p_values.len() - rank) as f64;
        running = running.max(scaled).min(1.0);
        adjusted[index] = running;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(both: u64, only_here: u64, only_there: u64, neither: u64) -> Table {
        Table {
            both,
            only_here,
            only_there,
            neither,
        }
    }

    /// The first two are the examples of Fagerland, Lydersen and Laake (2014), the next ones rows of
    /// Newcombe's table (1998); digits recomputed with statsmodels' Wilson limits.
    #[test]
    fn paired_differences_agree_with_published_examples() {
        for (cells, lo, hi) in [
            ((1, 1, 7, 12), -0.506920226686141, -0.025559124164859837),
            ((59, 6, 16, 80), -0.11862119563870999, -0.004625113933050061),
            ((36, 12, 2, 0), 0.05692958400323875, 0.3404276029749408),
            ((20, 12, 2, 16), 0.05615642484174821, 0.32920699540014053),
            ((36, 0, 0, 14), -0.04911689008592333, 0.04911689008592326),
            ((0, 0, 0, 10), -0.27753279986288926, 0.27753279986288926),
            (
                (5200, 80, 910, 3810),
                -0.08894284817026607,
                -0.07704128208979563,
            ),
        ] {
            let found = newcombe(&table(cells.0, cells.1, cells.2, cells.3), 0.95);
            assert!(
                (found.lo - lo).abs() < 1e-11 && (found.hi - hi).abs() < 1e-11,
                "{cells:?}: {found:?}"
            );
        }
    }

    #[test]
    fn an_estimated_correlation_gives_the_interval_of_a_table_that_has_it() {
        for cells in [
            (1, 1, 7, 12),
            (59, 6, 16, 80),
            (5200, 80, 910, 3810),
            (9900, 0, 0, 100),
        ] {
            let table = table(cells.0, cells.1, cells.2, cells.3);
            let [a, b, c, d] = [cells.0, cells.1, cells.2, cells.3].map(|count| count as f64);
            let phi = (a * d - b * c) / ((a + b) * (c + d) * (a + c) * (b + d)).sqrt();
            let here = (cells.0 + cells.1, table.runs());
            let there = (cells.0 + cells.2, table.runs());
            let (exact, found) = (
                newcombe(&table, 0.95),
                newcombe_correlated(here, there, phi, 0.95),
            );
            assert!(
                (found.lo - exact.lo).abs() < 1e-9 && (found.hi - exact.hi).abs() < 1e-9,
                "{cells:?}: {found:?} {exact:?}"
            );
        }
    }

    #[test]
    fn without_correlation_it_is_the_interval_of_independent_proportions() {
        // Newcombe (1998), 873-890, table II, first contrast: 56/70 - 48/80.
        let found = square_and_add((56, 70), (48, 80), 0.0, 0.95);
        assert!((found.lo - 0.0524).abs() < 5e-5 && (found.hi - 0.3339).abs() < 5e-5);
    }

    #[test]
    fn a_ratio_of_certain_numbers_is_certain_and_uncertainty_widens_it() {
        let exact = |value| (value, Interval::new(value, value));
        let found = combine_ratio(exact(3.0), exact(2.0)).unwrap();
        assert!((found.lo - 1.5).abs() < 1e-12 && (found.hi - 1.5).abs() < 1e-12);
        // With one side certain the limits are those of the other.
        let found = combine_ratio((3.0, Interval::new(2.0, 5.0)), exact(2.0)).unwrap();
        assert!((found.lo - 1.0).abs() < 1e-12 && (found.hi - 2.5).abs() < 1e-12);
        let found = combine_ratio(exact(3.0), (2.0, Interval::new(1.5, 2.5))).unwrap();
        assert!((found.lo - 1.2).abs() < 1e-12 && (found.hi - 2.0).abs() < 1e-12);
        assert_eq!(
            combine_ratio(exact(3.0), (2.0, Interval::new(1.0, 5.0))),
            None
        );
    }

    #[test]
    fn mcnemar_agrees_with_published_and_recomputed_values() {
        for (b, c, exact, mid) in [
            (1, 7, 0.0703125, 0.0390625),
            (6, 16, 0.052478790283203125, 0.03468966484069824),
            (0, 3, 0.25, 0.125),
            (25, 3, 2.744048833847046e-05, 1.5236437320709252e-05),
            (110, 40, 9.56282907771787e-09, 6.473733481736752e-09),
        ] {
            assert!((mcnemar_exact(b, c) / exact - 1.0).abs() < 1e-11, "{b} {c}");
            assert!((mcnemar_exact(c, b) / exact - 1.0).abs() < 1e-11, "{c} {b}");
            assert!((mcnemar_mid_p(b, c) / mid - 1.0).abs() < 1e-11, "{b} {c}");
        }
        assert_eq!(mcnemar_exact(0, 0), 1.0);
        assert_eq!(mcnemar_mid_p(5, 5), 1.0);
    }

    #[test]
    fn mcnemar_keeps_its_digits_for_a_billion_discordant_runs() {
        let p = mcnemar_exact(499_950_000, 500_050_000);
        assert!((p / 0.001565572261083583 - 1.0).abs() < 1e-10, "{p}");
        assert!(mcnemar_exact(0, 1_000_000_000) < 1e-300);
    }

    #[test]
    fn holm_agrees_with_the_worked_example() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-15);
        }
        assert!(holm(&[]).is_empty());
    }
}
