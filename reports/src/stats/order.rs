//! Intervals of quantiles.

use super::binomial;

/// The ranks (1 = smallest) of the two order statistics that enclose the quantile `share` of
/// whatever the `runs` values were drawn from, with at least `confidence`; `None` for an end that so
/// few values cannot bound.
///
/// How many of `runs` values lie below a quantile is binomial, whatever the distribution is:
/// H. A. David and H. N. Nagaraja, "Order Statistics" (3rd ed. 2003), section 7.1.
pub fn ranks(runs: u64, share: f64, confidence: f64) -> (Option<u64>, Option<u64>) {
    if runs == 0 {
        return (None, None);
    }
    let tail = (1.0 - confidence) / 2.0;
    // P(fewer than `lower` values below) <= tail.
    let lower = binomial::quantile(tail, runs, share);
    // P(at least `upper` values below) <= tail.
    let upper = binomial::quantile(1.0 - tail, runs, share) + 1;
    (
        (lower >= 1).then_some(lower),
        (upper <= runs).then_some(upper),
    )
}

/// The fewest values that bound the quantile `share` at both ends.
///
/// Both ends are there once all values on one side of the quantile are less likely than a tail.
pub fn fewest(share: f64, confidence: f64) -> u64 {
    let tail = (1.0 - confidence) / 2.0;
    let rarer = share.min(1.0 - share);
    let about = (libm::log(tail) / libm::log1p(-rarer)).floor().max(1.0) as u64;
    // Rounding may put the estimate one off.
    (about.saturating_sub(1)..about + 3)
        .find(|runs| matches!(ranks(*runs, share, confidence), (Some(_), Some(_))))
        .unwrap_or(about + 3)
}

#[cfg(test)]
mod tests {
    use super::{fewest, ranks};

    #[test]
    fn the_fewest_values_that_bound_a_quantile_do_and_one_fewer_does_not() {
        let bounded = |runs, share| matches!(ranks(runs, share, 0.95), (Some(_), Some(_)));
        for (share, expected) in [(0.5, 6), (0.95, 72), (0.99, 368)] {
            assert_eq!(fewest(share, 0.95), expected);
            assert!(bounded(expected, share) && !bounded(expected - 1, share));
        }
    }

    #[test]
    fn ranks_agree_with_tables_of_the_median() {
        // The well-known ranks 40 and 61 for the median of 100; the others from scipy 1.17.
        assert_eq!(ranks(100, 0.5, 0.95), (Some(40), Some(61)));
        assert_eq!(ranks(1000, 0.99, 0.95), (Some(983), Some(997)));
        assert_eq!(ranks(10000, 0.95, 0.95), (Some(9457), Some(9543)));
    }

    #[test]
    fn too_few_runs_leave_the_upper_end_open() {
        assert_eq!(ranks(100, 0.99, 0.95), (Some(97), None));
        assert_eq!(ranks(1, 0.5, 0.95), (None, None));
        assert_eq!(ranks(0, 0.5, 0.95), (None, None));
    }
}
