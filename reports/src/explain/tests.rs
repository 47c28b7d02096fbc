use holdback_scenarios::policy::Policy;
use holdback_scenarios::read::{self, Loader};
use holdback_sim::explain::tell_prepared;
use holdback_sim::workload::Prepared;

use super::*;

const POLICIES: [&str; 4] = [
    "name = \"none\"\nfamily = \"run_limits\"\nlimits = { max_steps = 12, max_tool_calls = 24, max_cost = \"5.00\" }",
    "name = \"steps\"\nfamily = \"run_limits\"\nlimits = { max_steps = 12, max_tool_calls = 24, max_cost = \"5.00\", synthesis_reserve_steps = 1 }",
    "name = \"usage\"\nfamily = \"usage_limits\"\nlimits = { maxTurns = 12, maxToolCalls = 12, toolBudgetNotices = true, finalizationReserve = { maxOutputTokens = 2000 } }\nbudget = { ceiling_usd = 0.5 }",
    "name = \"caps\"\nfamily = \"caps\"\nlimits = { max_turns = 6, max_tool_calls = 10, batch = \"trim\", on_exhausted = \"final_turn\" }",
];

const KILLS: &str = r#"
    schema = 1
    name = "kills"
    [model]
    price = { input_per_mtok = "3", output_per_mtok = "15" }
    base_input_tokens = 123456
    output_tokens = 400
    latency_s = 5
    demand = 30
    batch = 4
    [model.faults]
    transient = 0.1
    [[tools]]
    name = "a_tool_with_a_name_that_is_longer_than_any_column_should_ever_have_to_be"
    cost_usd = "0.01"
    result_tokens = 1500
    latency_s = 2
    [kills]
    per_model_call = 0.05
    per_tool_call = 0.05
    max = 3
    downtime_s = 30
"#;

fn policies() -> Vec<Policy> {
    POLICIES
        .iter()
        .map(|text| read::policy_from_toml("test", text).unwrap())
        .collect()
}

fn explained(scenario: &str, run: u64, which: &[usize]) -> Explained {
    let loader = Loader::default();
    let scenario = match scenario {
        "kills" => loader.scenario_from_toml("test", KILLS).unwrap(),
        name => loader.scenario(name).unwrap(),
    };
    let all = policies();
    let chosen: Vec<Policy> = which.iter().map(|at| all[*at].clone()).collect();
    let prepared = Prepared::new(&scenario, &chosen, 7).unwrap();
    let definitions = chosen.iter().map(|policy| policy.document.clone());
    let told = definitions.zip(tell_prepared(&prepared, run)).collect();
    let subject = Subject::Simulated {
        scenario: scenario.name.clone(),
        run,
        seed: 7,
    };
    Explained::new("1.2.3", subject, told)
}

fn plain(width: usize) -> Style {
    Style {
        width,
        colour: false,
    }
}

#[test]
fn no_line_is_wider_than_asked_and_none_ends_in_blanks() {
    // What has no blank in it cannot be broken.
    let unbroken = |line: &str| line.contains("longer_than_any_column");
    for (scenario, pairs) in [("tool-hungry", 4), ("kills", 4)] {
        for run in 0..8 {
            for second in 0..pairs {
                let pair = explained(scenario, run, &[0, second]);
                let alone = explained(scenario, run, &[second]);
                for width in [60, 80, 100, 140] {
                    for text in [pair.render(plain(width)), alone.render(plain(width))] {
                        for line in text.lines() {
                            assert!(
                                line.chars().count() <= width || unbroken(line),
                                "{width}: {line}"
                            );
                            assert_eq!(line.trim_end(), line);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn colour_is_an_addition_only() {
    let explained = explained("kills", 3, &[0, 2]);
    let coloured = explained.render(Style {
        width: 100,
        colour: true,
    });
    assert!(coloured.contains("\u{1b}["));
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some(at) = rest.find('\u{1b}') {
        bare.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.find('m').unwrap() + 1..];
    }
    bare.push_str(rest);
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&bare), words(&explained.render(plain(100))));
}

#[test]
fn a_run_is_told_with_its_limits_its_decisions_and_its_outcome() {
    let ends = "Outcome  unanswered: max_steps_exceeded, by steps";
    let text = (0..50)
        .map(|run| explained("tool-hungry", run, &[0]).render(plain(100)))
        .find(|text| text.contains(ends))
        .unwrap();
    for part in [
        "of tool-hungry, seed 7",
        "Limits   max_steps 12, max_tool_calls 24, max_cost 5.00",
        "turn 1, all tools: ",
        "the rule: a batch runs as far as tool calls are left",
        "(tool_calls: 1 vs 24)",
        "-> blocked [steps 12 vs 12] no step starts at or past the deadline",
        "ended: failed, max_steps_exceeded, by steps",
        " of a cap of 5.0000",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

/// A run that the last step's announcement saves, under no reserve and under one step.
fn saved_by_a_step() -> Explained {
    let parts = "First difference, in turn 12 (marked >>)";
    (0..50)
        .map(|run| explained("tool-hungry", run, &[0, 1]))
        .find(|explained| explained.render(plain(100)).contains(parts))
        .unwrap()
}

#[test]
fn two_policies_are_marked_where_they_part_and_share_what_is_the_same() {
    let explained = saved_by_a_step();
    let text = explained.render(plain(100));
    assert!(text.contains("no limit intervenes"));
    assert!(text.contains("are the same on both sides"));
    // The turn on one side; the decision and its turn on the other.
    assert_eq!(text.matches(">> ").count(), 3, "{text}");
    // Narrow terminals show one after the other, each as a whole.
    let stacked = explained.render(plain(80));
    assert!(!stacked.contains(" | "));
    assert_eq!(stacked.matches("turn 1, all tools").count(), 2);
    assert_eq!(stacked.matches("\n>>").count(), 3);
}

#[test]
fn policies_that_do_the_same_are_said_to() {
    let text = explained("tool-hungry", 0, &[1, 1]).render(plain(100));
    assert!(text.contains("No difference: both policies do the same in this run."));
    assert!(!text.contains(">>"));
}

#[test]
fn kills_restarts_and_work_paid_again_are_told() {
    let told = (0..20)
        .map(|run| explained("kills", run, &[0]).render(plain(100)))
        .find(|text| text.contains("KILLED") && text.contains("paid again"))
        .unwrap();
    assert!(told.contains("RESTARTED after 30.0 s from the last checkpoint"));
    assert!(told.contains("restarts "));
}

#[test]
fn the_form_for_machines_has_the_documented_fields() {
    let json = explained("kills", 3, &[0, 2]).to_json().unwrap();
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["holdback"], "1.2.3");
    assert_eq!(value["run"]["kind"], "simulated");
    assert_eq!(value["run"]["scenario"], "kills");
    let first = &value["policies"][0];
    assert_eq!(first["policy"], "none");
    assert_eq!(first["family"], "run_limits");
    assert_eq!(first["definition"]["limits"]["max_steps"], 12);
    let events = first["events"].as_array().unwrap();
    let parting = value["first_difference"]["first"]["event"]
        .as_u64()
        .unwrap();
    assert!((parting as usize) < events.len());
    let documented = include_str!("../../../docs/explain.md");
    for event in events {
        let fields = event.as_object().unwrap();
        let kind = fields["event"].as_str().unwrap();
        let row = documented
            .lines()
            .find(|line| line.starts_with('|') && line.contains(&format!("`{kind}`")))
            .unwrap_or_else(|| panic!("`{kind}` is not documented"));
        for field in fields.keys() {
            let common = ["event", "at_s", "billed_usd", "ledger_usd"].contains(&field.as_str());
            assert!(
                common || row.contains(&format!("`{field}`")),
                "`{field}` of `{kind}` is not documented"
            );
        }
    }
}
