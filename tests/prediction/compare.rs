//! One split of a source: a scenario of one half beside the replay of the other.

use std::fmt::Write as _;

use holdback_scenarios::calibrate::Observed;
use holdback_scenarios::price::Price;
use holdback_scenarios::trace::{Names, Run};
use holdback_scenarios::{Policy, Scenario, library};
use holdback_sim::campaign::{RunSet, Work};
use holdback_sim::luck::LuckKey;
use holdback_sim::policy::{ToolNames, compile};
use holdback_sim::records::Recorder;
use holdback_sim::tally::Tally;
use holdback_sim::workload::{Prepared, Replay, replay_ledger};

use crate::grid::{Needs, policies};

/// How much is compared.
pub(crate) struct Setup {
    /// Random halves.
    pub(crate) splits: usize,
    /// Simulated runs of each limit.
    pub(crate) runs: u64,
}

/// The runs of a source that can be replayed, with the limits to try.
pub(crate) struct Source<'r> {
    label: &'r str,
    runs: Vec<&'r Run>,
    names: &'r Names,
    policies: Vec<Policy>,
}

/// Runs whose every turn has a cost or, at the price, a computable one.
fn usable<'r>(runs: &'r [Run], price: Option<&Price>) -> Vec<&'r Run> {
    let has_costs = |run: &&Run| {
        !run.turns.is_empty()
            && run
                .turns
                .iter()
                .all(|turn| turn.cost_or_priced(price).is_some())
    };
    runs.iter().filter(has_costs).collect()
}

fn fitted(label: &str, runs: &[&Run], names: &Names) -> Option<(Scenario, Option<Price>)> {
    let mut seen = Observed::default();
    for run in runs {
        seen.add(run, names);
    }
    let found = seen.calibrate(label, None, &library::prices()).ok()?;
    Some((found.scenario, found.price.map(|found| found.price)))
}

impl<'r> Source<'r> {
    pub(crate) fn new(label: &'r str, runs: &'r [Run], names: &'r Names) -> Source<'r> {
        let all: Vec<&Run> = runs.iter().collect();
        let price = fitted(label, &all, names).and_then(|(_, price)| price);
        let runs = usable(runs, price.as_ref());
        let sorted = |of: &dyn Fn(&Run) -> u64| {
            let mut values: Vec<u64> = runs.iter().map(|run| of(run)).collect();
            values.sort_unstable();
            values
        };
        let needs = Needs {
            turns: sorted(&|run| run.turns.len() as u64),
            calls: sorted(&|run| {
                let of_turns = run.turns.iter();
                of_turns.map(|turn| turn.call_count().max(1) as u64).sum()
            }),
            micros: sorted(&|run| {
                let costs = run
                    .turns
                    .iter()
                    .filter_map(|turn| turn.cost_or_priced(price.as_ref()));
                costs.map(|cost| (cost.picos() / 1_000_000) as u64).sum()
            }),
        };
        Source {
            label,
            policies: if runs.is_empty() {
                Vec::new()
            } else {
                policies(&needs)
            },
            runs,
            names,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Calibrates one random half, simulates it, and replays the other.
    pub(crate) fn split(&self, number: usize, setup: &Setup, errors: &mut Errors) {
        let mut order = self.runs.clone();
        shuffle(&mut order, number as u64);
        let (fit, test) = order.split_at(order.len() / 2);
        let (scenario, price) = fitted(self.label, fit, self.names).unwrap();
        let prepared = Prepared::new(&scenario, &self.policies, 1 + number as u64).unwrap();
        let simulated = prepared.campaign(0, RunSet::range(0, setup.runs), Work::on(2), &());

        let mut tools = ToolNames::of_records();
        let ledger = replay_ledger(None, None);
        let compiled: Vec<_> = self
            .policies
            .iter()
            .map(|policy| compile(policy, &mut tools, &ledger).unwrap())
            .collect();
        let mut recorder = Recorder::new(tools, price, false);
        let mut replayed = |runs: &[&Run]| {
            let records: Vec<_> = runs
                .iter()
                .map(|run| recorder.record(run, self.names).unwrap())
                .collect();
            let replay = Replay {
                records: &records,
                offset: 0,
                compliance: 1.0,
                price: None,
                key: LuckKey::new(7, "replay"),
            };
            replay.campaign(&compiled, 0, Work::on(2), &())
        };
        // The fitted half itself, replayed, is what a simulation without any error would predict.
        let (known, replayed) = (replayed(fit), replayed(test));
        errors.runs = self.runs.len();
        for (at, policy) in self.policies.iter().enumerate() {
            errors.add(
                at,
                &policy.name,
                &simulated.cells[at].tally,
                &known.cells[at].tally,
                &replayed.cells[at].tally,
            );
        }
    }
}

/// Fisher-Yates by a linear congruential generator (Knuth's MMIX constants).
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66;
    for last in (1..items.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, ((state >> 33) as usize) % (last + 1));
    }
}

/// Simulated minus replayed, over the splits and limits of a source.
#[derive(Default)]
pub(crate) struct Errors {
    pub(crate) runs: usize,
    limits: Vec<Limit>,
}

/// Sums over the splits, for one way of setting the limits.
#[derive(Default)]
struct Limit {
    name: String,
    splits: usize,
    within: usize,
    answered: [f64; 2],
    /// Answered runs of the fitted half, replayed.
    known: f64,
    worst: f64,
    overspent: [f64; 2],
    calls: [f64; 2],
    steps: [f64; 2],
    mean: [f64; 2],
    quantiles: [[f64; 2]; 3],
}

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

impl Errors {
    pub(crate) const HEAD: &'static str = "\
| source | runs | points | within the aim | answered, mean error | of it luck | largest | overspend rate | tool calls | cost mean | p50 | p90 | p99 |
|---|---|---|---|---|---|---|---|---|---|---|---|---|";

    fn add(&mut self, at: usize, name: &str, simulated: &Tally, known: &Tally, replayed: &Tally) {
        if self.limits.len() <= at {
            self.limits.push(Limit {
                name: name.to_owned(),
                ..Limit::default()
            });
        }
        let limit = &mut self.limits[at];
        let both = |of: &dyn Fn(&Tally) -> f64| [of(simulated), of(replayed)];
        let rates = both(&|tally| tally.answered as f64 / tally.runs as f64);
        let overspent = both(&|tally| tally.overspent as f64 / tally.capped.max(1) as f64);
        let calls = both(&|tally| tally.sums.tool_calls as f64 / tally.runs as f64);
        let steps = both(&|tally| tally.sums.steps as f64 / tally.runs as f64);
        let mean = both(&|tally| tally.sums.billed.picos() as f64 / tally.runs as f64 / 1e12);
        let error = 100.0 * (rates[0] - rates[1]);
        // The rate p is not known; the mean of both stands for it.
        let p = (rates[0] + rates[1]) / 2.0;
        let of_halves = 1.0 / known.runs as f64 + 1.0 / replayed.runs as f64;
        let allowed = 2.0 + 196.0 * (p * (1.0 - p) * of_halves).sqrt();
        limit.splits += 1;
        limit.known += known.answered as f64 / known.runs as f64;
        limit.within += usize::from(error.abs() <= allowed);
        limit.worst = if error.abs() > limit.worst.abs() {
            error
        } else {
            limit.worst
        };
        for side in 0..2 {
            limit.answered[side] += rates[side];
            limit.overspent[side] += overspent[side];
            limit.calls[side] += calls[side];
            limit.steps[side] += steps[side];
            limit.mean[side] += mean[side];
        }
        for (sums, share) in limit.quantiles.iter_mut().zip(QUANTILES) {
            let at = both(&|tally| tally.billed.quantile(share).unwrap_or(0) as f64 / 1e9);
            sums[0] += at[0];
            sums[1] += at[1];
        }
    }

    pub(crate) fn points(&self) -> usize {
        self.limits.iter().map(|limit| limit.splits).sum()
    }

    /// The share of points within two points and the sampling error of both halves.
    pub(crate) fn within(&self) -> f64 {
        let within: usize = self.limits.iter().map(|limit| limit.within).sum();
        within as f64 / self.points() as f64
    }

    /// Mean of simulated minus replayed answered rate, in percentage points.
    pub(crate) fn mean_signed(&self) -> f64 {
        let sum: f64 = self
            .limits
            .iter()
            .map(|limit| difference(limit.answered))
            .sum();
        100.0 * sum / self.points() as f64
    }

    /// As `mean_signed`, if the fitted halves themselves were what is simulated: the luck of the splits.
    pub(crate) fn mean_luck(&self) -> f64 {
        let luck = |limit: &Limit| limit.known - limit.answered[1];
        100.0 * self.limits.iter().map(luck).sum::<f64>() / self.points() as f64
    }

    pub(crate) fn row(&self, label: &str) -> String {
        let points = self.points() as f64;
        let worst = self.limits.iter().fold(0.0_f64, |worst, limit| {
            if limit.worst.abs() > worst.abs() {
                limit.worst
            } else {
                worst
            }
        });
        let overspent: f64 = self
            .limits
            .iter()
            .map(|limit| difference(limit.overspent))
            .sum();
        let ratio = |of: &dyn Fn(&Limit) -> [f64; 2]| {
            let ratios = self.limits.iter().map(|limit| of(limit)[0] / of(limit)[1]);
            100.0 * (ratios.sum::<f64>() / self.limits.len() as f64 - 1.0)
        };
        let mut row = format!(
            "| {label} | {} | {points} | {:.1}% | {:+.2} pp | {:+.2} pp | {worst:+.1} pp | {:+.2} pp | {:+.1}% | {:+.1}% |",
            self.runs,
            100.0 * self.within(),
            self.mean_signed(),
            self.mean_luck(),
            100.0 * overspent / points,
            ratio(&|limit| limit.calls),
            ratio(&|limit| limit.mean),
        );
        for at in 0..QUANTILES.len() {
            let _ = write!(row, " {:+.1}% |", ratio(&|limit| limit.quantiles[at]));
        }
        row
    }

    /// A row a limit: simulated / replayed means over the splits, of the answered rate with that of the
    /// fitted half, replayed, in between.
    pub(crate) fn by_limit(&self) -> String {
        let mut text = "\
| limit | within | answered | worst | overspend rate | steps | tool calls | cost mean | p50 | p90 | p99 |
|---|---|---|---|---|---|---|---|---|---|---|
"
        .to_owned();
        for limit in &self.limits {
            let n = limit.splits as f64;
            let percent =
                |pair: [f64; 2]| format!("{:.1} / {:.1}", 100.0 * pair[0] / n, 100.0 * pair[1] / n);
            let answered = |limit: &Limit| {
                let [simulated, replayed] = limit.answered;
                let rates = [simulated, limit.known, replayed].map(|sum| 100.0 * sum / n);
                format!("{:.1} / {:.1} / {:.1}", rates[0], rates[1], rates[2])
            };
            let number = |pair: [f64; 2]| format!("{:.1} / {:.1}", pair[0] / n, pair[1] / n);
            let money = |pair: [f64; 2]| format!("{:.4} / {:.4}", pair[0] / n, pair[1] / n);
            let _ = writeln!(
                text,
                "| {} | {}/{} | {} | {:+.1} | {} | {} | {} | {} | {} | {} | {} |",
                limit.name,
                limit.within,
                limit.splits,
                answered(limit),
                limit.worst,
                percent(limit.overspent),
                number(limit.steps),
                number(limit.calls),
                money(limit.mean),
                money(limit.quantiles[0]),
                money(limit.quantiles[1]),
                money(limit.quantiles[2]),
            );
        }
        text
    }
}

fn difference(pair: [f64; 2]) -> f64 {
    pair[0] - pair[1]
}
