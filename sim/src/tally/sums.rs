//! Sums over runs, and taking them back.

use holdback_engine::Money;
use serde::{Deserialize, Serialize};

use super::{Outcome, RunRecord};

/// Something that adds up. Differences may pass below zero and come back, so counts wrap.
pub(super) trait Amount: Copy {
    fn join(&mut self, other: Self);
    fn part(&mut self, other: Self);
}

impl Amount for u64 {
    #[inline]
    fn join(&mut self, other: u64) {
        *self = self.wrapping_add(other);
    }

    #[inline]
    fn part(&mut self, other: u64) {
        *self = self.wrapping_sub(other);
    }
}

impl Amount for Money {
    #[inline]
    fn join(&mut self, other: Money) {
        *self += other;
    }

    #[inline]
    fn part(&mut self, other: Money) {
        *self -= other;
    }
}

macro_rules! amounts {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[allow(missing_docs)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind),+ }

        impl Amount for $name {
            #[inline]
            fn join(&mut self, other: $name) {
                $(self.$field.join(other.$field);)+
            }

            #[inline]
            fn part(&mut self, other: $name) {
                $(self.$field.part(other.$field);)+
            }
        }
    };
}

amounts! {
    /// Sums over all runs of a tally. Definitions: [`RunRecord`].
    Sums {
        steps: u64,
        model_calls: u64,
        tool_calls: u64,
        tool_batches: u64,
        messages: u64,
        refused_calls: u64,
        skipped_calls: u64,
        denied_calls: u64,
        evidence: u64,
        evidence_entries: u64,
        unread_results: u64,
        billed: Money,
        ledger: Money,
        overspend: Money,
        reserve_left: Money,
        wasted: Money,
        kills: u64,
        repaid_calls: u64,
        repaid: Money,
        checkpoints: u64,
        checkpoint_bytes: u64,
        input_tokens: u64,
        cached_tokens: u64,
        written_tokens: u64,
        output_tokens: u64,
        reasoning_tokens: u64,
        duration_us: u64,
    }
}

amounts! {
    /// Sums over the runs of one group (run number modulo [`super::GROUPS`]).
    Group {
        /// Runs of the group.
        runs: u64,
        /// Runs with an answer.
        answered: u64,
        /// Runs with a partial answer.
        partial: u64,
        /// Runs that had a money cap to pass.
        capped: u64,
        /// Runs whose bill passed it.
        overspent: u64,
        /// Runs that violated a synthesis reserve.
        reserve_violations: u64,
        /// Runs that ended after their deadline.
        late: u64,
        /// Sums over the runs of the group.
        sums: Sums,
    }
}

impl Sums {
    #[inline]
    fn of(record: &RunRecord) -> Sums {
        Sums {
            steps: record.steps,
            model_calls: record.model_calls,
            tool_calls: record.tool_calls,
            tool_batches: record.tool_batches,
            messages: record.messages,
            refused_calls: record.refused_calls,
            skipped_calls: record.skipped_calls,
            denied_calls: record.denied_calls,
            evidence: record.evidence,
            evidence_entries: record.evidence_entries,
            unread_results: record.unread_results,
            billed: record.billed,
            ledger: record.ledger,
            overspend: record.overspend.unwrap_or(Money::ZERO),
            reserve_left: record.reserve_left.unwrap_or(Money::ZERO),
            wasted: match record.outcome {
                Outcome::Unanswered => record.billed,
                Outcome::Answered | Outcome::Partial => Money::ZERO,
            },
            kills: record.kills,
            repaid_calls: record.repaid_calls,
            repaid: record.repaid,
            checkpoints: record.checkpoints,
            checkpoint_bytes: record.checkpoint_bytes,
            input_tokens: record.input_tokens,
            cached_tokens: record.cached_tokens,
            written_tokens: record.written_tokens,
            output_tokens: record.output_tokens,
            reasoning_tokens: record.reasoning_tokens,
            duration_us: record.duration.max(0) as u64,
        }
    }
}

impl Group {
    /// One run.
    #[inline]
    pub(super) fn of(record: &RunRecord) -> Group {
        Group {
            runs: 1,
            answered: u64::from(record.outcome == Outcome::Answered),
            partial: u64::from(record.outcome == Outcome::Partial),
            capped: u64::from(record.overspend.is_some()),
            overspent: u64::from(record.overspend.is_some_and(|o| o > Money::ZERO)),
            reserve_violations: u64::from(record.reserve_violation),
            late: u64::from(record.late),
            sums: Sums::of(record),
        }
    }

    /// Adds the runs of another group.
    pub fn merge(&mut self, other: &Group) {
        self.join(*other);
    }
}
