//! The verdict as a table for a terminal and as Markdown for a pull request.

use super::{Case, Compares, Report, Verdict};
use crate::markdown::{code, escape};
use crate::numbers::count;

impl Report {
    /// Plain lines, at most one idea each.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} against {}, {} runs a scenario\n",
            self.candidate,
            self.baseline,
            count(self.runs)
        );
        for case in &self.cases {
            text.push_str(&format!(
                "  {:<11}  {}: {}\n",
                case.verdict.as_str(),
                case.scenario,
                case.measured_words()
            ));
            if let Some(advice) = case.advice() {
                text.push_str(&format!("               {advice}\n"));
            }
            if let (Verdict::Fail, Some(command)) = (case.verdict, &case.command) {
                text.push_str(&format!("               See: {command}\n"));
            }
        }
        text.push_str(&format!("{}\n", self.conclusion()));
        text
    }

    /// A short comment: the verdict first, then a line a gate.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "### {}: {} against {}\n\n",
            match self.verdict() {
                Verdict::Pass => "Limits pass",
                Verdict::CannotTell => "Limits: cannot tell",
                Verdict::Fail => "Limits FAIL",
            },
            escape(&self.candidate),
            escape(&self.baseline)
        );
        text.push_str(&format!("{}\n\n", escape(&self.conclusion())));
        text.push_str("| verdict | scenario | gate | baseline | candidate | measured | 95% interval | allowed |\n");
        text.push_str("|---|---|---|--:|--:|--:|--:|--:|\n");
        for case in &self.cases {
            text.push_str(&case.row());
        }
        let failed = self
            .cases
            .iter()
            .filter(|case| case.verdict == Verdict::Fail);
        let commands: Vec<String> = failed
            .filter_map(|case| case.command.as_ref())
            .map(|command| format!("- {}\n", code(command)))
            .collect();
        if let Some(first) = commands.first() {
            text.push_str(&format!("\nA run that shows it:\n\n{first}"));
        }
        text.push_str(&format!(
            "\n{} runs a scenario, paired on the same luck. Reproduce: {}\n",
            count(self.runs),
            code(&self.reproduce)
        ));
        text
    }

    /// The verdict in a sentence.
    pub fn conclusion(&self) -> String {
        let (failed, open) = (self.count(Verdict::Fail), self.count(Verdict::CannotTell));
        let of = format!("of {} gates", self.cases.len());
        match (self.verdict(), self.runs_needed()) {
            (Verdict::Pass, _) if self.cases.is_empty() => "There is no gate to check.".to_owned(),
            (Verdict::Pass, _) => format!("All {} gates pass.", self.cases.len()),
            (Verdict::Fail, _) if open > 0 => {
                format!("{failed} {of} failed; {open} cannot be told with these runs.")
            }
            (Verdict::Fail, _) => format!("{failed} {of} failed."),
            (Verdict::CannotTell, Some(runs)) => format!(
                "{open} {of} cannot be told with these runs; about {} a scenario would settle it \
                 (--runs {runs}).",
                count(runs)
            ),
            (Verdict::CannotTell, None) => format!("{open} {of} cannot be told with these runs."),
        }
    }
}

impl Case {
    /// What was measured and what is allowed, in words.
    pub(super) fn measured_words(&self) -> String {
        let gate = &self.gate;
        format!(
            "{} {} [{}, {}], {} {}",
            gate.subject(),
            gate.shown(self.measured),
            gate.shown(self.interval.lo),
            gate.shown(self.interval.hi),
            if gate.compares == Compares::AtLeast {
                "at least"
            } else {
                "allowed"
            },
            gate.shown(gate.limit()),
        )
    }

    /// What to do about a gate that cannot be told.
    pub(super) fn advice(&self) -> Option<String> {
        if self.verdict != Verdict::CannotTell {
            return None;
        }
        Some(match self.runs_needed {
            Some(runs) => format!("about {} runs would settle it (--runs {runs})", count(runs)),
            None => {
                "what was measured is so close to the threshold that more runs will not settle it; \
                     allow a margin"
                    .to_owned()
            }
        })
    }

    fn row(&self) -> String {
        let gate = &self.gate;
        let plain = |value: f64| {
            if value.is_nan() {
                "–".to_owned()
            } else {
                crate::html::shown(gate.measure, value)
            }
        };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} to {} | {} |\n",
            match self.verdict {
                Verdict::Fail => "**FAIL**",
                other => other.as_str(),
            },
            escape(&self.scenario),
            code(&gate.name),
            plain(self.baseline),
            plain(self.candidate),
            gate.shown(self.measured),
            gate.shown(self.interval.lo),
            gate.shown(self.interval.hi),
            gate.shown(gate.limit()),
        )
    }
}
