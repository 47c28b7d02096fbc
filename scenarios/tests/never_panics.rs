//! Whatever a file holds, reading it ends with a value or with one line that says what is wrong.

use holdback_scenarios::read::policy_from_toml;
use holdback_scenarios::{FileError, Loader, library, trace};
use proptest::prelude::*;

fn one_line(error: &FileError) {
    let message = error.to_string();
    assert!(
        !message.contains('\n') && message.contains("found") && message.len() < 2000,
        "{message}"
    );
}

/// A text with a piece cut out and something else put there.
fn spoilt(text: &str, from: usize, length: usize, with: &str) -> String {
    let boundary = |at: usize| {
        (0..=at.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0)
    };
    let from = boundary(from % (text.len() + 1));
    let to = boundary(from + length).max(from);
    format!("{}{with}{}", &text[..from], &text[to..])
}

/// Pieces that files go wrong with.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-0-9.eE+]{0,6}",
        "\\PC{0,8}",
        Just("nan".to_owned()),
        Just("-inf".to_owned()),
        Just("99999999999999999999999999999999999999999999".to_owned()),
        Just("1e400".to_owned()),
        Just("{}".to_owned()),
        Just("[[".to_owned()),
        Just("\"unlimited\"".to_owned()),
        Just("\n".to_owned()),
        Just("= {{ fraction_of = \"max_cost\", values = [2] }}".to_owned()),
    ]
}

const POLICY: &str = "name = \"p\"\nfamily = \"run_limits\"\nattempts = 3\n[limits]\nmax_steps = 12\nmax_cost = \"5.00\"\nsynthesis_reserve_cost = 0.25\n[rules]\nreserve_fraction = 0.5\n";
const STUDY: &str = "name = \"s\"\nruns = 3\nscenarios = [\"tool-hungry\"]\n[[policy]]\nname = \"a\"\nfamily = \"run_limits\"\nlimits = { max_cost = 5 }\n[[policy]]\nname = \"b {max_steps}\"\nextends = \"a\"\n[policy.sweep]\nmax_steps = [1, 2]\nsynthesis_reserve_cost = { fraction_of = \"max_cost\", values = [0.1] }\n";
const RUN: &str = "{\"source\":\"s\",\"run_id\":1,\"turns\":[{\"input_tokens\":5,\"output_tokens\":null,\"cost_usd\":0.1,\"tool_calls\":[{\"name\":\"a\",\"args_hash\":\"0f\",\"result_hash\":\"x\",\"error\":null}]}],\"final_answer\":true}\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_spoilt_file_gives_a_value_or_one_line(from in 0_usize..4000, length in 0_usize..12, with in piece()) {
        let loader = Loader::default();
        for text in ["scheduled-briefing", "retail-agent"].map(|name| library::scenario_text(name).unwrap_or("")) {
            if let Err(error) = loader.scenario_from_toml("s.toml", &spoilt(text, from, length, &with)) {
                one_line(&error);
            }
        }
        if let Err(error) = policy_from_toml("p.toml", &spoilt(POLICY, from, length, &with)) {
            one_line(&error);
        }
        if let Err(error) = loader.study_from_toml("st.toml", &spoilt(STUDY, from, length, &with)) {
            one_line(&error);
        }
        let line = spoilt(RUN, from, length, &with);
        for run in trace::Reader::new("f.jsonl", line.as_bytes()) {
            if let Err(error) = run {
                one_line(&error);
            }
        }
    }
}
