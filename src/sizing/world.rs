//! What candidates are tried in: a scenario, or the recorded runs of a source.

use std::collections::{BTreeMap, BTreeSet};

use holdback_engine::Money;
use holdback_reports::study::{ScenarioInfo, Twin};
use holdback_scenarios::Scenario;
use holdback_scenarios::import::{InputTokens, Traces};
use holdback_scenarios::policy::Policy;
use holdback_scenarios::price::Price;
use holdback_scenarios::scenario::Probability;
use holdback_sim::campaign::{Campaign, Listener, RunSet, Work};
use holdback_sim::luck::{Luck, LuckKey};
use holdback_sim::policy::{CompileError, ToolNames, compile};
use holdback_sim::records::{LeftOut, Recorder};
use holdback_sim::workload::{Prepared, Replay, replay_ledger};
use holdback_sim::world::Record;

use crate::commands::study::{cells, scenario_info};
use crate::failure::Failure;

/// One of the workloads that the limits must serve.
#[derive(Clone, Debug)]
pub(crate) enum World {
    /// As many runs as wanted.
    Drawn(Box<Scenario>),
    /// So many runs and no more.
    Recorded(Recorded),
}

/// Recorded runs of one source.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    source: String,
    records: Vec<Record>,
    /// Tools as the policy names them.
    names: ToolNames,
    compliance: f64,
    price: Option<Price>,
}

impl World {
    pub(crate) fn name(&self) -> &str {
        match self {
            World::Drawn(scenario) => &scenario.name,
            World::Recorded(recorded) => &recorded.source,
        }
    }

    /// The scenario, unless runs are recorded.
    pub(crate) fn scenario(&self) -> Option<&Scenario> {
        match self {
            World::Drawn(scenario) => Some(scenario),
            World::Recorded(_) => None,
        }
    }

    /// How many runs there are where so many are wanted.
    pub(crate) fn runs(&self, wanted: u64) -> u64 {
        match self {
            World::Drawn(_) => wanted,
            World::Recorded(recorded) => recorded.records.len() as u64,
        }
    }

    /// Runs policies, the first of them being the baseline. Of recorded runs `seed` decides only about
    /// obedience.
    ///
    /// # Errors
    /// If a policy cannot be used here.
    pub(crate) fn campaign(
        &self,
        policies: &[Policy],
        seed: u64,
        runs: RunSet,
        work: Work,
        listener: &dyn Listener,
    ) -> Result<Campaign, CompileError> {
        match self {
            World::Drawn(scenario) => {
                let prepared = Prepared::new(scenario, policies, seed)?;
                Ok(prepared.campaign(0, runs, work, listener))
            }
            World::Recorded(recorded) => recorded.campaign(policies, seed, runs, work, listener),
        }
    }

    /// The same with chances of obeying that are lower by so much.
    pub(crate) fn less_compliant(&self, by: f64) -> World {
        match self {
            World::Drawn(scenario) => World::Drawn(Box::new(less_compliant(scenario, by))),
            World::Recorded(recorded) => World::Recorded(Recorded {
                compliance: (recorded.compliance - by).max(0.0),
                ..recorded.clone()
            }),
        }
    }

    /// The same with every model call at twice its price; `None` where a script states costs.
    pub(crate) fn twice_as_dear(&self) -> Option<World> {
        match self {
            World::Drawn(scenario) => Some(World::Drawn(Box::new(twice_as_dear(scenario)?))),
            World::Recorded(recorded) => {
                let mut changed = recorded.clone();
                for turn in changed.records.iter_mut().flat_map(|run| &mut run.turns) {
                    turn.cost = turn.cost.times(2);
                }
                changed.price = changed.price.as_ref().map(doubled);
                Some(World::Recorded(changed))
            }
        }
    }

    /// What reports say about a campaign here.
    pub(crate) fn info(
        &self,
        study: &holdback_scenarios::Study,
        campaign: Campaign,
        runs: u64,
    ) -> ScenarioInfo {
        match self {
            World::Drawn(scenario) => scenario_info(scenario, study, campaign, runs),
            World::Recorded(recorded) => ScenarioInfo {
                name: recorded.source.clone(),
                summary: format!("{runs} recorded runs, played again"),
                definition: serde_json::Value::Null,
                budget: None,
                runs,
                explain: String::new(),
                left_out: BTreeMap::new(),
                twin: Some(Twin {
                    evidence: campaign.twin_evidence,
                    groups: campaign.twin_groups,
                }),
                cells: cells(&study.policies, study.baseline, campaign.cells, |_| None),
            },
        }
    }
}

impl Recorded {
    fn campaign(
        &self,
        policies: &[Policy],
        seed: u64,
        runs: RunSet,
        work: Work,
        listener: &dyn Listener,
    ) -> Result<Campaign, CompileError> {
        let mut names = self.names.clone();
        let ledger = replay_ledger(self.price, None);
        let compiled = policies
            .iter()
            .map(|policy| compile(policy, &mut names, &ledger))
            .collect::<Result<Vec<_>, _>>()?;
        let range = runs.first as usize..(runs.first + runs.count) as usize;
        let replay = Replay {
            records: &self.records[range],
            offset: runs.first,
            compliance: self.compliance,
            price: self.price,
            key: LuckKey::new(seed, "replay"),
        };
        Ok(replay.campaign(&compiled, 0, work, listener))
    }

    /// Two halves at random, the first for the search and the second, which may be one larger, for
    /// the proof.
    fn halves(self, seed: u64) -> [World; 2] {
        let mut luck = Luck::new(LuckKey::new(seed, "halves of recorded runs"));
        let mut order: Vec<(u32, usize)> = (0..self.records.len())
            .map(|at| (luck.start(at as u64)[0], at))
            .collect();
        order.sort_unstable();
        let (search, proof) = order.split_at(order.len() / 2);
        [search, proof].map(|half| {
            let records = half.iter().map(|(_, at)| self.records[*at].clone());
            World::Recorded(Recorded {
                records: records.collect(),
                source: self.source.clone(),
                names: self.names.clone(),
                ..self
            })
        })
    }
}

/// Which recorded runs are meant, and how they are played.
pub(crate) struct Question<'q> {
    pub(crate) traces: Vec<Traces>,
    pub(crate) source: Option<&'q str>,
    pub(crate) price: Option<Price>,
    pub(crate) compliance: f64,
    pub(crate) policy: &'q Policy,
    pub(crate) seed: u64,
}

/// Recorded runs, source by source, in halves.
pub(crate) struct Halves {
    /// What the search sees.
    pub(crate) search: Vec<World>,
    /// What only the proof sees.
    pub(crate) proof: Vec<World>,
    /// The labels of all sources, wanted or not.
    pub(crate) sources: BTreeSet<String>,
    /// What was left out or should be known, one line each.
    pub(crate) remarks: Vec<String>,
}

impl Question<'_> {
    /// Reads the runs and parts them.
    ///
    /// # Errors
    /// Traces that cannot be read; a policy that cannot be used with recorded runs.
    pub(crate) fn halves(self) -> Result<Halves, Failure> {
        let mut names = ToolNames::of_records();
        compile(self.policy, &mut names, &replay_ledger(self.price, None))?;
        let mut recorder = Recorder::new(names.clone(), self.price, false);
        let mut sources: BTreeMap<String, Vec<Record>> = BTreeMap::new();
        let mut left_out: BTreeMap<(String, LeftOut), u64> = BTreeMap::new();
        let mut remarks = Vec::new();
        let mut labels = BTreeSet::new();
        for mut traces in self.traces {
            recorder.forget_names();
            while let Some(run) = traces.next_run()? {
                let source = traces.names().get(run.source);
                if !labels.contains(source) {
                    labels.insert(source.to_owned());
                }
                if self.source.is_some_and(|wanted| wanted != source) {
                    continue;
                }
                let source = source.to_owned();
                match recorder.record(&run, traces.names()) {
                    Ok(record) => sources.entry(source).or_default().push(record),
                    Err(reason) => *left_out.entry((source, reason)).or_default() += 1,
                }
            }
            remarks.extend_from_slice(traces.remarks());
        }
        for ((source, reason), runs) in left_out {
            remarks.push(format!(
                "{source}: {runs} runs left out: {}",
                reason.as_str()
            ));
        }
        let (mut search, mut proof) = (Vec::new(), Vec::new());
        for (source, records) in sources {
            let all = Recorded {
                source,
                records,
                names: names.clone(),
                compliance: self.compliance,
                price: self.price,
            };
            let [seen, unseen] = all.halves(self.seed);
            search.push(seen);
            proof.push(unseen);
        }
        Ok(Halves {
            search,
            proof,
            sources: labels,
            remarks,
        })
    }
}

/// Opens every file.
///
/// # Errors
/// The first one that cannot be read.
pub(crate) fn open(
    files: &[std::path::PathBuf],
    input_tokens: InputTokens,
) -> Result<Vec<Traces>, Failure> {
    let open = |path: &std::path::PathBuf| Ok(Traces::open(path, input_tokens)?);
    files.iter().map(open).collect()
}

fn less_compliant(scenario: &Scenario, points: f64) -> Scenario {
    let mut changed = scenario.clone();
    let chances = &mut changed.model.compliance;
    for chance in [
        &mut chances.synthesis_only,
        &mut chances.tools_withheld,
        &mut chances.budget_notice,
        &mut chances.window,
    ] {
        *chance = Probability::new((chance.get() - points).max(0.0)).unwrap_or(Probability::NEVER);
    }
    changed
}

/// `None` where the model has no price to double.
fn twice_as_dear(scenario: &Scenario) -> Option<Scenario> {
    let mut changed = scenario.clone();
    changed.model.price = Some(doubled(&scenario.model.price?));
    if let Some(long) = &mut changed.model.long_context {
        long.price = doubled(&long.price);
    }
    Some(changed)
}

fn doubled(price: &Price) -> Price {
    let twice = |rate: Money| rate.times(2);
    Price {
        input: twice(price.input),
        cached_input: twice(price.cached_input),
        cache_write: twice(price.cache_write),
        output: twice(price.output),
    }
}
