//! What can be capped.

use serde::{Deserialize, Serialize};

use super::Rule;
use crate::Money;
use crate::protocol::{Decision, Limiter, Quantity, Reason, Verdict};

/// A dimension with a cap of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// `max_time_s`.
    Time,
    /// `max_turns`.
    Turns,
    /// `max_model_calls`.
    ModelCalls,
    /// `max_cost_usd`.
    Cost,
    /// `max_input_tokens`.
    InputTokens,
    /// `max_output_tokens`.
    OutputTokens,
    /// `max_total_tokens`.
    TotalTokens,
    /// `max_tool_calls`.
    ToolCalls,
    /// `max_calls_per_tool`.
    CallsPerTool,
}

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = 9;

    /// All of them, in the order in which they are compared.
    pub const ALL: [Dimension; Dimension::COUNT] = [
        Dimension::Time,
        Dimension::Turns,
        Dimension::ModelCalls,
        Dimension::Cost,
        Dimension::InputTokens,
        Dimension::OutputTokens,
        Dimension::TotalTokens,
        Dimension::ToolCalls,
        Dimension::CallsPerTool,
    ];

    /// Those compared before a request.
    pub(super) const BEFORE_A_REQUEST: [Dimension; 7] = [
        Dimension::Time,
        Dimension::Turns,
        Dimension::ModelCalls,
        Dimension::Cost,
        Dimension::InputTokens,
        Dimension::OutputTokens,
        Dimension::TotalTokens,
    ];

    /// Those that [`super::Check`] applies to.
    pub(super) const SPENT: [Dimension; 4] = [
        Dimension::Cost,
        Dimension::InputTokens,
        Dimension::OutputTokens,
        Dimension::TotalTokens,
    ];

    /// Its word in the tables `check` and `on_exhausted`.
    pub const fn as_str(self) -> &'static str {
        self.limiter().as_str()
    }

    /// The field of [`super::Limits`] that caps it.
    pub const fn field(self) -> &'static str {
        match self {
            Dimension::Time => "max_time_s",
            Dimension::Turns => "max_turns",
            Dimension::ModelCalls => "max_model_calls",
            Dimension::Cost => "max_cost_usd",
            Dimension::InputTokens => "max_input_tokens",
            Dimension::OutputTokens => "max_output_tokens",
            Dimension::TotalTokens => "max_total_tokens",
            Dimension::ToolCalls => "max_tool_calls",
            Dimension::CallsPerTool => "max_calls_per_tool",
        }
    }

    /// True for money and tokens.
    pub const fn is_spent(self) -> bool {
        matches!(
            self,
            Dimension::Cost
                | Dimension::InputTokens
                | Dimension::OutputTokens
                | Dimension::TotalTokens
        )
    }

    /// The limiter named in decisions and endings.
    pub const fn limiter(self) -> Limiter {
        match self {
            Dimension::Time => Limiter::Time,
            Dimension::Turns => Limiter::Turns,
            Dimension::ModelCalls => Limiter::ModelCalls,
            Dimension::Cost => Limiter::Cost,
            Dimension::InputTokens => Limiter::InputTokens,
            Dimension::OutputTokens => Limiter::OutputTokens,
            Dimension::TotalTokens => Limiter::TotalTokens,
            Dimension::ToolCalls => Limiter::ToolCalls,
            Dimension::CallsPerTool => Limiter::CallsPerTool,
        }
    }

    /// The reason of a run that it ends.
    pub const fn reason(self) -> Reason {
        match self {
            Dimension::Time => Reason::Timeout,
            Dimension::Turns => Reason::MaxTurns,
            Dimension::ModelCalls => Reason::MaxModelCalls,
            Dimension::Cost => Reason::MaxCost,
            Dimension::InputTokens => Reason::MaxInputTokens,
            Dimension::OutputTokens => Reason::MaxOutputTokens,
            Dimension::TotalTokens => Reason::MaxTotalTokens,
            Dimension::ToolCalls => Reason::MaxToolCalls,
            Dimension::CallsPerTool => Reason::MaxCallsPerTool,
        }
    }

    /// An amount of it (a count, picodollars, microseconds) as decisions show it.
    pub(super) fn quantity(self, amount: i128) -> Quantity {
        let clamped = || i64::try_from(amount).unwrap_or(i64::MAX);
        match self {
            Dimension::Cost => Quantity::Money(Money::from_picos(amount)),
            Dimension::Time => Quantity::Micros(clamped()),
            _ => Quantity::Count(clamped()),
        }
    }

    /// A decision on this dimension that compares two amounts of it.
    pub(super) fn compared(
        self,
        verdict: Verdict,
        rule: Rule,
        left: i128,
        cap: Option<i128>,
    ) -> Decision {
        Decision {
            verdict,
            limiter: self.limiter(),
            rule: crate::protocol::Rule::Caps(rule),
            left: self.quantity(left),
            right: cap.map_or(Quantity::None, |cap| self.quantity(cap)),
            call: None,
        }
    }
}
