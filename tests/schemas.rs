//! What Holdback writes keeps to the schemas that it publishes.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

#[path = "common/json_schema.rs"]
mod json_schema;

fn holdback(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdback"))
        .current_dir(folder)
        .args(args)
        .output()
        .unwrap()
}

/// Checks a document against what `holdback schema KIND` prints.
fn keeps_to(kind: &str, document: &[u8]) -> Value {
    let printed = holdback(Path::new("."), &["schema", kind]);
    let schema: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let value = serde_json::from_slice(document).unwrap();
    if let Some(error) = json_schema::wrong(&schema, &schema, &value, "") {
        panic!("{kind}{error}");
    }
    value
}

fn file_keeps_to(kind: &str, path: &Path) -> Value {
    keeps_to(kind, &std::fs::read(path).unwrap())
}

/// The exit code is that of a gate; what is wrong with a question would be 2.
fn done(folder: &Path, args: &[&str]) -> Vec<u8> {
    let output = holdback(folder, args);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{args:?}: {told}"
    );
    output.stdout
}

/// A study in which requests wait before they are sent again.
const STORM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/scenarios/library/incidents/storm-outlasts-retries.toml"
);
/// A source of the embedded sample of recorded runs.
const SAMPLE: &str = "mini-swe-agent/swebench-verified:gemini-3-pro";

const SIZE: [&str; 10] = [
    "size",
    "--scenario",
    "scheduled-briefing",
    "--policy",
    "no reserve",
    "--runs",
    "4000",
    "--quiet",
    "--out",
    "sized",
];

fn sized(target: &str, vary: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut ask = SIZE.to_vec();
    ask.extend(["--target-answered", target]);
    ask.extend(vary.iter().flat_map(|field| ["--vary", field]));
    done(folder.path(), &ask);
    let out = folder.path().join("sized");
    file_keeps_to("manifest", &out.join("manifest.json"));
    let answer = file_keeps_to("size", &out.join("size.json"));
    let limits = match answer["verdict"].as_str() {
        Some("recommended") => "limits.json",
        _ => "best-reachable.json",
    };
    file_keeps_to("policy", &out.join(limits));
    answer
}

#[test]
fn the_answer_of_size_keeps_to_its_schema() {
    let found = sized("0.6", &["synthesis_reserve_cost=0..1:0.25"]);
    assert_eq!(found["verdict"], "recommended");
    assert_ne!(found["closing_call"], Value::Array(Vec::new()));
    let none = sized("0.999", &["synthesis_reserve_steps=0..1"]);
    assert!(none["verdict"].get("infeasible").is_some(), "{none:#}");
}

#[test]
fn the_answer_of_size_for_recorded_runs_keeps_to_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let line = |run: usize| {
        let call = r#"{"cost_usd":0.01,"tool_calls":[{"name":"t"}]}"#;
        let turns = vec![call; 1 + run % 10].join(",");
        format!(r#"{{"source":"s","run_id":"{run}","turns":[{turns},{{"cost_usd":0.02}}]}}"#)
    };
    let lines: Vec<String> = (0..300).map(line).collect();
    std::fs::write(folder.path().join("runs.jsonl"), lines.join("\n")).unwrap();
    let ask = "size --traces runs.jsonl --policy limits.json --vary synthesis_reserve_steps=0..2 \
        --target-answered 0.8 --quiet --out sized";
    std::fs::write(folder.path().join("limits.json"), r#"{"max_steps": 8}"#).unwrap();
    done(folder.path(), &ask.split_whitespace().collect::<Vec<_>>());
    let answer = file_keeps_to("size", &folder.path().join("sized/size.json"));
    assert_eq!(answer["recorded"]["search"], 150);
}

#[test]
fn explanations_keep_to_their_schema_whatever_happens_in_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let explained = |ask: &[&str]| {
        let ask = [&["explain", "--json"], ask].concat();
        keeps_to("explanation", &done(folder.path(), &ask))
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut look = |told: &Value| {
        for policy in told["policies"].as_array().unwrap() {
            let events = policy["events"].as_array().unwrap();
            seen.extend(events.iter().map(|event| event["event"].to_string()));
        }
    };
    let (reserve, announced) = ("cost reserve 1.00", "cost 1.00, announced");
    for scenario in [
        "scheduled-briefing",
        "repeated-kills",
        "retry-storm",
        "kill-mid-batch",
    ] {
        for run in ["0", "1", "2", "3"] {
            let ask = [
                "--scenario",
                scenario,
                "--policy",
                reserve,
                "--run",
                run,
                "--against",
                announced,
            ];
            look(&explained(&ask));
        }
    }
    let all_reserves = "usage limits, all reserves";
    for scenario in ["scheduled-briefing", "repeated-kills"] {
        let ask = [
            "--scenario",
            scenario,
            "--policy",
            all_reserves,
            "--run",
            "0",
        ];
        look(&explained(&ask));
    }
    let storm = "storm-outlasts-retries";
    let ask = [
        "--study",
        STORM,
        "--scenario",
        storm,
        "--policy",
        "20 attempts",
        "--run",
        "0",
    ];
    look(&explained(&ask));
    let recorded = explained(&[
        "--traces", "--run", "0", "--policy", reserve, "--source", SAMPLE,
    ]);
    assert_eq!(recorded["run"]["kind"], "recorded");
    look(&recorded);
    for event in [
        "model_call",
        "tool_call",
        "decision",
        "notice",
        "journal",
        "checkpoint",
        "record",
        "wait",
        "kill",
        "resume",
        "end",
    ] {
        assert!(
            seen.contains(&format!("\"{event}\"")),
            "no {event} in {seen:?}"
        );
    }
}

#[test]
fn a_report_and_a_shard_keep_to_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let study = [
        "compare",
        "--scenario",
        "coding-agent",
        "--runs",
        "100",
        "--quiet",
        "--per-run",
    ];
    done(folder.path(), &[&study[..], &["--out", "whole"]].concat());
    file_keeps_to("summary", &folder.path().join("whole/summary.json"));
    file_keeps_to("manifest", &folder.path().join("whole/manifest.json"));
    done(
        folder.path(),
        &[&study[..], &["--out", "half", "--shard", "1/2"]].concat(),
    );
    file_keeps_to("parts", &folder.path().join("half/parts/study.json"));
}
