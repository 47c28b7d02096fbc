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
    let traces = size(
        folder.path(),
        &[
            "--traces",
            "x",
            "--policy",
            "policy.toml",
            "--vary",
            "max_steps=1..2",
        ],
    );
    assert_eq!(traces.status.code(), Some(2));
    assert!(
        stderr(&traces).contains("calibrate a scenario"),
        "{}",
        stderr(&traces)
    );
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

/// Over many master seeds, recommendations at 95% miss the target in at most a tenth of the cases. Takes
/// minutes: set `HOLDBACK_SIZE_SEEDS` to the number of master seeds.
#[test]
fn recommendations_keep_their_confidence_over_master_seeds() {
    let Some(seeds) = std::env::var("HOLDBACK_SIZE_SEEDS")
        .ok()
        .and_then(|n| n.parse::<u32>().ok())
    else {
        return;
    };
    // A rate that only a reserve of 1 reaches, and that barely: 1 - 0.3 q^20 = 98.63%, asked 98.5%.
    let truth = |reserve: i32| match reserve {
        0 => 1.0 - (6.0_f64 / 7.0).powi(20),
        _ => 1.0 - (6.0_f64 / 7.0).powi(21 - reserve) * 0.3,
    };
    let (mut missed, mut recommended) = (0, 0);
    for seed in 0..seeds {
        let folder = folder("0.7");
        let seed = seed.to_string();
        let mut ask = ASK.to_vec();
        ask[7] = "0.985";
        ask.extend(["--seed", &seed]);
        if size(folder.path(), &ask).status.code() == Some(0) {
            let value = result(folder.path())["fields"][0]["value"].clone();
            recommended += 1;
            missed += u32::from(truth(value.as_str().unwrap().parse().unwrap()) < 0.985);
        }
    }
    println!("{seeds} master seeds: {recommended} recommended, {missed} of them miss the target");
    assert!(missed * 10 <= seeds, "{missed} of {seeds}");
}
