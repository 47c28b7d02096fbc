//! `report.md`: short enough for a comment on a pull request or the summary of a job.

use crate::cap::Cap;
use crate::definition;
use crate::measure::Measure;
use crate::numbers::{arm, fixed, percent, plural, points, usd};
use crate::summary::{Cell, FindingKind, Scenario, Summary};

/// Tables of more rows are folded.
const LONG: usize = 12;

/// The report.
pub fn render(summary: &Summary) -> String {
    let mut text = format!("## {}\n\n", escape(&summary.study.name));
    text.push_str(&findings(summary));
    text.push_str(&legend(summary));
    for scenario in &summary.scenarios {
        text.push_str(&section(summary, scenario));
    }
    text.push_str(&foot(summary));
    text
}

fn findings(summary: &Summary) -> String {
    let mut text = String::new();
    let headlines = summary
        .findings
        .iter()
        .filter(|f| f.kind == FindingKind::Headline);
    for finding in headlines {
        text.push_str(&format!(
            "- **{}**: {}\n",
            escape(&finding.scenario),
            escape(&finding.text)
        ));
    }
    for (finding, more) in crate::table::most_extreme(summary) {
        let elsewhere = match more {
            0 => String::new(),
            1 => " The like in one more scenario.".to_owned(),
            n => format!(" The like in {n} more scenarios."),
        };
        text.push_str(&format!(
            "- {}: {}{elsewhere}\n",
            escape(&finding.scenario),
            escape(&finding.text)
        ));
        if let Some(command) = &finding.command {
            text.push_str(&format!("  See: {}\n", code(command)));
        }
    }
    text.push('\n');
    text
}

/// How the tables are read, said before the first of them.
fn legend(summary: &Summary) -> String {
    let verdicts = crate::table::verdicts_explained(summary);
    let text = format!(
        "{verdicts} Overspend is measured against the policy's money cap, or against the scenario's \
         budget where it has no cap."
    );
    format!("{}\n\n", escape(text.trim_start()))
}

fn section(summary: &Summary, scenario: &Scenario) -> String {
    let mut text = format!("### {}\n\n", escape(&scenario.name));
    let folded = scenario.cells.len() > LONG || summary.scenarios.len() > 2;
    if folded {
        text.push_str(&format!(
            "<details><summary>{}, {} each</summary>\n\n",
            plural(scenario.cells.len() as u64, "policy"),
            plural(scenario.runs, "run")
        ));
    }
    text.push_str(HEADER);
    for cell in &scenario.cells {
        text.push_str(&row(summary, scenario, cell));
    }
    text.push('\n');
    if folded {
        text.push_str("</details>\n\n");
    }
    text
}

const HEADER: &str = "| policy | answered | against the baseline, points | overspent | overspend p99, USD \
                      | USD per answer | evidence kept | money cap |\n\
                      |---|--:|---|--:|--:|--:|--:|---|\n";

fn row(summary: &Summary, scenario: &Scenario, cell: &Cell) -> String {
    let number = |measure, show: fn(f64) -> String| {
        cell.number(measure).map_or_else(|| "–".to_owned(), show)
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
        escape(&cell.policy),
        answered(cell),
        against(summary, cell),
        number(Measure::OverspendRate, percent),
        number(Measure::OverspendP99, usd),
        number(Measure::CostPerAnswer, usd),
        number(Measure::EvidenceKept, percent),
        Cap::of(summary, scenario, &cell.policy).note(),
    )
}

fn answered(cell: &Cell) -> String {
    let Some(figure) = cell.figure(Measure::AnsweredRate) else {
        return "–".to_owned();
    };
    let value = figure.value.to_f64();
    let interval = figure
        .interval
        .map_or_else(String::new, |i| format!(" {}", arm(value, i.lo, i.hi)));
    format!("{}{interval}", percent(value))
}

fn against(summary: &Summary, cell: &Cell) -> String {
    let Some(comparison) = &cell.comparison else {
        let is_baseline = cell.policy == summary.study.baseline;
        return if is_baseline { "baseline" } else { "–" }.to_owned();
    };
    let difference = comparison.answered();
    let interval = difference.interval.map_or_else(String::new, |i| {
        format!(" ({} to {})", points(i.lo), points(i.hi))
    });
    format!(
        "{} {}{interval}",
        comparison.verdict.as_str(),
        points(difference.value)
    )
}

fn foot(summary: &Summary) -> String {
    let mut text = String::new();
    for note in summary.notes.iter().chain(&summary.skipped) {
        text.push_str(&format!("- {}\n", escape(note)));
    }
    text.push_str(&left_open(summary));
    text.push_str(&format!(
        "\n95% intervals; {}, paired run by run and corrected for their number (Holm, level {}). \
         Reproduce with Holdback {}:\n\n{}\n",
        plural(summary.statistics.comparisons, "comparison"),
        fixed(1.0 - summary.statistics.confidence, 2),
        escape(&summary.version),
        fenced(&format!("{} --out DIR", summary.study.command)),
    ));
    text
}

/// The production defaults that held for what the policies leave open, folded.
fn left_open(summary: &Summary) -> String {
    let left_open = definition::left_open(&summary.policies);
    if left_open.is_empty() {
        return String::new();
    }
    let mut text =
        "\n<details><summary>Defaults that held for what policies leave open</summary>\n\n"
            .to_owned();
    for (words, policies) in left_open {
        let policies: Vec<String> = policies.into_iter().map(code).collect();
        text.push_str(&format!("- {}: {}\n", policies.join(", "), escape(&words)));
    }
    text.push_str("\n</details>\n");
    text
}

/// Text that Markdown, HTML and mentions read as plain characters.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            '\n' | '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A span of code, with as many backticks as its content demands.
pub(crate) fn code(text: &str) -> String {
    let ticks = "`".repeat(longest_run(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!(
        "{ticks}{space}{}{space}{ticks}",
        text.replace(['\n', '\r'], " ")
    )
}

fn fenced(text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}sh\n{text}\n{fence}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_figure_is_that_of_the_summary() {
        let summary = Summary::new(&sample::sized(2, 9, 800));
        let json: serde_json::Value = serde_json::from_str(&summary.to_json().unwrap()).unwrap();
        let text = render(&summary);
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("| ") && !line.starts_with("| policy"))
            .collect();
        let saved: Vec<&serde_json::Value> = json["scenarios"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|scenario| scenario["cells"].as_array().unwrap())
            .collect();
        assert_eq!(rows.len(), saved.len());
        for (row, saved) in rows.iter().zip(saved) {
            let fields: Vec<&str> = row
                .split(" | ")
                .map(|field| field.trim_matches(['|', ' ']))
                .collect();
            let measures = &saved["measures"];
            let number = |name: &str| measures[name]["value"].as_f64();
            let shown = |value: Option<f64>, show: fn(f64) -> String| {
                value.map_or_else(|| "–".to_owned(), show)
            };
            assert!(
                fields[1].starts_with(&percent(number("answered_rate").unwrap())),
                "{row}"
            );
            let comparison = &saved["comparison"];
            if !comparison.is_null() {
                let difference = &comparison["differences"]["answered_rate"];
                let expected = format!(
                    "{} ({} to {})",
                    points(difference["value"].as_f64().unwrap()),
                    points(difference["interval"][0].as_f64().unwrap()),
                    points(difference["interval"][1].as_f64().unwrap())
                );
                assert!(fields[2].ends_with(&expected), "{row}");
            }
            assert_eq!(fields[3], shown(number("overspend_rate"), percent));
            assert_eq!(fields[4], shown(number("overspend_p99_usd"), usd));
            assert_eq!(fields[5], shown(number("cost_per_answer_usd"), usd));
            assert_eq!(fields[6], shown(number("evidence_kept"), percent));
        }
    }

    #[test]
    fn names_cannot_break_out_of_a_table() {
        assert_eq!(escape("a|b`<i>@me_\n"), "a\\|b\\`&lt;i&gt;&#64;me\\_ ");
        assert_eq!(code("a `b` c"), "``a `b` c``");
        assert_eq!(code("`"), "`` ` ``");
    }
}
