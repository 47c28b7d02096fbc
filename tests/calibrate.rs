//! `holdback calibrate` and `holdback init` as a user meets them.

use std::path::Path;
use std::process::{Command, Output};

fn holdback(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdback"))
        .current_dir(folder)
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Forty runs of two sources.
fn traces(folder: &Path) {
    let mut lines = String::new();
    for run in 0..40 {
        let source = ["a/x", "b"][run % 2];
        let turn = |at: usize| {
            format!(
                r#"{{"input_tokens":{},"output_tokens":{},"cost_usd":0.01,"tool_calls":[{{"name":"t","args_hash":"{run}{at}","result_hash":"{run}{at}"}}]}}"#,
                1000 + 300 * at,
                50 + 7 * at + run
            )
        };
        let turns: Vec<String> = (0..2 + run % 4).map(turn).collect();
        lines += &format!(
            "{{\"source\":\"{source}\",\"run_id\":\"{run}\",\"turns\":[{},{{\"input_tokens\":3000,\"output_tokens\":200,\"cost_usd\":0.02}}]}}\n",
            turns.join(",")
        );
    }
    std::fs::write(folder.join("runs.jsonl"), lines).unwrap();
}

#[test]
fn init_writes_files_that_run_as_they_are_and_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let first = holdback(folder.path(), &["init", "new"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let study = [
        "compare",
        "new/study.toml",
        "--runs",
        "50",
        "--format",
        "csv",
        "--quiet",
    ];
    let compared = holdback(folder.path(), &study);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    assert_eq!(text(&compared.stdout).lines().count(), 1 + 4);
    let again = holdback(folder.path(), &["init", "new"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("found a file already"));
}

#[test]
fn calibrate_writes_a_scenario_a_source_that_compare_runs() {
    let folder = tempfile::tempdir().unwrap();
    traces(folder.path());
    let done = holdback(folder.path(), &["calibrate", "runs.jsonl", "-o", "fitted"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report = text(&done.stdout);
    assert!(
        report.contains("demand") && report.contains("mean data/fit"),
        "{report}"
    );
    let mut names: Vec<_> = std::fs::read_dir(folder.path().join("fitted"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 2);
    let scenario = format!("fitted/{}", names[1]);
    let compare = [
        "compare",
        "--scenario",
        &scenario,
        "--runs",
        "20",
        "--format",
        "csv",
        "--quiet",
    ];
    let compared = holdback(folder.path(), &compare);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
}

#[test]
fn calibrate_refuses_what_it_cannot_do_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    traces(folder.path());
    std::fs::write(folder.path().join("odd.json"), "{\"a\": 1}").unwrap();
    for (args, part) in [
        (
            vec!["runs.jsonl", "-o", "one.toml"],
            "found one file for 2 sources (a/x, b)",
        ),
        (
            vec!["runs.jsonl", "--source", "a/y", "-o", "one.toml"],
            "did you mean `a/x`?",
        ),
        (
            vec!["odd.json", "-o", "one.toml"],
            "an object with the keys `a`",
        ),
        (vec!["none.jsonl", "-o", "one.toml"], "no such file"),
        (
            vec!["runs.jsonl", "--price", "no-model", "-o", "d"],
            "--price: found",
        ),
    ] {
        let args: Vec<&str> = std::iter::once("calibrate").chain(args).collect();
        let refused = holdback(folder.path(), &args);
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(message.contains(part), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert!(!folder.path().join("one.toml").exists());
}

#[test]
fn replay_reads_the_same_formats() {
    let folder = tempfile::tempdir().unwrap();
    let trajectory = r#"{"messages": [
        {"role": "assistant", "content": "```bash\nls\n```", "extra": {"cost": 0.5}},
        {"role": "user", "content": "<returncode>0</returncode>"},
        {"role": "assistant", "content": "```bash\nsubmit\n```", "extra": {"cost": 0.25}}],
        "info": {"exit_status": "Submitted"}}"#;
    std::fs::write(folder.path().join("t.traj.json"), trajectory).unwrap();
    let replay = [
        "replay",
        "t.traj.json",
        "--policy",
        "no reserve",
        "--format",
        "csv",
        "--quiet",
    ];
    let replayed = holdback(folder.path(), &replay);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    assert!(text(&replayed.stdout).contains("mini-swe-agent"));
}

#[test]
fn imports_hold_what_an_independent_count_finds_in_the_same_files() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/imports");
    let folder = tempfile::tempdir().unwrap();
    for (file, counted) in [
        (
            "mini-swe-agent.traj.json.gz",
            "1 runs, 18 model calls, 18 tool calls (0 failed); tokens: input 111889, of them cached 68915, \
             output 4748; USD 0.156707",
        ),
        (
            "tau2.results.json.gz",
            "5 runs, 43 model calls, 27 tool calls (0 failed); tokens: input 190364, of them cached 169728, \
             output 2185; USD 0.0287232",
        ),
        (
            "otlp.json.gz",
            "5 runs, 43 model calls, 27 tool calls (0 failed); tokens: input 190364, of them cached not \
             recorded, output 2185; USD not recorded",
        ),
    ] {
        let traces = data.join(file);
        let traces = traces.to_str().unwrap();
        let done = holdback(folder.path(), &["calibrate", traces, "-o", "out"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        let report = text(&done.stdout);
        assert!(report.contains(counted), "{report}");
    }
}

#[test]
fn explain_reads_the_same_formats() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/imports");
    for (file, run, more) in [
        ("mini-swe-agent.traj.json.gz", "sample-1", None),
        ("tau2.results.json.gz", "simulation-3", None),
        ("otlp.json.gz", "0", Some("input=0.4,output=1.6")),
    ] {
        let traces = data.join(file);
        let mut args = vec!["explain", "--traces", traces.to_str().unwrap()];
        args.extend(["--policy", "no reserve", "--run", run]);
        args.extend(more.iter().flat_map(|price| ["--price", price]));
        let told = holdback(data.as_path(), &args);
        assert!(told.status.success(), "{}", text(&told.stderr));
        assert!(
            text(&told.stdout).contains("model call"),
            "{}",
            text(&told.stdout)
        );
    }
}

/// What a command that must fail says, with its exit code.
fn refused(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = holdback(folder, args);
    let message = text(&output.stderr);
    assert_eq!(message.trim_end().lines().count(), 1, "{args:?}: {message}");
    assert!(!message.contains("os error"), "{args:?}: {message}");
    (output.status.code(), message)
}

#[test]
fn an_output_that_cannot_be_written_is_told_with_what_is_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    traces(folder.path());
    std::fs::write(folder.path().join("taken"), "mine").unwrap();
    for (output, told) in [
        (
            "taken",
            "-o: found the file taken, expected a folder, or a file whose name ends in .toml",
        ),
        ("taken/x.toml", "taken: found a file, expected a folder"),
        ("taken/deeper/", "taken: found a file, expected a folder"),
    ] {
        let ask = ["calibrate", "runs.jsonl", "--source", "b", "-o", output];
        let (code, message) = refused(folder.path(), &ask);
        assert_eq!(code, Some(2), "{output}: {message}");
        assert!(message.contains(told), "{output}: {message}");
    }
    let kept = std::fs::read_to_string(folder.path().join("taken")).unwrap();
    assert_eq!(kept, "mine");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_the_machines_failure_and_no_device_is_replaced_by_a_file() {
    use std::os::unix::fs::FileTypeExt;
    let folder = tempfile::tempdir().unwrap();
    traces(folder.path());
    let full = [
        "calibrate",
        "runs.jsonl",
        "--source",
        "b",
        "-o",
        "/dev/full",
    ];
    let (code, message) = refused(folder.path(), &full);
    assert_eq!(code, Some(3), "{message}");
    assert!(
        message.contains("/dev/full: found no space left"),
        "{message}"
    );
    let kind = std::fs::metadata("/dev/full").unwrap().file_type();
    assert!(kind.is_char_device());
    let null = [
        "calibrate",
        "runs.jsonl",
        "--source",
        "b",
        "-o",
        "/dev/null",
    ];
    assert!(holdback(folder.path(), &null).status.success());
}

#[test]
fn init_into_a_file_or_where_no_folder_can_be_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("taken"), "mine").unwrap();
    for place in ["taken", "taken/below"] {
        let (code, message) = refused(folder.path(), &["init", place]);
        assert_eq!(code, Some(2), "{message}");
        assert!(
            message.contains("taken: found a file, expected a folder"),
            "{message}"
        );
    }
    if cfg!(target_os = "linux") {
        let (code, message) = refused(folder.path(), &["init", "/proc/nowhere"]);
        assert_eq!(code, Some(2), "{message}");
        assert!(
            message.contains("/proc/nowhere: found no such place"),
            "{message}"
        );
        let (code, message) = refused(folder.path(), &["init", "/dev/full"]);
        assert_eq!(code, Some(2), "{message}");
    }
}

#[test]
fn explaining_a_run_of_an_empty_file_says_that_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    let ask = [
        "explain",
        "--traces",
        "empty.jsonl",
        "--run",
        "0",
        "--policy",
        "no reserve",
    ];
    let (code, message) = refused(folder.path(), &ask);
    assert_eq!(code, Some(2), "{message}");
    assert!(
        message.contains("found `0` and no run at all") && !message.contains("()"),
        "{message}"
    );
}
