//! Policies: one table each, `extends` and `sweep` resolved before.

use super::error::FileError;
use super::fields::{Field, Table};
use super::limits::{self, Limits};
use super::tree::{Entry, Kind, Node};
use crate::policy::{
    AnswerOverCap, Budget, CapsSettings, CrossingTurn, Evidence, ExposureWait, Family, ModelCaps,
    Policy, RunLimitsRules, RunLimitsSettings, Schema, Settings, TerminalTool, UsageLimitsSettings,
};
use crate::scenario::Probability;

/// Keys that stand beside `limits`; a dotted path that begins with none of them is a limit.
pub(crate) const BESIDE: [&str; 17] = [
    "summary",
    "family",
    "limits",
    "resume_limits",
    "deadline_s",
    "attempts",
    "identical_calls",
    "identical_denials",
    "rules",
    "preset",
    "budget",
    "evidence",
    "terminal_tool",
    "schema",
    "retry_attempts",
    "model_caps",
    "name",
];
/// The most attempts, thresholds and reserved turns.
const MAX_SMALL: u32 = 1_000_000;

/// The policy table of a document that is one, or holds only a limits object named by its file.
pub(crate) fn policy_table(file: &str, root: &Node) -> Node {
    if !limits::looks_like_limits(root) {
        return root.clone();
    }
    let stem = std::path::Path::new(file)
        .file_stem()
        .and_then(|stem| stem.to_str());
    let entry = |key: &str, node: Node| Entry {
        key: key.to_owned(),
        node,
    };
    let name = Node {
        line: 0,
        kind: Kind::Text(stem.unwrap_or(file).to_owned()),
    };
    Node {
        line: root.line,
        kind: Kind::Table(vec![entry("name", name), entry("limits", root.clone())]),
    }
}

/// Reads a policy whose `extends` and `sweep` are resolved.
pub(crate) fn policy(field: &Field<'_>) -> Result<Policy, FileError> {
    let mut table = field.table()?;
    let name = table
        .require("name", "the policy's name")?
        .name()?
        .to_owned();
    let summary = table.maybe("summary", |field| field.text().map(str::to_owned))?;
    let limits_field = table.take("limits");
    let family = family(&mut table, limits_field.as_ref())?;
    let limits = match &limits_field {
        Some(field) => limits::limits(field, family)?,
        // Without limits the family's defaults hold.
        None => Limits::new(),
    };
    let resume_limits = table.maybe("resume_limits", |field| limits::limits(field, family))?;
    let settings = match family {
        Family::RunLimits => Settings::RunLimits(run_limits(&mut table)?),
        Family::UsageLimits => Settings::UsageLimits(usage_limits(&mut table)?),
        Family::Caps => Settings::Caps(caps(&mut table)?),
    };
    refuse_other_families(&table, family)?;
    table.finish()?;
    let place = limits_field.as_ref().unwrap_or(field);
    match &settings {
        Settings::RunLimits(_) => {}
        Settings::UsageLimits(settings) => check_output_floor(field, &limits, settings)?,
        Settings::Caps(settings) => check_caps(place, &limits, settings)?,
    }
    Ok(Policy {
        name,
        summary,
        family,
        limits,
        resume_limits,
        settings,
        document: document(field.node, family),
    })
}

fn document(node: &Node, family: Family) -> serde_json::Value {
    let mut document = node.to_value();
    document["family"] = family.as_str().into();
    document
}

fn family(table: &mut Table<'_>, limits: Option<&Field<'_>>) -> Result<Family, FileError> {
    if let Some(field) = table.take("family") {
        return field.word(&Family::ALL.map(|family| (family.as_str(), family)));
    }
    match limits {
        // Only `caps` has presets.
        _ if table.has("preset") => Ok(Family::Caps),
        Some(limits) => limits::of_limits(limits),
        None => {
            table.require("limits", "a table of limits")?;
            Ok(Family::RunLimits)
        }
    }
}

/// A key of another family gets a clearer message than "unknown".
fn refuse_other_families(table: &Table<'_>, family: Family) -> Result<(), FileError> {
    let owners: [(&[&str], Family); 3] = [
        (
            &[
                "deadline_s",
                "attempts",
                "identical_calls",
                "identical_denials",
            ],
            Family::RunLimits,
        ),
        (
            &[
                "budget",
                "evidence",
                "terminal_tool",
                "schema",
                "retry_attempts",
                "model_caps",
            ],
            Family::UsageLimits,
        ),
        (&["preset"], Family::Caps),
    ];
    for (keys, owner) in owners {
        if let (Some(key), true) = (keys.iter().find(|key| table.has(key)), owner != family) {
            return Err(table.place().error(
                format!("`{key}`, which belongs to {owner}"),
                format!("keys of {family}"),
            ));
        }
    }
    Ok(())
}

fn run_limits(table: &mut Table<'_>) -> Result<RunLimitsSettings, FileError> {
    let off = RunLimitsSettings::default();
    Ok(RunLimitsSettings {
        deadline: table.maybe("deadline_s", |field| {
            let deadline = field.seconds(super::scenario::MAX_SECONDS)?;
            if deadline == 0 {
                return Err(field.wrong("more than 0: every run would end before its first step"));
            }
            Ok(deadline)
        })?,
        attempts: table.or("attempts", off.attempts, |field| field.small(1, MAX_SMALL))?,
        identical_calls: table.or("identical_calls", off.identical_calls, threshold)?,
        identical_denials: table.or("identical_denials", off.identical_denials, threshold)?,
        rules: table.or("rules", off.rules, rules)?,
    })
}

/// A threshold, or `"unlimited"` for one that nothing reaches.
fn threshold(field: &Field<'_>) -> Result<u32, FileError> {
    if matches!(&field.node.kind, Kind::Text(text) if text == limits::UNLIMITED) {
        return Ok(u32::MAX);
    }
    field.small(1, MAX_SMALL)
}

fn rules(field: &Field<'_>) -> Result<RunLimitsRules, FileError> {
    let mut table = field.table()?;
    let off = RunLimitsRules::default();
    let rules = RunLimitsRules {
        crossing_turn: table.or("crossing_turn", off.crossing_turn, |field| {
            field.word(&[
                ("fail", CrossingTurn::Fail),
                ("refuse_then_synthesize", CrossingTurn::RefuseThenSynthesize),
                ("run_then_synthesize", CrossingTurn::RunThenSynthesize),
            ])
        })?,
        answer_over_cap: table.or("answer_over_cap", off.answer_over_cap, |field| {
            field.word(&[
                ("discard", AnswerOverCap::Discard),
                ("keep", AnswerOverCap::Keep),
            ])
        })?,
        reserve_tool_allowance: table.or("reserve_tool_allowance", 0, |field| {
            field.small(0, MAX_SMALL)
        })?,
        reserve_fraction: table.or("reserve_fraction", 0.0, fraction)?,
        count_tool_cost: table.or("count_tool_cost", false, Field::bool)?,
    };
    table.finish()?;
    Ok(rules)
}

/// A share from 0 up to, but not including, 1, with at most twelve decimals.
fn fraction(field: &Field<'_>) -> Result<f64, FileError> {
    let expected = "a share from 0 to below 1 with at most 12 decimals";
    let wrong = |error: FileError| FileError {
        expected: expected.into(),
        ..error
    };
    field.money().map_err(wrong)?;
    let share = field.number(0.0, 1.0).map_err(wrong)?;
    if share >= 1.0 {
        return Err(field.wrong(expected));
    }
    Ok(share)
}

fn usage_limits(table: &mut Table<'_>) -> Result<UsageLimitsSettings, FileError> {
    Ok(UsageLimitsSettings {
        budget: table.maybe("budget", budget)?,
        evidence: table.maybe("evidence", evidence)?,
        terminal_tool: table.maybe("terminal_tool", terminal_tool)?,
        schema: table.maybe("schema", schema)?.flatten(),
        retry_attempts: table.maybe("retry_attempts", |field| field.small(1, MAX_SMALL))?,
        model_caps: table.or("model_caps", ModelCaps::default(), model_caps)?,
    })
}

fn budget(field: &Field<'_>) -> Result<Budget, FileError> {
    let mut table = field.table()?;
    // Exact decimals are asked for, as for all money; the engine then compares doubles.
    let usd = |field: &Field<'_>| {
        field.money()?;
        field.number(0.0, f64::INFINITY)
    };
    let limited = |field: &Field<'_>| match &field.node.kind {
        Kind::Text(text) if text == limits::UNLIMITED => Ok(None),
        _ => usd(field).map(Some),
    };
    let budget = Budget {
        ceiling_usd: table.maybe("ceiling_usd", limited)?.flatten(),
        already_spent_usd: table.or("already_spent_usd", 0.0, usd)?,
        exposure_cap_usd: table.maybe("exposure_cap_usd", limited)?.flatten(),
        exposure_wait: table.or("exposure_wait", ExposureWait::No, |field| {
            match field.node.kind {
                Kind::Bool(false) => Ok(ExposureWait::No),
                Kind::Bool(true) => Ok(ExposureWait::Yes),
                _ => field
                    .word(&[("child", ExposureWait::Child)])
                    .map_err(|_| field.wrong("false, true or \"child\"")),
            }
        })?,
    };
    table.finish()?;
    for (name, cap) in [
        ("ceiling_usd", budget.ceiling_usd),
        ("exposure_cap_usd", budget.exposure_cap_usd),
    ] {
        if let Some(cap) = cap
            && cap <= budget.already_spent_usd
        {
            let found = format!(
                "`{name}` {cap} with {} already spent",
                budget.already_spent_usd
            );
            let expected = "more than was already spent: no model call could be made";
            return Err(field.conflict(found, expected));
        }
    }
    Ok(budget)
}

fn evidence(field: &Field<'_>) -> Result<Evidence, FileError> {
    let mut table = field.table()?;
    let entries = table.require("min_entries", "the evidence entries that a run owes")?;
    let evidence = Evidence {
        min_entries: entries.count(0, u64::from(MAX_SMALL))?,
        refuse: table.or("enforce", false, |field| {
            field.word(&[("warn", false), ("refuse", true)])
        })?,
    };
    table.finish()?;
    Ok(evidence)
}

fn terminal_tool(field: &Field<'_>) -> Result<TerminalTool, FileError> {
    let mut table = field.table()?;
    let tool = TerminalTool {
        name: table.require("name", "the tool's name")?.name()?.to_owned(),
        repair_turn_reserve: table
            .or("repair_turn_reserve", 0, |field| field.small(0, MAX_SMALL))?,
    };
    table.finish()?;
    Ok(tool)
}

/// `true`, or a table with the chance of a valid text and the number of re-prompts.
fn schema(field: &Field<'_>) -> Result<Option<Schema>, FileError> {
    let plain = Schema {
        valid: Probability::ALWAYS,
        retry_attempts: None,
    };
    match &field.node.kind {
        Kind::Bool(true) => return Ok(Some(plain)),
        Kind::Bool(false) => return Ok(None),
        Kind::Table(_) => {}
        _ => return Err(field.wrong("true, false or a table")),
    }
    let mut table = field.table()?;
    let schema = Schema {
        valid: table.or("valid", plain.valid, Field::probability)?,
        retry_attempts: table.maybe("retry_attempts", |field| field.small(0, MAX_SMALL))?,
    };
    table.finish()?;
    Ok(Some(schema))
}

fn model_caps(field: &Field<'_>) -> Result<ModelCaps, FileError> {
    let mut table = field.table()?;
    let tokens = |field: &Field<'_>| field.count(1, super::scenario::MAX_TOKENS as u64);
    let caps = ModelCaps {
        min_output_tokens_per_turn: table.maybe("min_output_tokens_per_turn", tokens)?,
        max_output_tokens: table.maybe("max_output_tokens", tokens)?,
    };
    table.finish()?;
    Ok(caps)
}

/// A configured output cap below the model's smallest output rejects every run in the reference.
fn check_output_floor(
    field: &Field<'_>,
    limits: &Limits,
    settings: &UsageLimitsSettings,
) -> Result<(), FileError> {
    let Some(floor) = settings.model_caps.min_output_tokens_per_turn else {
        return Ok(());
    };
    let per_turn = limits.get("maxOutputTokensPerTurn");
    let summary = limits
        .get("finalizationReserve")
        .and_then(|reserve| reserve.get("maxOutputTokens"));
    for (name, cap) in [
        ("limits.maxOutputTokensPerTurn", per_turn),
        ("limits.finalizationReserve.maxOutputTokens", summary),
    ] {
        if let Some(cap) = cap.and_then(serde_json::Value::as_u64)
            && cap < floor
        {
            let found = format!("`{name}` {cap}");
            let floor =
                format!("not below `model_caps.min_output_tokens_per_turn`, which is {floor}");
            return Err(field.conflict(found, floor));
        }
    }
    Ok(())
}

/// Asks the engine whether preset and limits go together.
fn check_caps(
    place: &Field<'_>,
    limits: &Limits,
    settings: &CapsSettings,
) -> Result<(), FileError> {
    let mut all = limits.clone();
    if let Some(preset) = &settings.preset {
        if limits.contains_key("preset") {
            let found = "a `preset` among the limits and one beside them";
            return Err(place.error(found, "one `preset`"));
        }
        all.insert("preset".to_owned(), preset.as_str().into());
    }
    limits::caps::check(place, &all)
}

fn caps(table: &mut Table<'_>) -> Result<CapsSettings, FileError> {
    let preset = table.maybe("preset", limits::caps::preset)?;
    let count_tool_cost = table.or("rules", false, |field| {
        let mut rules = field.table()?;
        let count = rules.or("count_tool_cost", false, Field::bool)?;
        rules.finish()?;
        Ok(count)
    })?;
    Ok(CapsSettings {
        preset,
        count_tool_cost,
    })
}
