//! One driver for whatever family a policy is of: the match happens once a run, not at every event.

use holdback_engine::{caps, run_limits, usage_limits};

use crate::driver::{Driver, Plan, Witness};
use crate::policy::{CompiledPolicy, Engine};
use crate::tally::RunRecord;
use crate::world::World;

/// A driver for runs under one policy, reusing its memory. `M` is the world's mark.
#[derive(Debug)]
pub enum Runner<M> {
    /// Of `run_limits`.
    RunLimits(Box<Driver<run_limits::Engine, M>>),
    /// Of `usage_limits`.
    UsageLimits(Box<Driver<usage_limits::Engine, M>>),
    /// Of `caps`.
    Caps(Box<Driver<caps::Engine, M>>),
}

impl<M: Clone + Default> Runner<M> {
    /// A driver for this policy.
    pub fn new(policy: &CompiledPolicy) -> Runner<M> {
        match &policy.engine {
            Engine::RunLimits(configs) => Runner::RunLimits(Box::new(Driver::new(&configs.first))),
            Engine::UsageLimits(configs) => {
                Runner::UsageLimits(Box::new(Driver::new(&configs.first)))
            }
            Engine::Caps(configs) => Runner::Caps(Box::new(Driver::new(&configs.first))),
        }
    }

    /// Drives run number `run` under `policy`, which must be the one that this was made for.
    pub fn run<W: World<Mark = M>, T: Witness>(
        &mut self,
        policy: &CompiledPolicy,
        world: &mut W,
        run: u64,
        witness: &mut T,
    ) -> RunRecord {
        match (self, &policy.engine) {
            (Runner::RunLimits(driver), Engine::RunLimits(configs)) => {
                driver.run(&plan(policy, configs), world, run, witness)
            }
            (Runner::UsageLimits(driver), Engine::UsageLimits(configs)) => {
                driver.run(&plan(policy, configs), world, run, witness)
            }
            (Runner::Caps(driver), Engine::Caps(configs)) => {
                driver.run(&plan(policy, configs), world, run, witness)
            }
            _ => unreachable!("a runner is used with the policy that it was made for"),
        }
    }
}

fn plan<'p, C>(policy: &'p CompiledPolicy, configs: &'p crate::policy::Configs<C>) -> Plan<'p, C> {
    Plan {
        family: policy.family,
        config: &configs.first,
        resume_config: configs.resumed.as_ref(),
        facts: &policy.facts,
        checkpoint_cost: policy.checkpoint_cost,
    }
}
