//! Limits of `run_limits`: ADR-0078 as amended by ADR-0115.

use holdback_engine::Money;

use super::{Limits, count, is_unlimited, not_zero, put};
use crate::read::error::FileError;
use crate::read::fields::{Field, Table};

/// What the engine holds for a count that nothing reaches.
const UNREACHED: u64 = i64::MAX as u64;

/// The production defaults.
pub(super) fn default_count(name: &str) -> Option<u64> {
    match name {
        "max_steps" | "max_model_calls" => Some(12),
        "max_tool_calls" => Some(24),
        _ => None,
    }
}

/// Each limit that takes a reserve: limit, reserve, why a limit of 0 is refused.
const COUNTED: [(&str, &str, Option<&str>); 3] = [
    (
        "max_steps",
        "synthesis_reserve_steps",
        Some("no step could begin, so every run would fail"),
    ),
    (
        "max_model_calls",
        "synthesis_reserve_model_calls",
        Some("no model call could be made, so every run would fail"),
    ),
    // A run without tools can still answer.
    ("max_tool_calls", "synthesis_reserve_tool_calls", None),
];

pub(super) fn limits(field: &Field<'_>) -> Result<Limits, FileError> {
    let mut table = field.table()?;
    let mut limits = Limits::new();
    let mut reserves = Vec::new();
    for (limit_name, reserve_name, why) in COUNTED {
        let limit = match (table.take(limit_name), why) {
            (Some(field), Some(why)) => Some(not_zero(&field, why)?.unwrap_or(UNREACHED)),
            (Some(field), None) => Some(count(&field, 0)?.unwrap_or(UNREACHED)),
            (None, _) => None,
        };
        put(&mut limits, limit_name, limit);
        if let Some(reserve_field) = table.take(reserve_name) {
            let reserve = reserve_field.count(0, super::MAX_COUNT)?;
            put(&mut limits, reserve_name, Some(reserve));
            let in_force = limit.or_else(|| default_count(limit_name));
            reserves.push((
                limit_name,
                reserve_field,
                reserve,
                in_force,
                limit.is_none(),
            ));
        }
    }
    for name in ["max_input_tokens", "max_output_tokens"] {
        let why = "no model call could be made, so every run would fail";
        let limit = table.maybe(name, |field| not_zero(field, why))?.flatten();
        put(&mut limits, name, limit);
    }
    let cost = table.maybe("max_cost", max_cost)?.flatten();
    put(&mut limits, "max_cost", cost.map(|cost| cost.to_string()));
    if let Some(reserve_field) = table.take("synthesis_reserve_cost") {
        let reserve = reserve_field.money()?;
        put(
            &mut limits,
            "synthesis_reserve_cost",
            Some(reserve.to_string()),
        );
        check_cost_reserve(&reserve_field, reserve, cost)?;
    }
    refuse_deadline(&mut table)?;
    table.finish()?;
    for (limit_name, field, reserve, limit, by_default) in reserves {
        check_reserve(
            &field,
            reserve,
            limit_name,
            limit.unwrap_or(UNREACHED),
            by_default,
        )?;
    }
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

fn check_reserve(
    field: &Field<'_>,
    reserve: u64,
    limit_name: &str,
    limit: u64,
    by_default: bool,
) -> Result<(), FileError> {
    if reserve == 0 || reserve < limit && limit != UNREACHED {
        return Ok(());
    }
    let found = format!("a reserve of {reserve}");
    if limit == UNREACHED {
        return Err(field.conflict(found, format!("a limit on `{limit_name}` to take it from")));
    }
    let default = if by_default { " (the default)" } else { "" };
    Err(field.conflict(
        found,
        format!("less than `{limit_name}`, which is {limit}{default}"),
    ))
}

fn check_cost_reserve(
    field: &Field<'_>,
    reserve: Money,
    cost: Option<Money>,
) -> Result<(), FileError> {
    let found = format!("a reserve of {reserve}");
    match cost {
        _ if reserve == Money::ZERO => Ok(()),
        None => Err(field.conflict(found, "a limit on `max_cost` to take it from")),
        Some(cost) if reserve >= cost => {
            Err(field.conflict(found, format!("less than `max_cost`, which is {cost}")))
        }
        Some(_) => Ok(()),
    }
}

/// A point in time makes no sense for a run that has not begun.
fn refuse_deadline(table: &mut Table<'_>) -> Result<(), FileError> {
    if !table.has("deadline_at") {
        return Ok(());
    }
    match table.take("deadline_at") {
        Some(field) if field.node.kind != crate::read::tree::Kind::Null => Err(field
            .error("a point in time", "no `deadline_at`")
            .with_hint("write `deadline_s = seconds` beside `limits`")),
        _ => Ok(()),
    }
}
