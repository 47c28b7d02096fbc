//! The tables of the page.

use maud::{Markup, html};

use crate::cap::Cap;
use crate::measure::{Measure, Unit};
use crate::numbers::{self, arm, count, fixed, p_value, percent, points, signed, usd};
use crate::summary::{Cell, Comparison, Difference, Scenario, Summary, Verdict};

/// The measures of the comparison table.
pub(super) const SHOWN: [Measure; 13] = [
    Measure::AnsweredRate,
    Measure::OverspendRate,
    Measure::OverspendP99,
    Measure::CostPerAnswer,
    Measure::EvidenceKept,
    Measure::DeliveredRate,
    Measure::CostMean,
    Measure::CostP95,
    Measure::OverspendMax,
    Measure::ReserveLeft,
    Measure::ModelCalls,
    Measure::ToolCalls,
    Measure::DurationP95,
];

/// Tables with more rows get a filter.
const LONG: usize = 20;

/// The comparison table, sortable by every column.
pub(super) fn comparison(summary: &Summary, scenario: &Scenario, id: &str) -> Markup {
    let shown: Vec<Measure> = SHOWN
        .into_iter()
        .filter(|measure| {
            scenario
                .cells
                .iter()
                .any(|cell| cell.figure(*measure).is_some())
        })
        .collect();
    let table_id = format!("{id}-table");
    html! {
        @if scenario.cells.len() > LONG {
            p class="filter" {
                label { "Filter policies " input type="search" data-filter=(table_id); }
            }
        }
        p class="soft" {
            "Small print: 95% intervals; under a policy's name its money cap, which its overspend is \
             measured against. Without a cap that is the scenario's budget, which nothing enforces. "
            (crate::table::verdicts_explained(summary))
            span class="screen" { " A heading sorts by its column." }
        }
        div class="wide" role="region" aria-label={ "Comparison, " (scenario.name) } tabindex="0" {
            table class="sort" id=(table_id) {
                thead { tr {
                    th scope="col" { span { "Policy" } }
                    @for (at, measure) in shown.iter().enumerate() {
                        th scope="col" data-m=(measure.name()) title=(measure.spec().meaning) {
                            span { (heading(*measure)) }
                        }
                        @if at == 0 {
                            th scope="col" { span { "Difference, points" } }
                        }
                    }
                } }
                tbody {
                    @for cell in &scenario.cells {
                        tr class=[(cell.policy == summary.study.baseline).then_some("base")] {
                            th scope="row" {
                                (cell.policy)
                                small { (Cap::of(summary, scenario, &cell.policy).note()) }
                            }
                            @for (at, measure) in shown.iter().enumerate() {
                                (figure(cell, *measure))
                                @if at == 0 { (difference(summary, cell)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn heading(measure: Measure) -> String {
    let spec = measure.spec();
    let unit = match spec.unit {
        Unit::Share | Unit::Count => "",
        Unit::Usd => ", USD",
        Unit::Seconds => ", s",
    };
    format!("{}{unit}", spec.title)
}

/// A value as people read it, by its unit.
pub(crate) fn shown(measure: Measure, value: f64) -> String {
    match measure.spec().unit {
        Unit::Share => percent(value),
        Unit::Usd => usd(value),
        Unit::Seconds => numbers::grouped(value, 1),
        Unit::Count => numbers::grouped(value, 2),
    }
}

fn figure(cell: &Cell, measure: Measure) -> Markup {
    let Some(figure) = cell.figure(measure) else {
        return html! { td data-v="" { "–" } };
    };
    let value = figure.value.to_f64();
    html! {
        td data-v=(figure.value.to_data()) {
            (shown(measure, value))
            @if let Some(interval) = figure.interval {
                small {
                    @if measure == Measure::AnsweredRate {
                        (arm(value, interval.lo, interval.hi))
                    } @else {
                        (shown(measure, interval.lo)) " to " (shown(measure, interval.hi))
                    }
                }
            }
        }
    }
}

fn difference(summary: &Summary, cell: &Cell) -> Markup {
    let Some(comparison) = &cell.comparison else {
        let word = if cell.policy == summary.study.baseline {
            "baseline"
        } else {
            "–"
        };
        return html! { td data-v="0" { (word) } };
    };
    let difference = comparison.answered();
    html! {
        td data-v=(numbers::data(difference.value)) {
            (verdict(comparison)) " " (points(difference.value))
            @if let Some(interval) = difference.interval {
                small { (points(interval.lo)) " to " (points(interval.hi)) }
            }
        }
    }
}

fn verdict(comparison: &Comparison) -> Markup {
    let class = match comparison.verdict {
        Verdict::Better => Some("better"),
        Verdict::Worse => Some("worse"),
        Verdict::NoDifference => None,
    };
    html! { span class=[class] { (comparison.verdict.as_str()) } }
}

/// The paired counts, p-values and differences, folded.
pub(super) fn paired(summary: &Summary, scenario: &Scenario) -> Markup {
    let compared: Vec<(&Cell, &Comparison)> = scenario
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.comparison.as_ref()?)))
        .collect();
    if compared.is_empty() {
        return html! {};
    }
    html! {
        details {
            summary { "Run by run against " (summary.study.baseline) }
            div class="wide" role="region" aria-label={ "Paired comparison, " (scenario.name) } tabindex="0" {
                table class="sort" {
                    thead { tr {
                        @for title in PAIRED { th scope="col" { span { (title) } } }
                    } }
                    tbody {
                        @for (cell, comparison) in compared {
                            tr {
                                th scope="row" { (cell.policy) }
                                @for runs in [comparison.both, comparison.only_here,
                                    comparison.only_there, comparison.neither] {
                                    td data-v=(runs) { (count(runs)) }
                                }
                                @for p in [comparison.mcnemar_p, comparison.adjusted_p] {
                                    td data-v=(p) { (p_value(p)) }
                                }
                                @for measure in [Measure::CostMean, Measure::CostPerAnswer,
                                    Measure::OverspendMean, Measure::Evidence] {
                                    (changed(measure, comparison.differences.get(&measure)))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

const PAIRED: [&str; 11] = [
    "Policy",
    "Answered in both",
    "Only here",
    "Only in the baseline",
    "In neither",
    "McNemar p",
    "p, corrected",
    "Mean bill, USD",
    "Cost per answer, USD",
    "Mean overspend, USD",
    "Evidence",
];

fn changed(measure: Measure, difference: Option<&Difference>) -> Markup {
    let Some(difference) = difference else {
        return html! { td data-v="" { "–" } };
    };
    let decimals = match measure.spec().unit {
        Unit::Usd => numbers::usd_decimals(difference.value),
        _ => 2,
    };
    html! {
        td data-v=(numbers::data(difference.value)) {
            (signed(difference.value, decimals))
            @if let Some(interval) = difference.interval {
                small { (signed(interval.lo, decimals)) " to " (fixed_signed(interval.hi, decimals)) }
            }
        }
    }
}

fn fixed_signed(value: f64, decimals: usize) -> String {
    if value == 0.0 {
        fixed(value, decimals)
    } else {
        signed(value, decimals)
    }
}

/// Runs worth explaining, with their commands, folded.
pub(super) fn examples(scenario: &Scenario) -> Markup {
    if scenario.cells.iter().all(|cell| cell.examples.is_empty()) {
        return html! {};
    }
    html! {
        p class="paper soft" {
            "Left out in print: runs worth explaining, with their commands. The page on a screen and \
             summary.json hold them."
        }
        details class="screen" {
            summary { "Runs worth explaining" }
            div class="wide" role="region" aria-label={ "Runs worth explaining, " (scenario.name) } tabindex="0" {
                table {
                    thead { tr {
                        th scope="col" { "Policy" }
                        th scope="col" { "Run" }
                        th scope="col" class="text" { "Why" }
                        th scope="col" class="text" { "Command" }
                    } }
                    tbody {
                        @for cell in &scenario.cells {
                            @for example in &cell.examples {
                                tr {
                                    th scope="row" { (cell.policy) }
                                    td { (example.run) }
                                    td class="text" { (example.why) }
                                    td class="text" { code { (example.command) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
