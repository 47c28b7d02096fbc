//! Policies that share the past of a run bring the same numbers as policies that are driven apart.

mod common;

use common::{Rows, caps, eventful, policy, prepared, run_limits, scenario, usage_limits};
use holdback_scenarios::{Policy, Scenario};
use holdback_sim::campaign::{Campaign, Row, RunSet, Work};
use proptest::prelude::*;

/// A campaign and its rows, one after the other.
fn played(
    scenario: &Scenario,
    policies: &[Policy],
    runs: u64,
    sharing: bool,
) -> (Campaign, Vec<Row>) {
    let kept = Rows::default();
    let work = Work {
        threads: 1,
        sharing,
    };
    let campaign = prepared(scenario, policies).campaign(0, RunSet::range(0, runs), work, &kept);
    let mut rows = kept.0.into_inner().unwrap();
    rows.sort_by_key(|row| (row.run, row.policy));
    (campaign, rows)
}

#[track_caller]
fn agrees(scenario: &Scenario, policies: &[Policy], runs: u64) {
    let (together, rows_together) = played(scenario, policies, runs, true);
    let (apart, rows_apart) = played(scenario, policies, runs, false);
    for (shared, own) in rows_together.iter().zip(&rows_apart) {
        assert_eq!(shared, own, "{:?}", policies[own.policy].document);
    }
    // Their text, so that what is equal and stored differently is told apart as well.
    assert_eq!(format!("{together:?}"), format!("{apart:?}"));
}

/// Every kind of draw, and no kill.
fn calm() -> Scenario {
    let mut calm = eventful();
    calm.kills.max = Some(0);
    calm
}

/// A model that hardly ever does what it is told.
fn stubborn() -> Scenario {
    scenario(
        r#"
[model]
price = { input_per_mtok = "3.00", output_per_mtok = "15.00" }
base_input_tokens = 2000
demand = { dist = "uniform", low = 4, high = 30 }
batch = { dist = "uniform", low = 1, high = 5 }
latency_s = { dist = "exponential", mean = 5 }
[model.compliance]
synthesis_only = 0.2
tools_withheld = 0.3
window = 0.1
budget_notice = 0.3
[model.habits]
repeat_call = 0.2
record_evidence = 0.3
[[tools]]
name = "search"
cost_usd = "0.01"
result_tokens = 900
error = 0.1
denied = 0.05
novelty = 0.6
parallel = true
"#,
    )
}

fn all_scenarios() -> [Scenario; 3] {
    [eventful(), calm(), stubborn()]
}

#[test]
fn a_sweep_of_each_reserve_and_limit_of_run_limits() {
    let swept: [(&str, Vec<String>); 7] = [
        ("synthesis_reserve_tool_calls", counts(0..20)),
        ("synthesis_reserve_steps", counts(0..10)),
        ("synthesis_reserve_model_calls", counts(0..10)),
        ("synthesis_reserve_cost", money(0..20)),
        ("max_tool_calls", counts(1..30)),
        ("max_model_calls", counts(1..14)),
        ("max_cost", money(1..30)),
    ];
    for (field, values) in swept {
        let base = [
            ("max_steps", "14"),
            ("max_model_calls", "14"),
            ("max_tool_calls", "30"),
            ("max_cost", "\"0.60\""),
        ];
        let base: String = base
            .iter()
            .filter(|(name, _)| *name != field)
            .map(|(name, value)| format!("{name} = {value}, "))
            .collect();
        let policies: Vec<Policy> = values
            .iter()
            .map(|value| run_limits(&format!("{base}{field} = {value}")))
            .collect();
        for scenario in all_scenarios() {
            agrees(&scenario, &policies, 60);
        }
    }
}

fn counts(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|count| count.to_string()).collect()
}

fn money(range: std::ops::Range<u64>) -> Vec<String> {
    range
        .map(|cents| format!("\"0.{:02}\"", 2 * cents))
        .collect()
}

#[test]
fn windows_guards_and_turns_of_usage_limits() {
    let of = |more: &str, window: u64| {
        usage_limits(&format!(
            "maxToolCalls = 24, checkpointEveryToolCalls = 2, toolBudgetNotices = true, finalizationReserve = {{}}, toolBudgetExtension = {{ increment = 4, maxExtensions = 2 }}, finalizationWindow = {{ reserveCalls = {window}, allow = [\"record_evidence\"] }}{more}"
        ))
    };
    let windows: Vec<Policy> = (1..24).map(|window| of("", window)).collect();
    let turns = (1..14).map(|turns| of(&format!(", maxTurns = {turns}"), 3));
    let turns: Vec<Policy> = turns.collect();
    let reserves = (1..9).map(|reserve| {
        of(
            &format!(", maxTurns = 12, finalizationTurns = {{ reserveTurns = {reserve} }}"),
            reserve,
        )
    });
    let reserves: Vec<Policy> = reserves.collect();
    let stale = (1..9).map(|most| of(&format!(", maxNoNewEvidenceCalls = {most}"), 2));
    let stale: Vec<Policy> = stale.collect();
    for scenario in all_scenarios() {
        for policies in [&windows, &turns, &reserves, &stale] {
            agrees(&scenario, policies, 60);
        }
    }
}

/// A window that the evidence deficit has opened is open for every reserve, and only a grant then
/// asks for the reserve itself.
#[test]
fn windows_that_the_evidence_deficit_widens() {
    let of = |window: u64| {
        policy(&format!(
            "family = \"usage_limits\"\nevidence = {{ min_entries = 14 }}\nlimits = {{ maxToolCalls = 24, toolBudgetExtension = {{ increment = 1, maxExtensions = 2 }}, finalizationWindow = {{ reserveCalls = {window}, reserveForEvidenceDeficit = true, allow = [\"record_evidence\"] }} }}"
        ))
    };
    let windows: Vec<Policy> = (1..24).map(of).collect();
    for scenario in all_scenarios() {
        agrees(&scenario, &windows, 60);
    }
}

#[test]
fn every_cap_under_every_action() {
    for action in [
        "error",
        "stop",
        "final_turn",
        "final_turn_inside",
        "block_tools",
    ] {
        for batch in ["reject", "trim", "run_all"] {
            let policies: Vec<Policy> = (1..30)
                .map(|cap| {
                    caps(&format!(
                        "max_tool_calls = {cap}, batch = \"{batch}\", on_exhausted = {{ tool_calls = \"{action}\" }}"
                    ))
                })
                .collect();
            for scenario in all_scenarios() {
                agrees(&scenario, &policies, 30);
            }
        }
    }
    let others = [
        ("max_turns", counts(1..14)),
        ("max_model_calls", counts(1..14)),
        ("max_cost_usd", money(1..20)),
    ];
    for (field, values) in others {
        for action in ["error", "final_turn"] {
            let policies: Vec<Policy> = values
                .iter()
                .map(|value| caps(&format!("{field} = {value}, on_exhausted = \"{action}\"")))
                .collect();
            for scenario in all_scenarios() {
                agrees(&scenario, &policies, 60);
            }
        }
    }
}

/// Limits objects whose fields are drawn from few values each, so that policies often agree in most.
fn any_run_limits() -> impl Strategy<Value = Policy> {
    let reserve = prop_oneof![Just(0_u64), 0..12_u64];
    let crossing = prop_oneof![
        3 => Just("fail"),
        1 => Just("refuse_then_synthesize"),
        1 => Just("run_then_synthesize")
    ];
    (
        (4..14_u64, 4..14_u64, 4..30_u64, 10..80_u64),
        (reserve.clone(), reserve.clone(), reserve, 0..10_u64),
        (crossing, 0..3_u64, prop_oneof![4 => Just(100_000_u64), 1 => 20..300_u64]),
    )
        .prop_map(|((steps, model, tool, cost), (rs, rm, rt, rc), (crossing, allowance, deadline))| {
            policy(&format!(
                "family = \"run_limits\"\ndeadline_s = {deadline}\nlimits = {{ max_steps = {steps}, max_model_calls = {model}, max_tool_calls = {tool}, max_cost = \"0.{cost}\", synthesis_reserve_steps = {}, synthesis_reserve_model_calls = {}, synthesis_reserve_tool_calls = {}, synthesis_reserve_cost = \"0.0{rc}\" }}\nrules = {{ crossing_turn = \"{crossing}\", reserve_tool_allowance = {allowance} }}",
                rs.min(steps - 1),
                rm.min(model - 1),
                rt.min(tool - 1),
            ))
        })
}

fn any_usage_limits() -> impl Strategy<Value = Policy> {
    let increments = prop_oneof![2 => Just(4_u64), 1 => Just(2_u64)];
    (
        (3..14_u64, prop_oneof![Just(20_u64), Just(9_u64)], 1..12_u64, 1..6_u64),
        (1..6_u64, 2..8_u64, 1..4_u64, increments),
        any::<bool>(),
        prop_oneof![3 => Just(100_000_u64), 1 => 10_000..300_000_u64],
    )
        .prop_map(
            |((turns, calls, window, reserve), (signature, stale, every, increment), entries, timeout)| {
                policy(&format!(
                    "family = \"usage_limits\"\n{}\nlimits = {{ maxTurns = {turns}, maxToolCalls = {calls}, timeoutMs = {timeout}, maxRepeatedToolSignature = {signature}, maxNoNewEvidenceCalls = {stale}, checkpointEveryToolCalls = {every}, toolBudgetNotices = true, finalizationReserve = {{}}, toolBudgetExtension = {{ increment = {increment}, maxExtensions = 2 }}, finalizationWindow = {{ reserveCalls = {}, reserveForEvidenceDeficit = {entries}, allow = [\"record_evidence\"] }}, finalizationTurns = {{ reserveTurns = {} }} }}",
                    if entries { "evidence = { min_entries = 3 }" } else { "" },
                    window.min(calls - 1),
                    reserve.min(turns - 1),
                ))
            },
        )
}

fn any_caps() -> impl Strategy<Value = Policy> {
    let action = prop_oneof![Just("error"), Just("stop"), Just("final_turn")];
    let batch = prop_oneof![Just("reject"), Just("trim"), Just("run_all")];
    (2..12_u64, 2..14_u64, 3..30_u64, 5..60_u64, 20..400_u64, action, batch).prop_map(
        |(turns, model, tool, cost, time, action, batch)| {
            caps(&format!(
                "max_turns = {turns}, max_model_calls = {model}, max_tool_calls = {tool}, max_cost_usd = \"0.{cost:02}\", max_total_tokens = {}, max_time_s = {time}, on_exhausted = \"{action}\", batch = \"{batch}\", max_calls_per_tool = {{ search = 9 }}",
                4000 * cost,
            ))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_mixture_of_policies(
        policies in prop::collection::vec(
            prop_oneof![any_run_limits(), any_usage_limits(), any_caps()],
            2..12,
        ),
        which in 0..3_usize,
    ) {
        agrees(&all_scenarios()[which], &policies, 40);
    }

    #[test]
    fn any_run_limits_together(policies in prop::collection::vec(any_run_limits(), 2..10), which in 0..3_usize) {
        agrees(&all_scenarios()[which], &policies, 40);
    }

    #[test]
    fn any_usage_limits_together(policies in prop::collection::vec(any_usage_limits(), 2..10), which in 0..3_usize) {
        agrees(&all_scenarios()[which], &policies, 40);
    }

    #[test]
    fn any_caps_together(policies in prop::collection::vec(any_caps(), 2..10), which in 0..3_usize) {
        agrees(&all_scenarios()[which], &policies, 40);
    }
}
