//! The outcome of a run, judged from what the engine says and from the text that was delivered.

use holdback_engine::protocol::{Ending, Output, Reason, Status, Text};

use crate::tally::{Cause, Outcome};

/// The texts of the run so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LastText {
    /// Text of the latest turn.
    text: Text,
    /// It was cut by an output cap.
    cut: bool,
    /// It stands without calls.
    alone: bool,
    /// The latest text that was not blank was cut.
    last_content_cut: Option<bool>,
}

impl LastText {
    /// A turn was completed.
    pub(super) fn turn(&mut self, text: Text, cut: bool, with_calls: bool) {
        self.text = text;
        self.cut = cut;
        self.alone = !with_calls;
        if text == Text::Content {
            self.last_content_cut = Some(cut);
        }
    }

    /// The latest turn is a whole text without calls.
    pub(super) fn is_answer(&self) -> bool {
        self.alone && self.text == Text::Content && !self.cut
    }
}

/// What a run delivers.
enum Delivered {
    Nothing,
    Blank,
    Whole,
    Cut,
}

/// Judges a run (design section 4): `answered` needs the family's own good ending and a text or
/// terminal result that is neither blank nor cut; any other text that is not blank is `partial`.
pub(super) fn judge(
    ending: &Ending,
    text: &LastText,
    overflowed: bool,
    recorded_without_answer: bool,
) -> (Outcome, Cause) {
    if recorded_without_answer {
        return (Outcome::Unanswered, Cause::RecordedWithoutAnswer);
    }
    let cause = match ending.reason {
        Reason::ModelPermanentError | Reason::ModelError if overflowed => {
            Cause::Engine(Reason::ContextOverflow)
        }
        reason => Cause::Engine(reason),
    };
    let delivered = match ending.output {
        Output::Canned => return (Outcome::Unanswered, Cause::Canned),
        Output::None => Delivered::Nothing,
        Output::Terminal { .. } => Delivered::Whole,
        Output::TurnText => match text.text {
            Text::Content if text.cut => Delivered::Cut,
            Text::Content => Delivered::Whole,
            Text::Blank | Text::Absent => Delivered::Blank,
        },
        Output::LastText => match text.last_content_cut {
            Some(true) => Delivered::Cut,
            Some(false) => Delivered::Whole,
            None => Delivered::Nothing,
        },
    };
    let good = matches!(ending.status, Status::Completed | Status::Ok);
    match delivered {
        Delivered::Whole if good => (Outcome::Answered, Cause::Engine(Reason::Completed)),
        Delivered::Whole => (Outcome::Partial, cause),
        Delivered::Cut => (Outcome::Partial, Cause::Truncated),
        Delivered::Blank | Delivered::Nothing if good => (Outcome::Unanswered, Cause::EmptyAnswer),
        Delivered::Blank | Delivered::Nothing => (Outcome::Unanswered, cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(status: Status, reason: Reason, output: Output) -> Ending {
        Ending {
            status,
            reason,
            limiter: None,
            output,
        }
    }

    fn after(text: Text, cut: bool) -> LastText {
        let mut last = LastText::default();
        last.turn(text, cut, false);
        last
    }

    #[test]
    fn only_a_whole_text_of_a_good_ending_is_an_answer() {
        let good = ending(Status::Ok, Reason::Completed, Output::TurnText);
        let judged = |text, cut| judge(&good, &after(text, cut), false, false);
        assert_eq!(judged(Text::Content, false).0, Outcome::Answered);
        assert_eq!(
            judged(Text::Content, true),
            (Outcome::Partial, Cause::Truncated)
        );
        assert_eq!(
            judged(Text::Blank, false),
            (Outcome::Unanswered, Cause::EmptyAnswer)
        );
        assert_eq!(
            judged(Text::Absent, false),
            (Outcome::Unanswered, Cause::EmptyAnswer)
        );
    }

    #[test]
    fn text_delivered_at_a_limit_is_partial_and_a_canned_text_is_no_answer() {
        let limit = ending(Status::Limit, Reason::MaxToolCalls, Output::TurnText);
        assert_eq!(
            judge(&limit, &after(Text::Content, false), false, false),
            (Outcome::Partial, Cause::Engine(Reason::MaxToolCalls))
        );
        let canned = ending(Status::Canned, Reason::MaxToolCalls, Output::Canned);
        assert_eq!(
            judge(&canned, &after(Text::Content, false), false, false),
            (Outcome::Unanswered, Cause::Canned)
        );
    }

    #[test]
    fn a_permanent_error_that_was_an_overflow_is_named_so() {
        let failed = ending(Status::Failed, Reason::ModelPermanentError, Output::None);
        assert_eq!(
            judge(&failed, &LastText::default(), true, false).1,
            Cause::Engine(Reason::ContextOverflow)
        );
    }
}
