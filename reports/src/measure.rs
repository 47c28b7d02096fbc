//! The measures: their names, units and meanings, and what each is computed from.
//!
//! This list is the only place that knows them. Data files, tables, pages and gates read it.

use holdback_engine::Money;
use holdback_sim::tally::{Group, Histogram, Tally};
use serde::{Deserialize, Serialize};

/// The unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things counted: runs, calls, results, tokens.
    Count,
    /// A share of 1.
    Share,
    /// US dollars.
    Usd,
    /// Seconds of simulated time.
    Seconds,
}

/// Which way a measure is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// It depends.
    Neither,
}

/// An exact sum over runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    Count(u64),
    Usd(Money),
}

impl Amount {
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Amount::Count(count) => count as f64,
            Amount::Usd(money) => money.to_f64(),
        }
    }
}

pub(crate) type Sum = fn(&Group) -> Amount;

/// What a measure is computed from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A sum over all runs; compared as a mean a run.
    Total(Sum),
    /// A share of some runs, as numbers of runs.
    Share { of: Sum, among: Sum },
    /// A ratio of sums: a mean, or a price.
    Ratio { of: Sum, over: Sum },
    /// Evidence over what the same runs gather without any engine.
    Kept,
    /// A quantile of a histogram, whose unit is `1 / per_unit` of the measure's.
    Quantile {
        of: fn(&Tally) -> &Histogram,
        share: f64,
        per_unit: f64,
    },
    /// The exact largest overspend.
    LargestOverspend,
    /// The structural worst case of the overspend.
    OverspendBound,
}

/// A measure with everything that is said about it.
#[derive(Clone, Copy)]
pub struct Spec {
    /// The name in data files and gates.
    pub name: &'static str,
    /// The heading in tables and pages.
    pub title: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which way it is good.
    pub better: Better,
    /// What it is, in a sentence.
    pub meaning: &'static str,
    /// Only applies where there is a money cap or a budget.
    pub(crate) needs_cap: bool,
    /// Only applies to this family.
    pub(crate) family: Option<&'static str>,
    pub(crate) source: Source,
}

macro_rules! measures {
    ($($variant:ident $name:literal $title:literal $unit:ident $better:ident $needs:tt
       $source:expr, $meaning:literal;)+) => {
        /// A measure of a policy in a scenario.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Measure { $(#[doc = $meaning] #[serde(rename = $name)] $variant),+ }

        impl Measure {
            /// All measures, in the order in which data files hold them.
            pub const ALL: &'static [Measure] = &[$(Measure::$variant),+];

            /// Everything that is said about the measure.
            pub fn spec(self) -> Spec {
                match self {
                    $(Measure::$variant => Spec {
                        name: $name,
                        title: $title,
                        unit: Unit::$unit,
                        better: Better::$better,
                        meaning: $meaning,
                        needs_cap: needs_cap!($needs),
                        family: family!($needs),
                        source: $source,
                    }),+
                }
            }
        }
    };
}

macro_rules! needs_cap {
    (cap) => {
        true
    };
    ($other:tt) => {
        false
    };
}

macro_rules! family {
    (run_limits) => {
        Some("run_limits")
    };
    ($other:tt) => {
        None
    };
}

use Amount::{Count, Usd};
use Source::{Kept, LargestOverspend, OverspendBound, Quantile, Ratio, Share, Total};

const RUNS: Sum = |g| Count(g.runs);
const CAPPED: Sum = |g| Count(g.capped);
const ANSWERED: Sum = |g| Count(g.answered);
const BILLED: Sum = |g| Usd(g.sums.billed);
pub(crate) const NANODOLLARS: f64 = 1e9;
const MICROSECONDS: f64 = 1e6;

const fn mean(of: Sum) -> Source {
    Ratio { of, over: RUNS }
}

const fn overspend(share: f64) -> Source {
    Quantile {
        of: |t| &t.overspend,
        share,
        per_unit: NANODOLLARS,
    }
}

const fn bill(share: f64) -> Source {
    Quantile {
        of: |t| &t.billed,
        share,
        per_unit: NANODOLLARS,
    }
}

const fn duration(share: f64) -> Source {
    Quantile {
        of: |t| &t.duration,
        share,
        per_unit: MICROSECONDS,
    }
}

measures! {
    Runs "runs" "Runs" Count Neither any
        Total(RUNS), "Runs measured.";
    Answered "answered" "Answered runs" Count Higher any
        Total(ANSWERED), "Runs that ended the way their family calls good, with a text or terminal result that is neither blank nor cut.";
    AnsweredRate "answered_rate" "Answered" Share Higher any
        Share { of: ANSWERED, among: RUNS }, "Share of runs that ended with an answer.";
    Partial "partial" "Partly answered runs" Count Neither any
        Total(|g| Count(g.partial)), "Runs that delivered other text: a best effort, a cut text.";
    PartialRate "partial_rate" "Partly answered" Share Neither any
        Share { of: |g| Count(g.partial), among: RUNS }, "Share of runs that delivered other text than an answer.";
    Unanswered "unanswered" "Unanswered runs" Count Lower any
        Total(|g| Count(g.runs - g.answered - g.partial)), "Runs that delivered nothing.";
    Overspent "overspent" "Overspent runs" Count Lower cap
        Total(|g| Count(g.overspent)), "Runs whose bill passed the policy's money cap, or the scenario's budget where the policy has none.";
    OverspendRate "overspend_rate" "Overspent" Share Lower cap
        Share { of: |g| Count(g.overspent), among: CAPPED }, "Share of runs whose bill passed the cap or budget.";
    OverspendMean "overspend_mean_usd" "Mean overspend" Usd Lower cap
        Ratio { of: |g| Usd(g.sums.overspend), over: CAPPED }, "By how much the bill passed the cap, averaged over all runs, those inside it as zero.";
    OverspendP50 "overspend_p50_usd" "Overspend p50" Usd Lower cap
        overspend(0.5), "Half of all runs overspent by at most this.";
    OverspendP95 "overspend_p95_usd" "Overspend p95" Usd Lower cap
        overspend(0.95), "95% of all runs overspent by at most this.";
    OverspendP99 "overspend_p99_usd" "Overspend p99" Usd Lower cap
        overspend(0.99), "99% of all runs overspent by at most this.";
    OverspendMax "overspend_max_usd" "Largest overspend" Usd Lower cap
        LargestOverspend, "The largest overspend that was measured; it grows with the number of runs.";
    CostMean "cost_mean_usd" "Mean bill" Usd Lower any
        mean(BILLED), "What provider and tools charged a run, lost and repeated work included.";
    CostP50 "cost_p50_usd" "Bill p50" Usd Lower any
        bill(0.5), "Half of all runs were billed at most this.";
    CostP95 "cost_p95_usd" "Bill p95" Usd Lower any
        bill(0.95), "95% of all runs were billed at most this.";
    CostP99 "cost_p99_usd" "Bill p99" Usd Lower any
        bill(0.99), "99% of all runs were billed at most this.";
    CostPerAnswer "cost_per_answer_usd" "Cost per answer" Usd Lower any
        Ratio { of: BILLED, over: ANSWERED }, "All that was billed, divided by the number of answers.";
    Wasted "wasted_usd" "Wasted" Usd Lower any
        Total(|g| Usd(g.sums.wasted)), "What was billed in runs that delivered nothing, over all runs.";
    ModelCalls "model_calls_mean" "Model calls" Count Neither any
        mean(|g| Count(g.sums.model_calls)), "Model requests a run, retries and lost ones included.";
    ToolCalls "tool_calls_mean" "Tool calls" Count Neither any
        mean(|g| Count(g.sums.tool_calls)), "Tool executions a run, repeated ones included.";
    Evidence "evidence_mean" "Evidence" Count Higher any
        mean(|g| Count(g.sums.evidence)), "Novel tool results a run gathered.";
    EvidenceKept "evidence_kept" "Evidence kept" Share Higher any
        Kept, "Evidence gathered, as a share of what the same runs gather without any limits and without kills.";
    ReserveLeft "reserve_left_mean_usd" "Headroom left" Usd Neither cap
        Ratio { of: |g| Usd(g.sums.reserve_left), over: CAPPED }, "Money left below the cap at the end of a run, by the engine's own ledger.";
    ReserveViolations "reserve_violations" "Reserve violations" Count Lower run_limits
        Total(|g| Count(g.reserve_violations)), "Runs that asked for a tool after a budget had reached its reserve, and were failed for it.";
    RefusedCalls "refused_calls" "Refused calls" Count Neither any
        Total(|g| Count(g.sums.refused_calls)), "Tool calls that did not fit, were refused by a window or trimmed by a cap.";
    Kills "kills" "Kills" Count Neither any
        Total(|g| Count(g.sums.kills)), "Times that the process died.";
    RepaidCalls "repaid_calls" "Repaid calls" Count Lower any
        Total(|g| Count(g.sums.repaid_calls)), "Calls executed again after a restart.";
    Repaid "repaid_usd" "Repaid" Usd Lower any
        Total(|g| Usd(g.sums.repaid)), "What work executed again after a restart was charged.";
    Checkpoints "checkpoints" "Checkpoints" Count Neither any
        Total(|g| Count(g.sums.checkpoints)), "Checkpoints written.";
    SkippedCalls "skipped_calls" "Skipped calls" Count Neither any
        Total(|g| Count(g.sums.skipped_calls)), "Tool calls closed with a typed skip, dropped, or left without an answer.";
    DeniedCalls "denied_calls" "Denied calls" Count Neither any
        Total(|g| Count(g.sums.denied_calls)), "Tool calls denied by the permission policy or a guard.";
    UnreadResults "unread_results" "Unread results" Count Lower any
        Total(|g| Count(g.sums.unread_results)), "Tool results that no later billed request carried: paid for and never read.";
    OverspendBound "overspend_bound_usd" "Overspend bound" Usd Lower cap
        OverspendBound, "The structural worst case: the largest attempt in flight, the largest uncounted tool cost, what a ledger without price tiers does not see, and what the most kills make a run forget and pay again.";
    DeliveredRate "delivered_rate" "Delivered" Share Higher any
        Share { of: |g| Count(g.answered + g.partial), among: RUNS }, "Share of runs that delivered an answer or other text.";
    EvidenceEntries "evidence_entries_mean" "Evidence entries" Count Higher any
        mean(|g| Count(g.sums.evidence_entries)), "Evidence entries a run recorded.";
    DurationP50 "duration_p50_s" "Duration p50" Seconds Lower any
        duration(0.5), "Half of all runs took at most this, in simulated time.";
    DurationP95 "duration_p95_s" "Duration p95" Seconds Lower any
        duration(0.95), "95% of all runs took at most this, in simulated time.";
    Late "late" "Late runs" Count Lower any
        Total(|g| Count(g.late)), "Runs that ended after their deadline or time limit.";
    InputTokens "input_tokens_mean" "Input tokens" Count Neither any
        mean(|g| Count(g.sums.input_tokens)), "Input tokens a run, cached ones included.";
    CachedTokens "cached_tokens_mean" "Cached tokens" Count Neither any
        mean(|g| Count(g.sums.cached_tokens)), "Input tokens a run that were read from the cache.";
    OutputTokens "output_tokens_mean" "Output tokens" Count Neither any
        mean(|g| Count(g.sums.output_tokens)), "Output tokens a run, reasoning included.";
    WrittenTokens "written_tokens_mean" "Tokens written to cache" Count Neither any
        mean(|g| Count(g.sums.written_tokens)), "Input tokens a run that were written to the cache.";
    ReasoningTokens "reasoning_tokens_mean" "Reasoning tokens" Count Neither any
        mean(|g| Count(g.sums.reasoning_tokens)), "Reasoning tokens a run.";
    Ledger "ledger_mean_usd" "Mean ledger" Usd Neither any
        mean(|g| Usd(g.sums.ledger)), "What the engine itself recorded a run; it knows neither tool costs nor lost usage.";
    Steps "steps_mean" "Steps" Count Neither any
        mean(|g| Count(g.sums.steps)), "Turns a run began.";
    ToolBatches "tool_batches_mean" "Tool batches" Count Neither any
        mean(|g| Count(g.sums.tool_batches)), "Tool batches a run executed, in whole or in part.";
    Messages "messages_mean" "Messages" Count Neither any
        mean(|g| Count(g.sums.messages)), "Messages that joined the conversation a run: turns, results, notices.";
    CheckpointBytes "checkpoint_bytes_mean" "Checkpoint bytes" Count Neither any
        mean(|g| Count(g.sums.checkpoint_bytes)), "Bytes a run wrote to checkpoints, estimated as four a context token.";
}

impl Measure {
    /// The name in data files and gates.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether it counts runs: no run adds more than one.
    pub(crate) fn counts_runs(self) -> bool {
        matches!(
            self,
            Measure::Runs
                | Measure::Answered
                | Measure::Partial
                | Measure::Unanswered
                | Measure::Overspent
                | Measure::ReserveViolations
                | Measure::Late
        )
    }

    /// The measure of that name.
    pub fn named(name: &str) -> Option<Measure> {
        Measure::ALL.iter().copied().find(|m| m.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_has_its_own_name_and_is_found_by_it() {
        for measure in Measure::ALL {
            assert_eq!(Measure::named(measure.name()), Some(*measure));
            assert!(measure.spec().meaning.ends_with('.'));
            let json = serde_json::to_value(measure).unwrap();
            assert_eq!(json, measure.name());
        }
    }
}
