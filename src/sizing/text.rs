//! The result for people: as text on a terminal, and as Markdown.

use holdback_reports::numbers::{count, fixed, percent, usd};

use super::report::{Measured, Outcome, Sizing};
use super::solve::named;

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// For a terminal.
    Plain,
    /// For a file or a pull request.
    Markdown,
}

struct Table {
    title: String,
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    note: String,
}

/// The whole page.
pub(crate) fn render(sizing: &Sizing, page: Page) -> String {
    let mut text = headline(sizing, page);
    text.push_str(&limits(sizing, page));
    for table in [
        expected(sizing),
        frontier(sizing),
        sensitivity(sizing),
        closing(sizing),
    ] {
        if !table.rows.is_empty() {
            text.push_str(&table.render(page));
        }
    }
    text.push_str(&spent(sizing));
    text
}

fn headline(sizing: &Sizing, page: Page) -> String {
    let fields: Vec<String> = sizing
        .fields
        .iter()
        .map(|field| format!("{} = {}", field.field, field.value))
        .collect();
    let fields = fields.join(", ");
    let line = match &sizing.verdict {
        Outcome::Recommended => format!("Recommended: {fields}"),
        Outcome::Infeasible { .. } => format!("Out of reach. The best in range: {fields}"),
    };
    let mark = if page == Page::Markdown { "# " } else { "" };
    let mut text = format!("{mark}{line}\n\n");
    if let Outcome::Infeasible {
        scenario,
        binding,
        only_in_search,
    } = &sizing.verdict
    {
        let why = if *only_in_search {
            "The search found candidates, but fresh luck did not bear them out"
        } else {
            "Nothing in the range satisfies all that was asked for"
        };
        text.push_str(&format!(
            "{why}. What binds: {}, in scenario `{scenario}`.\n\n",
            named(*binding, &sizing.goal)
        ));
    }
    text
}

fn limits(sizing: &Sizing, page: Page) -> String {
    let (name, value) = match &sizing.whole_policy {
        Some(policy) => ("Policy", policy),
        None => ("Limits", &sizing.limits),
    };
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    let from = format!("{name} ({}, from `{}`):", sizing.family, sizing.policy);
    match page {
        Page::Plain => format!("{from}\n{json}\n\n"),
        Page::Markdown => format!("{from}\n\n```json\n{json}\n```\n\n"),
    }
}

fn expected(sizing: &Sizing) -> Table {
    let curse = |scenario: &str| {
        let found = sizing
            .winners_curse
            .iter()
            .find(|curse| curse.scenario == scenario);
        found.map_or_else(dash, |curse| percent(curse.search))
    };
    let rows = sizing.expected.iter().map(|row| {
        vec![
            row.scenario.clone(),
            share(row.answered),
            share(row.delivered),
            percent(row.at_least),
            curse(&row.scenario),
            money(row.overspend_p99_usd),
            money(row.cost_mean_usd),
            row.evidence_kept
                .map_or_else(dash, |kept| percent(kept.value)),
        ]
    });
    Table {
        title: format!("What to expect ({}; 95% intervals)", proved_on(sizing)),
        heads: vec![
            "scenario", "answered", "delivered", "at least", "in search", "overspend p99", "USD a run",
            "evid. kept",
        ],
        rows: rows.collect(),
        note: "at least: exact one-sided lower limit of the target's rate. in search: what the luck of the \
               search had promised; the difference is the winner's curse."
            .to_owned(),
    }
}

fn frontier(sizing: &Sizing) -> Table {
    let rows = sizing.frontier.iter().map(|row| {
        let mark = if row.here { "> " } else { "" };
        vec![
            row.scenario.clone(),
            format!("{mark}{}", row.candidate),
            share(row.answered),
            row.delivered
                .map_or_else(dash, |measured| percent(measured.value)),
            row.overspend_p99_usd.map_or_else(dash, usd),
            row.cost_mean_usd.map_or_else(dash, usd),
            row.evidence_kept.map_or_else(dash, percent),
        ]
    });
    Table {
        title: "Steps less and more".to_owned(),
        heads: vec![
            "scenario",
            "candidate",
            "answered",
            "delivered",
            "overspend p99",
            "USD a run",
            "evid. kept",
        ],
        rows: rows.collect(),
        note: String::new(),
    }
}

fn sensitivity(sizing: &Sizing) -> Table {
    let rows = sizing.sensitivity.iter().map(|row| {
        let smallest = row.smallest.clone();
        vec![
            row.change.clone(),
            percent(row.reached),
            row.scenario.clone(),
            smallest.unwrap_or_else(|| "nothing in range".to_owned()),
        ]
    });
    Table {
        title: "If the world is different".to_owned(),
        heads: vec![
            "change",
            "target's rate",
            "lowest in",
            "smallest that would do",
        ],
        rows: rows.collect(),
        note: match sizing.recorded {
            None => "From a quarter of the runs, and not proven.",
            Some(_) => "From the searched half, and not proven.",
        }
        .to_owned(),
    }
}

fn closing(sizing: &Sizing) -> Table {
    let amount = |money: Option<holdback_engine::Money>| {
        money.map_or_else(dash, |money| usd(money.to_f64()))
    };
    let rows = sizing.closing_call.iter().map(|row| {
        vec![
            row.scenario.clone(),
            amount(row.p50_usd),
            amount(row.p99_usd),
            amount(row.conformal_usd),
            amount(row.worst_case_usd),
            amount(row.full_window_usd),
            row.over_reservation
                .map_or_else(dash, |ratio| format!("{}x", fixed(ratio, 1))),
        ]
    });
    Table {
        title: "What the closing call costs, USD".to_owned(),
        heads: vec![
            "scenario",
            "p50",
            "p99",
            "conformal",
            "worst case",
            "full window",
            "worst/reserve",
        ],
        rows: rows.collect(),
        note: format!(
            "conformal: the next closing call costs at most this in {} of cases, if it is exchangeable with \
             those watched. worst case: the largest context seen, uncached, and the longest output.",
            percent(sizing.goal.target)
        ),
    }
}

/// Which runs the search had not seen.
fn proved_on(sizing: &Sizing) -> String {
    match sizing.recorded {
        None => format!("{} fresh runs a scenario", count(sizing.runs)),
        Some(halves) => format!(
            "{} recorded runs searched, {} others prove",
            count(halves.search),
            count(halves.proof)
        ),
    }
}

fn spent(sizing: &Sizing) -> String {
    let spent = &sizing.spent;
    let how = match spent.method {
        super::search::Method::Bisection => "bisection",
        super::search::Method::Race => "a race",
    };
    let ratio = spent.full_grid as f64 / spent.search.max(1) as f64;
    format!(
        "Runs: {} in the search ({how} over {} candidates; the full grid would take {}, {}x), {} in the proof \
         ({} step{}), {} in the tables.\nReproduce: {}\n",
        count(spent.search),
        count(spent.candidates),
        count(spent.full_grid),
        fixed(ratio, 1),
        count(spent.proof),
        sizing.proof.len(),
        if sizing.proof.len() == 1 { "" } else { "s" },
        count(spent.picture),
        sizing.command
    )
}

fn dash() -> String {
    "-".to_owned()
}

fn share(measured: Option<Measured>) -> String {
    measured.map_or_else(dash, |measured| match measured.interval {
        Some([lo, hi]) => format!(
            "{} ({}-{})",
            percent(measured.value),
            percent(lo),
            percent(hi)
        ),
        None => percent(measured.value),
    })
}

fn money(measured: Option<Measured>) -> String {
    measured.map_or_else(dash, |measured| match measured.interval {
        Some([lo, hi]) => format!("{} ({}-{})", usd(measured.value), usd(lo), usd(hi)),
        None => usd(measured.value),
    })
}

impl Table {
    fn render(&self, page: Page) -> String {
        let body = match page {
            Page::Plain => self.plain(),
            Page::Markdown => self.markdown(),
        };
        let title = match page {
            Page::Plain => format!("{}\n", self.title),
            Page::Markdown => format!("## {}\n\n", self.title),
        };
        let note = match (self.note.is_empty(), page) {
            (true, _) => String::new(),
            (false, Page::Plain) => format!("  {}\n", self.note),
            (false, Page::Markdown) => format!("\n{}\n", self.note),
        };
        format!("{title}{body}{note}\n")
    }

    fn plain(&self) -> String {
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let lines: Vec<&Vec<String>> = std::iter::once(&heads).chain(&self.rows).collect();
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let mut text = String::new();
        for line in lines {
            let cells: Vec<String> = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            text.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
        }
        text
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escaped = |cell: &String| cell.replace('|', "\\|");
        let mut text = line(self.heads.iter().map(|head| (*head).to_owned()).collect());
        text.push_str(&line(self.heads.iter().map(|_| "---".to_owned()).collect()));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(escaped).collect()));
        }
        text
    }
}
