//! What stands out in a study, found by rules from its numbers and said in a sentence.
//!
//! A rule speaks of better and worse only where a comparison's verdict does, which is corrected for
//! the number of comparisons; it never reads more into a number than its interval allows.

use serde::{Deserialize, Serialize};

use crate::cap::{Cap, dollars};
use crate::measure::Measure;
use crate::numbers::{count, fixed, percent, points, shell, usd};
use crate::summary::{Cell, Comparison, Example, ReserveEffect, Scenario, Summary, Verdict};

/// Events below this share of the runs are not worth a sentence.
const NOTEWORTHY: f64 = 0.005;

/// Something that a reader should know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// The scenario in which it was found.
    pub scenario: String,
    /// The policy concerned, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// How large it is, to rank findings of one kind.
    pub weight: f64,
    /// The sentence.
    pub text: String,
    /// A command that shows a run behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The answer to "which policy?": one for every scenario.
    Headline,
    /// A reserve that lowers the answered rate.
    ReserveLowers,
    /// Policies that answer less than the baseline for another reason.
    AnswersLess,
    /// Bills above the cap.
    Overspend,
    /// Paid answers that were discarded.
    AnswerDiscarded,
    /// Work repeated after restarts.
    Repaid,
}

/// All findings, by scenario, the headline first.
pub(crate) fn find(summary: &Summary) -> Vec<Finding> {
    let baseline = summary.study.baseline.as_str();
    summary
        .scenarios
        .iter()
        .flat_map(|scenario| {
            let about = About {
                summary,
                scenario,
                baseline,
            };
            let rules = [
                about.headline(),
                about.reserve_lowers(),
                about.answers_less(),
                about.overspend(),
                about.answer_discarded(),
                about.repaid(),
            ];
            rules.into_iter().flatten()
        })
        .collect()
}

/// The policy that a scenario's headline recommends: of those that answer as many as the best within
/// noise, and more than the baseline beyond noise, the one with the cheapest answers.
pub fn recommended(scenario: &Scenario) -> Option<&Cell> {
    scenario
        .leaders
        .iter()
        .filter_map(|name| scenario.cell(name))
        .filter(|cell| verdict(cell) == Some(Verdict::Better))
        .min_by(|a, b| price(a).total_cmp(&price(b)))
}

struct About<'a> {
    summary: &'a Summary,
    scenario: &'a Scenario,
    baseline: &'a str,
}

impl About<'_> {
    fn finding(
        &self,
        kind: FindingKind,
        cell: Option<&Cell>,
        weight: f64,
        text: String,
    ) -> Finding {
        Finding {
            kind,
            scenario: self.scenario.name.clone(),
            policy: cell.map(|cell| cell.policy.clone()),
            weight: crate::numbers::rounded(weight),
            text,
            command: None,
        }
    }

    fn headline(&self) -> Option<Finding> {
        let base = self.scenario.cell(self.baseline)?;
        if self.scenario.cells.iter().all(|cell| answered(cell) == 0.0) {
            return Some(self.nothing_answers(base));
        }
        match recommended(self.scenario) {
            Some(cell) => Some(self.best(cell, base)),
            None => Some(self.none_better(base)),
        }
    }

    fn nothing_answers(&self, base: &Cell) -> Finding {
        let causes = base.causes.first().map_or_else(String::new, |c| {
            format!("; most often {} under {}", c.cause, named(&base.policy))
        });
        let text = format!("No policy ends a single run with an answer{causes}.");
        self.finding(FindingKind::Headline, None, 0.0, text)
    }

    fn best(&self, cell: &Cell, base: &Cell) -> Finding {
        let difference = cell.comparison.as_ref().map(Comparison::answered);
        let gain = difference.map_or(0.0, |d| d.value);
        let mut text = format!(
            "{} answers {} of runs, {} points more than {} ({}){}.",
            named(&cell.policy),
            percent(answered(cell)),
            fixed(gain * 100.0, 1),
            named(&base.policy),
            difference.map_or_else(String::new, |d| interval_in_points(d.interval)),
            self.price_change(cell, base),
        );
        text.push_str(&self.equals(cell));
        text.push_str(&evidence_given_up(cell));
        text.push_str(&self.money_risk(cell, base));
        self.finding(FindingKind::Headline, Some(cell), gain, text)
    }

    fn price_change(&self, cell: &Cell, base: &Cell) -> String {
        let Some(here) = cell.number(Measure::CostPerAnswer) else {
            return String::new();
        };
        let there = base.number(Measure::CostPerAnswer);
        let clear = cell
            .difference(Measure::CostPerAnswer)
            .is_some_and(|difference| difference.is_clear());
        match there {
            Some(there) if clear => {
                format!(", at USD {} an answer instead of {}", usd(here), usd(there))
            }
            _ => format!(", at USD {} an answer", usd(here)),
        }
    }

    fn cap(&self, cell: &Cell) -> Cap {
        Cap::of(self.summary, self.scenario, &cell.policy)
    }

    /// What a recommendation costs beside the price of an answer: another money cap than the
    /// baseline's, and bills that pass it more often or by more.
    fn money_risk(&self, cell: &Cell, base: &Cell) -> String {
        let (here, there) = (self.cap(cell), self.cap(base));
        let mut text = String::new();
        if here != there {
            text.push_str(&format!(
                " {}; {} has {}.",
                match here {
                    Cap::Own(cap) => format!("Its money cap is USD {}", dollars(cap)),
                    Cap::Budget(_) | Cap::None => "It has no money cap".to_owned(),
                },
                named(&base.policy),
                match there {
                    Cap::Own(cap) => format!("one of USD {}", dollars(cap)),
                    Cap::Budget(_) | Cap::None => "none".to_owned(),
                },
            ));
        }
        // Only bills that are held against the same amount can be said to pass it more often.
        if here.amount().is_some() && here.amount() == there.amount() {
            text.push_str(&self.overspend_rise(cell, base));
        } else if let Some([from, to]) = clear_rise(cell, base, Measure::CostP99) {
            text.push_str(&format!(
                " The bill's p99 rises from USD {} to {}.",
                usd(from),
                usd(to)
            ));
        }
        if here != there {
            text.push_str(&self.best_under(there, base));
        }
        text
    }

    fn overspend_rise(&self, cell: &Cell, base: &Cell) -> String {
        let rises = cell
            .difference(Measure::OverspendRate)
            .is_some_and(|difference| difference.is_clear() && difference.value > 0.0);
        let number = |cell: &Cell| cell.number(Measure::OverspendRate).unwrap_or(0.0);
        let mut parts = Vec::new();
        if rises {
            parts.push(format!(
                "overspent runs from {} to {}",
                percent(number(base)),
                percent(number(cell))
            ));
        }
        if let Some([from, to]) = clear_rise(cell, base, Measure::OverspendP99) {
            parts.push(format!(
                "the p99 overspend from USD {} to {}",
                usd(from),
                usd(to)
            ));
        }
        let against = match self.cap(cell) {
            Cap::Budget(budget) => format!(
                ", measured against the scenario's budget of USD {}",
                dollars(budget)
            ),
            _ => String::new(),
        };
        match parts.as_slice() {
            [] => String::new(),
            parts => format!(" It raises {}{against}.", parts.join(" and ")),
        }
    }

    /// The most that is answered under the baseline's own money cap, if that is more than it answers.
    fn best_under(&self, cap: Cap, base: &Cell) -> String {
        let Cap::Own(amount) = cap else {
            return String::new();
        };
        let best = self
            .with_verdict(Verdict::Better)
            .filter(|cell| self.cap(cell) == cap)
            .max_by(|a, b| answered(a).total_cmp(&answered(b)));
        match best {
            Some(cell) => format!(
                " With a cap of USD {}, {} answers {}.",
                dollars(amount),
                named(&cell.policy),
                percent(answered(cell))
            ),
            None => format!(
                " With a cap of USD {}, nothing answers more than {} beyond noise.",
                dollars(amount),
                named(&base.policy)
            ),
        }
    }

    fn equals(&self, cell: &Cell) -> String {
        let others = self
            .scenario
            .leaders
            .iter()
            .filter(|name| **name != cell.policy);
        match others.count() {
            0 => String::new(),
            1 => " One other policy answers as many within noise.".to_owned(),
            n => format!(" {n} other policies answer as many within noise."),
        }
    }

    fn none_better(&self, base: &Cell) -> Finding {
        let worse = self.with_verdict(Verdict::Worse).count();
        let rate = format!(
            "{} {}",
            percent(answered(base)),
            base.figure(Measure::AnsweredRate)
                .and_then(|figure| figure.interval)
                .map_or_else(String::new, |i| crate::numbers::arm(
                    answered(base),
                    i.lo,
                    i.hi
                )),
        );
        let text = match (self.scenario.cells.len(), worse) {
            (1, _) => format!("{} answers {rate} of runs.", named(&base.policy)),
            (_, 0) => format!(
                "Nothing differs beyond noise in how many runs are answered: {} answers {rate}.",
                base.policy
            ),
            (_, n) => format!(
                "No policy answers more runs than {} ({rate}) beyond noise; {n} {} fewer.",
                named(&base.policy),
                if n == 1 { "answers" } else { "answer" },
            ),
        };
        self.finding(FindingKind::Headline, None, 0.0, text)
    }

    fn reserve_lowers(&self) -> Option<Finding> {
        let mut lowered: Vec<(&Cell, &ReserveEffect)> = self
            .scenario
            .cells
            .iter()
            .filter_map(|cell| Some((cell, lowering(cell)?)))
            .collect();
        lowered.sort_by(|a, b| a.1.answered_rate.value.total_cmp(&b.1.answered_rate.value));
        let (worst, effect) = *lowered.first()?;
        let others: Vec<(&Cell, f64)> = lowered[1..]
            .iter()
            .map(|(cell, effect)| (*cell, effect.answered_rate.value))
            .collect();
        let lost = -effect.answered_rate.value;
        let text = format!(
            "The reserve of {} lowers the answered rate by {} points ({}, against {}): in {} of {} runs \
             the turn that crossed into the reserve asked for a tool and was failed without having been \
             told.{}",
            named(&worst.policy),
            fixed(lost * 100.0, 1),
            interval_in_points(effect.answered_rate.interval),
            named(&effect.without),
            count(worst.event(UNANNOUNCED)),
            count(self.scenario.runs),
            also(&others),
        );
        let mut finding = self.finding(FindingKind::ReserveLowers, Some(worst), lost, text);
        finding.command = self.lowered_run(worst, &effect.without);
        Some(finding)
    }

    /// The command that shows a run which the reserve fails beside the same run without it.
    fn lowered_run(&self, cell: &Cell, without: &str) -> Option<String> {
        if without == self.baseline {
            return cell.examples.first().map(|example| example.command.clone());
        }
        let alone = |example: &&Example| !example.command.contains(" --against ");
        let command = &cell.examples.iter().find(alone)?.command;
        Some(format!("{command} --against {}", shell(without)))
    }

    fn answers_less(&self) -> Option<Finding> {
        let mut lower: Vec<&Cell> = self
            .with_verdict(Verdict::Worse)
            .filter(|cell| lowering(cell).is_none())
            .collect();
        lower.sort_by(|a, b| change(a).total_cmp(&change(b)));
        let worst = *lower.first()?;
        let others: Vec<(&Cell, f64)> = lower[1..]
            .iter()
            .map(|cell| (*cell, change(cell)))
            .collect();
        let cause = worst
            .causes
            .iter()
            .find(|cause| cause.outcome != "answered");
        let reason = cause.map_or_else(String::new, |cause| {
            format!(
                "; {} of {} runs end with {}",
                count(cause.runs),
                count(self.scenario.runs),
                cause.cause
            )
        });
        let text = format!(
            "{} answers {} points fewer runs than {} ({}){reason}.{}",
            named(&worst.policy),
            fixed(-change(worst) * 100.0, 1),
            named(self.baseline),
            interval_in_points(worst.comparison.as_ref()?.answered().interval),
            also(&others),
        );
        let mut finding = self.finding(FindingKind::AnswersLess, Some(worst), -change(worst), text);
        finding.command = worst
            .examples
            .first()
            .map(|example| example.command.clone());
        Some(finding)
    }

    fn overspend(&self) -> Option<Finding> {
        let groups = self.by_cap();
        let (cap, cells) = groups.first()?;
        let most = *cells.first()?;
        let least = *cells.last()?;
        let mut text = format!(
            "{}, {} overspends in {}",
            match cap {
                Cap::Own(cap) => format!("Under a money cap of USD {}", dollars(*cap)),
                Cap::Budget(budget) => format!(
                    "Without a money cap, and measured against the scenario's budget of USD {}",
                    dollars(*budget)
                ),
                Cap::None => return None,
            },
            named(&most.policy),
            overspend_words(most)
        );
        if self.clearly_apart(most, least) {
            text.push_str(&format!(
                ", {} in {}",
                named(&least.policy),
                overspend_words(least)
            ));
        }
        text.push('.');
        text.push_str(&against_others(&groups[1..]));
        let differs = most.event("ledger_differs");
        if share(differs, self.scenario.runs) >= NOTEWORTHY {
            text.push_str(&format!(
                " In {} of {} runs of {} the bill differs from the engine's own ledger, which is all \
                 that a cap is compared with.",
                count(differs),
                count(self.scenario.runs),
                named(&most.policy),
            ));
        }
        let weight = overspend_rate(most);
        let mut finding = self.finding(FindingKind::Overspend, Some(most), weight, text);
        let largest = most
            .examples
            .iter()
            .find(|example| example.why.contains("overspend"));
        finding.command = largest.map(|example| example.command.clone());
        Some(finding)
    }

    /// The cells in which bills are measured against the same cap, the most overspent first; only
    /// groups in which that is noteworthy, the baseline's own first. Cells of different groups are not
    /// ranked: who has a higher cap overspends less often by spending more.
    fn by_cap(&self) -> Vec<(Cap, Vec<&Cell>)> {
        let mut groups: Vec<(Cap, Vec<&Cell>)> = Vec::new();
        let applies = |cell: &&Cell| cell.figure(Measure::OverspendRate).is_some();
        for cell in self.scenario.cells.iter().filter(applies) {
            let cap = self.cap(cell);
            match groups.iter_mut().find(|(known, _)| *known == cap) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((cap, vec![cell])),
            }
        }
        for (_, cells) in &mut groups {
            cells.sort_by(|a, b| overspend_rate(b).total_cmp(&overspend_rate(a)));
        }
        groups.retain(|(_, cells)| overspend_rate(cells[0]) >= NOTEWORTHY);
        let own = self.scenario.cell(self.baseline).map(|base| self.cap(base));
        groups.sort_by_key(|(cap, _)| Some(*cap) != own);
        groups
    }

    fn clearly_apart(&self, most: &Cell, least: &Cell) -> bool {
        let interval = |cell: &Cell| cell.figure(Measure::OverspendRate).and_then(|f| f.interval);
        match (interval(most), interval(least)) {
            (Some(most), Some(least)) => least.hi < most.lo,
            _ => false,
        }
    }

    fn answer_discarded(&self) -> Option<Finding> {
        let discarded = |cell: &Cell| cell.event("answer_discarded");
        let most = self
            .scenario
            .cells
            .iter()
            .max_by_key(|cell| discarded(cell))?;
        let part = share(discarded(most), self.scenario.runs);
        if part < NOTEWORTHY {
            return None;
        }
        let text = format!(
            "Under {} a paid answer was discarded in {} of {} runs because it crossed a limit.",
            named(&most.policy),
            count(discarded(most)),
            count(self.scenario.runs),
        );
        Some(self.finding(FindingKind::AnswerDiscarded, Some(most), part, text))
    }

    fn repaid(&self) -> Option<Finding> {
        let calls = |cell: &&Cell| cell.number(Measure::RepaidCalls).unwrap_or(0.0);
        let most = self
            .scenario
            .cells
            .iter()
            .max_by(|a, b| calls(a).total_cmp(&calls(b)))?;
        let least = self
            .scenario
            .cells
            .iter()
            .min_by(|a, b| calls(a).total_cmp(&calls(b)))?;
        if calls(&most) == 0.0 {
            return None;
        }
        let words = |cell: &Cell| {
            let kills = cell.number(Measure::Kills).unwrap_or(0.0);
            let each = if kills > 0.0 {
                calls(&cell) / kills
            } else {
                0.0
            };
            let repaid =
                cell.number(Measure::Repaid).unwrap_or(0.0) / self.scenario.runs.max(1) as f64;
            format!(
                "{} calls a kill again under {} (USD {} a run)",
                fixed(each, 1),
                named(&cell.policy),
                usd(repaid)
            )
        };
        let mut text = format!("Restarts execute {}", words(most));
        if calls(&least) < calls(&most) {
            text.push_str(&format!(", {}", words(least)));
        }
        text.push('.');
        Some(self.finding(FindingKind::Repaid, Some(most), calls(&most), text))
    }

    fn with_verdict(&self, wanted: Verdict) -> impl Iterator<Item = &Cell> {
        let has = move |cell: &&Cell| verdict(cell) == Some(wanted);
        self.scenario.cells.iter().filter(has)
    }
}

const UNANNOUNCED: &str = "violation_unannounced";

/// A policy's name as part of a sentence: quoted where it could be read as words of it.
pub(crate) fn named(policy: &str) -> String {
    if policy.contains(|c: char| c.is_whitespace() || c == ',') {
        format!("\u{201c}{policy}\u{201d}")
    } else {
        policy.to_owned()
    }
}

fn verdict(cell: &Cell) -> Option<Verdict> {
    cell.comparison
        .as_ref()
        .map(|comparison| comparison.verdict)
}

fn answered(cell: &Cell) -> f64 {
    cell.number(Measure::AnsweredRate).unwrap_or(0.0)
}

fn price(cell: &Cell) -> f64 {
    cell.number(Measure::CostPerAnswer).unwrap_or(f64::INFINITY)
}

fn change(cell: &Cell) -> f64 {
    cell.comparison
        .as_ref()
        .map_or(0.0, |comparison| comparison.answered().value)
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn interval_in_points(interval: Option<crate::stats::Interval>) -> String {
    interval.map_or_else(
        || "no interval".to_owned(),
        |i| format!("95% interval {} to {}", points(i.lo), points(i.hi)),
    )
}

fn overspend_words(cell: &Cell) -> String {
    let amount = |measure| cell.number(measure).map_or_else(|| "?".to_owned(), usd);
    format!(
        "{} of runs (p99 USD {}, at most {})",
        cell.number(Measure::OverspendRate)
            .map_or_else(String::new, percent),
        amount(Measure::OverspendP99),
        amount(Measure::OverspendMax),
    )
}

fn overspend_rate(cell: &Cell) -> f64 {
    cell.number(Measure::OverspendRate).unwrap_or(0.0)
}

/// The most overspent policy under each other cap, with the amount that it is measured against.
fn against_others(groups: &[(Cap, Vec<&Cell>)]) -> String {
    let words: Vec<String> = groups
        .iter()
        .filter_map(|(cap, cells)| {
            let most = cells.first()?;
            let measured = match cap {
                Cap::Own(cap) => format!("its cap of USD {}", dollars(*cap)),
                Cap::Budget(budget) => {
                    format!("no cap; the scenario's budget of USD {}", dollars(*budget))
                }
                Cap::None => return None,
            };
            let rate = percent(overspend_rate(most));
            Some(format!("{} in {rate} ({measured})", named(&most.policy)))
        })
        .collect();
    if words.is_empty() {
        String::new()
    } else {
        format!(
            " Not to be compared, since their caps differ: {}.",
            words.join(", ")
        )
    }
}

/// The baseline's value and a cell's, if the latter is higher and their intervals keep apart.
fn clear_rise(cell: &Cell, base: &Cell, measure: Measure) -> Option<[f64; 2]> {
    let (here, there) = (cell.figure(measure)?, base.figure(measure)?);
    let apart = here.interval?.lo > there.interval?.hi;
    apart.then(|| [there.value.to_f64(), here.value.to_f64()])
}

fn evidence_given_up(cell: &Cell) -> String {
    match cell.difference(Measure::Evidence) {
        Some(difference) if difference.is_clear() && difference.value < 0.0 => format!(
            " It gathers {} fewer results a run.",
            fixed(-difference.value, 2)
        ),
        _ => String::new(),
    }
}

/// Further cells with their changes, in as many words as are worth it.
fn also(others: &[(&Cell, f64)]) -> String {
    let names = |cells: &[(&Cell, f64)]| {
        let named: Vec<String> = cells
            .iter()
            .map(|(cell, change)| format!("{} ({})", named(&cell.policy), points(*change)))
            .collect();
        named.join(", ")
    };
    match others.len() {
        0 => String::new(),
        1 => format!(" So does {}.", names(others)),
        2..=3 => format!(" So do {}.", names(others)),
        n => format!(" So do {n} others, next {}.", names(&others[..2])),
    }
}

/// The effect of a cell's reserves, if it is that runs which were never told fail.
fn lowering(cell: &Cell) -> Option<&ReserveEffect> {
    let effect = cell.reserve_effect.as_ref()?;
    let lowers = effect.clear && effect.answered_rate.value < 0.0;
    (lowers && cell.event(UNANNOUNCED) > 0).then_some(effect)
}

#[cfg(test)]
mod tests;
