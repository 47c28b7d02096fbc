//! Requests on the wire: what the provider charges, how long it takes, and how it goes wrong.

use holdback_engine::Money;
use holdback_engine::protocol::{FaultKind, Finish, Micros, ModelRequest, Text, Tools, Usage};

use super::Synthetic;
use super::compiled::{Drawn, micros, times};
use super::model::Intent;
use crate::luck::{MODEL_WORDS, model};
use crate::tally::{Event, Seen};
use crate::world::{ReplyOutcome, scaled};

/// The longest that a silent stream is listened to where the policy sets no idle timeout.
const LONGEST_SILENCE: Micros = 600_000_000;
/// The transport waits a second before it sends a request again, unless the provider tells how long.
const TRANSPORT_PAUSE: Micros = 1_000_000;

/// One request on the wire, before the engine's attempt is put together.
pub(super) struct Wire {
    pub(super) outcome: ReplyOutcome,
    pub(super) usage: Usage,
    pub(super) billed: Money,
    /// What the usage costs at the plain price.
    pub(super) plain: Money,
    pub(super) latency: Micros,
    /// The provider refused to work on it: how long the transport waits before it sends it again.
    pub(super) again_after: Option<Micros>,
}

/// A request that fits the context window, with what is drawn for it.
struct Sent<'a> {
    request: &'a ModelRequest,
    words: &'a [u32; MODEL_WORDS],
    cap: u64,
    input: Usage,
    intent: Intent,
}

/// What the model would write.
struct Draft {
    visible: u64,
    reasoning: u64,
    /// The output cap cuts it.
    cut: bool,
    spiked: bool,
}

impl Draft {
    fn output(&self) -> u64 {
        self.visible + self.reasoning
    }
}

impl Synthetic<'_> {
    pub(super) fn wire(
        &mut self,
        request: &ModelRequest,
        words: &[u32; MODEL_WORDS],
        now: Micros,
        seen: &mut Seen,
    ) -> Wire {
        let scenario = self.scenario;
        let Some(cap) = self.output_cap(request) else {
            return OVERFLOW;
        };
        let sent = Sent {
            request,
            words,
            cap,
            input: self.input(request, words, now),
            intent: self.intent(request, words),
        };
        let mut wire = match self.draw_fault(words) {
            Some(fault) => self.fault(fault, &sent, seen),
            None => self.turn(&sent, seen),
        };
        wire.plain = scenario.price.cost(&wire.usage);
        wire.billed = match &scenario.long_context {
            Some((above, price)) if sent.input.input > *above => {
                seen.mark(Event::LongContext);
                price.cost(&wire.usage)
            }
            _ => wire.plain,
        };
        wire
    }

    /// The output cap on the wire; `None` if the request does not fit the context window.
    fn output_cap(&self, request: &ModelRequest) -> Option<u64> {
        let scenario = self.scenario;
        let mut cap = request
            .output_cap
            .unwrap_or(u64::MAX)
            .min(scenario.max_output.unwrap_or(u64::MAX));
        if let Some(window) = scenario.window {
            let input = self.talk.context;
            if scenario.clamp_to_window {
                cap = cap.min(window.saturating_sub(input));
            }
            let wanted = if cap == u64::MAX { 1 } else { cap.max(1) };
            if input.saturating_add(wanted) > window {
                return None;
            }
        }
        Some(cap)
    }

    /// The input of a request, with what of it is read from the cache and what is written to it.
    fn input(&self, request: &ModelRequest, words: &[u32; MODEL_WORDS], now: Micros) -> Usage {
        let input = self.talk.context;
        let Some(cache) = &self.kind.cache else {
            return Usage {
                input,
                ..Usage::default()
            };
        };
        let chance = if request.instruction.is_some() || request.tools != Tools::All {
            cache.hit_under_control
        } else {
            cache.hit
        };
        let fresh = now - self.provider.last_request_end <= self.scenario.cache_ttl;
        let own = if fresh && chance.happens(words[model::CACHE]) {
            self.cached(self.provider.previous_input.min(input))
        } else {
            0
        };
        // Other runs keep the shared start in the cache, whatever becomes of this run's own requests.
        let cached = if input > self.scenario.cache_up_to {
            0
        } else {
            own.max(self.scenario.cache_prefix.min(input))
        };
        Usage {
            input,
            cached,
            cache_write: input - cached,
            ..Usage::default()
        }
    }

    /// What a hit reads of the previous request's input.
    fn cached(&self, previous: u64) -> u64 {
        let share = self.scenario.cache_hit_share;
        if share >= 1.0 {
            return previous;
        }
        (previous as f64 * share + 0.5) as u64
    }

    /// A completed turn.
    fn turn(&mut self, sent: &Sent<'_>, seen: &mut Seen) -> Wire {
        let Sent { words, intent, .. } = *sent;
        let draft = self.draft(sent);
        if draft.spiked {
            seen.mark(Event::CostSpike);
        }
        self.provider.previous_input = sent.input.input;
        self.talk.context = sent.input.input.saturating_add(draft.visible);
        if !draft.cut {
            self.propose(intent, sent.request, words[model::BATCH]);
        }
        let speaks = if draft.cut {
            draft.visible > 0
        } else {
            intent == Intent::Answer && self.proposed.is_empty()
        };
        let usage = Usage {
            output: draft.output(),
            reasoning: Some(draft.reasoning),
            ..sent.input
        };
        let outcome = ReplyOutcome::Turn {
            text: if speaks { Text::Content } else { Text::Absent },
            finish: if draft.cut {
                Finish::Length
            } else {
                Finish::Stop
            },
            typed: speaks && self.facts.typed.happens(words[model::RETRY_AFTER]),
        };
        Wire::new(outcome, usage, self.latency(words))
    }

    fn latency(&self, words: &[u32; MODEL_WORDS]) -> Micros {
        micros(&self.scenario.latency_us, words[model::LATENCY])
    }

    /// What the model would write, up to the output cap.
    fn draft(&self, sent: &Sent<'_>) -> Draft {
        let scenario = self.scenario;
        let Sent { words, cap, .. } = *sent;
        let mut visible = match sent.intent {
            Intent::Answer => self.final_output,
            Intent::Nothing => 0,
            Intent::Plan | Intent::Record(_) => times(
                &scenario.output,
                words[model::OUTPUT],
                self.kind.output_scale,
            ),
        };
        let spiked = scenario.spike.happens(words[model::SPIKE]);
        if spiked {
            let factor = scenario.spike_size.value(words[model::SPIKE_SIZE]);
            visible = (visible as f64 * factor + 0.5) as u64;
        }
        let mut reasoning = times(
            &scenario.reasoning,
            words[model::REASONING],
            self.kind.reasoning_scale,
        );
        let cut = visible.saturating_add(reasoning) > cap;
        if cut {
            reasoning = reasoning.min(cap);
            visible = cap - reasoning;
        }
        Draft {
            visible,
            reasoning,
            cut,
            spiked,
        }
    }

    /// The fault of this request, if one is drawn or a storm goes on.
    fn draw_fault(&mut self, words: &[u32; MODEL_WORDS]) -> Option<Drawn> {
        if self.provider.storm_left > 0 {
            self.provider.storm_left -= 1;
            return Some(Drawn::RateLimit);
        }
        let drawn = self.scenario.faults.draw(words[model::FAULT])?;
        if drawn == Drawn::RateLimit {
            let storm = self.scenario.storm.count(words[model::SPIKE_SIZE]);
            self.provider.storm_left = storm.max(1) - 1;
        }
        Some(drawn)
    }

    /// A request that goes wrong. Where the provider had begun to work, it charges the whole input and
    /// half of what it would have written; where it refused, the billed share of the input.
    fn fault(&mut self, drawn: Drawn, sent: &Sent<'_>, seen: &mut Seen) -> Wire {
        let failed = |kind, produced_output| ReplyOutcome::Fault {
            kind,
            produced_output,
        };
        let outcome = match drawn {
            Drawn::Transient => failed(FaultKind::Transient, false),
            Drawn::TransientAfterOutput => failed(FaultKind::Transient, true),
            Drawn::Permanent => failed(FaultKind::Permanent, false),
            Drawn::Protocol => failed(FaultKind::Protocol, false),
            Drawn::Stall => failed(FaultKind::Idle, false),
            Drawn::RateLimit => {
                seen.mark(Event::RateLimited);
                let retry_after = self.retry_after(sent.words);
                failed(FaultKind::RateLimit { retry_after }, false)
            }
            Drawn::Empty => ReplyOutcome::Turn {
                text: Text::Absent,
                finish: Finish::Stop,
                typed: false,
            },
        };
        let usage = match drawn {
            Drawn::TransientAfterOutput | Drawn::Stall => Usage {
                output: self.draft(sent).output() / 2,
                ..sent.input
            },
            Drawn::Empty => sent.input,
            Drawn::Transient | Drawn::Permanent | Drawn::Protocol | Drawn::RateLimit => {
                self.billed_share(&sent.input)
            }
        };
        let mut wire = Wire::new(outcome, usage, self.latency(sent.words));
        match drawn {
            Drawn::TransientAfterOutput | Drawn::Empty => {
                self.provider.previous_input = sent.input.input;
            }
            Drawn::Stall => {
                seen.mark(Event::Stall);
                self.provider.previous_input = sent.input.input;
                let silence = sent.request.idle_timeout.unwrap_or(LONGEST_SILENCE);
                wire.latency = silence.min(LONGEST_SILENCE);
            }
            Drawn::Transient => wire.again_after = Some(TRANSPORT_PAUSE),
            Drawn::RateLimit => {
                wire.again_after = self.retry_after(sent.words).or(Some(TRANSPORT_PAUSE));
            }
            Drawn::Permanent | Drawn::Protocol => {}
        }
        wire
    }

    fn billed_share(&self, input: &Usage) -> Usage {
        let share = |tokens: u64| {
            if self.scenario.billed_share >= 1.0 {
                tokens
            } else {
                (tokens as f64 * self.scenario.billed_share + 0.5) as u64
            }
        };
        let (billed, cached) = (share(input.input), share(input.cached));
        Usage {
            input: billed,
            cached: cached.min(billed),
            cache_write: share(input.cache_write).min(billed - cached.min(billed)),
            ..Usage::default()
        }
    }

    fn retry_after(&self, words: &[u32; MODEL_WORDS]) -> Option<Micros> {
        let sampler = self.scenario.retry_after_us.as_ref()?;
        Some(micros(sampler, words[model::RETRY_AFTER]))
    }

    /// What the engine is told of a usage and a cost.
    pub(super) fn report(
        &self,
        words: &[u32; MODEL_WORDS],
        usage: Usage,
        cost: Money,
    ) -> (Option<Usage>, Money) {
        let scenario = self.scenario;
        if usage == Usage::default() || scenario.missing.happens(words[model::REPORTING]) {
            return (None, Money::ZERO);
        }
        scaled(usage, cost, scenario.factor)
    }
}

impl Wire {
    /// What it costs is filled in by [`Synthetic::wire`].
    fn new(outcome: ReplyOutcome, usage: Usage, latency: Micros) -> Wire {
        Wire {
            outcome,
            usage,
            billed: Money::ZERO,
            plain: Money::ZERO,
            latency,
            again_after: None,
        }
    }
}

/// The request does not fit the context window: refused at once, and free.
const OVERFLOW: Wire = Wire {
    outcome: ReplyOutcome::Overflow,
    usage: Usage {
        input: 0,
        cached: 0,
        cache_write: 0,
        output: 0,
        reasoning: None,
    },
    billed: Money::ZERO,
    plain: Money::ZERO,
    latency: 0,
    again_after: None,
};
