//! Every mistake in a file is one line that says where, what was found and what was expected.

use holdback_scenarios::read::{policy_from_toml, price_spec, price_table_from_toml};
use holdback_scenarios::{FileError, Loader, library};

/// The smallest scenario, which each case spoils in one way.
const SCENARIO: &str = r#"
name = "s"
[model]
price = { input_per_mtok = "3.00", output_per_mtok = "15.00" }
demand = 3
[[tools]]
name = "search"
"#;

fn scenario(text: &str) -> Result<holdback_scenarios::Scenario, FileError> {
    Loader::default().scenario_from_toml("s.toml", text)
}

fn policy(text: &str) -> Result<holdback_scenarios::Policy, FileError> {
    policy_from_toml("p.toml", text)
}

fn study(text: &str) -> Result<holdback_scenarios::Study, FileError> {
    Loader::default().study_from_toml("st.toml", text)
}

/// One line that contains each part.
fn assert_message(error: &FileError, parts: &[&str]) {
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn a_wrong_scenario_is_refused_where_it_is_wrong() {
    assert!(scenario(SCENARIO).is_ok());
    for (from, to, parts) in [
        (
            "demand = 3",
            "demnad = 3",
            &[
                "s.toml:5",
                "model.demnad",
                "an unknown key",
                "did you mean `demand`?",
            ][..],
        ),
        ("demand = 3", "", &["s.toml:3", "no `demand` in `model`"]),
        (
            "demand = 3",
            "demand = \"endles\"",
            &["model.demand", "\"endless\"", "did you mean `endless`?"],
        ),
        (
            "demand = 3",
            "demand = -1",
            &["found -1", "from 0 to 1000000 or a distribution"],
        ),
        ("demand = 3", "demand = nan", &["found nan"]),
        ("demand = 3", "demand = inf", &["found inf"]),
        ("demand = 3", "demand = [1]", &["a list of 1", "a number"]),
        (
            "demand = 3",
            "demand = 3\ncache_hit = 1.5",
            &["s.toml:6", "model.cache_hit", "from 0 to 1"],
        ),
        (
            "demand = 3",
            "demand = 3\ncache_prefix_tokens = 4000",
            &["without `cache_hit`", "a `cache_hit` beside it"],
        ),
        (
            "demand = 3",
            "demand = 3\noutput_tokens = { dist = \"lognormal\", median = 5 }",
            &["no `p95`", "model.output_tokens"],
        ),
        (
            "demand = 3",
            "demand = 3\noutput_tokens = { dist = \"lognormal\", median = 5, p95 = 1 }",
            &["output_tokens.p95", "found 1", "`median`"],
        ),
        (
            "demand = 3",
            "demand = 3\noutput_tokens = { dist = \"lognorml\", median = 5, p95 = 9 }",
            &["did you mean `lognormal`?"],
        ),
        (
            "demand = 3",
            "demand = 3\noutput_tokens = { dist = \"uniform\", low = -5, high = 1 }",
            &["draws down to -5", "`min = 0`"],
        ),
        (
            "demand = 3",
            "demand = 3\noutput_tokens = { median = 5 }",
            &["output_tokens", "dist"],
        ),
        (
            "demand = 3",
            "demand = 3\noutput_tokens = 1e12",
            &["found 1e12"],
        ),
        (
            "demand = 3",
            "demand = 3\nclamp_to_window = true",
            &["without a window"],
        ),
        (
            "demand = 3",
            "demand = 3\nclamp_to_window = 1",
            &["found 1", "true or false"],
        ),
        (
            "demand = 3",
            "demand = 3\n[model.faults]\ntransient = 0.7\nstall = 0.7",
            &["model.faults", "sum to 1.4"],
        ),
        (
            "\"3.00\"",
            "\"abc\"",
            &[
                "s.toml:4",
                "model.price.input_per_mtok",
                "\"abc\"",
                "a decimal amount in USD",
            ],
        ),
        ("\"3.00\"", "\"NaN\"", &["\"NaN\""]),
        ("\"3.00\"", "\"0.0000001\"", &["at most 6 decimals"]),
        (
            "\"3.00\"",
            "\"0.00000000000000001\"",
            &["no digits below 1e-12 USD"],
        ),
        ("\"3.00\"", "\"-1\"", &["not below 0"]),
        (
            "{ input_per_mtok = \"3.00\", output_per_mtok = \"15.00\" }",
            "\"gpt-6-so\"",
            &["model.price", "did you mean `gpt-6-sol`?"],
        ),
        (
            "name = \"search\"",
            "name = \"search\"\nweight = 0",
            &["only tools of weight 0"],
        ),
        (
            "name = \"search\"",
            "name = \"search\"\n[[tools]]\nname = \"search\"",
            &["a second tool `search`"],
        ),
        (
            "name = \"search\"",
            "name = \"record_evidence\"",
            &["built in"],
        ),
        ("[[tools]]\nname = \"search\"", "", &["no [[tools]]"]),
        (
            "demand = 3",
            "demand = { turns = 3, turn = 4 }",
            &["model.demand.turn", "did you mean `turns`?"],
        ),
        (
            "[[tools]]\nname = \"search\"",
            "[[tools]]\nname = \"search\"\n[[kinds]]\nweight = 2",
            &["kinds[0]", "no `name`"],
        ),
        (
            "[[tools]]\nname = \"search\"",
            "[[tools]]\nname = \"search\"\n[[kinds]]\nname = \"k\"\nweight = 0",
            &["only kinds of weight 0"],
        ),
        (
            "[[tools]]\nname = \"search\"",
            "[[tools]]\nname = \"search\"\n[[kinds]]\nname = \"k\"\ncache_hit = 0.5",
            &["`cache_hit` of a kind alone"],
        ),
        ("name = \"s\"", "", &["no `name`"]),
        ("name = \"s\"", "name = \"\"", &["not blank"]),
        (
            "name = \"s\"",
            "name = \"s\"\nschema = 2",
            &["schema", "found 2"],
        ),
        ("name = \"s\"", "name = \"s\"\nbudget_usd = 0", &["above 0"]),
        (
            "name = \"s\"",
            "name = \"s\"\nbudget_usd = 1e300",
            &["at most 1000000000 USD"],
        ),
        (
            "name = \"s\"",
            "name = \"s\"\nbudget_usd = 2026-01-01",
            &["the date 2026-01-01"],
        ),
        (
            "name = \"s\"",
            "name = \"s\"\non_end = \"answer\"",
            &["on_end", "a script"],
        ),
        (
            "name = \"search\"",
            "name = \"search\"\n[kills]\nafter_tool_calls = [3, 2]",
            &["kills.after_tool_calls[1]", "ascending"],
        ),
    ] {
        let text = SCENARIO.replace(from, to);
        let error = scenario(&text).expect_err(to);
        assert_message(&error, parts);
    }
}

#[test]
fn a_broken_syntax_is_refused_with_its_line() {
    let error = scenario("name = \"s\"\n[model\n").unwrap_err();
    assert_message(&error, &["s.toml:2: found broken TOML"]);
}

#[test]
fn a_wrong_script_is_refused_where_it_is_wrong() {
    for (turn, parts) in [
        ("", &["turn[0]", "does nothing"][..]),
        ("calls = { m = 1 }\nanswer = \"x\"", &["several things"]),
        ("calls = {}", &["at least one call"]),
        ("calls = 3", &["turn[0].calls", "found 3"]),
        ("calls = [{ args = 1 }]", &["turn[0].calls[0]", "no `tool`"]),
        (
            "calls = [{ tool = \"m\", arg = 1 }]",
            &["did you mean `args`?"],
        ),
        ("fault = \"transiet\"", &["did you mean `transient`?"]),
        (
            "answer = \"x\"\ninput_tokens = 5",
            &["billed by tokens", "`model.price`"],
        ),
        (
            "answer = \"x\"\ncached_tokens = 5",
            &["5 cached and 0 written of 0"],
        ),
        ("answer = \"x\"\ntimes = 0", &["turn[0].times", "found 0"]),
        ("answer = \"x\"\ntimes = 999999", &["found 999999"]),
    ] {
        let error = scenario(&format!("name = \"s\"\n[[turn]]\n{turn}\n")).expect_err(turn);
        assert_message(&error, parts);
    }
    let hungry = scenario("name = \"s\"\non_end = \"hungry\"\n[[turn]]\nanswer = \"x\"\n");
    assert_message(&hungry.unwrap_err(), &["no turn with calls"]);
}

#[test]
fn a_wrong_policy_is_refused_where_it_is_wrong() {
    for (limits, parts) in [
        (
            "max_step = 3, max_cost = 1",
            &["p.toml:3", "limits.max_step", "did you mean `max_steps`?"][..],
        ),
        ("max_steps = 0", &["found 0", "every run would fail"]),
        (
            "max_model_calls = 0, max_steps = 1",
            &["found 0", "every run would fail"],
        ),
        ("max_cost = 0", &["every run would fail"]),
        ("max_steps = -3", &["found -3", "\"unlimited\""]),
        ("max_steps = 2.5", &["found 2.5", "a whole number"]),
        ("max_steps = \"many\"", &["\"many\"", "a whole number"]),
        ("max_cost = nan", &["found nan"]),
        (
            "max_cost = \"0.0000000000001\"",
            &["no digits below 1e-12 USD"],
        ),
        (
            "max_cost = 0.1234567890123456789",
            &["no digits below 1e-12 USD"],
        ),
        (
            "max_cost = 1, synthesis_reserve_cost = \"1.00\"",
            &["a reserve of 1", "less than `max_cost`, which is 1"],
        ),
        (
            "synthesis_reserve_cost = 1",
            &["a reserve of 1", "a limit on `max_cost`"],
        ),
        (
            "max_steps = 5, synthesis_reserve_steps = 5",
            &["a reserve of 5", "less than `max_steps`, which is 5"],
        ),
        (
            "synthesis_reserve_tool_calls = 24",
            &["less than `max_tool_calls`, which is 24 (the default)"],
        ),
        (
            "max_steps = \"unlimited\", synthesis_reserve_steps = 1",
            &["a limit on `max_steps`"],
        ),
        (
            "deadline_at = \"2026-01-01\"",
            &["`deadline_s = seconds` beside `limits`"],
        ),
        ("maxTurns = 0", &["limits.maxTurns", "found 0"]),
        (
            "maxTurns = 3, toolUnits = { costs = {} }",
            &["limits.toolUnits", "no `max`"],
        ),
        (
            "maxToolCalls = 3, finalizationWindow = { reserveCalls = 0 }",
            &["limits.finalizationWindow.reserveCalls"],
        ),
        (
            "maxToolCalls = 3, streamIdleTimeoutMs = 3000000000",
            &["limits.streamIdleTimeoutMs"],
        ),
        ("maxToolCals = 3", &["did you mean `maxToolCalls`?"]),
        (
            "maxTurns = 3, max_steps = 3",
            &["`max_steps` (run_limits) and `maxTurns` (usage_limits)"],
        ),
        (
            "max_model_calls = 3",
            &["fit two families", "run_limits", "caps"],
        ),
        ("max_turns = 3", &["`family = \"caps\"`"]),
        ("banana = 3", &["fit no family"]),
    ] {
        let error = policy(&format!(
            "name = \"p\"\n[limits]\n{}",
            limits
                .replace(", m", "\nm")
                .replace(", s", "\ns")
                .replace(", t", "\nt")
                .replace(", f", "\nf")
        ));
        assert_message(&error.expect_err(limits), parts);
    }
    for (rest, parts) in [
        (
            "family = \"caps\"\n[limits]\nbatch = \"drop\"",
            &["limits.batch", "\"reject\" or \"trim\" or \"run_all\""][..],
        ),
        (
            "family = \"caps\"\n[limits]\non_exhausted = { costs = \"stop\" }",
            &["did you mean `cost`?"],
        ),
        (
            "preset = \"crewaii\"",
            &["preset", "did you mean `crewai`?"],
        ),
        (
            "preset = \"openai-agents\"\nlimits = { preset = \"crewai\", max_turns = 1 }",
            &["one `preset`"],
        ),
        (
            "family = \"caps\"\nlimits = { max_cost_usd = 1, on_exhausted = { cost = \"final_turn_inside\" } }",
            &["`on_exhausted.cost`", "final_turn_inside only for turns"],
        ),
        (
            "family = \"caps\"\nlimits = { max_time_s = 0.0000001 }",
            &["limits.max_time_s", "at most 6 decimals"],
        ),
        (
            "family = \"caps\"\nlimits = { max_turns = 0 }",
            &["limits.max_turns", "every run would fail"],
        ),
        ("family = \"cap\"", &["did you mean `caps`?"]),
        (
            "family = \"caps\"\nattempts = 3",
            &["`attempts`, which belongs to run_limits"],
        ),
        (
            "family = \"run_limits\"\nattempts = 0",
            &["attempts", "found 0"],
        ),
        (
            "family = \"run_limits\"\ndeadline_s = 0",
            &["before its first step"],
        ),
        (
            "family = \"run_limits\"\nrules = { crossing_turn = \"refuse\" }",
            &["rules.crossing_turn", "refuse_then_synthesize"],
        ),
        (
            "family = \"run_limits\"\nrules = { reserve_fraction = 1 }",
            &["below 1"],
        ),
        (
            "family = \"usage_limits\"\nbudget = { ceiling_usd = 1, already_spent_usd = 1 }",
            &["`ceiling_usd` 1 with 1 already spent"],
        ),
        (
            "family = \"usage_limits\"\nmodel_caps = { min_output_tokens_per_turn = 9 }\nlimits = { maxOutputTokensPerTurn = 8 }",
            &["`limits.maxOutputTokensPerTurn` 8", "which is 9"],
        ),
        (
            "family = \"usage_limits\"\nevidence = { enforce = \"refuse\" }",
            &["no `min_entries`"],
        ),
        ("", &["no `limits`"]),
    ] {
        assert_message(
            &policy(&format!("name = \"p\"\n{rest}")).expect_err(rest),
            parts,
        );
    }
}

const STUDY: &str = r#"
name = "st"
runs = 10
scenarios = ["tool-hungry"]
baseline = "a"
[[policy]]
name = "a"
family = "run_limits"
limits = { max_steps = 4 }
"#;

#[test]
fn a_wrong_study_is_refused_where_it_is_wrong() {
    assert!(study(STUDY).is_ok());
    for (from, to, parts) in [
        (
            "runs = 10",
            "runs = 0",
            &["st.toml:3", "runs", "found 0"][..],
        ),
        ("runs = 10", "runs = 10000000000", &["found 10000000000"]),
        ("runs = 10", "seed = -1", &["seed", "found -1"]),
        ("[\"tool-hungry\"]", "[]", &["at least one scenario"]),
        (
            "[\"tool-hungry\"]",
            "[\"tool-hungri\"]",
            &["st.toml:4", "scenarios[0]", "did you mean `tool-hungry`?"],
        ),
        (
            "[\"tool-hungry\"]",
            "[\"tool-hungry\", \"tool-hungry\"]",
            &["a second scenario"],
        ),
        (
            "[\"tool-hungry\"]",
            "[\"./nowhere/x.toml\"]",
            &["no such file"],
        ),
        (
            "baseline = \"a\"",
            "baseline = \"b\"",
            &["baseline", "\"b\"", "the name of a policy"],
        ),
        (
            "[[policy]]\nname = \"a\"\nfamily = \"run_limits\"\nlimits = { max_steps = 4 }",
            "",
            &["no policies"],
        ),
        (
            "limits = { max_steps = 4 }",
            "limits = { max_steps = 4 }\n[[policy]]\nname = \"b\"\nextends = \"c\"\n[[policy]]\nname = \"c\"\nextends = \"b\"",
            &["policies that extend each other"],
        ),
        (
            "limits = { max_steps = 4 }",
            "extends = \"no-reserv\"",
            &["policy[0].extends", "did you mean `no reserve`?"],
        ),
        (
            "limits = { max_steps = 4 }",
            "limits = { max_steps = 4 }\nsweep = { max_steps = [] }",
            &["policy[0].sweep.max_steps", "at least one value"],
        ),
        (
            "limits = { max_steps = 4 }",
            "limits = { max_steps = 4 }\nsweep = { max_step = [1] }",
            &["did you mean `max_steps`?"],
        ),
        (
            "name = \"a\"\nfamily",
            "name = \"a{max_step}\"\nsweep = { max_steps = [1] }\nfamily",
            &["`{max_step}`", "did you mean `max_steps`?"],
        ),
        (
            "limits = { max_steps = 4 }",
            "limits = { max_steps = 4 }\nsweep = { synthesis_reserve_steps = [4, 5] }",
            &["no possible combination", "which is 4"],
        ),
        (
            "limits = { max_steps = 4 }",
            "limits = { max_steps = 4 }\n[gates]\nanswered_drop_pp = \"a lot\"",
            &["gates.answered_drop_pp", "a lot"],
        ),
        (
            "limits = { max_steps = 4 }",
            "limits = { max_steps = 4 }\n[[policy]]\nname = \"a\"\nfamily = \"caps\"",
            &["two policies named \"a\""],
        ),
        (
            "limits = { max_steps = 4 }",
            "limits = { max_steps = 4 }\n[[policy]]\nname = \"b\"\nfamily = \"caps\"\nextends = \"a\"",
            &["a policy of another family"],
        ),
    ] {
        let text = STUDY.replace(from, to);
        assert_ne!(text, STUDY, "{to}");
        assert_message(&study(&text).expect_err(to), parts);
    }
}

#[test]
fn a_sweep_that_explodes_is_refused_before_it_does() {
    let values = (1..200)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let sweep = format!(
        "limits = {{ max_steps = 4 }}\nsweep = {{ max_steps = [{values}], max_model_calls = [{values}] }}"
    );
    let error = study(&STUDY.replace("limits = { max_steps = 4 }", &sweep)).unwrap_err();
    assert_message(
        &error,
        &["policy[0].sweep", "more combinations", "at most 10000"],
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let loader = Loader::default();
    std::fs::write(path("mine.toml"), SCENARIO).unwrap();
    assert!(loader.scenario(&path("mine.toml")).is_ok());
    let missing = loader.scenario(&path("mien.toml")).unwrap_err();
    assert_message(&missing, &["no such file", "did you mean `mine.toml`?"]);
    let directory = loader
        .scenario(&folder.path().display().to_string())
        .unwrap_err();
    assert_message(&directory, &["a directory"]);
    std::fs::write(path("bytes.toml"), b"name = \"a\"\nx = \"\xff\"\n").unwrap();
    let bytes = loader.scenario(&path("bytes.toml")).unwrap_err();
    assert_message(&bytes, &["bytes.toml:2", "not UTF-8"]);
    std::fs::write(path("text.yaml"), "").unwrap();
    assert_message(
        &loader.scenario(&path("text.yaml")).unwrap_err(),
        &["`.yaml`", "`.toml` or `.json`"],
    );
    std::fs::write(path("huge.toml"), vec![b'#'; 9 << 20]).unwrap();
    assert_message(
        &loader.scenario(&path("huge.toml")).unwrap_err(),
        &["a larger file"],
    );
    let unknown = loader.scenario("coding-agnt").unwrap_err();
    assert_message(&unknown, &["did you mean `coding-agent`?"]);
}

#[test]
fn a_price_is_a_name_or_rates() {
    let prices = library::prices();
    let spec = price_spec("input=3,output=15,cached_input=0.3", &prices).unwrap();
    assert_eq!(spec.price.output.to_string(), "0.000015");
    assert_eq!(spec.price.cache_write, spec.price.input);
    assert!(price_spec("gpt-4.1", &prices).is_ok());
    for (text, parts) in [
        ("gpt-4.11", &["--price", "did you mean `gpt-4.1`?"][..]),
        ("input=3,outptu=15", &["did you mean `output_per_mtok`?"]),
        ("output=15", &["no `input_per_mtok`"]),
        ("input=x", &["\"x\""]),
        ("input=1,input=2", &["twice"]),
    ] {
        assert_message(&price_spec(text, &prices).expect_err(text), parts);
    }
    let twice =
        "[[model]]\nname = \"a\"\ninput_per_mtok = 1\n[[model]]\nname = \"a\"\ninput_per_mtok = 1";
    assert_message(
        &price_table_from_toml("t.toml", twice).unwrap_err(),
        &["`a` twice"],
    );
}
