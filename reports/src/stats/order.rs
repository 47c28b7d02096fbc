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

#[cfg(test)]
mod tests {
    use super::ranks;

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
