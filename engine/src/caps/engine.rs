//! The state machine: a turn, its retries, its tools, and how a run ends.

use super::state::{Checkpoint, Fate, LastText, Phase, State};
use super::{
    Batch, BlankAnswer, Config, CountTurns, CutTurn, Dimension, Durability, OnExhausted, Rule,
};
use crate::Money;
use crate::protocol::{
    Action, Call, CallResult, CallStatus, CheckpointKind, Counters, Decision, Durable, Ending,
    Event, Fault, FaultKind, Finish, Instruction, Limiter, LimitsEngine, Micros, ModelRequest,
    ModelTurn, Observer, Output, Quantity, Reason, Status, Text, Tools, Verdict,
};

/// A run under caps.
///
/// Tool calls run one after the other, in source order. A closing turn offers no tools
/// ([`Tools::Absent`]) and says so ([`Instruction::FinalTurn`]).
#[derive(Debug, PartialEq, Eq)]
pub struct Engine {
    state: State,
}

impl Clone for Engine {
    fn clone(&self) -> Engine {
        Engine {
            state: self.state.clone(),
        }
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &Engine) {
        self.state.clone_from(&source.state);
    }
}

/// The first pause before a retry, and the longest: those of widespread client libraries, without
/// their jitter.
const FIRST_PAUSE: Micros = 500_000;
const LONGEST_PAUSE: Micros = 8_000_000;

/// What is the same for everything that one event leads to.
struct Moment<'a, O> {
    config: &'a Config,
    now: Micros,
    observer: &'a mut O,
}

impl<O: Observer> Moment<'_, O> {
    /// Whether so much use reaches the cap on a dimension.
    fn reaches(&self, dimension: Dimension, used: i128) -> bool {
        self.observer.compared(dimension as usize, used);
        self.config.cap(dimension).is_some_and(|cap| used >= cap)
    }

    /// Puts a decision together only if somebody listens.
    fn tell(&mut self, decision: impl FnOnce(&Config, Micros) -> Decision) {
        if O::ACTIVE {
            self.observer.decided(decision(self.config, self.now));
        }
    }
}

impl LimitsEngine for Engine {
    type Config = Config;
    type State = State;
    type Checkpoint = Checkpoint;

    fn new(_config: &Config) -> Engine {
        Engine {
            state: State::default(),
        }
    }

    /// Goes on after the newest completed turn; a turn that was cut short is made again.
    fn resume(_config: &Config, durable: Durable<'_, Checkpoint>) -> Engine {
        let mut state = State::default();
        if let Some(checkpoint) = durable.checkpoint {
            state.progress.copy_from(checkpoint);
        }
        Engine { state }
    }

    fn reset(&mut self, _config: &Config) {
        self.state.reset();
    }

    fn advance<O: Observer>(
        &mut self,
        config: &Config,
        now: Micros,
        event: Event<'_>,
        observer: &mut O,
    ) -> Action {
        let at = &mut Moment {
            config,
            now,
            observer,
        };
        match (self.state.phase, event) {
            (Phase::Ready, Event::Start) => self.start(at),
            (Phase::Calling, Event::UsageReported(..)) => Action::ContinueStream,
            (Phase::Calling, Event::ModelDone(turn)) => self.turn_done(at, turn),
            (Phase::Calling, Event::ModelFailed(fault)) => self.attempt_failed(at, fault),
            (Phase::Waiting, Event::Done) => self.request(at, self.state.attempt + 1),
            (Phase::Running(index), Event::CallDone(result)) => self.call_done(at, index, result),
            (Phase::Answering(next), Event::Done) => self.run_from(at, next),
            (Phase::Saving, Event::Done) => self.request(at, 1),
            (phase, event) => panic!("{event:?} does not answer an engine in phase {phase:?}"),
        }
    }

    fn request_cancel(&mut self) {
        self.state.cancelled = true;
    }

    fn calls(&self) -> &[Call] {
        &self.state.calls
    }

    fn counters(&self) -> &Counters {
        &self.state.progress.counters
    }

    fn save(&self, _config: &Config, into: &mut Checkpoint) {
        into.copy_from(&self.state.progress);
    }

    fn ledger(&self, _config: &Config) -> Money {
        self.state.progress.counters.cost
    }

    fn over_cap(&self, config: &Config) -> Option<Limiter> {
        let used = &self.state.progress.counters;
        let passed = |used: i64, dimension: Dimension, allowed: i128| {
            let cap = config.cap(dimension);
            cap.is_some_and(|cap| i128::from(used) > cap + allowed)
        };
        // A closing turn is one past the cap, each attempt of it being a request.
        let closing = i128::from(config.attempts);
        if passed(used.model_calls, Dimension::ModelCalls, closing) {
            return Some(Limiter::ModelCalls);
        }
        (config.batch != Batch::RunAll && passed(used.tool_calls, Dimension::ToolCalls, 0))
            .then_some(Limiter::ToolCalls)
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn from_state(_config: &Config, state: State) -> Engine {
        Engine { state }
    }
}

/// Turns and requests.
impl Engine {
    fn start<O: Observer>(&mut self, at: &mut Moment<'_, O>) -> Action {
        self.state.progress.started_at.get_or_insert(at.now);
        self.request(at, 1)
    }

    /// Makes a request, the closing one or any other, unless a cap is exhausted.
    fn request<O: Observer>(&mut self, at: &mut Moment<'_, O>, attempt: u32) -> Action {
        self.state.attempt = attempt;
        self.state.calls.clear();
        self.state.fates.clear();
        if self.state.cancelled {
            return self.cancel(at);
        }
        if let Some(dimension) = self.exhausted_before_request(at) {
            if self.is_closing() || at.config.action(dimension) != OnExhausted::FinalTurn {
                return self.end(at, dimension);
            }
            self.close(at, dimension, Rule::FinalTurn);
        }
        if let (false, Some(dimension)) = (self.is_closing(), self.last_inside(at)) {
            self.close(at, dimension, Rule::LastInside);
        }
        self.state.phase = Phase::Calling;
        let closing = self.state.progress.closing;
        Action::CallModel(ModelRequest {
            turn: u32::try_from(self.counters().steps + 1).unwrap_or(u32::MAX),
            attempt,
            tools: if closing.is_some() {
                Tools::Absent
            } else {
                Tools::All
            },
            output_cap: None,
            idle_timeout: None,
            instruction: closing.map(|dimension| Instruction::FinalTurn(dimension.limiter())),
        })
    }

    fn turn_done<O: Observer>(&mut self, at: &mut Moment<'_, O>, turn: ModelTurn<'_>) -> Action {
        self.state.progress.count_request(turn.usage, turn.cost);
        self.state.progress.count_turn(turn.text);
        self.state.calls.extend_from_slice(turn.calls);
        let failure = match turn.finish {
            Finish::Stop | Finish::Length => None,
            Finish::ContextOverflow => Some((
                Reason::ContextOverflow,
                Limiter::Context,
                Rule::ContextExceeded,
            )),
            Finish::Refusal => Some((Reason::Refusal, Limiter::Provider, Rule::ModelRefused)),
            Finish::Cancelled => Some((Reason::ModelError, Limiter::Provider, Rule::NotRetryable)),
        };
        if let Some((reason, limiter, rule)) = failure {
            self.leave_pending(at, 0, Verdict::Unanswered, limiter, Rule::EndedBeforeCall);
            return self.fail(at, reason, limiter, rule);
        }
        if self.is_closing() {
            return self.closing_done(at, turn.text);
        }
        let goes_on = turn.finish == Finish::Length && at.config.cut_turn == CutTurn::Continue;
        if turn.calls.is_empty() && !goes_on {
            return self.answered(at, turn.text);
        }
        if let Some(dimension) = self.spent_past(at) {
            return self.exhaust(at, dimension, Rule::SpentAfter, 0);
        }
        if turn.calls.is_empty() {
            at.tell(|_, _| {
                told(
                    Verdict::Warned,
                    Limiter::OutputTokens,
                    Rule::CutTurnContinues,
                )
            });
            return self.end_turn(at);
        }
        self.run_batch(at)
    }

    fn attempt_failed<O: Observer>(&mut self, at: &mut Moment<'_, O>, fault: Fault) -> Action {
        let usage = fault.usage.unwrap_or_default();
        self.state.progress.count_request(usage, fault.cost);
        let Some(pause) = pause_after(fault.kind, self.state.attempt) else {
            return self.fail(
                at,
                Reason::ModelError,
                Limiter::Provider,
                Rule::NotRetryable,
            );
        };
        let (attempt, attempts) = (self.state.attempt, at.config.attempts);
        let compared = |verdict, rule| Decision {
            left: Quantity::Count(attempt.into()),
            right: Quantity::Count(attempts.into()),
            ..told(verdict, Limiter::Attempts, rule)
        };
        if attempt >= attempts {
            at.tell(|_, _| compared(Verdict::Blocked, Rule::AttemptsSpent));
            return self.fail(
                at,
                Reason::ModelError,
                Limiter::Attempts,
                Rule::AttemptsSpent,
            );
        }
        if let Some(dimension) = self.spent_past(at) {
            if self.is_closing() || at.config.action(dimension) != OnExhausted::FinalTurn {
                return self.end(at, dimension);
            }
            self.close(at, dimension, Rule::FinalTurn);
        }
        at.tell(|_, _| compared(Verdict::Retried, Rule::AttemptRetried));
        self.state.phase = Phase::Waiting;
        Action::Wait(pause)
    }

    /// Completes a turn: what it did is durable before the next begins.
    fn end_turn<O: Observer>(&mut self, at: &mut Moment<'_, O>) -> Action {
        match at.config.durable {
            Durability::Turn => {
                self.state.phase = Phase::Saving;
                Action::Save(CheckpointKind::Turn)
            }
            Durability::None => self.request(at, 1),
        }
    }
}

/// Batches of tool calls.
impl Engine {
    fn run_batch<O: Observer>(&mut self, at: &mut Moment<'_, O>) -> Action {
        if self.tool_step_is_exhausted(at) {
            return self.exhaust(at, Dimension::Turns, Rule::ToolStepCapReached, 0);
        }
        self.state.plan_batch(at.config, at.observer);
        if self.state.fates.contains(&Fate::Run) {
            self.state.progress.tool_turns += 1;
        }
        self.run_from(at, 0)
    }

    /// Runs or answers the calls of the batch from `index` on.
    fn run_from<O: Observer>(&mut self, at: &mut Moment<'_, O>, index: u32) -> Action {
        let rest = &self.state.fates[index as usize..];
        match rest.first().copied() {
            None => self.batch_done(at),
            Some(Fate::Refused(dimension)) => {
                let alike = rest
                    .iter()
                    .take_while(|fate| **fate == Fate::Refused(dimension));
                let count = alike.count() as u32;
                self.state.phase = Phase::Answering(index + count);
                Action::AnswerCalls {
                    first: index,
                    count,
                    verdict: Verdict::Refused,
                    limiter: dimension.limiter(),
                }
            }
            Some(Fate::Run) => self.run_call(at, index),
        }
    }

    fn run_call<O: Observer>(&mut self, at: &mut Moment<'_, O>, index: u32) -> Action {
        if self.state.cancelled {
            let (verdict, rule) = (Verdict::Cancelled, Rule::CancelRequested);
            self.leave_pending(at, index, verdict, Limiter::Request, rule);
            return self.cancel(at);
        }
        if at.config.count_tool_cost && self.is_spent_before(at, Dimension::Cost) {
            return self.exhaust(at, Dimension::Cost, Rule::SpentBefore, index);
        }
        self.state.phase = Phase::Running(index);
        Action::RunCall {
            index,
            recovered: false,
        }
    }

    fn call_done<O: Observer>(
        &mut self,
        at: &mut Moment<'_, O>,
        index: u32,
        result: CallResult,
    ) -> Action {
        let tool = self.state.calls[index as usize].tool;
        let cost = if at.config.count_tool_cost {
            result.cost
        } else {
            Money::ZERO
        };
        self.state.progress.count_call(tool, result.status, cost);
        at.tell(|config, now| {
            let decision = if result.status == CallStatus::Denied {
                told(Verdict::Denied, Limiter::Policy, Rule::DeniedByPolicy)
            } else {
                self.compared(
                    config,
                    now,
                    Dimension::ToolCalls,
                    Verdict::Executed,
                    Rule::Admitted,
                )
            };
            Decision {
                call: Some(index),
                ..decision
            }
        });
        if at.config.count_tool_cost && self.is_spent_after(at, Dimension::Cost) {
            return self.exhaust(at, Dimension::Cost, Rule::SpentAfter, index + 1);
        }
        self.run_from(at, index + 1)
    }

    /// All calls of the batch have results: a cap that it crossed now takes effect.
    fn batch_done<O: Observer>(&mut self, at: &mut Moment<'_, O>) -> Action {
        if let Some(dimension) = self.state.crossed.take() {
            if at.config.can_still_close(dimension) {
                self.close(at, dimension, Rule::FinalTurn);
            } else if at.config.action(dimension) != OnExhausted::BlockTools {
                return self.end(at, dimension);
            }
        }
        self.end_turn(at)
    }

    /// A cap is exhausted while calls from `index` on are pending: they get error results if the
    /// run goes on, and no answer if it ends.
    fn exhaust<O: Observer>(
        &mut self,
        at: &mut Moment<'_, O>,
        dimension: Dimension,
        rule: Rule,
        index: u32,
    ) -> Action {
        at.tell(|config, now| self.compared(config, now, dimension, Verdict::Exceeded, rule));
        if at.config.can_still_close(dimension) {
            self.close(at, dimension, Rule::FinalTurn);
        } else if at.config.action(dimension) != OnExhausted::BlockTools {
            let (verdict, rule) = (Verdict::Unanswered, Rule::EndedBeforeCall);
            self.leave_pending(at, index, verdict, dimension.limiter(), rule);
            return self.end(at, dimension);
        }
        self.state.fates.resize(self.state.calls.len(), Fate::Run);
        for call in index..self.state.calls.len() as u32 {
            let fate = &mut self.state.fates[call as usize];
            if *fate != Fate::Run {
                continue;
            }
            *fate = Fate::Refused(dimension);
            at.tell(|config, now| Decision {
                call: Some(call),
                ..self.compared(config, now, dimension, Verdict::Refused, rule)
            });
        }
        self.run_from(at, index)
    }
}

/// Comparisons.
impl Engine {
    fn is_closing(&self) -> bool {
        self.state.progress.closing.is_some()
    }

    fn used(&self, config: &Config, now: Micros, dimension: Dimension) -> i128 {
        self.state.progress.used(dimension, config.count_turns, now)
    }

    /// The cap that refuses the next request: the first that ends the run, else the first that
    /// grants a final turn. In a closing turn those no longer count, but a cap on model calls is
    /// passed by no more than one.
    fn exhausted_before_request<O: Observer>(&self, at: &mut Moment<'_, O>) -> Option<Dimension> {
        let found = self.deciding(at.config, &Dimension::BEFORE_A_REQUEST, |dimension| {
            if dimension.is_spent() {
                return self.is_spent_before(at, dimension);
            }
            let compared = dimension != Dimension::Turns
                || (self.state.attempt == 1 && at.config.count_turns != CountTurns::ToolTurns);
            let passed = i128::from(self.is_closing() && dimension == Dimension::ModelCalls);
            let granted = match at.config.action(dimension) {
                OnExhausted::FinalTurn => passed,
                _ => 0,
            };
            let used = self.used(at.config, at.now, dimension);
            compared && at.reaches(dimension, used - granted)
        })?;
        let rule = if found.is_spent() {
            Rule::SpentBefore
        } else {
            Rule::CapReached
        };
        at.tell(|config, now| self.compared(config, now, found, Verdict::Blocked, rule));
        Some(found)
    }

    /// The cap that is passed after a call, by the same order.
    fn spent_past<O: Observer>(&self, at: &Moment<'_, O>) -> Option<Dimension> {
        self.deciding(at.config, &Dimension::SPENT, |dimension| {
            self.is_spent_after(at, dimension)
        })
    }

    fn deciding(
        &self,
        config: &Config,
        dimensions: &[Dimension],
        exhausted: impl Fn(Dimension) -> bool,
    ) -> Option<Dimension> {
        let mut granting = None;
        for dimension in dimensions
            .iter()
            .copied()
            .filter(|dimension| exhausted(*dimension))
        {
            if config.action(dimension) != OnExhausted::FinalTurn {
                return Some(dimension);
            }
            // A closing turn is past these already, unless it may not be made again.
            if !self.is_closing() || dimension == Dimension::ModelCalls {
                granting = granting.or(Some(dimension));
            }
        }
        granting
    }

    fn is_spent_before<O: Observer>(&self, at: &Moment<'_, O>, dimension: Dimension) -> bool {
        at.config.check(dimension).before()
            && at.reaches(dimension, self.used(at.config, at.now, dimension))
    }

    fn is_spent_after<O: Observer>(&self, at: &Moment<'_, O>, dimension: Dimension) -> bool {
        at.config.check(dimension).after()
            && at.reaches(dimension, self.used(at.config, at.now, dimension) - 1)
    }

    /// True if the tools of this turn would be a tool turn or a super-step past the cap.
    fn tool_step_is_exhausted<O: Observer>(&self, at: &Moment<'_, O>) -> bool {
        let used = self.used(at.config, at.now, Dimension::Turns);
        at.config.count_turns != CountTurns::Model && at.reaches(Dimension::Turns, used)
    }

    /// The cap, if any, inside which the next request is the last that fits.
    fn last_inside<O: Observer>(&self, at: &Moment<'_, O>) -> Option<Dimension> {
        let candidates = [
            Dimension::Turns,
            Dimension::ModelCalls,
            Dimension::ToolCalls,
        ];
        candidates.into_iter().find(|dimension| {
            // What this request, its tools and one more request would use.
            let to_go_on = match (dimension, at.config.count_turns) {
                (Dimension::ModelCalls, _) | (Dimension::Turns, CountTurns::Model) => 2,
                (Dimension::Turns, CountTurns::Supersteps) => 3,
                _ => 1,
            };
            let used = self.used(at.config, at.now, *dimension);
            at.config.action(*dimension) == OnExhausted::FinalTurnInside
                && at.reaches(*dimension, used + to_go_on - 1)
        })
    }

    /// A decision on what is used of a dimension against its cap. The caps on single tools have no
    /// number in common; decisions on calls carry theirs.
    fn compared(
        &self,
        config: &Config,
        now: Micros,
        dimension: Dimension,
        verdict: Verdict,
        rule: Rule,
    ) -> Decision {
        if dimension == Dimension::CallsPerTool {
            return told(verdict, dimension.limiter(), rule);
        }
        let used = self.used(config, now, dimension);
        dimension.compared(verdict, rule, used, config.cap(dimension))
    }
}

/// Endings.
impl Engine {
    /// From here on the next turn is the closing one.
    fn close<O: Observer>(&mut self, at: &mut Moment<'_, O>, dimension: Dimension, rule: Rule) {
        self.state.progress.closing = Some(dimension);
        at.tell(|config, now| self.compared(config, now, dimension, Verdict::Announced, rule));
    }

    /// A turn without calls: the run is over, and no cap was needed for it.
    fn answered<O: Observer>(&mut self, at: &mut Moment<'_, O>, text: Text) -> Action {
        self.accept_or_discard(at, text, None, Rule::Answered)
    }

    fn closing_done<O: Observer>(&mut self, at: &mut Moment<'_, O>, text: Text) -> Action {
        let limiter = self.state.progress.closing.map(Dimension::limiter);
        if let Some(limiter) = limiter {
            self.leave_pending(at, 0, Verdict::Dropped, limiter, Rule::ClosingCallDropped);
        }
        self.accept_or_discard(at, text, limiter, Rule::ClosingTurnDone)
    }

    /// Ends with the text of this turn, unless a cap under `error` is passed by it.
    fn accept_or_discard<O: Observer>(
        &mut self,
        at: &mut Moment<'_, O>,
        text: Text,
        limiter: Option<Limiter>,
        rule: Rule,
    ) -> Action {
        let passed = |dimension: &Dimension| self.is_spent_after(at, *dimension);
        let discards = |dimension: &Dimension| at.config.action(*dimension) == OnExhausted::Error;
        let mut passed = Dimension::SPENT.into_iter().filter(passed);
        if let Some(first) = passed.clone().next() {
            let discarding = passed.find(discards);
            let (dimension, rule) = match discarding {
                Some(dimension) => (dimension, Rule::AnswerDiscarded),
                None => (first, Rule::AnsweredPastCap),
            };
            at.tell(|config, now| self.compared(config, now, dimension, Verdict::Exceeded, rule));
            if discarding.is_some() {
                return self.end(at, dimension);
            }
        }
        let is_earlier = self.state.progress.text == LastText::Earlier
            && text != Text::Content
            && at.config.blank_answer == BlankAnswer::LastText;
        let output = if is_earlier {
            Output::LastText
        } else {
            Output::TurnText
        };
        if is_earlier {
            at.tell(|_, _| {
                told(
                    Verdict::Warned,
                    Limiter::Provider,
                    Rule::EarlierTextDelivered,
                )
            });
        }
        at.tell(|_, _| told(Verdict::Ended, limiter.unwrap_or(Limiter::Provider), rule));
        self.finish(Ending {
            status: Status::Completed,
            reason: Reason::Completed,
            limiter,
            output,
        })
    }

    /// An exhausted cap ends the run.
    fn end<O: Observer>(&mut self, at: &mut Moment<'_, O>, dimension: Dimension) -> Action {
        let (status, reason, output, rule) = match at.config.action(dimension) {
            OnExhausted::Stop => (
                Status::Stopped,
                dimension.reason(),
                self.last_text(),
                Rule::EndsStopped,
            ),
            OnExhausted::Canned => (
                Status::Canned,
                Reason::Canned,
                Output::Canned,
                Rule::EndsCanned,
            ),
            // No closing turn is left where one was granted.
            OnExhausted::Error
            | OnExhausted::FinalTurn
            | OnExhausted::FinalTurnInside
            | OnExhausted::BlockTools => (
                Status::Failed,
                dimension.reason(),
                Output::None,
                Rule::EndsInError,
            ),
        };
        at.tell(|config, now| self.compared(config, now, dimension, Verdict::Ended, rule));
        self.finish(Ending {
            status,
            reason,
            limiter: Some(dimension.limiter()),
            output,
        })
    }

    fn last_text(&self) -> Output {
        match self.state.progress.text {
            LastText::None => Output::None,
            LastText::Latest => Output::TurnText,
            LastText::Earlier => Output::LastText,
        }
    }

    fn fail<O: Observer>(
        &mut self,
        at: &mut Moment<'_, O>,
        reason: Reason,
        limiter: Limiter,
        rule: Rule,
    ) -> Action {
        at.tell(|_, _| told(Verdict::Ended, limiter, rule));
        let limiter = Some(limiter);
        self.finish(Ending {
            status: Status::Failed,
            reason,
            limiter,
            output: Output::None,
        })
    }

    fn cancel<O: Observer>(&mut self, at: &mut Moment<'_, O>) -> Action {
        at.tell(|_, _| told(Verdict::Ended, Limiter::Request, Rule::CancelRequested));
        self.finish(Ending {
            status: Status::Cancelled,
            reason: Reason::CancelledRequested,
            limiter: Some(Limiter::Request),
            output: Output::None,
        })
    }

    /// Tells what becomes of the calls from `index` on that no cap has refused already.
    fn leave_pending<O: Observer>(
        &self,
        at: &mut Moment<'_, O>,
        index: u32,
        verdict: Verdict,
        limiter: Limiter,
        rule: Rule,
    ) {
        for call in index..self.state.calls.len() as u32 {
            if let None | Some(Fate::Run) = self.state.fates.get(call as usize) {
                at.tell(|_, _| Decision {
                    call: Some(call),
                    ..told(verdict, limiter, rule)
                });
            }
        }
    }

    fn finish(&mut self, ending: Ending) -> Action {
        self.state.phase = Phase::Finished;
        Action::Finish(ending)
    }
}

/// The pause before a retry of this attempt; `None` for faults that no retry mends.
fn pause_after(fault: FaultKind, attempt: u32) -> Option<Micros> {
    let doublings = attempt.saturating_sub(1).min(16);
    let backoff = (FIRST_PAUSE << doublings).min(LONGEST_PAUSE);
    match fault {
        FaultKind::RateLimit { retry_after } => Some(retry_after.unwrap_or(backoff).max(0)),
        FaultKind::Transient | FaultKind::Idle | FaultKind::Cut => Some(backoff),
        FaultKind::Permanent | FaultKind::Protocol | FaultKind::Severed => None,
    }
}

/// A decision that compares no numbers.
fn told(verdict: Verdict, limiter: Limiter, rule: Rule) -> Decision {
    Decision {
        verdict,
        limiter,
        rule: crate::protocol::Rule::Caps(rule),
        left: Quantity::None,
        right: Quantity::None,
        call: None,
    }
}
