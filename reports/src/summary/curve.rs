//! Points of curves, so that every number in a plot is also in a data file.

use holdback_sim::tally::Histogram;

use crate::numbers::rounded;

const PER_USD: f64 = 1e9;
/// The steps of a decade at which the exceedance curve has its points.
const STEPS: [f64; 6] = [0.7, 0.5, 0.3, 0.2, 0.14, 0.1];

/// The exceedance curve of money: dollars, and the share of values above them, from the share of
/// values above zero down to a single one. Shares fall by about a third from point to point.
pub(super) fn exceedance(histogram: &Histogram) -> Vec<[f64; 2]> {
    let total = histogram.total();
    let above_zero = histogram.count_above(0);
    let mut points = Vec::new();
    if above_zero == 0 {
        return points;
    }
    let share = |count: u64| rounded(count as f64 / total as f64);
    points.push([0.0, share(above_zero)]);
    let mut last = above_zero;
    for above in targets(total) {
        if above < last {
            let usd = histogram.at_rank(total - above) as f64 / PER_USD;
            points.push([rounded(usd), share(above)]);
            last = above;
        }
    }
    points.push([rounded(histogram.max() as f64 / PER_USD), 0.0]);
    points
}

/// How many values to leave above each point, in falling order.
fn targets(total: u64) -> Vec<u64> {
    let mut targets = Vec::new();
    let mut decade = total as f64;
    while decade >= 1.0 {
        targets.extend(STEPS.iter().map(|step| (decade * step) as u64));
        decade /= 10.0;
    }
    targets.retain(|count| *count >= 1);
    targets.dedup();
    targets
}

/// The percentiles 5, 25, 50, 75 and 95 of money, in dollars; `None` without values.
pub(super) fn box_quantiles(histogram: &Histogram) -> Option<[f64; 5]> {
    let mut quantiles = [0.0; 5];
    for (slot, share) in quantiles.iter_mut().zip([0.05, 0.25, 0.5, 0.75, 0.95]) {
        *slot = rounded(histogram.quantile(share)? as f64 / PER_USD);
    }
    Some(quantiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_falls_from_the_share_of_overspent_runs_to_none() {
        let mut histogram = Histogram::default();
        (0..6000).for_each(|_| histogram.add(0));
        (0..4000).for_each(|cents| histogram.add(cents * 1_000_000 + 1));
        let curve = exceedance(&histogram);
        assert_eq!(curve[0], [0.0, 0.4]);
        assert_eq!(curve.last().unwrap()[1], 0.0);
        assert!(
            curve
                .windows(2)
                .all(|w| w[0][0] <= w[1][0] && w[0][1] > w[1][1])
        );
        // A tenth of all runs overspend by more than 3 dollars.
        let tenth = curve.iter().find(|point| point[1] == 0.1).unwrap();
        assert!((tenth[0] - 3.0).abs() < 0.01, "{tenth:?}");
        assert!(exceedance(&Histogram::default()).is_empty());
    }
}
