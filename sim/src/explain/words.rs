//! The protocol's terms in the words of the timeline.

use holdback_engine::protocol::{
    CallStatus, CheckpointKind, Counted, FaultKind, Finish, Instruction, JournalEntry, Notice,
    Output, Quantity, Rule, Status, Text, Tools, Verdict,
};
use holdback_engine::{Money, protocol::Micros};

use super::event::{Amount, Message, Numbers};
use crate::world::ReplyOutcome;

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Executed => "executed",
        Verdict::Refused => "refused",
        Verdict::Denied => "denied",
        Verdict::Skipped => "skipped",
        Verdict::Unanswered => "unanswered",
        Verdict::Violation => "violation",
        Verdict::Loop => "loop",
        Verdict::Dropped => "dropped",
        Verdict::Cancelled => "cancelled",
        Verdict::TerminalAdmitted => "terminal_admitted",
        Verdict::TerminalAccepted => "terminal_accepted",
        Verdict::TerminalRejected => "terminal_rejected",
        Verdict::Blocked => "blocked",
        Verdict::Exceeded => "exceeded",
        Verdict::Announced => "announced",
        Verdict::Granted => "granted",
        Verdict::NotGranted => "not_granted",
        Verdict::Entered => "entered",
        Verdict::SummarySkipped => "summary_skipped",
        Verdict::SummaryFailed => "summary_failed",
        Verdict::DrainedSkipped => "drained_skipped",
        Verdict::DrainedSpent => "drained_spent",
        Verdict::Clamped => "clamped",
        Verdict::Retried => "retried",
        Verdict::Ended => "ended",
        Verdict::Warned => "warned",
    }
}

/// The rule by family and name: `run_limits.cost_reserve`.
pub(super) fn rule(rule: Rule) -> String {
    let (family, name) = match rule {
        Rule::RunLimits(rule) => ("run_limits", format!("{rule:?}")),
        Rule::UsageLimits(rule) => ("usage_limits", format!("{rule:?}")),
        Rule::Caps(rule) => ("caps", format!("{rule:?}")),
    };
    format!("{family}.{}", snake_case(&name))
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// What is left of an unlimited count is unlimited too: no run uses up so much.
const BEYOND_ANY_RUN: i64 = i64::MAX / 2;

pub(super) fn amount(quantity: Quantity) -> Amount {
    match quantity {
        Quantity::None => Amount::None,
        Quantity::Count(count) if count > BEYOND_ANY_RUN => Amount::Unlimited,
        Quantity::Count(count) => Amount::Count(count),
        Quantity::Money(money) if money >= Money::MAX => Amount::Unlimited,
        Quantity::Money(money) => Amount::Money(money),
        Quantity::Usd(usd) => Amount::Usd(usd),
        Quantity::Micros(Micros::MAX) => Amount::Unlimited,
        Quantity::Micros(time) => Amount::Time(time),
    }
}

pub(super) fn tools(tools: Tools) -> &'static str {
    match tools {
        Tools::All => "all",
        Tools::Withheld => "withheld",
        Tools::Absent => "absent",
        Tools::WindowOnly => "window_only",
    }
}

pub(super) fn fault(kind: FaultKind, produced_output: bool) -> &'static str {
    match kind {
        FaultKind::Transient if produced_output => "transient_after_output",
        FaultKind::Transient => "transient",
        FaultKind::RateLimit { .. } => "rate_limit",
        FaultKind::Permanent => "permanent",
        FaultKind::Protocol => "protocol",
        FaultKind::Idle => "stall",
        FaultKind::Cut => "cut_stream",
        FaultKind::Severed => "severed",
    }
}

/// How an attempt ended, and in which fault.
pub(super) fn ended(
    outcome: &ReplyOutcome,
    calls: usize,
    terminal: bool,
) -> (&'static str, Option<&'static str>) {
    match outcome {
        ReplyOutcome::Fault {
            kind,
            produced_output,
        } => ("fault", Some(fault(*kind, *produced_output))),
        ReplyOutcome::Overflow => ("context_overflow", None),
        ReplyOutcome::Turn {
            finish: Finish::Length,
            ..
        } => ("cut", None),
        ReplyOutcome::Turn { .. } if terminal => ("answer", None),
        ReplyOutcome::Turn { .. } if calls > 0 => ("calls", None),
        ReplyOutcome::Turn { text, .. } => match text {
            Text::Content => ("answer", None),
            Text::Blank => ("blank", None),
            Text::Absent => ("empty", None),
        },
    }
}

pub(super) fn call_status(status: CallStatus) -> &'static str {
    match status {
        CallStatus::Succeeded => "succeeded",
        CallStatus::Failed => "failed",
        CallStatus::Denied => "denied",
    }
}

pub(super) fn counted(counted: Counted) -> &'static str {
    match counted {
        Counted::Step => "step",
        Counted::Model => "model",
        Counted::Tools => "tools",
    }
}

pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
        Status::Ok => "ok",
        Status::Limit => "limit",
        Status::Error => "error",
        Status::Severed => "severed",
        Status::Throws => "throws",
        Status::Stopped => "stopped",
        Status::Canned => "canned",
    }
}

pub(super) fn output(output: Output) -> &'static str {
    match output {
        Output::None => "none",
        Output::TurnText => "turn_text",
        Output::Terminal { .. } => "terminal",
        Output::LastText => "last_text",
        Output::Canned => "canned",
    }
}

fn message(
    kind: &'static str,
    limiter: Option<holdback_engine::protocol::Limiter>,
    numbers: &[(&'static str, u64)],
) -> Message {
    Message {
        kind,
        limiter: limiter.map(holdback_engine::protocol::Limiter::as_str),
        numbers: Numbers(numbers.to_vec()),
    }
}

/// The numbers, and behind them one that may be absent.
fn with(
    numbers: &[(&'static str, u64)],
    name: &'static str,
    more: Option<u64>,
) -> Vec<(&'static str, u64)> {
    let more = more.map(|number| (name, number));
    numbers.iter().copied().chain(more).collect()
}

pub(super) fn instruction(instruction: &Instruction) -> Message {
    match *instruction {
        Instruction::SynthesisOnly(limiter) => message("synthesis_only", Some(limiter), &[]),
        Instruction::FinalTurn(limiter) => message("final_turn", Some(limiter), &[]),
        Instruction::ReserveSummary {
            limiter,
            used,
            cap,
            skipped,
        } => message(
            "reserve_summary",
            Some(limiter),
            &[("used", used), ("cap", cap), ("skipped", skipped.into())],
        ),
        Instruction::Drained { tools_ride } => {
            message("drained", None, &[("tools_ride", tools_ride.into())])
        }
    }
}

pub(super) fn notice(notice: &Notice) -> Message {
    match *notice {
        Notice::Budget {
            used,
            max,
            remaining,
            at_50,
            at_80,
        } => {
            let threshold = match (at_50, at_80) {
                (_, true) => Some(80),
                (true, false) => Some(50),
                (false, false) => None,
            };
            let numbers = [("used", used), ("max", max), ("remaining", remaining)];
            message("budget", None, &with(&numbers, "threshold", threshold))
        }
        Notice::Extension {
            grant,
            max_grants,
            used,
            cap,
            remaining,
            deficit,
        } => {
            let numbers = [
                ("grant", grant),
                ("max_grants", max_grants),
                ("used", used),
                ("cap", cap),
                ("remaining", remaining),
            ];
            message("extension", None, &with(&numbers, "deficit", deficit))
        }
        Notice::Window {
            remaining,
            reserve,
            dimension,
            deficit,
        } => {
            let numbers = [("remaining", remaining), ("reserve", reserve)];
            message(
                "window",
                Some(dimension),
                &with(&numbers, "deficit", deficit),
            )
        }
        Notice::TerminalReprompt { cut } => {
            message("terminal_reprompt", None, &[("cut", cut.into())])
        }
        Notice::SchemaReprompt { attempt, max } => message(
            "schema_reprompt",
            None,
            &[("attempt", attempt), ("max", max)],
        ),
    }
}

pub(super) fn journal(entry: &JournalEntry) -> Message {
    match *entry {
        JournalEntry::Grant {
            ordinal,
            cap,
            trigger,
        } => message("grant", Some(trigger), &[("grant", ordinal), ("cap", cap)]),
        JournalEntry::Window {
            remaining,
            reserve,
            dimension,
            widened,
        } => {
            let mut numbers = vec![("remaining", remaining), ("reserve", reserve)];
            if let Some((deficit, min_entries)) = widened {
                numbers.extend([("deficit", deficit), ("min_entries", min_entries)]);
            }
            message("window", Some(dimension), &numbers)
        }
    }
}

pub(super) fn checkpoint(kind: CheckpointKind) -> Message {
    let plain = |kind| message(kind, None, &[]);
    match kind {
        CheckpointKind::Seed => plain("seed"),
        CheckpointKind::ModelResponse => plain("model_response"),
        CheckpointKind::ToolPending => plain("tool_pending"),
        CheckpointKind::ToolCall => plain("tool_call"),
        CheckpointKind::ToolRecovered => plain("tool_recovered"),
        CheckpointKind::Terminal => plain("terminal"),
        CheckpointKind::Boundary => plain("boundary"),
        CheckpointKind::Turn => plain("turn"),
        CheckpointKind::MidBatch {
            executed,
            remaining,
            ..
        } => message(
            "mid_batch",
            None,
            &[
                ("executed", executed.into()),
                ("remaining", remaining.into()),
            ],
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdback_engine::{run_limits, usage_limits};

    #[test]
    fn rules_are_named_after_their_family_and_themselves() {
        assert_eq!(
            rule(Rule::RunLimits(run_limits::Rule::CostReserve)),
            "run_limits.cost_reserve"
        );
        assert_eq!(
            rule(Rule::UsageLimits(usage_limits::Rule::NoNewEvidence)),
            "usage_limits.no_new_evidence"
        );
    }

    #[test]
    fn a_limit_that_nothing_reaches_is_no_number() {
        assert_eq!(amount(Quantity::Count(i64::MAX)), Amount::Unlimited);
        assert_eq!(amount(Quantity::Count(i64::MAX - 41)), Amount::Unlimited);
        assert_eq!(amount(Quantity::Money(Money::MAX)), Amount::Unlimited);
        assert_eq!(amount(Quantity::Count(3)), Amount::Count(3));
    }
}
