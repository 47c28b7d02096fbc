//! What is asked for, and whether some runs show it.

use holdback_engine::Money;
use holdback_reports::stats::normal_quantile;
use holdback_reports::stats::proportion::{exact_lower, exact_upper};
use holdback_reports::stats::resample::Estimate;
use serde::Serialize;

/// The share of runs that must stay within the allowed overspend, for its p99.
const WITHIN: f64 = 0.99;
/// A candidate leaves the race when it is this sure to miss; only the search uses it.
const SURE_TO_MISS: f64 = 0.999;

/// Which runs count towards the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reached {
    /// Answered ones.
    Answered,
    /// Answered and partly answered ones.
    Delivered,
}

/// What is asked for, in every scenario.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Goal {
    /// What counts.
    pub(crate) reached: Reached,
    /// The share of runs that must reach it.
    pub(crate) target: f64,
    /// 99% of the runs may overspend by at most this.
    pub(crate) max_overspend_p99_usd: Option<Money>,
    /// The share of the evidence of the base that may be lost.
    pub(crate) max_evidence_loss: Option<f64>,
    /// By which share the mean bill of the base may rise.
    pub(crate) max_cost_increase: Option<f64>,
    /// How sure the recommendation must be.
    pub(crate) confidence: f64,
}

/// One of the things asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Requirement {
    /// The target rate.
    Target,
    /// The p99 of the overspend.
    Overspend,
    /// The evidence given up.
    EvidenceLoss,
    /// The rise of the bill.
    CostIncrease,
}

impl Requirement {
    /// Whether a step on (a larger reserve) is meant to help; the others are what it costs.
    pub(crate) fn asks_for_more(self) -> bool {
        matches!(self, Requirement::Target | Requirement::Overspend)
    }
}

/// What some runs say about a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is met, at the confidence asked for.
    Holds,
    /// It is almost surely missed.
    Fails,
    /// These runs cannot tell.
    Open,
}

/// What was measured of one candidate in one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Score {
    /// Runs made.
    pub(crate) runs: u64,
    /// Runs that reached the target.
    pub(crate) reached: u64,
    /// Runs that did not overspend by more than is allowed.
    pub(crate) within: u64,
    /// Evidence here and under the base, by group of runs; empty if nobody asked.
    pub(crate) evidence: Vec<(f64, f64)>,
    /// Bills here and under the base, by group of runs; empty if nobody asked.
    pub(crate) billed: Vec<(f64, f64)>,
    /// One bit a run, 64 to a word: whether it reached the target.
    pub(crate) hits: Vec<u64>,
}

impl Score {
    /// Adds the runs that follow.
    pub(crate) fn extend(&mut self, more: Score) {
        self.runs += more.runs;
        self.reached += more.reached;
        self.within += more.within;
        add_groups(&mut self.evidence, more.evidence);
        add_groups(&mut self.billed, more.billed);
        self.hits.extend(more.hits);
    }

    /// The share of runs that reached the target.
    pub(crate) fn rate(&self) -> f64 {
        self.reached as f64 / self.runs.max(1) as f64
    }
}

fn add_groups(mine: &mut Vec<(f64, f64)>, more: Vec<(f64, f64)>) {
    if mine.is_empty() {
        *mine = more;
        return;
    }
    for (group, (here, there)) in mine.iter_mut().zip(more) {
        group.0 += here;
        group.1 += there;
    }
}

impl Goal {
    /// What is asked for, the target first.
    pub(crate) fn requirements(&self) -> Vec<Requirement> {
        let asked = [
            (Requirement::Target, true),
            (Requirement::Overspend, self.max_overspend_p99_usd.is_some()),
            (Requirement::EvidenceLoss, self.max_evidence_loss.is_some()),
            (Requirement::CostIncrease, self.max_cost_increase.is_some()),
        ];
        let asked = asked.into_iter().filter(|(_, asked)| *asked);
        asked.map(|(requirement, _)| requirement).collect()
    }

    /// Whether a base must be run beside the candidates.
    pub(crate) fn needs_base(&self) -> bool {
        self.max_evidence_loss.is_some() || self.max_cost_increase.is_some()
    }

    /// What the runs of a score say about a requirement, if a wrong "holds" may come with a chance of
    /// at most `error`.
    pub(crate) fn standing(&self, requirement: Requirement, score: &Score, error: f64) -> Standing {
        match requirement {
            Requirement::Target => share(score.reached, score.runs, self.target, error),
            Requirement::Overspend => share(score.within, score.runs, WITHIN, error),
            Requirement::EvidenceLoss => {
                let floor = 1.0 - self.max_evidence_loss.unwrap_or(1.0);
                ratio(&score.evidence, 1.0, floor, error)
            }
            Requirement::CostIncrease => {
                let ceiling = 1.0 + self.max_cost_increase.unwrap_or(f64::INFINITY);
                ratio(&score.billed, -1.0, -ceiling, error)
            }
        }
    }
}

/// A share of runs against the least that is asked for, by exact one-sided limits.
fn share(successes: u64, runs: u64, least: f64, error: f64) -> Standing {
    if runs == 0 {
        Standing::Open
    } else if exact_lower(successes, runs, 1.0 - error) >= least {
        Standing::Holds
    } else if exact_upper(successes, runs, SURE_TO_MISS) < least {
        Standing::Fails
    } else {
        Standing::Open
    }
}

/// `sign` times the ratio of two sums against the least that is asked for, by normal limits over the
/// groups of runs.
fn ratio(groups: &[(f64, f64)], sign: f64, least: f64, error: f64) -> Standing {
    if groups.is_empty() {
        return Standing::Open;
    }
    let Some(estimate) = Estimate::ratio(groups) else {
        // Nothing there that could be lost or could rise.
        let none = groups.iter().all(|(here, _)| *here == 0.0);
        return if none || sign > 0.0 {
            Standing::Holds
        } else {
            Standing::Fails
        };
    };
    let value = sign * estimate.value;
    let spread = estimate.standard_error();
    if value - normal_quantile(1.0 - error) * spread >= least {
        Standing::Holds
    } else if value + normal_quantile(SURE_TO_MISS) * spread < least {
        Standing::Fails
    } else {
        Standing::Open
    }
}

/// The share of the allowed error that each test of step `step` (from 1) of a proof may take: the
/// step gets `(1 - confidence) / 2^step`, split evenly over its tests (Bonferroni). All steps
/// together never exceed `1 - confidence`, whichever of them ends the proof.
pub(crate) fn error_of_test(confidence: f64, step: u32, tests: usize) -> f64 {
    let of_step = (0..step).fold(1.0 - confidence, |left, _| left / 2.0);
    of_step / tests.max(1) as f64
}

/// The fewest runs that can prove a share at all, every one of them being a success.
pub(crate) fn fewest_runs(target: f64, error: f64) -> u64 {
    let mut most = 1_u64;
    while most < 1 << 40 && exact_lower(most, most, 1.0 - error) < target {
        most *= 2;
    }
    let mut least = most / 2;
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        if exact_lower(middle, middle, 1.0 - error) < target {
            least = middle;
        } else {
            most = middle;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn goal(target: f64) -> Goal {
        Goal {
            reached: Reached::Answered,
            target,
            max_overspend_p99_usd: None,
            max_evidence_loss: None,
            max_cost_increase: None,
            confidence: 0.95,
        }
    }

    fn score(reached: u64, runs: u64) -> Score {
        Score {
            runs,
            reached,
            ..Score::default()
        }
    }

    #[test]
    fn a_target_holds_only_if_the_exact_lower_limit_reaches_it() {
        let standing =
            |reached, runs| goal(0.99).standing(Requirement::Target, &score(reached, runs), 0.05);
        // 0.05^(1/299) is the first to reach 0.99.
        assert_eq!(standing(298, 298), Standing::Open);
        assert_eq!(standing(299, 299), Standing::Holds);
        assert_eq!(standing(2970, 3000), Standing::Open);
        assert_eq!(standing(2900, 3000), Standing::Fails);
        assert_eq!(fewest_runs(0.99, 0.05), 299);
    }

    #[test]
    fn the_errors_of_all_steps_and_tests_sum_to_what_is_allowed() {
        let sum: f64 = (1..=40)
            .map(|step| 3.0 * error_of_test(0.95, step, 3))
            .sum();
        assert!((sum - 0.05).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn evidence_and_cost_are_held_against_the_base() {
        let mut asked = goal(0.9);
        asked.max_evidence_loss = Some(0.10);
        asked.max_cost_increase = Some(0.10);
        let with = |ratio: f64| Score {
            evidence: vec![(10.0 * ratio, 10.0); 100],
            billed: vec![(3.0 * ratio, 3.0); 100],
            ..Score::default()
        };
        let loss = |ratio| asked.standing(Requirement::EvidenceLoss, &with(ratio), 0.05);
        assert_eq!((loss(0.95), loss(0.85)), (Standing::Holds, Standing::Fails));
        let rise = |ratio| asked.standing(Requirement::CostIncrease, &with(ratio), 0.05);
        assert_eq!((rise(1.05), rise(1.2)), (Standing::Holds, Standing::Fails));
    }
}
