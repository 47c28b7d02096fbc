//! The search: the first candidate, in the order of preference, that the runs show to meet the goal.
//!
//! Every candidate meets the same luck (common random numbers), so that two of them differ by what
//! they do and not by what happened to them. Runs are spent in batches that quadruple, and a candidate
//! is left as soon as it is decided. Where one field is varied, a coarse scan looks whether the target
//! rises along it; if so, bisection finds the first candidate that reaches it. Monotony is not
//! assumed: whatever pairs of candidates have been run are tested for a fall (exact McNemar test), and
//! with several fields, or after a fall, the candidates race one after the other instead.

use holdback_reports::stats::paired::mcnemar_exact;
use serde::Serialize;

use super::goal::{Goal, Requirement, Score, Standing};
use crate::failure::Failure;

/// The first batch; a multiple of 64, so that hits stay aligned.
const FIRST_BATCH: u64 = 256;
/// Each batch brings the runs to this many times what they were.
const GROWTH: u64 = 4;
/// Points of the coarse scan.
const SCANNED: usize = 9;
/// A fall between two candidates is believed below this p-value.
const FALL: f64 = 0.001;

/// Where runs come from.
pub(crate) trait Trials {
    /// Scenarios that must all be served.
    fn scenarios(&self) -> usize;
    /// Candidates, the preferred ones first.
    fn candidates(&self) -> usize;
    /// Runs `from..to` of a candidate in a scenario; the same numbers meet the same luck.
    ///
    /// # Errors
    /// If the runs cannot be made.
    fn run(
        &mut self,
        scenario: usize,
        candidate: usize,
        from: u64,
        to: u64,
    ) -> Result<Score, Failure>;
}

/// What a candidate lacks, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// Position of the scenario.
    pub(crate) scenario: usize,
    /// The requirement that the runs do not show to be met.
    pub(crate) requirement: Requirement,
}

/// What the search thinks of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// It does not reach the target, or overspends.
    pub(crate) short: Option<Lack>,
    /// It gives up or costs too much.
    pub(crate) dear: Option<Lack>,
}

impl Judgement {
    /// Whether all requirements are met.
    pub(crate) fn fits(self) -> bool {
        self.short.is_none() && self.dear.is_none()
    }

    /// What is lacking first.
    pub(crate) fn lack(self) -> Option<Lack> {
        self.short.or(self.dear)
    }
}

/// How a candidate was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    /// By bisection; nothing that was run contradicts that the target rises along the field.
    Bisection,
    /// One after the other, each left as soon as it was decided.
    Race,
}

/// A search under way.
pub(crate) struct Search<'t, T> {
    trials: &'t mut T,
    goal: Goal,
    /// Chance of a wrong "holds" of one requirement in one scenario.
    error: f64,
    /// The most runs of a candidate in a scenario.
    most: u64,
    /// The candidates differ in one field only.
    ordered: bool,
    /// By candidate, then scenario.
    scores: Vec<Vec<Score>>,
    judged: Vec<Option<Judgement>>,
    /// The scenario that turned the last candidate down comes first: it may well do so again.
    first: usize,
    method: Method,
}

impl<'t, T: Trials> Search<'t, T> {
    /// A search that has not begun.
    pub(crate) fn new(trials: &'t mut T, goal: Goal, error: f64, most: u64, ordered: bool) -> Self {
        let (candidates, scenarios) = (trials.candidates(), trials.scenarios());
        Search {
            trials,
            goal,
            error,
            most,
            ordered,
            scores: vec![vec![Score::default(); scenarios]; candidates],
            judged: vec![None; candidates],
            first: 0,
            method: Method::Race,
        }
    }

    /// The first candidate that meets the goal; `None` if none does.
    ///
    /// # Errors
    /// If runs cannot be made.
    pub(crate) fn smallest(&mut self) -> Result<Option<usize>, Failure> {
        if self.ordered {
            self.scan()?;
            if self.rises() {
                let first = self.bisect()?;
                if self.rises() {
                    self.method = Method::Bisection;
                    return self.next(first);
                }
            }
        }
        self.next(0)
    }

    /// The first candidate from this one on that meets the goal.
    ///
    /// # Errors
    /// If runs cannot be made.
    pub(crate) fn next(&mut self, from: usize) -> Result<Option<usize>, Failure> {
        for candidate in from..self.judged.len() {
            if self.judge(candidate)?.fits() {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    /// How the candidate was found.
    pub(crate) fn method(&self) -> Method {
        self.method
    }

    /// What was measured of a candidate, by scenario.
    pub(crate) fn scores(&self, candidate: usize) -> &[Score] {
        &self.scores[candidate]
    }

    /// The candidate that came nearest, and what it lacks: one that only gives up too much, else the
    /// one that is best where it is worst.
    pub(crate) fn nearest(&self) -> Option<(usize, Lack)> {
        let lack_of = |candidate: usize| {
            let judgement = self.judged[candidate]?;
            Some((candidate, judgement.lack()?))
        };
        let dear = (0..self.judged.len()).find(|candidate| {
            self.judged[*candidate].is_some_and(|j| j.short.is_none() && j.dear.is_some())
        });
        if let Some(candidate) = dear {
            return lack_of(candidate);
        }
        let worst = |candidate: usize| {
            let rates = self.scores[candidate].iter().filter(|score| score.runs > 0);
            rates.map(Score::rate).fold(1.0, f64::min)
        };
        (0..self.judged.len())
            .filter_map(lack_of)
            // The first of equals: less is given up for it.
            .reduce(|best, other| {
                if worst(other.0) > worst(best.0) {
                    other
                } else {
                    best
                }
            })
    }

    /// The scenario in which a candidate reaches the target least often, and how often, from all the
    /// runs that a candidate may have.
    ///
    /// # Errors
    /// If runs cannot be made.
    pub(crate) fn lowest_rate(&mut self, candidate: usize) -> Result<(usize, f64), Failure> {
        let mut lowest = (0, f64::INFINITY);
        for scenario in 0..self.trials.scenarios() {
            while self.scores[candidate][scenario].runs < self.most {
                self.batch(scenario, candidate)?;
            }
            let rate = self.scores[candidate][scenario].rate();
            if rate < lowest.1 {
                lowest = (scenario, rate);
            }
        }
        Ok(lowest)
    }

    /// A few runs of evenly spaced candidates, both ends included.
    fn scan(&mut self) -> Result<(), Failure> {
        let last = self.judged.len() - 1;
        let points = SCANNED.min(last + 1);
        for point in 0..points {
            let candidate = point * last / (points - 1).max(1);
            for scenario in 0..self.trials.scenarios() {
                self.batch(scenario, candidate)?;
            }
        }
        Ok(())
    }

    /// Whether no two candidates that were run contradict that the target rises.
    fn rises(&self) -> bool {
        (0..self.trials.scenarios()).all(|scenario| {
            let run: Vec<&Score> = self
                .scores
                .iter()
                .map(|scores| &scores[scenario])
                .filter(|score| score.runs > 0)
                .collect();
            run.windows(2).all(|pair| !falls(pair[0], pair[1]))
        })
    }

    /// The first candidate that is not short, if the target rises; their number if there is none.
    fn bisect(&mut self) -> Result<usize, Failure> {
        let (mut short, mut enough) = (0, self.judged.len());
        while short < enough {
            let middle = short + (enough - short) / 2;
            if self.judge(middle)?.short.is_some() {
                short = middle + 1;
            } else {
                enough = middle;
            }
        }
        Ok(enough)
    }

    /// Runs a candidate until every requirement is decided in every scenario, it is short, or its
    /// runs are used up; what is open then counts as lacking.
    fn judge(&mut self, candidate: usize) -> Result<Judgement, Failure> {
        if let Some(judgement) = self.judged[candidate] {
            return Ok(judgement);
        }
        let scenarios = self.trials.scenarios();
        let mut judgement = Judgement::default();
        for offset in 0..scenarios {
            let scenario = (self.first + offset) % scenarios;
            let here = self.judge_in(scenario, candidate)?;
            judgement.dear = judgement.dear.or(here.dear);
            if here.short.is_some() {
                self.first = scenario;
                judgement.short = here.short;
                break;
            }
        }
        self.judged[candidate] = Some(judgement);
        Ok(judgement)
    }

    fn judge_in(&mut self, scenario: usize, candidate: usize) -> Result<Judgement, Failure> {
        loop {
            let score = &self.scores[candidate][scenario];
            let standings: Vec<(Requirement, Standing)> = self
                .goal
                .requirements()
                .into_iter()
                .map(|requirement| {
                    (
                        requirement,
                        self.goal.standing(requirement, score, self.error),
                    )
                })
                .collect();
            let used_up = score.runs >= self.most;
            let lack = |more: bool| {
                let lacking = |(requirement, standing): &&(Requirement, Standing)| {
                    requirement.asks_for_more() == more
                        && match standing {
                            Standing::Holds => false,
                            Standing::Fails => true,
                            Standing::Open => used_up,
                        }
                };
                standings.iter().find(lacking).map(|(requirement, _)| Lack {
                    scenario,
                    requirement: *requirement,
                })
            };
            let judgement = Judgement {
                short: lack(true),
                dear: lack(false),
            };
            let open = standings
                .iter()
                .any(|(_, standing)| *standing == Standing::Open);
            if used_up || !open || judgement.short.is_some() {
                return Ok(judgement);
            }
            self.batch(scenario, candidate)?;
        }
    }

    fn batch(&mut self, scenario: usize, candidate: usize) -> Result<(), Failure> {
        let from = self.scores[candidate][scenario].runs;
        let to = (from * GROWTH).max(FIRST_BATCH).min(self.most);
        if to > from {
            let more = self.trials.run(scenario, candidate, from, to)?;
            self.scores[candidate][scenario].extend(more);
        }
        Ok(())
    }
}

/// Whether the later of two candidates clearly reaches the target less often, run by run.
fn falls(earlier: &Score, later: &Score) -> bool {
    let runs = earlier.runs.min(later.runs);
    let (mut lost, mut won) = (0, 0);
    for (word, (a, b)) in earlier.hits.iter().zip(&later.hits).enumerate() {
        let left = runs.saturating_sub(64 * word as u64).min(64);
        let mask = if left == 64 {
            u64::MAX
        } else {
            (1 << left) - 1
        };
        lost += u64::from((a & !b & mask).count_ones());
        won += u64::from((b & !a & mask).count_ones());
    }
    lost > won && mcnemar_exact(won, lost) < FALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizing::goal::Reached;

    /// Candidates whose chances are known; the luck of a run is the same for all of them.
    struct Known {
        /// By scenario, then candidate.
        rates: Vec<Vec<f64>>,
        spent: u64,
    }

    impl Known {
        fn new(rates: Vec<Vec<f64>>) -> Known {
            Known { rates, spent: 0 }
        }
    }

    /// A well-mixed number in [0, 1) for a run.
    fn luck(scenario: usize, run: u64) -> f64 {
        let mut x = run
            .wrapping_add(1 + scenario as u64 * 1_000_003)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    impl Trials for Known {
        fn scenarios(&self) -> usize {
            self.rates.len()
        }

        fn candidates(&self) -> usize {
            self.rates[0].len()
        }

        fn run(
            &mut self,
            scenario: usize,
            candidate: usize,
            from: u64,
            to: u64,
        ) -> Result<Score, Failure> {
            self.spent += to - from;
            let mut score = Score {
                runs: to - from,
                within: to - from,
                hits: vec![0; (to - from).div_ceil(64) as usize],
                ..Score::default()
            };
            for run in from..to {
                if luck(scenario, run) < self.rates[scenario][candidate] {
                    let at = run - from;
                    score.hits[(at / 64) as usize] |= 1 << (at % 64);
                    score.reached += 1;
                }
            }
            Ok(score)
        }
    }

    fn goal(target: f64) -> Goal {
        Goal {
            reached: Reached::Answered,
            target,
            max_overspend_p99_usd: None,
            max_evidence_loss: None,
            max_cost_increase: None,
            confidence: 0.95,
        }
    }

    #[test]
    fn bisection_finds_the_first_candidate_that_reaches_the_target_in_a_tenth_of_the_grid() {
        let rates: Vec<f64> = (0..100)
            .map(|at| 1.0 - 0.3 / f64::from(1 + at * at))
            .collect();
        let truth = rates.iter().position(|rate| *rate > 0.992).unwrap();
        let mut known = Known::new(vec![rates]);
        let mut search = Search::new(&mut known, goal(0.99), 0.025, 10_000, true);
        let found = search.smallest().unwrap().unwrap();
        assert_eq!(search.method(), Method::Bisection);
        assert!(found.abs_diff(truth) <= 1, "{found} {truth}");
        assert!(known.spent * 10 <= 100 * 10_000, "{}", known.spent);
    }

    #[test]
    fn every_scenario_must_be_served() {
        let step = |at: usize| (0..40).map(|c| if c < at { 0.5 } else { 1.0 }).collect();
        let mut known = Known::new(vec![step(7), step(23), step(11)]);
        let mut search = Search::new(&mut known, goal(0.99), 0.01, 4_000, true);
        assert_eq!(search.smallest().unwrap(), Some(23));
    }

    #[test]
    fn a_fall_along_the_field_ends_bisection_and_the_candidates_race() {
        // Good at 3, bad from 10 on, good again at the end: bisection would find 35.
        let rate = |c: usize| {
            if (3..10).contains(&c) || c >= 35 {
                1.0
            } else {
                0.6
            }
        };
        let mut known = Known::new(vec![(0..40).map(rate).collect()]);
        let mut search = Search::new(&mut known, goal(0.99), 0.01, 4_000, true);
        assert_eq!(search.smallest().unwrap(), Some(3));
        assert_eq!(search.method(), Method::Race);
    }

    #[test]
    fn without_an_order_the_candidates_race_and_bad_ones_leave_early() {
        let mut rates = vec![0.7; 60];
        rates[41] = 1.0;
        let mut known = Known::new(vec![rates]);
        let mut search = Search::new(&mut known, goal(0.99), 0.01, 10_000, false);
        assert_eq!(search.smallest().unwrap(), Some(41));
        assert!(known.spent <= 42 * 1_024, "{}", known.spent);
    }

    #[test]
    fn where_nothing_reaches_the_target_the_best_is_named_with_what_it_lacks() {
        let rates = vec![0.2, 0.6, 0.6, 0.4];
        let mut known = Known::new(vec![rates]);
        let mut search = Search::new(&mut known, goal(0.99), 0.01, 4_000, false);
        assert_eq!(search.smallest().unwrap(), None);
        let (candidate, lack) = search.nearest().unwrap();
        assert_eq!((candidate, lack.requirement), (1, Requirement::Target));
    }

    #[test]
    fn one_candidate_is_a_search_too() {
        let mut known = Known::new(vec![vec![1.0]]);
        let mut search = Search::new(&mut known, goal(0.9), 0.05, 1_000, true);
        assert_eq!(search.smallest().unwrap(), Some(0));
    }
}
