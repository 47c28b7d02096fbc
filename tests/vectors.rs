//! `holdback vectors`, and `holdback conformance` on what it writes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn holdback(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdback"))
        .args(args)
        .output()
        .unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SCENARIO: &str = r#"
schema = 1
name = "kills"
[model]
price = { input_per_mtok = "3", output_per_mtok = "15", cached_input_per_mtok = "0.3" }
base_input_tokens = 6000
output_tokens = { dist = "lognormal", median = 350, p95 = 1200 }
final_output_tokens = 900
latency_s = { dist = "lognormal", median = 6, p95 = 25 }
demand = { dist = "lognormal", median = 18, p95 = 45 }
batch = 4
[model.faults]
transient = 0.05
[[tools]]
name = "search"
result_tokens = 1500
latency_s = 2
error = 0.1
[kills]
per_model_call = 0.02
per_tool_call = 0.02
max = 2
"#;

const USAGE: &str = "name = \"usage\"\nfamily = \"usage_limits\"\nlimits = { maxTurns = 12, maxToolCalls = 16, finalizationReserve = { maxOutputTokens = 2000 } }\nbudget = { ceiling_usd = 1.0 }\n";

/// A folder with a scenario and a policy; everything is named from inside it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kills.toml"), SCENARIO).unwrap();
    fs::write(folder.path().join("usage.toml"), USAGE).unwrap();
    folder
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

fn vectors(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(file)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn conformance_accepts_what_vectors_writes_for_both_families_with_kills() {
    let folder = folder();
    for (policy, kills) in [
        ("no reserve", "kill"),
        (&path(&folder, "usage.toml"), "kills"),
    ] {
        let out = path(&folder, "out.jsonl");
        let written = holdback(&[
            "vectors",
            "--scenario",
            &path(&folder, "kills.toml"),
            "--policy",
            policy,
            "--runs",
            "120",
            "-o",
            &out,
        ]);
        assert!(written.status.success(), "{}", errors(&written));
        let vectors = vectors(&out);
        let died = |vector: &&Value| match &vector[kills] {
            Value::Array(kills) => !kills.is_empty(),
            kill => !kill.is_null(),
        };
        assert!(vectors.iter().filter(died).count() > 10);
        let told = errors(&written);
        let left_out = 120 - vectors.len();
        assert!(
            left_out == 0 || told.contains(&format!("{left_out} runs left out: ")),
            "{told}"
        );
        let played = holdback(&["conformance", &out]);
        assert!(played.status.success(), "{}", errors(&played));
        let summary = format!("{} passed, 0 failed\n", vectors.len());
        assert_eq!(String::from_utf8_lossy(&played.stdout), summary);
    }
}

#[test]
fn a_changed_vector_is_found_with_its_name() {
    let folder = folder();
    let out = path(&folder, "out.jsonl");
    let scenario = path(&folder, "kills.toml");
    let written = holdback(&[
        "vectors",
        "--scenario",
        &scenario,
        "--policy",
        "no reserve",
        "--run",
        "4",
        "-o",
        &out,
    ]);
    assert!(written.status.success(), "{}", errors(&written));
    let mut vector = vectors(&out).remove(0);
    vector["script"][0]["cost"] = json!("9");
    fs::write(&out, vector.to_string()).unwrap();
    let played = holdback(&["conformance", &out]);
    assert_eq!(played.status.code(), Some(1));
    let told = String::from_utf8_lossy(&played.stdout).into_owned();
    assert!(told.starts_with("kills/no reserve/4: "), "{told}");
    assert!(told.ends_with("0 passed, 1 failed\n"), "{told}");
}

#[test]
fn vectors_go_to_stdout_and_are_the_same_each_time() {
    let args = [
        "vectors",
        "--scenario",
        "coding-agent",
        "--policy",
        "cost reserve 0.25",
        "--runs",
        "3",
    ];
    let (first, second) = (holdback(&args), holdback(&args));
    assert!(first.status.success(), "{}", errors(&first));
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(String::from_utf8_lossy(&first.stdout).lines().count(), 3);
}

#[test]
fn what_has_no_vectors_is_refused_by_reason() {
    let folder = folder();
    let caps = path(&folder, "caps.toml");
    fs::write(
        &caps,
        "name = \"plain\"\nfamily = \"caps\"\nlimits = { max_turns = 5 }\n",
    )
    .unwrap();
    let refused = |policy: &str| {
        let output = holdback(&["vectors", "--scenario", "tool-hungry", "--policy", policy]);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        errors(&output)
    };
    let of_caps = refused(&caps);
    assert!(of_caps.contains("`plain` of the family caps"), "{of_caps}");
    let varied = refused("cost 0.25, announced");
    assert!(
        varied.contains("100 runs: the policy varies the rules"),
        "{varied}"
    );
}
