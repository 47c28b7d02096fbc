//! The result of a case in the words of the vectors.

use holdback_engine::protocol::{Ending, Limiter, Micros, Notice, Output, Reason, Status, Usage};
use holdback_engine::usage_limits::{Expiry, Exploration, Report};
use serde_json::{Map, Value, json};

use super::case::typed_value;
use super::world::World;

/// How a case ended.
pub(super) struct Outcome<'a> {
    pub(super) ending: Ending,
    pub(super) report: Report<'a>,
    pub(super) clock: Micros,
    /// The result of the accepted terminal call.
    pub(super) accepted: Option<Value>,
    pub(super) names: &'a [String],
}

impl Outcome<'_> {
    /// What `expect` holds.
    pub(super) fn to_json(&self, world: &World<'_>, has_reserve: bool) -> Value {
        if self.ending.status == Status::Throws {
            return json!({
                "status": "throws",
                "errorName": "ConfigError",
                "modelCalls": world.counts.model_calls,
                "executedToolCalls": world.counts.executions,
                "segments": world.counts.segments,
                "trace": world.trace,
            });
        }
        let report = &self.report;
        let limiter = report.expiry.map(|expiry| limiter_name(expiry.limiter));
        let abort_class = abort_class(self.ending.reason);
        let cause = (self.ending.status == Status::Limit).then(|| {
            abort_class
                .or(limiter)
                .unwrap_or(between_turns(self.ending.reason))
        });
        json!({
            "status": status_name(self.ending.status),
            "limiter": limiter,
            "abortClass": abort_class,
            "limitCause": cause,
            "error": self.error(has_reserve),
            "detail": report.expiry.filter(|_| has_reserve).map(detail),
            "output": self.output(world),
            "turns": report.turns,
            "modelCalls": world.counts.model_calls,
            "segments": world.counts.segments,
            "toolCallsUsed": report.tool_calls,
            "executedToolCalls": world.counts.executions,
            "toolUnitsUsed": report.tool_units,
            "extensionGrants": report.grants,
            "effectiveMaxToolCalls": report.max_tool_calls,
            "noticesFired": told(report),
            "reserveUsed": report.summary_used,
            "windowEntered": report.window_entered,
            "exploration": report.exploration.as_ref().map(|counters| self.exploration(counters)),
            "evidence": report.evidence.map(|(recorded, min_entries)| json!({
                "recordedEntries": recorded,
                "minEntries": min_entries,
                "met": recorded >= min_entries,
            })),
            "usage": usage_json(&report.usage),
            "costUsd": report.cost_usd,
            "spentUsd": report.spent_usd,
            "transportRetries": report.transport_retries,
            "clockMs": self.clock / 1000,
            "trace": world.trace,
        })
    }

    fn error(&self, has_reserve: bool) -> Value {
        let error = |kind: &str, retryable: bool| json!({ "kind": kind, "retryable": retryable });
        let with_reason =
            |reason: &str| json!({ "kind": "budget", "retryable": false, "reason": reason });
        match self.ending.reason {
            Reason::MaxToolCalls | Reason::ToolUnits if has_reserve => error("terminal", false),
            Reason::NoProgress
            | Reason::Exploration
            | Reason::OutputTruncated
            | Reason::EvidenceFloor
            | Reason::Refusal
            | Reason::ContextOverflow
            | Reason::Terminal => error("terminal", false),
            Reason::Budget | Reason::Exposure => error("budget", false),
            Reason::OutputFloor => with_reason("output-floor"),
            Reason::ExposureDrained => with_reason("exposure-drained"),
            Reason::Transport => error("transport", true),
            Reason::RateLimit => error("rate-limit", true),
            Reason::SchemaMismatch => error("schema-mismatch", false),
            _ => Value::Null,
        }
    }

    fn output(&self, world: &World<'_>) -> Value {
        let text = world.last_text.as_deref().unwrap_or_default();
        match self.ending.output {
            Output::Terminal { .. } => self.accepted.clone().unwrap_or(Value::Null),
            Output::TurnText if world.case.schema => typed_value(text).unwrap_or(Value::Null),
            Output::TurnText => json!(text),
            Output::None | Output::LastText | Output::Canned => Value::Null,
        }
    }

    fn exploration(&self, counters: &Exploration<'_>) -> Value {
        let by_tool: Map<String, Value> = self
            .names
            .iter()
            .zip(counters.by_tool)
            .filter(|(_, count)| **count > 0)
            .map(|(name, count)| (name.clone(), json!(count)))
            .collect();
        let mut fields = json!({
            "distinctSignatures": counters.distinct_signatures,
            "repeatedCalls": counters.repeated_calls,
            "duplicateResultCalls": counters.duplicate_results,
            "deniedRepeats": counters.denied_repeats,
            "byTool": by_tool,
        });
        if let Some(denied) = counters.denied_by_tool_cap {
            fields["deniedToolCap"] = json!(denied);
        }
        if let Some(units) = counters.units {
            fields["toolUnitsUsed"] = json!(units);
        }
        fields
    }
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Limit => "limit",
        Status::Severed | Status::Cancelled => "cancelled",
        _ => "error",
    }
}

fn abort_class(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::NoProgress => Some("no-progress"),
        Reason::Exploration => Some("exploration"),
        Reason::OutputTruncated => Some("output-truncated"),
        _ => None,
    }
}

fn between_turns(reason: Reason) -> &'static str {
    if reason == Reason::Timeout {
        "timeoutMs"
    } else {
        "maxTurns"
    }
}

pub(super) fn limiter_name(limiter: Limiter) -> &'static str {
    if limiter == Limiter::ToolUnits {
        "toolUnits"
    } else {
        "maxToolCalls"
    }
}

pub(super) fn dimension_name(dimension: Limiter) -> &'static str {
    match dimension {
        Limiter::ToolUnits => "units",
        Limiter::Turns => "turns",
        _ => "calls",
    }
}

fn detail(expiry: Expiry) -> Value {
    json!({
        "limiter": limiter_name(expiry.limiter),
        "used": expiry.used,
        "cap": expiry.cap,
        "skipped": expiry.skipped,
    })
}

fn told(report: &Report<'_>) -> Vec<u32> {
    [(report.notice_50, 50), (report.notice_80, 80)]
        .into_iter()
        .filter_map(|(told, threshold)| told.then_some(threshold))
        .collect()
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "cacheReadTokens": usage.cached,
        "cacheWriteTokens": usage.cache_write,
    })
}

/// A message that joins the conversation, as the trace classifies it.
pub(super) fn notice_json(notice: &Notice, min_entries: u64) -> Value {
    match *notice {
        Notice::Budget {
            used,
            max,
            remaining,
            at_50,
            at_80,
        } => {
            let thresholds: Vec<u32> = [(at_50, 50), (at_80, 80)]
                .into_iter()
                .filter_map(|(told, threshold)| told.then_some(threshold))
                .collect();
            json!({
                "kind": "budget",
                "used": used,
                "max": max,
                "remaining": remaining,
                "thresholds": thresholds,
            })
        }
        Notice::Extension {
            grant,
            max_grants,
            used,
            cap,
            remaining,
            deficit,
        } => with_member(
            json!({
                "kind": "extension",
                "grant": grant,
                "maxGrants": max_grants,
                "used": used,
                "cap": cap,
                "remaining": remaining,
            }),
            deficit.map(|deficit| {
                json!({
                    "recorded": min_entries.saturating_sub(deficit),
                    "minEntries": min_entries,
                })
            }),
        ),
        Notice::Window {
            remaining,
            reserve,
            dimension,
            deficit,
        } => with_member(
            json!({
                "kind": "window",
                "remaining": remaining,
                "reserve": reserve,
                "dimension": dimension_name(dimension),
            }),
            deficit.map(|deficit| json!(deficit)),
        ),
        Notice::TerminalReprompt { cut } => json!({ "kind": "terminal-reprompt", "cut": cut }),
        Notice::SchemaReprompt { attempt, max } => {
            json!({ "kind": "schema-reprompt", "attempt": attempt, "max": max })
        }
    }
}

fn with_member(mut notice: Value, deficit: Option<Value>) -> Value {
    if let Some(deficit) = deficit {
        notice["deficit"] = deficit;
    }
    notice
}
