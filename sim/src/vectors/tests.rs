use holdback_scenarios::read::{self, Loader};
use holdback_scenarios::{Policy, Scenario};
use serde_json::{Value, json};

use super::*;
use crate::conformance::run_lines;

/// A rough world, without what decides how often the process dies.
const WORLD: &str = r#"
    schema = 1
    name = "rough"
    [model]
    price = { input_per_mtok = "3", output_per_mtok = "15", cached_input_per_mtok = "0.3" }
    base_input_tokens = 6000
    output_tokens = { dist = "lognormal", median = 350, p95 = 1200 }
    reasoning_tokens = 40
    final_output_tokens = 900
    latency_s = { dist = "lognormal", median = 6, p95 = 25 }
    demand = { dist = "lognormal", median = 18, p95 = 45 }
    batch = 4
    cache_hit = 0.8
    [model.faults]
    transient = 0.05
    transient_after_output = 0.01
    permanent = 0.005
    protocol = 0.005
    empty = 0.03
    stall = 0.03
    rate_limit = 0.05
    billed = 0.5
    retry_after_s = 7
    [model.reporting]
    missing = 0.02
    [model.habits]
    repeat_call = 0.2
    record_evidence = 0.3
    [[tools]]
    name = "search"
    cost_usd = "0.01"
    result_tokens = 1500
    latency_s = 1.2345
    novelty = 0.7
    error = 0.1
    denied = 0.1
    parallel = true
    [[tools]]
    name = "fetch"
    parallel = true
    latency_s = { dist = "lognormal", median = 3, p95 = 9 }
    result_tokens = 4000
"#;

fn scenario(rest: &str) -> Scenario {
    let text = format!("{WORLD}{rest}");
    Loader::default().scenario_from_toml("test", &text).unwrap()
}

fn policy(text: &str) -> Policy {
    read::policy_from_toml("test", text).unwrap()
}

fn run_limits(rest: &str) -> Policy {
    policy(&format!(
        "name = \"run\"\nfamily = \"run_limits\"\nlimits = {{ max_steps = 9, max_tool_calls = 20, max_cost = \"0.60\", synthesis_reserve_steps = 1, synthesis_reserve_cost = \"0.05\" }}\n{rest}"
    ))
}

fn usage_limits(limits: &str, rest: &str) -> Policy {
    policy(&format!(
        "name = \"usage\"\nfamily = \"usage_limits\"\nlimits = {{ maxTurns = 9, maxToolCalls = 14, toolBudgetNotices = true, checkpointEveryToolCalls = 2, {limits} }}\n{rest}"
    ))
}

/// The vectors of the first runs, and why others are none.
fn vectors(scenario: &Scenario, policy: &Policy, runs: u64) -> (Vec<Value>, Vec<LeftOut>) {
    let policies = std::slice::from_ref(policy);
    let prepared = Prepared::new(scenario, policies, 7).unwrap();
    let about = About {
        scenario: &scenario.name,
        seed: 7,
    };
    let (mut vectors, mut left_out) = (Vec::new(), Vec::new());
    for run in 0..runs {
        match vector(&prepared, 0, policy, &about, run) {
            Ok(vector) => vectors.push(vector),
            Err(NoVector::LeftOut(reason)) => left_out.push(reason),
            Err(defect) => panic!("{defect}"),
        }
    }
    (vectors, left_out)
}

#[track_caller]
fn assert_accepted(vectors: &[Value]) {
    let lines: Vec<String> = vectors.iter().map(Value::to_string).collect();
    let report = run_lines(lines.join("\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{}", report.failed[0]);
    assert_eq!(report.passed, vectors.len());
}

fn usage_policies() -> Vec<Policy> {
    vec![
        usage_limits(
            "finalizationReserve = { maxOutputTokens = 2000 }",
            "budget = { ceiling_usd = 0.4 }",
        ),
        usage_limits(
            "toolBudgetExtension = { increment = 4, maxExtensions = 2, requireNewEvidence = true }, finalizationWindow = { reserveCalls = 3, allow = [\"record_evidence\"] }",
            "evidence = { min_entries = 3, enforce = \"refuse\" }",
        ),
        usage_limits(
            "timeoutMs = 90000, streamIdleTimeoutMs = 20000, maxRepeatedToolSignature = 2, maxNoNewEvidenceCalls = 6",
            "schema = { valid = 0.6 }\nretry_attempts = 2",
        ),
        usage_limits(
            "toolUnits = { max = 20, costs = { fetch = 3 } }, maxCallsPerTool = { search = 8 }",
            "terminal_tool = { name = \"finish\", repair_turn_reserve = 1 }\nresume_limits = { maxTurns = 12, maxToolCalls = 16 }",
        ),
    ]
}

#[test]
fn vectors_of_runs_without_kills_are_accepted() {
    let scenario = scenario("");
    for policy in [
        run_limits(""),
        run_limits("deadline_s = 100"),
        policy_without_cap(),
    ]
    .into_iter()
    .chain(usage_policies())
    {
        let (vectors, _) = vectors(&scenario, &policy, 150);
        assert!(vectors.len() > 100, "{}: {}", policy.name, vectors.len());
        assert_accepted(&vectors);
    }
}

fn policy_without_cap() -> Policy {
    policy(
        "name = \"open\"\nfamily = \"run_limits\"\nlimits = { max_steps = \"unlimited\", max_model_calls = 30, max_tool_calls = \"unlimited\" }",
    )
}

#[test]
fn vectors_of_killed_runs_are_accepted() {
    let scenario = scenario(
        "\n[kills]\nper_model_call = 0.03\nper_tool_call = 0.02\nmax = 3\ndowntime_s = 12.5\n",
    );
    let (run, left_out) = vectors(&scenario, &run_limits("deadline_s = 200"), 300);
    let died = |vector: &&Value| !vector["kill"].is_null();
    assert!(run.iter().filter(died).count() > 30);
    assert!(left_out.contains(&LeftOut::SeveralKills));
    assert_accepted(&run);
    for policy in usage_policies() {
        let (usage, _) = vectors(&scenario, &policy, 150);
        let died = |vector: &&Value| vector["kills"].as_array().is_some_and(|k| !k.is_empty());
        assert!(usage.iter().filter(died).count() > 20, "{}", usage.len());
        assert_accepted(&usage);
    }
}

#[test]
fn a_kill_in_a_request_loses_the_reply_and_keeps_the_script() {
    let scenario = scenario("\n[kills]\nafter_model_calls = [3]\n");
    let (run, _) = vectors(&scenario, &run_limits(""), 20);
    let vector = &run[0];
    assert_eq!(vector["kill"]["at"], "model_in_flight");
    let sent = |vector: &Value| {
        let trace = vector["expect"]["trace"].as_array().unwrap().clone();
        trace
            .into_iter()
            .filter(|e| e.get("model").is_some())
            .count()
    };
    // The lost attempt meets no entry of the script.
    assert_eq!(sent(vector), vector["script"].as_array().unwrap().len() + 1);
    let (usage, _) = vectors(&scenario, &usage_policies()[0], 20);
    assert_eq!(usage[0]["kills"], json!([{"at": "in-model", "n": 3}]));
}

#[test]
fn a_kill_in_a_batch_is_found_by_the_next_process_as_a_pending_batch() {
    let scenario = scenario("\n[kills]\nafter_tool_calls = [7]\ndowntime_s = 60\n");
    let (run, _) = vectors(&scenario, &run_limits(""), 20);
    assert_accepted(&run);
    for vector in &run {
        if vector["kill"].is_null() {
            continue;
        }
        assert_eq!(vector["kill"]["at"], "tool_pending");
        assert!(vector["kill"]["downtime_s"].as_f64().unwrap() >= 60.0);
    }
    let within = |vector: &&Value| vector["tags"].to_string().contains("kill_within_batch");
    assert!(run.iter().filter(within).count() > 5);
}

#[test]
fn a_perturbed_vector_fails() {
    let scenario = scenario("");
    let (run, _) = vectors(&scenario, &run_limits(""), 1);
    let (usage, _) = vectors(&scenario, &usage_policies()[0], 1);
    let perturb = |vector: &Value, path: &str, value: Value| {
        let mut other = vector.clone();
        *other.pointer_mut(path).unwrap() = value;
        let report = run_lines(other.to_string().as_bytes()).unwrap();
        assert_eq!(report.failed.len(), 1, "{path}");
    };
    perturb(&run[0], "/script/0/cost", json!("0.019999999999"));
    perturb(&run[0], "/script/0/usage/output_tokens", json!(1));
    perturb(&run[0], "/limits/max_steps", json!(2));
    perturb(&run[0], "/expect/status", json!("CANCELLED"));
    perturb(&usage[0], "/script/0/usage/inputTokens", json!(1));
    perturb(&usage[0], "/limits/maxTurns", json!(2));
    perturb(&usage[0], "/expect/turns", json!(99));
}

#[test]
fn what_the_form_cannot_hold_is_left_out_by_reason() {
    let plain = scenario("");
    let reasons = |scenario: &Scenario, policy: Policy| {
        let (_, mut left_out) = vectors(scenario, &policy, 40);
        left_out.sort();
        left_out.dedup();
        left_out
    };
    for rest in [
        "identical_calls = 4",
        "attempts = 2",
        "rules = { crossing_turn = \"refuse_then_synthesize\" }",
        "rules = { count_tool_cost = true }",
    ] {
        assert_eq!(reasons(&plain, run_limits(rest)), [LeftOut::VariedRules]);
    }
    let caps = policy("name = \"c\"\nfamily = \"caps\"\nlimits = { max_turns = 5 }");
    assert_eq!(reasons(&plain, caps), [LeftOut::Caps]);
    let tail = scenario("\n[kills]\nafter_tool_calls = [5]\nmax = 1\njournal_tail_loss = 1.0\n");
    assert!(reasons(&tail, run_limits("")).contains(&LeftOut::TailLoss));
    let retries = Loader::default()
        .scenario_from_toml(
            "test",
            &WORLD.replace("billed = 0.5", "billed = 0.5\ntransport_retries = 2"),
        )
        .unwrap();
    assert!(reasons(&retries, run_limits("")).contains(&LeftOut::TransportRetries));
    let restarted = scenario("\n[kills]\nafter_tool_calls = [5]\nmax = 1\n");
    let resumed = run_limits("resume_limits = { max_steps = 20 }");
    assert!(reasons(&restarted, resumed).contains(&LeftOut::ResumeLimits));
    let silent = usage_limits("streamIdleTimeoutMs = 700000", "");
    assert!(reasons(&plain, silent).contains(&LeftOut::LongSilence));
}

#[test]
fn a_script_that_states_costs_has_vectors_of_run_limits_only() {
    let scenario = Loader::default()
        .scenario_from_toml(
            "test",
            r#"
            schema = 1
            name = "script"
            [[turn]]
            calls = { lookup = 3 }
            cost_usd = "0.123456789012"
            [[turn]]
            fault = "truncated"
            cost_usd = "0.10"
            [[turn]]
            answer = "done"
            cost_usd = "0.10"
            "#,
        )
        .unwrap();
    let (run, _) = vectors(&scenario, &run_limits(""), 1);
    assert_accepted(&run);
    assert_eq!(run[0]["script"][0]["cost"], "0.123456789012");
    let (_, left_out) = vectors(&scenario, &usage_policies()[0], 1);
    assert_eq!(left_out, [LeftOut::ReportedCosts]);
}
