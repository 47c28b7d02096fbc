//! Limits of `caps`: plain caps and what happens at them.

use holdback_engine::Money;
use serde_json::Value;

use super::{Limits, by_tool, count, is_unlimited, not_zero, put};
use crate::read::error::FileError;
use crate::read::fields::{Field, Table};
use crate::read::tree::Kind;

/// The dimensions by which `on_exhausted` may differ.
const DIMENSIONS: [&str; 9] = [
    "turns",
    "model_calls",
    "tool_calls",
    "calls_per_tool",
    "cost",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "time",
];
/// The dimensions that `check` is about.
const CHECKED: [&str; 4] = ["cost", "input_tokens", "output_tokens", "total_tokens"];
const CHECKS: [&str; 3] = ["before", "after", "both"];
const ENDINGS: [&str; 6] = [
    "error",
    "stop",
    "canned",
    "final_turn",
    "final_turn_inside",
    "block_tools",
];

pub(super) fn limits(field: &Field<'_>) -> Result<Limits, FileError> {
    let mut table = field.table()?;
    let mut limits = Limits::new();
    for name in [
        "max_turns",
        "max_model_calls",
        "max_input_tokens",
        "max_output_tokens",
        "max_total_tokens",
    ] {
        let why = "no model call could be made, so every run would fail";
        let limit = table.maybe(name, |field| not_zero(field, why))?.flatten();
        put(&mut limits, name, limit);
    }
    let calls = table.maybe("max_tool_calls", |field| count(field, 0))?;
    put(&mut limits, "max_tool_calls", calls.flatten());
    put(
        &mut limits,
        "max_calls_per_tool",
        table.maybe("max_calls_per_tool", by_tool)?,
    );
    let cost = table.maybe("max_cost_usd", max_cost)?.flatten();
    put(
        &mut limits,
        "max_cost_usd",
        cost.map(|cost| cost.to_string()),
    );
    let time = table.maybe("max_time_s", max_time)?.flatten();
    put(&mut limits, "max_time_s", time);
    word(
        &mut table,
        &mut limits,
        "count_turns",
        &["model", "tool_turns", "supersteps"],
    )?;
    word(
        &mut table,
        &mut limits,
        "batch",
        &["reject", "trim", "run_all"],
    )?;
    word(&mut table, &mut limits, "durable", &["turn", "none"])?;
    by_dimension(&mut table, &mut limits, "check", &CHECKS, &CHECKED)?;
    by_dimension(
        &mut table,
        &mut limits,
        "on_exhausted",
        &ENDINGS,
        &DIMENSIONS,
    )?;
    table.finish()?;
    Ok(limits)
}

fn max_cost(field: &Field<'_>) -> Result<Option<Money>, FileError> {
    if is_unlimited(field) {
        return Ok(None);
    }
    let cost = field.money()?;
    if cost == Money::ZERO {
        let expected = "more than 0: no model call could be made, so every run would fail";
        return Err(field.wrong(expected));
    }
    Ok(Some(cost))
}

fn max_time(field: &Field<'_>) -> Result<Option<f64>, FileError> {
    if is_unlimited(field) {
        return Ok(None);
    }
    let seconds = field.number(0.0, crate::read::scenario::MAX_SECONDS)?;
    if seconds < 1e-6 {
        let expected = "more than 0: the time would be up before the first model call";
        return Err(field.wrong(expected));
    }
    Ok(Some(seconds))
}

fn one_of(field: &Field<'_>, words: &[&'static str]) -> Result<&'static str, FileError> {
    let words: Vec<(&'static str, &'static str)> =
        words.iter().map(|word| (*word, *word)).collect();
    field.word(&words)
}

fn word(
    table: &mut Table<'_>,
    limits: &mut Limits,
    key: &'static str,
    words: &[&'static str],
) -> Result<(), FileError> {
    put(limits, key, table.maybe(key, |field| one_of(field, words))?);
    Ok(())
}

/// One word for all dimensions, or a table by dimension.
fn by_dimension(
    table: &mut Table<'_>,
    limits: &mut Limits,
    key: &'static str,
    words: &[&'static str],
    dimensions: &[&'static str],
) -> Result<(), FileError> {
    let Some(field) = table.take(key) else {
        return Ok(());
    };
    if !matches!(field.node.kind, Kind::Table(_)) {
        put(limits, key, Some(one_of(&field, words)?));
        return Ok(());
    }
    let mut inner = field.table()?;
    let mut members = Limits::new();
    for dimension in dimensions {
        word(&mut inner, &mut members, dimension, words)?;
    }
    inner.finish()?;
    put(limits, key, Some(Value::Object(members)));
    Ok(())
}
