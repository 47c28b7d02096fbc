//! Vectors of `run_limits`.

use holdback_engine::protocol::{
    Call, CallResult, CallStatus, FaultKind, Finish, Micros, Signature, Status, Text, Usage,
};
use holdback_engine::run_limits::Limits;
use holdback_scenarios::policy::{RunLimitsRules, RunLimitsSettings, Settings};
use serde_json::{Map, Value, json};

use super::script::{Attempt, Died, Kill};
use super::{Context, LeftOut, Numbered};
use crate::policy::run_limits_of;
use crate::world::ReplyOutcome;

/// The tools of the recorded vectors: one that is known and may run beside others, and one whose
/// scope the caller lacks.
const KNOWN: &str = "math.calculate";
const DENIED: &str = "workspace.write_text";
/// Batches of this size run side by side in the reference, if all calls may.
const SIDE_BY_SIDE: std::ops::RangeInclusive<usize> = 2..=8;

/// The vector of a run, with an empty `expect`.
pub(super) fn vector(context: &Context<'_>) -> Result<Value, LeftOut> {
    let settings = reference_settings(context)?;
    let limits = run_limits_of(context.policy, context.prepared.ledger())
        .map_err(|_| LeftOut::VariedRules)?;
    let script = context.script;
    if settings.deadline.is_some() && script.batches.iter().any(|batch| differs(context, batch)) {
        return Err(LeftOut::SerialBatch);
    }
    let mut names = CallNames {
        context,
        signatures: Numbered::new(),
        texts: Vec::new(),
    };
    let attempts: Vec<Value> = script
        .attempts
        .iter()
        .filter(|attempt| !attempt.lost)
        .map(|attempt| names.attempt(attempt))
        .collect();
    Ok(json!({
        "id": context.id(),
        "family": context.origin(),
        "limits": limits_json(&limits),
        "deadline": settings.deadline.map(seconds),
        "script": attempts,
        "tool_results": tool_results(context),
        "kill": kill(context)?,
        "tags": tags(context),
        "expect": {},
    }))
}

/// What stands beside the limits, if it is what the reference has.
fn reference_settings<'c>(context: &Context<'c>) -> Result<&'c RunLimitsSettings, LeftOut> {
    let Settings::RunLimits(settings) = &context.policy.settings else {
        return Err(LeftOut::VariedRules);
    };
    let reference = RunLimitsSettings {
        deadline: settings.deadline,
        rules: RunLimitsRules::default(),
        ..RunLimitsSettings::default()
    };
    if *settings != reference {
        return Err(LeftOut::VariedRules);
    }
    if context.policy.resume_limits.is_some() && !context.script.kills.is_empty() {
        return Err(LeftOut::ResumeLimits);
    }
    Ok(settings)
}

/// The tools of the vectors would run the batch side by side where the simulation ran it call by
/// call, or the other way round.
fn differs(context: &Context<'_>, batch: &super::script::Batch) -> bool {
    let all_known = batch
        .calls
        .iter()
        .all(|call| !context.script.is_denied(call));
    let side_by_side = all_known && SIDE_BY_SIDE.contains(&batch.calls.len());
    side_by_side != batch.parallel
}

fn limits_json(limits: &Limits) -> Value {
    let money = |amount: holdback_engine::Money| amount.to_string();
    json!({
        "max_steps": limits.max_steps,
        "max_model_calls": limits.max_model_calls,
        "max_tool_calls": limits.max_tool_calls,
        "max_input_tokens": limits.max_input_tokens,
        "max_output_tokens": limits.max_output_tokens,
        "max_cost": limits.max_cost.map(money),
        "synthesis_reserve_steps": limits.synthesis_reserve_steps,
        "synthesis_reserve_model_calls": limits.synthesis_reserve_model_calls,
        "synthesis_reserve_tool_calls": limits.synthesis_reserve_tool_calls,
        "synthesis_reserve_cost": money(limits.synthesis_reserve_cost),
    })
}

fn seconds(time: Micros) -> f64 {
    time as f64 / 1e6
}

/// Names and arguments: calls that are the same for the engine have the same.
struct CallNames<'c> {
    context: &'c Context<'c>,
    signatures: Numbered<Signature>,
    /// Of each signature, in the order of its number.
    texts: Vec<(&'static str, String)>,
}

impl CallNames<'_> {
    fn attempt(&mut self, attempt: &Attempt) -> Value {
        let calls: Vec<Value> = attempt.calls.iter().map(|call| self.call(call)).collect();
        let (text, fault) = match attempt.outcome {
            ReplyOutcome::Turn { text, finish, .. } => {
                let is_empty = text == Text::Absent && calls.is_empty();
                (words(text, finish, &calls), is_empty.then_some("empty"))
            }
            ReplyOutcome::Fault {
                kind,
                produced_output,
            } => (None, Some(fault(kind, produced_output))),
            ReplyOutcome::Overflow => (None, Some("permanent")),
        };
        let mut entry = json!({
            "text": text,
            "calls": calls,
            "usage": attempt.told.as_ref().map(usage),
            "cost": attempt.cost.to_string(),
            "fault": fault,
        });
        if attempt.span.length() > 0 {
            entry["latency_s"] = json!(seconds(attempt.span.length()));
        }
        entry
    }

    fn call(&mut self, call: &Call) -> Value {
        let number = self.signatures.of(call.raw_signature);
        if number > self.texts.len() {
            self.texts.push(self.text(call, number));
        }
        let (name, args) = &self.texts[number - 1];
        json!({"id": id(call), "name": name, "args": args})
    }

    /// A text that brings the call's own outcome in the reference. A repetition with another outcome
    /// keeps the text of the first, as it is the same call for the engine; `tool_results` tells.
    fn text(&self, call: &Call, number: usize) -> (&'static str, String) {
        let script = self.context.script;
        let has_failed = |result: &CallResult| result.status == CallStatus::Failed;
        if script.is_denied(call) {
            (DENIED, format!(r#"{{"path":"note-{number}"}}"#))
        } else if script.result(call).is_some_and(has_failed) {
            (KNOWN, format!(r#"{{"expression":"{number}/0"}}"#))
        } else {
            (KNOWN, format!(r#"{{"expression":"{number}+0"}}"#))
        }
    }
}

fn id(call: &Call) -> String {
    format!("c{}", call.id + 1)
}

fn words(text: Text, finish: Finish, calls: &[Value]) -> Option<&'static str> {
    match text {
        Text::Absent => None,
        Text::Blank => Some(" "),
        Text::Content if finish == Finish::Length => Some("a text that its cap cut"),
        Text::Content if calls.is_empty() => Some("the final answer"),
        Text::Content => Some("thinking"),
    }
}

/// The reference knows four kinds: what is worth a retry is transient.
fn fault(kind: FaultKind, produced_output: bool) -> &'static str {
    match kind {
        FaultKind::Permanent => "permanent",
        FaultKind::Protocol => "protocol",
        FaultKind::Transient
        | FaultKind::RateLimit { .. }
        | FaultKind::Idle
        | FaultKind::Cut
        | FaultKind::Severed => {
            if produced_output {
                "transient_after_output"
            } else {
                "transient"
            }
        }
    }
}

fn usage(usage: &Usage) -> Value {
    let mut fields = json!({"input_tokens": usage.input, "output_tokens": usage.output});
    if usage.cached > 0 {
        fields["cached_input_tokens"] = json!(usage.cached);
    }
    if usage.cache_write > 0 {
        fields["cache_write_input_tokens"] = json!(usage.cache_write);
    }
    if let Some(reasoning) = usage.reasoning {
        fields["reasoning_tokens"] = json!(reasoning);
    }
    fields
}

fn tool_results(context: &Context<'_>) -> Value {
    let script = context.script;
    let calls = script.attempts.iter().flat_map(|attempt| &attempt.calls);
    let mut results = Map::new();
    for call in calls {
        let Some(result) = script.result(call) else {
            continue;
        };
        let status = match result.status {
            CallStatus::Succeeded => "succeeded",
            CallStatus::Failed => "failed",
            CallStatus::Denied => "denied",
        };
        let mut entry = json!({ "status": status });
        let latency = script
            .latencies
            .get(&call.id)
            .map_or(0, |span| span.length());
        if latency > 0 {
            entry["latency_s"] = json!(seconds(latency));
        }
        results.insert(id(call), entry);
    }
    Value::Object(results)
}

/// The one kill that a vector can hold.
///
/// A simulated process dies behind a model request before anything of it is recorded: the vectors'
/// `model_in_flight`. It dies behind a tool execution before the outcome is stored: the next process
/// finds the pending batch and no counters of it, as at `tool_pending`. That calls of the batch which
/// had run before keep their outcomes has no place in a vector; the tag `kill_within_batch` says so.
fn kill(context: &Context<'_>) -> Result<Value, LeftOut> {
    let kill = match context.script.kills.as_slice() {
        [] => return Ok(Value::Null),
        [kill] => kill,
        _ => return Err(LeftOut::SeveralKills),
    };
    let (at, nth) = match kill.died {
        Died::Model { attempt } => ("model_in_flight", attempt as u32),
        Died::Tool { pending_saves, .. } => ("tool_pending", pending_saves),
    };
    let mut entry = json!({"at": at, "nth": nth});
    let pause = kill.resumed - kill.since;
    if pause > 0 {
        entry["downtime_s"] = json!(seconds(pause));
    }
    Ok(entry)
}

fn tags(context: &Context<'_>) -> Vec<String> {
    let mut tags = vec![format!("policy:{}", context.policy.name)];
    if context
        .script
        .kills
        .iter()
        .any(|kill| is_within(context, kill))
    {
        tags.push("kill_within_batch".to_owned());
    }
    tags
}

/// The process died behind a call that was not the first of its batch.
fn is_within(context: &Context<'_>, kill: &Kill) -> bool {
    let Died::Tool { call, .. } = kill.died else {
        return false;
    };
    let batches = &context.script.batches;
    let first = batches
        .iter()
        .find(|batch| batch.calls.iter().any(|other| other.id == call.id));
    first.is_some_and(|batch| batch.calls[0].id != call.id)
}

/// How the simulation ended and how the script did, in the same words.
pub(super) fn compared(context: &Context<'_>, played: &Value) -> (String, String) {
    let script = context.script;
    let used = &script.counters;
    let status = script.ending.map(|ending| match ending.status {
        Status::Completed => "COMPLETED",
        Status::Cancelled => "CANCELLED",
        _ => "FAILED",
    });
    let simulated = format!(
        "{}: {} steps, {} model calls, {} tool calls, {} and {} tokens, USD {}",
        status.unwrap_or_default(),
        used.steps,
        used.model_calls,
        used.tool_calls,
        used.usage.input,
        used.usage.output,
        used.cost,
    );
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let told = format!(
        "{}: {} steps, {} model calls, {} tool calls, {} and {} tokens, USD {}",
        text(&played["status"]),
        played["step_count"],
        played["model_call_count"],
        played["tool_call_count"],
        played["usage"]["input_tokens"],
        played["usage"]["output_tokens"],
        text(&played["usage"]["cost"]),
    );
    (simulated, told)
}
