//! The statistics behind the reports, each with its source.
//!
//! Everything here is deterministic to the last bit on every platform: transcendental functions come
//! from `libm`, resampling has a fixed seed, and floating-point sums have a fixed order.

pub mod binomial;
mod normal;
pub mod order;
pub mod paired;
pub mod proportion;
pub mod resample;

use serde::{Deserialize, Serialize};

pub use normal::quantile as normal_quantile;

/// The confidence of every interval in a report.
pub const CONFIDENCE: f64 = 0.95;

/// A confidence interval, in the unit of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Interval {
    /// The lower end.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
}

impl Interval {
    /// The whole line: nothing is known.
    pub const EVERYTHING: Interval = Interval::new(f64::NEG_INFINITY, f64::INFINITY);

    /// The interval from `lo` to `hi`.
    pub const fn new(lo: f64, hi: f64) -> Interval {
        Interval { lo, hi }
    }

    /// Both ends through `f`, which must be increasing.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        Interval::new(f(self.lo), f(self.hi))
    }

    /// Whether both ends are known.
    pub fn is_bounded(self) -> bool {
        self.lo.is_finite() && self.hi.is_finite()
    }

    /// Whether zero lies outside the interval.
    pub fn excludes_zero(self) -> bool {
        self.lo > 0.0 || self.hi < 0.0
    }
}

impl From<[f64; 2]> for Interval {
    fn from([lo, hi]: [f64; 2]) -> Interval {
        Interval { lo, hi }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(interval: Interval) -> [f64; 2] {
        [interval.lo, interval.hi]
    }
}

/// Bisects an increasing function on `[lo, hi]` until the doubles are used up: the largest argument
/// found at which `f` is still below `target`.
fn bisect(mut lo: f64, mut hi: f64, target: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = lo + (hi - lo) / 2.0;
        if middle <= lo || middle >= hi {
            break;
        }
        if f(middle) < target {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    lo
}
