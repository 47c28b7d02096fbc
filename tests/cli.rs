//! The command line as a user meets it: results on stdout, one line of error, exit codes, files.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

#[path = "common/folder.rs"]
mod folder;

use folder::files;

fn holdback(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdback"))
        .args(args)
        .output()
        .expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn refused(args: &[&str], says: &[&str]) {
    let output = holdback(args);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: {error}");
    for word in says {
        assert!(
            error.contains(word),
            "{args:?}: `{word}` is not in: {error}"
        );
    }
    assert!(output.stdout.is_empty(), "{args:?}: {}", stdout(&output));
}

fn file(folder: &TempDir, name: &str, content: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("the folder can be written");
    path.display().to_string()
}

const FEW: &[&str] = &["--runs", "60", "--quiet", "--format", "csv", "--per-run"];

fn compare(out: &Path, more: &[&str]) -> Output {
    let out = out.display().to_string();
    let mut args = vec!["compare"];
    args.extend_from_slice(FEW);
    args.extend_from_slice(&["--out", &out]);
    args.extend_from_slice(more);
    holdback(&args)
}

#[test]
fn the_default_study_needs_no_file_and_prints_a_table_of_100_columns() {
    let output = holdback(&["compare", "--runs", "40"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("scheduled-briefing"));
    assert!(table.contains("What stands out"));
    let longest = table
        .lines()
        .filter(|line| !line.contains("See: "))
        .map(|line| line.chars().count())
        .max();
    assert!(longest <= Some(100), "{longest:?}");
    assert!(!table.contains('\u{1b}'), "colour in a pipe");
}

#[test]
fn threads_shards_interruptions_and_repetition_leave_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert!(compare(&at("one"), &["--threads", "1"]).status.success());
    let whole = files(&at("one"));
    assert!(whole.iter().any(|(name, _)| name == Path::new("runs.csv")));
    for threads in ["2", "7"] {
        assert!(
            compare(&at(threads), &["--threads", threads])
                .status
                .success()
        );
        assert!(files(&at(threads)) == whole, "{threads} threads");
    }
    assert!(compare(&at("apart"), &["--no-sharing"]).status.success());
    assert!(files(&at("apart")) == whole, "policies apart");
    let shards: Vec<String> = ["3/3", "1/3", "2/3"]
        .iter()
        .map(|shard| {
            let path = at(&format!("shard-{}", &shard[..1]));
            assert!(compare(&path, &["--shard", shard]).status.success());
            path.display().to_string()
        })
        .collect();
    let merged = at("merged").display().to_string();
    let mut args = vec!["merge", "--out", &merged, "--format", "csv"];
    args.extend(shards.iter().map(String::as_str));
    let output = holdback(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(files(Path::new(&merged)) == whole, "merged shards");
    // A part that was never finished is made again.
    let resumed = at("resumed");
    std::fs::create_dir_all(resumed.join("parts")).unwrap();
    assert!(compare(&resumed, &["--resume"]).status.success());
    assert!(files(&resumed) == whole, "resumed");
    assert!(compare(&resumed, &[]).status.success());
    assert!(files(&resumed) == whole, "again");
}

#[test]
fn a_replay_brings_the_same_bytes_whether_policies_share_or_not() {
    let folder = TempDir::new().unwrap();
    let [together, apart] = [&[][..], &["--no-sharing"]].map(|more| {
        let out = folder.path().join(format!("out-{}", more.len()));
        let path = out.display().to_string();
        let mut args = vec!["replay", "--quiet", "--per-run", "--out", &path];
        args.extend_from_slice(more);
        let output = holdback(&args);
        assert!(output.status.success(), "{}", stderr(&output));
        files(&out)
    });
    assert!(together == apart);
}

#[test]
fn shards_that_do_not_belong_together_are_named() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for (name, shard, seed) in [("a", "1/2", "7"), ("b", "2/2", "7"), ("c", "2/2", "8")] {
        let output = compare(
            Path::new(&at(name)),
            &[
                "--shard",
                shard,
                "--seed",
                seed,
                "--scenario",
                "tool-hungry",
            ],
        );
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let (a, b, c, out) = (at("a"), at("b"), at("c"), at("out"));
    refused(
        &["merge", &a, "--out", &out],
        &["shard 2", "expected all shards"],
    );
    refused(&["merge", &a, &a, "--out", &out], &["shard 1 again"]);
    refused(&["merge", &a, &c, "--out", &out], &[&c, "seed 8"]);
    let part = folder.path().join("b/parts/scenario-0.part");
    let mut bytes = std::fs::read(&part).unwrap();
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&part, bytes).unwrap();
    refused(
        &["merge", &a, &b, "--out", &out],
        &[&b, "broken", "tool-hungry"],
    );
    assert!(
        !folder.path().join("out").exists(),
        "nothing is written on a refusal"
    );
}

#[test]
fn a_folder_of_something_else_is_never_overwritten() {
    let folder = TempDir::new().unwrap();
    file(&folder, "notes.txt", b"mine");
    let path = folder.path().display().to_string();
    refused(
        &["compare", "--runs", "10", "--out", &path],
        &["not empty", "choose an empty folder"],
    );
    assert_eq!(files(folder.path()).len(), 1);
    let output = folder.path().join("report");
    assert!(
        compare(&output, &["--scenario", "tool-hungry"])
            .status
            .success()
    );
    let output = output.display().to_string();
    refused(
        &["compare", "--runs", "10", "--out", &output],
        &["another study"],
    );
    let taken = file(&folder, "file", b"");
    refused(
        &["compare", "--runs", "10", "--out", &taken],
        &["file", "expected a folder"],
    );
}

#[test]
fn the_embedded_sample_replays_without_a_file() {
    let output = holdback(&["replay", "--format", "csv", "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).lines().count() > 5);
}

#[test]
fn bad_input_gives_one_line_that_says_where_what_and_what_else() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().display().to_string();
    refused(&["compare", "nowhere.toml"], &["nowhere.toml"]);
    refused(
        &["compare", "--scenario", "sheduled-briefing"],
        &["did you mean `scheduled-briefing`"],
    );
    refused(&["compare", "--runs", "0"], &["--runs", "0"]);
    refused(
        &["compare", "--baseline", "no reserv"],
        &["--baseline", "did you mean `no reserve`"],
    );
    refused(
        &[
            "compare",
            "--policy",
            "no reserve",
            "--policy",
            "no reserve",
        ],
        &["twice"],
    );
    refused(&["compare", "--threads", "0"], &["--threads"]);
    refused(&["compare", "--precision", "0"], &["--precision"]);
    refused(&["replay", &path], &["directory"]);
    refused(&["replay", "--compliance", "2"], &["--compliance"]);
    refused(&["conformance", &path], &["directory"]);
    let broken = file(
        &folder,
        "broken.jsonl",
        b"{\"source\":\"s\",\"run_id\":\"1\",\"turns\":[]}\n{\"source\":",
    );
    refused(
        &["replay", &broken, "--policy", "no reserve"],
        &["broken.jsonl", "2"],
    );
    let cut = file(&folder, "cut.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
    refused(&["replay", &cut, "--policy", "no reserve"], &["cut.gz"]);
    let empty = file(&folder, "empty.jsonl", b"");
    refused(
        &["replay", &empty, "--policy", "no reserve"],
        &["empty.jsonl", "at least one run"],
    );
    let toml = file(
        &folder,
        "scenario.toml",
        b"schema = 1\nname = \"x\"\n[modell]\n",
    );
    refused(
        &["compare", "--scenario", &toml, "--runs", "10"],
        &["scenario.toml", "modell", "model"],
    );
    let policy = file(
        &folder,
        "policy.json",
        br#"{"name":"p","family":"run_limits","limits":{"max_steps":4,"synthesis_reserve_steps":4}}"#,
    );
    refused(
        &["compare", "--policy", &policy, "--runs", "10"],
        &["policy.json", "synthesis_reserve_steps", "4"],
    );
    let vectors = file(&folder, "vectors.jsonl", b"{\"id\":\"x\"}\n");
    refused(&["conformance", &vectors], &["vectors.jsonl", "vector x"]);
}

#[test]
fn the_gate_fails_passes_and_says_when_it_cannot_tell() {
    let check = |candidate: &str, runs: &str, more: &[&str]| {
        let mut args = vec![
            "check",
            "--baseline",
            "no reserve",
            "--candidate",
            candidate,
            "--scenario",
            "scheduled-briefing",
            "--runs",
            runs,
            "--max-answered-drop",
            "0.5",
            "--quiet",
        ];
        args.extend_from_slice(more);
        holdback(&args)
    };
    let worse = check("model-call reserve 2", "4000", &[]);
    assert_eq!(
        worse.status.code(),
        Some(1),
        "{}{}",
        stdout(&worse),
        stderr(&worse)
    );
    let better = check("steps reserve 1", "4000", &[]);
    assert_eq!(
        better.status.code(),
        Some(0),
        "{}{}",
        stdout(&better),
        stderr(&better)
    );
    let close = check("cost reserve 0.25", "20", &[]);
    assert_eq!(close.status.code(), Some(0), "{}", stdout(&close));
    let strict = check("cost reserve 0.25", "20", &["--strict"]);
    assert_eq!(strict.status.code(), Some(1), "{}", stdout(&strict));
    refused(
        &[
            "check",
            "--baseline",
            "no reserve",
            "--candidate",
            "steps reserve 1",
        ],
        &["no gate"],
    );
}

#[test]
fn a_saved_summary_is_a_baseline_that_must_reproduce() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("report");
    assert!(
        compare(&out, &["--scenario", "scheduled-briefing"])
            .status
            .success()
    );
    let saved = out.join("summary.json").display().to_string();
    let args = [
        "check",
        "--baseline",
        &saved,
        "--candidate",
        "steps reserve 1",
        "--max-answered-drop",
        "50",
        "--quiet",
    ];
    let output = holdback(&args);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    let text = std::fs::read_to_string(&saved).unwrap();
    let mut summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    let answered = &mut summary["scenarios"][0]["cells"][0]["measures"]["answered"]["value"];
    *answered = serde_json::json!(answered.as_u64().unwrap() + 1);
    let forged = file(&folder, "forged.json", summary.to_string().as_bytes());
    let mut args = args;
    args[2] = &forged;
    refused(&args, &["forged.json", "answered", "as simulated now"]);
    summary["scenarios"] = serde_json::json!([]);
    let empty = file(&folder, "empty.json", summary.to_string().as_bytes());
    args[2] = &empty;
    refused(&args, &["empty.json", "scenarios", "found none"]);
    // What its own runs do not bring again is refused, not left unchecked.
    args[2] = &saved;
    for (option, value, words) in [
        ("--seed", "8", ["study.seed", "--seed"]),
        ("--runs", "17", ["counts of", "expected 17"]),
        (
            "--scenario",
            "tool-hungry",
            ["`tool-hungry`", "`scheduled-briefing`"],
        ),
    ] {
        let args = [&args[..], &[option, value]].concat();
        refused(&args, &words);
    }
}

#[test]
fn the_schema_completions_and_lists_are_printed() {
    let schema: serde_json::Value =
        serde_json::from_str(&stdout(&holdback(&["schema", "summary"]))).unwrap();
    assert!(schema["properties"]["scenarios"].is_object());
    assert!(stdout(&holdback(&["completions", "bash"])).contains("holdback"));
    let names = stdout(&holdback(&["list", "scenarios", "--format", "names"]));
    assert!(names.lines().count() >= 16, "{names}");
    for what in ["scenarios", "policies", "studies", "prices"] {
        let list = stdout(&holdback(&["list", what]));
        let longest = list.lines().map(|line| line.chars().count()).max();
        assert!(
            longest.is_some_and(|longest| longest <= 100),
            "{what}: {longest:?}"
        );
        assert!(
            serde_json::from_str::<serde_json::Value>(&stdout(&holdback(&[
                "list", what, "--format", "json"
            ])))
            .is_ok()
        );
    }
}

#[test]
fn absurd_input_is_refused_in_one_line() {
    let folder = TempDir::new().unwrap();
    let deep_list = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let deep_table = [
        b"{\"a\":".repeat(100_000),
        b"1".to_vec(),
        b"}".repeat(100_000),
    ]
    .concat();
    let deep_toml = [b"a = ".to_vec(), deep_list.clone()].concat();
    let long_key = [b"a.".repeat(50_000), b"a = 1".to_vec()].concat();
    let long_name = [b"name = \"".to_vec(), b"x".repeat(1 << 20), b"\"".to_vec()].concat();
    let junk: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let escape = b"name = \"\\u001b[31m\"\n\"\\u001b[2J\" = 1".to_vec();
    let huge = vec![b' '; (8 << 20) + 1];
    let many: Vec<u8> = (0..20_000)
        .flat_map(|number| format!("[[policy]]\nname = \"{number}\"\n").into_bytes())
        .collect();
    for (name, content) in [
        ("deep.json", &deep_list),
        ("deeper.json", &deep_table),
        ("deep.toml", &deep_toml),
        ("key.toml", &long_key),
        ("name.toml", &long_name),
        ("junk.toml", &junk),
        ("junk.json", &junk),
        ("escape.toml", &escape),
        ("huge.toml", &huge),
        ("huge.json", &huge),
        ("empty.toml", &Vec::new()),
        ("empty.json", &Vec::new()),
        ("many.toml", &many),
    ] {
        let path = file(&folder, name, content);
        refused(&["compare", &path], &[name]);
        refused(&["compare", "--scenario", &path], &[name]);
        refused(&["compare", "--prices", &path], &[name]);
        if name != "many.toml" {
            refused(&["compare", "--policy", &path], &[name]);
        }
    }
    for (name, content) in [
        ("deep.json", &deep_list),
        ("deeper.json", &deep_table),
        ("junk.jsonl", &junk),
        ("empty.jsonl", &Vec::new()),
    ] {
        let path = file(&folder, name, content);
        refused(&["replay", &path], &[name]);
        refused(&["conformance", &path], &[name]);
        refused(&["calibrate", &path, "-o", "out.toml"], &[name]);
    }
    for (option, value) in [
        ("--runs", "1000000001"),
        ("--runs", "99999999999999999999999"),
        ("--runs", "-5"),
        ("--runs", "many"),
        ("--seed", "18446744073709551616"),
        ("--threads", "1000000"),
        ("--threads", "99999999999999999999"),
        ("--precision", "nan"),
        ("--precision", "1e-300"),
        ("--runs-per-month", "-1"),
    ] {
        refused(&["compare", option, value], &[option, "expected"]);
    }
    let out = folder.path().join("out").display().to_string();
    for shard in [
        "5/3",
        "0/3",
        "1/1000000",
        "1/",
        "/",
        "1/99999999999999999999",
    ] {
        refused(
            &["compare", "--out", &out, "--shard", shard],
            &["--shard", "K/N"],
        );
    }
    refused(&["compare", "--frobnicate"], &["--frobnicate"]);
    refused(&["comapre"], &["comapre", "compare"]);
}

#[test]
fn a_selection_is_titled_by_what_it_holds_and_its_command_writes_the_page() {
    let folder = TempDir::new().unwrap();
    let title = |name: &str, more: &[&str]| {
        let out = folder.path().join(name);
        assert!(compare(&out, more).status.success());
        let page = std::fs::read_to_string(out.join("report.html")).expect("there is a page");
        assert!(page.contains(" --out DIR</pre>"));
        let title = page.split("<h1>").nth(1).expect("there is a title");
        title.split("</h1>").next().unwrap_or("").to_owned()
    };
    let scenario = &["--scenario", "scheduled-briefing"];
    let policy = &["--policy", "no reserve"];
    assert_eq!(title("scenario", scenario), "scheduled-briefing");
    assert_eq!(
        title("both", &[scenario.as_slice(), policy].concat()),
        "scheduled-briefing: no reserve"
    );
}
