//! Which policies of a campaign can be driven as one, and their drivers.

use std::ops::Range;

use holdback_engine::protocol::Thresholds;
use holdback_engine::{caps, run_limits, usage_limits};

use crate::driver::{Convoy, Plan};
use crate::policy::{CompiledPolicy, Configs, Engine};
use crate::runner::Runner;
use crate::tally::RunRecord;
use crate::world::World;

/// Policies in an order in which those that differ in thresholds alone stand side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Positions of the policies, in this order.
    pub(crate) policies: Vec<usize>,
    /// The stretches of it that are driven as one.
    pub(crate) groups: Vec<Range<usize>>,
}

impl Order {
    /// Every policy on its own.
    pub(crate) fn apart(policies: usize) -> Order {
        Order {
            policies: (0..policies).collect(),
            groups: (0..policies).map(|at| at..at + 1).collect(),
        }
    }

    /// Policies with those that they share a past with, in the order of their thresholds: runs that
    /// go alike are then mostly neighbours.
    pub(crate) fn sharing(policies: &[CompiledPolicy]) -> Order {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (at, policy) in policies.iter().enumerate() {
            let known = groups
                .iter_mut()
                .find(|group| can_share(&policies[group[0]], policy));
            match known {
                Some(group) => group.push(at),
                None => groups.push(vec![at]),
            }
        }
        let mut order = Order {
            policies: Vec::with_capacity(policies.len()),
            groups: Vec::with_capacity(groups.len()),
        };
        for mut group in groups {
            group.sort_by_cached_key(|at| thresholds(&policies[*at]));
            let from = order.policies.len();
            order.policies.extend(group);
            order.groups.push(from..order.policies.len());
        }
        order
    }
}

/// True if two policies can be driven as one: they differ in thresholds, and in the caps on money and
/// time that a finished run is held against, alone.
fn can_share(a: &CompiledPolicy, b: &CompiledPolicy) -> bool {
    let facts_agree = {
        let mut like = a.facts.clone();
        like.money_cap = b.facts.money_cap;
        like.time_limit = b.facts.time_limit;
        like == b.facts
    };
    let configs_agree = match (&a.engine, &b.engine) {
        (Engine::RunLimits(a), Engine::RunLimits(b)) => differ_in_thresholds_only(a, b),
        (Engine::UsageLimits(a), Engine::UsageLimits(b)) => differ_in_thresholds_only(a, b),
        (Engine::Caps(a), Engine::Caps(b)) => differ_in_thresholds_only(a, b),
        _ => false,
    };
    a.family == b.family && a.checkpoint_cost == b.checkpoint_cost && facts_agree && configs_agree
}

/// Limits that change after a restart are not shared.
fn differ_in_thresholds_only<C: Thresholds>(a: &Configs<C>, b: &Configs<C>) -> bool {
    a.resumed.is_none() && b.resumed.is_none() && a.first.differs_in_thresholds_only(&b.first)
}

fn thresholds(policy: &CompiledPolicy) -> Vec<i128> {
    match &policy.engine {
        Engine::RunLimits(configs) => configs.first.thresholds(),
        Engine::UsageLimits(configs) => configs.first.thresholds(),
        Engine::Caps(configs) => configs.first.thresholds(),
    }
}

/// Drives one group of an [`Order`].
pub(crate) enum Team<'p, W: World> {
    Alone(&'p CompiledPolicy, Runner<W::Mark>),
    RunLimits(Box<Convoy<'p, run_limits::Engine, W>>),
    UsageLimits(Box<Convoy<'p, usage_limits::Engine, W>>),
    Caps(Box<Convoy<'p, caps::Engine, W>>),
}

impl<'p, W: World> Team<'p, W> {
    /// A driver for the policies at these positions, of which there is at least one.
    pub(crate) fn new(policies: &'p [CompiledPolicy], group: &[usize]) -> Team<'p, W> {
        let first = &policies[group[0]];
        if group.len() == 1 {
            return Team::Alone(first, Runner::new(first));
        }
        let members = || group.iter().map(|at| &policies[*at]);
        match &first.engine {
            Engine::RunLimits(_) => Team::RunLimits(convoy(members(), |engine| match engine {
                Engine::RunLimits(configs) => Some(configs),
                _ => None,
            })),
            Engine::UsageLimits(_) => Team::UsageLimits(convoy(members(), |engine| match engine {
                Engine::UsageLimits(configs) => Some(configs),
                _ => None,
            })),
            Engine::Caps(_) => Team::Caps(convoy(members(), |engine| match engine {
                Engine::Caps(configs) => Some(configs),
                _ => None,
            })),
        }
    }

    /// Drives run number `run` under all policies of the group. `deliver` gets each different record
    /// once, with the members that it belongs to, numbered within the group.
    pub(crate) fn run(
        &mut self,
        world: &mut W,
        run: u64,
        mut deliver: impl FnMut(&RunRecord, &[usize]),
    ) {
        match self {
            Team::Alone(policy, runner) => {
                let record = runner.run(policy, world, run, &mut ());
                deliver(&record, &[0]);
            }
            Team::RunLimits(convoy) => convoy.run(world, run, deliver),
            Team::UsageLimits(convoy) => convoy.run(world, run, deliver),
            Team::Caps(convoy) => convoy.run(world, run, deliver),
        }
    }
}

fn convoy<'p, E, W>(
    members: impl Iterator<Item = &'p CompiledPolicy>,
    configs: impl Fn(&'p Engine) -> Option<&'p Configs<E::Config>>,
) -> Box<Convoy<'p, E, W>>
where
    E: holdback_engine::protocol::LimitsEngine,
    W: World,
    E::Config: 'p,
{
    let plans = members.filter_map(|policy| {
        Some(Plan {
            family: policy.family,
            config: &configs(&policy.engine)?.first,
            resume_config: None,
            facts: &policy.facts,
            checkpoint_cost: policy.checkpoint_cost,
        })
    });
    Box::new(Convoy::new(plans.collect()))
}

#[cfg(test)]
mod tests {
    use holdback_scenarios::read::policy_from_toml;

    use super::*;
    use crate::policy::{Ledger, ToolNames, compile};

    fn compiled(texts: &[&str]) -> Vec<CompiledPolicy> {
        let ledger = Ledger {
            price: None,
            as_reported: true,
            budget: None,
            checkpoint_cost: holdback_engine::Money::ZERO,
        };
        let mut names = ToolNames::of_records();
        let policy = |text: &&str| {
            let policy = policy_from_toml("policy", &format!("name = \"p\"\n{text}")).unwrap();
            compile(&policy, &mut names, &ledger).unwrap()
        };
        texts.iter().map(policy).collect()
    }

    fn groups(texts: &[&str]) -> Vec<Vec<usize>> {
        let order = Order::sharing(&compiled(texts));
        let of = |group: &Range<usize>| order.policies[group.clone()].to_vec();
        order.groups.iter().map(of).collect()
    }

    #[test]
    fn sizes_of_limits_share_in_their_order_and_families_do_not() {
        let limits = |limits: &str| format!("family = \"run_limits\"\nlimits = {{ {limits} }}");
        let four = limits("synthesis_reserve_tool_calls = 4");
        let none = limits("");
        let cap = limits("max_cost = \"3\"");
        let turns = "family = \"caps\"\nlimits = { max_turns = 4 }";
        assert_eq!(
            groups(&[&none, turns, &cap, &four]),
            [vec![2, 3, 0], vec![1]]
        );
    }

    #[test]
    fn what_is_more_than_a_size_does_not_share() {
        let usage = |limits: &str| format!("family = \"usage_limits\"\nlimits = {{ {limits} }}");
        let few = usage("maxTurns = 4, maxToolCalls = 9");
        let turns = usage("maxTurns = 5, maxToolCalls = 9");
        let calls = usage("maxTurns = 5, maxToolCalls = 8");
        let timed = usage("maxTurns = 5, maxToolCalls = 9, timeoutMs = 8000");
        assert_eq!(
            groups(&[&few, &turns, &calls, &timed]),
            [vec![0, 1], vec![2], vec![3]]
        );
        let retries = "family = \"run_limits\"\nattempts = 2";
        assert_eq!(groups(&["family = \"run_limits\"", retries]).len(), 2);
    }
}
