//! The driver: performs the engine's actions in a world, keeps the clock and the bill, kills the
//! process and restarts it from what was durable.

mod convoy;
mod course;
mod durable;
mod judge;
mod kills;
mod witness;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Action, Call, CallResult, CallStatus, Ending, Event as EngineEvent, Fault, FaultKind, Finish,
    HistoryEntry, JournalEntry, LimitsEngine, ModelTurn, Output, Reason, Status, Text, Usage,
};
use holdback_scenarios::policy::Family;

pub use convoy::Convoy;
pub use kills::KillPlan;
pub use witness::{Books, Resumption, Witness};

use crate::luck::{another, purpose};
use crate::policy::Facts;
use crate::tally::{Cause, Event, Outcome, RunRecord};
use crate::world::{Before, Ran, Reply, ReplyOutcome, World};
use course::Course;
use durable::DurableStore;
use judge::judge;

/// A run that sends this many requests, or whose process dies this often, without any limit ending it
/// is stopped and judged endless.
const MAX_MODEL_CALLS: u64 = 10_000;
const MAX_KILLS: u64 = 10_000;
/// How many actions a run may take: far more than its requests can need, so more is a defect.
const MAX_ACTIONS: u64 = 500_000_000;

/// A policy as the driver needs it.
#[derive(Debug)]
pub struct Plan<'p, C> {
    /// Whose vocabulary and durability hold.
    pub family: Family,
    /// The compiled limits.
    pub config: &'p C,
    /// The compiled limits after the first restart, if they change.
    pub resume_config: Option<&'p C>,
    /// What the world and the tally know of the policy.
    pub facts: &'p Facts,
    /// Billed for each checkpoint written.
    pub checkpoint_cost: Money,
}

impl<C> Clone for Plan<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Plan<'_, C> {}

/// Drives runs, one after the other, reusing its memory.
#[derive(Debug)]
pub struct Driver<E: LimitsEngine, M> {
    engine: E,
    results: Vec<CallResult>,
    durable: DurableStore<E::Checkpoint, M>,
}

/// Why the loop left its normal course.
enum Died {
    No,
    Yes { tail_word: u32 },
}

/// A run at the point where its engine hears of an event: everything but the engine.
struct Junction<'a, C, K, W: World> {
    config: &'a C,
    world: &'a W,
    course: &'a Course,
    durable: &'a DurableStore<K, W::Mark>,
    event: EngineEvent<'a>,
}

/// Who goes by the engine's decisions: a policy alone, or others with it.
trait Company<E: LimitsEngine, W: World> {
    /// Advances the engine by the event.
    fn advance<T: Witness>(
        &mut self,
        engine: &mut E,
        at: &Junction<'_, E::Config, E::Checkpoint, W>,
        witness: &mut T,
    ) -> Action;

    /// The engine was restarted from the durable store and has not begun.
    fn resumed(&mut self, engine: &E, at: &Junction<'_, E::Config, E::Checkpoint, W>);
}

/// One policy, nobody beside it.
struct Alone;

impl<E: LimitsEngine, W: World> Company<E, W> for Alone {
    #[inline]
    fn advance<T: Witness>(
        &mut self,
        engine: &mut E,
        at: &Junction<'_, E::Config, E::Checkpoint, W>,
        witness: &mut T,
    ) -> Action {
        engine.advance(at.config, at.course.now, at.event, witness)
    }

    fn resumed(&mut self, _engine: &E, _at: &Junction<'_, E::Config, E::Checkpoint, W>) {}
}

impl<E: LimitsEngine, M: Clone + Default> Driver<E, M> {
    /// A driver for runs under this policy.
    pub fn new(config: &E::Config) -> Self {
        Driver {
            engine: E::new(config),
            results: Vec::new(),
            durable: DurableStore::default(),
        }
    }

    /// Drives run number `run` from start to end.
    pub fn run<W: World<Mark = M>, T: Witness>(
        &mut self,
        plan: &Plan<'_, E::Config>,
        world: &mut W,
        run: u64,
        witness: &mut T,
    ) -> RunRecord {
        let (course, action) = self.begin(plan, world, run, witness, &mut Alone);
        self.go_on(plan, world, course, action, run, witness, &mut Alone)
    }

    /// Begins a run and returns its first action.
    fn begin<W: World<Mark = M>, T: Witness>(
        &mut self,
        plan: &Plan<'_, E::Config>,
        world: &mut W,
        run: u64,
        witness: &mut T,
        company: &mut impl Company<E, W>,
    ) -> (Course, Action) {
        world.start(run, plan.facts);
        self.engine.reset(plan.config);
        let course = Course::new(world.kills().possible());
        if course.keeps_durable {
            self.durable.clear(world.mark());
        }
        let at = Junction {
            config: plan.config,
            world: &*world,
            course: &course,
            durable: &self.durable,
            event: EngineEvent::Start,
        };
        let action = company.advance(&mut self.engine, &at, witness);
        (course, action)
    }

    /// Drives a run from this action to its end.
    #[allow(clippy::too_many_arguments)]
    fn go_on<W: World<Mark = M>, T: Witness>(
        &mut self,
        plan: &Plan<'_, E::Config>,
        world: &mut W,
        mut course: Course,
        mut action: Action,
        run: u64,
        witness: &mut T,
        company: &mut impl Company<E, W>,
    ) -> RunRecord {
        let mut config = match course.record.kills {
            0 => plan.config,
            _ => plan.resume_config.unwrap_or(plan.config),
        };
        for _ in 0..MAX_ACTIONS {
            if T::ACTIVE {
                let books = Books {
                    billed: course.record.billed,
                    ledger: self.engine.ledger(config),
                    counters: self.engine.counters(),
                };
                witness.acted(course.now, &action, &books);
            }
            if let Action::Finish(ending) = action {
                return self.finish(plan, config, world, course, &ending);
            }
            let is_request = matches!(action, Action::CallModel(_));
            if (course.record.model_calls >= MAX_MODEL_CALLS && is_request)
                || course.record.kills >= MAX_KILLS
            {
                course.endless = true;
                return self.finish(plan, config, world, course, &ENDLESS);
            }
            let died = self.perform(
                plan,
                config,
                world,
                &mut course,
                &mut action,
                witness,
                company,
            );
            if let Died::Yes { tail_word } = died {
                config = plan.resume_config.unwrap_or(config);
                action = self.restart(
                    plan,
                    config,
                    world,
                    &mut course,
                    tail_word,
                    witness,
                    company,
                );
            }
        }
        panic!("run {run} does not end: the engine asked for {MAX_ACTIONS} actions");
    }

    /// Performs one action and replaces it by the next.
    #[allow(clippy::too_many_arguments)]
    fn perform<W: World<Mark = M>, T: Witness>(
        &mut self,
        plan: &Plan<'_, E::Config>,
        config: &E::Config,
        world: &mut W,
        course: &mut Course,
        action: &mut Action,
        witness: &mut T,
        company: &mut impl Company<E, W>,
    ) -> Died {
        let event = match *action {
            Action::CallModel(request) => {
                let before = Before {
                    requests: course.record.model_calls,
                    kills: course.record.kills,
                };
                let reply = world.request(&request, course.now, before);
                course.bill(&request, &reply);
                course.mark_request(plan.facts, &request, &reply, world.proposed());
                witness.replied(course.now, &request, &reply, world.proposed());
                if reply.died {
                    course.record.seen.mark(Event::KillInModelCall);
                    return Died::Yes {
                        tail_word: reply.tail_word,
                    };
                }
                if course.keeps_durable && matches!(reply.outcome, ReplyOutcome::Turn { .. }) {
                    self.durable.propose(world.proposed());
                }
                course.turn(&reply, world.proposed().len() as u64);
                engine_event(plan.family, &reply, world.proposed())
            }
            Action::RunCall { index, recovered } => {
                let call = self.engine.calls()[index as usize];
                let (ran, died) = self.execute(plan, world, course, &call, recovered, witness);
                course.now += ran.latency;
                if let Died::Yes { .. } = died {
                    return died;
                }
                EngineEvent::CallDone(ran.result)
            }
            Action::RunBatch {
                first,
                count,
                recovered,
            } => {
                self.results.clear();
                let mut longest = 0;
                for index in first..first + count {
                    let call = self.engine.calls()[index as usize];
                    let (ran, died) = self.execute(plan, world, course, &call, recovered, witness);
                    longest = longest.max(ran.latency);
                    if let Died::Yes { .. } = died {
                        course.now += longest;
                        return died;
                    }
                    self.results.push(ran.result);
                }
                course.now += longest;
                EngineEvent::BatchDone(&self.results)
            }
            Action::JudgeTerminal { index } => {
                let call = self.engine.calls()[index as usize];
                course.open = course.open.saturating_sub(1);
                let accepted = world.judge(&call);
                if !accepted && course.keeps_durable {
                    self.durable.answer(HistoryEntry::Answered { call });
                }
                course.record.messages += u64::from(!accepted);
                EngineEvent::TerminalJudged(accepted)
            }
            Action::AnswerCalls {
                first,
                count,
                verdict,
                limiter,
            } => {
                for index in first..first + count {
                    let call = self.engine.calls()[index as usize];
                    world.answered(&call, verdict, limiter);
                    if course.keeps_durable {
                        self.durable.answer(HistoryEntry::Answered { call });
                    }
                }
                course.answered(verdict, limiter, u64::from(count));
                EngineEvent::Done
            }
            Action::Notify(notice) => {
                world.notify(&notice);
                course.notice(&notice);
                EngineEvent::Done
            }
            Action::Save(_) => {
                self.save(plan, config, world, course);
                EngineEvent::Done
            }
            Action::Record(_) => {
                self.durable.counters = *self.engine.counters();
                EngineEvent::Done
            }
            Action::Journal(entry) => {
                match entry {
                    JournalEntry::Grant { .. } => course.record.seen.mark(Event::GrantGiven),
                    JournalEntry::Window { .. } => course.record.seen.mark(Event::WindowEntered),
                }
                if course.keeps_durable {
                    self.durable.journal.push(entry);
                }
                EngineEvent::Done
            }
            Action::EstimatePrompt => {
                let tokens = world.estimate();
                witness.estimated(tokens);
                EngineEvent::PromptEstimated(tokens)
            }
            Action::Wait(pause) => {
                course.now += pause;
                EngineEvent::Done
            }
            Action::ContinueStream | Action::SeverStream | Action::Finish(_) => unasked(*action),
        };
        let at = Junction {
            config,
            world: &*world,
            course: &*course,
            durable: &self.durable,
            event,
        };
        *action = company.advance(&mut self.engine, &at, witness);
        Died::No
    }

    /// Runs one call, or takes its stored outcome after a restart.
    fn execute<W: World<Mark = M>, T: Witness>(
        &mut self,
        plan: &Plan<'_, E::Config>,
        world: &mut W,
        course: &mut Course,
        call: &Call,
        recovered: bool,
        witness: &mut T,
    ) -> (Ran, Died) {
        course.open = course.open.saturating_sub(1);
        if recovered && let Some(mut ran) = self.durable.stored(call.id) {
            world.replay(call, &ran);
            ran.latency = 0;
            course.rejoined();
            self.durable.answer(HistoryEntry::Result {
                call: *call,
                result: ran.result,
            });
            witness.ran(course.now, call, &ran, true);
            return (ran, Died::No);
        }
        let ran = world.run(call);
        course.executed(&ran);
        witness.ran(course.now, call, &ran, false);
        if course.keeps_durable {
            let execution = course.record.tool_calls;
            if ran.result.status != CallStatus::Denied
                && world
                    .kills()
                    .after_tool(course.record.kills, execution, ran.kill_word)
            {
                course.record.seen.mark(Event::KillMidBatch);
                let tail_word = another(ran.kill_word, purpose::TAIL_LOSS);
                return (ran, Died::Yes { tail_word });
            }
            if stores_outcomes(plan.family) {
                self.durable.store(call.id, ran);
            }
            self.durable.answer(HistoryEntry::Result {
                call: *call,
                result: ran.result,
            });
        }
        (ran, Died::No)
    }

    fn save<W: World<Mark = M>>(
        &mut self,
        plan: &Plan<'_, E::Config>,
        config: &E::Config,
        world: &W,
        course: &mut Course,
    ) {
        course.record.checkpoints += 1;
        course.record.checkpoint_bytes += world.context_tokens().saturating_mul(4);
        course.record.billed += plan.checkpoint_cost;
        if !course.keeps_durable {
            return;
        }
        let slot = self.durable.next_slot();
        self.engine.save(config, &mut slot.checkpoint);
        slot.mark = world.mark();
        slot.standing = course.standing;
        self.durable.commit();
    }

    /// A new process from what was durable; returns its first action.
    #[allow(clippy::too_many_arguments)]
    fn restart<W: World<Mark = M>, T: Witness>(
        &mut self,
        plan: &Plan<'_, E::Config>,
        config: &E::Config,
        world: &mut W,
        course: &mut Course,
        tail_word: u32,
        witness: &mut T,
        company: &mut impl Company<E, W>,
    ) -> Action {
        witness.killed(course.now);
        course.record.kills += 1;
        course.record.untouched = false;
        let downtime = world.kills().downtime(tail_word);
        course.now += downtime;
        let tail_lost = world.kills().loses_tail(tail_word)
            && match plan.family {
                Family::UsageLimits => self.durable.journal.pop().is_some(),
                Family::RunLimits | Family::Caps => self.durable.drop_newest(),
            };
        if tail_lost {
            course.record.seen.mark(Event::ResumeAfterTailLoss);
        }
        let slot = self.durable.restore();
        world.rewind(&slot.mark);
        course.go_back(&slot.standing);
        let durable = self.durable.durable();
        let from_checkpoint = durable.checkpoint.is_some();
        self.engine = E::resume(config, durable);
        let resumption = Resumption {
            from_checkpoint,
            tail_lost,
            downtime,
            calls: self.engine.calls(),
        };
        witness.resumed(course.now, &resumption);
        let at = Junction {
            config,
            world: &*world,
            course: &*course,
            durable: &self.durable,
            event: EngineEvent::Start,
        };
        company.resumed(&self.engine, &at);
        company.advance(&mut self.engine, &at, witness)
    }

    fn finish<W: World<Mark = M>>(
        &self,
        plan: &Plan<'_, E::Config>,
        config: &E::Config,
        world: &W,
        mut course: Course,
        ending: &Ending,
    ) -> RunRecord {
        // A restart may find other limits, or have lost a grant; before one the caps bind.
        if course.record.kills == 0 {
            let over_cap = self.engine.over_cap(config);
            assert!(over_cap.is_none(), "counted past the cap on {over_cap:?}");
        }
        course.close_batch();
        let ledger = self.engine.ledger(config);
        let facts = plan.facts;
        let record = &mut course.record;
        let (outcome, cause) = if course.endless {
            (Outcome::Unanswered, Cause::Endless)
        } else {
            judge(
                ending,
                &course.standing.text,
                course.overflowed,
                world.ended_without_answer(),
            )
        };
        record.outcome = outcome;
        record.cause = cause;
        record.limiter = ending.limiter;
        record.unread_results += course.standing.unread;
        record.evidence = world.evidence();
        record.evidence_entries = world.evidence_entries();
        record.ledger = ledger;
        record.duration = course.now;
        settle(record, facts);
        course.mark_ending(ending);
        course.record
    }
}

/// Holds what a run has spent against a policy's cap on money and time.
fn settle(record: &mut RunRecord, facts: &Facts) {
    record.overspend = facts
        .money_cap
        .map(|cap| (facts.already_spent + record.billed - cap).or_zero());
    record.reserve_left = facts
        .money_cap
        .map(|cap| (cap - facts.already_spent - record.ledger).or_zero());
    record.late = facts
        .time_limit
        .is_some_and(|limit| record.duration > limit);
    let overspent = record
        .overspend
        .is_some_and(|overspend| overspend > Money::ZERO);
    record.seen.set(Event::Overspent, overspent);
}

/// Takes a copy: while nothing takes the address of the loop's action, the compiler lets the engine
/// write it in place, which spares a tenth of a run's time.
///
/// # Panics
/// Always: these actions follow events that this driver does not send.
#[cold]
fn unasked(action: Action) -> ! {
    unreachable!("{action:?} answers no event that this driver sends")
}

/// The ending of a run that no limit ends.
const ENDLESS: Ending = Ending {
    status: Status::Stopped,
    reason: Reason::Completed,
    limiter: None,
    output: Output::None,
};

/// Whether a family stores each tool outcome on its own, so that a finished call never runs twice.
fn stores_outcomes(family: Family) -> bool {
    family == Family::RunLimits
}

fn engine_event<'a>(family: Family, reply: &Reply, calls: &'a [Call]) -> EngineEvent<'a> {
    let usage = reply.told.unwrap_or_default();
    let failed = |kind, produced_output| {
        EngineEvent::ModelFailed(Fault {
            kind,
            produced_output,
            usage: reply.told,
            cost: reply.told_cost,
        })
    };
    let done = |usage, text, finish, typed| {
        EngineEvent::ModelDone(ModelTurn {
            usage,
            cost: reply.told_cost,
            text,
            calls,
            finish,
            typed,
        })
    };
    match reply.outcome {
        ReplyOutcome::Turn {
            text,
            finish,
            typed,
        } => done(usage, text, finish, typed),
        ReplyOutcome::Fault {
            kind,
            produced_output,
        } => failed(kind, produced_output),
        ReplyOutcome::Overflow if family == Family::UsageLimits => done(
            Usage::default(),
            Text::Absent,
            Finish::ContextOverflow,
            false,
        ),
        ReplyOutcome::Overflow => failed(FaultKind::Permanent, false),
    }
}
