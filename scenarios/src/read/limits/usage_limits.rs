//! Limits of `usage_limits`: the fields and ranges of Rulvar's UsageLimits.

use serde_json::Value;

use super::{Limits, by_tool, count, object, put, tool_names};
use crate::read::error::FileError;
use crate::read::fields::{Field, Table};

/// The reference's default of `maxTurns`.
pub(super) const DEFAULT_MAX_TURNS: u64 = 32;
/// What is put where `maxTurns` is unlimited: the largest whole number that a double holds.
const UNREACHED: u64 = 9_007_199_254_740_991;
/// The longest idle timeout that a timer takes, in milliseconds.
const MAX_TIMER_MS: u64 = 2_147_483_647;

pub(super) fn limits(field: &Field<'_>) -> Result<Limits, FileError> {
    let mut table = field.table()?;
    let mut limits = Limits::new();
    let turns = table.maybe("maxTurns", positive)?;
    put(
        &mut limits,
        "maxTurns",
        turns.map(|turns| turns.unwrap_or(UNREACHED)),
    );
    let calls = table.maybe("maxToolCalls", |field| count(field, 0))?;
    put(&mut limits, "maxToolCalls", calls.flatten());
    for name in [
        "maxOutputTokensPerTurn",
        "timeoutMs",
        "noProgressTurns",
        "maxRepeatedToolSignature",
        "maxNoNewEvidenceCalls",
        "checkpointEveryToolCalls",
    ] {
        let limit = table.maybe(name, positive)?.flatten();
        put(&mut limits, name, limit);
    }
    let idle = table.maybe("streamIdleTimeoutMs", |field| {
        if super::is_unlimited(field) {
            return Ok(MAX_TIMER_MS);
        }
        field.count(1, MAX_TIMER_MS)
    })?;
    put(&mut limits, "streamIdleTimeoutMs", idle);
    put(
        &mut limits,
        "toolBudgetNotices",
        table.maybe("toolBudgetNotices", Field::bool)?,
    );
    put(
        &mut limits,
        "maxCallsPerTool",
        table.maybe("maxCallsPerTool", by_tool)?,
    );
    let units = object(&mut table, "toolUnits", tool_units)?;
    put(&mut limits, "toolUnits", units);
    let reserve = object(&mut table, "finalizationReserve", |table, members| {
        let cap = table.maybe("maxOutputTokens", |field| field.count(1, super::MAX_COUNT))?;
        put(members, "maxOutputTokens", cap);
        Ok(())
    })?;
    put(&mut limits, "finalizationReserve", reserve);
    let extension = object(&mut table, "toolBudgetExtension", extension)?;
    put(&mut limits, "toolBudgetExtension", extension);
    let window = object(&mut table, "finalizationWindow", window)?;
    put(&mut limits, "finalizationWindow", window);
    let turns = object(&mut table, "finalizationTurns", |table, members| {
        required(table, members, "reserveTurns")?;
        put(members, "allow", table.maybe("allow", tool_names)?);
        Ok(())
    })?;
    put(&mut limits, "finalizationTurns", turns);
    table.finish()?;
    Ok(limits)
}

fn positive(field: &Field<'_>) -> Result<Option<u64>, FileError> {
    count(field, 1)
}

fn required(
    table: &mut Table<'_>,
    members: &mut Limits,
    key: &'static str,
) -> Result<(), FileError> {
    let field = table.require(key, "a whole number not below 1")?;
    put(members, key, Some(field.count(1, super::MAX_COUNT)?));
    Ok(())
}

fn tool_units(table: &mut Table<'_>, members: &mut Limits) -> Result<(), FileError> {
    required(table, members, "max")?;
    put(members, "costs", table.maybe("costs", by_tool)?);
    Ok(())
}

fn extension(table: &mut Table<'_>, members: &mut Limits) -> Result<(), FileError> {
    required(table, members, "increment")?;
    required(table, members, "maxExtensions")?;
    let headroom = table.maybe("minHeadroomUsd", |field| {
        field.money()?;
        field.number(0.0, f64::INFINITY)
    })?;
    // A number, as the reference compares doubles.
    put(members, "minHeadroomUsd", headroom.map(Value::from));
    for flag in ["requireNewEvidence", "coverEvidenceDeficit"] {
        put(members, flag, table.maybe(flag, Field::bool)?);
    }
    Ok(())
}

fn window(table: &mut Table<'_>, members: &mut Limits) -> Result<(), FileError> {
    required(table, members, "reserveCalls")?;
    let flag = "reserveForEvidenceDeficit";
    put(members, flag, table.maybe(flag, Field::bool)?);
    put(members, "allow", table.maybe("allow", tool_names)?);
    Ok(())
}
