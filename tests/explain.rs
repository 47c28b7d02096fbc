//! `holdback explain`, as its users run it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn holdback(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdback"))
        .args(args)
        .output()
        .unwrap()
}

#[track_caller]
fn text(args: &[&str]) -> String {
    let output = holdback(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&text(args)).unwrap()
}

/// The one line that a wrong command line or input prints.
#[track_caller]
fn refusal(args: &[&str]) -> String {
    let output = holdback(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// A line of `runs.csv` by column.
fn rows(path: &Path) -> Vec<Vec<(String, String)>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            // Names with commas are quoted; those used here have none.
            let named = columns.iter().zip(line.split(','));
            named
                .map(|(c, v)| ((*c).to_owned(), v.to_owned()))
                .collect()
        })
        .collect()
}

/// The explained outcome holds what the line of `runs.csv` says.
#[track_caller]
fn assert_same_run(explained: &Value, row: &[(String, String)]) {
    let outcome = &explained["policies"][0]["outcome"];
    for (column, value) in row {
        let found = match &outcome[column.as_str()] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let equal = match (found.parse::<f64>(), value.parse::<f64>()) {
            (Ok(a), Ok(b)) => (a - b).abs() < 1e-6,
            _ => found == *value,
        };
        assert!(equal, "{column}: {found} is not {value}");
    }
}

fn column<'r>(row: &'r [(String, String)], name: &str) -> &'r str {
    let found = row.iter().find(|(column, _)| column == name);
    found.map_or_else(|| panic!("no column {name}"), |(_, value)| value)
}

#[test]
fn a_simulated_run_is_the_one_that_the_tables_count() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    text(&[
        "compare",
        "--scenario",
        "tool-hungry",
        "--policy",
        "no reserve",
        "--policy",
        "steps reserve 1",
        "--runs",
        "40",
        "--out",
        out.to_str().unwrap(),
        "--per-run",
        "--quiet",
    ]);
    for row in rows(&out.join("runs.csv")).iter().step_by(7) {
        let (policy, run) = (column(row, "policy"), column(row, "run"));
        let explained = json(&[
            "explain",
            "--scenario",
            "tool-hungry",
            "--policy",
            policy,
            "--run",
            run,
            "--json",
        ]);
        assert_same_run(&explained, row);
    }
}

#[test]
fn a_recorded_run_is_the_one_that_the_tables_count_by_position_and_by_id() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    text(&[
        "replay",
        "--policy",
        "steps reserve 1",
        "--out",
        out.to_str().unwrap(),
        "--per-run",
        "--quiet",
    ]);
    for row in rows(&out.join("runs.csv")).iter().step_by(61) {
        let (source, run) = (column(row, "scenario"), column(row, "run"));
        let explain = |run: &str| {
            json(&[
                "explain",
                "--traces",
                "--source",
                source,
                "--policy",
                "steps reserve 1",
                "--run",
                run,
                "--json",
            ])
        };
        let by_position = explain(run);
        assert_same_run(&by_position, row);
        assert_eq!(by_position["run"]["run_id"], column(row, "run_id"));
        assert_eq!(explain(column(row, "run_id")), by_position);
    }
}

#[test]
fn the_commands_that_a_report_prints_show_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let policies = folder.path().join("two policies.toml");
    fs::write(
        &policies,
        "[[policy]]\nname = \"mine: none\"\nfamily = \"run_limits\"\nlimits = { max_steps = 10 }\n\
         [[policy]]\nname = \"mine: one\"\nextends = \"mine: none\"\nlimits = { synthesis_reserve_steps = 1 }\n",
    )
    .unwrap();
    let summary = json(&[
        "compare",
        "--scenario",
        "tool-hungry",
        "--policy",
        policies.to_str().unwrap(),
        "--runs",
        "60",
        "--seed",
        "11",
        "--format",
        "json",
        "--quiet",
    ]);
    let cell = &summary["scenarios"][0]["cells"][1];
    let example = cell["examples"]
        .as_array()
        .unwrap()
        .iter()
        .find(|example| {
            example["why"]
                .as_str()
                .unwrap()
                .starts_with("answered here")
        })
        .unwrap();
    let command = example["command"].as_str().unwrap();
    let path = env!("CARGO_BIN_EXE_holdback");
    let command = command.replacen("holdback", &format!("'{path}'"), 1) + " --json";
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    let explained: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(explained["run"]["seed"], 11);
    assert_eq!(explained["policies"][0]["outcome"]["outcome"], "answered");
    assert_eq!(explained["policies"][1]["outcome"]["outcome"], "unanswered");
    assert!(explained["first_difference"].is_object());
}

#[test]
fn two_policies_stand_beside_each_other() {
    let args = [
        "explain",
        "--scenario",
        "tool-hungry",
        "--policy",
        "no reserve",
        "--run",
        "0",
        "--against",
        "steps reserve 1",
    ];
    let wide = text(&args);
    assert!(
        wide.contains("First difference, in turn 12 (marked >>)"),
        "{wide}"
    );
    assert!(wide.contains(" | "));
    assert!(wide.lines().all(|line| line.chars().count() <= 100));
    let narrow = text(&[&args[..], &["--width", "70"]].concat());
    assert!(!narrow.contains(" | "));
    assert!(narrow.lines().all(|line| line.chars().count() <= 70));
}

#[test]
fn what_cannot_be_explained_says_why_in_one_line() {
    let base = ["explain", "--policy", "no reserve"];
    let with = |more: &[&str]| refusal(&[&base[..], more].concat());
    let unknown = with(&["--scenario", "tool-hungri", "--run", "0"]);
    assert!(unknown.contains("tool-hungry"), "{unknown}");
    let number = with(&["--scenario", "tool-hungry", "--run", "first"]);
    assert!(
        number.contains("--run: found `first`, expected the number"),
        "{number}"
    );
    let several = with(&["--traces", "--run", "3"]);
    assert!(
        several.contains("expected --source with one of"),
        "{several}"
    );
    let source = with(&[
        "--traces",
        "--run",
        "3",
        "--source",
        "tau2/retail:gpt-4.1-min",
    ]);
    assert!(source.contains("tau2/retail:gpt-4.1-mini"), "{source}");
    let nowhere = with(&["--traces", "--run", "no-such-run"]);
    assert!(
        nowhere.contains("expected a run_id or a position"),
        "{nowhere}"
    );
    let neither = with(&["--run", "3"]);
    assert!(neither.contains("--scenario"), "{neither}");
    let price = with(&["--scenario", "tool-hungry", "--run", "0", "--price", "x"]);
    assert!(price.contains("--traces"), "{price}");
    let width = with(&["--scenario", "tool-hungry", "--run", "0", "--width", "5"]);
    assert!(
        width.contains("--width: found 5, expected 60 to 400"),
        "{width}"
    );
    let compliance = with(&["--traces", "--run", "3", "--compliance", "2"]);
    assert!(compliance.contains("--compliance: found 2"), "{compliance}");
    let lines = [unknown, number, several, source, nowhere, width, compliance];
    assert!(lines.iter().all(|line| line.lines().count() == 1));
}
