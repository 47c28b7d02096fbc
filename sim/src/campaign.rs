//! A campaign: many runs of one workload under several policies, on all cores.
//!
//! Workers take chunks of run numbers from a counter, keep tallies of their own and merge them at the
//! end. Tallies commute, so neither the number of threads nor their timing can be seen in a result.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::driver::Witness;
use crate::policy::CompiledPolicy;
use crate::runner::Runner;
use crate::sharing::{Order, Team};
use crate::tally::{GROUPS, Noted, Outcome, Pairs, RunRecord, Tally};
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

    /// False for what no campaign can bring: such a one comes from a file that is none of ours.
    pub(crate) fn is_sound(&self) -> bool {
        self.twin_groups.len() == GROUPS && self.cells.iter().all(|cell| cell.tally.is_sound())
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

/// How a campaign is worked on; its result does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Threads.
    pub threads: usize,
    /// Policies that differ in limits alone share the past of a run until a limit tells them apart.
    pub sharing: bool,
}

impl Work {
    /// On so many threads, sharing what can be shared.
    pub const fn on(threads: usize) -> Work {
        Work {
            threads,
            sharing: true,
        }
    }
}

/// Runs a workload under all policies, paired run by run.
///
/// # Panics
/// If an assertion fails in a run: unwinds with the [`Defect`].
pub fn campaign<L: Workload>(
    workload: &L,
    policies: &[CompiledPolicy],
    baseline: usize,
    runs: RunSet,
    work: Work,
    listener: &dyn Listener,
) -> Campaign {
    let threads = work.threads.max(1);
    let chunk = (runs.count / (threads as u64 * 8)).clamp(1, CHUNK);
    let order = if work.sharing {
        Order::sharing(policies)
    } else {
        Order::apart(policies.len())
    };
    let next = AtomicU64::new(0);
    let is_broken = AtomicBool::new(false);
    let total = Mutex::new(Campaign::empty(policies.len()));
    let work = || {
        let mut worker = Worker::new(workload, policies, &order, baseline);
        while !listener.stopped() && !is_broken.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let from = index.saturating_mul(chunk);
            if from >= runs.count {
                break;
            }
            let to = (from + chunk).min(runs.count);
            let runs = (from..to).map(|at| runs.run(at));
            // The worker is given up if it unwinds, so nothing of it is seen half changed.
            let done = catch_unwind(AssertUnwindSafe(|| worker.chunk(index, runs, listener)));
            if let Err(payload) = done {
                is_broken.store(true, Ordering::Relaxed);
                return Err(worker.defect(payload.as_ref()));
            }
        }
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.merge(&worker.finish());
        Ok(())
    };
    let results: Vec<Result<(), Defect>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|payload| resume_unwind(payload))
            })
            .collect()
    });
    if let Some(defect) = results.into_iter().find_map(Result::err) {
        resume_unwind(Box::new(defect));
    }
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A defect that a run brought to light, and which run: what [`campaign`] unwinds with if an assertion
/// fails in one of its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The policy's name; `None` in the run without any engine.
    pub policy: Option<String>,
    /// The run's number.
    pub run: u64,
    /// What failed.
    pub message: String,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}", self.run)?;
        if let Some(policy) = &self.policy {
            write!(f, " under policy `{policy}`")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A thread's share of a campaign.
struct Worker<'c, L: Workload> {
    workload: &'c L,
    policies: &'c [CompiledPolicy],
    order: &'c Order,
    /// Place of the baseline in the order.
    baseline: usize,
    world: L::World,
    teams: Vec<Team<'c, L::World>>,
    chunk: Chunk,
    /// In the order of the policies that is worked in. Within a group each cell counts what is
    /// different from the cell before it, until [`Worker::finish`].
    campaign: Campaign,
    /// The run in progress, and the places of the policies that are driven; none in the twin.
    at: (u64, Range<usize>),
}

/// What the runs of a chunk brought. It is counted cell by cell, for the sums of a cell are large.
#[derive(Default)]
struct Chunk {
    runs: Vec<u64>,
    /// The different records of all runs.
    records: Vec<RunRecord>,
    noted: Vec<Noted>,
    /// Which of them belongs to a policy: run by run, and in each run in the order.
    of: Vec<u32>,
}

impl<'c, L: Workload> Worker<'c, L> {
    fn new(
        workload: &'c L,
        policies: &'c [CompiledPolicy],
        order: &'c Order,
        baseline: usize,
    ) -> Self {
        let groups = order.groups.iter();
        let place = order.policies.iter().position(|at| *at == baseline);
        Worker {
            workload,
            policies,
            order,
            baseline: place.unwrap_or(0),
            world: workload.world(),
            teams: groups
                .map(|group| Team::new(policies, &order.policies[group.clone()]))
                .collect(),
            chunk: Chunk::default(),
            campaign: Campaign::empty(policies.len()),
            at: (0, 0..0),
        }
    }

    /// What is told of a panic in the run in progress. Which of the policies that share it breaks is
    /// found by driving each alone; if none does alone, the first is named.
    fn defect(&self, payload: &(dyn Any + Send)) -> Defect {
        let (run, driven) = (self.at.0, &self.order.policies[self.at.1.clone()]);
        let breaks_alone = |policy: &&usize| {
            let alone = || watch(self.workload, &self.policies[**policy], run, &mut ());
            catch_unwind(AssertUnwindSafe(alone)).is_err()
        };
        let policy = match driven {
            [] | [_] => driven.first(),
            _ => driven.iter().find(breaks_alone).or(driven.first()),
        };
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Defect {
            policy: policy.map(|at| self.policies[*at].name.clone()),
            run,
            message: text.unwrap_or_else(|| "it panicked".to_owned()),
        }
    }

    fn chunk(&mut self, index: u64, runs: impl Iterator<Item = u64>, listener: &dyn Listener) {
        self.chunk.runs.clear();
        self.chunk.records.clear();
        self.chunk.noted.clear();
        self.chunk.of.clear();
        for run in runs {
            self.run(run);
        }
        self.count();
        if listener.wants_rows() {
            listener.rows(index, self.rows());
        }
        listener.done(self.chunk.of.len() as u64);
    }

    fn run(&mut self, run: u64) {
        self.workload.select(&mut self.world, run);
        let Chunk {
            runs,
            records,
            noted,
            of,
        } = &mut self.chunk;
        let (first, from) = (records.len(), of.len());
        runs.push(run);
        of.resize(from + self.order.policies.len(), 0);
        for (team, group) in self.teams.iter_mut().zip(&self.order.groups) {
            self.at = (run, group.clone());
            let of = &mut of[from + group.start..from + group.end];
            team.run(&mut self.world, run, |record, members| {
                for member in members {
                    of[*member] = records.len() as u32;
                }
                records.push(*record);
                noted.push(Noted::of(run, record));
            });
        }
        self.at = (run, 0..0);
        // A run that answered and in which no policy could be noticed is its own twin.
        let untouched = |record: &&RunRecord| record.untouched && is_answered(record);
        let twin = match records[first..].iter().find(untouched) {
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

    /// Counts the chunk. A record that belongs to neighbours is counted in the first of them and
    /// taken back in the one behind the last.
    fn count(&mut self) {
        let Chunk {
            runs,
            records,
            noted,
            of,
        } = &self.chunk;
        let width = self.order.policies.len();
        for group in &self.order.groups {
            for place in group.clone() {
                let cell = &mut self.campaign.cells[place];
                let mut notes: Option<Noted> = None;
                for (run, of) in runs.iter().zip(of.chunks_exact(width)) {
                    let own = of[place];
                    let here = is_answered(&records[own as usize]);
                    let there = is_answered(&records[of[self.baseline] as usize]);
                    let before = (place > group.start).then(|| of[place - 1]);
                    if before != Some(own) {
                        cell.tally.count(*run, &records[own as usize]);
                        cell.pairs.count(here, there);
                        if let Some(before) = before {
                            let before = &records[before as usize];
                            cell.tally.uncount(*run, before);
                            cell.pairs.uncount(is_answered(before), there);
                        }
                    }
                    cell.pairs.note(*run, here, there);
                    match &mut notes {
                        Some(notes) => notes.absorb(&noted[own as usize]),
                        None => notes = Some(noted[own as usize]),
                    }
                }
                if let Some(notes) = notes {
                    cell.tally.note(&notes);
                }
            }
        }
    }

    /// The records of the chunk in the order of the policies.
    fn rows(&self) -> Vec<Row> {
        let Chunk {
            runs, records, of, ..
        } = &self.chunk;
        let width = self.order.policies.len();
        let mut place_of = vec![0; width];
        for (place, policy) in self.order.policies.iter().enumerate() {
            place_of[*policy] = place;
        }
        let mut rows = Vec::with_capacity(of.len());
        for (run, of) in runs.iter().zip(of.chunks_exact(width)) {
            rows.extend(place_of.iter().enumerate().map(|(policy, place)| Row {
                policy,
                run: *run,
                record: records[of[*place] as usize],
            }));
        }
        rows
    }

    /// The share in the order of the policies, each cell with all that it counts.
    fn finish(mut self) -> Campaign {
        let cells = &mut self.campaign.cells;
        for group in &self.order.groups {
            for place in group.clone() {
                if place > group.start {
                    let (before, rest) = cells.split_at_mut(place);
                    rest[0].tally.count_all_of(&before[place - 1].tally);
                    rest[0].pairs.count_all_of(&before[place - 1].pairs);
                }
            }
        }
        cells.iter_mut().for_each(|cell| cell.tally.complete());
        let mut ordered: Vec<_> = self.order.policies.iter().zip(cells.drain(..)).collect();
        ordered.sort_by_key(|(policy, _)| **policy);
        Campaign {
            cells: ordered.into_iter().map(|(_, cell)| cell).collect(),
            ..self.campaign
        }
    }
}

fn is_answered(record: &RunRecord) -> bool {
    record.outcome == Outcome::Answered
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

#[cfg(test)]
mod tests {
    use holdback_scenarios::{library, read};

    use super::*;
    use crate::luck::LuckKey;
    use crate::policy::{ToolNames, compile};
    use crate::workload::replay_ledger;
    use crate::world::{Compiled, Synthetic};

    /// A scenario in which one run breaks.
    struct Breaking {
        compiled: Compiled,
        breaks_at: u64,
    }

    impl<'s> Workload for &'s Breaking {
        type World = Synthetic<'s>;

        fn world(&self) -> Synthetic<'s> {
            Synthetic::new(&self.compiled, LuckKey::new(7, "breaking"))
        }

        fn select(&self, _world: &mut Synthetic<'s>, _run: u64) {}

        fn twin_is_a_run(&self) -> bool {
            false
        }

        fn twin(&self, _world: &mut Synthetic<'s>, run: u64) -> Option<u64> {
            assert!(run != self.breaks_at, "{run} cannot be");
            Some(0)
        }
    }

    fn breaking(breaks_at: u64) -> Result<Campaign, Box<dyn Any + Send>> {
        let scenarios = library::scenarios();
        let workload = Breaking {
            compiled: Compiled::new(&scenarios[0]),
            breaks_at,
        };
        let policy = read::policy_from_toml("test", "name = \"p\"\nlimits = { max_steps = 3 }");
        let ledger = replay_ledger(None, None);
        let policy = compile(
            &policy.unwrap(),
            &mut ToolNames::new(&scenarios[0]),
            &ledger,
        );
        let policies = [policy.unwrap()];
        catch_unwind(AssertUnwindSafe(|| {
            campaign(
                &&workload,
                &policies,
                0,
                RunSet::range(0, 500),
                Work::on(3),
                &(),
            )
        }))
    }

    #[test]
    fn a_run_that_breaks_an_assertion_is_named_by_the_campaign() {
        let defect = breaking(321).unwrap_err().downcast::<Defect>().unwrap();
        assert_eq!(
            *defect,
            Defect {
                policy: None,
                run: 321,
                message: "321 cannot be".to_owned()
            }
        );
        assert_eq!(breaking(1000).unwrap().cells[0].tally.runs, 500);
    }
}
