//! The rules of `usage_limits`, each with its comparison and its source (sections of the semantics).

use serde::{Deserialize, Serialize};

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $sentence:literal,)*) => {
        /// A rule of `usage_limits`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// One sentence that says what is compared with what.
            pub const fn describe(self) -> &'static str {
                match self {
                    $(Rule::$name => $sentence,)*
                }
            }

            /// All rules.
            pub const ALL: &'static [Rule] = &[$(Rule::$name,)*];
        }
    };
}

rules! {
    /// Section 3, row 9.
    Admitted: "the call passed every rule; used counts it before it runs",
    /// Section 2.3.i.
    Answered: "a turn without calls is the answer",
    /// Section 2.3.a.
    Timeout: "between turns: elapsed >= timeoutMs ends the run",
    /// Section 2.3.b, section 9.
    MaxTurns: "between turns: turns >= maxTurns + repair turns ends the run",
    /// Section 2.3.c.
    CeilingBeforeTurn: "before a turn: spent >= ceiling ends the run",
    /// Section 11, step 1.
    CapBelowFloor: "a configured output cap < the model's smallest output rejects the run",
    /// Section 11, step 5.
    Clamp: "the output cap is lowered to what is affordable after the estimated prompt",
    /// Section 11, step 4.
    FloorAfterPrompt: "affordable after the prompt < the smallest output, without the prompt not: the smallest output is sent",
    /// Section 11, step 4.
    OutputFloor: "affordable even without the prompt < the smallest output refuses the attempt",
    /// Section 11.
    ExposureSpent: "spent >= exposure cap refuses the attempt",
    /// Section 11.
    ExposurePlanned: "spent + planned > exposure cap refuses the attempt",
    /// Section 11.
    DrainedSeat: "a refused child's seat with a finalization reserve and an earlier turn gets one drained turn",
    /// Section 11.
    Severed: "reported usage brings spent >= ceiling: the attempt is severed",
    /// Section 12.
    Retry: "attempts < retryAttempts: the same turn is tried again after a wait",
    /// Section 12.
    RetriesExhausted: "attempts >= retryAttempts: the last fault ends the run",
    /// Section 2.3.f.
    PermanentFault: "an error that no retry mends ends the run",
    /// Section 2.3.f.
    Refusal: "the model refused",
    /// Section 2.3.f.
    ContextOverflow: "the context window is exceeded",
    /// Section 3, row 1.
    CallCap: "used >= cap: the call budget is expired",
    /// Section 3, row 1'.
    UnitCap: "units spent >= toolUnits.max: the unit budget is expired",
    /// Section 3, row 3'.
    TerminalInTail: "expired, with a terminal call in the tail of the batch: other calls are skipped",
    /// Section 3, row 3'.
    TerminalExempt: "the terminal call is judged although the budget is expired",
    /// Section 6, gate 1.
    GrantsExhausted: "grants >= maxExtensions: no grant",
    /// Section 6, gate 2.
    GrantNeedsEvidence: "distinct results <= those at the last grant: no grant",
    /// Section 6, gate 3.
    GrantNeedsHeadroom: "money left < minHeadroomUsd, or nothing left: no grant",
    /// Section 6.
    GrantAtExpiry: "the call budget expired: the cap grows by increment",
    /// Section 6.
    GrantInWindow: "remaining + increment > reserveCalls: the cap grows by increment before a refusal",
    /// Section 6.
    GrantForDeficit: "remaining < evidence deficit at a boundary: the cap grows by increment",
    /// Section 3, row 4.
    PolicyDenied: "the permission policy denies the call",
    /// Section 3, row 5.
    TerminalJudged: "the schema and the host judge the terminal call",
    /// Section 7.
    WindowEntry: "remaining <= reserve on the binding dimension: the finalization window opens",
    /// Section 7.
    WindowRefusal: "the finalization window is open and the tool is not admitted",
    /// Section 3, row 7.
    CallsPerTool: "executions of the tool >= its cap: the call is denied",
    /// Section 3, row 8.
    RepeatedSignature: "executions of the signature >= maxRepeatedToolSignature: the call is denied",
    /// Section 3, row 10.
    NoNewEvidence: "known results in a row >= maxNoNewEvidenceCalls ends the run",
    /// Section 3, row 11.
    CheckpointCadence: "executed since the last checkpoint of the batch >= checkpointEveryToolCalls",
    /// Section 5.
    BudgetNotice: "used >= ceil(50% or 80% of maxToolCalls): the model is told once",
    /// Section 5.
    NoticesInert: "toolBudgetNotices without maxToolCalls has no effect",
    /// Section 8.
    NoProgress: "turns in a row without calls >= noProgressTurns ends the run",
    /// Section 2.3.h.
    TerminalReprompt: "a turn without calls, where the terminal tool must end the run",
    /// Section 2.3.j.
    SchemaReprompt: "the text does not hold a value of the schema: the model is asked again",
    /// Section 2.3.j.
    SchemaTries: "schema attempts >= retries + 1 ends the run",
    /// Section 2.3.i.
    OutputTruncated: "a blank text cut at the output cap ends the run",
    /// Section 2.5.
    EvidenceFloor: "recorded entries < minEntries: an ok run becomes an error",
    /// Section 7.
    SummaryTurn: "the tool budget expired: one summary turn without tools",
    /// Section 7, step 2.
    SummaryAtCeiling: "spent >= ceiling: no summary turn",
    /// Section 7, step 5.
    SummaryFault: "the summary turn failed; the limit stands without output",
    /// Section 10, step 5.
    RestoredCapIgnored: "the journalled cap < maxToolCalls of the live limits: it is ignored",
    /// On request; the reference's own place for it is between turns.
    CancelRequested: "cancellation was asked for",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_describes_itself_in_its_own_words() {
        let mut sentences: Vec<_> = Rule::ALL.iter().map(|rule| rule.describe()).collect();
        sentences.sort_unstable();
        sentences.dedup();
        assert_eq!(sentences.len(), Rule::ALL.len());
    }
}
