//! JUnit XML: a suite a scenario, a case a gate. Written by hand: the format needs four elements,
//! and a crate for it brings an XML reader, UUIDs and time stamps.

use super::{Case, Report, Verdict};

impl Report {
    /// The report as JUnit XML. What cannot be told is a skipped case, or with `strict` a failed one.
    pub fn junit(&self, strict: bool) -> String {
        let mut scenarios: Vec<&str> = self.cases.iter().map(|c| c.scenario.as_str()).collect();
        scenarios.dedup();
        let name = format!(
            "holdback check: {} against {}",
            self.candidate, self.baseline
        );
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        xml.push_str(&format!(
            "<testsuites name=\"{}\"{}>\n",
            escape(&name),
            totals(&self.cases.iter().collect::<Vec<_>>(), strict)
        ));
        for scenario in scenarios {
            let cases: Vec<&Case> = self
                .cases
                .iter()
                .filter(|c| c.scenario == scenario)
                .collect();
            let scenario = escape(scenario);
            xml.push_str(&format!(
                "  <testsuite name=\"{scenario}\"{}>\n",
                totals(&cases, strict)
            ));
            for case in cases {
                xml.push_str(&case.junit(&scenario, strict));
            }
            xml.push_str("  </testsuite>\n");
        }
        xml.push_str("</testsuites>\n");
        xml
    }
}

impl Case {
    fn junit(&self, scenario: &str, strict: bool) -> String {
        let message = match self.advice() {
            Some(advice) => format!("{}; {advice}", self.measured_words()),
            None => self.measured_words(),
        };
        let message = escape(&message);
        let detail = escape(self.command.as_deref().unwrap_or(""));
        let body = match self.verdict {
            verdict if verdict.fails(strict) => format!(
                "<failure type=\"{}\" message=\"{message}\">{detail}</failure>",
                escape(verdict.as_str())
            ),
            Verdict::CannotTell => format!("<skipped message=\"{message}\"/>"),
            _ => format!("<system-out>{message}</system-out>"),
        };
        format!(
            "    <testcase classname=\"{scenario}\" name=\"{}\">{body}</testcase>\n",
            escape(&self.gate.name)
        )
    }
}

fn totals(cases: &[&Case], strict: bool) -> String {
    let failures = cases
        .iter()
        .filter(|case| case.verdict.fails(strict))
        .count();
    let open = cases
        .iter()
        .filter(|case| case.verdict == Verdict::CannotTell)
        .count();
    let skipped = if strict { 0 } else { open };
    format!(
        " tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"",
        cases.len()
    )
}

/// Text as XML reads it back; characters that XML 1.0 cannot hold become a replacement character.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
