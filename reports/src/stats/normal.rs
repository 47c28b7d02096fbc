//! The standard normal distribution.

use super::bisect;

/// The argument at which the standard normal distribution function is `probability`
/// (0 < probability < 1), by bisection of the complementary error function.
pub fn quantile(probability: f64) -> f64 {
    // The lower half keeps its relative accuracy; the upper half is its mirror image.
    if probability > 0.5 {
        return -quantile(1.0 - probability);
    }
    bisect(-40.0, 0.0, probability, |x| {
        0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
    })
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_agree_with_published_tables() {
        for (probability, expected) in [
            (0.5, 0.0),
            (0.975, 1.959963984540054),
            (0.95, 1.6448536269514722),
            (0.995, 2.5758293035489004),
            (1e-12, -7.034483825301132),
        ] {
            let found: f64 = quantile(probability);
            assert!((found - expected).abs() < 1e-12, "{probability}: {found}");
        }
    }
}
