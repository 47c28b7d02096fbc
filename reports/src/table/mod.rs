//! The table on a terminal: plain text, at most as wide as asked, colour only as an addition.

mod layout;

use std::cmp::Reverse;

use holdback_engine::Money;

use crate::cap;
use crate::findings::named;
use crate::measure::Measure;
use crate::numbers::{arm, count, fixed, percent, plural, points, usd};
use crate::summary::{Cell, Comparison, Finding, FindingKind, Scenario, Summary};

use layout::{Column, Grid, wrap};

/// How to write for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns to fit.
    pub width: usize,
    /// Whether to add colour.
    pub colour: bool,
}

impl Default for Style {
    /// A pipe: 100 columns, no colour.
    fn default() -> Style {
        Style {
            width: 100,
            colour: false,
        }
    }
}

/// Policies with one cap that a footnote names.
const MOST_NAMED: usize = 6;
/// The narrowest width that is laid out for.
const NARROWEST: usize = 40;

/// The whole table with what stands out below it.
pub fn render(summary: &Summary, style: Style) -> String {
    let style = Style {
        width: style.width.max(NARROWEST),
        ..style
    };
    let mut text = String::new();
    for scenario in &summary.scenarios {
        text.push_str(&heading(summary, scenario, style));
        text.push_str(&rows(summary, scenario, style));
        text.push('\n');
    }
    if summary.study.runs_per_month.is_some() {
        text.push_str(&per_month(summary, style));
    }
    text.push_str(&stands_out(summary, style));
    text.push_str(&footnotes(summary, style));
    text
}

fn heading(summary: &Summary, scenario: &Scenario, style: Style) -> String {
    let budget = scenario
        .budget_usd
        .map_or_else(String::new, |budget| format!("   USD {budget} a run"));
    let left = format!("{}{budget}", scenario.name);
    let luck = match summary.study.kind {
        crate::study::Kind::Simulated => format!(
            "{} each, seed {}",
            plural(scenario.runs, "run"),
            summary.study.seed
        ),
        crate::study::Kind::Replayed => plural(scenario.runs, "recorded run"),
    };
    let room = style
        .width
        .saturating_sub(layout::width(&left) + layout::width(&luck));
    let line = if room >= 2 {
        format!("{left}{}{luck}", " ".repeat(room))
    } else {
        format!("{left}\n  {luck}")
    };
    format!("{}\n", bold(&line, style))
}

/// The columns, the least important last in `drops`.
fn rows(summary: &Summary, scenario: &Scenario, style: Style) -> String {
    let mut grid = Grid::new(vec![
        Column::left(["", "policy"], 0),
        Column::right(["answered", "of runs"], 0),
        Column::left(["95%", "int."], 0),
        Column::right(["over-", "spent"], 1),
        Column::right(["p99", "USD"], 3),
        Column::right(["USD per", "answer"], 2),
        Column::right(["evid.", "kept"], 4),
        Column::left(["", "against the baseline"], 0),
    ]);
    for cell in &scenario.cells {
        grid.row(vec![
            cell.policy.clone(),
            number(cell, Measure::AnsweredRate, percent),
            interval(cell),
            number(cell, Measure::OverspendRate, percent),
            number(cell, Measure::OverspendP99, usd),
            number(cell, Measure::CostPerAnswer, usd),
            number(cell, Measure::EvidenceKept, |share| {
                format!("{:.0}%", share * 100.0)
            }),
            verdict(summary, cell),
        ]);
    }
    let paint = |line: &str| match () {
        () if line.contains(" better ") => colour(line, " better ", GREEN, style),
        () if line.contains(" worse ") => colour(line, " worse ", RED, style),
        () => line.to_owned(),
    };
    grid.render(style.width, paint)
}

fn number(cell: &Cell, measure: Measure, show: impl Fn(f64) -> String) -> String {
    cell.number(measure).map_or_else(|| "-".to_owned(), show)
}

fn interval(cell: &Cell) -> String {
    let figure = cell.figure(Measure::AnsweredRate);
    match figure.and_then(|figure| Some((figure.value.to_f64(), figure.interval?))) {
        Some((value, interval)) => arm(value, interval.lo, interval.hi),
        None => String::new(),
    }
}

fn verdict(summary: &Summary, cell: &Cell) -> String {
    match &cell.comparison {
        Some(comparison) => comparison_words(comparison),
        None if cell.policy == summary.study.baseline => "baseline".to_owned(),
        None => String::new(),
    }
}

/// `better +36.6 [35.7,37.5]`: the verdict and the difference in points with its paired interval.
fn comparison_words(comparison: &Comparison) -> String {
    let difference = comparison.answered();
    let word = comparison.verdict.as_str();
    let interval = difference.interval.map_or_else(String::new, |i| {
        format!(" [{},{}]", fixed(i.lo * 100.0, 1), fixed(i.hi * 100.0, 1))
    });
    format!("{word} {}{interval}", points(difference.value))
}

fn per_month(summary: &Summary, style: Style) -> String {
    let runs = summary.study.runs_per_month.unwrap_or(0);
    let title = format!("At {} a month", plural(runs, "run"));
    let mut text = format!("{}\n", bold(&title, style));
    let mut grid = Grid::new(vec![
        Column::left(["", "scenario"], 0),
        Column::left(["", "policy"], 0),
        Column::right(["", "cost USD"], 0),
        Column::right(["", "answers lost"], 0),
        Column::right(["", "overspend USD"], 0),
    ]);
    for scenario in &summary.scenarios {
        for cell in &scenario.cells {
            let Some(month) = cell.per_month else {
                continue;
            };
            grid.row(vec![
                scenario.name.clone(),
                cell.policy.clone(),
                crate::numbers::grouped(month.cost_usd, 0),
                crate::numbers::grouped(month.answers_lost, 0),
                month
                    .overspend_usd
                    .map_or_else(|| "-".to_owned(), |usd| crate::numbers::grouped(usd, 0)),
            ]);
        }
    }
    text.push_str(&grid.render(style.width, str::to_owned));
    text.push('\n');
    text
}

fn stands_out(summary: &Summary, style: Style) -> String {
    if summary.findings.is_empty() {
        return String::new();
    }
    let mut text = format!("{}\n", bold("What stands out", style));
    let several = summary.scenarios.len() > 1;
    for finding in headlines(summary) {
        let about = if several {
            format!("{}: ", finding.scenario)
        } else {
            String::new()
        };
        text.push_str(&wrap(
            &format!("{about}{}", finding.text),
            style.width,
            "  ",
        ));
    }
    for (finding, others) in most_extreme(summary) {
        let about = if several {
            format!("{}: ", finding.scenario)
        } else {
            String::new()
        };
        let elsewhere = match others {
            0 => String::new(),
            1 => " The like in one more scenario.".to_owned(),
            n => format!(" The like in {n} more scenarios."),
        };
        let line = format!("{about}{}{elsewhere}", finding.text);
        text.push_str(&wrap(&line, style.width, "  "));
        if let Some(command) = &finding.command {
            text.push_str(&format!("    See: {command}\n"));
        }
    }
    text
}

fn headlines(summary: &Summary) -> impl Iterator<Item = &Finding> {
    let is_headline = |finding: &&Finding| finding.kind == FindingKind::Headline;
    summary.findings.iter().filter(is_headline)
}

/// The weightiest finding of each other kind, and in how many more scenarios there is one.
pub(crate) fn most_extreme(summary: &Summary) -> Vec<(&Finding, usize)> {
    let mut found: Vec<(&Finding, usize)> = Vec::new();
    let others = summary
        .findings
        .iter()
        .filter(|f| f.kind != FindingKind::Headline);
    for finding in others {
        match found
            .iter_mut()
            .find(|(known, _)| known.kind == finding.kind)
        {
            Some((known, more)) => {
                *more += 1;
                if finding.weight > known.weight {
                    *known = finding;
                }
            }
            None => found.push((finding, 0)),
        }
    }
    found.sort_by_key(|(finding, _)| finding.kind);
    found
}

/// What the words of a comparison's verdict mean; empty where nothing is compared.
pub(crate) fn verdicts_explained(summary: &Summary) -> String {
    let corrected = match summary.statistics.comparisons {
        0 => return String::new(),
        1 => "beyond noise; there is one comparison".to_owned(),
        n => format!(
            "beyond noise even after correction for {} comparisons (Holm)",
            count(n)
        ),
    };
    format!(
        "Better and worse speak of the answered rate, paired run by run with {}: {corrected}. Not clear: \
         it may differ or not, these runs do not tell; an interval that excludes zero is not enough by \
         itself.",
        named(&summary.study.baseline),
    )
}

/// What overspend is measured against under each policy.
fn caps_explained(summary: &Summary) -> String {
    let mut groups: Vec<(Option<Money>, Vec<String>)> = Vec::new();
    for policy in &summary.policies {
        let cap = cap::own(policy);
        match groups.iter_mut().find(|(known, _)| *known == cap) {
            Some((_, names)) => names.push(named(&policy.name)),
            None => groups.push((cap, vec![named(&policy.name)])),
        }
    }
    // The most common cap needs no list of names.
    groups.sort_by_key(|(_, names)| Reverse(names.len()));
    let others = groups.len() > 1;
    let words: Vec<String> = groups
        .iter()
        .enumerate()
        .map(|(at, (cap, names))| {
            let who = match (at, others) {
                (0, false) => "all policies".to_owned(),
                (0, true) => "all others".to_owned(),
                _ if names.len() > MOST_NAMED => {
                    format!(
                        "{} and {} more",
                        names[..MOST_NAMED].join(", "),
                        names.len() - MOST_NAMED
                    )
                }
                _ => names.join(", "),
            };
            match cap {
                Some(cap) => format!("USD {} for {who}", cap::dollars(*cap)),
                None => format!("none for {who}, so the scenario's budget, if it has one"),
            }
        })
        .rev()
        .collect();
    format!(
        "Overspend is what is billed above the policy's own money cap: {}.",
        words.join("; ")
    )
}

fn footnotes(summary: &Summary, style: Style) -> String {
    let mut lines = Vec::new();
    let verdicts = verdicts_explained(summary);
    if !verdicts.is_empty() {
        lines.push(verdicts);
    }
    lines.push(caps_explained(summary));
    for scenario in &summary.scenarios {
        let left_out: u64 = scenario.left_out.values().sum();
        if left_out > 0 {
            let reasons: Vec<String> = scenario
                .left_out
                .iter()
                .map(|(reason, runs)| format!("{} {reason}", count(*runs)))
                .collect();
            lines.push(format!(
                "{}: {} left out: {}.",
                scenario.name,
                plural(left_out, "run"),
                reasons.join(", ")
            ));
        }
    }
    lines.extend(
        summary
            .skipped
            .iter()
            .map(|skipped| format!("Skipped: {skipped}")),
    );
    lines.extend(summary.notes.iter().cloned());
    lines
        .iter()
        .map(|line| wrap(line, style.width, ""))
        .collect()
}

const GREEN: &str = "\u{1b}[32m";
const RED: &str = "\u{1b}[31m";
const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

fn bold(text: &str, style: Style) -> String {
    if style.colour {
        format!("{BOLD}{text}{PLAIN}")
    } else {
        text.to_owned()
    }
}

/// Colours the last occurrence of a word in a line.
fn colour(line: &str, word: &str, code: &str, style: Style) -> String {
    match line.rsplit_once(word) {
        Some((before, after)) if style.colour => format!("{before}{code}{word}{PLAIN}{after}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn no_line_is_wider_than_asked_except_a_command() {
        let summary = Summary::new(&sample::sized(2, 12, 500));
        for width in [40, 60, 80, 100, 160] {
            let text = render(
                &summary,
                Style {
                    width,
                    colour: false,
                },
            );
            for line in text.lines().filter(|line| !line.contains("See: ")) {
                assert!(layout::width(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn every_policy_and_its_rate_is_shown_at_any_width() {
        let summary = Summary::new(&sample::study());
        for width in [40, 100] {
            let text = render(
                &summary,
                Style {
                    width,
                    colour: false,
                },
            );
            for cell in &summary.scenarios[0].cells {
                assert!(text.contains(&cell.policy), "{text}");
                let rate = percent(cell.number(Measure::AnsweredRate).unwrap());
                assert!(text.contains(&rate), "{rate} {text}");
            }
        }
    }

    #[test]
    fn colour_only_adds_to_the_text() {
        let summary = Summary::new(&sample::study());
        let plain = render(&summary, Style::default());
        let coloured = render(
            &summary,
            Style {
                width: 100,
                colour: true,
            },
        );
        assert_ne!(plain, coloured);
        assert!(!plain.contains('\u{1b}'));
        let mut stripped = coloured;
        for code in [GREEN, RED, BOLD, PLAIN] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(plain, stripped);
    }
}
