//! Workloads: scenarios and recorded runs, made ready for campaigns.

use holdback_engine::Money;
use holdback_scenarios::price::Price;
use holdback_scenarios::script::{Act, Bill, Script, ScriptTurn};
use holdback_scenarios::{Policy, Scenario};

use crate::campaign::{Campaign, Listener, RunSet, Work, Workload, campaign};
use crate::luck::LuckKey;
use crate::policy::{CompileError, CompiledPolicy, Ledger, ToolNames, compile};
use crate::world::{Compiled, Record, Recorded, Scripted, Synthetic, twin_evidence};

/// A scenario made ready, with all policies compiled for it.
#[derive(Debug)]
pub struct Prepared<'s> {
    scenario: &'s Scenario,
    compiled: Compiled,
    names: ToolNames,
    key: LuckKey,
    ledger: Ledger,
    policies: Vec<CompiledPolicy>,
}

impl<'s> Prepared<'s> {
    /// Compiles a scenario under a seed, and the policies for it.
    ///
    /// # Errors
    /// If a policy cannot be used with the scenario.
    pub fn new(
        scenario: &'s Scenario,
        policies: &[Policy],
        seed: u64,
    ) -> Result<Prepared<'s>, CompileError> {
        let mut names = ToolNames::new(scenario);
        let as_reported = scenario.script.as_ref().is_some_and(bills_costs);
        let ledger = Ledger {
            price: scenario.model.price.filter(|_| !as_reported),
            as_reported,
            budget: scenario.budget,
            checkpoint_cost: scenario.checkpoint_cost,
        };
        let policies = policies
            .iter()
            .map(|policy| {
                let mut compiled = compile(policy, &mut names, &ledger)?;
                compiled.facts.cap_output(scenario.model.max_output_tokens);
                Ok(compiled)
            })
            .collect::<Result<_, _>>()?;
        // Behind the names of scenario and policies, so that none of theirs changes its number.
        for name in scenario.script.iter().flat_map(scripted_tools) {
            names.resolve(name);
        }
        Ok(Prepared {
            scenario,
            compiled: Compiled::new(scenario),
            names,
            key: LuckKey::new(seed, &scenario.name),
            ledger,
            policies,
        })
    }

    /// The compiled policies.
    pub fn policies(&self) -> &[CompiledPolicy] {
        &self.policies
    }

    /// Where the money in the engines' ledgers comes from.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Tools by number.
    pub fn names(&self) -> &ToolNames {
        &self.names
    }

    /// Runs the scenario under all policies; pairs are formed with the policy at `baseline`.
    pub fn campaign(
        &self,
        baseline: usize,
        runs: RunSet,
        work: Work,
        listener: &dyn Listener,
    ) -> Campaign {
        self.with(CampaignOf {
            policies: &self.policies,
            baseline,
            runs,
            work,
            listener,
        })
    }

    /// Does something with the workload, whichever kind it is.
    pub fn with<V: Visitor>(&self, visitor: V) -> V::Output {
        match &self.scenario.script {
            Some(script) => visitor.visit(&ScriptedWorkload {
                scenario: self.scenario,
                script,
                names: &self.names,
                key: self.key,
            }),
            None => visitor.visit(&SyntheticWorkload {
                compiled: &self.compiled,
                key: self.key,
            }),
        }
    }
}

/// True if the script states what turns cost instead of their tokens.
fn bills_costs(script: &Script) -> bool {
    scripted_turns(script).any(|turn| matches!(turn.bill, Bill::Cost { .. }))
}

/// The names of the tools that a script calls.
fn scripted_tools(script: &Script) -> impl Iterator<Item = &str> {
    scripted_turns(script)
        .filter_map(|turn| match &turn.act {
            Act::Calls { calls, .. } => Some(calls),
            _ => None,
        })
        .flatten()
        .map(|call| call.tool.as_str())
}

fn scripted_turns(script: &Script) -> impl Iterator<Item = &ScriptTurn> {
    (0..script.len())
        .filter_map(|position| script.turn(position))
        .chain(&script.closing)
}

/// Something to do with a workload of any kind.
pub trait Visitor {
    /// What it brings.
    type Output;

    /// Does it.
    fn visit<L: Workload>(self, workload: &L) -> Self::Output;
}

struct CampaignOf<'c> {
    policies: &'c [CompiledPolicy],
    baseline: usize,
    runs: RunSet,
    work: Work,
    listener: &'c dyn Listener,
}

impl Visitor for CampaignOf<'_> {
    type Output = Campaign;

    fn visit<L: Workload>(self, workload: &L) -> Campaign {
        campaign(
            workload,
            self.policies,
            self.baseline,
            self.runs,
            self.work,
            self.listener,
        )
    }
}

struct SyntheticWorkload<'s> {
    compiled: &'s Compiled,
    key: LuckKey,
}

impl<'s> Workload for SyntheticWorkload<'s> {
    type World = Synthetic<'s>;

    fn world(&self) -> Synthetic<'s> {
        Synthetic::new(self.compiled, self.key)
    }

    fn select(&self, _world: &mut Synthetic<'s>, _run: u64) {}

    fn twin(&self, world: &mut Synthetic<'s>, run: u64) -> Option<u64> {
        // A twin that has no end would run into the bound each time.
        if self.compiled.endless() {
            None
        } else {
            twin_evidence(world, run)
        }
    }
}

struct ScriptedWorkload<'s> {
    scenario: &'s Scenario,
    script: &'s Script,
    names: &'s ToolNames,
    key: LuckKey,
}

impl<'s> Workload for ScriptedWorkload<'s> {
    type World = Scripted<'s>;

    fn world(&self) -> Scripted<'s> {
        Scripted::new(self.scenario, self.script, self.names.clone(), self.key)
    }

    fn select(&self, _world: &mut Scripted<'s>, _run: u64) {}

    fn twin(&self, world: &mut Scripted<'s>, run: u64) -> Option<u64> {
        if world.endless() {
            None
        } else {
            twin_evidence(world, run)
        }
    }
}

/// Recorded runs under policies: run number n is the n-th record.
#[derive(Debug)]
pub struct Replay<'r> {
    /// The records.
    pub records: &'r [Record],
    /// Run number of the first record.
    pub offset: u64,
    /// Chance of obeying a control.
    pub compliance: f64,
    /// The price, if one was given.
    pub price: Option<Price>,
    /// Luck of obedience.
    pub key: LuckKey,
}

impl<'r> Workload for Replay<'r> {
    type World = Recorded<'r>;

    fn world(&self) -> Recorded<'r> {
        Recorded::new(&self.records[0], self.compliance, self.price, self.key)
    }

    fn select(&self, world: &mut Recorded<'r>, run: u64) {
        world.load(&self.records[(run - self.offset) as usize]);
    }

    fn twin_is_a_run(&self) -> bool {
        false
    }

    fn twin(&self, _world: &mut Recorded<'r>, run: u64) -> Option<u64> {
        Some(self.records[(run - self.offset) as usize].distinct_results())
    }
}

impl Replay<'_> {
    /// Plays the records under all policies; pairs are formed with the policy at `baseline`.
    pub fn campaign(
        &self,
        policies: &[CompiledPolicy],
        baseline: usize,
        work: Work,
        listener: &dyn Listener,
    ) -> Campaign {
        if self.records.is_empty() {
            return Campaign::empty(policies.len());
        }
        let runs = RunSet::range(self.offset, self.offset + self.records.len() as u64);
        campaign(self, policies, baseline, runs, work, listener)
    }
}

/// What a ledger of recorded runs knows: the recorded cost, and the price if one was given.
pub fn replay_ledger(price: Option<Price>, budget: Option<Money>) -> Ledger {
    Ledger {
        price,
        as_reported: price.is_none(),
        budget,
        checkpoint_cost: Money::ZERO,
    }
}
