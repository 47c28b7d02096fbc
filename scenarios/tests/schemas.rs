//! The JSON Schemas say what the readers take: every embedded document validates, and both know the same
//! keys.

use std::collections::BTreeSet;

use holdback_scenarios::schema::{Kind, text};
use holdback_scenarios::{FileError, Loader, library, read};
use serde_json::Value;

#[path = "../../tests/common/json_schema.rs"]
mod json_schema;

use json_schema::wrong;

fn schema(kind: Kind) -> Value {
    serde_json::from_str(&text(kind)).unwrap()
}

fn valid(kind: Kind, document: &Value) {
    let schema = schema(kind);
    if let Some(error) = wrong(&schema, &schema, document, "") {
        panic!("{kind:?}{error}");
    }
}

#[test]
fn every_embedded_document_is_valid() {
    for scenario in library::scenarios() {
        valid(Kind::Scenario, &scenario.document);
    }
    for name in library::scenario_names() {
        let document = library::scenario_text(name).unwrap();
        valid(Kind::Scenario, &toml::from_str::<Value>(document).unwrap());
    }
    for policy in library::all_policies() {
        valid(Kind::Policy, &policy.document);
    }
    for name in library::study_names()
        .iter()
        .chain(&library::incident_names())
    {
        if let Some(document) = library::study_text(name) {
            valid(Kind::Study, &toml::from_str::<Value>(document).unwrap());
        }
    }
    valid(
        Kind::Policy,
        &toml::from_str::<Value>("max_steps = 12").unwrap(),
    );
}

#[test]
fn a_wrong_document_is_not_valid() {
    let schema = schema(Kind::Scenario);
    for text in [
        "summary = \"no name\"",
        "name = \"s\"\nzz = 1",
        "name = \"s\"\nmodel = { demand = -1 }",
        "name = \"s\"\nmodel = { demand = { dist = \"lognormal\", median = 3 } }",
        "name = \"s\"\ntools = [{ name = \"t\", error = 2 }]",
    ] {
        let document: Value = toml::from_str(text).unwrap();
        assert!(wrong(&schema, &schema, &document, "").is_some(), "{text}");
    }
}

const UNKNOWN: &str = "zzqqzz = 1";

/// The keys that a reader lists when it meets one that it does not know.
fn listed(error: &FileError) -> BTreeSet<String> {
    let hint = error.hint.as_deref().unwrap_or_default();
    let keys = hint
        .strip_prefix("valid keys: ")
        .unwrap_or_else(|| panic!("{error}"));
    keys.split(", ").map(str::to_owned).collect()
}

fn properties(table: &Value) -> BTreeSet<String> {
    table["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

/// A table of a schema by its pointer, and a document with an unknown key in such a table.
fn same_keys(kind: Kind, pointer: &str, read: impl Fn() -> FileError) {
    let schema = schema(kind);
    let table = schema
        .pointer(pointer)
        .unwrap_or_else(|| panic!("{pointer}"));
    assert_eq!(properties(table), listed(&read()), "{pointer}");
}

#[test]
fn the_schema_of_scenarios_knows_the_keys_of_the_reader() {
    let scenario = |text: String| {
        let text = format!("name = \"s\"\n{text}");
        let read = Loader::default().scenario_from_toml("s.toml", &text);
        read.expect_err("the key is unknown")
    };
    let model = |text: &str| scenario(format!("tools = [{{ name = \"t\" }}]\n[model]\n{text}\n"));
    let mut tables: Vec<(String, FileError)> = vec![
        (
            String::new(),
            scenario(format!(
                "{UNKNOWN}\ntools = [{{ name = \"t\" }}]\nmodel = {{ demand = 1 }}"
            )),
        ),
        (
            "/$defs/model".to_owned(),
            model(&format!("demand = 1\n{UNKNOWN}")),
        ),
        (
            "/$defs/demand/anyOf/2".to_owned(),
            model(&format!("demand = {{ turns = 1, {UNKNOWN} }}")),
        ),
        (
            "/$defs/price".to_owned(),
            model(&format!(
                "demand = 1\nprice = {{ input_per_mtok = 1, {UNKNOWN} }}"
            )),
        ),
        (
            "/$defs/long_context".to_owned(),
            model(&format!(
                "demand = 1\nprice = {{ input_per_mtok = 1 }}\n\
                 long_context = {{ above_tokens = 9, {UNKNOWN} }}"
            )),
        ),
        (
            "/$defs/tool".to_owned(),
            scenario(format!("tools = [{{ name = \"t\", {UNKNOWN} }}]")),
        ),
        (
            "/$defs/kind".to_owned(),
            scenario(format!(
                "model = {{ demand = 1 }}\ntools = [{{ name = \"t\" }}]\n\
                 kinds = [{{ name = \"k\", {UNKNOWN} }}]"
            )),
        ),
        (
            "/$defs/turn".to_owned(),
            scenario(format!("turn = [{{ answer = \"a\", {UNKNOWN} }}]")),
        ),
        (
            "/$defs/closing".to_owned(),
            scenario(format!(
                "turn = [{{ answer = \"a\" }}]\nclosing = [{{ answer = \"a\", {UNKNOWN} }}]"
            )),
        ),
        (
            "/$defs/call".to_owned(),
            scenario(format!(
                "turn = [{{ calls = [{{ tool = \"t\", {UNKNOWN} }}] }}]"
            )),
        ),
        (
            "/$defs/kills".to_owned(),
            scenario(format!("kills = {{ {UNKNOWN} }}")),
        ),
        (
            "/properties/storage".to_owned(),
            scenario(format!("storage = {{ {UNKNOWN} }}")),
        ),
    ];
    for table in ["compliance", "habits", "faults", "reporting", "spike"] {
        tables.push((
            format!("/$defs/model/properties/{table}"),
            model(&format!("demand = 1\n{table} = {{ {UNKNOWN} }}")),
        ));
    }
    for (at, parameters) in [
        "\"constant\", value = 1",
        "\"uniform\", low = 1, high = 2",
        "\"lognormal\", median = 1, p95 = 2",
        "\"exponential\", mean = 1",
        "\"pareto\", min = 1, alpha = 2",
        "\"geometric\", mean = 1",
        "\"poisson\", mean = 1",
        "\"empirical\", values = [1]",
        "\"mixture\", parts = [{ weight = 1, dist = \"constant\", value = 1 }]",
    ]
    .into_iter()
    .enumerate()
    {
        let dist = format!("dist = {parameters}, {UNKNOWN}");
        tables.push((
            format!("/$defs/distribution/oneOf/{at}"),
            model(&format!("demand = {{ {dist} }}")),
        ));
        let mixture = format!("{{ dist = \"mixture\", parts = [{{ weight = 1, {dist} }}] }}");
        tables.push((
            format!("/$defs/part/oneOf/{at}"),
            model(&format!("demand = {mixture}")),
        ));
    }
    for (pointer, error) in tables {
        same_keys(Kind::Scenario, &pointer, || error.clone());
    }
}

#[test]
fn the_schema_of_policies_knows_the_keys_of_the_reader() {
    let policy = |text: &str| {
        let text = format!("name = \"p\"\n{text}");
        read::policy_from_toml("p.toml", &text).expect_err("the key is unknown")
    };
    // Each family has keys of its own; `extends` and `sweep` are resolved before.
    let mut keys: BTreeSet<String> = ["extends", "sweep"].map(str::to_owned).into();
    for family in ["run_limits", "usage_limits", "caps"] {
        keys.append(&mut listed(&policy(&format!(
            "family = \"{family}\"\n{UNKNOWN}"
        ))));
    }
    let all = schema(Kind::Policy);
    assert_eq!(properties(&all["$defs"]["policy"]), keys);
    let usage = |inner: &str| {
        policy(&format!(
            "family = \"usage_limits\"\nlimits = {{ {inner} }}"
        ))
    };
    let beside = |inner: &str| policy(&format!("family = \"usage_limits\"\n{inner}"));
    let caps = |inner: &str| policy(&format!("family = \"caps\"\nlimits = {{ {inner} }}"));
    for (pointer, error) in [
        (
            "run_limits",
            policy(&format!(
                "family = \"run_limits\"\nlimits = {{ {UNKNOWN} }}"
            )),
        ),
        ("usage_limits", usage(UNKNOWN)),
        ("caps", caps(UNKNOWN)),
        (
            "rules",
            policy(&format!("family = \"run_limits\"\nrules = {{ {UNKNOWN} }}")),
        ),
        (
            "usage_limits/properties/toolUnits",
            usage(&format!("toolUnits = {{ max = 1, {UNKNOWN} }}")),
        ),
        (
            "usage_limits/properties/finalizationReserve",
            usage(&format!("finalizationReserve = {{ {UNKNOWN} }}")),
        ),
        (
            "usage_limits/properties/toolBudgetExtension",
            usage(&format!(
                "toolBudgetExtension = {{ increment = 1, maxExtensions = 1, {UNKNOWN} }}"
            )),
        ),
        (
            "usage_limits/properties/finalizationWindow",
            usage(&format!(
                "finalizationWindow = {{ reserveCalls = 1, {UNKNOWN} }}"
            )),
        ),
        (
            "usage_limits/properties/finalizationTurns",
            usage(&format!(
                "finalizationTurns = {{ reserveTurns = 1, {UNKNOWN} }}"
            )),
        ),
        (
            "caps/properties/check/anyOf/1",
            caps(&format!("check = {{ {UNKNOWN} }}")),
        ),
        (
            "caps/properties/on_exhausted/anyOf/1",
            caps(&format!("on_exhausted = {{ {UNKNOWN} }}")),
        ),
        (
            "policy/properties/budget",
            beside(&format!("budget = {{ {UNKNOWN} }}")),
        ),
        (
            "policy/properties/evidence",
            beside(&format!("evidence = {{ min_entries = 1, {UNKNOWN} }}")),
        ),
        (
            "policy/properties/terminal_tool",
            beside(&format!("terminal_tool = {{ name = \"t\", {UNKNOWN} }}")),
        ),
        (
            "policy/properties/schema/anyOf/1",
            beside(&format!("schema = {{ {UNKNOWN} }}")),
        ),
        (
            "policy/properties/model_caps",
            beside(&format!("model_caps = {{ {UNKNOWN} }}")),
        ),
    ] {
        same_keys(Kind::Policy, &format!("/$defs/{pointer}"), || error.clone());
    }
}

#[test]
fn the_schemas_of_studies_and_prices_know_the_keys_of_their_readers() {
    let study = format!(
        "name = \"s\"\nscenarios = [\"scheduled-briefing\"]\npolicies = [\"no reserve\"]\n{UNKNOWN}"
    );
    same_keys(Kind::Study, "", || {
        let read = Loader::default().study_from_toml("s.toml", &study);
        read.expect_err("the key is unknown")
    });
    let prices = |text: String| {
        let read = read::price_table_from_toml("p.toml", &text);
        read.expect_err("the key is unknown")
    };
    let model = "name = \"m\", input_per_mtok = 1";
    same_keys(Kind::Prices, "", || {
        prices(format!("{UNKNOWN}\nmodel = [{{ {model} }}]"))
    });
    same_keys(Kind::Prices, "/properties/model/items", || {
        prices(format!("model = [{{ {model}, {UNKNOWN} }}]"))
    });
}

#[test]
fn the_schema_of_traces_knows_the_keys_of_the_reader() {
    // The reader ignores what it does not know and tells so: it must ignore no key of the schema.
    let schema = schema(Kind::Traces);
    let line = r#"{"source":"s","run_id":"1","turns":[{"input_tokens":9,"output_tokens":1,
        "cached_tokens":2,"reasoning_tokens":1,"cost_usd":"0.1","tool_calls":[{"name":"t",
        "args_hash":"a","result_hash":null,"error":false}]}],"final_answer":null,"exit":"done"}"#
        .replace('\n', "");
    let document: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(wrong(&schema, &schema, &document, ""), None);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect();
    let turn = &document["turns"][0];
    assert_eq!(properties(&schema), keys(&document));
    assert_eq!(properties(&schema["$defs"]["turn"]), keys(turn));
    assert_eq!(
        properties(&schema["$defs"]["call"]),
        keys(&turn["tool_calls"][0])
    );
    let mut reader = holdback_scenarios::trace::Reader::new("f", line.as_bytes());
    reader.next_run().unwrap();
    assert!(reader.ignored().is_empty(), "{:?}", reader.ignored());
}
