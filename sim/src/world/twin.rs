//! What a run would gather without any limits.

use holdback_engine::protocol::{ModelRequest, Text, Tools};

use super::{Before, ReplyOutcome, World};
use crate::policy::Facts;

/// A twin that passes this many model or tool calls is taken for one without end.
const LONGEST_TWIN: u64 = 10_000;

/// The novel results that run number `run` gathers without any engine and without kills, until it
/// answers, fails or overflows; `None` if it passes 10,000 calls.
pub fn twin_evidence<W: World>(world: &mut W, run: u64) -> Option<u64> {
    world.start(run, &Facts::default());
    let mut request = ModelRequest {
        turn: 1,
        attempt: 1,
        tools: Tools::All,
        output_cap: None,
        idle_timeout: None,
        instruction: None,
    };
    let mut now = 0;
    let mut tool_calls = 0;
    for _ in 0..LONGEST_TWIN {
        let reply = world.request(&request, now, Before::IMMORTAL);
        now += reply.latency;
        match reply.outcome {
            ReplyOutcome::Overflow => return Some(world.evidence()),
            ReplyOutcome::Fault { kind, .. } => {
                use holdback_engine::protocol::FaultKind;
                if matches!(kind, FaultKind::Permanent | FaultKind::Protocol) {
                    return Some(world.evidence());
                }
                request.attempt = request.attempt.saturating_add(1);
            }
            ReplyOutcome::Turn { text, .. } => {
                if world.proposed().is_empty() && text != Text::Absent {
                    return Some(world.evidence());
                }
                for index in 0..world.proposed().len() {
                    let call = world.proposed()[index];
                    now += world.run(&call).latency;
                    tool_calls += 1;
                    if tool_calls > LONGEST_TWIN {
                        return None;
                    }
                }
                request.turn = request.turn.saturating_add(1);
                request.attempt = 1;
            }
        }
    }
    None
}
