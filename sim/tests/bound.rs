//! The structural bound of the overspend holds for whatever was measured.

mod common;

use common::{caps, policy, run_limits, scenario, tally};
use holdback_engine::Money;
use holdback_scenarios::{Policy, Scenario, library};
use holdback_sim::bound::overspend_bound;

/// A dear workload with a window and an output cap, so that a bound exists.
fn dear(more: &str) -> Scenario {
    scenario(&format!(
        r#"
[model]
price = {{ input_per_mtok = 3, cached_input_per_mtok = 0.3, output_per_mtok = 15 }}
context_window = 30000
max_output_tokens = 2000
base_input_tokens = 4000
output_tokens = {{ dist = "lognormal", median = 350, p95 = 1500 }}
final_output_tokens = 1200
cache_hit = 0.5
demand = "endless"
batch = {{ dist = "geometric", mean = 2, min = 1 }}
compliance = {{ synthesis_only = 0.5 }}
spike = {{ probability = 0.05, output_multiplier = 10 }}
{more}
"#
    ))
}

fn scenarios() -> Vec<(&'static str, Scenario)> {
    let tool = "[[tools]]\nname = \"t\"\ncost_usd = \"0.004\"\nresult_tokens = 900\n";
    [
        ("plain", tool.to_owned()),
        (
            "faults",
            format!("faults = {{ transient = 0.1, transient_after_output = 0.02, stall = 0.02, billed = 1, transport_retries = 2, transport_reported = \"all\" }}\n{tool}"),
        ),
        (
            "tier",
            format!("long_context = {{ above_tokens = 9000, input_multiplier = 2, output_multiplier = 1.5 }}\n{tool}"),
        ),
        (
            "kills",
            format!("{tool}[kills]\nper_model_call = 0.1\nper_tool_call = 0.1\nmax = 3\n"),
        ),
        (
            "kills and losses",
            format!("{tool}[kills]\nper_model_call = 0.1\nper_tool_call = 0.1\nmax = 3\njournal_tail_loss = 0.5\n"),
        ),
        (
            "planned kills",
            format!("{tool}[kills]\nafter_model_calls = [2, 4]\nafter_tool_calls = [5]\n"),
        ),
    ]
    .into_iter()
    .map(|(name, more)| (name, dear(&more)))
    .collect()
}

fn policies() -> Vec<Policy> {
    vec![
        run_limits("max_cost = \"0.20\", max_tool_calls = 20"),
        run_limits("max_cost = \"0.20\", max_tool_calls = 20, synthesis_reserve_cost = \"0.05\""),
        policy(
            "family = \"run_limits\"\nrules = { count_tool_cost = true, answer_over_cap = \"keep\" }\nlimits = { max_cost = \"0.20\", max_tool_calls = 20 }",
        ),
        policy(
            "family = \"usage_limits\"\nlimits = { maxToolCalls = 20, finalizationReserve = {} }\nbudget = { ceiling_usd = 0.2, already_spent_usd = 0.05 }",
        ),
        policy(
            "family = \"usage_limits\"\nlimits = { maxToolCalls = 20, checkpointEveryToolCalls = 2 }\nbudget = { ceiling_usd = 0.2 }",
        ),
        caps(
            "max_cost_usd = \"0.20\", max_tool_calls = 20, on_exhausted = \"error\", check = \"after\"",
        ),
        caps("max_cost_usd = \"0.20\", max_tool_calls = 20, on_exhausted = \"final_turn\""),
        caps(
            "max_cost_usd = \"0.20\", max_tool_calls = 20, on_exhausted = \"stop\", durable = \"none\"",
        ),
        policy(
            "family = \"caps\"\nrules = { count_tool_cost = true }\nlimits = { max_cost_usd = \"0.20\", max_tool_calls = 20, on_exhausted = \"stop\" }",
        ),
    ]
}

#[test]
fn no_run_passes_its_cap_by_more_than_the_bound() {
    for (name, scenario) in scenarios() {
        for policy in policies() {
            let bound = overspend_bound(&scenario, &policy).expect("everything is bounded");
            let most = tally(&scenario, &policy, 400).overspend_max;
            assert!(
                most <= bound,
                "{name}: {most} > {bound} under {}",
                policy.document
            );
        }
    }
}

#[test]
fn no_run_of_the_default_study_passes_its_cap_by_more_than_the_bound() {
    let study = library::default_study();
    let mut bounded = 0;
    for scenario in &study.scenarios {
        let campaign = common::campaign(scenario, &study.policies, 150);
        for (policy, cell) in study.policies.iter().zip(&campaign.cells) {
            let Some(bound) = overspend_bound(scenario, policy) else {
                continue;
            };
            bounded += 1;
            let most = cell.tally.overspend_max;
            assert!(
                most <= bound,
                "{} {}: {most} > {bound}",
                scenario.name,
                policy.name
            );
        }
    }
    assert!(bounded > 20, "{bounded}");
}

#[test]
fn the_bound_of_a_plain_run_is_its_largest_call_and_its_tools() {
    let (_, plain) = scenarios().swap_remove(0);
    let call = Money::from_micros(30_000 * 3 + 2_000 * 15);
    let tools = Money::from_micros(20 * 4_000);
    let bound = overspend_bound(&plain, &policies()[0]);
    assert_eq!(bound, Some(call + tools));
}

#[test]
fn there_is_no_bound_where_the_spending_has_none() {
    let tool = "[[tools]]\nname = \"t\"\ncost_usd = \"0.004\"\n";
    let capped = run_limits("max_cost = \"0.20\", max_tool_calls = 20");
    let none = |more: &str, policy: &Policy| {
        assert_eq!(overspend_bound(&dear(more), policy), None, "{more}");
    };
    none(tool, &run_limits("max_tool_calls = 20"));
    none(tool, &run_limits("max_cost = \"0.20\""));
    none(&format!("reporting = {{ missing = 0.1 }}\n{tool}"), &capped);
    none(&format!("{tool}[kills]\nper_tool_call = 0.1\n"), &capped);
    none(
        &format!("{tool}[storage]\ncheckpoint_usd = \"0.1\"\n"),
        &capped,
    );
}
