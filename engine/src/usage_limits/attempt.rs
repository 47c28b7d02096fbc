//! One attempt of a turn: its price and its output cap, its usage, its retries (sections 11 and 12
//! of the semantics).

use super::machine::{Because, Machine};
use super::rule::Rule;
use super::state::{Phase, Seat};
use super::usd::{Clamp, PriceSource, clamp, exposure};
use crate::Money;
use crate::protocol::{
    Action, Fault, FaultKind, Instruction, Limiter, Micros, ModelRequest, ModelTurn, Observer,
    Reason, Status, Tools, Usage, Verdict,
};

/// Why an attempt is refused before the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    OutputFloor,
    Exposure,
}

const FIRST_WAIT: Micros = 500_000;
const LONGEST_WAIT: Micros = 8_000_000;

impl<O: Observer> Machine<'_, O> {
    /// With a budget each attempt asks for an estimate of its own.
    pub(super) fn begin_attempt(&mut self) -> Action {
        self.state.account.begin_attempt();
        self.state.before_attempt = (self.state.counters.usage, self.state.counters.cost);
        if self.config.budget.is_none() {
            return self.dispatch(0.0);
        }
        self.state.phase = Phase::Estimating;
        Action::EstimatePrompt
    }

    /// Settles the output cap, asks the exposure pool and sends the request.
    pub(super) fn dispatch(&mut self, estimate: f64) -> Action {
        let floor = self.config.model.min_output_tokens;
        let wanted = self.wanted_output();
        if let Some(cap) = wanted.filter(|cap| *cap < floor) {
            return self.end(
                Status::Throws,
                Reason::Configuration,
                Because::counts(Limiter::OutputFloor, Rule::CapBelowFloor, cap, floor),
            );
        }
        let output_cap = match self.clamped_output(wanted, floor, estimate) {
            Ok(cap) => cap,
            Err(because) => {
                self.decided(Verdict::Blocked, because);
                return self.refused(Refusal::OutputFloor, because);
            }
        };
        if let Some(because) = self.exposure_obstacle(estimate, output_cap) {
            self.decided(Verdict::Blocked, because);
            return self.refused(Refusal::Exposure, because);
        }
        self.state.counters.model_calls += 1;
        self.state.summary_used |= self.state.seat == Seat::Summary;
        self.state.phase = Phase::Calling;
        Action::CallModel(self.request(output_cap))
    }

    /// The configured cap; the summary and the drained turn take the smaller of theirs and the
    /// ordinary one.
    fn wanted_output(&self) -> Option<u64> {
        let per_turn = self.config.output_cap;
        let reserve = match self.state.seat {
            Seat::Planning => None,
            Seat::Summary | Seat::Drained => self
                .config
                .reserve
                .and_then(|reserve| reserve.max_output_tokens),
        };
        per_turn.into_iter().chain(reserve).min()
    }

    fn clamped_output(
        &mut self,
        wanted: Option<u64>,
        floor: u64,
        estimate: f64,
    ) -> Result<Option<u64>, Because> {
        let Some((source, ceiling)) = self
            .config
            .budget
            .and_then(|budget| Some((budget.prices, budget.ceiling_usd?)))
        else {
            return Ok(wanted);
        };
        let left = self.state.account.left(ceiling);
        let tokens = |rule, affordable: f64, cap: u64| {
            Because::counts(Limiter::OutputFloor, rule, affordable.max(0.0) as u64, cap)
        };
        match clamp(wanted, floor, estimate, left, source) {
            Clamp::Unclamped(cap) => Ok(cap),
            Clamp::Clamped { cap, affordable } => {
                let because = tokens(Rule::Clamp, affordable, wanted.unwrap_or(u64::MAX));
                self.decided(Verdict::Clamped, because);
                Ok(Some(cap))
            }
            Clamp::AtFloor { cap, affordable } => {
                self.decided(
                    Verdict::Clamped,
                    tokens(Rule::FloorAfterPrompt, affordable, cap),
                );
                Ok(Some(cap))
            }
            Clamp::Refused { affordable } => Err(tokens(Rule::OutputFloor, affordable, floor)),
        }
    }

    fn exposure_obstacle(&self, estimate: f64, output_cap: Option<u64>) -> Option<Because> {
        let budget = self.config.budget?;
        let cap = budget.exposure?.cap_usd;
        let spent = self.state.account.spent();
        if spent >= cap {
            return Some(Because::usd(
                Limiter::Exposure,
                Rule::ExposureSpent,
                spent,
                cap,
            ));
        }
        let planned = output_cap.unwrap_or(self.config.model.max_output_tokens);
        let with_planned = spent + exposure(budget.prices, estimate, planned);
        (with_planned > cap)
            .then(|| Because::usd(Limiter::Exposure, Rule::ExposurePlanned, with_planned, cap))
    }

    fn request(&self, output_cap: Option<u64>) -> ModelRequest {
        let (tools, instruction) = match self.state.seat {
            Seat::Planning => (Tools::All, None),
            Seat::Summary => (Tools::Withheld, self.summary_instruction()),
            Seat::Drained => {
                let tools_ride = !self.config.drained_tools().is_empty();
                let tools = if tools_ride {
                    Tools::WindowOnly
                } else {
                    Tools::Absent
                };
                (tools, Some(Instruction::Drained { tools_ride }))
            }
        };
        ModelRequest {
            turn: self.state.turns() as u32,
            attempt: self.state.attempt,
            tools,
            output_cap,
            idle_timeout: Some(self.config.idle_timeout),
            instruction,
        }
    }

    /// An attempt was refused before the wire.
    fn refused(&mut self, refusal: Refusal, because: Because) -> Action {
        match (self.state.seat, refusal) {
            (Seat::Summary, _) => self.summary_skipped(because),
            (Seat::Drained, _) => self.drained_skipped(because),
            (Seat::Planning, Refusal::OutputFloor) => {
                self.end(Status::Error, Reason::OutputFloor, because)
            }
            (Seat::Planning, Refusal::Exposure) => self.exposure_refused(because),
        }
    }

    /// Usage of the attempt in flight: goes on reading, or severs the stream at the ceiling.
    pub(super) fn usage_reported(&mut self, usage: &Usage, cost: Money) -> Action {
        self.debit(usage, cost);
        match self.ceiling_reached(Rule::Severed) {
            Some(because) => {
                self.decided(Verdict::Exceeded, because);
                Action::SeverStream
            }
            None => Action::ContinueStream,
        }
    }

    fn debit(&mut self, usage: &Usage, cost: Money) {
        if let Some(budget) = &self.config.budget {
            self.state.account.debit(budget.prices, usage, cost);
            if budget.prices == PriceSource::AsReported {
                self.state.counters.cost = self.state.before_attempt.1 + cost;
            }
        }
        self.state.counters.usage = sum(&self.state.before_attempt.0, usage);
    }

    /// The attempt came to its end. A ceiling crossed only now does nothing to this turn.
    pub(super) fn model_done(&mut self, turn: &ModelTurn<'_>) -> Action {
        self.debit(&turn.usage, turn.cost);
        match self.state.seat {
            Seat::Planning => self.planning_turn_done(turn),
            Seat::Summary => self.summary_turn_done(turn),
            Seat::Drained => self.drained_turn_done(turn),
        }
    }

    /// The attempt failed: severed by money, tried again, or the end of the turn.
    pub(super) fn model_failed(&mut self, fault: &Fault) -> Action {
        if let Some(usage) = &fault.usage {
            self.debit(usage, fault.cost);
        }
        let crossed = self
            .ceiling_reached(Rule::Severed)
            .filter(|_| fault.usage.is_some());
        if fault.kind == FaultKind::Severed || crossed.is_some() {
            let plain = Because::plain(Limiter::Cost, Rule::Severed);
            return self.severed(crossed.unwrap_or(plain));
        }
        match self.wait_before_retry(fault.kind) {
            Some(wait) => {
                let (attempt, attempts) = (self.state.attempt.into(), self.config.attempts.into());
                let rule = Rule::Retry;
                self.decided(
                    Verdict::Retried,
                    Because::counts(Limiter::Attempts, rule, attempt, attempts),
                );
                // Idle severings are retried as well, but are no retried provider errors.
                self.state.transport_retries += u64::from(fault.kind != FaultKind::Idle);
                self.state.phase = Phase::Waiting;
                Action::Wait(wait)
            }
            None => self.turn_failed(fault.kind),
        }
    }

    fn wait_before_retry(&self, kind: FaultKind) -> Option<Micros> {
        if self.state.attempt >= self.config.attempts {
            return None;
        }
        let doublings = self.state.attempt.saturating_sub(1).min(16);
        let backoff = (FIRST_WAIT << doublings).min(LONGEST_WAIT);
        match kind {
            FaultKind::RateLimit { retry_after } => Some(retry_after.unwrap_or(backoff)),
            FaultKind::Transient | FaultKind::Idle | FaultKind::Cut => Some(backoff),
            FaultKind::Permanent | FaultKind::Protocol | FaultKind::Severed => None,
        }
    }

    /// The wait is over.
    pub(super) fn retry(&mut self) -> Action {
        self.state.attempt += 1;
        self.begin_attempt()
    }

    fn severed(&mut self, because: Because) -> Action {
        match self.state.seat {
            Seat::Planning | Seat::Summary => self.end(Status::Severed, Reason::Budget, because),
            Seat::Drained => self.drained_spent(),
        }
    }

    fn turn_failed(&mut self, kind: FaultKind) -> Action {
        match self.state.seat {
            Seat::Planning => self.planning_turn_failed(kind),
            Seat::Summary => self.summary_turn_failed(kind),
            Seat::Drained => self.drained_spent(),
        }
    }

    fn planning_turn_failed(&mut self, kind: FaultKind) -> Action {
        let (attempt, attempts) = (self.state.attempt.into(), self.config.attempts.into());
        let exhausted =
            Because::counts(Limiter::Attempts, Rule::RetriesExhausted, attempt, attempts);
        match kind {
            FaultKind::RateLimit { .. } => self.end(Status::Error, Reason::RateLimit, exhausted),
            FaultKind::Transient | FaultKind::Idle | FaultKind::Cut => {
                self.end(Status::Error, Reason::Transport, exhausted)
            }
            FaultKind::Permanent | FaultKind::Protocol | FaultKind::Severed => self.end(
                Status::Error,
                Reason::Terminal,
                Because::plain(Limiter::Provider, Rule::PermanentFault),
            ),
        }
    }
}

fn sum(a: &Usage, b: &Usage) -> Usage {
    Usage {
        input: a.input.saturating_add(b.input),
        cached: a.cached.saturating_add(b.cached),
        cache_write: a.cache_write.saturating_add(b.cache_write),
        output: a.output.saturating_add(b.output),
        reasoning: match (a.reasoning, b.reasoning) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        },
    }
}
