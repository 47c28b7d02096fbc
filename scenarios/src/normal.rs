//! The inverse of the standard normal distribution.

/// The smallest `z` with `P(Z <= z) >= p` for a standard normal `Z`; minus or plus infinity at 0
/// and 1.
///
/// Wichura's algorithm AS 241 (PPND16), "The Percentage Points of the Normal Distribution", Applied
/// Statistics 37 (1988) 477-484: three rational approximations with a relative error of about
/// 1e-16. Logarithm and root come from `libm`, so the last bit is the same on every platform.
pub(crate) fn inverse_cdf(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(r, &CENTRE_NUMERATOR) / polynomial(r, &CENTRE_DENOMINATOR);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = libm::sqrt(-libm::log(tail));
    let z = if r <= 5.0 {
        polynomial(r - 1.6, &TAIL_NUMERATOR) / polynomial(r - 1.6, &TAIL_DENOMINATOR)
    } else {
        polynomial(r - 5.0, &FAR_NUMERATOR) / polynomial(r - 5.0, &FAR_DENOMINATOR)
    };
    if q < 0.0 { -z } else { z }
}

/// Horner's rule; the coefficient of the constant comes first.
fn polynomial(x: f64, coefficients: &[f64; 8]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const CENTRE_NUMERATOR: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_DENOMINATOR: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_854e3,
];
const TAIL_NUMERATOR: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const TAIL_DENOMINATOR: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_NUMERATOR: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_DENOMINATOR: [f64; 8] = [
    1.0,
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The distribution function by the complementary error function, an independent algorithm.
    fn cdf(z: f64) -> f64 {
        0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
    }

    #[test]
    fn it_inverts_the_distribution_function_from_tail_to_tail() {
        for exponent in 1..60 {
            let p = libm::exp(-f64::from(exponent));
            assert!((cdf(inverse_cdf(p)) / p - 1.0).abs() < 2e-13, "{p}");
        }
        for step in 1..1000 {
            let p = f64::from(step) / 1000.0;
            assert!((cdf(inverse_cdf(p)) - p).abs() < 4e-16, "{p}");
            assert!((inverse_cdf(p) + inverse_cdf(1.0 - p)).abs() < 1e-13, "{p}");
        }
    }

    #[test]
    fn published_points_are_met() {
        // NIST/SEMATECH e-Handbook, table of the standard normal distribution; more digits by AS 241.
        for (p, z) in [
            (0.5, 0.0),
            (0.95, 1.644_853_626_951_472_7),
            (0.975, 1.959_963_984_540_054),
            (0.999, 3.090_232_306_167_813_5),
            (1e-10, -6.361_340_902_404_056),
        ] {
            assert!((inverse_cdf(p) - z).abs() < 1e-14 * (1.0 + z.abs()), "{p}");
        }
        assert_eq!(inverse_cdf(0.0), f64::NEG_INFINITY);
        assert_eq!(inverse_cdf(1.0), f64::INFINITY);
    }
}
