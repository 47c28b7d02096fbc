//! A synthetic model, provider and tools, drawn from a scenario's distributions.
//!
//! | module | decides |
//! |---|---|
//! | `compiled` | how a scenario's numbers become thresholds and tables |
//! | `model` | what the model makes of a request: plan, record, answer or nothing |
//! | `calls` | what a proposed call is, what it brings, what is learnt from it |
//! | `provider` | what a request costs, how long it takes and how it goes wrong |

mod calls;
mod compiled;
mod model;
mod provider;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Call, CallResult, CallStatus, Digest, Limiter, Micros, ModelRequest, Notice, ToolId, Usage,
    Verdict,
};
use holdback_scenarios::scenario::TransportReported;

use self::calls::{Proposal, ProposalKind};
use self::compiled::{CompiledDemand, CompiledKind};
use super::{Before, Ran, Reply, ReplyOutcome, World, kill_word};
use crate::driver::KillPlan;
use crate::luck::{Chance, Luck, LuckKey, model as word, run};
use crate::policy::Facts;
use crate::tally::Seen;

pub use compiled::Compiled;

/// What a run needs.
#[derive(Clone, Copy, Debug)]
enum Need {
    Results(u64),
    Turns(u64),
}

/// A synthetic world; one is reused for all runs of a thread.
#[derive(Debug)]
pub struct Synthetic<'s> {
    scenario: &'s Compiled,
    luck: Luck,
    facts: Facts,
    /// Drawn once a run.
    kind: &'s CompiledKind,
    need: Need,
    gives_up: bool,
    final_output: u64,
    /// Calls that the last turn proposes.
    proposed: Vec<Call>,
    /// Every call ever proposed in the run, by its id; kept through kills, so that a call that runs
    /// again keeps its draw.
    proposals: Vec<Proposal>,
    /// Origins of the calls that a tool or the permission policy answered, oldest first.
    answered: Vec<u32>,
    /// By tool: its previous call failed.
    failed_before: Vec<bool>,
    talk: Talk,
    provider: Provider,
}

impl Clone for Synthetic<'_> {
    fn clone(&self) -> Self {
        Synthetic {
            scenario: self.scenario,
            luck: self.luck.clone(),
            facts: self.facts.clone(),
            kind: self.kind,
            need: self.need,
            gives_up: self.gives_up,
            final_output: self.final_output,
            proposed: self.proposed.clone(),
            proposals: self.proposals.clone(),
            answered: self.answered.clone(),
            failed_before: self.failed_before.clone(),
            talk: self.talk,
            provider: self.provider,
        }
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &Self) {
        let Synthetic {
            scenario,
            luck,
            facts,
            kind,
            need,
            gives_up,
            final_output,
            proposed,
            proposals,
            answered,
            failed_before,
            talk,
            provider,
        } = source;
        self.scenario = scenario;
        self.luck.clone_from(luck);
        self.facts.clone_from(facts);
        self.kind = kind;
        self.need = *need;
        self.gives_up = *gives_up;
        self.final_output = *final_output;
        self.proposed.clone_from(proposed);
        self.proposals.clone_from(proposals);
        self.answered.clone_from(answered);
        self.failed_before.clone_from(failed_before);
        self.talk = *talk;
        self.provider = *provider;
    }
}

/// What the provider remembers of the run; no kill takes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Provider {
    /// Input of the last request that it worked on.
    previous_input: u64,
    last_request_end: Micros,
    /// Requests that a rate limit still refuses.
    storm_left: u64,
}

/// The conversation, as far as it decides what happens next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Talk {
    context: u64,
    answered: usize,
    evidence: u64,
    entries: u64,
    records_due: u32,
    /// Obeys the budget notice.
    paces: Told,
    /// Obeys the window.
    finishes: Told,
    /// Has proposed the entries that it records before it answers.
    has_recorded: bool,
    /// Digest of the latest successful result.
    latest_digest: Option<Digest>,
    /// Planning turns.
    planned: u64,
    /// Origin of the latest repeat.
    repeated: Option<u32>,
}

/// Whether the model was told something, and what it makes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Not,
    /// Told; the draw is due with the next request.
    Due,
    Obeys,
    Ignores,
}

impl Told {
    /// Told, and obeys or not.
    fn and(obeys: bool) -> Told {
        if obeys { Told::Obeys } else { Told::Ignores }
    }

    fn settle(&mut self, chance: Chance, word: u32) {
        if *self == Told::Due {
            *self = Told::and(chance.happens(word));
        }
    }
}

impl<'s> Synthetic<'s> {
    /// A world of this scenario under this key of luck.
    pub fn new(scenario: &'s Compiled, key: LuckKey) -> Synthetic<'s> {
        Synthetic {
            scenario,
            luck: Luck::new(key),
            facts: Facts::default(),
            kind: &scenario.kinds[0],
            need: Need::Results(0),
            gives_up: false,
            final_output: 0,
            proposed: Vec::new(),
            proposals: Vec::new(),
            answered: Vec::new(),
            failed_before: vec![false; scenario.tools.len()],
            talk: Talk::default(),
            provider: Provider::default(),
        }
    }
}

impl World for Synthetic<'_> {
    type Mark = Talk;

    fn start(&mut self, run: u64, facts: &Facts) {
        let words = self.luck.start(run);
        self.facts.clone_from(facts);
        let word = u64::from(words[run::KIND]);
        let kinds = &self.scenario.kinds;
        self.kind = kinds
            .iter()
            .find(|kind| word < kind.below)
            .unwrap_or(&kinds[0]);
        self.need = match &self.kind.demand {
            CompiledDemand::Endless => Need::Results(u64::MAX),
            CompiledDemand::Results(sampler) => Need::Results(sampler.count(words[run::DEMAND])),
            CompiledDemand::Turns(sampler) => Need::Turns(sampler.count(words[run::DEMAND])),
        };
        self.gives_up = self.kind.gives_up.happens(words[run::GIVES_UP]);
        self.final_output = self.scenario.final_output.count(words[run::FINAL_OUTPUT]);
        self.proposed.clear();
        self.proposals.clear();
        self.answered.clear();
        self.failed_before.fill(false);
        self.talk = Talk {
            context: self.scenario.base_input.count(words[run::BASE_INPUT]),
            ..Talk::default()
        };
        self.provider = Provider::default();
    }

    fn kills(&self) -> &KillPlan {
        &self.scenario.kills
    }

    fn estimate(&mut self) -> f64 {
        let word = self.luck.peek_model()[word::ESTIMATE];
        (self.talk.context as f64 * self.scenario.estimate_error.value(word)).round()
    }

    fn request(&mut self, request: &ModelRequest, now: Micros, before: Before) -> Reply {
        let scenario = self.scenario;
        let mut reply = Reply {
            outcome: ReplyOutcome::Overflow,
            told: None,
            told_cost: Money::ZERO,
            billed: Money::ZERO,
            usage: Usage::default(),
            dearest: Money::ZERO,
            requests: 0,
            latency: 0,
            seen: Seen::default(),
            died: false,
            tail_word: 0,
        };
        loop {
            let words = *self.luck.model();
            self.talk
                .paces
                .settle(scenario.budget_notice, words[word::BUDGET_NOTICE]);
            self.talk
                .finishes
                .settle(scenario.window_compliance, words[word::WINDOW]);
            self.proposed.clear();
            let wire = self.wire(request, &words, now + reply.latency, &mut reply.seen);
            reply.requests += 1;
            reply.latency += wire.latency;
            self.provider.last_request_end = now + reply.latency;
            reply.outcome = wire.outcome;
            reply.billed += wire.billed;
            reply.dearest = reply.dearest.max(wire.billed);
            reply.usage = add(reply.usage, wire.usage);
            let told = self.report(&words, wire.usage, wire.plain);
            (reply.told, reply.told_cost) = match scenario.transport_reported {
                TransportReported::Last => told,
                TransportReported::All => add_reports((reply.told, reply.told_cost), told),
            };
            let sent = before.requests + u64::from(reply.requests);
            reply.died = scenario
                .kills
                .after_model(before.kills, sent, words[word::KILL]);
            reply.tail_word = words[word::TAIL_LOSS];
            match wire.again_after {
                Some(pause) if !reply.died && reply.requests <= scenario.transport_retries => {
                    reply.latency += pause;
                }
                _ => return reply,
            }
        }
    }

    fn proposed(&self) -> &[Call] {
        &self.proposed
    }

    fn run(&mut self, call: &Call) -> Ran {
        let outcome = self.outcome(call);
        self.learn(call, &outcome);
        let proposal = &mut self.proposals[call.id as usize];
        let (cost, latency) = match self.scenario.tools.get(usize::from(call.tool.0)) {
            Some(tool) if outcome.status != CallStatus::Denied => {
                (tool.cost, proposal.draw.latency)
            }
            _ => (Money::ZERO, 0),
        };
        let ran_before = proposal.ran;
        proposal.ran += 1;
        Ran {
            result: CallResult {
                status: outcome.status,
                digest: outcome.digest,
                recorded_evidence: call.tool == self.scenario.record_tool,
                cost,
            },
            latency,
            kill_word: kill_word(proposal.draw.kill, ran_before),
        }
    }

    fn replay(&mut self, call: &Call, _ran: &Ran) {
        let outcome = self.outcome(call);
        self.learn(call, &outcome);
    }

    fn judge(&mut self, _call: &Call) -> bool {
        true
    }

    fn answered(&mut self, call: &Call, verdict: Verdict, _limiter: Limiter) {
        if verdict == Verdict::Denied && call.denied {
            let outcome = self.outcome(call);
            self.learn(call, &outcome);
        }
        if verdict != Verdict::Denied || self.talk.finishes != Told::Not {
            self.nudge(call);
        }
    }

    fn notify(&mut self, notice: &Notice) {
        match notice {
            Notice::Budget { .. } if self.talk.paces == Told::Not => self.talk.paces = Told::Due,
            Notice::Window { .. } => {
                self.talk.finishes = Told::Due;
                self.talk.has_recorded = false;
            }
            // The cap was raised: research may go on until something is refused again.
            Notice::Extension { .. } => {
                self.talk.finishes = Told::Not;
                self.talk.has_recorded = false;
            }
            _ => {}
        }
    }

    fn mark(&self) -> Talk {
        self.talk
    }

    fn rewind(&mut self, mark: &Talk) {
        self.talk = *mark;
        self.answered.truncate(mark.answered);
        self.failed_before.fill(false);
        for at in 0..self.answered.len() {
            let proposal = &self.proposals[self.answered[at] as usize];
            if let (ProposalKind::Fresh { tool }, Some(outcome)) = (proposal.kind, proposal.outcome)
            {
                self.remember_failure(ToolId(tool), outcome.status);
            }
        }
    }

    fn context_tokens(&self) -> u64 {
        self.talk.context
    }

    fn evidence(&self) -> u64 {
        self.talk.evidence
    }

    fn evidence_entries(&self) -> u64 {
        self.talk.entries
    }
}

/// The sum of two usages.
fn add(a: Usage, b: Usage) -> Usage {
    Usage {
        input: a.input + b.input,
        cached: a.cached + b.cached,
        cache_write: a.cache_write + b.cache_write,
        output: a.output + b.output,
        reasoning: match (a.reasoning, b.reasoning) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        },
    }
}

fn add_reports(a: (Option<Usage>, Money), b: (Option<Usage>, Money)) -> (Option<Usage>, Money) {
    let usage = match (a.0, b.0) {
        (Some(a), Some(b)) => Some(add(a, b)),
        (a, b) => a.or(b),
    };
    (usage, a.1 + b.1)
}
