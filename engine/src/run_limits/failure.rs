//! The record that a failed run leaves.

use serde::{Deserialize, Serialize};

use crate::protocol::Limiter;

/// What the reference stores about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class of the error.
    pub error_class: ErrorClass,
    /// Steps begun, where there were any.
    pub step_number: Option<i64>,
    /// The attempt of the step, for failures found inside a step. Hard limits have none, and neither
    /// has a batch that was rebuilt after a crash: attempts do not survive one.
    pub attempt_number: Option<u32>,
    /// The reserve that a tool turn broke ([`ErrorClass::SynthesisReserveViolation`]).
    pub synthesis_reserve: Option<Limiter>,
}

/// The classes of errors that end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorClass {
    /// A hard limit.
    BudgetExceededError,
    /// A tool call inside a synthesis reserve.
    SynthesisReserveViolation,
    /// The last attempt failed for a passing reason, or one did after it had produced output.
    ModelTransientError,
    /// The provider failed for good.
    ModelPermanentError,
    /// The provider broke the protocol.
    ModelProtocolError,
    /// Neither text nor calls, in the last attempt.
    EmptyModelTurn,
    /// The same call too often.
    ToolLoopDetected,
    /// The same denial too often.
    ToolPolicyDenied,
    /// A stored state that cannot be.
    InvalidStoredState,
}

impl ErrorClass {
    /// The name that failure records carry.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorClass::BudgetExceededError => "BudgetExceededError",
            ErrorClass::SynthesisReserveViolation => "SynthesisReserveViolation",
            ErrorClass::ModelTransientError => "ModelTransientError",
            ErrorClass::ModelPermanentError => "ModelPermanentError",
            ErrorClass::ModelProtocolError => "ModelProtocolError",
            ErrorClass::EmptyModelTurn => "EmptyModelTurn",
            ErrorClass::ToolLoopDetected => "ToolLoopDetected",
            ErrorClass::ToolPolicyDenied => "ToolPolicyDenied",
            ErrorClass::InvalidStoredState => "InvalidStoredState",
        }
    }
}
