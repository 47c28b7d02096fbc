//! The limits object, with the field names of its owners.

use serde::{Deserialize, Serialize};

use crate::Money;
use crate::decimal::Decimal;

/// A count limit that nothing reaches.
pub const UNLIMITED: i64 = i64::MAX;

/// A limits object. `C` holds counts, `M` money: [`Limits`] is what the engine compares,
/// [`Declared`] what a file says, with numbers of any size.
///
/// There is no lower bound on a `max_*`: zero and negative limits are legal and refuse the first
/// operation (reference, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsOf<C, M> {
    /// Steps: turns of the model, whatever their number of attempts. Default 12.
    pub max_steps: C,
    /// Model calls: attempts, failed and empty ones included. Default 12.
    pub max_model_calls: C,
    /// Tool calls that were dispatched, whatever their result. Default 24.
    pub max_tool_calls: C,
    /// Input tokens over all model calls, cached ones included. Default: no limit.
    pub max_input_tokens: Option<C>,
    /// Output tokens over all model calls. Default: no limit.
    pub max_output_tokens: Option<C>,
    /// Cost of all model calls, in USD. Default: no limit.
    pub max_cost: Option<M>,
    /// Steps kept for the final answer. Default 0.
    pub synthesis_reserve_steps: C,
    /// Model calls kept for the final answer. Default 0.
    pub synthesis_reserve_model_calls: C,
    /// Tool calls kept: research ends when no more than these are left. Default 0.
    pub synthesis_reserve_tool_calls: C,
    /// Money kept for the final answer, in USD. Default 0.
    pub synthesis_reserve_cost: M,
}

/// Limits as the engine compares them: 64-bit counts and exact money.
pub type Limits = LimitsOf<i64, Money>;

/// Limits as they are declared: decimals of any size.
pub type Declared = LimitsOf<Decimal, Decimal>;

impl<C: From<i64>, M: Default> Default for LimitsOf<C, M> {
    /// The production defaults: 12 steps, 12 model calls, 24 tool calls, nothing else limited and
    /// nothing reserved.
    fn default() -> LimitsOf<C, M> {
        LimitsOf {
            max_steps: C::from(12),
            max_model_calls: C::from(12),
            max_tool_calls: C::from(24),
            max_input_tokens: None,
            max_output_tokens: None,
            max_cost: None,
            synthesis_reserve_steps: C::from(0),
            synthesis_reserve_model_calls: C::from(0),
            synthesis_reserve_tool_calls: C::from(0),
            synthesis_reserve_cost: M::default(),
        }
    }
}

/// The fields of a limits object, in the order in which the reference reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// `max_steps`
    MaxSteps,
    /// `max_model_calls`
    MaxModelCalls,
    /// `max_tool_calls`
    MaxToolCalls,
    /// `max_input_tokens`
    MaxInputTokens,
    /// `max_output_tokens`
    MaxOutputTokens,
    /// `max_cost`
    MaxCost,
    /// `deadline_at`: a point in time, which the reference keeps beside the limits.
    DeadlineAt,
    /// `synthesis_reserve_steps`
    SynthesisReserveSteps,
    /// `synthesis_reserve_model_calls`
    SynthesisReserveModelCalls,
    /// `synthesis_reserve_tool_calls`
    SynthesisReserveToolCalls,
    /// `synthesis_reserve_cost`
    SynthesisReserveCost,
}

impl Field {
    /// All fields, in the order in which the reference reports them.
    pub const ALL: [Field; 11] = [
        Field::MaxSteps,
        Field::MaxModelCalls,
        Field::MaxToolCalls,
        Field::MaxInputTokens,
        Field::MaxOutputTokens,
        Field::MaxCost,
        Field::DeadlineAt,
        Field::SynthesisReserveSteps,
        Field::SynthesisReserveModelCalls,
        Field::SynthesisReserveToolCalls,
        Field::SynthesisReserveCost,
    ];

    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Field::MaxSteps => "max_steps",
            Field::MaxModelCalls => "max_model_calls",
            Field::MaxToolCalls => "max_tool_calls",
            Field::MaxInputTokens => "max_input_tokens",
            Field::MaxOutputTokens => "max_output_tokens",
            Field::MaxCost => "max_cost",
            Field::DeadlineAt => "deadline_at",
            Field::SynthesisReserveSteps => "synthesis_reserve_steps",
            Field::SynthesisReserveModelCalls => "synthesis_reserve_model_calls",
            Field::SynthesisReserveToolCalls => "synthesis_reserve_tool_calls",
            Field::SynthesisReserveCost => "synthesis_reserve_cost",
        }
    }
}
