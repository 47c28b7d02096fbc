//! What a study survives: kill -9 at any moment, a second process, a full disk, shards that are lost,
//! half written or of something else.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

#[path = "common/folder.rs"]
mod folder;

use folder::files;

/// A study that takes long enough to be interrupted: several parts, and rows.
const STUDY: &[&str] = &[
    "--per-run",
    "--threads",
    "2",
    "--scenario",
    "tool-hungry",
    "--scenario",
    "coding-agent",
    "--scenario",
    "kill-mid-batch",
    "--policy",
    "no reserve",
    "--policy",
    "cost reserve 0.25",
];

fn holdback(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdback"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn compare(out: &Path, more: &[&str]) -> Command {
    sized(out, "1500", "5", more)
}

fn sized(out: &Path, runs: &str, seed: &str, more: &[&str]) -> Command {
    let mut command = holdback(&["compare", "--quiet", "--format", "csv"]);
    command.args(["--runs", runs, "--seed", seed]);
    command.args(STUDY).arg("--out").arg(out).args(more);
    command
}

fn merge(shards: &[PathBuf], out: &Path) -> Command {
    let mut command = holdback(&["merge", "--format", "csv"]);
    command.args(shards).arg("--out").arg(out);
    command
}

#[track_caller]
fn succeeds(mut command: Command) {
    let output = command.output().expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
}

#[track_caller]
fn refused(mut command: Command, says: &[&str]) {
    let output = command.output().expect("the binary runs");
    ended_with(&output, 2, says);
}

/// One line of error that says all this, and nothing on stdout.
#[track_caller]
fn ended_with(output: &Output, code: i32, says: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    for word in says {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
    assert!(output.stdout.is_empty());
}

#[track_caller]
fn assert_same(folder: &Path, whole: &[(PathBuf, Vec<u8>)], what: &str) {
    let found = files(folder);
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<PathBuf> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&found), names(whole), "{what}");
    for ((name, content), (_, expected)) in found.iter().zip(whole) {
        assert!(content == expected, "{what}: {} differs", name.display());
    }
}

/// The undisturbed report, and how long it took.
fn undisturbed(folder: &Path) -> (Vec<(PathBuf, Vec<u8>)>, Duration) {
    let started = Instant::now();
    succeeds(compare(folder, &[]));
    let took = started.elapsed();
    let whole = files(folder);
    assert!(whole.iter().any(|(name, _)| name == Path::new("runs.csv")));
    (whole, took)
}

/// Seeded moments, spread over a span.
struct Moments(u64);

impl Moments {
    fn next(&mut self, span: Duration) -> Duration {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        span.mul_f64((word >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// Kills the process (SIGKILL on Unix) after a while; false if it ended before by itself.
fn is_killed(mut child: Child, after: Duration) -> bool {
    let until = Instant::now() + after;
    while Instant::now() < until {
        if child.try_wait().expect("it is our child").is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    child.kill().expect("it is our child");
    !child.wait().expect("it is our child").success()
}

#[test]
fn a_study_killed_at_many_moments_and_resumed_each_time_ends_in_the_same_bytes() {
    const KILLS: u32 = 40;
    let folder = TempDir::new().unwrap();
    let (whole, took) = undisturbed(&folder.path().join("whole"));
    let mut moments = Moments(1);
    let mut kills = 0;
    let mut ended = 0;
    let mut attempt = 0;
    while kills < KILLS {
        attempt += 1;
        let out = folder.path().join(format!("killed-{ended}"));
        let child = compare(&out, &["--resume"]).spawn().unwrap();
        // From the first instant on to beyond the end, where the report is written.
        if is_killed(child, moments.next(took.mul_f64(1.1))) {
            kills += 1;
        } else {
            succeeds(compare(&out, &["--resume"]));
            assert_same(&out, &whole, &format!("after {kills} kills"));
            ended += 1;
        }
        assert!(
            attempt < 20 * KILLS,
            "hardly any process lives to be killed"
        );
    }
    let out = folder.path().join(format!("killed-{ended}"));
    succeeds(compare(&out, &["--resume"]));
    assert_same(&out, &whole, "after all kills");
}

#[test]
fn a_merge_killed_at_many_moments_and_run_again_ends_in_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (whole, _) = undisturbed(&at("whole"));
    let shards: Vec<PathBuf> = ["1/3", "2/3", "3/3"]
        .iter()
        .map(|shard| {
            let path = at(&format!("shard-{}", &shard[..1]));
            succeeds(compare(&path, &["--shard", shard]));
            path
        })
        .collect();
    let before: Vec<_> = shards.iter().map(|shard| files(shard)).collect();
    let started = Instant::now();
    succeeds(merge(&shards, &at("merged")));
    let took = started.elapsed();
    assert_same(&at("merged"), &whole, "merged");
    let mut moments = Moments(2);
    let killed = at("killed");
    for _ in 0..25 {
        is_killed(
            merge(&shards, &killed).spawn().unwrap(),
            moments.next(took.mul_f64(1.1)),
        );
    }
    succeeds(merge(&shards, &killed));
    assert_same(&killed, &whole, "after all kills");
    for (shard, before) in shards.iter().zip(&before) {
        assert_same(shard, before, "a shard is only read");
    }
}

#[test]
fn a_shard_killed_and_resumed_merges_into_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (whole, took) = undisturbed(&at("whole"));
    let shards = [at("a"), at("b")];
    succeeds(compare(&shards[0], &["--shard", "1/2"]));
    let mut moments = Moments(3);
    for _ in 0..10 {
        let child = compare(&shards[1], &["--shard", "2/2", "--resume"])
            .spawn()
            .unwrap();
        is_killed(child, moments.next(took.mul_f64(0.7)));
    }
    succeeds(compare(&shards[1], &["--shard", "2/2", "--resume"]));
    succeeds(merge(&shards, &at("merged")));
    assert_same(&at("merged"), &whole, "merged");
}

#[test]
fn a_replay_killed_at_many_moments_and_run_again_ends_in_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let replay = |out: &Path| {
        let mut command = holdback(&["replay", "--quiet", "--format", "csv", "--per-run", "--out"]);
        command.arg(out);
        command
    };
    let started = Instant::now();
    let whole = folder.path().join("whole");
    succeeds(replay(&whole));
    let took = started.elapsed();
    let mut moments = Moments(4);
    let killed = folder.path().join("killed");
    for _ in 0..25 {
        is_killed(
            replay(&killed).spawn().unwrap(),
            moments.next(took.mul_f64(1.1)),
        );
    }
    succeeds(replay(&killed));
    assert_same(&killed, &files(&whole), "after all kills");
}

/// Two shards of a small study, and what they merge into.
fn two_shards(folder: &Path, seed: &str) -> [PathBuf; 2] {
    ["1/2", "2/2"].map(|shard| {
        let path = folder.join(format!("{seed}-{}", &shard[..1]));
        succeeds(sized(&path, "40", seed, &["--shard", shard]));
        path
    })
}

#[test]
fn shards_that_are_lost_half_written_doubled_or_of_something_else_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let [first, second] = two_shards(folder.path(), "5");
    let [_, other_seed] = two_shards(folder.path(), "6");
    let name = |path: &Path| path.display().to_string();
    let (one, two) = (name(&first), name(&second));
    refused(
        merge(std::slice::from_ref(&second), &out),
        &["no folder for shard 1 of 2"],
    );
    refused(
        merge(&[first.clone(), folder.path().join("nowhere")], &out),
        &["nowhere", "no parts of a study"],
    );
    refused(
        merge(&[first.clone(), second.clone(), first.clone()], &out),
        &["shard 1 again", &one],
    );
    refused(
        merge(&[first.clone(), other_seed.clone()], &out),
        &[&name(&other_seed), "seed 6"],
    );
    refused(
        merge(&[first.clone(), second.clone()], &second),
        &["--out", &two, "expected another folder"],
    );

    // What is changed in the second shard, and what the refusal says.
    type Change = fn(&[u8]) -> Vec<u8>;
    let half: Change = |bytes| bytes[..bytes.len() / 2].to_vec();
    let nothing: Change = |_| Vec::new();
    let flipped: Change = |bytes| {
        let mut bytes = bytes.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes
    };
    let older: Change = |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let version = env!("CARGO_PKG_VERSION");
        text.replacen(&format!("\"{version}\""), "\"0.0.1\"", 1)
            .into()
    };
    let fewer: Change = |bytes| {
        String::from_utf8_lossy(bytes)
            .replacen("40", "41", 1)
            .into()
    };
    for (file, change, says) in [
        ("scenario-1.part", half, "broken"),
        ("scenario-1.part", nothing, "broken"),
        ("scenario-2.part", flipped, "checksum"),
        ("scenario-0.runs.csv", half, "rows"),
        ("scenario-0.runs.csv", flipped, "rows"),
        ("study.json", older, "version 0.0.1"),
        ("study.json", fewer, "runs"),
        ("study.json", half, "header"),
        ("study.json", nothing, "header"),
    ] {
        let path = second.join("parts").join(file);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, change(&whole)).unwrap();
        refused(merge(&[first.clone(), second.clone()], &out), &[&two, says]);
        std::fs::write(&path, whole).unwrap();
    }
    for file in ["scenario-1.part", "scenario-1.runs.csv", "study.json"] {
        let path = second.join("parts").join(file);
        let whole = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        refused(merge(&[first.clone(), second.clone()], &out), &[&two]);
        std::fs::write(&path, whole).unwrap();
    }
    let stolen = second.join("parts/scenario-0.part");
    let own = std::fs::read(&stolen).unwrap();
    std::fs::copy(first.join("parts/scenario-0.part"), &stolen).unwrap();
    refused(
        merge(&[first.clone(), second.clone()], &out),
        &[&two, "another study or shard"],
    );
    std::fs::write(&stolen, own).unwrap();
    assert!(!out.exists(), "nothing is written on a refusal");
    succeeds(merge(&[first, second], &out));
}

#[test]
fn a_damaged_part_or_damaged_rows_are_made_again_by_a_resume() {
    let folder = TempDir::new().unwrap();
    let [first, second] = two_shards(folder.path(), "5");
    let [_, untouched] = two_shards(&folder.path().join("again"), "5");
    for file in ["scenario-0.part", "scenario-1.runs.csv"] {
        let path = second.join("parts").join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() / 3);
        std::fs::write(&path, bytes).unwrap();
    }
    let again = ["--shard", "2/2", "--resume"];
    succeeds(sized(&second, "40", "5", &again));
    assert_same(&second, &files(&untouched), "resumed");
    succeeds(merge(&[first, second], &folder.path().join("out")));
}

/// A process that would go on for hours: it ends with its test, also where that fails.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_second_of_two_processes_on_one_folder_is_refused_and_disturbs_nothing() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let long = |more: &[&str]| sized(&out, "100000000", "5", more);
    let mut first = Endless(long(&[]).spawn().unwrap());
    // The header is written under the lock.
    while !out.join("parts/study.json").exists() {
        assert!(first.0.try_wait().unwrap().is_none(), "it has much to do");
        std::thread::sleep(Duration::from_millis(5));
    }
    let place = out.display().to_string();
    // Not the input's fault: once the first is gone, the same command works.
    let busy = |more: &[&str], says: &[&str]| {
        ended_with(&long(more).output().expect("the binary runs"), 3, says);
    };
    busy(&[], &["--out", "another process", &place]);
    busy(&["--resume"], &["another process"]);
    assert!(
        first.0.try_wait().unwrap().is_none(),
        "the first one goes on"
    );
    drop(first);
    // The lock went with its process; what it left is a study of its own.
    refused(compare(&out, &["--resume"]), &["another study"]);
}

/// A file system of so many bytes; `None` where this user may not mount one.
#[cfg(target_os = "linux")]
struct SmallDisk(PathBuf);

#[cfg(target_os = "linux")]
impl SmallDisk {
    fn mount(at: &Path, bytes: u64) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        let is_mounted = mounted.is_ok_and(|status| status.success());
        is_mounted.then(|| SmallDisk(at.to_owned()))
    }

    fn grow(&self, bytes: u64) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,size={bytes}")])
            .arg(&self.0)
            .status()
            .unwrap();
        assert!(status.success());
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_in_one_line_and_a_resume_with_more_room_in_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let (whole, _) = undisturbed(&folder.path().join("whole"));
    let size: u64 = whole.iter().map(|(_, content)| content.len() as u64).sum();
    for (number, share) in [0.02, 0.1, 0.3, 0.5, 0.8, 1.2].into_iter().enumerate() {
        let at = folder.path().join(format!("disk-{number}"));
        let Some(disk) = SmallDisk::mount(&at, (size as f64 * share) as u64) else {
            eprintln!("SKIPPED: mounting a small file system takes root");
            return;
        };
        let out = at.join("out");
        let full = compare(&out, &["--resume"]).output().unwrap();
        ended_with(&full, 3, &["no space left", "--resume"]);
        disk.grow(8 * size);
        succeeds(compare(&out, &["--resume"]));
        assert_same(
            &out,
            &whole,
            &format!("after a disk of {share} of the report"),
        );
    }
}
