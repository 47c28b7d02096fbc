//! The limits objects of the three families, field by field.
//!
//! Stricter than the reference engines, which accept unknown fields, negative limits and limits
//! that refuse the first operation: here each of these is an error that says why.

pub(crate) mod caps;
mod detect;
mod run_limits;
mod usage_limits;

pub(crate) use detect::{looks_like_limits, of_limits};

use serde_json::{Map, Value};

use super::error::FileError;
use super::fields::{Field, Table};
use super::tree::Kind;
use crate::policy::Family;

/// What stands for a limit that nothing reaches.
pub(crate) const UNLIMITED: &str = "unlimited";
/// The largest count of a limit.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// A validated limits object as an engine reads it: no `null`, no `"unlimited"`, money as decimal
/// strings.
pub(crate) type Limits = Map<String, Value>;

/// Reads the limits object of a family.
pub(crate) fn limits(field: &Field<'_>, family: Family) -> Result<Limits, FileError> {
    match family {
        Family::RunLimits => run_limits::limits(field),
        Family::UsageLimits => usage_limits::limits(field),
        Family::Caps => caps::limits(field),
    }
}

/// What a family takes for a limit that is not given, if that is a number.
pub(crate) fn default_count(family: Family, name: &str) -> Option<u64> {
    match (family, name) {
        (Family::RunLimits, name) => run_limits::default_count(name),
        (Family::UsageLimits, "maxTurns") => Some(usage_limits::DEFAULT_MAX_TURNS),
        _ => None,
    }
}

/// True for a limit that is an amount of money and not a count.
pub(crate) fn is_money(name: &str) -> bool {
    let leaf = name.rsplit('.').next().unwrap_or(name);
    let names = [
        "max_cost",
        "max_cost_usd",
        "synthesis_reserve_cost",
        "minHeadroomUsd",
    ];
    names.contains(&leaf) || leaf.ends_with("_usd")
}

/// True for `"unlimited"`.
fn is_unlimited(field: &Field<'_>) -> bool {
    matches!(&field.node.kind, Kind::Text(text) if text == UNLIMITED)
}

/// A limit: a count not below `low`, or `None` for `"unlimited"`.
fn count(field: &Field<'_>, low: u32) -> Result<Option<u64>, FileError> {
    if is_unlimited(field) {
        return Ok(None);
    }
    let error = |error: FileError| FileError {
        expected: format!("{} or \"unlimited\"", error.expected).into(),
        ..error
    };
    field.count(low, MAX_COUNT).map(Some).map_err(error)
}

/// A limit that ends every run at once when it is 0, which is refused with the reason.
fn not_zero(field: &Field<'_>, why: &str) -> Result<Option<u64>, FileError> {
    match count(field, 0)? {
        Some(0) => Err(field.error("0", format!("at least 1: {why}"))),
        limit => Ok(limit),
    }
}

/// The members of a limits object that were read, in their order.
fn put(limits: &mut Limits, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        limits.insert(name.to_owned(), value.into());
    }
}

/// A record of counts by tool name.
fn by_tool(field: &Field<'_>) -> Result<Limits, FileError> {
    const MAX_TOOLS: usize = 1000;
    let entries = field.entries(MAX_TOOLS)?;
    let read = |(name, count): (&str, Field<'_>)| {
        let count = count.count(0, MAX_COUNT)?;
        Ok((name.to_owned(), count.into()))
    };
    entries.into_iter().map(read).collect()
}

/// A list of tool names.
fn tool_names(field: &Field<'_>) -> Result<Value, FileError> {
    const MAX_NAMES: usize = 1000;
    let names = field.list(MAX_NAMES)?;
    let read = |name: &Field<'_>| {
        let text = name.text()?;
        if text.is_empty() {
            return Err(name.wrong("the name of a tool"));
        }
        Ok(Value::from(text))
    };
    names
        .iter()
        .map(read)
        .collect::<Result<Vec<_>, _>>()
        .map(Value::from)
}

/// Reads an optional table into an object.
fn object(
    table: &mut Table<'_>,
    key: &'static str,
    read: impl FnOnce(&mut Table<'_>, &mut Limits) -> Result<(), FileError>,
) -> Result<Option<Value>, FileError> {
    table.maybe(key, |field| {
        let mut inner = field.table()?;
        let mut members = Limits::new();
        read(&mut inner, &mut members)?;
        inner.finish()?;
        Ok(Value::Object(members))
    })
}
