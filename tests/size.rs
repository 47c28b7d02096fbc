//! `holdback size` where the right answer is known.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Geometric demand of mean 6, one call a turn: P(demand >= k) = (6/7)^k.
const GEOMETRIC: &str = r#"
schema = 1
name = "geometric"
summary = "One call a turn."
[model]
price = { input_per_mtok = "3", output_per_mtok = "15" }
demand = { dist = "geometric", mean = 6 }
[model.compliance]
synthesis_only = COMPLIANCE
[[tools]]
name = "t"
"#;

/// A model that never has enough and, told that only verification is left, makes two more calls before
/// it reports.
const SCRIPTED: &str = r#"
schema = 1
name = "scripted"
summary = "A fixed plan."
on_end = "hungry"
[[turn]]
calls = { search = 1 }
cost_usd = "0.10"
[[closing]]
calls = ["verify"]
cost_usd = "0.10"
[[closing]]
calls = ["verify"]
cost_usd = "0.10"
[[closing]]
answer = "report"
cost_usd = "0.12"
"#;

const WINDOW: &str = r#"
name = "window"
family = "usage_limits"
limits = { maxToolCalls = 8, finalizationWindow = { reserveCalls = 1, allow = ["verify"] } }
"#;

const POLICY: &str = r#"
name = "base"
family = "run_limits"
limits = { max_steps = 20, max_model_calls = "unlimited", max_tool_calls = "unlimited" }
"#;

fn size(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdback"))
        .current_dir(folder)
        .arg("size")
        .args(arguments)
        .arg("--quiet")
        .output()
        .unwrap()
}

fn folder(compliance: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "geometric.toml",
        &GEOMETRIC.replace("COMPLIANCE", compliance),
    );
    write("scripted.toml", SCRIPTED);
    write("policy.toml", POLICY);
    write("window.toml", WINDOW);
    folder
}

fn result(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("out/size.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ASK: [&str; 12] = [
    "--scenario",
    "geometric.toml",
    "--policy",
    "policy.toml",
    "--vary",
    "synthesis_reserve_steps",
    "--target-answered",
    "0.97",
    "--runs",
    "4000",
    "--out",
    "out",
];

/// Without a reserve q^20 = 4.6% of the runs have no step left for their answer. A reserve of r loses
/// only those that reach it and disobey: answered = 1 - q^(20 - r) (1 - c) q, so with c = 0.7 a reserve
/// of 1 answers 98.6% and is the smallest to reach 97%.
#[test]
fn the_closed_form_gives_the_reserve_and_the_rate() {
    let folder = folder("0.7");
    let output = size(folder.path(), &ASK);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = result(folder.path());
    assert_eq!(result["fields"][0]["value"], "1");
    let truth = 1.0 - (6.0_f64 / 7.0).powi(20) * 0.3;
    let expected = &result["expected"][0];
    let error = expected["answered"]["value"].as_f64().unwrap() - truth;
    let allowed = 4.0 * (truth * (1.0 - truth) / 4000.0).sqrt();
    assert!(error.abs() < allowed, "{expected} {truth}");
    assert!(expected["at_least"].as_f64().unwrap() >= 0.97);
    let limits = std::fs::read_to_string(folder.path().join("out/limits.json")).unwrap();
    let limits: Value = serde_json::from_str(&limits).unwrap();
    assert_eq!(limits["synthesis_reserve_steps"], 1);
    assert_eq!(limits["max_steps"], 20);
    for file in ["size.md", "manifest.json"] {
        assert!(folder.path().join("out").join(file).is_file(), "{file}");
    }
}

/// The window must leave room for both verifications.
#[test]
fn a_script_that_verifies_twice_needs_a_reserve_of_two() {
    let folder = folder("1");
    let ask = [
        "--scenario",
        "scripted.toml",
        "--policy",
        "window.toml",
        "--vary",
        "finalizationWindow.reserveCalls",
        "--runs",
        "600",
        "--out",
        "out",
    ];
    let output = size(folder.path(), &ask);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(result(folder.path())["fields"][0]["value"], "2");
}

#[test]
fn what_no_reserve_can_do_fails_and_names_the_best_and_what_binds() {
    let folder = folder("0.0");
    let output = size(folder.path(), &ASK);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let result = result(folder.path());
    let verdict = &result["verdict"]["infeasible"];
    assert_eq!(verdict["binding"], "target");
    assert_eq!(verdict["scenario"], "geometric");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("Out of reach. The best in range: synthesis_reserve_steps = "),
        "{text}"
    );
    let out = folder.path().join("out");
    assert!(
        out.join("best-reachable.json").is_file() && !out.join("limits.json").exists(),
        "limits that do not reach the goal must not look like those to paste"
    );
}

#[test]
fn a_reserve_that_gives_up_too_much_evidence_is_named_as_what_binds() {
    let folder = folder("1");
    let mut ask = ASK.to_vec();
    ask[5] = "synthesis_reserve_steps=8..19";
    ask.extend(["--max-evidence-loss", "1%"]);
    let output = size(folder.path(), &ask);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(
        result(folder.path())["verdict"]["infeasible"]["binding"],
        "evidence_loss"
    );
}

#[test]
fn bad_words_are_one_line_with_advice() {
    let folder = folder("1");
    for (at, word, advice) in [
        (
            5,
            "synthesis_reserve_stepz",
            "did you mean `synthesis_reserve_steps`?",
        ),
        (5, "maxToolCalls=1..3", "unknown key"),
        (5, "max_steps", "max_steps=LO..HI"),
        (5, "max_steps=0..3", "at least 1"),
        (7, "1.5", "a share above 0 and below 1"),
        (9, "50", "expected at least"),
        (3, "nobody", "nobody"),
    ] {
        let mut ask = ASK;
        ask[at] = word;
        let output = size(folder.path(), &ask);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{word}: {message}");
        assert!(message.contains(advice), "{word}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    }
}

/// Recorded runs of 2 to 26 turns: without a reserve the six of 25 that are longer than 20 turns end
/// unanswered, and a reserve of one step answers them all.
fn recorded(folder: &Path, runs: usize) {
    let call = r#"{"cost_usd":0.01,"tool_calls":[{"name":"t"}]}"#;
    let line = |run: usize| {
        let turns = vec![call; 1 + run % 25].join(",");
        format!(
            r#"{{"source":"shop","run_id":"{run}","turns":[{turns},{{"cost_usd":0.01}}],"final_answer":true}}"#
        )
    };
    let lines: Vec<String> = (0..runs).map(line).collect();
    std::fs::write(folder.join("runs.jsonl"), lines.join("\n")).unwrap();
}

const ASK_RECORDED: [&str; 10] = [
    "--traces",
    "runs.jsonl",
    "--policy",
    "policy.toml",
    "--vary",
    "synthesis_reserve_steps",
    "--target-answered",
    "0.95",
    "--out",
    "out",
];

#[test]
fn recorded_runs_are_searched_in_one_half_and_prove_in_the_other() {
    let folder = folder("1");
    recorded(folder.path(), 401);
    let output = size(folder.path(), &ASK_RECORDED);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = result(folder.path());
    assert_eq!(result["fields"][0]["value"], "1");
    let expected = &result["expected"][0];
    assert_eq!(expected["scenario"], "shop");
    assert_eq!(expected["answered"]["value"], 1.0);
    // 201 of 201 at 95%: 0.05^(1/201) at a full error budget, half of which this first step has.
    let at_least = expected["at_least"].as_f64().unwrap();
    assert!(
        (at_least - 0.025_f64.powf(1.0 / 201.0)).abs() < 1e-6,
        "{expected}"
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("200 recorded runs searched, 201 others prove"),
        "{text}"
    );
}

#[test]
fn an_unknown_source_of_recorded_runs_is_named_with_the_nearest() {
    let folder = folder("1");
    recorded(folder.path(), 30);
    let mut ask = ASK_RECORDED.to_vec();
    ask.extend(["--source", "shpo"]);
    let output = size(folder.path(), &ask);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("did you mean `shop`?"), "{message}");
}

#[test]
fn too_few_recorded_runs_say_how_many_a_proof_needs() {
    let folder = folder("1");
    recorded(folder.path(), 30);
    let output = size(folder.path(), &ASK_RECORDED);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("found 30 recorded runs") && message.contains("expected at least"),
        "{message}"
    );
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
}

#[test]
fn threads_and_sharing_leave_no_trace() {
    let ways: [&[&str]; 3] = [&["1"], &["3"], &["1", "--no-sharing"]];
    let outputs = ways.map(|way| {
        let folder = folder("0.7");
        let mut ask = ASK.to_vec();
        ask.extend(["--max-cost-increase", "5", "--threads"]);
        ask.extend_from_slice(way);
        let output = size(folder.path(), &ask);
        let json = std::fs::read(folder.path().join("out/size.json")).unwrap();
        let manifest = std::fs::read(folder.path().join("out/manifest.json")).unwrap();
        (output.stdout, json, manifest)
    });
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

/// Steps reserves of the scheduled run: each one more answers a few percent more.
const STEPS: &str = r#"
name = "reserve-{synthesis_reserve_steps}"
extends = "no reserve"
sweep = { synthesis_reserve_steps = [0, 1, 2, 3, 4, 5] }
"#;

/// The answered rates of [`STEPS`] in a million runs each, by reserve.
fn reference(folder: &Path) -> Vec<f64> {
    std::fs::write(folder.join("steps.toml"), STEPS).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_holdback"))
        .current_dir(folder)
        .args(["compare", "--scenario", "scheduled-briefing"])
        .args(["--policy", "steps.toml", "--runs", "1000000"])
        .args(["--seed", "1000003", "--format", "csv", "--quiet"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let csv = String::from_utf8(output.stdout).unwrap();
    let answered = |line: &str| line.split(',').nth(4).and_then(|field| field.parse().ok());
    let rates: Vec<u64> = csv.lines().filter_map(answered).collect();
    rates.into_iter().map(|runs| runs as f64 / 1e6).collect()
}

/// Over many master seeds, recommendations at 95% miss the target in at most a tenth of the cases. The
/// target lies just above what a reserve of 1 reaches in the reference, so that only luck can recommend
/// it. Takes minutes: set `HOLDBACK_SIZE_SEEDS` to the number of master seeds.
#[test]
fn recommendations_keep_their_confidence_over_master_seeds() {
    let Some(seeds) = std::env::var("HOLDBACK_SIZE_SEEDS")
        .ok()
        .and_then(|n| n.parse::<usize>().ok())
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let rates = reference(folder.path());
    let target = ((rates[1] + 0.0005) * 1e4).ceil() / 1e4;
    let mut by_reserve = vec![0; rates.len()];
    let (mut searched, mut grid) = (0, 0);
    for seed in 0..seeds {
        let seed = seed.to_string();
        let target = target.to_string();
        let ask = ["--scenario", "scheduled-briefing", "--policy", "no reserve"];
        let vary = ["--vary", "synthesis_reserve_steps", "--runs", "2000"];
        let rest = [
            "--target-answered",
            &target,
            "--seed",
            &seed,
            "--out",
            &seed,
        ];
        let ask: Vec<&str> = [ask.as_slice(), &vary, &rest].concat();
        if size(folder.path(), &ask).status.code() == Some(0) {
            let text = std::fs::read_to_string(folder.path().join(&seed).join("size.json"));
            let found: Value = serde_json::from_str(&text.unwrap()).unwrap();
            let value = found["fields"][0]["value"].as_str().unwrap();
            by_reserve[value.parse::<usize>().unwrap()] += 1;
            searched += found["spent"]["search"].as_u64().unwrap();
            grid += found["spent"]["full_grid"].as_u64().unwrap();
        }
    }
    let missed: usize = (0..rates.len())
        .filter(|reserve| rates[*reserve] < target)
        .map(|reserve| by_reserve[reserve])
        .sum();
    println!("reference {rates:?}, target {target}");
    println!(
        "{seeds} master seeds: recommended {by_reserve:?} by reserve, {missed} miss the target"
    );
    println!("{searched} runs searched where the full grids take {grid}");
    assert!(missed * 10 <= seeds, "{missed} of {seeds}");
    assert!(
        by_reserve.iter().sum::<usize>() * 2 > seeds,
        "{by_reserve:?}"
    );
}
