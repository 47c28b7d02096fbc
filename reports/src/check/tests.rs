use super::*;
use crate::sample;

const SAME: &str = "the same";

fn check(candidate: &str, runs: u64, gates: &[(&str, f64)]) -> Report {
    let mut study = sample::sized(1, 7, runs);
    let mut twin = study.scenarios[0].cells[0].clone();
    twin.policy = SAME.to_owned();
    twin.pairs = Some(holdback_sim::tally::Pairs {
        both: twin.tally.answered,
        neither: twin.tally.runs - twin.tally.answered,
        ..Default::default()
    });
    study.scenarios[0].cells.push(twin);
    let info = crate::study::PolicyInfo {
        name: SAME.to_owned(),
        ..study.policies[0].clone()
    };
    study.policies.push(info);
    let gates: Vec<Gate> = gates
        .iter()
        .map(|(name, t)| Gate::parse(name, *t).unwrap())
        .collect();
    Report::new(&study, &Summary::new(&study), candidate, &gates).unwrap()
}

fn verdict(candidate: &str, gate: &str, threshold: f64) -> Verdict {
    check(candidate, 2000, &[(gate, threshold)]).verdict()
}

#[test]
fn a_clear_regression_fails_with_exit_code_1() {
    let report = check("cost reserve 0.50", 2000, &[("answered_drop_pp", 0.5)]);
    assert_eq!(
        (report.verdict(), report.exit_code(false)),
        (Verdict::Fail, 1)
    );
    assert!(report.cases[0].interval.lo > 0.005);
    assert!(
        report.cases[0]
            .command
            .as_ref()
            .unwrap()
            .contains("explain")
    );
    assert!(report.table().contains("FAIL"));
    assert!(report.conclusion().contains("The gate failed."));
}

#[test]
fn an_improvement_passes() {
    let gates = [
        ("answered_drop_pp", 0.5),
        ("cost_increase_pct", 5.0),
        ("overspend_increase_usd", 0.1),
        ("overspend_increase_pp", 0.5),
        ("overspend_p95_increase_usd", 0.1),
        ("cost_p95_increase_pct", 5.0),
        ("cost_per_answer_increase_pct", 0.0),
        ("wasted_increase_usd", 0.0),
        ("reserve_violations_increase", 0.01),
        ("answered_rate_at_least", 0.9),
        ("duration_p95_at_most_s", 600.0),
    ];
    let report = check("cost 0.25, announced", 4000, &gates);
    for case in &report.cases {
        assert_eq!(case.verdict, Verdict::Pass, "{}", case.measured_words());
    }
    assert_eq!((report.exit_code(false), report.exit_code(true)), (0, 0));
    assert_eq!(report.conclusion(), "All 11 gates pass.");
}

#[test]
fn too_close_to_call_is_its_own_verdict_with_the_runs_that_would_settle_it() {
    let report = check("cost reserve 0.25", 200, &[("answered_drop_pp", 10.0)]);
    assert_eq!(report.verdict(), Verdict::CannotTell);
    assert_eq!((report.exit_code(false), report.exit_code(true)), (0, 1));
    let needed = report.runs_needed().unwrap();
    assert!(needed > 200, "{needed}");
    assert!(report.table().contains(&format!("--runs {needed}")));
    // Enough runs do settle it.
    let settled = check("cost reserve 0.25", 10_000, &[("answered_drop_pp", 10.0)]);
    assert_eq!(settled.verdict(), Verdict::Pass);
}

#[test]
fn the_same_policy_passes_wherever_a_margin_is_allowed() {
    for (gate, threshold) in [
        ("answered_drop_pp", 0.5),
        ("cost_increase_pct", 1.0),
        ("overspend_increase_usd", 0.0),
        ("evidence_drop_pct", 0.0),
    ] {
        assert_eq!(verdict(SAME, gate, threshold), Verdict::Pass, "{gate}");
    }
}

#[test]
fn a_change_from_nothing_by_percent_is_told_only_beyond_noise() {
    // The baseline has no reserve violations.
    assert_eq!(
        verdict("cost reserve 0.25", "reserve_violations_increase_pct", 5.0),
        Verdict::Fail
    );
    assert_eq!(
        verdict(SAME, "reserve_violations_increase_pct", 5.0),
        Verdict::Pass
    );
}

#[test]
fn gates_that_mean_nothing_for_a_policy_are_errors() {
    let study = sample::sized(1, 7, 200);
    let summary = Summary::new(&study);
    let error = |candidate: &str, gate: &str| {
        let gates = [Gate::parse(gate, 0.0).unwrap()];
        Report::new(&study, &summary, candidate, &gates)
            .unwrap_err()
            .to_string()
    };
    assert!(
        error("turn cap 12", "reserve_violations_increase").ends_with("only run_limits has it")
    );
    assert!(error("turn cap 12", "overspend_increase_usd").ends_with("no money cap and no budget"));
    assert!(error("steps reserve 1", "overspend_max_increase_usd").contains("single extreme"));
    assert!(error("nobody", "answered_drop_pp").contains("no policy `nobody`"));
}

/// A study of two policies with as many runs as there are overspends, in micro-dollars.
fn overspends(baseline: &[i64], candidate: &[i64]) -> StudyResult {
    let mut study = sample::sized(1, 2, 1);
    study.scenarios[0].runs = baseline.len() as u64;
    for (cell, overspends) in study.scenarios[0]
        .cells
        .iter_mut()
        .zip([baseline, candidate])
    {
        let mut tally = holdback_sim::tally::Tally::new();
        for (run, micros) in (0..).zip(overspends) {
            let over = holdback_engine::Money::from_micros(*micros);
            let mut record = sample::record();
            record.overspend = Some(over);
            record.billed += over;
            tally.add(run, &record);
        }
        cell.tally = tally;
        // The largest overspend of a run is bounded by a dollar.
        cell.overspend_bound = Some(holdback_engine::Money::from_micros(1_000_000));
        cell.pairs = None;
    }
    study
}

fn gated(study: &StudyResult, gate: &str, threshold: f64) -> Case {
    let gates = [Gate::parse(gate, threshold).unwrap()];
    let candidate = study.policies[1].name.clone();
    let report = Report::new(study, &Summary::new(study), &candidate, &gates).unwrap();
    report.cases[0].clone()
}

#[test]
fn an_overspend_that_no_run_has_shown_yet_is_bounded_by_the_rule_of_three_and_the_worst_run() {
    // At most 1 - 0.025^(1/n) of all runs overspend, each by at most a dollar.
    for (runs, most) in [(20_usize, 0.168_433), (500, 0.007_351), (10_000, 0.000_369)] {
        let none = vec![0; runs];
        let case = gated(&overspends(&none, &none), "overspend_increase_usd", 0.01);
        assert!((case.interval.hi - most).abs() < 1e-6, "{case:?}");
        assert!((case.interval.lo + most).abs() < 1e-6, "{case:?}");
        let expected = if most <= 0.01 {
            Verdict::Pass
        } else {
            Verdict::CannotTell
        };
        assert_eq!(case.verdict, expected, "{runs}");
    }
    // Without any allowance nothing short of the same limits passes.
    let none = vec![0; 10_000];
    let case = gated(&overspends(&none, &none), "overspend_increase_usd", 0.0);
    assert_eq!(
        (case.verdict, case.remedy),
        (Verdict::CannotTell, Some(Remedy::Margin))
    );
}

#[test]
fn a_single_small_overspend_says_nothing_of_larger_ones_that_were_not_seen() {
    let none = vec![0; 20];
    let mut one = none.clone();
    one[3] = 1_000;
    let case = gated(&overspends(&none, &one), "overspend_increase_usd", 0.01);
    assert_eq!(case.verdict, Verdict::CannotTell, "{case:?}");
    assert!(case.interval.hi > 0.168, "{case:?}");
}

#[test]
fn a_bill_that_has_not_differed_yet_may_differ_by_cap_and_overspend() {
    let none = vec![0; 20];
    let case = gated(&overspends(&none, &none), "cost_increase_pct", 5.0);
    assert_eq!(case.verdict, Verdict::CannotTell, "{case:?}");
    // A bill of 2.50 that rises to 6 at most, in 16.8% of the runs.
    assert!(
        (case.interval.hi - 0.168_433 * 6.0 / 2.5).abs() < 1e-6,
        "{case:?}"
    );
    let none = vec![0; 10_000];
    let case = gated(&overspends(&none, &none), "cost_increase_pct", 0.1);
    assert_eq!(case.verdict, Verdict::Pass, "{case:?}");
}

#[test]
fn with_too_few_runs_there_is_no_interval_and_the_number_that_gives_one_is_told() {
    for (gate, runs, fewest) in [
        ("overspend_increase_usd", 1, 10),
        ("overspend_increase_usd", 2, 10),
        ("cost_increase_pct", 2, 10),
        ("wasted_increase_usd", 9, 10),
        ("overspend_p50_increase_usd", 5, 6),
        ("overspend_p99_usd_increase_usd", 200, 368),
        ("cost_p95_increase_pct", 71, 72),
        ("cost_mean_usd_at_most", 3, 10),
    ] {
        let (here, there) = (vec![30_000; runs], vec![10_000; runs]);
        let study = overspends(&there, &here);
        let gates = [Gate::parse(gate, 0.5).unwrap()];
        let candidate = study.policies[1].name.clone();
        let report = Report::new(&study, &Summary::new(&study), &candidate, &gates).unwrap();
        let case = &report.cases[0];
        assert_eq!(case.verdict, Verdict::CannotTell, "{gate}: {case:?}");
        assert_eq!(case.remedy, Some(Remedy::Interval(fewest)), "{gate}");
        assert!(case.measured.is_finite(), "{gate}: {case:?}");
        for text in [report.table(), report.markdown(), report.junit(false)] {
            let text = text.to_lowercase();
            assert!(text.contains("no interval with so few runs"), "{text}");
            assert!(!text.contains("nan") && !text.contains("usd inf"), "{text}");
            assert!(!text.contains("so close to the threshold"), "{text}");
        }
        assert!(report.table().contains(&format!("--runs {fewest}")));
        // That many do give one.
        let (here, there) = (vec![30_000; fewest as usize], vec![10_000; fewest as usize]);
        let case = gated(&overspends(&there, &here), gate, 0.5);
        assert!(case.interval.is_bounded(), "{gate}: {case:?}");
    }
}

#[test]
fn a_share_never_passes_all_of_it() {
    let mut study = sample::sized(1, 2, 400);
    let evidence: Vec<u64> = {
        let groups = &study.scenarios[0].cells[1].tally.groups;
        groups.iter().map(|group| group.sums.evidence).collect()
    };
    study.scenarios[0].twin = Some(crate::study::Twin {
        evidence: evidence.iter().sum(),
        groups: evidence,
    });
    let case = gated(&study, "evidence_kept_at_least", 0.99);
    assert_eq!(case.measured, 1.0);
    assert!(
        case.interval.lo < 1.0 && case.interval.hi == 1.0,
        "{case:?}"
    );
    let summary = Summary::new(&study);
    let figure = summary.scenarios[0].cells[1]
        .figure(Measure::EvidenceKept)
        .unwrap();
    assert_eq!(figure.interval.unwrap().hi, 1.0);
}

#[test]
fn one_gate_is_spoken_of_as_one() {
    let one = check(SAME, 400, &[("answered_drop_pp", 0.5)]);
    assert_eq!(one.conclusion(), "The gate passes.");
    let two = check(
        SAME,
        400,
        &[("answered_drop_pp", 0.5), ("cost_increase_pct", 1.0)],
    );
    assert_eq!(two.conclusion(), "All 2 gates pass.");
}

#[test]
fn verdicts_turn_at_the_threshold() {
    let interval = Interval::new(0.1, 0.2);
    assert_eq!(Verdict::of(interval, 0.05), Verdict::Fail);
    assert_eq!(Verdict::of(interval, 0.1), Verdict::CannotTell);
    assert_eq!(Verdict::of(interval, 0.2), Verdict::Pass);
}

#[test]
fn recommended_runs_shrink_the_arm_to_the_distance() {
    // The arm is twice the distance: four times the runs, and some to spare.
    let needed = runs_needed(1000, 0.01, Interval::new(0.0, 0.02), 0.015).unwrap();
    assert_eq!(needed, 5800);
    assert_eq!(
        runs_needed(1000, 0.01, Interval::new(0.0, 0.02), 0.01),
        None
    );
}

#[test]
fn junit_has_a_case_a_gate_and_escapes_names() {
    let mut report = check(
        "cost reserve 0.50",
        400,
        &[("answered_drop_pp", 0.5), ("cost_increase_pct", 5.0)],
    );
    report.cases[0].scenario = "a<b>&\"\u{1}".to_owned();
    let xml = report.junit(false);
    assert_eq!(xml.matches("<testcase ").count(), 2);
    assert_eq!(
        xml.matches("<failure ").count(),
        report.count(Verdict::Fail)
    );
    assert!(xml.contains("a&lt;b&gt;&amp;&quot;\u{fffd}"));
}

#[test]
fn markdown_states_the_verdict_first_and_every_gate() {
    let report = check(
        "cost reserve 0.50",
        2000,
        &[("answered_drop_pp", 0.5), ("cost_increase_pct", 5.0)],
    );
    let text = report.markdown();
    assert!(
        text.starts_with("### Limits FAIL: cost reserve 0.50 against no reserve"),
        "{text}"
    );
    assert!(text.contains("| **FAIL** | scheduled-briefing | `answered_drop_pp` |"));
    assert!(text.contains("`cost_increase_pct`"));
}
