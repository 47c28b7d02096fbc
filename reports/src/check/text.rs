//! The verdict as a table for a terminal and as Markdown for a pull request.

use super::{Case, Compares, Remedy, Report, Verdict};
use crate::markdown::{code, escape};
use crate::numbers::count;
use crate::stats::Interval;

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
        let gates = self.cases.len();
        let of = match gates {
            1 => "The gate".to_owned(),
            _ => format!("{failed} of {gates} gates"),
        };
        match self.verdict() {
            Verdict::Pass => match gates {
                0 => "There is no gate to check.".to_owned(),
                1 => "The gate passes.".to_owned(),
                _ => format!("All {gates} gates pass."),
            },
            Verdict::Fail if open > 0 => {
                format!("{of} failed; {open} cannot be told with these runs.")
            }
            Verdict::Fail => format!("{of} failed."),
            Verdict::CannotTell => {
                let which = match gates {
                    1 => "The gate".to_owned(),
                    _ => format!("{open} of {gates} gates"),
                };
                format!(
                    "{which} cannot be told with these runs{}.",
                    self.would_help()
                )
            }
        }
    }

    /// What would help, if more runs would: more of the fewest where there is no interval yet, since
    /// what those will show is not known.
    fn would_help(&self) -> String {
        let Some(runs) = self.runs_needed() else {
            return String::new();
        };
        let lacking = |remedy: &Remedy| matches!(remedy, Remedy::Interval(_));
        let what = if self
            .cases
            .iter()
            .filter_map(|c| c.remedy.as_ref())
            .any(lacking)
        {
            format!("; it takes {} a scenario to have an interval", count(runs))
        } else {
            format!("; about {} a scenario would settle it", count(runs))
        };
        format!("{what} (--runs {runs})")
    }
}

impl Case {
    /// What was measured and what is allowed, in words.
    pub(super) fn measured_words(&self) -> String {
        let gate = &self.gate;
        format!(
            "{} {} {}, {} {}",
            gate.subject(),
            gate.shown(self.measured),
            match self.ends() {
                Some([lo, hi]) => format!("[{lo}, {hi}]"),
                None => format!("({})", self.no_interval()),
            },
            if gate.compares == Compares::AtLeast {
                "at least"
            } else {
                "allowed"
            },
            gate.shown(gate.limit()),
        )
    }

    /// The ends of the interval as people read them, unless neither is known.
    fn ends(&self) -> Option<[String; 2]> {
        let Interval { lo, hi } = self.interval;
        if lo == f64::NEG_INFINITY && hi == f64::INFINITY {
            return None;
        }
        Some([lo, hi].map(|end| self.gate.shown(end)))
    }

    fn no_interval(&self) -> &'static str {
        match self.remedy {
            Some(Remedy::Interval(_)) => "no interval with so few runs",
            _ => "no interval",
        }
    }

    /// What to do about a gate that cannot be told.
    pub(super) fn advice(&self) -> Option<String> {
        Some(match self.remedy? {
            Remedy::Settle(runs) => {
                format!("about {} runs would settle it (--runs {runs})", count(runs))
            }
            Remedy::Interval(runs) => {
                format!("{} runs give an interval (--runs {runs})", count(runs))
            }
            Remedy::Unbounded => {
                "nothing bounds what these runs have not shown; more runs may show it".to_owned()
            }
            Remedy::FromNothing => {
                "the baseline shows none of it, and no percentage of nothing is anything; gate on the \
                 increase in the measure's own unit"
                    .to_owned()
            }
            Remedy::Margin => {
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
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            match self.verdict {
                Verdict::Fail => "**FAIL**",
                other => other.as_str(),
            },
            escape(&self.scenario),
            code(&gate.name),
            plain(self.baseline),
            plain(self.candidate),
            gate.shown(self.measured),
            self.ends().map_or_else(
                || self.no_interval().to_owned(),
                |[lo, hi]| format!("{lo} to {hi}")
            ),
            gate.shown(gate.limit()),
        )
    }
}
