//! A scripted driver for the tests of this module: what a driver keeps, and nothing more.

use std::num::NonZeroU64;

use super::{Checkpoint, Config, Engine, Limits, Rules};
use crate::Money;
use crate::protocol::{
    Action, Call, CallResult, CallStatus, CheckpointKind, Counters, Decision, Durable, Ending,
    Event, Fault, FaultKind, Finish, HistoryEntry, Instruction, Limiter, LimitsEngine, Micros,
    ModelRequest, ModelTurn, Reason, Signature, Status, Text, ToolId, Usage, Verdict,
};

/// What the model does in one attempt.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) does: Does,
    pub(super) cost: Money,
    pub(super) latency: Micros,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Answer,
    Nothing,
    /// Proposes calls with these signatures.
    Calls(Vec<u64>),
    Fails(FaultKind),
}

pub(super) fn answer() -> Attempt {
    attempt(Does::Answer)
}

pub(super) fn calls(signatures: &[u64]) -> Attempt {
    attempt(Does::Calls(signatures.to_vec()))
}

pub(super) fn attempt(does: Does) -> Attempt {
    Attempt {
        does,
        cost: Money::ZERO,
        latency: 0,
    }
}

impl Attempt {
    pub(super) fn cents(mut self, cents: i64) -> Attempt {
        self.cost = Money::from_micros(cents * 10_000);
        self
    }
}

/// What the tools do, by signature: multiples of 7 are denied, multiples of 5 fail, multiples of 3
/// may not run beside others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tools {
    pub(super) cost: Money,
    pub(super) latency: Micros,
}

/// One run in one or several processes.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    pub(super) config: Config,
    pub(super) engine: Engine,
    pub(super) now: Micros,
    pub(super) decisions: Vec<Decision>,
    /// What was asked for, in order.
    pub(super) actions: Vec<Action>,
    pub(super) executed: Vec<u32>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) counters: Counters,
    script: Vec<Attempt>,
    position: usize,
    tools: Tools,
    /// What an obedient model does when a request asks it for the answer; otherwise it follows the
    /// script.
    pub(super) when_told: Option<Attempt>,
    next_call: u32,
    history: Vec<HistoryEntry>,
    stored_history: Vec<HistoryEntry>,
    happened: Happened,
}

/// The event that answers the last action.
#[derive(Clone, Debug)]
pub(super) enum Happened {
    Start,
    Done,
    Attempt(Attempt, Vec<Call>),
    Call(CallResult),
    Batch(Vec<CallResult>),
}

impl Driver {
    pub(super) fn new(limits: Limits, rules: Rules, script: Vec<Attempt>) -> Driver {
        Driver::with(Config::new(&limits, &rules, None), script, Tools::default())
    }

    pub(super) fn with(config: Config, script: Vec<Attempt>, tools: Tools) -> Driver {
        Driver {
            engine: Engine::new(&config),
            config,
            now: 0,
            decisions: Vec::new(),
            actions: Vec::new(),
            executed: Vec::new(),
            checkpoint: None,
            counters: Counters::default(),
            script,
            position: 0,
            tools,
            when_told: None,
            next_call: 0,
            history: Vec::new(),
            stored_history: Vec::new(),
            happened: Happened::Start,
        }
    }

    /// Plays to the end. A script that is too short answers.
    pub(super) fn play(&mut self) -> Ending {
        loop {
            if let Some(ending) = self.turn() {
                return ending;
            }
        }
    }

    /// One event and one action.
    pub(super) fn turn(&mut self) -> Option<Ending> {
        let action = self.advance();
        self.actions.push(action);
        self.perform(action)
    }

    fn advance(&mut self) -> Action {
        let event = self.happened.as_event();
        self.engine
            .advance(&self.config, self.now, event, &mut self.decisions)
    }

    /// What the engine is told next.
    pub(super) fn next_event(&self) -> Happened {
        self.happened.clone()
    }

    fn perform(&mut self, action: Action) -> Option<Ending> {
        self.happened = match action {
            Action::CallModel(request) => self.call_model(&request),
            Action::RunCall { index, .. } => {
                let call = self.engine.calls()[index as usize];
                Happened::Call(self.run_tool(call))
            }
            Action::RunBatch { first, count, .. } => {
                let calls = self.engine.calls()[first as usize..][..count as usize].to_vec();
                Happened::Batch(calls.into_iter().map(|call| self.run_tool(call)).collect())
            }
            Action::AnswerCalls { first, count, .. } => {
                let calls = &self.engine.calls()[first as usize..][..count as usize];
                self.history.extend(
                    calls
                        .iter()
                        .map(|call| HistoryEntry::Answered { call: *call }),
                );
                Happened::Done
            }
            Action::Record(_) => {
                self.counters = *self.engine.counters();
                Happened::Done
            }
            Action::Save(_) => {
                let mut checkpoint = self.checkpoint.take().unwrap_or_default();
                self.engine.save(&self.config, &mut checkpoint);
                self.checkpoint = Some(checkpoint);
                self.stored_history.clone_from(&self.history);
                Happened::Done
            }
            Action::Finish(ending) => return Some(ending),
            other => panic!("run_limits never asks for {other:?}"),
        };
        None
    }

    fn call_model(&mut self, request: &ModelRequest) -> Happened {
        let scripted = self
            .script
            .get(self.position)
            .cloned()
            .unwrap_or_else(answer);
        let attempt = match &self.when_told {
            Some(obeys) if request.instruction.is_some() => obeys.clone(),
            _ => scripted,
        };
        self.position += 1;
        self.now += attempt.latency;
        let mut proposed = Vec::new();
        if let Does::Calls(signatures) = &attempt.does {
            for signature in signatures {
                proposed.push(call(self.next_call, *signature));
                self.next_call += 1;
            }
        }
        if !matches!(attempt.does, Does::Fails(_)) {
            self.history.push(HistoryEntry::Turn);
            self.history
                .extend(proposed.iter().copied().map(HistoryEntry::Proposed));
        }
        Happened::Attempt(attempt, proposed)
    }

    fn run_tool(&mut self, call: Call) -> CallResult {
        self.now += self.tools.latency;
        self.executed.push(call.id);
        let signature = call.raw_signature.0.get();
        let result = CallResult {
            status: match signature {
                s if s.is_multiple_of(7) => CallStatus::Denied,
                s if s.is_multiple_of(5) => CallStatus::Failed,
                _ => CallStatus::Succeeded,
            },
            digest: None,
            recorded_evidence: false,
            cost: self.tools.cost,
        };
        self.history.push(HistoryEntry::Result { call, result });
        result
    }

    /// The process dies instead of doing the last action, and a new one takes up what is durable.
    pub(super) fn crash(&mut self) {
        self.resume_from(self.checkpoint.clone(), self.stored_history.clone());
    }

    /// A new process takes up an earlier checkpoint.
    pub(super) fn resume_from(
        &mut self,
        checkpoint: Option<Checkpoint>,
        history: Vec<HistoryEntry>,
    ) {
        self.engine = Engine::resume(
            &self.config,
            Durable {
                checkpoint: checkpoint.as_ref(),
                counters: &self.counters,
                journal: &[],
                history: &history,
            },
        );
        self.checkpoint = checkpoint;
        self.stored_history.clone_from(&history);
        self.history = history;
        self.happened = Happened::Start;
    }

    /// Plays until a checkpoint of this kind is durable.
    pub(super) fn play_until_saved(&mut self, kind: CheckpointKind) {
        while self.actions.last() != Some(&Action::Save(kind)) {
            assert!(self.turn().is_none(), "the run ended before {kind:?}");
        }
    }

    /// The stored conversation.
    pub(super) fn stored_history(&self) -> &[HistoryEntry] {
        &self.stored_history
    }

    /// The dimension that each request's control names.
    pub(super) fn controls(&self) -> Vec<Option<Limiter>> {
        self.actions
            .iter()
            .filter_map(|action| match action {
                Action::CallModel(request) => {
                    Some(request.instruction.map(|instruction| match instruction {
                        Instruction::SynthesisOnly(limiter) => limiter,
                        other => panic!("run_limits never instructs {other:?}"),
                    }))
                }
                _ => None,
            })
            .collect()
    }

    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.decisions
            .iter()
            .filter(|d| d.verdict == verdict)
            .count()
    }
}

impl Happened {
    pub(super) fn as_event(&self) -> Event<'_> {
        match self {
            Happened::Start => Event::Start,
            Happened::Done => Event::Done,
            Happened::Call(result) => Event::CallDone(*result),
            Happened::Batch(results) => Event::BatchDone(results),
            Happened::Attempt(attempt, calls) => model_event(attempt, calls),
        }
    }
}

fn model_event<'a>(attempt: &Attempt, calls: &'a [Call]) -> Event<'a> {
    let usage = Usage {
        input: 100,
        output: 10,
        ..Usage::default()
    };
    let text = match attempt.does {
        Does::Answer => Text::Content,
        Does::Nothing | Does::Calls(_) => Text::Absent,
        Does::Fails(kind) => {
            return Event::ModelFailed(Fault {
                kind,
                produced_output: false,
                usage: Some(usage),
                cost: attempt.cost,
            });
        }
    };
    Event::ModelDone(ModelTurn {
        usage,
        cost: attempt.cost,
        text,
        calls,
        finish: Finish::Stop,
        typed: false,
    })
}

fn call(id: u32, signature: u64) -> Call {
    let key = Signature(NonZeroU64::new(signature).expect("signatures of tests are positive"));
    Call {
        id,
        tool: ToolId(0),
        raw_signature: key,
        canonical_signature: Some(key),
        denial_key: key,
        denied: signature.is_multiple_of(7),
        parallel: !signature.is_multiple_of(3) && !signature.is_multiple_of(7),
        terminal: false,
    }
}

/// Status and reason, for short assertions.
pub(super) fn verdict(ending: Ending) -> (Status, Reason) {
    (ending.status, ending.reason)
}

pub(super) const COMPLETED: (Status, Reason) = (Status::Completed, Reason::Completed);
