//! The runs: candidates in scenarios, counted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use holdback_engine::Money;
use holdback_reports::numbers::shell;
use holdback_scenarios::Study;
use holdback_scenarios::policy::Policy;
use holdback_sim::campaign::{Campaign, Listener, Row, RunSet, Work};
use holdback_sim::tally::{Outcome, PICOS_PER_HISTOGRAM_UNIT, Tally};

use super::goal::{Goal, Reached, Score};
use super::grid::Grid;
use super::search::Trials;
use super::world::World;
use crate::defect;
use crate::failure::Failure;
use crate::progress::{self, Progress};

/// How runs are made.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'b> {
    /// On which threads, and whether policies share a run.
    pub(crate) work: Work,
    /// Told of every run.
    pub(crate) progress: &'b Progress,
}

impl Bench<'_> {
    /// Runs policies in a world, the first of them being the baseline.
    ///
    /// # Errors
    /// If a policy cannot be used there, or the user interrupts.
    pub(crate) fn campaign(
        &self,
        world: &World,
        policies: &[Policy],
        seed: u64,
        runs: RunSet,
    ) -> Result<Campaign, Failure> {
        self.listened(world, policies, seed, runs, self.progress)
    }

    fn listened(
        &self,
        world: &World,
        policies: &[Policy],
        seed: u64,
        runs: RunSet,
        listener: &dyn Listener,
    ) -> Result<Campaign, Failure> {
        self.progress.scenario(world.name());
        self.progress.extend(runs.count * policies.len() as u64);
        let campaign = defect::told(
            || world.campaign(policies, seed, runs, self.work, listener),
            || again(world, policies, seed),
        )??;
        if progress::interrupted() {
            return Err(Failure::Interrupted("nothing was recommended".to_owned()));
        }
        Ok(campaign)
    }
}

/// The command that shows a run of candidates, without policy and run.
fn again(world: &World, policies: &[Policy], seed: u64) -> String {
    // The policies are made here: no file holds them yet.
    let documents: Vec<_> = policies.iter().map(|policy| &policy.document).collect();
    let file = serde_json::json!({ "policy": documents }).to_string();
    let place = match world {
        World::Drawn(scenario) => format!("--scenario {}", shell(&scenario.name)),
        World::Recorded(_) => format!("--traces FILES --source {}", shell(world.name())),
    };
    format!(
        "echo {} > policies.json && holdback explain {place} --seed {seed} --policy-file policies.json",
        shell(&file),
    )
}

/// Candidates in scenarios under one seed.
pub(crate) struct Lab<'l> {
    pub(crate) bench: Bench<'l>,
    pub(crate) worlds: &'l [World],
    pub(crate) grid: &'l Grid,
    pub(crate) goal: Goal,
    pub(crate) seed: u64,
    /// Runs made so far, those of the base included.
    pub(crate) spent: u64,
    /// Evidence and bills of the base by group of runs, by scenario and first run of the batch.
    bases: BTreeMap<(usize, u64), Vec<(f64, f64)>>,
}

impl<'l> Lab<'l> {
    pub(crate) fn new(
        bench: Bench<'l>,
        worlds: &'l [World],
        grid: &'l Grid,
        goal: Goal,
        seed: u64,
    ) -> Lab<'l> {
        Lab {
            bench,
            worlds,
            grid,
            goal,
            seed,
            spent: 0,
            bases: BTreeMap::new(),
        }
    }

    fn base(&mut self, scenario: usize, runs: RunSet) -> Result<Vec<(f64, f64)>, Failure> {
        if !self.goal.needs_base() {
            return Ok(Vec::new());
        }
        if let Some(known) = self.bases.get(&(scenario, runs.first)) {
            return Ok(known.clone());
        }
        let base = std::slice::from_ref(&self.grid.base);
        let campaign = self
            .bench
            .campaign(&self.worlds[scenario], base, self.seed, runs)?;
        self.spent += runs.count;
        let groups = groups(&campaign.cells[0].tally);
        self.bases.insert((scenario, runs.first), groups.clone());
        Ok(groups)
    }
}

impl Trials for Lab<'_> {
    fn scenarios(&self) -> usize {
        self.worlds.len()
    }

    fn candidates(&self) -> usize {
        self.grid.candidates.len()
    }

    fn run(
        &mut self,
        scenario: usize,
        candidate: usize,
        from: u64,
        to: u64,
    ) -> Result<Score, Failure> {
        let runs = RunSet::range(from, to);
        let base = self.base(scenario, runs)?;
        let hits = Hits::new(self.bench.progress, self.goal.reached, runs);
        let policy = std::slice::from_ref(&self.grid.candidates[candidate].policy);
        let campaign =
            self.bench
                .listened(&self.worlds[scenario], policy, self.seed, runs, &hits)?;
        self.spent += runs.count;
        let mut score = score(&campaign.cells[0].tally, &base, &self.goal);
        score.hits = hits
            .words
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(score)
    }
}

/// The score of a tally beside the base's groups, which are empty where nobody needs them.
pub(crate) fn score(tally: &Tally, base: &[(f64, f64)], goal: &Goal) -> Score {
    let reached = match goal.reached {
        Reached::Answered => tally.answered,
        Reached::Delivered => tally.answered + tally.partial,
    };
    let over = goal
        .max_overspend_p99_usd
        .map_or(0, |most| tally.overspend.count_above(units(most)));
    let mut score = Score {
        runs: tally.runs,
        reached,
        within: tally.runs - over,
        ..Score::default()
    };
    for ((evidence, billed), (base_evidence, base_billed)) in groups(tally).into_iter().zip(base) {
        score.evidence.push((evidence, *base_evidence));
        score.billed.push((billed, *base_billed));
    }
    score
}

/// Evidence and bill by group of runs.
pub(crate) fn groups(tally: &Tally) -> Vec<(f64, f64)> {
    let sums = tally.groups.iter().map(|group| group.sums);
    sums.map(|sums| (sums.evidence as f64, sums.billed.to_f64()))
        .collect()
}

fn units(money: Money) -> u64 {
    u64::try_from(money.picos() / PICOS_PER_HISTOGRAM_UNIT).unwrap_or(u64::MAX)
}

/// A study of some policies, as the summaries of reports want it; the first one is the baseline.
pub(crate) fn study(name: &str, policies: Vec<Policy>, seed: u64, runs: u64) -> Study {
    Study {
        name: name.to_owned(),
        summary: None,
        seed,
        runs,
        scenarios: Vec::new(),
        policies,
        skipped: Vec::new(),
        baseline: 0,
        gates: holdback_scenarios::study::Gates::default(),
    }
}

/// Notes which runs reached the target, and passes progress on.
struct Hits<'h> {
    progress: &'h Progress,
    reached: Reached,
    first: u64,
    words: Mutex<Vec<u64>>,
}

impl<'h> Hits<'h> {
    fn new(progress: &'h Progress, reached: Reached, runs: RunSet) -> Hits<'h> {
        Hits {
            progress,
            reached,
            first: runs.first,
            words: Mutex::new(vec![0; runs.count.div_ceil(64) as usize]),
        }
    }
}

impl Listener for Hits<'_> {
    fn done(&self, runs: u64) {
        self.progress.done(runs);
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn rows(&self, _chunk: u64, rows: Vec<Row>) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let reached = match row.record.outcome {
                Outcome::Answered => true,
                Outcome::Partial => self.reached == Reached::Delivered,
                Outcome::Unanswered => false,
            };
            let at = row.run - self.first;
            words[(at / 64) as usize] |= u64::from(reached) << (at % 64);
        }
    }

    fn stopped(&self) -> bool {
        self.progress.stopped()
    }
}
