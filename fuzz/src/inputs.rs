//! Everything that is read from a file, and what is done with it then.

use holdback_scenarios::calibrate::Observed;
use holdback_scenarios::import::{InputTokens, Traces};
use holdback_scenarios::read::{self, Loader};
use holdback_scenarios::trace::Run;
use holdback_scenarios::{Policy, Scenario, Study, library};
use holdback_sim::campaign::{RunSet, Work};
use holdback_sim::conformance;
use holdback_sim::luck::LuckKey;
use holdback_sim::part::Part;
use holdback_sim::policy::{ToolNames, compile};
use holdback_sim::records::Recorder;
use holdback_sim::workload::{Prepared, Replay, replay_ledger};

/// Runs that are played of what was read: one is enough to meet most of it.
const RUNS: u64 = 2;
/// Recorded runs that are taken from one input.
const RECORDS: usize = 8;
/// What errors call an input.
const FILE: &str = "input";

/// TOML, or JSON if it begins with a brace; then some runs under one policy of each family.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let scenario = if text.starts_with('{') {
        let Ok(document) = serde_json::from_str(text) else {
            return;
        };
        read::scenario_from_json(FILE, &document)
    } else {
        Loader::default().scenario_from_toml(FILE, text)
    };
    let Ok(scenario) = one_line(scenario) else {
        return;
    };
    let again = read::scenario_from_json(FILE, &scenario.document);
    let again = again.expect("a scenario is read back from its document");
    assert_eq!(again.document, scenario.document);
    play(&scenario, &one_of_each_family());
}

/// A policy, or several, as a study's tables; then some runs of a built-in scenario.
pub fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let policy = if text.starts_with('{') {
        let Ok(document) = serde_json::from_str(text) else {
            return;
        };
        read::policy_from_json(FILE, &document)
    } else {
        read::policy_from_toml(FILE, text)
    };
    let Ok(policy) = one_line(policy) else {
        return;
    };
    let again = read::policy_from_json(FILE, &policy.document);
    let again = again.expect("a policy is read back from its document");
    assert_eq!(again.document, policy.document);
    let scenario = Loader::default()
        .scenario("tool-hungry")
        .expect("it is built in");
    play(&scenario, &[policy]);
}

/// A study; it is not run, as scenarios and policies have targets of their own.
pub fn study(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(study) = one_line(Loader::default().study_from_toml(FILE, text)) else {
        return;
    };
    let Study {
        policies, baseline, ..
    } = &study;
    assert!(*baseline < policies.len());
    for (at, policy) in policies.iter().enumerate() {
        assert!(
            policies[..at].iter().all(|other| other.name != policy.name),
            "two policies are named {}",
            policy.name
        );
    }
}

/// Recorded runs of whatever format their content shows, played and fitted.
pub fn traces(bytes: &[u8]) {
    for convention in [InputTokens::Inclusive, InputTokens::Exclusive] {
        let Ok(traces) = one_line(Traces::from_bytes(FILE, bytes, convention)) else {
            continue;
        };
        read_runs(traces);
    }
}

fn read_runs(mut traces: Traces) {
    let policies = one_of_each_family();
    let prices = library::prices();
    let price = read::price_spec("input=3,output=15", &prices)
        .expect("it is a price")
        .price;
    let mut names = ToolNames::of_records();
    let ledger = replay_ledger(Some(price), None);
    let compiled: Vec<_> = policies
        .iter()
        .map(|policy| compile(policy, &mut names, &ledger).expect("they are built in"))
        .collect();
    let mut recorder = Recorder::new(names, Some(price), false);
    let mut observed = Observed::default();
    let mut records = Vec::new();
    let next = |traces: &mut Traces| -> Option<Run> { one_line(traces.next_run()).ok().flatten() };
    while let Some(run) = next(&mut traces) {
        if records.len() == RECORDS {
            break;
        }
        observed.add(&run, traces.names());
        records.extend(recorder.record(&run, traces.names()));
    }
    if !records.is_empty() {
        let replay = Replay {
            records: &records,
            offset: 0,
            compliance: 0.5,
            price: Some(price),
            key: LuckKey::new(7, "replay"),
        };
        replay.campaign(&compiled, 0, Work::on(1), &());
    }
    if let Ok(calibrated) = observed.calibrate("input", None, &prices) {
        let fitted = Loader::default().scenario_from_toml(FILE, &calibrated.text);
        fitted.expect("a fitted scenario can be read");
    }
}

/// A price table: our own, LiteLLM's or that of models.dev.
pub fn prices(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let table = if text.starts_with('{') {
        read::price_table_from_json(FILE, text)
    } else {
        read::price_table_from_toml(FILE, text)
    };
    if let Ok(table) = one_line(table) {
        for name in table.names() {
            assert!(table.get(name).is_some());
        }
        let _ = one_line(read::price_spec(text.get(..60).unwrap_or(text), &table));
    }
}

/// A shard's part, with and without its checksum.
pub fn parts(bytes: &[u8]) {
    for part in [Part::decode(bytes), Part::from_body(bytes)] {
        let Ok(part) = part else { continue };
        let again = Part::decode(&part.encode().expect("it is a part"));
        assert_eq!(again.as_ref(), Ok(&part));
        for cell in &part.campaign.cells {
            for histogram in [&cell.tally.billed, &cell.tally.duration] {
                histogram.quantile(0.5);
                histogram.quantile(1.0);
            }
        }
    }
}

/// Recorded vectors of either reference engine.
pub fn vectors(bytes: &[u8]) {
    if let Err(error) = conformance::run_lines(bytes) {
        assert!(!error.to_string().is_empty());
    }
}

fn one_of_each_family() -> Vec<Policy> {
    let texts = [
        "name = 'a'\nfamily = 'run_limits'\nlimits = { max_steps = 9, max_model_calls = 12, max_tool_calls = 20, \
         max_cost = '2', synthesis_reserve_cost = '0.5', synthesis_reserve_steps = 1 }",
        "name = 'b'\nfamily = 'usage_limits'\nlimits = { maxTurns = 9, maxToolCalls = 12, checkpointEveryToolCalls = 2, \
         finalizationWindow = { reserveCalls = 3, allow = ['record_evidence'] } }\nbudget = { ceiling_usd = 2 }",
        "name = 'c'\nfamily = 'caps'\nlimits = { max_model_calls = 12, max_tool_calls = 12, max_cost_usd = '2', \
         on_exhausted = 'final_turn' }",
    ];
    texts
        .iter()
        .map(|text| read::policy_from_toml(FILE, text).expect("it is a policy"))
        .collect()
}

fn play(scenario: &Scenario, policies: &[Policy]) {
    let Ok(prepared) = Prepared::new(scenario, policies, 7) else {
        return;
    };
    let campaign = prepared.campaign(0, RunSet::range(0, RUNS), Work::on(1), &());
    for cell in &campaign.cells {
        assert_eq!(cell.tally.runs, RUNS);
    }
}

/// Errors are one line, whatever the input holds.
fn one_line<T>(result: Result<T, read::FileError>) -> Result<T, read::FileError> {
    if let Err(error) = &result {
        let text = error.to_string();
        assert!(
            !text.chars().any(char::is_control) && text.chars().count() < 2000,
            "an error is no short line: {text:?}"
        );
    }
    result
}
