//! Axes: from values to positions, with ticks at round numbers.

/// Maps values to positions on a line.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    lo: f64,
    hi: f64,
    log: bool,
    /// The positions of `lo` and `hi`.
    from: f64,
    to: f64,
}

impl Axis {
    /// A linear axis that holds all of `lo..=hi`.
    pub(super) fn linear(lo: f64, hi: f64, from: f64, to: f64) -> Axis {
        let hi = if hi > lo { hi } else { lo + 1.0 };
        Axis {
            lo,
            hi,
            log: false,
            from,
            to,
        }
    }

    /// A logarithmic axis; `lo` must be positive.
    pub(super) fn log(lo: f64, hi: f64, from: f64, to: f64) -> Axis {
        let lo = lo.max(f64::MIN_POSITIVE);
        let hi = if hi > lo { hi } else { lo * 10.0 };
        Axis {
            lo,
            hi,
            log: true,
            from,
            to,
        }
    }

    /// Whether equal steps are equal factors.
    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// The position of a value, kept inside the axis.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.lo, self.hi);
        let share = if self.log {
            libm::log10(value / self.lo) / libm::log10(self.hi / self.lo)
        } else {
            (value - self.lo) / (self.hi - self.lo)
        };
        self.from + share * (self.to - self.from)
    }

    /// About `most` round values on the axis.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log {
            self.decades(most)
        } else {
            self.steps(most)
        }
    }

    fn steps(&self, most: usize) -> Vec<f64> {
        let step = round_step((self.hi - self.lo) / most.max(1) as f64);
        let first = (self.lo / step - 1e-9).ceil() as i64;
        let last = (self.hi / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    fn decades(&self, most: usize) -> Vec<f64> {
        let first = (libm::log10(self.lo) - 1e-9).floor() as i32;
        let last = (libm::log10(self.hi) + 1e-9).floor() as i32;
        let within = |value: &f64| *value >= self.lo * 0.999_999 && *value <= self.hi * 1.000_001;
        let fine: Vec<f64> = (first..=last)
            .flat_map(|exponent| [1.0, 2.0, 5.0].map(|factor| factor * power_of_ten(exponent)))
            .filter(within)
            .collect();
        if fine.len() <= most {
            return fine;
        }
        let decades: Vec<f64> = (first..=last).map(power_of_ten).filter(within).collect();
        let stride = decades.len().div_ceil(most.max(1)).max(1);
        decades.into_iter().step_by(stride).collect()
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
pub(super) fn round_step(step: f64) -> f64 {
    if step <= 0.0 || !step.is_finite() {
        return 1.0;
    }
    let decade = power_of_ten(libm::log10(step).floor() as i32);
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|rounded| *rounded >= step * (1.0 - 1e-9))
        .unwrap_or(10.0 * decade)
}

fn power_of_ten(exponent: i32) -> f64 {
    // Parsing gives the nearest double, on every platform.
    format!("1e{exponent}").parse().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::linear(0.0, 0.37, 0.0, 100.0);
        assert_eq!(axis.ticks(5).len(), 4);
        assert_eq!(round_step(0.074), 0.1);
        let log = Axis::log(1e-4, 1.0, 0.0, 100.0);
        assert_eq!(log.ticks(6), [1e-4, 1e-3, 1e-2, 0.1, 1.0]);
        assert_eq!(log.at(1e-2), 50.0);
        assert_eq!(Axis::log(3.0, 30.0, 0.0, 100.0).ticks(6), [5.0, 10.0, 20.0]);
    }

    #[test]
    fn an_axis_without_extent_still_places_values() {
        assert!(Axis::linear(3.0, 3.0, 0.0, 10.0).at(3.0).is_finite());
        assert!(Axis::log(0.0, 0.0, 0.0, 10.0).at(0.0).is_finite());
    }
}
