//! The tools of the recorded runs, and the conversion of the script into the protocol's terms.

use std::collections::BTreeMap;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Call, CallResult, CallStatus, Fault, FaultKind, Finish, Text, ToolId, Usage,
};
use holdback_engine::signature;

use super::case::{Attempt, Case, ScriptedCall, ScriptedFault, Stop, ToolResult, ToolStatus};

/// The tools that the recorder's callers knew. A known tool that lacks nothing may run beside
/// others; all others are denied by policy.
const CALCULATOR: &str = "math.calculate";
const WRITER: &str = "workspace.write_text";

/// The script of a case, with an engine's number for each call.
pub(super) struct World<'a> {
    case: &'a Case,
    /// The calls of the script in order; the position is the call's number.
    calls: Vec<&'a ScriptedCall>,
    /// The number of the first call of each attempt.
    first_call: Vec<u32>,
    tools: BTreeMap<&'a str, ToolId>,
}

impl<'a> World<'a> {
    pub(super) fn new(case: &'a Case) -> World<'a> {
        let mut calls = Vec::new();
        let mut first_call = Vec::new();
        let mut tools = BTreeMap::new();
        for attempt in &case.script {
            first_call.push(calls.len() as u32);
            for call in &attempt.calls {
                let next = ToolId(tools.len() as u16);
                tools.entry(call.name.as_str()).or_insert(next);
                calls.push(call);
            }
        }
        World {
            case,
            calls,
            first_call,
            tools,
        }
    }

    /// The call with this number.
    pub(super) fn scripted(&self, call: &Call) -> &'a ScriptedCall {
        self.calls[call.id as usize]
    }

    /// All calls of the script.
    pub(super) fn calls(&self) -> &[&'a ScriptedCall] {
        &self.calls
    }

    /// The calls of the script's attempt `index` as the engine sees them.
    pub(super) fn proposed(&self, index: usize) -> Vec<Call> {
        let first = self.first_call[index];
        let calls = &self.case.script[index].calls;
        (first..)
            .zip(calls)
            .map(|(id, call)| self.call(id, call))
            .collect()
    }

    fn call(&self, id: u32, call: &ScriptedCall) -> Call {
        let reason = denial_reason(&call.name).unwrap_or_default();
        Call {
            id,
            tool: self.tools[call.name.as_str()],
            raw_signature: signature::raw(&call.name, &call.args),
            canonical_signature: None,
            denial_key: signature::denial(&call.name, &call.args, reason),
            denied: denial_reason(&call.name).is_some(),
            parallel: call.name == CALCULATOR,
            terminal: false,
        }
    }

    /// What the tool returns. A call that the case has no result for succeeds.
    pub(super) fn result(&self, call: &Call) -> ToolResult {
        let id = &self.scripted(call).id;
        self.case
            .tool_results
            .get(id)
            .copied()
            .unwrap_or(ToolResult {
                status: ToolStatus::Succeeded,
                latency: 0,
            })
    }

    /// The outcome of a finished call is stored and replayed after a crash; a denied call leaves
    /// none and is denied again.
    pub(super) fn stores_outcome(&self, call: &Call) -> bool {
        !call.denied
    }
}

/// The result as the engine sees it.
pub(super) fn call_result(result: ToolResult) -> CallResult {
    CallResult {
        status: match result.status {
            ToolStatus::Succeeded => CallStatus::Succeeded,
            ToolStatus::Failed => CallStatus::Failed,
            ToolStatus::Denied => CallStatus::Denied,
        },
        digest: None,
        recorded_evidence: false,
        cost: Money::ZERO,
    }
}

/// The code that a result that did not succeed carries.
pub(super) fn reason_code(call: &ScriptedCall, status: ToolStatus) -> Option<&'static str> {
    match status {
        ToolStatus::Succeeded => None,
        ToolStatus::Denied => denial_reason(&call.name),
        ToolStatus::Failed if has_expression(&call.args) => {
            Some("tool.invalid_arguments.division_by_zero")
        }
        ToolStatus::Failed => Some("tool.arguments_invalid"),
    }
}

fn denial_reason(tool: &str) -> Option<&'static str> {
    match tool {
        CALCULATOR => None,
        WRITER => Some("policy.scope.missing"),
        _ => Some("policy.matrix.unknown_tool"),
    }
}

/// The calculator's arguments are valid when they hold an expression; what then fails is the
/// division.
fn has_expression(args: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(args).is_ok_and(|args| {
        args.get("expression")
            .is_some_and(serde_json::Value::is_string)
    })
}

impl Attempt {
    pub(super) fn text_kind(&self) -> Text {
        match self.text.as_deref() {
            None | Some("") => Text::Absent,
            Some(text) if text.trim().is_empty() => Text::Blank,
            Some(_) => Text::Content,
        }
    }

    pub(super) fn finish(&self) -> Finish {
        match self.stop {
            Some(Stop::Cancelled) => Finish::Cancelled,
            None => Finish::Stop,
        }
    }

    pub(super) fn reported_usage(&self) -> Option<Usage> {
        self.usage.map(|usage| Usage {
            input: usage.input_tokens,
            cached: usage.cached_input_tokens,
            cache_write: usage.cache_write_input_tokens,
            output: usage.output_tokens,
            reasoning: usage.reasoning_tokens,
        })
    }

    /// Usage that is not reported costs nothing.
    pub(super) fn reported_cost(&self) -> Money {
        if self.usage.is_some() {
            self.cost
        } else {
            Money::ZERO
        }
    }

    /// How the provider failed, if it did.
    pub(super) fn provider_fault(&self) -> Option<Fault> {
        let kind = match self.fault? {
            ScriptedFault::Empty => return None,
            ScriptedFault::Transient | ScriptedFault::TransientAfterOutput => FaultKind::Transient,
            ScriptedFault::Permanent => FaultKind::Permanent,
            ScriptedFault::Protocol => FaultKind::Protocol,
        };
        Some(Fault {
            kind,
            produced_output: self.fault == Some(ScriptedFault::TransientAfterOutput),
            usage: self.reported_usage(),
            cost: self.reported_cost(),
        })
    }
}
