//! The script of a scenario: `[[turn]]`, `[[closing]]`, `on_end`.

use serde_json::Value;

use super::error::FileError;
use super::fields::{Field, Table};
use super::scenario::{MAX_SECONDS, MAX_TOKENS};
use super::tree::Kind;
use crate::price::Price;
use crate::script::{Act, Args, Bill, OnEnd, Script, ScriptCall, ScriptFault, ScriptTurn, Tokens};

/// The most distinct turns, the most turns with `times` written out, the most calls of a turn.
const MAX_TURNS: usize = 10_000;
const MAX_POSITIONS: u64 = 100_000;
const MAX_CALLS: usize = 10_000;

/// The script, if the scenario has one.
pub(crate) fn script(table: &mut Table<'_>) -> Result<Option<Script>, FileError> {
    let on_end = table.take("on_end");
    let closing = table.take("closing");
    let Some(field) = table.take("turn") else {
        return match on_end.or(closing) {
            Some(field) => Err(field.error("no [[turn]]", "a script to belong to")),
            None => Ok(None),
        };
    };
    let mut turns = Vec::new();
    let mut positions = 0;
    for field in field.list(MAX_TURNS)? {
        let (turn, times) = turn(&field, true)?;
        positions += u64::from(times);
        if positions > MAX_POSITIONS {
            return Err(field.error(
                format!("{positions} turns"),
                format!("at most {MAX_POSITIONS} turns, `times` written out"),
            ));
        }
        turns.push((turn, times));
    }
    if turns.is_empty() {
        return Err(field.wrong("at least one turn"));
    }
    let mut closings = Vec::new();
    if let Some(field) = closing {
        for field in field.list(MAX_TURNS)? {
            closings.push(turn(&field, false)?.0);
        }
    }
    let on_end = match on_end {
        None => OnEnd::default(),
        Some(field) => field.word(&[
            ("answer", OnEnd::Answer),
            ("hungry", OnEnd::Hungry),
            ("repeat", OnEnd::Repeat),
            ("stop", OnEnd::Stop),
        ])?,
    };
    let script = Script::new(turns, closings, on_end);
    if matches!(on_end, OnEnd::Hungry | OnEnd::Repeat) && script.last_with_calls().is_none() {
        return Err(field.error("no turn with calls", "calls for `on_end` to go on with"));
    }
    Ok(Some(script))
}

/// Tokens cannot be billed without a price.
pub(crate) fn check_prices(
    root: &Field<'_>,
    script: &Script,
    price: Option<&Price>,
) -> Result<(), FileError> {
    let by_tokens = |turn: &ScriptTurn| matches!(turn.bill, Bill::Tokens(_));
    let turns = (0..script.len()).filter_map(|position| script.turn(position));
    if price.is_none() && turns.chain(&script.closing).any(by_tokens) {
        let found = "a turn billed by tokens and no `model.price`";
        return Err(root.error(found, "a price, or `cost_usd` in every such turn"));
    }
    Ok(())
}

fn turn(field: &Field<'_>, repeatable: bool) -> Result<(ScriptTurn, u32), FileError> {
    let mut table = field.table()?;
    let times = if repeatable {
        table.or("times", 1, |field| field.small(1, MAX_POSITIONS as u32))?
    } else {
        1
    };
    let act = act(field, &mut table)?;
    let bill = bill(&mut table)?;
    let latency = table.or("latency_s", 0, |field| field.seconds(MAX_SECONDS))?;
    table.finish()?;
    Ok((ScriptTurn { act, bill, latency }, times))
}

fn act(field: &Field<'_>, table: &mut Table<'_>) -> Result<Act, FileError> {
    let owned = |field: &Field<'_>| field.text().map(str::to_owned);
    let text = table.maybe("text", owned)?;
    let calls = table.maybe("calls", calls)?;
    let answer = table.maybe("answer", owned)?;
    let fault = table.maybe("fault", |field| field.word(&FAULTS))?;
    match (calls, answer, fault) {
        (Some(calls), None, None) => Ok(Act::Calls { calls, text }),
        (None, Some(answer), None) if text.is_none() => Ok(Act::Answer(answer)),
        (None, None, Some(fault)) if text.is_none() || fault == ScriptFault::Truncated => {
            Ok(Act::Fault { fault, text })
        }
        (None, None, None) => match text {
            Some(text) => Ok(Act::Say(text)),
            None => Err(field.error(
                "a turn that does nothing",
                "one of `calls`, `answer`, `text` or `fault`",
            )),
        },
        _ => Err(field.error(
            "a turn that does several things",
            "one of `calls` (with or without `text`), `answer`, `text` or `fault`",
        )),
    }
}

const FAULTS: [(&str, ScriptFault); 8] = [
    ("transient", ScriptFault::Transient),
    ("transient_after_output", ScriptFault::TransientAfterOutput),
    ("permanent", ScriptFault::Permanent),
    ("protocol", ScriptFault::Protocol),
    ("rate_limit", ScriptFault::RateLimit),
    ("empty", ScriptFault::Empty),
    ("stall", ScriptFault::Stall),
    ("truncated", ScriptFault::Truncated),
];

fn bill(table: &mut Table<'_>) -> Result<Bill, FileError> {
    let count = |field: &Field<'_>| field.count(0, MAX_TOKENS as u64);
    let cost = table.maybe("cost_usd", Field::money)?;
    let input = table.maybe("input_tokens", count)?;
    let output = table.maybe("output_tokens", count)?;
    let cached = table.maybe("cached_tokens", count)?;
    let cache_write = table.maybe("cache_write_tokens", count)?;
    let reasoning = table.maybe("reasoning_tokens", count)?;
    let tokens = Tokens {
        input: input.unwrap_or(0),
        cached: cached.unwrap_or(0),
        cache_write: cache_write.unwrap_or(0),
        output: output.unwrap_or(0),
        reasoning,
    };
    if tokens.cached + tokens.cache_write > tokens.input {
        return Err(table.place().error(
            format!(
                "{} cached and {} written of {} input tokens",
                tokens.cached, tokens.cache_write, tokens.input
            ),
            "input tokens that include the cached and written ones",
        ));
    }
    if reasoning.is_some_and(|reasoning| reasoning > tokens.output) {
        return Err(table.place().error(
            format!(
                "{} reasoning of {} output tokens",
                reasoning.unwrap_or(0),
                tokens.output
            ),
            "output tokens that include the reasoning ones",
        ));
    }
    let any = [input, output, cached, cache_write, reasoning]
        .iter()
        .any(Option::is_some);
    Ok(match cost {
        Some(cost) => Bill::Cost { cost, tokens },
        None if any => Bill::Tokens(tokens),
        None => Bill::Nothing,
    })
}

/// `{ m = 10 }` or a list of names and tables.
fn calls(field: &Field<'_>) -> Result<Vec<ScriptCall>, FileError> {
    let calls = match &field.node.kind {
        Kind::Table(_) => {
            let mut calls = Vec::new();
            for (name, count) in field.entries(MAX_CALLS)? {
                let count = count.count(1, MAX_CALLS as u64)? as usize;
                if calls.len() + count > MAX_CALLS {
                    return Err(field.error("more calls", format!("at most {MAX_CALLS} calls")));
                }
                calls.extend(std::iter::repeat_n(plain_call(name), count));
            }
            calls
        }
        Kind::List(_) => {
            let items = field.list(MAX_CALLS)?;
            items.iter().map(call).collect::<Result<_, _>>()?
        }
        _ => return Err(field.wrong("a list of calls or a table such as { search = 3 }")),
    };
    if calls.is_empty() {
        return Err(field.wrong("at least one call"));
    }
    Ok(calls)
}

fn plain_call(tool: &str) -> ScriptCall {
    ScriptCall {
        tool: tool.to_owned(),
        args: Args::Fresh,
        result: None,
        content: None,
        error: false,
        denied: false,
        latency: None,
    }
}

fn call(field: &Field<'_>) -> Result<ScriptCall, FileError> {
    if let Kind::Text(_) = &field.node.kind {
        return field.name().map(plain_call);
    }
    let mut table = field
        .table()
        .map_err(|_| field.wrong("the name of a tool or a table with `tool`"))?;
    let tool = table
        .require("tool", "the tool that is called")?
        .name()?
        .to_owned();
    let value = table.maybe("args", |field| Ok(field.node.to_value()))?;
    let raw = table.maybe("raw_args", |field| field.text().map(str::to_owned))?;
    let call = ScriptCall {
        tool,
        args: args(value, raw),
        result: table.maybe("result", |field| Ok(field.node.to_value()))?,
        content: table.maybe("content", |field| field.text().map(str::to_owned))?,
        error: table.or("error", false, Field::bool)?,
        denied: table.or("denied", false, Field::bool)?,
        latency: table.maybe("latency_s", |field| field.seconds(MAX_SECONDS))?,
    };
    table.finish()?;
    Ok(call)
}

fn args(value: Option<Value>, raw: Option<String>) -> Args {
    match (value, raw) {
        (None, None) => Args::Fresh,
        (Some(value), Some(raw)) => Args::Given {
            value: Some(value),
            raw,
        },
        (Some(value), None) => Args::Given {
            raw: value.to_string(),
            value: Some(value),
        },
        (None, Some(raw)) => Args::Given {
            value: serde_json::from_str(&raw).ok(),
            raw,
        },
    }
}
