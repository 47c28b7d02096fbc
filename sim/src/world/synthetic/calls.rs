//! Calls: what is proposed, what a call brings, and what the conversation learns from it.

use std::num::NonZeroU64;

use holdback_engine::protocol::{Call, CallStatus, Digest, Micros, Signature, ToolId};

use super::compiled::{micros, times};
use super::{Synthetic, Told};
use crate::luck::{TOOL_WORDS, tool};

/// The digest of a result that brings nothing new although the run has seen no other result.
const NOTHING_NEW: Digest = Digest(NonZeroU64::MAX);

#[derive(Clone, Copy, Debug)]
pub(super) struct Proposal {
    pub(super) kind: ProposalKind,
    pub(super) draw: Draw,
    /// What it brought when it ran: running it again, or repeating it, brings the same.
    pub(super) outcome: Option<Outcome>,
    /// Executions.
    pub(super) ran: u32,
}

/// What luck holds ready for a call. Drawn as soon as it is proposed, so that the look-ups of a batch
/// wait for memory together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    /// Decides between denied, failed, novel and seen before.
    pub(super) fate: u32,
    /// Size of its own result; a repeat has that of its origin.
    pub(super) tokens: u64,
    /// How long it runs.
    pub(super) latency: Micros,
    /// If it is novel, an entry is recorded.
    pub(super) recorded: bool,
    /// If it is not run, the model obeys the window.
    pub(super) obeys: bool,
    /// The process dies behind its first execution.
    pub(super) kill: u32,
}

/// What a call brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) status: CallStatus,
    pub(super) digest: Option<Digest>,
    /// Counts as evidence.
    pub(super) novel: bool,
    /// Added to the context.
    pub(super) tokens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProposalKind {
    Fresh { tool: u16 },
    Repeat { of: u32 },
    RecordEvidence,
    Terminal,
}
impl Synthetic<'_> {
    pub(super) fn push(&mut self, kind: ProposalKind, words: [u32; TOOL_WORDS]) {
        let scenario = self.scenario;
        let id = self.proposals.len() as u32;
        let mut draw = Draw {
            fate: words[tool::STATUS],
            tokens: 0,
            latency: 0,
            recorded: scenario.record_evidence.happens(words[tool::RECORD]),
            obeys: scenario
                .window_compliance
                .happens(words[tool::LATENCY_OR_WINDOW]),
            kill: words[tool::KILL],
        };
        // The call whose arguments and result it has.
        let (origin, of, fate) = match kind {
            ProposalKind::Repeat { of } => {
                let origin = &self.proposals[of as usize];
                (of, origin.kind, origin.draw.fate)
            }
            _ => (id, kind, draw.fate),
        };
        let identity = Signature(identity(origin));
        let (tool, denied, parallel) = match of {
            ProposalKind::Fresh { tool } => {
                let compiled = &scenario.tools[usize::from(tool)];
                let denied = u64::from(fate) < compiled.denied_below;
                if origin == id {
                    let word = words[tool::SIZE];
                    draw.tokens = times(&compiled.result_tokens, word, self.kind.result_scale);
                }
                (ToolId(tool), denied, compiled.parallel && !denied)
            }
            ProposalKind::Terminal => (self.facts.terminal_tool.unwrap_or_default(), false, false),
            _ => (scenario.record_tool, false, true),
        };
        if let Some(compiled) = scenario.tools.get(usize::from(tool.0)) {
            draw.latency = micros(&compiled.latency_us, words[tool::LATENCY_OR_WINDOW]);
        }
        self.proposals.push(Proposal {
            kind,
            draw,
            outcome: None,
            ran: 0,
        });
        self.proposed.push(Call {
            id,
            tool,
            raw_signature: identity,
            canonical_signature: Some(identity),
            denial_key: identity,
            denied,
            parallel,
            terminal: kind == ProposalKind::Terminal,
        });
    }

    /// The call whose arguments and result a call has: itself, or the one that it repeats.
    fn origin(&self, id: u32) -> u32 {
        match self.proposals[id as usize].kind {
            ProposalKind::Repeat { of } => of,
            _ => id,
        }
    }

    /// What a call brings, without putting it into the conversation.
    pub(super) fn outcome(&self, call: &Call) -> Outcome {
        let proposal = &self.proposals[call.id as usize];
        if let Some(known) = proposal.outcome {
            return known;
        }
        match proposal.kind {
            ProposalKind::Fresh { tool } => self.drawn(call, usize::from(tool), &proposal.draw),
            ProposalKind::Repeat { of } => match self.proposals[of as usize].outcome {
                Some(outcome) => Outcome {
                    novel: false,
                    ..outcome
                },
                None => unreachable!("only calls that ran are repeated"),
            },
            ProposalKind::RecordEvidence | ProposalKind::Terminal => Outcome {
                status: CallStatus::Succeeded,
                digest: Some(Digest(identity(call.id))),
                novel: false,
                tokens: 0,
            },
        }
    }

    fn drawn(&self, call: &Call, at: usize, draw: &Draw) -> Outcome {
        let tool = &self.scenario.tools[at];
        let without_result = |status, tokens| Outcome {
            status,
            digest: None,
            novel: false,
            tokens,
        };
        if call.denied {
            return without_result(CallStatus::Denied, 0);
        }
        let tokens = draw.tokens;
        let fates = if self.failed_before[at] {
            &tool.after_failure
        } else {
            &tool.after_success
        };
        let word = u64::from(draw.fate);
        if word < fates.fails_below {
            return without_result(CallStatus::Failed, tokens);
        }
        let novel = word < fates.novel_below;
        let digest = if novel {
            Digest(identity(call.id))
        } else {
            self.talk.latest_digest.unwrap_or(NOTHING_NEW)
        };
        Outcome {
            status: CallStatus::Succeeded,
            digest: Some(digest),
            novel,
            tokens,
        }
    }

    /// Puts a result into the conversation.
    pub(super) fn learn(&mut self, call: &Call, outcome: &Outcome) {
        let proposal = &mut self.proposals[call.id as usize];
        proposal.outcome = Some(*outcome);
        match proposal.kind {
            ProposalKind::RecordEvidence => {
                self.talk.entries += 1;
                return;
            }
            ProposalKind::Terminal => return,
            ProposalKind::Fresh { .. } | ProposalKind::Repeat { .. } => {}
        }
        self.talk.context = self.talk.context.saturating_add(outcome.tokens);
        self.talk.records_due += u32::from(outcome.novel && proposal.draw.recorded);
        self.answered.push(self.origin(call.id));
        self.talk.answered += 1;
        self.remember_failure(call.tool, outcome.status);
        if outcome.status == CallStatus::Succeeded {
            self.talk.latest_digest = outcome.digest;
        }
        self.talk.evidence += u64::from(outcome.novel);
    }

    pub(super) fn remember_failure(&mut self, tool: ToolId, status: CallStatus) {
        if status != CallStatus::Denied {
            self.failed_before[usize::from(tool.0)] = status == CallStatus::Failed;
        }
    }

    /// A refusal, skip or denial that the model sees gives it one more chance to obey the window.
    pub(super) fn nudge(&mut self, call: &Call) {
        self.talk.finishes = Told::and(self.proposals[call.id as usize].draw.obeys);
    }
}
fn identity(id: u32) -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(u64::from(id))
}
