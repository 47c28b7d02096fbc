//! Kinds of runs: what runs of a source have in common as wholes.
//!
//! Draws of turns are independent, runs are not sums of independent draws: a long run may also be one
//! without caching, or with longer results. Runs are parted into bands of equal number by their turns,
//! each band into a cheaper and a dearer half by its cost a turn, and each part keeps its own turns, its
//! share of cached input and how far its means lie from those of all runs. A few runs that cost far more
//! a turn than all others are apart from these: in a mean they would make every run dearer than it is
//! and themselves cheaper.

use super::caching::{Caching, Reads};
use super::sample::{Law, Sample};

/// The fewest runs of a kind, and the most kinds.
const FEWEST: usize = 10;
const MOST: usize = 12;
/// Runs above a gap this wide in the cost a turn, with nobody in between, are far dearer.
const GAP: f64 = 1.5;
/// The most runs that are remembered one by one.
pub(super) const MOST_KEPT: usize = 100_000;

/// Sums with the number of their parts, over a run or over all so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) output: (u128, u64),
    pub(super) reasoning: (u128, u64),
    pub(super) results: (u128, u64),
    /// Costs of planning turns in millionths of a dollar.
    pub(super) costs: (u128, u64),
    pub(super) cache: Reads,
    pub(super) repeats: u64,
    pub(super) could_repeat: u64,
    /// Input of all turns.
    pub(super) input: (u128, u64),
}

impl Marks {
    /// Each sum combined with another's.
    fn with(
        &self,
        other: &Marks,
        wide: fn(u128, u128) -> u128,
        narrow: fn(u64, u64) -> u64,
    ) -> Marks {
        let pair = |a: (u128, u64), b: (u128, u64)| (wide(a.0, b.0), narrow(a.1, b.1));
        Marks {
            output: pair(self.output, other.output),
            reasoning: pair(self.reasoning, other.reasoning),
            results: pair(self.results, other.results),
            costs: pair(self.costs, other.costs),
            cache: self.cache.with(&other.cache, wide, narrow),
            repeats: narrow(self.repeats, other.repeats),
            could_repeat: narrow(self.could_repeat, other.could_repeat),
            input: pair(self.input, other.input),
        }
    }

    /// What was added since an earlier mark.
    pub(super) fn since(&self, before: &Marks) -> Marks {
        self.with(before, |a, b| a - b, |a, b| a - b)
    }

    fn plus(&self, other: &Marks) -> Marks {
        self.with(other, |a, b| a + b, |a, b| a + b)
    }
}

/// A run as a whole.
#[derive(Clone, Copy, Debug)]
struct Whole {
    /// Turns before the answer.
    planning: u64,
    is_answered: bool,
    own: Marks,
}

impl Whole {
    /// Cost a turn, or without recorded costs its tokens with common relative prices.
    fn rate(&self) -> f64 {
        let turns = self.planning.max(1) as f64;
        if self.own.costs.0 > 0 {
            return self.own.costs.0 as f64 / turns;
        }
        let cached = self.own.cache.cached() as f64;
        let output = (self.own.output.0 + self.own.reasoning.0) as f64;
        (self.own.input.0 as f64 - 0.75 * cached + 5.0 * output) / turns
    }
}

/// The runs of a source as wholes, the first hundred thousand of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Wholes(Vec<Whole>);

/// A kind of run beside all runs. A scale is `None` where nothing was recorded to compare.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) runs: u64,
    /// Turns before the answer.
    pub(super) turns: Law,
    pub(super) output_scale: Option<f64>,
    pub(super) reasoning_scale: Option<f64>,
    pub(super) result_scale: Option<f64>,
    /// As `output_scale`, of costs.
    pub(super) cost_scale: Option<f64>,
    pub(super) cache_hit: Option<f64>,
    pub(super) repeat_call: f64,
    /// Its runs ended without an answer.
    pub(super) gives_up: bool,
}

impl Wholes {
    pub(super) fn add(&mut self, planning: u64, is_answered: bool, own: Marks) {
        if self.0.len() < MOST_KEPT {
            self.0.push(Whole {
                planning,
                is_answered,
                own,
            });
        }
    }

    /// The kinds. Runs without an answer are one of their own, so are far dearer ones, and too few to be
    /// parted are one.
    pub(super) fn kinds(&self, usual: &Usual) -> Vec<Kind> {
        let all = sum(&self.0);
        let (mut answered, cut): (Vec<Whole>, Vec<Whole>) =
            self.0.iter().partition(|whole| whole.is_answered);
        let far = far_dearer(&mut answered);
        let most = (answered.len() / FEWEST).clamp(1, MOST);
        let halves = if most < 4 { 1 } else { 2 };
        let mut kinds = Vec::new();
        for mut band in bands(answered, most / halves) {
            let turns = range(&band);
            if halves == 1 || band.len() < 2 {
                kinds.push(Kind::new(turns, &band, &all, usual));
                continue;
            }
            band.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
            let (cheap, dear) = band.split_at(band.len() / 2);
            let cheaper = format!("{turns}, cheaper");
            kinds.push(Kind::new(cheaper, cheap, &all, usual));
            kinds.push(Kind::new(format!("{turns}, dearer"), dear, &all, usual));
        }
        if !far.is_empty() {
            let name = format!("{}, far dearer", range(&far));
            kinds.push(Kind::new(name, &far, &all, usual));
        }
        if !cut.is_empty() {
            let name = "without an answer".to_owned();
            kinds.push(Kind::new(name, &cut, &all, usual));
        }
        kinds
    }
}

/// The turns of runs, in words.
fn range(runs: &[Whole]) -> String {
    let turns = || runs.iter().map(|run| run.planning);
    match (turns().min().unwrap_or(0), turns().max().unwrap_or(0)) {
        (from, to) if from == to => format!("{from} turns"),
        (from, to) => format!("{from} to {to} turns"),
    }
}

/// Takes out the runs above the first wide gap in the dearest quarter.
fn far_dearer(runs: &mut Vec<Whole>) -> Vec<Whole> {
    if runs.len() < FEWEST {
        return Vec::new();
    }
    runs.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let is_gap = |at: &usize| {
        let below = runs[at - 1].rate();
        below > 0.0 && runs[*at].rate() >= GAP * below
    };
    let gap = (runs.len() * 3 / 4..runs.len()).find(is_gap);
    gap.map(|at| runs.split_off(at)).unwrap_or_default()
}

/// Runs in order of their turns, parted where the turns change next to equal numbers.
fn bands(mut runs: Vec<Whole>, number: usize) -> Vec<Vec<Whole>> {
    runs.sort_by_key(|whole| whole.planning);
    let mut bands = Vec::new();
    let mut rest = runs.as_slice();
    for left in (1..=number).rev() {
        let size = rest.len() / left;
        let Some(last) = size.checked_sub(1).and_then(|at| rest.get(at)) else {
            continue;
        };
        let end = rest.partition_point(|whole| whole.planning <= last.planning);
        bands.push(rest[..end].to_vec());
        rest = &rest[end..];
    }
    bands
}

/// What the model part of the scenario draws, whatever the kind.
pub(super) struct Usual {
    /// Mean input of a first turn.
    pub(super) base: f64,
    /// Mean tokens of the results of a planning turn.
    pub(super) results: f64,
    /// `None` if nothing is read from a cache.
    pub(super) caching: Option<Caching>,
}

/// The scale of results at which runs of so many turns read as much input as these did. Contexts do not
/// grow evenly (some begin with the largest results), and the bill follows what was read in all. `None`
/// where not every turn records its input.
fn growth(runs: &[Whole], own: &Marks, usual: &Usual) -> Option<f64> {
    let turns = |run: &Whole| (run.planning + u64::from(run.is_answered)) as f64;
    let all: f64 = runs.iter().map(turns).sum();
    // How often the growth of each turn was read by later ones.
    let read: f64 = runs
        .iter()
        .map(|run| turns(run) * (turns(run) - 1.0) / 2.0)
        .sum();
    if own.input.1 as f64 != all || read == 0.0 || usual.results <= 0.0 {
        return None;
    }
    let output = own.output.0 as f64 / own.output.1.max(1) as f64;
    let grown = own.input.0 as f64 - all * usual.base - read * output;
    Some((grown / read / usual.results).clamp(0.0, 1000.0))
}

fn sum(runs: &[Whole]) -> Marks {
    runs.iter()
        .fold(Marks::default(), |sum, run| sum.plus(&run.own))
}

impl Kind {
    fn new(name: String, runs: &[Whole], all: &Marks, usual: &Usual) -> Kind {
        let own = sum(runs);
        let mut turns = Sample::default();
        runs.iter().for_each(|run| turns.add(run.planning));
        let scale = |own: (u128, u64), all: (u128, u64)| {
            let mean = |(sum, number): (u128, u64)| sum as f64 / number.max(1) as f64;
            (own.1 > 0 && all.0 > 0).then(|| mean(own) / mean(all))
        };
        Kind {
            name,
            runs: runs.len() as u64,
            turns: turns.law(),
            output_scale: scale(own.output, all.output),
            reasoning_scale: scale(own.reasoning, all.reasoning),
            result_scale: growth(runs, &own, usual).or_else(|| scale(own.results, all.results)),
            cost_scale: scale(own.costs, all.costs),
            cache_hit: usual.caching.and_then(|caching| caching.hit(&own.cache)),
            repeat_call: own.repeats as f64 / own.could_repeat.max(1) as f64,
            gives_up: runs.iter().all(|run| !run.is_answered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wholes(runs: impl Iterator<Item = (u64, bool)>) -> Wholes {
        let mut wholes = Wholes::default();
        for (planning, is_answered) in runs {
            let turns = planning + u64::from(is_answered);
            // A base of 100 and 50 more with each turn; 10 of these are output.
            let input = (0..turns).map(|at| u128::from(100 + 50 * at)).sum();
            let own = Marks {
                output: (10 * u128::from(planning), planning),
                results: (40 * u128::from(planning), planning),
                input: (input, turns),
                ..Marks::default()
            };
            wholes.add(planning, is_answered, own);
        }
        wholes
    }

    const USUAL: Usual = Usual {
        base: 100.0,
        results: 40.0,
        caching: None,
    };

    #[test]
    fn runs_are_parted_by_turns_into_equal_numbers_and_each_keeps_its_own() {
        let wholes = wholes((0..30).map(|run| (5 + run / 2, true)));
        let kinds = wholes.kinds(&USUAL);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["5 to 9 turns", "10 to 14 turns", "15 to 19 turns"]);
        assert!(kinds.iter().all(|kind| kind.runs == 10 && !kind.gives_up));
        assert_eq!(kinds[1].turns.ends(), (10.0, 14.0));
        for kind in &kinds {
            let scale = kind.result_scale.unwrap();
            assert!((scale - 1.0).abs() < 1e-12, "{scale}");
        }
    }

    #[test]
    fn many_runs_are_parted_by_their_cost_too() {
        let kinds = wholes((0..50).map(|run| (5 + run % 10, true))).kinds(&USUAL);
        assert_eq!(kinds.len(), 4);
        assert!(kinds[0].name.ends_with("cheaper") && kinds[1].name.ends_with("dearer"));
    }

    #[test]
    fn runs_without_an_answer_are_a_kind_that_gives_up() {
        let kinds = wholes((0..20).map(|run| (5 + run, run % 10 != 9))).kinds(&USUAL);
        assert_eq!(kinds.len(), 2);
        assert_eq!((kinds[1].runs, kinds[1].gives_up), (2, true));
        assert_eq!(kinds[1].turns.ends(), (14.0, 24.0));
    }

    #[test]
    fn a_few_far_dearer_runs_are_a_kind_and_leave_the_others_as_they_are() {
        let costing = |micros: u128| Marks {
            costs: (8 * micros, 8),
            output: (8 * micros, 8),
            ..Marks::default()
        };
        let mut wholes = Wholes::default();
        for run in 0..18 {
            wholes.add(8, true, costing(100 + run));
        }
        wholes.add(8, true, costing(300));
        wholes.add(9, true, costing(340));
        let kinds = wholes.kinds(&USUAL);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["8 turns", "8 to 9 turns, far dearer"]);
        assert_eq!((kinds[0].runs, kinds[1].runs), (18, 2));
        // Means of 108.5 and 320 beside 129.65 of all.
        let scales: Vec<f64> = kinds.iter().filter_map(|kind| kind.output_scale).collect();
        assert!((scales[0] - 108.5 / 129.65).abs() < 1e-9, "{scales:?}");
        assert!((scales[1] - 320.0 / 129.65).abs() < 1e-9, "{scales:?}");
    }

    #[test]
    fn the_scale_of_results_follows_what_was_read_and_not_how_the_context_grew() {
        // All 400 tokens of results come with the first call: later turns read them as often as they can.
        let input = 100 + 9 * (100 + 400 + 10) + (0..9).map(|at| 10 * at).sum::<u128>();
        let own = Marks {
            output: (90, 9),
            results: (400, 9),
            input: (input, 10),
            ..Marks::default()
        };
        let mut wholes = Wholes::default();
        wholes.add(9, true, own);
        let scale = wholes.kinds(&USUAL)[0].result_scale.unwrap();
        // 45 reads of a turn's growth bring what 9 reads of 400 did.
        assert!((scale - 9.0 * 400.0 / 45.0 / 40.0).abs() < 1e-12, "{scale}");
    }
}
