//! Limits of `caps`: plain caps and what happens at them.

use holdback_engine::Money;
use holdback_engine::caps::{self, presets};
use serde_json::Value;

use super::{Limits, UNLIMITED, count, is_unlimited, not_zero, put};
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
    put(&mut limits, "preset", table.maybe("preset", preset)?);
    for name in [
        "max_turns",
        "max_model_calls",
        "max_input_tokens",
        "max_output_tokens",
        "max_total_tokens",
    ] {
        let why = "no model call could be made, so every run would fail";
        let limit = table.maybe(name, |field| Ok(lifted(not_zero(field, why)?)))?;
        put(&mut limits, name, limit);
    }
    let calls = table.maybe("max_tool_calls", |field| Ok(lifted(count(field, 0)?)))?;
    put(&mut limits, "max_tool_calls", calls);
    put(
        &mut limits,
        "max_calls_per_tool",
        table.maybe("max_calls_per_tool", calls_per_tool)?,
    );
    put(
        &mut limits,
        "max_cost_usd",
        table.maybe("max_cost_usd", max_cost)?,
    );
    put(
        &mut limits,
        "max_time_s",
        table.maybe("max_time_s", max_time)?,
    );
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
    word(&mut table, &mut limits, "cut_turn", &["end", "continue"])?;
    word(
        &mut table,
        &mut limits,
        "blank_answer",
        &["deliver", "last_text"],
    )?;
    let attempts = table.maybe("attempts", |field| field.small(1, 1_000_000))?;
    put(&mut limits, "attempts", attempts);
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

/// Asks the engine whether the rules go together, preset included.
pub(crate) fn check(field: &Field<'_>, limits: &Limits) -> Result<(), FileError> {
    let wrong = |error: String| field.error(error, "limits that `caps` accepts");
    let limits: caps::Limits = serde_json::from_value(Value::Object(limits.clone()))
        .map_err(|error| wrong(error.to_string()))?;
    let compiled = limits
        .resolved()
        .and_then(|limits| limits.compile(|_| None));
    match compiled.err().as_deref() {
        None | Some([]) => Ok(()),
        Some([first, ..]) => {
            let found = format!("`{}` {}", first.field, first.value);
            Err(field.conflict(found, first.expected.clone()))
        }
    }
}

/// The name of a preset.
pub(crate) fn preset(field: &Field<'_>) -> Result<String, FileError> {
    let name = field.name()?;
    if presets::find(name).is_some() {
        return Ok(name.to_owned());
    }
    let names = presets::all().iter().map(|preset| preset.name);
    Err(field.wrong("the name of a preset").nearest(name, names))
}

/// A limit as the engine reads it. `"unlimited"` stays, because it takes a preset's cap away.
fn lifted(limit: Option<u64>) -> Value {
    limit.map_or_else(|| Value::from(UNLIMITED), Value::from)
}

fn calls_per_tool(field: &Field<'_>) -> Result<Value, FileError> {
    let entries = field.entries(1000)?;
    let read = |(name, field): (&str, Field<'_>)| Ok((name.to_owned(), lifted(count(&field, 0)?)));
    entries
        .into_iter()
        .map(read)
        .collect::<Result<Limits, _>>()
        .map(Value::Object)
}

fn max_cost(field: &Field<'_>) -> Result<String, FileError> {
    if is_unlimited(field) {
        return Ok(UNLIMITED.to_owned());
    }
    let cost = field.money()?;
    if cost == Money::ZERO {
        let expected = "more than 0: no model call could be made, so every run would fail";
        return Err(field.wrong(expected));
    }
    Ok(cost.to_string())
}

/// Seconds as an exact decimal with at most six digits.
fn max_time(field: &Field<'_>) -> Result<String, FileError> {
    if is_unlimited(field) {
        return Ok(UNLIMITED.to_owned());
    }
    field.number(0.0, crate::read::scenario::MAX_SECONDS)?;
    let seconds = field.money()?;
    if seconds.picos() % 1_000_000 != 0 {
        return Err(field.wrong("seconds with at most 6 decimals"));
    }
    if seconds == Money::ZERO {
        let expected = "more than 0: the time would be up before the first model call";
        return Err(field.wrong(expected));
    }
    Ok(seconds.to_string())
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
    // `default` stands for the dimensions that are not named.
    for dimension in dimensions.iter().chain(&["default"]) {
        word(&mut inner, &mut members, dimension, words)?;
    }
    inner.finish()?;
    put(limits, key, Some(Value::Object(members)));
    Ok(())
}
