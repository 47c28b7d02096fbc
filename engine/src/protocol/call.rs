//! Tool calls as the engine sees them: opaque identities and a few facts of the host.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::Money;

/// A tool, numbered by the driver. Names are resolved once, when a policy is compiled.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ToolId(pub u16);

/// The opaque identity of a call. Two calls with equal signatures are the same call.
///
/// From real arguments it is made by [`crate::signature`] (the first 64 bits of a SHA-256, so that
/// among 1,000 calls of a run two different ones collide with a chance of about 3e-14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Signature(pub NonZeroU64);

/// The opaque identity of a result value. Two results with equal digests bring nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub NonZeroU64);

/// A tool call that the model proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The driver's own number for this call, unique in a run.
    pub id: u32,
    /// The tool that is called (unknown tools have a number too).
    pub tool: ToolId,
    /// Identity by tool name and *raw* argument text, never normalised (`run_limits`).
    pub raw_signature: Signature,
    /// Identity by tool name and canonical JSON arguments (`usage_limits`); `None` where the
    /// arguments have no canonical form, and then the call equals no other.
    pub canonical_signature: Option<Signature>,
    /// Key under which `run_limits` counts a denial of this call: tool name, hash of the parsed
    /// arguments, reason code.
    pub denial_key: Signature,
    /// The permission policy denies this call (known tools only). `usage_limits` asks before
    /// running; the other families learn it from the [`CallStatus`].
    pub denied: bool,
    /// The tool may run beside others: known, permitted, read-only and parallel-safe.
    pub parallel: bool,
    /// The call is of the terminal tool, whose accepted arguments are the answer.
    pub terminal: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallStatus {
    /// The tool returned a value.
    Succeeded,
    /// The tool ran and failed, or the call was unknown or had invalid arguments.
    Failed,
    /// The permission policy denied it; nothing ran.
    Denied,
}

/// What a call that was run brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// How it ended.
    pub status: CallStatus,
    /// Identity of the result value; `None` for failures and values without canonical form.
    pub digest: Option<Digest>,
    /// The result records an evidence entry: the tool is `record_evidence` and its value has a
    /// member `recorded` that is true.
    pub recorded_evidence: bool,
    /// What the tool charged. Only ledgers that count tool costs look at it.
    pub cost: Money,
}
