//! One step of the engine: the state, the limits, the clock and the observer together.

use super::limits::Config;
use super::rule::Rule;
use super::state::State;
use crate::protocol::{
    Action, Decision, Ending, Limiter, Micros, Observer, Output, Quantity, Reason, Status, Verdict,
};

/// What the rules work on during one [`crate::protocol::LimitsEngine::advance`].
pub(super) struct Machine<'a, O> {
    pub(super) state: &'a mut State,
    pub(super) config: &'a Config,
    pub(super) now: Micros,
    pub(super) observer: &'a mut O,
}

/// Why something was decided: the limit, the rule and the two numbers.
#[derive(Clone, Copy)]
pub(super) struct Because {
    pub(super) limiter: Limiter,
    pub(super) rule: Rule,
    pub(super) left: Quantity,
    pub(super) right: Quantity,
}

impl Because {
    pub(super) fn counts(limiter: Limiter, rule: Rule, left: u64, right: u64) -> Because {
        Because {
            limiter,
            rule,
            left: count(left),
            right: count(right),
        }
    }

    pub(super) fn usd(limiter: Limiter, rule: Rule, left: f64, right: f64) -> Because {
        Because {
            limiter,
            rule,
            left: Quantity::Usd(left),
            right: Quantity::Usd(right),
        }
    }

    pub(super) fn plain(limiter: Limiter, rule: Rule) -> Because {
        Because {
            limiter,
            rule,
            left: Quantity::None,
            right: Quantity::None,
        }
    }
}

pub(super) fn count(number: u64) -> Quantity {
    Quantity::Count(i64::try_from(number).unwrap_or(i64::MAX))
}

impl<O: Observer> Machine<'_, O> {
    /// Tells the observer a decision about the run.
    #[inline]
    pub(super) fn decided(&mut self, verdict: Verdict, because: Because) {
        self.tell(verdict, because, None);
    }

    /// Tells the observer a decision about the call that is looked at.
    #[inline]
    pub(super) fn decided_call(&mut self, verdict: Verdict, because: Because) {
        self.tell(verdict, because, Some(self.state.batch.index()));
    }

    /// Tells the observer the same decision about every call from `first` to the end of the batch.
    pub(super) fn decided_tail(&mut self, verdict: Verdict, because: Because, first: u32) {
        if O::ACTIVE {
            for index in first..self.state.batch.calls.len() as u32 {
                self.tell(verdict, because, Some(index));
            }
        }
    }

    #[inline]
    fn tell(&mut self, verdict: Verdict, because: Because, call: Option<u32>) {
        if O::ACTIVE {
            self.observer.decided(Decision {
                verdict,
                limiter: because.limiter,
                rule: crate::protocol::Rule::UsageLimits(because.rule),
                left: because.left,
                right: because.right,
                call,
            });
        }
    }

    /// Decides how the run ends; [`Machine::finish`] carries it out.
    pub(super) fn ending(
        &mut self,
        status: Status,
        reason: Reason,
        output: Output,
        because: Because,
    ) -> Ending {
        self.decided(Verdict::Ended, because);
        let limiter = (reason != Reason::Completed).then_some(because.limiter);
        Ending {
            status,
            reason,
            limiter,
            output,
        }
    }

    /// Ends the run at once, without output.
    pub(super) fn end(&mut self, status: Status, reason: Reason, because: Because) -> Action {
        let ending = self.ending(status, reason, Output::None, because);
        self.finish(ending)
    }
}
