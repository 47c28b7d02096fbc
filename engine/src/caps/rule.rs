//! The rules of `caps`, each with its comparison.

use serde::{Deserialize, Serialize};

/// A rule of `caps`. Where a rule compares, decisions carry its two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rule {
    /// Before a request: used against the cap on turns, model calls or time.
    CapReached,
    /// Before a call: spent against the cap on money or tokens.
    SpentBefore,
    /// After a call: spent against the cap on money or tokens.
    SpentAfter,
    /// Before tools run: tool turns or super-steps used against the cap.
    ToolStepCapReached,
    /// `reject`: executed and proposed calls together against the cap.
    BatchRejected,
    /// `trim`: executed calls and those admitted before this one against the cap.
    CallTrimmed,
    /// `run_all`: calls executed before the batch against the cap.
    BatchOutside,
    /// `run_all`: executed and proposed calls together against the cap.
    BatchCrossed,
    /// `final_turn`: the closing turn goes past the cap.
    FinalTurn,
    /// `final_turn_inside`: used against the cap; the next request is the last inside it.
    LastInside,
    /// The call passed every rule.
    Admitted,
    /// The permission policy denied the call.
    DeniedByPolicy,
    /// The run ended before the call.
    EndedBeforeCall,
    /// The closing turn ends the run; calls in it are not looked at.
    ClosingCallDropped,
    /// The attempt against the attempts of a turn: it is made again.
    AttemptRetried,
    /// The attempt against the attempts of a turn: it was the last.
    AttemptsSpent,
    /// A fault that no retry mends.
    NotRetryable,
    /// A turn without calls ends the run.
    Answered,
    /// Spent against the cap after an answer, which stands.
    AnsweredPastCap,
    /// Spent against the cap after an answer, which is discarded.
    AnswerDiscarded,
    /// The closing turn ends the run.
    ClosingTurnDone,
    /// `continue`: a turn cut at its output cap does not end the run.
    CutTurnContinues,
    /// `last_text`: an earlier text is delivered for a blank one.
    EarlierTextDelivered,
    /// The exhausted cap fails the run.
    EndsInError,
    /// The exhausted cap ends the run with its last text.
    EndsStopped,
    /// The exhausted cap ends the run with a fixed text.
    EndsCanned,
    /// Cancellation was requested.
    CancelRequested,
    /// The request did not fit the context window.
    ContextExceeded,
    /// The model refused to answer.
    ModelRefused,
}

impl Rule {
    /// One sentence that says what is compared with what.
    pub const fn describe(self) -> &'static str {
        match self {
            Rule::CapReached => "no request is made when used >= cap",
            Rule::SpentBefore => "no call is made when spent >= cap",
            Rule::SpentAfter => "the run does not go on when spent > cap after a call",
            Rule::ToolStepCapReached => "no tool of the turn runs when used >= cap",
            Rule::BatchRejected => "nothing of a batch runs when executed + proposed > cap",
            Rule::CallTrimmed => "a call does not run when executed + admitted before it >= cap",
            Rule::BatchOutside => "nothing of a batch runs when executed >= cap before it",
            Rule::BatchCrossed => "a batch runs whole although executed + proposed > cap",
            Rule::FinalTurn => "an exhausted cap grants one closing turn without tools",
            Rule::LastInside => "the last request inside a cap is made without tools",
            Rule::Admitted => "the call passed every rule",
            Rule::DeniedByPolicy => "the permission policy denied the call; it does not count",
            Rule::EndedBeforeCall => "the run ended before the call was looked at",
            Rule::ClosingCallDropped => "the closing turn ends the run; its calls are dropped",
            Rule::AttemptRetried => "a failed request is made again while attempt < attempts",
            Rule::AttemptsSpent => "the run fails when attempt >= attempts of a turn",
            Rule::NotRetryable => "the run fails on an error that no retry mends",
            Rule::Answered => "a turn without tool calls ends the run",
            Rule::AnsweredPastCap => "an answer stands although spent > cap after it",
            Rule::AnswerDiscarded => "an answer is discarded when spent > cap after it",
            Rule::ClosingTurnDone => "the closing turn ends the run whatever it brings",
            Rule::CutTurnContinues => "a turn cut at its output cap does not end the run",
            Rule::EarlierTextDelivered => {
                "the last text that was not blank stands in for a blank one"
            }
            Rule::EndsInError => "the exhausted cap fails the run",
            Rule::EndsStopped => "the exhausted cap ends the run with its last text, if any",
            Rule::EndsCanned => "the exhausted cap ends the run with a fixed text",
            Rule::CancelRequested => "the run was cancelled on request",
            Rule::ContextExceeded => "the request did not fit the context window",
            Rule::ModelRefused => "the model refused to answer",
        }
    }
}
