//! From tallies to a summary.

use std::collections::BTreeMap;

use holdback_sim::tally::{Event, GROUPS};
use rayon::prelude::*;

use super::{
    Cause, Cell, Comparison, Difference, Example, Figure, PerMonth, Policy, ReserveEffect, SCHEMA,
    Scenario, Statistics, Study, Summary, Verdict, curve,
};
use crate::findings;
use crate::measure::Measure;
use crate::numbers::{rounded, rounded_p, shell};
use crate::observed::{self, Observed, Tools};
use crate::reserves;
use crate::stats::resample::RESAMPLES;
use crate::stats::{CONFIDENCE, paired};
use crate::study::{self, ScenarioInfo, StudyResult};

/// The measures that every cell is compared with the baseline in.
const COMPARED: [Measure; 7] = [
    Measure::AnsweredRate,
    Measure::DeliveredRate,
    Measure::OverspendRate,
    Measure::OverspendMean,
    Measure::CostMean,
    Measure::CostPerAnswer,
    Measure::Evidence,
];

impl Summary {
    /// Computes every number of the reports.
    pub fn new(result: &StudyResult) -> Summary {
        let mut scenarios: Vec<Scenario> = result
            .scenarios
            .iter()
            .map(|info| scenario(result, info))
            .collect();
        let comparisons = judge(&mut scenarios, &result.baseline);
        let mut summary = Summary {
            schema: SCHEMA,
            version: result.version.clone(),
            study: study_of(result),
            statistics: Statistics {
                confidence: CONFIDENCE,
                comparisons,
                groups: GROUPS as u64,
                resamples: RESAMPLES as u64,
            },
            findings: Vec::new(),
            policies: policies(result),
            scenarios,
            skipped: result.skipped.clone(),
            notes: result.notes.clone(),
        };
        summary.findings = findings::find(&summary);
        summary
    }
}

fn study_of(result: &StudyResult) -> Study {
    Study {
        name: result.name.clone(),
        kind: result.kind,
        seed: result.seed,
        runs: result.runs,
        baseline: result.baseline.clone(),
        command: result.command.clone(),
        explain_options: result.explain_options.clone(),
        runs_per_month: result.runs_per_month,
    }
}

fn policies(result: &StudyResult) -> Vec<Policy> {
    let policy = |info: &study::PolicyInfo| Policy {
        name: info.name.clone(),
        family: info.family.clone(),
        definition: info.definition.clone(),
        defaults: info.defaults.clone(),
    };
    result.policies.iter().map(policy).collect()
}

fn scenario(result: &StudyResult, info: &ScenarioInfo) -> Scenario {
    let family = |policy: &str| result.policy(policy).map_or("", |p| p.family.as_str());
    let observed: Vec<Observed<'_>> = info
        .cells
        .iter()
        .map(|cell| Observed::new(cell, family(&cell.policy), info.twin.as_ref()))
        .collect();
    let tools = Tools::for_cells(observed.iter());
    let baseline = info.cells.iter().position(|c| c.policy == result.baseline);
    let cells = observed
        .par_iter()
        .zip(&info.cells)
        .map(|(here, source)| {
            CellBuilder {
                result,
                info,
                source,
                here,
                there: baseline.map(|at| &observed[at]),
                all: &observed,
                tools: &tools,
            }
            .build()
        })
        .collect();
    Scenario {
        name: info.name.clone(),
        summary: info.summary.clone(),
        budget_usd: info.budget,
        runs: info.runs,
        explain: explain_scenario(info),
        leaders: leaders(info, &observed, &tools),
        left_out: info.left_out.clone(),
        cells,
        definition: info.definition.clone(),
    }
}

fn explain_scenario(info: &ScenarioInfo) -> String {
    if info.explain.is_empty() {
        format!("--scenario {}", shell(&info.name))
    } else {
        info.explain.clone()
    }
}

/// The policies whose answered rate is not clearly below the best one, best first, cheaper answers
/// first among equal rates.
fn leaders(info: &ScenarioInfo, observed: &[Observed<'_>], tools: &Tools) -> Vec<String> {
    let number = |at: usize, measure| observed[at].value(measure).map(|value| value.to_f64());
    let mut order: Vec<usize> = (0..observed.len()).collect();
    order.sort_by(|&a, &b| {
        let rate = |at| number(at, Measure::AnsweredRate).unwrap_or(-1.0);
        let price = |at| number(at, Measure::CostPerAnswer).unwrap_or(f64::INFINITY);
        rate(b)
            .total_cmp(&rate(a))
            .then(price(a).total_cmp(&price(b)))
    });
    let Some(&best) = order.first() else {
        return Vec::new();
    };
    let clearly_below = |at: usize| {
        let found = observed[at].difference(&observed[best], Measure::AnsweredRate, None, tools);
        matches!(found, Some(observed::Difference::Known(_, Some(interval))) if interval.hi < 0.0)
    };
    order
        .into_iter()
        .filter(|at| *at == best || !clearly_below(*at))
        .map(|at| info.cells[at].policy.clone())
        .collect()
}

struct CellBuilder<'a> {
    result: &'a StudyResult,
    info: &'a ScenarioInfo,
    source: &'a study::Cell,
    here: &'a Observed<'a>,
    there: Option<&'a Observed<'a>>,
    all: &'a [Observed<'a>],
    tools: &'a Tools,
}

impl CellBuilder<'_> {
    fn build(&self) -> Cell {
        let (mut measures, pending) = self.here.figures(self.tools);
        let (mut comparison, differing) = self.comparison();
        let estimates: Vec<_> = pending
            .iter()
            .chain(&differing)
            .map(|(_, estimate)| estimate)
            .collect();
        let mut intervals = self.tools.intervals(&estimates).into_iter();
        for ((measure, _), interval) in pending.iter().zip(intervals.by_ref()) {
            if let Some(figure) = measures.get_mut(measure) {
                let interval = self.here.possible(*measure, interval);
                *figure = Figure::new(figure.value, Some(interval));
            }
        }
        if let Some(comparison) = &mut comparison {
            for ((measure, estimate), interval) in differing.iter().zip(intervals) {
                let difference = Difference::new(estimate.value, Some(interval));
                comparison.differences.insert(*measure, difference);
            }
        }
        let tally = &self.source.tally;
        let policy = self.result.policy(&self.source.policy);
        Cell {
            policy: self.source.policy.clone(),
            family: policy.map_or_else(String::new, |policy| policy.family.clone()),
            per_month: self.per_month(&measures),
            reserve_effect: self.reserve_effect(),
            measures,
            comparison,
            causes: self.causes(),
            events: self.events(),
            examples: self.examples(),
            overspend_exceedance: curve::exceedance(&tally.overspend),
            reserve_left_quantiles_usd: curve::box_quantiles(&tally.reserve_left),
            reserves: policy
                .map_or_else(BTreeMap::new, |policy| reserves::sizes(&policy.definition)),
        }
    }

    /// The comparison with the baseline, and the differences whose intervals are to be resampled.
    fn comparison(
        &self,
    ) -> (
        Option<Comparison>,
        Vec<(Measure, crate::stats::resample::Estimate)>,
    ) {
        let (Some(pairs), Some(there)) = (&self.source.pairs, self.there) else {
            return (None, Vec::new());
        };
        let mut differences = BTreeMap::new();
        let mut differing = Vec::new();
        for measure in COMPARED {
            match self
                .here
                .difference(there, measure, Some(pairs), self.tools)
            {
                Some(observed::Difference::Known(value, interval)) => {
                    differences.insert(measure, Difference::new(value, interval));
                }
                Some(observed::Difference::Resampled(estimate)) => {
                    differing.push((measure, estimate));
                }
                None => {}
            }
        }
        let p = paired::mcnemar_exact(pairs.only_here, pairs.only_there);
        let comparison = Comparison {
            both: pairs.both,
            only_here: pairs.only_here,
            only_there: pairs.only_there,
            neither: pairs.neither,
            mcnemar_p: rounded_p(p),
            adjusted_p: 1.0,
            verdict: Verdict::NoDifference,
            differences,
        };
        (Some(comparison), differing)
    }

    /// The difference to the same policy without its reserves.
    fn reserve_effect(&self) -> Option<ReserveEffect> {
        let definition = |name: &str| Some(&self.result.policy(name)?.definition);
        let own = definition(&self.source.policy)?;
        if reserves::sizes(own).is_empty() {
            return None;
        }
        let key = reserves::alike_without_any(own);
        let is_bare = |cell: &study::Cell| {
            definition(&cell.policy).is_some_and(|other| {
                reserves::sizes(other).is_empty() && reserves::alike_without_any(other) == key
            })
        };
        let at = self.info.cells.iter().position(is_bare)?;
        let bare = &self.all[at];
        // Run by run only the comparison with the baseline is kept.
        let is_baseline = self.info.cells[at].policy == self.result.baseline;
        let pairs = self.source.pairs.as_ref().filter(|_| is_baseline);
        let difference = |confidence| {
            self.here
                .share_difference(bare, Measure::AnsweredRate, pairs, confidence)
        };
        let cells: usize = self
            .result
            .scenarios
            .iter()
            .map(|info| info.cells.len())
            .sum();
        let (value, interval) = difference(CONFIDENCE)?;
        let (_, corrected) = difference(1.0 - (1.0 - CONFIDENCE) / cells.max(1) as f64)?;
        Some(ReserveEffect {
            without: self.info.cells[at].policy.clone(),
            answered_rate: Difference::new(value, Some(interval)),
            clear: corrected.excludes_zero(),
        })
    }

    fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self
            .source
            .tally
            .causes
            .iter()
            .map(|((outcome, cause), runs)| Cause {
                outcome: outcome.as_str().to_owned(),
                cause: cause.as_str().to_owned(),
                runs: *runs,
            })
            .collect();
        causes.sort_by(|a, b| {
            b.runs
                .cmp(&a.runs)
                .then_with(|| (&a.outcome, &a.cause).cmp(&(&b.outcome, &b.cause)))
        });
        causes
    }

    fn events(&self) -> BTreeMap<String, u64> {
        Event::ALL
            .iter()
            .zip(&self.source.tally.seen)
            .filter(|(_, runs)| **runs > 0)
            .map(|(event, runs)| (event.as_str().to_owned(), *runs))
            .collect()
    }

    fn examples(&self) -> Vec<Example> {
        let examples = &self.source.tally.examples;
        let pairs = self.source.pairs.unwrap_or_default();
        let baseline = self.result.baseline.as_str();
        let found: [(Option<u64>, String, Option<&str>); 4] = [
            (
                pairs.first_only_there,
                format!("answered under {baseline}, not here"),
                Some(baseline),
            ),
            (
                pairs.first_only_here,
                format!("answered here, not under {baseline}"),
                Some(baseline),
            ),
            (
                examples.first_unanswered,
                "the first run without an answer".to_owned(),
                None,
            ),
            (
                examples.largest_overspend.map(|(_, run)| run),
                "the largest overspend".to_owned(),
                None,
            ),
        ];
        found
            .into_iter()
            .filter_map(|(run, why, against)| {
                let run = run?;
                Some(Example {
                    run,
                    why,
                    command: self.explain(run, against),
                })
            })
            .take(3)
            .collect()
    }

    fn explain(&self, run: u64, against: Option<&str>) -> String {
        let mut command = format!(
            "holdback explain {} --policy {} --run {run}",
            explain_scenario(self.info),
            shell(&self.source.policy)
        );
        if let Some(against) = against {
            command.push_str(&format!(" --against {}", shell(against)));
        }
        if !self.result.explain_options.is_empty() {
            command.push(' ');
            command.push_str(&self.result.explain_options);
        }
        command
    }

    fn per_month(&self, measures: &BTreeMap<Measure, Figure>) -> Option<PerMonth> {
        let runs = self.result.runs_per_month?;
        let monthly = |measure: Measure| {
            let mean = measures.get(&measure)?.value.to_f64();
            Some(rounded(mean * runs as f64))
        };
        let answered = measures.get(&Measure::AnsweredRate)?.value.to_f64();
        Some(PerMonth {
            runs,
            cost_usd: monthly(Measure::CostMean)?,
            answers_lost: rounded((1.0 - answered) * runs as f64),
            overspend_usd: monthly(Measure::OverspendMean),
        })
    }
}

/// Fills in verdicts, corrected for the number of comparisons, which is returned.
fn judge(scenarios: &mut [Scenario], baseline: &str) -> u64 {
    let mut comparisons: Vec<&mut Comparison> = scenarios
        .iter_mut()
        .flat_map(|scenario| &mut scenario.cells)
        .filter_map(|cell| cell.comparison.as_mut())
        .collect();
    let p_values: Vec<f64> = comparisons.iter().map(|c| c.mcnemar_p).collect();
    for (comparison, adjusted) in comparisons.iter_mut().zip(paired::holm(&p_values)) {
        comparison.adjusted_p = rounded_p(adjusted);
        let difference = comparison.answered();
        let clear = difference.is_clear() && adjusted < 1.0 - CONFIDENCE;
        comparison.verdict = match (clear, difference.value > 0.0) {
            (false, _) => Verdict::NoDifference,
            (true, true) => Verdict::Better,
            (true, false) => Verdict::Worse,
        };
    }
    let comparisons = comparisons.len() as u64;
    // Against the baseline the effect of a reserve is that very comparison, and as clear.
    for cell in scenarios
        .iter_mut()
        .flat_map(|scenario| &mut scenario.cells)
    {
        if let (Some(effect), Some(comparison)) = (&mut cell.reserve_effect, &cell.comparison)
            && effect.without == baseline
        {
            effect.clear = comparison.verdict != Verdict::NoDifference;
        }
    }
    comparisons
}
