//! `report.html`: one self-contained page.
//!
//! Written with `maud`, whose templates are checked by the compiler and escape whatever they are
//! given. The page loads nothing; a content security policy with the hashes of its only style sheet
//! and its only script forbids everything else. Without the script it loses sorting, no content.

mod guide;
mod table;

pub(crate) use table::shown;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::numbers::{count, plural, slug};
use crate::plots;
use crate::study::Kind;
use crate::summary::{Finding, FindingKind, Scenario, Summary};

const SCRIPT: &str = include_str!("script.js");

/// Plots above this height share their rows in print, so that they leave no gaps beside low ones.
const TALL: f64 = 520.0;

/// The page.
pub fn render(summary: &Summary) -> String {
    let style = format!("{}{}", include_str!("style.css"), plots::STYLE);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(&style));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "Holdback " (summary.version) };
                title { (summary.study.name) " · Holdback" }
                style { (PreEscaped(&style)) }
            }
            body {
                header {
                    h1 { (summary.study.name) }
                    p class="soft" { (compared(summary)) }
                }
                main {
                    (verdicts(summary))
                    (contents(summary))
                    @for scenario in &summary.scenarios { (section(summary, scenario)) }
                    (guide::how_sure(summary))
                    (guide::how_to_read())
                    (guide::policies(summary))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    let mut text = page.into_string();
    text.push('\n');
    text
}

fn policy(style: &str) -> String {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        base64(&digest(style)),
        base64(&digest(SCRIPT)),
    )
}

fn digest(text: &str) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(text.as_bytes()).to_vec()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let joined = chunk.iter().enumerate().fold(0_u32, |sum, (at, byte)| {
            sum | u32::from(*byte) << (16 - 8 * at)
        });
        for digit in 0..4 {
            let index = (joined >> (18 - 6 * digit)) & 63;
            let shown = digit <= chunk.len();
            text.push(if shown {
                char::from(DIGITS[index as usize])
            } else {
                '='
            });
        }
    }
    text
}

fn compared(summary: &Summary) -> String {
    let runs = summary.scenarios.iter().map(|scenario| scenario.runs);
    let (least, most) = (runs.clone().min().unwrap_or(0), runs.max().unwrap_or(0));
    let simulated = match summary.study.kind {
        Kind::Simulated => "simulated run",
        Kind::Replayed => "run",
    };
    let each = if least == most {
        plural(most, simulated)
    } else {
        format!("{} to {}", count(least), plural(most, simulated))
    };
    let (policies, scenarios) = (
        plural(summary.policies.len() as u64, "policy"),
        plural(summary.scenarios.len() as u64, "scenario"),
    );
    match summary.study.kind {
        Kind::Simulated => format!(
            "{policies} compared in {scenarios}, {each} each, all on the same luck (seed {}).",
            summary.study.seed
        ),
        Kind::Replayed => {
            format!("{policies} compared on {scenarios} of recorded runs, {each} each.")
        }
    }
}

fn verdicts(summary: &Summary) -> Markup {
    let headlines = summary
        .findings
        .iter()
        .filter(|f| f.kind == FindingKind::Headline);
    html! {
        section aria-label="Findings" {
            ul class="cards" {
                @for finding in headlines {
                    li {
                        b { a href={ "#" (anchor(&finding.scenario)) } { (finding.scenario) } }
                        (finding.text)
                    }
                }
            }
            @let others = crate::table::most_extreme(summary);
            @if !others.is_empty() {
                h2 .minor { "What else stands out" }
                ul class="facts" {
                    @for (finding, more) in others {
                        li { (stated(finding, summary.scenarios.len() > 1, more)) }
                    }
                }
            }
        }
    }
}

/// The anchor of a scenario's section, apart from those of the page's own sections.
fn anchor(scenario: &str) -> String {
    format!("scenario-{}", slug(scenario))
}

/// A finding with the command behind it.
fn stated(finding: &Finding, named: bool, more: usize) -> Markup {
    html! {
        @if named { b { (finding.scenario) ": " } }
        (finding.text)
        @if more > 0 {
            " The like in " (more) " more " (if more == 1 { "scenario" } else { "scenarios" }) "."
        }
        @if let Some(command) = &finding.command { pre { (command) } }
    }
}

fn contents(summary: &Summary) -> Markup {
    html! {
        nav aria-label="Contents" {
            @for scenario in &summary.scenarios {
                a href={ "#" (anchor(&scenario.name)) } { (scenario.name) }
            }
            a href="#how-sure" { "How sure is this" }
            a href="#how-to-read" { "How to read this" }
            a href="#policies" { "Policies" }
        }
    }
}

fn section(summary: &Summary, scenario: &Scenario) -> Markup {
    let id = anchor(&scenario.name);
    let plots = plots::of_scenario(summary, scenario);
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (scenario.name) }
            p class="soft" {
                (scenario.summary)
                @if let Some(budget) = scenario.budget_usd { " Budget: USD " (budget) " a run." }
                " " (plural(scenario.runs, "run")) " each."
                @for (reason, runs) in &scenario.left_out {
                    " " (count(*runs)) " left out: " (reason) "."
                }
            }
            @for finding in summary.findings.iter().filter(|f| f.scenario == scenario.name) {
                @if finding.kind == FindingKind::Headline { p { strong { (finding.text) } } }
            }
            (table::comparison(summary, scenario, &id))
            div class="plots" {
                @for plot in &plots {
                    figure class=[(plot.height > TALL).then_some("tall")] {
                        figcaption {
                            (plot.title)
                            @if let Some(note) = &plot.note { small { (note) } }
                        }
                        (plot.inline())
                    }
                }
            }
            (table::paired(summary, scenario))
            (table::examples(scenario))
        }
    }
}

#[cfg(test)]
mod tests;
