//! The boundary after a completed batch (section 5 of the semantics).

use super::machine::{Because, Machine};
use super::rule::Rule;
use super::state::{AfterSave, Fired, Phase, Seat};
use crate::protocol::{Action, CheckpointKind, Ending, Limiter, Notice, Observer, Verdict};

/// Which thresholds of the base cap a count of executed calls meets.
pub(super) fn thresholds(base: u64, used: u64) -> Fired {
    Fired {
        at_50: used >= base / 2 + base % 2,
        // ceil(4 * base / 5) without overflow.
        at_80: used >= base - base / 5,
    }
}

impl<O: Observer> Machine<'_, O> {
    /// All calls of the batch have an answer.
    pub(super) fn batch_complete(&mut self) -> Action {
        if self.state.seat == Seat::Drained {
            return self.drained_spent();
        }
        self.state.join_history();
        match self.grant_for_deficit() {
            Some(grant) => grant,
            None => self.close_boundary(),
        }
    }

    /// Notices, then the checkpoint.
    pub(super) fn close_boundary(&mut self) -> Action {
        self.queue_budget_notice();
        self.notify_and_save()
    }

    /// Sends what is queued, then saves and begins the next turn.
    pub(super) fn notify_and_save(&mut self) -> Action {
        match self.state.queue.pop() {
            Some(notice) => {
                self.state.phase = Phase::Notifying;
                Action::Notify(notice)
            }
            None => self.save_boundary(AfterSave::Turn),
        }
    }

    pub(super) fn save_and_finish(&mut self, ending: Ending) -> Action {
        self.save_boundary(AfterSave::Finish(ending))
    }

    pub(super) fn save_boundary(&mut self, then: AfterSave) -> Action {
        self.state.phase = Phase::SavingBoundary(then);
        Action::Save(CheckpointKind::Boundary)
    }

    /// One message for all thresholds that are newly met. It quotes the base cap, grants or not.
    fn queue_budget_notice(&mut self) {
        let Some(max) = self.config.max_tool_calls.filter(|_| self.config.notices) else {
            return;
        };
        let used = self.state.used();
        let met = thresholds(max, used);
        let new = Fired {
            at_50: met.at_50 && !self.state.fired.at_50,
            at_80: met.at_80 && !self.state.fired.at_80,
        };
        if !new.at_50 && !new.at_80 {
            return;
        }
        self.state.fired = Fired {
            at_50: self.state.fired.at_50 || new.at_50,
            at_80: self.state.fired.at_80 || new.at_80,
        };
        self.decided(
            Verdict::Announced,
            Because::counts(Limiter::ToolCalls, Rule::BudgetNotice, used, max),
        );
        self.state.queue.set_last(Notice::Budget {
            used,
            max,
            remaining: max.saturating_sub(used),
            at_50: new.at_50,
            at_80: new.at_80,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_the_rounded_up_halves_and_four_fifths() {
        for base in 0..2000_u64 {
            let half = (0.5 * base as f64).ceil() as u64;
            let most = (0.8 * base as f64).ceil() as u64;
            for used in [half, most] {
                assert!(!thresholds(base, used).at_50 || used >= half);
                assert_eq!(thresholds(base, used).at_80, used >= most);
            }
            if half > 0 {
                assert!(!thresholds(base, half - 1).at_50);
            }
        }
    }
}
