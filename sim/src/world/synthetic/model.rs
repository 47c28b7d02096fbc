//! What the model makes of a request: it plans, records, answers, or brings nothing.

use holdback_engine::protocol::{Instruction, ModelRequest, Tools};

use super::calls::ProposalKind;
use super::{Need, Synthetic, Told};
use crate::luck::{Chance, MODEL_WORDS, another, model, purpose, tool};

/// What the model does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Answer,
    Nothing,
    Plan,
    Record(u32),
}
impl Synthetic<'_> {
    fn satisfied(&self) -> bool {
        match self.need {
            Need::Results(results) => self.talk.evidence >= results,
            Need::Turns(turns) => self.talk.planned >= turns,
        }
    }

    pub(super) fn intent(&self, request: &ModelRequest, words: &[u32; MODEL_WORDS]) -> Intent {
        let answers = |chance: Chance, word: usize| chance.happens(words[word]);
        if !offers_tools(request) {
            let answers = answers(self.scenario.tools_withheld, model::TOOLS_WITHHELD);
            return if answers || self.satisfied() {
                Intent::Answer
            } else {
                Intent::Nothing
            };
        }
        let told = |instruction| match instruction {
            Instruction::SynthesisOnly(_) | Instruction::FinalTurn(_) => Some(Intent::Answer),
            Instruction::Drained { .. } => Some(self.finish()),
            Instruction::ReserveSummary { .. } => None,
        };
        if let Some(intent) = request.instruction.and_then(told)
            && answers(self.scenario.synthesis_only, model::SYNTHESIS_ONLY)
        {
            return intent;
        }
        if self.talk.finishes == Told::Obeys {
            self.finish()
        } else if self.satisfied() {
            if self.gives_up {
                Intent::Nothing
            } else {
                Intent::Answer
            }
        } else {
            Intent::Plan
        }
    }

    /// Records what it owes, once, then answers.
    fn finish(&self) -> Intent {
        match self.records_owed() {
            owed if owed > 0 && !self.talk.has_recorded => Intent::Record(owed),
            _ => Intent::Answer,
        }
    }

    /// Entries that a model which finishes still records: what it has found and not recorded, up to
    /// what a contract asks for.
    fn records_owed(&self) -> u32 {
        let unrecorded = self.talk.evidence.saturating_sub(self.talk.entries);
        let owed = match self.facts.min_entries {
            Some(min) => unrecorded.min(min.saturating_sub(self.talk.entries)),
            None => unrecorded,
        };
        owed.min(1_000) as u32
    }

    pub(super) fn propose(&mut self, intent: Intent, request: &ModelRequest, batch_word: u32) {
        match intent {
            Intent::Plan => {
                self.talk.planned += 1;
                let wanted = self.scenario.batch.count(batch_word).max(1);
                let calls = if self.talk.paces == Told::Obeys {
                    1
                } else {
                    wanted.min(10_000)
                };
                for _ in 0..calls {
                    self.propose_tool();
                }
                for _ in 0..std::mem::take(&mut self.talk.records_due) {
                    self.propose_own(ProposalKind::RecordEvidence);
                }
            }
            Intent::Record(entries) => {
                self.talk.records_due = 0;
                self.talk.has_recorded = true;
                for _ in 0..entries {
                    self.propose_own(ProposalKind::RecordEvidence);
                }
            }
            Intent::Answer if self.facts.terminal_tool.is_some() && offers_tools(request) => {
                self.propose_own(ProposalKind::Terminal)
            }
            Intent::Answer | Intent::Nothing => {}
        }
    }

    fn propose_tool(&mut self) {
        let words = *self.luck.tool();
        let earlier = self.talk.answered as u64;
        if earlier > 0 && self.kind.repeat_call.happens(words[tool::REPEAT]) {
            let word = words[tool::WHICH];
            let same = another(word, purpose::REPEAT_SAME);
            let of = match self.talk.repeated {
                Some(of) if self.scenario.repeat_same.happens(same) => of,
                _ => self.answered[((u64::from(word) * earlier) >> 32) as usize],
            };
            self.talk.repeated = Some(of);
            return self.push(ProposalKind::Repeat { of }, words);
        }
        let word = u64::from(words[tool::CHOICE]);
        let chosen = self.scenario.choice.iter().position(|below| word < *below);
        self.push(
            ProposalKind::Fresh {
                tool: chosen.unwrap_or(0) as u16,
            },
            words,
        );
    }

    fn propose_own(&mut self, kind: ProposalKind) {
        let words = *self.luck.tool();
        self.push(kind, words);
    }
}

fn offers_tools(request: &ModelRequest) -> bool {
    !matches!(request.tools, Tools::Withheld | Tools::Absent)
}
