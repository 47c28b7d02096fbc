//! Where two runs on the same luck part, and which decisions part them.

use serde::Serialize;

use super::Timeline;
use super::event::{Event, ModelCall, Proposed, What};

/// The first point at which two runs on the same luck do different things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// In the first run.
    pub first: Side,
    /// In the second run.
    pub second: Side,
}

/// One run's side of a divergence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Position of the event that the other run does not have here.
    pub event: usize,
    /// Positions of the decisions behind it; none where no limit intervened.
    pub decisions: Vec<usize>,
}

/// The first difference in what two runs *do*: requests with what they carry and bring, what becomes
/// of calls, kills, and the judged end. What they merely write down (checkpoints, counters, numbers
/// of a comparison that decides the same) is no difference. `None` if there is none.
pub fn first_difference(first: &Timeline, second: &Timeline) -> Option<Divergence> {
    let (mine, theirs) = (effects(first), effects(second));
    let same = mine
        .iter()
        .zip(&theirs)
        .take_while(|((_, a), (_, b))| a == b)
        .count();
    // Every run ends with an effect, so two that are the same up to the shorter one's end are the same.
    let ((mine_at, _), (theirs_at, _)) = (mine.get(same)?, theirs.get(same)?);
    Some(Divergence {
        first: side(first, *mine_at),
        second: side(second, *theirs_at),
    })
}

/// What an event does, as far as another run on the same luck would do the same.
#[derive(Debug, PartialEq)]
enum Effect<'t> {
    Model(Request<'t>),
    Tool {
        call: u32,
        verdict: &'static str,
        stored: bool,
        lost: bool,
    },
    Kill,
    Resume {
        from: &'static str,
    },
    End {
        outcome: &'static str,
        reason: &'static str,
    },
}

/// What a request carries and brings. Its number, its latency and the cap on the wire are left out:
/// they matter only where they change something else here.
#[derive(Debug, PartialEq)]
struct Request<'t> {
    tools: &'static str,
    told: Vec<&'static str>,
    tokens: [u64; 4],
    ended: (&'static str, Option<&'static str>),
    calls: &'t [Proposed],
    lost: bool,
}

impl<'t> Request<'t> {
    fn new(call: &'t ModelCall) -> Request<'t> {
        let messages = call.instruction.iter().chain(&call.notices);
        Request {
            tools: call.tools,
            told: messages.map(|message| message.kind).collect(),
            tokens: [
                call.input_tokens,
                call.cached_tokens,
                call.cache_write_tokens,
                call.output_tokens,
            ],
            ended: (call.ended, call.fault),
            calls: &call.calls,
            lost: call.lost,
        }
    }
}

/// The effects of a run, each with the position of its event.
fn effects(timeline: &Timeline) -> Vec<(usize, Effect<'_>)> {
    let events = timeline.events.iter().enumerate();
    events
        .filter_map(|(at, event)| Some((at, effect(timeline, &event.what)?)))
        .collect()
}

fn effect<'t>(timeline: &'t Timeline, what: &'t What) -> Option<Effect<'t>> {
    match what {
        What::ModelCall(call) => Some(Effect::Model(Request::new(call))),
        What::ToolCall(call) => Some(Effect::Tool {
            call: call.call,
            verdict: call.verdict,
            stored: call.stored,
            lost: call.lost,
        }),
        What::Kill { .. } => Some(Effect::Kill),
        What::Resume(resumed) => Some(Effect::Resume { from: resumed.from }),
        What::End(_) => Some(Effect::End {
            outcome: timeline.outcome.outcome,
            reason: timeline.outcome.reason,
        }),
        What::Decision(_)
        | What::Notice(_)
        | What::Journal(_)
        | What::Checkpoint(_)
        | What::Record(_)
        | What::Wait { .. } => None,
    }
}

/// An effect with the decisions behind it: those since the effect before it, and for a call those
/// about it that come with its result.
fn side(timeline: &Timeline, at: usize) -> Side {
    let events = &timeline.events;
    let is_effect = |what: &What| effect(timeline, what).is_some();
    let since = events[..at]
        .iter()
        .rposition(|event| is_effect(&event.what))
        .map_or(0, |before| before + 1);
    let call = match &events[at].what {
        What::ToolCall(call) => Some(call.call),
        _ => None,
    };
    let turn_ends = |event: &Event| matches!(event.what, What::ModelCall(_) | What::Kill { .. });
    let until = events[at + 1..]
        .iter()
        .position(turn_ends)
        .map_or(events.len(), |next| at + 1 + next);
    let behind = |position: &usize| match &events[*position].what {
        What::Decision(decided) if decided.call.is_some() && decided.call == call => true,
        // That another call was admitted is behind its own effect, not this one.
        What::Decision(decided) => {
            *position < at
                && decided.verdict != "executed"
                && (call.is_none() || decided.call.is_none())
        }
        _ => false,
    };
    Side {
        event: at,
        decisions: (since..until).filter(behind).collect(),
    }
}
