//! Vectors of `usage_limits`.

use std::collections::BTreeMap;

use holdback_engine::protocol::{
    Call, CallStatus, Digest, FaultKind, Finish, Micros, Signature, Status, Text, ToolId, Usage,
};
use holdback_engine::{Money, usage_limits};
use holdback_scenarios::policy::{ExposureWait, Settings, UsageLimitsSettings};
use serde_json::{Map, Value, json};

use super::script::{Attempt, Died};
use super::{Context, LeftOut, Numbered};
use crate::policy::{ToolNames, doubles};
use crate::tally::RunRecord;
use crate::world::ReplyOutcome;

/// The simulation listens to a silent stream no longer than this.
const LONGEST_SILENCE: Micros = 600_000_000;

/// The vector of a run, with an empty `expect`.
pub(super) fn vector(context: &Context<'_>) -> Result<Value, LeftOut> {
    let Settings::UsageLimits(settings) = &context.policy.settings else {
        return Err(LeftOut::VariedRules);
    };
    let script = context.script;
    if script.attempts.iter().any(is_silent_too_long) {
        return Err(LeftOut::LongSilence);
    }
    let mut names = Names::new(context, settings);
    let attempts: Vec<Value> = script
        .attempts
        .iter()
        .map(|attempt| names.attempt(attempt))
        .collect();
    let tool_results = names.tool_results();
    let mut vector = json!({
        "id": context.id(),
        "family": context.origin(),
        "binding": [],
        "limits": present(&context.policy.limits),
        "budget": budget(context, settings)?,
        "evidenceContract": settings.evidence.map(|evidence| json!({
            "minEntries": evidence.min_entries,
            "enforce": if evidence.refuse { "refuse" } else { "warn" },
        })),
        "terminalTool": settings.terminal_tool.as_ref().map(|tool| json!({
            "name": tool.name,
            "repairTurnReserve": tool.repair_turn_reserve,
        })),
        "tools": names.tools(),
        "script": attempts,
        "toolResults": tool_results,
        "kills": kills(context, &names),
        "estimates": script.estimates,
        "expect": {},
    });
    optional_fields(&mut vector, context, settings, &names);
    Ok(vector)
}

fn optional_fields(
    vector: &mut Value,
    context: &Context<'_>,
    settings: &UsageLimitsSettings,
    names: &Names<'_>,
) {
    if let Some(limits) = &context.policy.resume_limits {
        vector["resumeLimits"] = present(limits);
    }
    let denied = names.denied_tools();
    if !denied.is_empty() {
        vector["policyDeny"] = json!(denied);
    }
    let caps = &settings.model_caps;
    let caps: Map<String, Value> = [
        ("minOutputTokensPerTurn", caps.min_output_tokens_per_turn),
        ("maxOutputTokens", caps.max_output_tokens),
    ]
    .into_iter()
    .filter_map(|(name, tokens)| Some((name.to_owned(), json!(tokens?))))
    .collect();
    if !caps.is_empty() {
        vector["caps"] = Value::Object(caps);
    }
    if let Some(attempts) = settings.retry_attempts {
        vector["retryAttempts"] = json!(attempts);
    }
    if let Some(schema) = &settings.schema {
        vector["schema"] = json!(true);
        if let Some(attempts) = schema.retry_attempts {
            vector["schemaRetryAttempts"] = json!(attempts);
        }
    }
    match settings.budget.map(|budget| budget.exposure_wait) {
        Some(ExposureWait::Child) => vector["exposureWait"] = json!("child"),
        Some(ExposureWait::Yes) => vector["exposureWait"] = json!(true),
        Some(ExposureWait::No) | None => {}
    }
}

/// What is unlimited is absent in this family.
fn present(limits: &Map<String, Value>) -> Value {
    let present = limits.iter().filter(|(_, value)| !value.is_null());
    Value::Object(
        present
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

fn budget(context: &Context<'_>, settings: &UsageLimitsSettings) -> Result<Value, LeftOut> {
    let price = context
        .prepared
        .ledger()
        .price
        .ok_or(LeftOut::ReportedCosts)?;
    let usage_limits::Prices {
        input_per_mtok,
        output_per_mtok,
        cache_read_per_mtok,
        cache_write_per_mtok,
    } = doubles(&price);
    let account = settings.budget.unwrap_or_default();
    let mut budget = json!({
        "ceilingUsd": account.ceiling_usd,
        "alreadySpentUsd": account.already_spent_usd,
        "prices": {
            "inputPerMtok": input_per_mtok,
            "outputPerMtok": output_per_mtok,
            "cacheReadPerMtok": cache_read_per_mtok,
            "cacheWritePerMtok": cache_write_per_mtok,
        },
        "estimateMode": "scripted",
    });
    if let Some(cap) = account.exposure_cap_usd {
        budget["exposureCapUsd"] = json!(cap);
    }
    Ok(budget)
}

/// The simulation ends a silence after ten minutes whatever the policy says; a vector does not.
fn is_silent_too_long(attempt: &Attempt) -> bool {
    let is_stall = matches!(
        attempt.outcome,
        ReplyOutcome::Fault {
            kind: FaultKind::Idle,
            ..
        }
    );
    let timeout = attempt.request.idle_timeout.unwrap_or(Micros::MAX);
    is_stall && !attempt.lost && timeout > LONGEST_SILENCE
}

/// Names, arguments and results: what is the same for the engine is the same in the vector.
struct Names<'c> {
    context: &'c Context<'c>,
    settings: &'c UsageLimitsSettings,
    offered: Vec<ToolId>,
    names: ToolNames,
    signatures: Numbered<Signature>,
    digests: Numbered<Digest>,
    /// Tools of which calls are denied, by the name that these calls have in the vector.
    denied: BTreeMap<String, ToolId>,
}

impl<'c> Names<'c> {
    fn new(context: &'c Context<'c>, settings: &'c UsageLimitsSettings) -> Names<'c> {
        let mut names = context.prepared.names().clone();
        let terminal = settings.terminal_tool.as_ref();
        let offered = names.offered(terminal.map(|tool| tool.name.as_str()));
        Names {
            context,
            settings,
            offered,
            names,
            signatures: Numbered::new(),
            digests: Numbered::new(),
            denied: BTreeMap::new(),
        }
    }

    /// The tools that the run offers, and behind them the other names of denied calls.
    fn tools(&self) -> Vec<&str> {
        let offered = self.offered.iter().map(|tool| self.names.name(*tool));
        offered.chain(self.denied_tools()).collect()
    }

    fn denied_tools(&self) -> Vec<&str> {
        self.denied.keys().map(String::as_str).collect()
    }

    /// The call reaches a function when it runs.
    fn is_known(&self, call: &Call) -> bool {
        self.offered.contains(&call.tool)
    }

    fn attempt(&mut self, attempt: &Attempt) -> Value {
        let calls: Vec<Value> = attempt.calls.iter().map(|call| self.call(call)).collect();
        let told = attempt.told.unwrap_or_default();
        let mut entry = json!({"text": null, "calls": calls, "usage": usage(&told)});
        let gaps = self.gaps(attempt);
        match attempt.outcome {
            ReplyOutcome::Turn {
                text,
                finish,
                typed,
            } => {
                entry["text"] = json!(self.words(text, typed, attempt.calls.is_empty()));
                if finish == Finish::Length {
                    entry["finish"] = json!("max-tokens");
                }
            }
            ReplyOutcome::Fault { kind, .. } => {
                if attempt.told.is_none() {
                    entry["usage"] = Value::Null;
                }
                entry["fault"] = json!(fault(kind));
                if let FaultKind::RateLimit {
                    retry_after: Some(pause),
                } = kind
                {
                    entry["retryAfterMs"] = json!(pause.div_euclid(1000));
                }
            }
            ReplyOutcome::Overflow => entry["finish"] = json!("context-window-exceeded"),
        }
        if !gaps.is_empty() {
            entry["gapsMs"] = json!(gaps);
        }
        entry
    }

    /// Silences that add up to the attempt's latency, each shorter than the idle timeout. A stall is
    /// its own silence.
    fn gaps(&self, attempt: &Attempt) -> Vec<i64> {
        if let ReplyOutcome::Fault {
            kind: FaultKind::Idle,
            ..
        } = attempt.outcome
        {
            return Vec::new();
        }
        let timeout = attempt.request.idle_timeout.unwrap_or(Micros::MAX);
        let longest = (timeout / 1000 - 1).max(1);
        let mut left = attempt.span.millis();
        let mut gaps = Vec::new();
        while left > 0 {
            let gap = left.min(longest);
            gaps.push(gap);
            left -= gap;
        }
        gaps
    }

    fn words(&self, text: Text, typed: bool, alone: bool) -> Option<&'static str> {
        match text {
            Text::Absent => None,
            Text::Blank => Some(" "),
            Text::Content if self.settings.schema.is_some() && typed => {
                Some(r#"{"answer":"the final answer"}"#)
            }
            Text::Content if alone => Some("the final answer"),
            Text::Content => Some("thinking"),
        }
    }

    fn call(&mut self, call: &Call) -> Value {
        let tool = self.names.name(call.tool).to_owned();
        if call.terminal {
            return json!({"id": id(call), "name": tool, "args": {"result": "the final answer"}});
        }
        // A call without canonical form equals no other: its number is its own.
        let number = match call.canonical_signature {
            Some(signature) => format!("s{}", self.signatures.of(signature)),
            None => format!("call {}", call.id),
        };
        let name = if self.is_known(call) && self.context.script.is_denied(call) {
            let name = format!("{tool}.denied");
            self.denied.insert(name.clone(), call.tool);
            name
        } else {
            tool
        };
        json!({"id": id(call), "name": name, "args": {"q": number}})
    }

    fn tool_results(&mut self) -> Value {
        let script = self.context.script;
        let calls = script.attempts.iter().flat_map(|attempt| &attempt.calls);
        let mut results = Map::new();
        for call in calls {
            let Some(result) = script.result(call) else {
                continue;
            };
            let mut entry = match (result.status, result.digest) {
                (CallStatus::Succeeded, Some(digest)) => {
                    let number = self.digests.of(digest);
                    let value = if self.names.name(call.tool) == "record_evidence" {
                        json!({"recorded": result.recorded_evidence, "entry": number})
                    } else {
                        json!({ "page": number })
                    };
                    json!({ "value": value })
                }
                (CallStatus::Succeeded, None) => json!({ "value": null }),
                (CallStatus::Failed, _) => json!({ "error": "throw" }),
                (CallStatus::Denied, _) => continue,
            };
            let latency = script
                .latencies
                .get(&call.id)
                .map_or(0, |span| span.millis());
            if latency > 0 {
                entry["latencyMs"] = json!(latency);
            }
            results.insert(id(call), entry);
        }
        Value::Object(results)
    }
}

fn id(call: &Call) -> String {
    format!("c{}", call.id + 1)
}

/// Faults that no retry mends are `fatal`.
fn fault(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Transient => "transient",
        FaultKind::RateLimit { .. } => "rate-limit",
        FaultKind::Permanent | FaultKind::Protocol => "fatal",
        FaultKind::Idle => "stall",
        FaultKind::Cut | FaultKind::Severed => "cut",
    }
}

fn usage(usage: &Usage) -> Value {
    let mut fields = json!({"inputTokens": usage.input, "outputTokens": usage.output});
    if usage.cached > 0 {
        fields["cacheReadTokens"] = json!(usage.cached);
    }
    if usage.cache_write > 0 {
        fields["cacheWriteTokens"] = json!(usage.cache_write);
    }
    fields
}

/// A simulated process dies behind a model request, before anything of it is delivered, or behind a
/// tool execution, before its result is: the vectors' `in-model` and `in-call`.
fn kills(context: &Context<'_>, names: &Names<'_>) -> Vec<Value> {
    let script = context.script;
    let invocations = |until: usize| {
        let runs = script.runs[..=until].iter();
        runs.filter(|call| names.is_known(call)).count()
    };
    let kills = script.kills.iter().map(|kill| match kill.died {
        Died::Model { attempt } => json!({"at": "in-model", "n": attempt}),
        Died::Tool { run, .. } => json!({"at": "in-call", "n": invocations(run)}),
    });
    kills.collect()
}

/// How the simulation ended and how the script did, in the same words.
pub(super) fn compared(
    context: &Context<'_>,
    record: &RunRecord,
    played: &Value,
) -> (String, String) {
    let script = context.script;
    let status = match script.ending.map(|ending| ending.status) {
        Some(Status::Ok) => "ok",
        Some(Status::Limit) => "limit",
        Some(Status::Severed | Status::Cancelled) => "cancelled",
        Some(Status::Throws) => "throws",
        _ => "error",
    };
    let told_status = played["status"].as_str().unwrap_or_default();
    let segments = script.kills.len() + 1;
    let attempts = script.attempts.len();
    let executions = script.runs.len();
    let mut simulated =
        format!("{status}: {attempts} attempts, {executions} executions, {segments} segments");
    let mut told = format!(
        "{told_status}: {} attempts, {} executions, {} segments",
        played["modelCalls"], played["executedToolCalls"], played["segments"],
    );
    if status != "throws" {
        let cost = played["costUsd"]
            .as_f64()
            .and_then(Money::from_f64_rounded)
            .unwrap_or_default();
        simulated.push_str(&format!(
            ", {} turns, {} calls, USD {}",
            script.counters.steps, script.counters.tool_calls, record.ledger
        ));
        told.push_str(&format!(
            ", {} turns, {} calls, USD {cost}",
            played["turns"], played["toolCallsUsed"]
        ));
    }
    (simulated, told)
}
