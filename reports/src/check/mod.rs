//! Gates for changes of a policy: the candidate against the baseline on the same luck.
//!
//! A gate fails only if the interval of what it limits lies wholly beyond its threshold, and passes
//! only if it lies wholly within; else these runs cannot tell. Verdict and exit code come from the
//! same value.
//!
//! That nothing was seen is not that nothing happens: an interval reaches as far as what was not seen
//! may (see [`crate::stats::resample`]). Only a policy with the very limits of the baseline differs in
//! nothing for certain.

mod gate;
mod junit;
mod text;

use serde::Serialize;

use crate::measure::{Measure, Source};
use crate::observed::{Difference, Observed, Tools};
use crate::reserves;
use crate::stats::{CONFIDENCE, Interval, order, paired, resample};
use crate::study::{Cell, ScenarioInfo, StudyResult};
use crate::summary::Summary;

pub use gate::{Compares, Gate, GateError, Scale};

/// More runs than this are never recommended.
const MOST_RUNS: f64 = 1e9;
/// Spare length of the arms when runs are recommended: the next estimate will lie elsewhere.
const SPARE: f64 = 1.2;

/// What can be said of a gate, or of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the threshold, beyond noise.
    Pass,
    /// The interval holds the threshold.
    CannotTell,
    /// Beyond the threshold, beyond noise.
    Fail,
}

/// A gate in a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// The scenario.
    pub scenario: String,
    /// The gate.
    pub gate: Gate,
    /// The measure under the baseline.
    pub baseline: f64,
    /// The measure under the candidate.
    pub candidate: f64,
    /// What is compared with the threshold, as a share, a ratio minus one, or in the measure's unit.
    pub measured: f64,
    /// Its interval.
    pub interval: Interval,
    /// What can be said.
    pub verdict: Verdict,
    /// What would help where it cannot be told.
    pub remedy: Option<Remedy>,
    /// A run to look at.
    pub command: Option<String>,
}

/// What would help where these runs cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// About so many runs would probably settle it.
    Settle(u64),
    /// There is no interval with so few runs; so many give one.
    Interval(u64),
    /// There is no interval, whatever the number of runs: nothing bounds what was not seen, or there
    /// is nothing to divide by.
    Unbounded,
    /// The baseline shows none of it, so that no percentage of it means anything.
    FromNothing,
    /// The measured value is so close to the threshold that a number of runs that settles it is out of
    /// reach.
    Margin,
}

impl Remedy {
    /// The runs that it asks for.
    pub fn runs(self) -> Option<u64> {
        match self {
            Remedy::Settle(runs) | Remedy::Interval(runs) => Some(runs),
            Remedy::Unbounded | Remedy::FromNothing | Remedy::Margin => None,
        }
    }
}

/// All gates in all scenarios.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The baseline's name.
    pub baseline: String,
    /// The candidate's name.
    pub candidate: String,
    /// The command that reproduces it.
    pub reproduce: String,
    /// Runs a scenario; the fewest, if scenarios differ.
    pub runs: u64,
    /// The gates, scenario by scenario.
    pub cases: Vec<Case>,
}

impl Report {
    /// Checks the candidate of a study against its baseline.
    pub fn new(
        result: &StudyResult,
        summary: &Summary,
        candidate: &str,
        gates: &[Gate],
    ) -> Result<Report, GateError> {
        let mut cases = Vec::new();
        for scenario in &result.scenarios {
            let pair = Pair::new(result, scenario, candidate)?;
            for gate in gates {
                let mut case = pair.case(gate)?;
                let saved = summary
                    .scenarios
                    .iter()
                    .find(|saved| saved.name == scenario.name);
                case.command = saved
                    .and_then(|saved| saved.cell(candidate)?.examples.first())
                    .map(|example| example.command.clone());
                cases.push(case);
            }
        }
        Ok(Report {
            baseline: result.baseline.clone(),
            candidate: candidate.to_owned(),
            reproduce: result.command.clone(),
            runs: result
                .scenarios
                .iter()
                .map(|scenario| scenario.runs)
                .min()
                .unwrap_or(0),
            cases,
        })
    }

    /// The worst verdict of all gates.
    pub fn verdict(&self) -> Verdict {
        let verdicts = self.cases.iter().map(|case| case.verdict);
        verdicts.max().unwrap_or(Verdict::Pass)
    }

    /// 0 if the gates hold, 1 if one fails; `strict` makes "cannot tell" fail.
    pub fn exit_code(&self, strict: bool) -> u8 {
        u8::from(self.verdict().fails(strict))
    }

    /// How many cases have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases
            .iter()
            .filter(|case| case.verdict == verdict)
            .count()
    }

    /// The most runs that a case needs to be settled.
    pub fn runs_needed(&self) -> Option<u64> {
        let remedies = self.cases.iter().filter_map(|case| case.remedy);
        remedies.filter_map(Remedy::runs).max()
    }
}

impl Verdict {
    /// Whether a build with this verdict fails.
    pub fn fails(self, strict: bool) -> bool {
        match self {
            Verdict::Pass => false,
            Verdict::CannotTell => strict,
            Verdict::Fail => true,
        }
    }

    /// The word used in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::CannotTell => "cannot tell",
            Verdict::Fail => "FAIL",
        }
    }

    /// What an interval says of something that must not pass `limit`.
    fn of(interval: Interval, limit: f64) -> Verdict {
        if interval.lo > limit {
            Verdict::Fail
        } else if interval.hi <= limit {
            Verdict::Pass
        } else {
            Verdict::CannotTell
        }
    }
}

/// Candidate and baseline in a scenario.
struct Pair<'a> {
    scenario: &'a ScenarioInfo,
    here: &'a Cell,
    there: &'a Cell,
    candidate: Observed<'a>,
    baseline: Observed<'a>,
    tools: Tools,
    /// Both have the very same limits.
    same: bool,
}

impl<'a> Pair<'a> {
    fn new(
        result: &'a StudyResult,
        scenario: &'a ScenarioInfo,
        candidate: &str,
    ) -> Result<Pair<'a>, GateError> {
        let cell = |policy: &str| {
            let found = scenario.cells.iter().find(|cell| cell.policy == policy);
            found.ok_or_else(|| GateError::NoPolicy {
                scenario: scenario.name.clone(),
                policy: policy.to_owned(),
            })
        };
        let family = |policy: &str| result.policy(policy).map_or("", |p| p.family.as_str());
        let (here, there) = (cell(candidate)?, cell(&result.baseline)?);
        let observed =
            |cell: &'a Cell| Observed::new(cell, family(&cell.policy), scenario.twin.as_ref());
        let (candidate, baseline) = (observed(here), observed(there));
        let tools = Tools::for_cells([&candidate, &baseline].into_iter());
        let limits = |policy: &str| {
            let info = result.policy(policy)?;
            Some((reserves::undescribed(&info.definition), &info.defaults))
        };
        let same = limits(&here.policy).is_some()
            && limits(&here.policy) == limits(&there.policy)
            && here.tally == there.tally;
        Ok(Pair {
            same,
            scenario,
            here,
            there,
            candidate,
            baseline,
            tools,
        })
    }

    fn case(&self, gate: &Gate) -> Result<Case, GateError> {
        let candidate = self.value(&self.candidate, self.here, gate)?;
        let alone = matches!(gate.compares, Compares::AtLeast | Compares::AtMost);
        let baseline = match self.value(&self.baseline, self.there, gate) {
            Err(_) if alone => f64::NAN,
            other => other?,
        };
        let (measured, interval) = match (gate.compares, gate.scale) {
            (Compares::AtLeast | Compares::AtMost, _) => (candidate, self.own_interval(gate)?),
            // The same limits on the same luck: nothing can differ, however many runs there are.
            _ if self.same => (0.0, Interval::new(0.0, 0.0)),
            (_, Scale::Percent) => self.relative(gate, candidate, baseline)?,
            _ => self.absolute(gate, candidate, baseline)?,
        };
        // From here on, more is worse.
        let (sign, limit) = match gate.compares {
            Compares::Increase | Compares::AtMost => (1.0, gate.limit()),
            Compares::Drop => (-1.0, gate.limit()),
            Compares::AtLeast => (-1.0, -gate.limit()),
        };
        let harm = oriented(interval, sign);
        let verdict = Verdict::of(harm, limit);
        let remedy = (verdict == Verdict::CannotTell)
            .then(|| self.remedy(gate, sign * measured, harm, limit, baseline));
        let shown = |value: f64| {
            if gate.compares == Compares::Drop {
                -value
            } else {
                value
            }
        };
        Ok(Case {
            scenario: self.scenario.name.clone(),
            gate: gate.clone(),
            baseline,
            candidate,
            measured: rounded(shown(measured)),
            interval: if gate.compares == Compares::Drop {
                harm
            } else {
                interval
            }
            .map(rounded),
            verdict,
            remedy,
            command: None,
        })
    }

    fn remedy(
        &self,
        gate: &Gate,
        measured: f64,
        harm: Interval,
        limit: f64,
        baseline: f64,
    ) -> Remedy {
        let runs = self.scenario.runs;
        let fewest = match gate.measure.spec().source {
            Source::Share { .. } if gate.scale != Scale::Percent => 1,
            Source::Quantile { share, .. } => order::fewest(share, CONFIDENCE),
            _ => resample::FEWEST_GROUPS as u64,
        };
        if runs < fewest {
            return Remedy::Interval(fewest);
        }
        if gate.scale == Scale::Percent && baseline == 0.0 {
            return Remedy::FromNothing;
        }
        if !measured.is_finite() || !harm.hi.is_finite() {
            return Remedy::Unbounded;
        }
        runs_needed(runs, measured, harm, limit).map_or(Remedy::Margin, Remedy::Settle)
    }

    /// The measure of one policy; totals as a mean a run.
    fn value(&self, observed: &Observed<'_>, cell: &Cell, gate: &Gate) -> Result<f64, GateError> {
        let measure = gate.measure;
        if let Some(estimate) = observed.estimate(measure) {
            return Ok(estimate.value);
        }
        let value = observed
            .value(measure)
            .filter(|_| observed.applies(measure));
        value
            .map(|value| value.to_f64())
            .ok_or_else(|| GateError::NotApplicable {
                gate: gate.name.clone(),
                measure: measure.name(),
                policy: cell.policy.clone(),
                scenario: self.scenario.name.clone(),
                why: why_not(measure, observed),
            })
    }

    fn own_interval(&self, gate: &Gate) -> Result<Interval, GateError> {
        let direct = self.candidate.direct_interval(gate.measure, &self.tools);
        let resampled = || {
            let estimate = self.candidate.estimate(gate.measure)?;
            self.tools.intervals(&[&estimate]).pop()
        };
        direct
            .or_else(resampled)
            .map(|interval| {
                if interval.is_bounded() {
                    self.candidate.possible(gate.measure, interval)
                } else {
                    interval
                }
            })
            .map_or_else(|| self.unbounded(gate), Ok)
    }

    fn absolute(
        &self,
        gate: &Gate,
        candidate: f64,
        baseline: f64,
    ) -> Result<(f64, Interval), GateError> {
        let pairs = self.here.pairs.as_ref();
        let difference =
            self.candidate
                .difference(&self.baseline, gate.measure, pairs, &self.tools);
        match difference {
            Some(Difference::Known(value, Some(interval))) => Ok((value, interval)),
            Some(Difference::Resampled(estimate)) => {
                let interval = self.tools.intervals(&[&estimate]).pop();
                Ok((estimate.value, interval.unwrap_or(Interval::EVERYTHING)))
            }
            Some(Difference::Known(value, None)) => Ok((value, self.unbounded(gate)?)),
            // Too few groups of runs for any estimate of what varies.
            None => Ok((candidate - baseline, self.unbounded(gate)?)),
        }
    }

    /// The candidate over the baseline, minus one.
    fn relative(
        &self,
        gate: &Gate,
        candidate: f64,
        baseline: f64,
    ) -> Result<(f64, Interval), GateError> {
        if baseline == 0.0 {
            return self.relative_to_nothing(gate, candidate);
        }
        let ratio = candidate / baseline - 1.0;
        let estimates = self
            .candidate
            .estimate(gate.measure)
            .zip(self.baseline.estimate(gate.measure));
        if let Some((here, there)) = estimates {
            let estimate = here.relative_to(&there);
            let interval = estimate.and_then(|e| self.tools.intervals(&[&e]).pop());
            return Ok((ratio, interval.unwrap_or(Interval::EVERYTHING)));
        }
        let limits = self
            .candidate
            .direct_interval(gate.measure, &self.tools)
            .zip(self.baseline.direct_interval(gate.measure, &self.tools));
        match limits {
            Some((here, there)) => {
                let interval = paired::combine_ratio((candidate, here), (baseline, there));
                Ok((
                    ratio,
                    interval.map_or(Interval::EVERYTHING, |i| i.map(|end| end - 1.0)),
                ))
            }
            None => Ok((ratio, self.unbounded(gate)?)),
        }
    }

    /// Nothing grows by any percentage into something: all that can be told is whether it grew.
    fn relative_to_nothing(
        &self,
        gate: &Gate,
        candidate: f64,
    ) -> Result<(f64, Interval), GateError> {
        let (change, interval) = self.absolute(gate, candidate, 0.0)?;
        let percent = |value: f64| {
            if value == 0.0 {
                0.0
            } else {
                value * f64::INFINITY
            }
        };
        Ok((percent(change), interval.map(percent)))
    }

    /// Extremes have no interval; quantiles of too few runs have an endless one.
    fn unbounded(&self, gate: &Gate) -> Result<Interval, GateError> {
        match gate.measure.spec().source {
            Source::LargestOverspend | Source::OverspendBound => Err(GateError::NoInterval {
                gate: gate.name.clone(),
                measure: gate.measure.name(),
            }),
            _ => Ok(Interval::EVERYTHING),
        }
    }
}

/// Six decimals, as in the data files; what has no end has no decimals.
fn rounded(value: f64) -> f64 {
    if value.is_finite() {
        crate::numbers::rounded(value)
    } else {
        value
    }
}

fn oriented(interval: Interval, sign: f64) -> Interval {
    if sign > 0.0 {
        interval
    } else {
        Interval::new(-interval.hi, -interval.lo)
    }
}

fn why_not(measure: Measure, observed: &Observed<'_>) -> String {
    let spec = measure.spec();
    match (spec.family, spec.needs_cap, spec.source) {
        (Some(family), _, _) if !observed.applies(measure) => {
            format!(": only {family} has it")
        }
        (_, true, _) if !observed.applies(measure) => {
            ": there is no money cap and no budget".to_owned()
        }
        (_, _, Source::Kept) => ": without limits these runs do not end".to_owned(),
        _ => String::new(),
    }
}

/// Runs after which an interval that holds its limit would probably not hold it any more: arms
/// shrink with the square root of the runs. Rounded up to two digits.
fn runs_needed(runs: u64, measured: f64, interval: Interval, limit: f64) -> Option<u64> {
    let arm = if measured <= limit {
        interval.hi - measured
    } else {
        measured - interval.lo
    };
    let distance = (limit - measured).abs();
    let factor = SPARE * arm / distance;
    let needed = runs as f64 * factor * factor;
    if !needed.is_finite() || needed > MOST_RUNS {
        return None;
    }
    let needed = needed.max(runs as f64 * 1.5).ceil() as u64;
    let mut unit = 1;
    while needed / unit >= 100 {
        unit *= 10;
    }
    Some(needed.div_ceil(unit) * unit)
}

#[cfg(test)]
mod tests;
