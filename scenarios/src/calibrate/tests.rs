use std::fmt::Write as _;

use super::*;
use crate::scenario::Demand;
use crate::trace::Reader;

/// Runs of `turns` calls and an answer each, as neutral lines.
fn lines(runs: u32, turn: impl Fn(u32, u32) -> String, turns: impl Fn(u32) -> u32) -> String {
    let mut text = String::new();
    for run in 0..runs {
        let calls: Vec<String> = (0..turns(run)).map(|at| turn(run, at)).collect();
        let mut turns = calls;
        turns.push(r#"{"input_tokens":9000,"output_tokens":500}"#.to_owned());
        let _ = writeln!(
            text,
            r#"{{"source":"s","run_id":"{run}","turns":[{}],"final_answer":true}}"#,
            turns.join(",")
        );
    }
    text
}

fn seen(text: &str) -> Observed {
    let mut reader = Reader::new("f", text.as_bytes());
    let mut seen = Observed::default();
    while let Some(run) = reader.next_run().unwrap() {
        seen.add(&run, reader.names());
    }
    seen
}

fn calibrated(text: &str) -> Calibrated {
    seen(text)
        .calibrate("shop/clerk:m", None, &crate::library::prices())
        .unwrap()
}

/// A turn with one call, always new, of 100 output tokens and a result of 400.
fn plain(run: u32, at: u32) -> String {
    format!(
        r#"{{"input_tokens":{},"output_tokens":100,"tool_calls":[{{"name":"look_up","args_hash":"{run:x}{at:04x}","result_hash":"{run:x}{at:04x}","error":false}}]}}"#,
        1000 + 500 * at
    )
}

#[test]
fn a_calibrated_file_is_read_strictly_and_holds_what_was_counted() {
    let found = calibrated(&lines(40, plain, |run| 3 + run % 5));
    let model = &found.scenario.model;
    assert_eq!(model.base_input_tokens, crate::Quantity::Fixed(1000.0));
    assert_eq!(model.output_tokens, crate::Quantity::Fixed(100.0));
    assert_eq!(model.final_output_tokens, crate::Quantity::Fixed(500.0));
    let Demand::Turns(demand) = &model.demand else {
        panic!("a need of turns");
    };
    assert_eq!(
        (demand.quantile_count(0.0), demand.quantile_count(0.999)),
        (3, 7)
    );
    assert_eq!(found.scenario.tools[0].name, "look_up");
    assert!(
        found
            .text
            .starts_with("# shop/clerk:m, after 40 recorded runs")
    );
    assert!(found.warnings.iter().any(|text| text.contains("--price")));
}

#[test]
fn few_runs_work_and_warn() {
    let found = calibrated(&lines(3, plain, |_| 2));
    assert!(
        found.warnings[0].starts_with("only 3 runs"),
        "{:?}",
        found.warnings
    );
}

#[test]
fn errors_are_counted_after_calm_and_after_an_error() {
    // Of a run's eight calls the fifth and sixth fail: 1 of 7 calm ones, 1 of 2 after an error.
    let turn = |run: u32, at: u32| {
        let error = at == 4 || at == 5;
        plain(run, at).replace("\"error\":false", &format!("\"error\":{error}"))
    };
    let found = calibrated(&lines(30, turn, |_| 8));
    let tool = &found.scenario.tools[0];
    assert_eq!(tool.error.get(), 0.1667);
    assert_eq!(tool.error_after_error.get(), 0.5);
}

#[test]
fn repeats_and_old_results_are_told_apart() {
    // The third call repeats the first; the fourth is new but brings the first's result.
    let turn = |run: u32, at: u32| {
        let (args, result) = match at {
            2 => (0, 0),
            3 => (3, 0),
            other => (other, other),
        };
        plain(run, 0)
            .replace(
                &format!("\"args_hash\":\"{run:x}0000\""),
                &format!("\"args_hash\":\"a{args}\""),
            )
            .replace(
                &format!("\"result_hash\":\"{run:x}0000\""),
                &format!("\"result_hash\":\"b{result}\""),
            )
    };
    let found = calibrated(&lines(30, turn, |_| 5));
    assert_eq!(found.scenario.model.habits.repeat_call.get(), 0.25);
    assert_eq!(found.scenario.tools[0].novelty.get(), 0.75);
}

#[test]
fn runs_without_an_answer_give_up_when_they_have_gone_as_far() {
    let text = lines(40, plain, |run| 2 + run % 3);
    let cut = lines(10, plain, |_| 3).replace("\"final_answer\":true", "\"final_answer\":false");
    let found = calibrated(&(text + &cut));
    assert!(found.text.contains("10 runs ended without an answer"));
    let endless = calibrated(
        &lines(40, plain, |_| 3).replace("\"final_answer\":true", "\"final_answer\":false"),
    );
    assert_eq!(endless.scenario.model.demand, Demand::Endless);
}

#[test]
fn costs_without_tokens_are_still_costs() {
    let turn = |run: u32, at: u32| {
        plain(run, at)
            .replace("\"output_tokens\":100", "\"cost_usd\":0.01")
            .replace("\"input_tokens\"", "\"x\"")
    };
    let text = lines(40, turn, |_| 4).replace(
        r#"{"input_tokens":9000,"output_tokens":500}"#,
        r#"{"cost_usd":0.02}"#,
    );
    let found = calibrated(&text);
    assert_eq!(
        found.scenario.model.output_tokens,
        crate::Quantity::Fixed(10_000.0)
    );
    assert_eq!(
        found.scenario.model.final_output_tokens,
        crate::Quantity::Fixed(20_000.0)
    );
    assert_eq!(
        found.scenario.model.price.unwrap().output.picos(),
        1_000_000
    );
}

#[test]
fn runs_with_nothing_before_their_answer_cannot_be_fitted() {
    let error = seen(&lines(5, plain, |_| 0))
        .calibrate("s", None, &PriceTable::default())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("none with anything before its answer"),
        "{error}"
    );
}

#[test]
fn the_built_in_sample_calibrates_source_by_source() {
    let mut reader = crate::library::sample_runs();
    let mut sources: BTreeMap<String, Observed> = BTreeMap::new();
    while let Some(run) = reader.next_run().unwrap() {
        let label = reader.names().get(run.source).to_owned();
        sources.entry(label).or_default().add(&run, reader.names());
    }
    for (label, seen) in sources {
        let runs = seen.runs();
        let found = seen
            .calibrate(&label, None, &crate::library::prices())
            .unwrap();
        assert!(found.rows.len() >= 5, "{label}");
        for row in &found.rows {
            // Chance alone explains so much (Kolmogorov's 99.9% point), families a little more.
            let most = 0.04 + 1.95 / (row.number as f64).sqrt();
            assert!(row.ks <= most, "{label} {row:?}");
        }
        assert_eq!(
            found.warnings.iter().any(|text| text.starts_with("only")),
            runs < FEW_RUNS
        );
    }
}
