//! The explanations at the foot of the page.

use maud::{Markup, html};

use crate::definition;
use crate::measure::Measure;
use crate::numbers::{count, slug};
use crate::study::Kind;
use crate::summary::Summary;

/// Runs, intervals, versions, and the command that reproduces the page.
pub(super) fn how_sure(summary: &Summary) -> Markup {
    let statistics = &summary.statistics;
    html! {
        section aria-labelledby="how-sure" {
            h2 id="how-sure" { "How sure is this" }
            ul class="facts" {
                li { (luck(summary)) }
                li {
                    "Every interval has a confidence of 95%. Rates have Wilson intervals (1927); quantiles \
                     those of their order statistics; means and prices bootstrap-t intervals (Hall 1988), \
                     resampled " (count(statistics.resamples)) " times from " (count(statistics.groups))
                    " groups of runs, which hold up for heavy-tailed costs of finite variance."
                }
                li {
                    "Differences of answered rates are paired run by run, with Newcombe's square-and-add \
                     interval (1998) and the exact test of McNemar."
                }
                li {
                    @match statistics.comparisons {
                        0 => "Nothing is compared: there is no policy beside the baseline.",
                        1 => "There is one comparison. It is called better or worse only if its interval \
                              excludes zero and its p-value is below 0.05.",
                        n => { "There are " (count(n)) " comparisons with the baseline. One is called better \
                              or worse only if its interval excludes zero and its p-value, corrected for all of \
                              them (Holm 1979), is below 0.05." },
                    }
                }
                li { "Quantiles are read from buckets and are off by at most 1/1024 of their value; maxima and totals are exact." }
                @for note in &summary.notes { li { (note) } }
                @for skipped in &summary.skipped { li { "Skipped: " (skipped) } }
            }
            p { "Reproduce this page (Holdback " (summary.version) "):" }
            pre { (summary.study.command) " --out DIR" }
        }
    }
}

fn luck(summary: &Summary) -> String {
    match summary.study.kind {
        Kind::Simulated => format!(
            "The runs are simulated: the numbers say how the limits behave in the workload that a \
             scenario describes, not how well the scenario describes yours. All policies of a scenario \
             meet the same luck (seed {}), run by run.",
            summary.study.seed
        ),
        Kind::Replayed => "The runs are recorded ones: each keeps its own turns for as long as a policy \
                           does not intervene; from then on an answer costs what the recorded turn cost."
            .to_owned(),
    }
}

/// Each measure in a sentence.
pub(super) fn how_to_read() -> Markup {
    html! {
        section aria-labelledby="how-to-read" {
            h2 id="how-to-read" { "How to read this" }
            p {
                "A run is one task given to an agent under a policy: one way of setting its limits. A reserve \
                 is the part of a limit that is kept for the final answer."
            }
            dl {
                @for measure in Measure::ALL {
                    @let spec = measure.spec();
                    dt { (spec.title) " " small class="soft" { (spec.name) } }
                    dd { (spec.meaning) }
                }
            }
        }
    }
}

/// What each policy is, and the defaults that held for what it leaves open.
pub(super) fn policies(summary: &Summary) -> Markup {
    html! {
        section aria-labelledby="policies" {
            h2 id="policies" { "Policies" }
            p class="soft" { "As written, and the defaults that held for what is left open." }
            div class="definitions" { @for policy in &summary.policies {
                details .policy id={ "policy-" (slug(&policy.name)) } {
                    summary { (policy.name) " " span class="soft" { "(" (policy.family) ")" } }
                    pre { (serde_json::to_string_pretty(&policy.definition).unwrap_or_default()) }
                    @let defaults = definition::defaults(policy);
                    @if !defaults.is_empty() {
                        p class="soft" { "Left open, so: " (defaults) "." }
                    }
                }
            } }
        }
    }
}
