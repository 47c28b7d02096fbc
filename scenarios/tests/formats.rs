//! The formats as the documentation shows them.

use holdback_engine::Money;
use holdback_scenarios::policy::{CrossingTurn, ExposureWait, Family, Settings};
use holdback_scenarios::read::policy_from_toml;
use holdback_scenarios::scenario::{Demand, TransportReported};
use holdback_scenarios::script::{Act, Args, Bill, OnEnd, ScriptFault};
use holdback_scenarios::{Loader, Policy, Quantity, Scenario, Study};

fn scenario(text: &str) -> Scenario {
    Loader::default()
        .scenario_from_toml("s.toml", text)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn policy(text: &str) -> Policy {
    policy_from_toml("p.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn study(text: &str) -> Study {
    Loader::default()
        .study_from_toml("st.toml", text)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn usd(text: &str) -> Money {
    text.parse().unwrap()
}

const EVERY_KEY: &str = r#"
schema = 1
name = "everything"
summary = "Every key of the format."
source = "none"
budget_usd = "5.00"
[model]
price = { input_per_mtok = "3.00", cached_input_per_mtok = "0.30", cache_write_per_mtok = "3.75", output_per_mtok = "15.00" }
long_context = { above_tokens = 200000, input_multiplier = "2", output_multiplier = "1.5" }
context_window = 200000
clamp_to_window = true
max_output_tokens = 16384
base_input_tokens = 6000
cache_hit = 0.85
cache_hit_share = 0.9
cache_prefix_tokens = 4000
cache_up_to_tokens = 150000
cache_ttl_s = 300
cache_hit_under_control = 0.0
output_tokens = { dist = "lognormal", median = 350, p95 = 1200 }
reasoning_tokens = 10
final_output_tokens = { dist = "lognormal", median = 1400, p95 = 4000, max = 8000 }
latency_s = { dist = "mixture", parts = [{ weight = 1, dist = "constant", value = 2 }, { weight = 1, dist = "exponential", mean = 9 }] }
demand = { dist = "lognormal", median = 18, p95 = 45 }
batch = { dist = "geometric", mean = 2.5, min = 1 }
estimate_error = 1.2
[model.compliance]
synthesis_only = 0.98
tools_withheld = 0.9
budget_notice = 0.5
window = 0.8
[model.habits]
repeat_call = 0.05
record_evidence = 0.2
[model.faults]
transient = 0.01
transient_after_output = 0.02
permanent = 0.03
protocol = 0.04
empty = 0.05
stall = 0.06
rate_limit = 0.07
billed = 0.5
storm = { dist = "geometric", mean = 3, min = 1 }
retry_after_s = 20
transport_retries = 3
transport_reported = "all"
[model.reporting]
missing = 0.1
factor = 1.25
[model.spike]
probability = 0.02
output_multiplier = { dist = "pareto", min = 3, alpha = 1.5, max = 40 }
[[tools]]
name = "search"
weight = 3
cost_usd = "0.005"
result_tokens = { dist = "empirical", values = [10, 20], weights = [1, 3] }
error = 0.04
error_after_error = 0.18
denied = 0.01
novelty = 0.8
latency_s = 1.5
parallel = true
[[tools]]
name = "plain"
[storage]
checkpoint_usd = "0.00025"
[kills]
per_model_call = 0.01
per_tool_call = 0.02
after_tool_calls = [7]
after_model_calls = [2, 4]
max = 3
downtime_s = 60
journal_tail_loss = 0.1
"#;

#[test]
fn every_key_of_a_scenario_reaches_its_place() {
    let scenario = scenario(EVERY_KEY);
    let model = &scenario.model;
    assert_eq!(scenario.budget, Some(usd("5")));
    let price = model.price.unwrap();
    assert_eq!(price.cached_input, usd("0.0000003"));
    assert_eq!(price.cache_write, usd("0.00000375"));
    let long = model.long_context.unwrap();
    assert_eq!(long.price.input, usd("0.000006"));
    assert_eq!(long.price.cache_write, usd("0.0000075"));
    assert_eq!(long.price.output, usd("0.0000225"));
    assert_eq!(
        (model.context_window, model.clamp_to_window),
        (Some(200_000), true)
    );
    assert_eq!(model.cache_hit_share.get(), 0.9);
    assert_eq!(
        (model.cache_prefix, model.cache_up_to),
        (4000, Some(150_000))
    );
    assert_eq!(model.cache_ttl, Some(300_000_000));
    assert_eq!(model.cache_hit_under_control.unwrap().get(), 0.0);
    assert!(matches!(&model.demand, Demand::Results(Quantity::Drawn(_))));
    assert_eq!(model.final_output_tokens.quantile_count(0.999_999), 8000);
    assert_eq!(model.compliance.window.get(), 0.8);
    assert_eq!(model.habits.record_evidence.get(), 0.2);
    let chances: Vec<f64> = model.faults.chances().iter().map(|p| p.get()).collect();
    assert_eq!(chances, [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07]);
    assert_eq!(model.faults.transport_reported, TransportReported::All);
    assert_eq!(model.faults.retry_after_s, Some(Quantity::Fixed(20.0)));
    assert_eq!(model.reporting.factor, 1.25);
    assert_eq!(model.spike.output_multiplier.quantile(0.0), 3.0);
    let tool = &scenario.tools[0];
    assert_eq!(
        (tool.cost, tool.error_after_error.get()),
        (usd("0.005"), 0.18)
    );
    assert_eq!(tool.result_tokens.quantile_count(0.26), 20);
    let plain = &scenario.tools[1];
    assert_eq!(
        (plain.weight, plain.novelty.get(), plain.parallel),
        (1.0, 1.0, false)
    );
    assert_eq!(scenario.checkpoint_cost, usd("0.00025"));
    assert_eq!(
        (scenario.kills.max, &scenario.kills.after_model_calls[..]),
        (Some(3), &[2, 4][..])
    );
}

#[test]
fn what_is_not_given_is_off_and_one_key_can_stand_for_another() {
    let scenario = scenario(
        "name = \"s\"\n[model]\nprice = { input_per_mtok = 2 }\ncache_hit = 0.5\ndemand = \"endless\"\n[[tools]]\nname = \"t\"\nerror = 0.25",
    );
    let price = scenario.model.price.unwrap();
    assert_eq!(price.output, price.input, "absent is never zero");
    assert_eq!(scenario.model.cache_hit_under_control.unwrap().get(), 0.5);
    assert_eq!(scenario.tools[0].error_after_error.get(), 0.25);
    assert_eq!(scenario.model.batch, Quantity::ONE);
    assert!(scenario.model.latency_s.is_zero());
    assert_eq!(scenario.model.compliance.synthesis_only.get(), 1.0);
    assert_eq!(scenario.kills.max, None);
    assert_eq!(scenario.model.demand, Demand::Endless);
}

#[test]
fn a_named_price_brings_its_long_context_rates_into_the_document() {
    let scenario = scenario(
        "name = \"s\"\n[model]\nprice = \"gpt-6-sol\"\ndemand = 1\n[[tools]]\nname = \"t\"",
    );
    let long = scenario.model.long_context.unwrap();
    assert_eq!(
        (long.above_tokens, long.price.output),
        (272_000, usd("0.000015"))
    );
    let again = holdback_scenarios::read::scenario_from_json("again", &scenario.document).unwrap();
    assert_eq!(again.model, scenario.model);
    assert_eq!(again.document["model"]["price"]["input_per_mtok"], "2");
}

#[test]
fn json_reads_as_toml_does() {
    let from_toml = scenario(EVERY_KEY);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.json");
    std::fs::write(&path, from_toml.document.to_string()).unwrap();
    let from_json = Loader::default()
        .scenario(&path.display().to_string())
        .unwrap();
    assert_eq!(from_json, from_toml);
}

const SCRIPT: &str = r#"
name = "script"
on_end = "hungry"
[[turn]]
calls = { m = 10 }
times = 2
cost_usd = "0.10"
latency_s = 3
text = "thinking"
[[turn]]
calls = ["search", { tool = "fetch", args = { url = "x" }, result = "page", content = "id", error = true, latency_s = 2 }, { tool = "fetch", raw_args = "{" }]
[[turn]]
fault = "truncated"
text = "cut"
[[turn]]
text = "words"
[[turn]]
answer = "the table"
cost_usd = "0.12"
input_tokens = 100
[[closing]]
calls = ["verify"]
[[closing]]
answer = "report"
[kills]
after_tool_calls = [7]
"#;

#[test]
fn a_script_is_read_turn_by_turn() {
    let scenario = scenario(SCRIPT);
    let script = scenario.script.unwrap();
    assert_eq!(
        (script.len(), script.on_end, script.closing.len()),
        (6, OnEnd::Hungry, 2)
    );
    let first = script.turn(1).unwrap();
    assert!(matches!(&first.act, Act::Calls { calls, text: Some(_) } if calls.len() == 10));
    assert!(matches!(first.bill, Bill::Cost { cost, .. } if cost == usd("0.1")));
    assert_eq!(first.latency, 3_000_000);
    let Act::Calls { calls, .. } = &script.turn(2).unwrap().act else {
        panic!("calls")
    };
    assert_eq!(calls[0].args, Args::Fresh);
    assert_eq!((calls[1].error, calls[1].latency), (true, Some(2_000_000)));
    assert_eq!(calls[1].content.as_deref(), Some("id"));
    assert_eq!(
        calls[2].args,
        Args::Given {
            value: None,
            raw: "{".to_owned()
        }
    );
    assert!(matches!(
        &script.turn(3).unwrap().act,
        Act::Fault {
            fault: ScriptFault::Truncated,
            text: Some(_)
        }
    ));
    assert_eq!(script.turn(4).unwrap().act, Act::Say("words".to_owned()));
    assert_eq!(
        script.turn(5).unwrap().act,
        Act::Answer("the table".to_owned())
    );
    assert_eq!(script.turn(6), None);
    assert_eq!(script.last_with_calls(), script.turn(2));
    assert_eq!(scenario.model.price, None);
}

#[test]
fn a_file_of_limits_alone_is_a_policy_named_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let (policies, skipped) = Loader::default()
            .policies(&path.display().to_string())
            .unwrap();
        assert!(skipped.is_empty());
        policies.into_iter().next().unwrap()
    };
    let run = load(
        "production.json",
        r#"{"max_steps": "12", "max_cost": 5.00, "synthesis_reserve_cost": "0.25", "max_tool_calls": "unlimited"}"#,
    );
    assert_eq!(
        (run.name.as_str(), run.family),
        ("production", Family::RunLimits)
    );
    assert_eq!(run.limits["max_steps"], 12);
    assert_eq!(run.limits["max_cost"], "5");
    assert_eq!(run.limits["max_tool_calls"], i64::MAX);
    assert_eq!(run.money_cap(), Some(usd("5")));
    let usage = load(
        "rulvar.json",
        r#"{"maxTurns": 28, "maxToolCalls": 96, "finalizationReserve": {}, "toolUnits": {"max": 10, "costs": {"note": 0}}}"#,
    );
    assert_eq!(usage.family, Family::UsageLimits);
    assert_eq!(usage.limits["toolUnits"]["costs"]["note"], 0);
}

#[test]
fn everything_beside_the_limits_of_run_limits_is_read() {
    let policy = policy(
        "name = \"p\"\nfamily = \"run_limits\"\ndeadline_s = 1.5\nattempts = 2\nidentical_calls = \"unlimited\"\nidentical_denials = 4\nresume_limits = { max_steps = 3 }\n[rules]\ncrossing_turn = \"run_then_synthesize\"\nanswer_over_cap = \"keep\"\nreserve_tool_allowance = 1\nreserve_fraction = 0.1\ncount_tool_cost = true",
    );
    let Settings::RunLimits(settings) = &policy.settings else {
        panic!("run_limits")
    };
    assert_eq!((settings.deadline, settings.attempts), (Some(1_500_000), 2));
    assert_eq!(
        (settings.identical_calls, settings.identical_denials),
        (u32::MAX, 4)
    );
    assert_eq!(
        settings.rules.crossing_turn,
        CrossingTurn::RunThenSynthesize
    );
    assert_eq!(
        (
            settings.rules.reserve_fraction,
            settings.rules.count_tool_cost
        ),
        (0.1, true)
    );
    assert_eq!(policy.resume_limits.unwrap()["max_steps"], 3);
}

#[test]
fn every_field_of_usage_limits_is_read() {
    let policy = policy(
        r#"
name = "p"
family = "usage_limits"
budget = { ceiling_usd = "2.5", already_spent_usd = 0.5, exposure_cap_usd = 2, exposure_wait = "child" }
evidence = { min_entries = 3, enforce = "refuse" }
terminal_tool = { name = "finish", repair_turn_reserve = 2 }
schema = { valid = 0.9, retry_attempts = 1 }
retry_attempts = 4
model_caps = { min_output_tokens_per_turn = 16, max_output_tokens = 8192 }
[limits]
maxTurns = 32
maxToolCalls = 0
maxOutputTokensPerTurn = 4000
timeoutMs = 900000
streamIdleTimeoutMs = 120000
noProgressTurns = 3
toolBudgetNotices = true
maxRepeatedToolSignature = 3
maxNoNewEvidenceCalls = 5
maxCallsPerTool = { bad = 0 }
toolUnits = { max = 10, costs = { note = 0 } }
checkpointEveryToolCalls = 3
finalizationReserve = { maxOutputTokens = 2000 }
toolBudgetExtension = { increment = 4, maxExtensions = 2, minHeadroomUsd = 0.25, requireNewEvidence = false, coverEvidenceDeficit = true }
finalizationWindow = { reserveCalls = 4, reserveForEvidenceDeficit = true, allow = ["note"] }
finalizationTurns = { reserveTurns = 2, allow = [] }
"#,
    );
    assert_eq!(policy.limits.len(), 16);
    assert_eq!(policy.limits["toolBudgetExtension"]["minHeadroomUsd"], 0.25);
    let Settings::UsageLimits(settings) = &policy.settings else {
        panic!("usage_limits")
    };
    let budget = settings.budget.unwrap();
    assert_eq!(
        (budget.ceiling_usd, budget.exposure_wait),
        (Some(2.5), ExposureWait::Child)
    );
    assert!(settings.evidence.unwrap().refuse);
    assert_eq!(
        settings.terminal_tool.as_ref().unwrap().repair_turn_reserve,
        2
    );
    assert_eq!(settings.schema.unwrap().retry_attempts, Some(1));
    assert_eq!(policy.money_cap(), Some(usd("2.5")));
}

#[test]
fn caps_take_one_rule_or_one_by_dimension() {
    let policy = policy(
        "name = \"p\"\nfamily = \"caps\"\nrules = { count_tool_cost = true }\n[limits]\nmax_turns = 10\nmax_tool_calls = 0\nmax_cost_usd = 1\nmax_time_s = 2.5\nmax_calls_per_tool = { x = 1 }\ncount_turns = \"supersteps\"\nbatch = \"trim\"\ndurable = \"none\"\ncheck = { cost = \"both\" }\non_exhausted = \"final_turn\"",
    );
    assert_eq!(policy.limits["check"]["cost"], "both");
    assert_eq!(policy.limits["on_exhausted"], "final_turn");
    assert_eq!(policy.money_cap(), Some(usd("1")));
}

#[test]
fn a_preset_stands_beside_the_limits_that_override_it() {
    let policy = policy(
        "name = \"p\"\npreset = \"crewai\"\nlimits = { max_turns = \"unlimited\", max_time_s = 60 }",
    );
    assert_eq!(policy.family, Family::Caps);
    assert_eq!(
        policy.limits["max_turns"], "unlimited",
        "it takes the preset's cap away"
    );
    assert_eq!(policy.limits["max_time_s"], "60");
    let Settings::Caps(settings) = &policy.settings else {
        panic!("caps")
    };
    assert_eq!(settings.preset.as_deref(), Some("crewai"));
}

const STUDY: &str = r#"
name = "st"
scenarios = ["scheduled-briefing", "tool-hungry"]
[[policy]]
name = "none"
family = "run_limits"
limits = { max_steps = 10, max_cost = "5.00" }
"#;

fn names(study: &Study) -> Vec<&str> {
    study
        .policies
        .iter()
        .map(|policy| policy.name.as_str())
        .collect()
}

#[test]
fn a_sweep_names_its_policies_by_template_and_appends_the_rest() {
    let study = study(&format!(
        "{STUDY}\n[[policy]]\nname = \"cost {{synthesis_reserve_cost}}\"\nextends = \"none\"\nsweep = {{ synthesis_reserve_cost = [\"0.10\", \"6\"], synthesis_reserve_steps = [0, 1], rules.crossing_turn = [\"fail\"] }}"
    ));
    assert_eq!(
        names(&study),
        [
            "none",
            "cost 0.10-synthesis_reserve_steps=0-rules.crossing_turn=fail",
            "cost 0.10-synthesis_reserve_steps=1-rules.crossing_turn=fail",
        ]
    );
    assert_eq!(study.skipped.len(), 2);
    assert!(
        study.skipped[0]
            .reason
            .contains("less than `max_cost`, which is 5")
    );
    assert_eq!(study.policies[2].limits["max_steps"], 10);
    assert_eq!(study.policies[2].limits["synthesis_reserve_cost"], "0.1");
    assert_eq!((study.seed, study.runs, study.baseline), (7, 10_000, 0));
}

#[test]
fn a_fraction_follows_the_swept_limit_and_rounds_counts_up() {
    let study = study(&format!(
        "{STUDY}\n[[policy]]\nname = \"s\"\nextends = \"none\"\n[policy.sweep]\nmax_steps = [10, 21]\nsynthesis_reserve_steps = {{ fraction_of = \"max_steps\", values = [0.1] }}\nsynthesis_reserve_cost = {{ fraction_of = \"max_cost\", values = [\"0.05\"] }}"
    ));
    assert_eq!(
        names(&study)[1..],
        [
            "s-max_steps=10-synthesis_reserve_steps=1-synthesis_reserve_cost=0.25",
            "s-max_steps=21-synthesis_reserve_steps=3-synthesis_reserve_cost=0.25",
        ]
    );
}

#[test]
fn a_fraction_of_a_default_is_a_fraction_of_what_is_in_force() {
    let study = study(&format!(
        "{STUDY}\n[[policy]]\nname = \"t{{synthesis_reserve_tool_calls}}\"\nextends = \"none\"\n[policy.sweep]\nsynthesis_reserve_tool_calls = {{ fraction_of = \"max_tool_calls\", values = [0.1] }}"
    ));
    assert_eq!(names(&study)[1], "t3");
}

#[test]
fn a_study_takes_scenarios_and_policies_by_name_by_file_and_in_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("mine.toml"),
        "name = \"mine\"\n[model]\ndemand = 1\n[[tools]]\nname = \"t\"",
    )
    .unwrap();
    std::fs::write(folder.path().join("limits.json"), r#"{"maxTurns": 3}"#).unwrap();
    let file = folder.path().join("study.toml");
    std::fs::write(
        &file,
        "name = \"st\"\nscenarios = [\"tool-hungry\", \"./mine.toml\", { name = \"inline\", turn = [{ answer = \"x\" }] }]\npolicies = [\"no reserve\", \"limits.json\"]\nbaseline = \"limits\"",
    )
    .unwrap();
    let study = Loader::default()
        .study(&file.display().to_string())
        .unwrap();
    let scenarios: Vec<&str> = study.scenarios.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(scenarios, ["tool-hungry", "mine", "inline"]);
    assert_eq!(names(&study), ["no reserve", "limits"]);
    assert_eq!(study.baseline, 1);
}

#[test]
fn extending_merges_key_by_key_and_unlimited_lifts_a_limit() {
    let study = study(&format!(
        "{STUDY}\nrules = {{ answer_over_cap = \"keep\" }}\n[[policy]]\nname = \"free\"\nextends = \"none\"\nlimits = {{ max_cost = \"unlimited\" }}\nrules = {{ crossing_turn = \"refuse_then_synthesize\" }}"
    ));
    let free = &study.policies[1];
    assert_eq!(free.limits["max_steps"], 10);
    assert!(!free.limits.contains_key("max_cost"));
    let Settings::RunLimits(settings) = &free.settings else {
        panic!("run_limits")
    };
    assert_eq!(
        settings.rules.crossing_turn,
        CrossingTurn::RefuseThenSynthesize
    );
    assert_eq!(
        settings.rules.answer_over_cap,
        holdback_scenarios::policy::AnswerOverCap::Keep
    );
}
