//! Gates: what must not change, or must hold, for a candidate to pass.

use serde::Serialize;

use crate::measure::{Measure, Unit};
use crate::numbers::fixed;

/// What a gate compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compares {
    /// How much lower the candidate is than the baseline.
    Drop,
    /// How much higher the candidate is than the baseline.
    Increase,
    /// The candidate alone, from below.
    AtLeast,
    /// The candidate alone, from above.
    AtMost,
}

/// The unit of a gate's threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The measure's own unit; a total counts as a mean a run.
    Own,
    /// Percentage points of a share.
    Points,
    /// Percent of the baseline.
    Percent,
}

/// A threshold on a measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// The name, as in a study's `[gates]` table.
    pub name: String,
    /// The measure.
    pub measure: Measure,
    /// What is compared with the threshold.
    pub compares: Compares,
    /// The unit of the threshold.
    pub scale: Scale,
    /// The threshold, in that unit.
    pub threshold: f64,
}

/// Why a gate cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No direction in the name.
    #[error(
        "gate `{0}` does not say what it limits: expected `<measure>_drop_pp`, `_increase_pp`, \
         `_drop_pct`, `_increase_pct`, `_increase_usd`, `_at_least` or `_at_most`, such as \
         `answered_drop_pp`"
    )]
    NoDirection(String),
    /// No such measure.
    #[error("gate `{gate}` names no measure: found `{found}`, the nearest are {nearest}")]
    UnknownMeasure {
        /// The gate.
        gate: String,
        /// What stands for the measure.
        found: String,
        /// The nearest names.
        nearest: String,
    },
    /// The unit does not fit the measure.
    #[error("gate `{gate}` has a unit that `{measure}` does not: expected {expected}")]
    WrongUnit {
        /// The gate.
        gate: String,
        /// The measure.
        measure: &'static str,
        /// The units that fit.
        expected: &'static str,
    },
    /// A threshold that cannot be.
    #[error("gate `{gate}` has the threshold {found}: expected {expected}")]
    Threshold {
        /// The gate.
        gate: String,
        /// The threshold.
        found: String,
        /// What fits.
        expected: &'static str,
    },
    /// A measure without an interval.
    #[error(
        "gate `{gate}` cannot be decided: `{measure}` is a single extreme and has no interval; \
         gate on `overspend_p99_usd` or `overspend_mean_usd` instead"
    )]
    NoInterval {
        /// The gate.
        gate: String,
        /// The measure.
        measure: &'static str,
    },
    /// The measure means nothing for a policy.
    #[error(
        "gate `{gate}`: `{measure}` does not apply to policy `{policy}` in scenario `{scenario}`{why}"
    )]
    NotApplicable {
        /// The gate.
        gate: String,
        /// The measure.
        measure: &'static str,
        /// The policy.
        policy: String,
        /// The scenario.
        scenario: String,
        /// The reason, if it is known, with its punctuation.
        why: String,
    },
    /// The study lacks a policy.
    #[error("scenario `{scenario}` has no policy `{policy}`")]
    NoPolicy {
        /// The scenario.
        scenario: String,
        /// The policy.
        policy: String,
    },
}

/// Suffixes of measure names that a gate may leave out, by the unit that it states.
const COMPLETIONS: [(&str, &[&str]); 4] = [
    ("pp", &["_rate", ""]),
    ("usd", &["", "_mean_usd", "_usd"]),
    ("s", &["", "_s"]),
    ("", &["", "_mean_usd", "_usd", "_mean", "_rate", "_s"]),
];

impl Gate {
    /// A gate from its name and threshold, as in `answered_drop_pp = 0.5`.
    pub fn parse(name: &str, threshold: f64) -> Result<Gate, GateError> {
        let (stem, unit) = split_unit(name);
        let (stem, compares) =
            split_direction(stem).ok_or_else(|| GateError::NoDirection(name.to_owned()))?;
        let measure = measure(stem, unit).ok_or_else(|| GateError::UnknownMeasure {
            gate: name.to_owned(),
            found: stem.to_owned(),
            nearest: nearest(stem),
        })?;
        let gate = Gate {
            name: name.to_owned(),
            measure,
            compares,
            scale: scale(name, measure, compares, unit)?,
            threshold,
        };
        gate.check_threshold()?;
        Ok(gate)
    }

    /// `--max-answered-drop`, in percentage points.
    pub fn answered_drop(points: f64) -> Result<Gate, GateError> {
        Gate::parse("answered_drop_pp", points)
    }

    /// `--max-overspend-increase`, in dollars of the mean overspend.
    pub fn overspend_increase(usd: f64) -> Result<Gate, GateError> {
        Gate::parse("overspend_increase_usd", usd)
    }

    /// `--max-cost-increase`, in percent of the mean bill.
    pub fn cost_increase(percent: f64) -> Result<Gate, GateError> {
        Gate::parse("cost_increase_pct", percent)
    }

    fn check_threshold(&self) -> Result<(), GateError> {
        let expected = match (self.compares, self.scale, self.measure.spec().unit) {
            _ if !self.threshold.is_finite() || self.threshold < 0.0 => {
                "a number that is not negative"
            }
            (Compares::AtLeast | Compares::AtMost, Scale::Own, Unit::Share)
                if self.threshold > 1.0 =>
            {
                "a share from 0 to 1"
            }
            _ => return Ok(()),
        };
        Err(GateError::Threshold {
            gate: self.name.clone(),
            found: self.threshold.to_string(),
            expected,
        })
    }

    /// The threshold in the unit of what is compared: a share, a ratio minus one, or the measure's
    /// own unit.
    pub(super) fn limit(&self) -> f64 {
        match self.scale {
            Scale::Own => self.threshold,
            Scale::Points | Scale::Percent => self.threshold / 100.0,
        }
    }

    /// What is limited, in words: `drop of the answered rate`.
    pub fn subject(&self) -> String {
        let title = self.measure.spec().title.to_lowercase();
        match self.compares {
            Compares::Drop => format!("drop of {title}"),
            Compares::Increase => format!("increase of {title}"),
            Compares::AtLeast | Compares::AtMost => title,
        }
    }

    /// A compared number in the gate's unit, as people read it.
    pub fn shown(&self, value: f64) -> String {
        if !value.is_finite() {
            return if value < 0.0 {
                "unbounded below".to_owned()
            } else {
                "unbounded".to_owned()
            };
        }
        match (self.scale, self.measure.spec().unit) {
            (Scale::Points, _) => format!("{} pp", fixed(value * 100.0, 2)),
            (Scale::Percent, _) => format!("{}%", fixed(value * 100.0, 2)),
            (Scale::Own, Unit::Share) => format!("{}%", fixed(value * 100.0, 2)),
            (Scale::Own, Unit::Usd) => format!(
                "USD {}",
                fixed(value, crate::numbers::usd_decimals(value).max(4))
            ),
            (Scale::Own, Unit::Seconds) => format!("{} s", fixed(value, 1)),
            (Scale::Own, Unit::Count) => fixed(value, 3),
        }
    }
}

fn split_unit(name: &str) -> (&str, &str) {
    for unit in ["pp", "pct", "usd", "s"] {
        let stem = name
            .strip_suffix(unit)
            .and_then(|rest| rest.strip_suffix('_'));
        if let Some(stem) = stem.filter(|stem| split_direction(stem).is_some()) {
            return (stem, unit);
        }
    }
    (name, "")
}

fn split_direction(stem: &str) -> Option<(&str, Compares)> {
    let directions = [
        ("_drop", Compares::Drop),
        ("_increase", Compares::Increase),
        ("_at_least", Compares::AtLeast),
        ("_at_most", Compares::AtMost),
    ];
    directions
        .into_iter()
        .find_map(|(word, compares)| Some((stem.strip_suffix(word)?, compares)))
}

fn measure(stem: &str, unit: &str) -> Option<Measure> {
    let general = &COMPLETIONS[COMPLETIONS.len() - 1];
    let (_, endings) = COMPLETIONS
        .iter()
        .find(|(known, _)| *known == unit)
        .unwrap_or(general);
    endings
        .iter()
        .chain(general.1)
        .find_map(|ending| Measure::named(&format!("{stem}{ending}")))
}

fn scale(name: &str, measure: Measure, compares: Compares, unit: &str) -> Result<Scale, GateError> {
    let own = measure.spec().unit;
    let alone = matches!(compares, Compares::AtLeast | Compares::AtMost);
    let wrong = |expected| GateError::WrongUnit {
        gate: name.to_owned(),
        measure: measure.name(),
        expected,
    };
    match (unit, own) {
        ("pct", _) if !alone => Ok(Scale::Percent),
        ("pp", Unit::Share) if !alone => Ok(Scale::Points),
        ("usd", Unit::Usd) | ("s", Unit::Seconds) => Ok(Scale::Own),
        ("", Unit::Share) if !alone => {
            Err(wrong("`_pp` (points) or `_pct` (percent of the baseline)"))
        }
        ("", _) => Ok(Scale::Own),
        (_, Unit::Share) if alone => Err(wrong("no unit: a share from 0 to 1")),
        (_, Unit::Share) => Err(wrong("`_pp` (points) or `_pct` (percent of the baseline)")),
        (_, Unit::Usd) => Err(wrong("`_usd` or `_pct`")),
        (_, Unit::Seconds) => Err(wrong("`_s` or `_pct`")),
        (_, Unit::Count) => Err(wrong("no unit, or `_pct`")),
    }
}

/// The three measures whose names are most like a text.
fn nearest(found: &str) -> String {
    let likeness = |measure: &Measure| strsim::jaro_winkler(found, measure.name());
    let mut ranked: Vec<Measure> = Measure::ALL.to_vec();
    ranked.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    let names: Vec<String> = ranked[..3]
        .iter()
        .map(|m| format!("`{}`", m.name()))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> (Measure, Compares, Scale) {
        let gate = Gate::parse(name, 0.5).unwrap();
        (gate.measure, gate.compares, gate.scale)
    }

    #[test]
    fn a_gate_is_read_from_its_name() {
        use Compares::{AtLeast, AtMost, Drop, Increase};
        use Scale::{Own, Percent, Points};
        for (name, expected) in [
            ("answered_drop_pp", (Measure::AnsweredRate, Drop, Points)),
            (
                "delivered_rate_drop_pp",
                (Measure::DeliveredRate, Drop, Points),
            ),
            (
                "overspend_increase_usd",
                (Measure::OverspendMean, Increase, Own),
            ),
            (
                "overspend_increase_pp",
                (Measure::OverspendRate, Increase, Points),
            ),
            (
                "overspend_p99_usd_increase_usd",
                (Measure::OverspendP99, Increase, Own),
            ),
            (
                "overspend_p99_increase_usd",
                (Measure::OverspendP99, Increase, Own),
            ),
            ("cost_increase_pct", (Measure::CostMean, Increase, Percent)),
            (
                "evidence_kept_drop_pp",
                (Measure::EvidenceKept, Drop, Points),
            ),
            ("late_increase", (Measure::Late, Increase, Own)),
            (
                "answered_rate_at_least",
                (Measure::AnsweredRate, AtLeast, Own),
            ),
            (
                "duration_p95_at_most_s",
                (Measure::DurationP95, AtMost, Own),
            ),
        ] {
            assert_eq!(parsed(name), expected, "{name}");
        }
    }

    #[test]
    fn a_misspelt_measure_is_an_error_with_the_nearest_names() {
        let error = Gate::parse("anwsered_rate_drop_pp", 0.5).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`anwsered_rate`") && text.contains("`answered_rate`"),
            "{text}"
        );
        assert!(matches!(
            Gate::parse("answered", 0.5),
            Err(GateError::NoDirection(_))
        ));
    }

    #[test]
    fn units_and_thresholds_that_do_not_fit_are_errors() {
        for name in [
            "answered_rate_drop",
            "cost_mean_usd_increase_pp",
            "answered_rate_drop_usd",
            "answered_rate_at_least_pp",
        ] {
            assert!(
                matches!(Gate::parse(name, 0.5), Err(GateError::WrongUnit { .. })),
                "{name}"
            );
        }
        for (name, threshold) in [
            ("answered_drop_pp", -1.0),
            ("answered_drop_pp", f64::NAN),
            ("answered_rate_at_least", 99.0),
        ] {
            let found = Gate::parse(name, threshold);
            assert!(matches!(found, Err(GateError::Threshold { .. })), "{name}");
        }
    }
}
