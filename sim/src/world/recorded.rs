//! A recorded run, played again under a policy (design section 8).

use std::num::NonZeroU64;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Call, CallResult, CallStatus, Digest, Finish, Instruction, Limiter, Micros, ModelRequest,
    Notice, Signature, Text, ToolId, Tools, Usage, Verdict,
};
use holdback_scenarios::price::Price;

use super::{Before, Ran, Reply, ReplyOutcome, World};
use crate::driver::KillPlan;
use crate::luck::{Chance, Luck, LuckKey, model, tool};
use crate::policy::Facts;
use crate::tally::Seen;

/// A recorded run made ready to be played: costs known, names numbered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The label of its source.
    pub source: String,
    /// Its identity at the source.
    pub run_id: String,
    /// Its model calls.
    pub turns: Vec<RecordedTurn>,
    /// The tool calls of all turns, in order.
    pub calls: Vec<RecordedCall>,
    /// The last turn is the answer; false: the record ends without one.
    pub answered: bool,
}

/// One recorded model call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedTurn {
    /// Tokens; what the record does not tell is 0.
    pub usage: Usage,
    /// What it cost.
    pub cost: Money,
    /// First and past-the-last position of its calls in [`Record::calls`].
    pub calls: (u32, u32),
}

/// One recorded tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// The tool.
    pub tool: ToolId,
    /// Identity by name and arguments; fresh if the record does not tell.
    pub signature: Option<NonZeroU64>,
    /// Identity of the result; fresh if the record does not tell.
    pub digest: Option<NonZeroU64>,
    /// The call failed.
    pub error: bool,
    /// The pseudo-call of a turn without calls: free, and no evidence.
    pub pseudo: bool,
}

impl Record {
    /// Distinct results of the record, failures and pseudo-calls left out: what the run gathered
    /// without any engine.
    pub fn distinct_results(&self) -> u64 {
        let mut seen: Vec<NonZeroU64> = Vec::new();
        let mut fresh = 0;
        for call in self.calls.iter().filter(|call| !call.error && !call.pseudo) {
            match call.digest {
                Some(digest) => seen.push(digest),
                None => fresh += 1,
            }
        }
        seen.sort_unstable();
        seen.dedup();
        fresh + seen.len() as u64
    }
}

/// A world that plays records; one is reused for all records of a thread.
#[derive(Clone, Debug)]
pub struct Recorded<'r> {
    record: &'r Record,
    compliance: Chance,
    price: Option<Price>,
    kills: KillPlan,
    luck: Luck,
    terminal_tool: Option<ToolId>,
    proposed: Vec<Call>,
    /// Position in the record's calls by call id; past their end for a terminal call.
    played: Vec<u32>,
    digests: Vec<NonZeroU64>,
    talk: RecordedTalk,
}

/// The conversation, as far as it decides what happens next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedTalk {
    position: usize,
    digests: usize,
    evidence: u64,
    entries: u64,
    context: u64,
    finishes: Option<bool>,
    told: bool,
    exhausted: bool,
}

impl<'r> Recorded<'r> {
    /// A world that plays `record`. Luck decides only about obedience to controls.
    pub fn new(
        record: &'r Record,
        compliance: f64,
        price: Option<Price>,
        key: LuckKey,
    ) -> Recorded<'r> {
        Recorded {
            record,
            compliance: Chance::new(compliance),
            price,
            kills: KillPlan::new(&holdback_scenarios::scenario::Kills::default()),
            luck: Luck::new(key),
            terminal_tool: None,
            proposed: Vec::new(),
            played: Vec::new(),
            digests: Vec::new(),
            talk: RecordedTalk::default(),
        }
    }

    /// Plays another record from now on.
    pub fn load(&mut self, record: &'r Record) {
        self.record = record;
    }

    fn obeys(&mut self, request: &ModelRequest, words: &[u32; crate::luck::MODEL_WORDS]) -> bool {
        if self.talk.told && self.talk.finishes.is_none() {
            self.talk.finishes = Some(self.compliance.happens(words[model::WINDOW]));
        }
        if matches!(request.tools, Tools::Withheld | Tools::Absent) {
            return self.compliance.happens(words[model::TOOLS_WITHHELD]);
        }
        let told = matches!(
            request.instruction,
            Some(
                Instruction::SynthesisOnly(_)
                    | Instruction::FinalTurn(_)
                    | Instruction::Drained { .. }
            )
        );
        (told && self.compliance.happens(words[model::SYNTHESIS_ONLY]))
            || self.talk.finishes == Some(true)
    }

    /// The answer: through the terminal tool where the policy has one and the request offers it.
    fn answer(&mut self, request: &ModelRequest) -> ReplyOutcome {
        let mut text = Text::Content;
        if let Some(tool) = self.terminal_tool
            && !matches!(request.tools, Tools::Withheld | Tools::Absent)
        {
            let id = self.played.len() as u32;
            self.played.push(u32::MAX);
            let signature = Signature(NonZeroU64::MIN.saturating_add(u64::from(id)));
            self.proposed.push(Call {
                id,
                tool,
                raw_signature: signature,
                canonical_signature: Some(signature),
                denial_key: signature,
                denied: false,
                parallel: false,
                terminal: true,
            });
            text = Text::Absent;
        }
        ReplyOutcome::Turn {
            text,
            finish: Finish::Stop,
            typed: true,
        }
    }

    fn propose(&mut self, range: (u32, u32)) {
        for at in range.0..range.1 {
            let recorded = self.record.calls[at as usize];
            let id = self.played.len() as u32;
            self.played.push(at);
            // Ids stay far below recorded hashes, which fill their 64 bits.
            let fresh = NonZeroU64::MIN.saturating_add(u64::from(id));
            let signature = Signature(recorded.signature.unwrap_or(fresh));
            self.proposed.push(Call {
                id,
                tool: recorded.tool,
                raw_signature: signature,
                canonical_signature: Some(signature),
                denial_key: signature,
                denied: false,
                parallel: true,
                terminal: false,
            });
        }
    }

    fn learn(&mut self, call: &Call, result: &CallResult) {
        let recorded = self.record.calls[self.played[call.id as usize] as usize];
        self.talk.entries += u64::from(result.recorded_evidence);
        if result.status != CallStatus::Succeeded || recorded.pseudo {
            return;
        }
        let Some(Digest(digest)) = result.digest else {
            return;
        };
        self.digests.truncate(self.talk.digests);
        if !self.digests.contains(&digest) {
            self.digests.push(digest);
            self.talk.digests += 1;
            self.talk.evidence += 1;
        }
    }
}

impl World for Recorded<'_> {
    type Mark = RecordedTalk;

    fn start(&mut self, run: u64, facts: &Facts) {
        self.luck.start(run);
        self.terminal_tool = facts.terminal_tool;
        self.proposed.clear();
        self.played.clear();
        self.digests.clear();
        self.talk = RecordedTalk::default();
    }

    fn kills(&self) -> &KillPlan {
        &self.kills
    }

    fn estimate(&mut self) -> f64 {
        let at = self
            .talk
            .position
            .min(self.record.turns.len().saturating_sub(1));
        self.record
            .turns
            .get(at)
            .map_or(0.0, |turn| turn.usage.input as f64)
    }

    fn request(&mut self, request: &ModelRequest, _now: Micros, _before: Before) -> Reply {
        let words = *self.luck.model();
        self.proposed.clear();
        let obeys = self.obeys(request, &words);
        let position = self.talk.position;
        self.talk.position += 1;
        let last = self.record.turns.len().saturating_sub(1);
        if position > last {
            // The record has nothing more to play: the run ends as it did, and nothing is billed.
            self.talk.exhausted = true;
            return reply(self.answer(request), None);
        }
        let turn = self.record.turns[position];
        let charge = Some((turn.usage, turn.cost));
        self.talk.context = turn.usage.input;
        if let Some(cap) = request.output_cap.filter(|cap| turn.usage.output > *cap) {
            let usage = Usage {
                output: cap,
                ..turn.usage
            };
            let cost = self.price.map_or(turn.cost, |price| price.cost(&usage));
            return reply(spoken(Text::Content, true), Some((usage, cost)));
        }
        if obeys || (position == last && self.record.answered) {
            return reply(self.answer(request), charge);
        }
        if position == last && turn.calls.0 == turn.calls.1 {
            self.talk.exhausted = true;
            return reply(self.answer(request), charge);
        }
        self.propose(turn.calls);
        reply(spoken(Text::Absent, false), charge)
    }

    fn proposed(&self) -> &[Call] {
        &self.proposed
    }

    fn run(&mut self, call: &Call) -> Ran {
        let recorded = self.record.calls[self.played[call.id as usize] as usize];
        let fresh = NonZeroU64::MIN.saturating_add(u64::from(call.id));
        let result = CallResult {
            status: if recorded.error {
                CallStatus::Failed
            } else {
                CallStatus::Succeeded
            },
            digest: (!recorded.error).then_some(Digest(recorded.digest.unwrap_or(fresh))),
            recorded_evidence: false,
            cost: Money::ZERO,
        };
        self.learn(call, &result);
        Ran {
            result,
            latency: 0,
            kill_word: u32::MAX,
        }
    }

    fn replay(&mut self, call: &Call, ran: &Ran) {
        self.learn(call, &ran.result);
    }

    fn judge(&mut self, _call: &Call) -> bool {
        true
    }

    fn answered(&mut self, _call: &Call, verdict: Verdict, _limiter: Limiter) {
        if verdict != Verdict::Denied || self.talk.told {
            let word = self.luck.tool()[tool::LATENCY_OR_WINDOW];
            self.talk.told = true;
            self.talk.finishes = Some(self.compliance.happens(word));
        }
    }

    fn notify(&mut self, notice: &Notice) {
        match notice {
            Notice::Window { .. } => {
                self.talk.told = true;
                self.talk.finishes = None;
            }
            Notice::Extension { .. } => {
                self.talk.told = false;
                self.talk.finishes = None;
            }
            _ => {}
        }
    }

    fn mark(&self) -> RecordedTalk {
        self.talk
    }

    fn rewind(&mut self, mark: &RecordedTalk) {
        self.talk = *mark;
        self.digests.truncate(mark.digests);
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

    fn ended_without_answer(&self) -> bool {
        self.talk.exhausted
    }
}

fn spoken(text: Text, cut: bool) -> ReplyOutcome {
    ReplyOutcome::Turn {
        text,
        finish: if cut { Finish::Length } else { Finish::Stop },
        typed: !cut,
    }
}

/// A reply of one request; without a charge it stands for no request at all.
fn reply(outcome: ReplyOutcome, charge: Option<(Usage, Money)>) -> Reply {
    let (usage, cost) = charge.unwrap_or_default();
    Reply {
        outcome,
        told: charge.map(|_| usage),
        told_cost: cost,
        billed: cost,
        usage,
        dearest: cost,
        requests: u32::from(charge.is_some()),
        latency: 0,
        seen: Seen::default(),
        died: false,
        tail_word: u32::MAX,
    }
}
