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

/// Checks a value against the part of JSON Schema that the published schema uses.
fn assert_valid(
    value: &serde_json::Value,
    schema: &serde_json::Value,
    root: &serde_json::Value,
    at: &str,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return assert_valid(value, target, root, at);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let fits = |choice: &serde_json::Value| {
            let choice = match choice["$ref"].as_str() {
                Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
                None => choice,
            };
            is_type(value, choice["type"].as_str().unwrap())
        };
        assert!(choices.iter().any(fits), "{at}: {value}");
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{at}: {value}");
    }
    if let Some(name) = schema["type"].as_str() {
        assert!(is_type(value, name), "{at}: {value} is no {name}");
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        assert_valid(item, &schema["items"], root, &format!("{at}[{index}]"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(
            value.get(name.as_str().unwrap()).is_some(),
            "{at} lacks {name}"
        );
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{at}.{key}");
        if let Some(names) = schema["propertyNames"]["enum"].as_array() {
            assert!(names.iter().any(|name| name == key), "{path}");
        }
        match (
            schema["properties"].get(key),
            &schema["additionalProperties"],
        ) {
            (Some(known), _) => assert_valid(inner, known, root, &path),
            (None, serde_json::Value::Bool(false)) => panic!("{path} is not in the schema"),
            (None, others) => assert_valid(inner, others, root, &path),
        }
    }
}

fn is_type(value: &serde_json::Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        _ => false,
    }
}

#[test]
fn the_file_keeps_to_its_published_schema() {
    let mut study = sample::study();
    study.runs_per_month = Some(1000);
    let schema: serde_json::Value = serde_json::from_str(JSON_SCHEMA).unwrap();
    let file = serde_json::to_value(Summary::new(&study)).unwrap();
    assert_valid(&file, &schema, &schema, "summary");
    let names = &schema["$defs"]["cell"]["properties"]["measures"]["propertyNames"]["enum"];
    let all: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
    assert_eq!(names, &serde_json::json!(all));
}

#[test]
fn the_same_difference_from_the_baseline_has_one_interval_and_one_verdict() {
    let summary = Summary::new(&sample::study());
    let (mut delivered, mut effects) = (0, 0);
    for cell in summary
        .scenarios
        .iter()
        .flat_map(|scenario| &scenario.cells)
    {
        let Some(comparison) = &cell.comparison else {
            continue;
        };
        if cell.number(Measure::Partial) == Some(0.0) {
            let found = cell.difference(Measure::DeliveredRate).unwrap();
            assert_eq!(*found, comparison.answered(), "{}", cell.policy);
            delivered += 1;
        }
        let effect = cell.reserve_effect.as_ref();
        if let Some(effect) = effect.filter(|e| e.without == summary.study.baseline) {
            assert_eq!(
                effect.answered_rate,
                comparison.answered(),
                "{}",
                cell.policy
            );
            let clear = comparison.verdict != Verdict::NoDifference;
            assert_eq!(effect.clear, clear, "{}", cell.policy);
            effects += 1;
        }
    }
    assert!(delivered > 0 && effects > 0, "{delivered} {effects}");
}
