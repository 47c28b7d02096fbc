//! The fitted batch: run, recorded, joined to the conversation (reference, sections 8 and 10).

use super::cause::Cause;
use super::engine::Run;
use super::state::{Admission, Origin, Phase};
use super::thresholds::Threshold;
use crate::Money;
use crate::protocol::{
    Action, CallResult, CallStatus, CheckpointKind, Counted, Limiter, Observer, Verdict,
};

/// The largest batch that runs at the same time.
const PARALLEL_BATCH_LIMIT: u32 = 8;

impl<O: Observer> Run<'_, O> {
    /// S16. Only the deadline is looked at in a dispatch: a request to cancel that arrives meanwhile
    /// takes effect at the next step (section 8).
    pub(super) fn dispatch(&mut self) -> Action {
        self.state.denied.clear();
        self.state.batch_cost = Money::ZERO;
        if self.past_deadline() {
            return self.cancel_dispatch(0);
        }
        if !self.runs_in_parallel() {
            return self.run_call(0);
        }
        self.state.phase = Phase::RunningBatch;
        Action::RunBatch {
            first: 0,
            count: self.state.fitted,
            recovered: self.is_recovered(),
        }
    }

    /// Two to eight calls of parallel-safe tools. A recovered batch that was recorded before the
    /// crash may not fit a second time, and then runs in order.
    fn runs_in_parallel(&self) -> bool {
        let state = &self.state;
        let wanted = state
            .counters
            .tool_calls
            .saturating_add(i64::from(state.fitted));
        self.compared(Threshold::ToolCalls, i128::from(wanted) - 1);
        let fits = wanted <= self.config.tool_calls;
        fits && (2..=PARALLEL_BATCH_LIMIT).contains(&state.fitted)
            && state.pending().iter().all(|call| call.parallel)
    }

    fn run_call(&mut self, index: u32) -> Action {
        self.state.phase = Phase::RunningCall(index);
        Action::RunCall {
            index,
            recovered: self.is_recovered(),
        }
    }

    /// Calls of a batch from before a crash may have stored outcomes.
    fn is_recovered(&self) -> bool {
        self.state.origin != Origin::Turn
    }

    /// # Panics
    /// If there is not one result a call: a defect of the driver.
    pub(super) fn batch_done(&mut self, results: &[CallResult]) -> Action {
        assert_eq!(
            results.len(),
            self.state.fitted as usize,
            "one result a call of the batch"
        );
        for (index, result) in results.iter().enumerate() {
            self.call_ran(index as u32, result);
        }
        let fitted = self.state.fitted;
        self.batch_ran(fitted)
    }

    pub(super) fn call_done(&mut self, index: u32, result: &CallResult) -> Action {
        self.call_ran(index, result);
        let next = index + 1;
        if next == self.state.fitted || self.past_deadline() {
            return self.batch_ran(next);
        }
        self.run_call(next)
    }

    fn call_ran(&mut self, index: u32, result: &CallResult) {
        if result.status == CallStatus::Denied {
            self.state.denied.push(index);
        }
        if self.config.rules.count_tool_cost {
            self.state.batch_cost = self.state.batch_cost.saturating_add(result.cost);
        }
        if O::ACTIVE {
            let cause = self.admission_cause(index);
            self.decide(Verdict::Executed, cause, Some(index));
        }
    }

    /// Why the call may run: its place among those that may.
    fn admission_cause(&self, index: u32) -> Cause {
        let state = &self.state;
        let place = i64::from(index) + 1;
        let (place, room) = match state.admission {
            Admission::Budget | Admission::Crossing => (
                place,
                self.config.tool_calls.saturating_sub(state.watermark),
            ),
            Admission::Allowance => {
                let before = i64::from(state.allowance_used) - i64::from(state.fitted);
                (
                    before + place,
                    i64::from(self.config.rules.reserve_tool_allowance),
                )
            }
        };
        Cause::counts(state.admission.rule(), Limiter::ToolCalls, place, room)
    }

    /// The first `ran` calls have run. S17: their number joins the counters whatever their results,
    /// unless the batch was recorded before a crash (rl-02329), or is cancelled now (rl-01335).
    fn batch_ran(&mut self, ran: u32) -> Action {
        if self.past_deadline() {
            return self.cancel_dispatch(ran);
        }
        let fitted = i64::from(self.state.fitted);
        match self.state.counters.tool_calls - self.state.watermark {
            0 => {
                let used = &mut self.state.counters;
                used.tool_calls += fitted;
                used.cost = used.cost.saturating_add(self.state.batch_cost);
                self.state.phase = Phase::RecordingTools;
                Action::Record(Counted::Tools)
            }
            recorded if recorded == fitted => self.join_results(),
            recorded => self.invalid_stored_state(recorded, fitted),
        }
    }

    pub(super) fn batch_recorded(&mut self) -> Action {
        match self.check_after_recording() {
            Some(cause) => self.exceeded(cause),
            None => self.join_results(),
        }
    }

    /// S18 to S20. Denials of a batch that the checkpoint had pending are never counted
    /// (section 11.4, rl-02557).
    fn join_results(&mut self) -> Action {
        let state = &mut *self.state;
        state.is_pending = false;
        if state.origin == Origin::Checkpoint {
            state.denied.clear();
            return self.save(CheckpointKind::ToolRecovered, Phase::SavingRecovered);
        }
        for index in &state.denied {
            let key = state.calls[*index as usize].denial_key.0;
            state.identical_denials.add(key);
        }
        self.save(CheckpointKind::ToolCall, Phase::SavingBatch)
    }

    /// S21 and S22. Counters were below the threshold before this batch, so only its own denials
    /// can have reached it.
    pub(super) fn batch_saved(&mut self) -> Action {
        let threshold = self.config.rules.identical_denials;
        for position in 0..self.state.denied.len() {
            let index = self.state.denied[position];
            let key = self.state.calls[index as usize].denial_key.0;
            let count = self.state.identical_denials.get(key);
            if count >= threshold {
                return self.denied_too_often(index, count);
            }
        }
        self.begin_step()
    }
}
