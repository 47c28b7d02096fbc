//! Why something was decided: the rule, the limit and the two numbers compared.

use super::rule::Rule;
use crate::protocol::{Decision, Limiter, Quantity, Verdict};

/// The reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cause {
    pub(super) rule: Rule,
    pub(super) limiter: Limiter,
    pub(super) left: Quantity,
    pub(super) right: Quantity,
}

impl Cause {
    /// A rule that compares no numbers.
    pub(super) const fn plain(rule: Rule, limiter: Limiter) -> Cause {
        Cause {
            rule,
            limiter,
            left: Quantity::None,
            right: Quantity::None,
        }
    }

    /// A rule that compares counts.
    pub(super) const fn counts(rule: Rule, limiter: Limiter, left: i64, right: i64) -> Cause {
        Cause {
            rule,
            limiter,
            left: Quantity::Count(left),
            right: Quantity::Count(right),
        }
    }

    /// The decision that follows, of a call if one is concerned.
    pub(super) const fn decision(self, verdict: Verdict, call: Option<u32>) -> Decision {
        Decision {
            verdict,
            limiter: self.limiter,
            rule: crate::protocol::Rule::RunLimits(self.rule),
            left: self.left,
            right: self.right,
            call,
        }
    }
}
