//! A campaign: many runs of one workload under several policies, on all cores.
//!
//! Workers take chunks of run numbers from a counter, keep tallies of their own and merge them at the
//! end. Tallies commute, so neither the number of threads nor their timing can be seen in a result.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::driver::Witness;
use crate::policy::CompiledPolicy;
use crate::runner::Runner;
use crate::tally::{GROUPS, Outcome, Pairs, RunRecord, Tally};
use crate::world::World;

/// Runs that a worker takes at a time, at most.
const CHUNK: u64 = 256;

/// Where runs come from: makes the worlds in which they happen.
pub trait Workload: Sync {
    /// The world of this workload.
    type World: World;

    /// A world for one worker.
    fn world(&self) -> Self::World;

    /// Prepares the world for a run; for workloads whose runs differ by more than their luck.
    fn select(&self, world: &mut Self::World, run: u64);

    /// True if the twin of a run is the run without any engine, so that a run in which no policy could
    /// be noticed is its own twin.
    fn twin_is_a_run(&self) -> bool {
        true
    }

    /// Novel results that the run gathers without any engine; `None` if there is no end to it.
    fn twin(&self, world: &mut Self::World, run: u64) -> Option<u64>;
}

/// The run numbers `first`, `first + step`, ... (`count` of them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSet {
    /// The first run number.
    pub first: u64,
    /// The distance between run numbers, at least 1.
    pub step: u64,
    /// How many runs.
    pub count: u64,
}

impl RunSet {
    /// Runs `from..to`.
    pub fn range(from: u64, to: u64) -> RunSet {
        RunSet {
            first: from,
            step: 1,
            count: to.saturating_sub(from),
        }
    }

    /// The runs of shard `shard` (from 0) of `shards` out of `0..runs`: every `shards`-th.
    pub fn shard(shard: u64, shards: u64, runs: u64) -> RunSet {
        RunSet {
            first: shard,
            step: shards,
            count: (runs.saturating_sub(shard)).div_ceil(shards),
        }
    }

    fn run(&self, index: u64) -> u64 {
        self.first + index * self.step
    }
}

/// One workload under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellTally {
    /// What was measured.
    pub tally: Tally,
    /// Against the baseline, run by run.
    pub pairs: Pairs,
}

/// What a campaign brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// One cell a policy, in the order of the policies.
    pub cells: Vec<CellTally>,
    /// What the same runs gather without any engine, over all runs.
    pub twin_evidence: u64,
    /// The same by group of runs (run number modulo [`GROUPS`]), for intervals.
    pub twin_groups: Vec<u64>,
    /// Runs whose twin has no end; then kept evidence has no meaning.
    pub twins_without_end: u64,
}

impl Campaign {
    /// A campaign without runs.
    pub fn empty(policies: usize) -> Campaign {
        let cell = || CellTally {
            tally: Tally::new(),
            pairs: Pairs::default(),
        };
        Campaign {
            cells: std::iter::repeat_with(cell).take(policies).collect(),
            twin_evidence: 0,
            twin_groups: vec![0; GROUPS],
            twins_without_end: 0,
        }
    }

    /// Adds other runs of the same workload and policies.
    pub fn merge(&mut self, other: &Campaign) {
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            mine.tally.merge(&theirs.tally);
            mine.pairs.merge(&theirs.pairs);
        }
        self.twin_evidence += other.twin_evidence;
        for (mine, theirs) in self.twin_groups.iter_mut().zip(&other.twin_groups) {
            *mine += theirs;
        }
        self.twins_without_end += other.twins_without_end;
    }
}

/// Listens to a campaign and may stop it.
pub trait Listener: Sync {
    /// Runs (policies counted apart) have been done since the last call.
    fn done(&self, _runs: u64) {}

    /// True if [`Listener::rows`] wants each run.
    fn wants_rows(&self) -> bool {
        false
    }

    /// The records of a chunk, run by run and in each run policy by policy. Chunks are numbered from
    /// 0 without gaps and come in any order.
    fn rows(&self, _chunk: u64, _rows: Vec<Row>) {}

    /// True if the campaign should stop as soon as it can; its result is then worthless.
    fn stopped(&self) -> bool {
        false
    }
}

impl Listener for () {}

/// One run under one policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Position of the policy.
    pub policy: usize,
    /// Run number.
    pub run: u64,
    /// What was measured.
    pub record: RunRecord,
}

/// Runs a workload under all policies, paired run by run, on `threads` threads.
pub fn campaign<L: Workload>(
    workload: &L,
    policies: &[CompiledPolicy],
    baseline: usize,
    runs: RunSet,
    threads: usize,
    listener: &dyn Listener,
) -> Campaign {
    let chunk = (runs.count / (threads.max(1) as u64 * 8)).clamp(1, CHUNK);
    let next = AtomicU64::new(0);
    let total = Mutex::new(Campaign::empty(policies.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut worker = Worker::new(workload, policies, baseline);
                while !listener.stopped() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let from = index.saturating_mul(chunk);
                    if from >= runs.count {
                        break;
                    }
                    let to = (from + chunk).min(runs.count);
                    worker.chunk(index, (from..to).map(|at| runs.run(at)), listener);
                }
                // Poisoned only if another worker panicked, and then the scope panics as well.
                if let Ok(mut total) = total.lock() {
                    total.merge(&worker.campaign);
                }
            });
        }
    });
    total
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A thread's share of a campaign.
struct Worker<'c, L: Workload> {
    workload: &'c L,
    policies: &'c [CompiledPolicy],
    baseline: usize,
    world: L::World,
    runners: Vec<Runner<<L::World as World>::Mark>>,
    records: Vec<RunRecord>,
    campaign: Campaign,
}

impl<'c, L: Workload> Worker<'c, L> {
    fn new(workload: &'c L, policies: &'c [CompiledPolicy], baseline: usize) -> Self {
        Worker {
            workload,
            policies,
            baseline,
            world: workload.world(),
            runners: policies.iter().map(Runner::new).collect(),
            records: Vec::with_capacity(policies.len()),
            campaign: Campaign::empty(policies.len()),
        }
    }

    fn chunk(&mut self, index: u64, runs: impl Iterator<Item = u64>, listener: &dyn Listener) {
        let mut rows = Vec::new();
        let mut done = 0;
        for run in runs {
            self.run(run);
            done += self.policies.len() as u64;
            if listener.wants_rows() {
                let row = |(policy, record): (usize, &RunRecord)| Row {
                    policy,
                    run,
                    record: *record,
                };
                rows.extend(self.records.iter().enumerate().map(row));
            }
        }
        if listener.wants_rows() {
            listener.rows(index, rows);
        }
        listener.done(done);
    }

    fn run(&mut self, run: u64) {
        self.workload.select(&mut self.world, run);
        self.records.clear();
        for (policy, runner) in self.policies.iter().zip(&mut self.runners) {
            let record = runner.run(policy, &mut self.world, run, &mut ());
            self.records.push(record);
        }
        let answered = |record: &RunRecord| record.outcome == Outcome::Answered;
        let there = self.records.get(self.baseline).is_some_and(answered);
        for (cell, record) in self.campaign.cells.iter_mut().zip(&self.records) {
            cell.tally.add(run, record);
            cell.pairs.add(run, answered(record), there);
        }
        // A run that answered and in which no policy could be noticed is its own twin.
        let untouched = |record: &&RunRecord| record.untouched && answered(record);
        let twin = match self.records.iter().find(untouched) {
            Some(record) if self.workload.twin_is_a_run() => Some(record.evidence),
            _ => self.workload.twin(&mut self.world, run),
        };
        match twin {
            Some(evidence) => {
                self.campaign.twin_evidence += evidence;
                self.campaign.twin_groups[(run % GROUPS as u64) as usize] += evidence;
            }
            None => self.campaign.twins_without_end += 1,
        }
    }
}

/// Runs one run under one policy before a witness.
pub fn watch<L: Workload, T: Witness>(
    workload: &L,
    policy: &CompiledPolicy,
    run: u64,
    witness: &mut T,
) -> RunRecord {
    let mut world = workload.world();
    workload.select(&mut world, run);
    Runner::new(policy).run(policy, &mut world, run, witness)
}
