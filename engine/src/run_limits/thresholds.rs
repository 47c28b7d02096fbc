//! The limits that are only compared, and the comparisons as an observer hears of them.
//!
//! Each function here stands before one of the checks and tells what that check compares.

use super::cause::Cause;
use super::check;
use super::config::Config;
use super::engine::Run;
use super::reserve::{self, Entered};
use super::rules::{Fraction, Rules};
use crate::protocol::{Observer, Thresholds};

/// The places in [`Thresholds::thresholds`].
#[derive(Clone, Copy)]
#[repr(usize)]
pub(super) enum Threshold {
    Deadline,
    Steps,
    ModelCalls,
    ToolCalls,
    InputTokens,
    OutputTokens,
    Cost,
    StepsOutside,
    ModelCallsOutside,
    ToolCallsOutside,
    CostOutside,
}

impl Thresholds for Config {
    /// In the order of [`Threshold`]. Reserves are compared as what may be used outside of them; their
    /// own numbers are only told.
    fn thresholds(&self) -> Vec<i128> {
        vec![
            self.deadline.into(),
            self.steps.into(),
            self.model_calls.into(),
            self.tool_calls.into(),
            self.input_tokens.into(),
            self.output_tokens.into(),
            self.cost.picos(),
            self.outside.steps.into(),
            self.outside.model_calls.into(),
            self.outside.tool_calls.into(),
            self.outside.cost.picos(),
        ]
    }

    /// The reserved fraction is compiled into the reserves.
    fn differs_in_thresholds_only(&self, other: &Config) -> bool {
        let deciding = |config: &Config| Rules {
            reserve_fraction: Fraction::ZERO,
            ..config.rules
        };
        deciding(self) == deciding(other)
    }
}

impl<O: Observer> Run<'_, O> {
    #[inline]
    pub(super) fn compared(&self, threshold: Threshold, used: impl Into<i128>) {
        self.observer.compared(threshold as usize, used.into());
    }

    /// `used > threshold`, told as the same question about one less.
    #[inline]
    fn compared_above(&self, threshold: Threshold, used: impl Into<i128>) {
        self.observer.compared(threshold as usize, used.into() - 1);
    }

    /// [`check::past_deadline`].
    #[inline]
    pub(super) fn past_deadline(&self) -> bool {
        self.compared(Threshold::Deadline, self.now);
        check::past_deadline(self.config, self.now)
    }

    /// [`check::before_step`].
    #[inline]
    pub(super) fn check_before_step(&self) -> Option<Cause> {
        let used = &self.state.counters;
        self.compared(Threshold::Deadline, self.now);
        self.compared(Threshold::Cost, used.cost.picos());
        self.compared(Threshold::Steps, used.steps);
        check::before_step(self.config, used, self.now)
    }

    /// [`check::before_attempt`].
    #[inline]
    pub(super) fn check_before_attempt(&self) -> Option<Cause> {
        let used = &self.state.counters;
        self.compared(Threshold::Deadline, self.now);
        self.compared(Threshold::Cost, used.cost.picos());
        self.compared(Threshold::ModelCalls, used.model_calls);
        self.compared(Threshold::InputTokens, check::tokens(used.usage.input));
        self.compared(Threshold::OutputTokens, check::tokens(used.usage.output));
        check::before_attempt(self.config, used, self.now)
    }

    /// [`check::after_recording`].
    #[inline]
    pub(super) fn check_after_recording(&self) -> Option<Cause> {
        let used = &self.state.counters;
        self.compared_above(Threshold::ModelCalls, used.model_calls);
        self.compared_above(Threshold::ToolCalls, used.tool_calls);
        self.compared_above(Threshold::InputTokens, check::tokens(used.usage.input));
        self.compared_above(Threshold::OutputTokens, check::tokens(used.usage.output));
        self.compared_above(Threshold::Cost, used.cost.picos());
        check::after_recording(self.config, used)
    }

    /// [`reserve::entered`].
    #[inline]
    pub(super) fn entered(&self, tool_calls: i64, in_step: bool) -> Option<Entered> {
        let used = &self.state.counters;
        self.compared(Threshold::ToolCalls, tool_calls);
        self.compared(Threshold::StepsOutside, used.steps - i64::from(in_step));
        self.compared(Threshold::ModelCallsOutside, used.model_calls);
        self.compared(Threshold::ToolCallsOutside, tool_calls);
        self.compared(Threshold::CostOutside, used.cost.picos());
        reserve::entered(self.config, used, tool_calls, in_step)
    }

    /// The tool calls left are the room for a batch of `proposed`: either all of it fits, or their
    /// number decides.
    #[inline]
    pub(super) fn fitted_to_tool_calls(&self, tool_calls: i64, proposed: u32) {
        let wanted = i128::from(tool_calls) + i128::from(proposed);
        self.observer
            .compared(Threshold::ToolCalls as usize, wanted - 1);
        if i128::from(self.config.tool_calls) < wanted {
            self.observer.read(Threshold::ToolCalls as usize);
        }
    }
}
