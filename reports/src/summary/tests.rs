use super::*;
use crate::sample;

fn cell<'a>(summary: &'a Summary, policy: &str) -> &'a Cell {
    summary.scenarios[0].cell(policy).unwrap()
}

#[test]
fn the_file_reads_back_as_the_same_summary() {
    let summary = Summary::new(&sample::study());
    let text = summary.to_json().unwrap();
    let back: Summary = serde_json::from_str(&text).unwrap();
    assert_eq!(back, summary);
    assert_eq!(back.to_json().unwrap(), text);
}

#[test]
fn outcomes_add_up_and_rates_lie_in_their_intervals() {
    let summary = Summary::new(&sample::study());
    for cell in summary
        .scenarios
        .iter()
        .flat_map(|scenario| &scenario.cells)
    {
        let number = |measure| cell.number(measure).unwrap();
        let outcomes =
            number(Measure::Answered) + number(Measure::Partial) + number(Measure::Unanswered);
        assert_eq!(outcomes, number(Measure::Runs));
        assert_eq!(
            cell.causes
                .iter()
                .map(|cause| cause.runs as f64)
                .sum::<f64>(),
            outcomes
        );
        for (measure, figure) in &cell.measures {
            let Some(interval) = figure.interval else {
                continue;
            };
            let value = figure.value.to_f64();
            assert!(
                interval.lo <= value && value <= interval.hi,
                "{measure:?} {figure:?}"
            );
        }
    }
}

#[test]
fn every_rate_mean_and_price_has_an_interval() {
    let summary = Summary::new(&sample::study());
    let cell = cell(&summary, sample::BASELINE);
    for (measure, figure) in &cell.measures {
        let certain = matches!(figure.value, Value::Count(_) | Value::Usd(_));
        assert_eq!(figure.interval.is_none(), certain, "{measure:?}");
    }
}

#[test]
fn a_policy_that_is_the_baseline_under_another_name_does_not_differ() {
    let mut study = sample::study();
    let scenario = &mut study.scenarios[0];
    let mut twin = scenario.cells[0].clone();
    twin.policy = "the same".to_owned();
    let answered = twin.tally.answered;
    twin.pairs = Some(holdback_sim::tally::Pairs {
        both: answered,
        neither: twin.tally.runs - answered,
        ..Default::default()
    });
    scenario.cells.push(twin);
    study.policies.push(crate::study::PolicyInfo {
        name: "the same".to_owned(),
        ..study.policies[0].clone()
    });
    let summary = Summary::new(&study);
    let comparison = cell(&summary, "the same").comparison.as_ref().unwrap();
    assert_eq!(comparison.verdict, Verdict::NoDifference);
    assert_eq!(comparison.mcnemar_p, 1.0);
    let cost = comparison.differences[&Measure::CostMean];
    assert_eq!((cost.value, cost.is_clear()), (0.0, false));
}

#[test]
fn differences_are_those_of_the_shown_values() {
    let summary = Summary::new(&sample::study());
    let base = cell(&summary, sample::BASELINE);
    for cell in &summary.scenarios[0].cells {
        let Some(comparison) = &cell.comparison else {
            continue;
        };
        for (measure, difference) in &comparison.differences {
            let shown = cell.number(*measure).unwrap() - base.number(*measure).unwrap();
            assert!((difference.value - shown).abs() < 2e-6, "{measure:?}");
            let interval = difference.interval.unwrap();
            assert!(interval.lo <= difference.value && difference.value <= interval.hi);
        }
    }
}

#[test]
fn reserves_are_read_from_limits_of_every_family() {
    let summary = Summary::new(&sample::study());
    let sizes = |policy| cell(&summary, policy).reserves.clone();
    assert!(sizes(sample::BASELINE).is_empty());
    assert_eq!(
        sizes("cost reserve 0.25"),
        BTreeMap::from([("synthesis_reserve_cost".to_owned(), 0.25)])
    );
    assert_eq!(
        sizes("finalization window 4"),
        BTreeMap::from([("finalizationWindow.reserveCalls".to_owned(), 4.0)])
    );
}

#[test]
fn a_study_without_runs_or_cells_is_still_a_summary() {
    let mut study = sample::sized(1, 2, 0);
    assert!(
        Summary::new(&study).scenarios[0].cells[0]
            .measures
            .is_empty()
    );
    study.scenarios[0].cells.clear();
    assert!(Summary::new(&study).scenarios[0].leaders.is_empty());
    study.scenarios.clear();
    assert_eq!(Summary::new(&study).statistics.comparisons, 0);
}

#[test]
fn one_run_gives_rates_but_no_resampled_interval() {
    let summary = Summary::new(&sample::sized(1, 2, 1));
    let cell = cell(&summary, sample::BASELINE);
    assert!(
        cell.figure(Measure::AnsweredRate)
            .unwrap()
            .interval
            .is_some()
    );
    assert!(cell.figure(Measure::CostMean).unwrap().interval.is_none());
}
