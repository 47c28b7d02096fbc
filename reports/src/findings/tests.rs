use super::*;
use crate::sample;
use crate::study::StudyResult;

fn found(study: &StudyResult, kind: FindingKind) -> Vec<Finding> {
    let findings = Summary::new(study).findings;
    findings.into_iter().filter(|f| f.kind == kind).collect()
}

#[test]
fn the_headline_names_the_policy_and_gives_its_gain_with_an_interval() {
    let study = sample::study();
    let summary = Summary::new(&study);
    let headline = &found(&study, FindingKind::Headline)[0];
    let best = recommended(&summary.scenarios[0]).unwrap();
    assert_eq!(headline.policy.as_deref(), Some("cost 0.25, announced"));
    assert!(
        headline
            .text
            .starts_with("\u{201c}cost 0.25, announced\u{201d} answers ")
    );
    let gain = best.comparison.as_ref().unwrap().answered();
    assert!(headline.text.contains(&interval_in_points(gain.interval)));
    assert!(headline.text.contains(" an answer instead of "));
}

#[test]
fn there_is_one_headline_a_scenario() {
    let headlines = found(&sample::study(), FindingKind::Headline);
    let scenarios: Vec<&str> = headlines.iter().map(|f| f.scenario.as_str()).collect();
    assert_eq!(
        scenarios,
        ["scheduled-briefing", "facility-research", "coding-agent"]
    );
}

#[test]
fn a_reserve_that_fails_turns_unannounced_is_named_with_its_count_and_a_run() {
    let study = sample::study();
    let summary = Summary::new(&study);
    let finding = &found(&study, FindingKind::ReserveLowers)[0];
    let cell = summary.scenarios[0].cell("cost reserve 0.50").unwrap();
    assert_eq!(finding.policy.as_deref(), Some("cost reserve 0.50"));
    let runs = count(cell.event(UNANNOUNCED));
    assert!(
        finding.text.contains(&format!("in {runs} of 800 runs")),
        "{}",
        finding.text
    );
    let command = finding.command.as_deref().unwrap();
    assert!(command.starts_with(
        "holdback explain --scenario scheduled-briefing --policy \"cost reserve 0.50\" --run "
    ));
    assert!(
        command.ends_with(" --against \"no reserve\" --study briefing.toml"),
        "{command}"
    );
}

#[test]
fn inside_noise_nothing_is_called_better_or_worse() {
    // So few runs that even large differences are within noise.
    let study = sample::sized(1, 7, 8);
    let summary = Summary::new(&study);
    for finding in &summary.findings {
        for word in ["more than", "fewer", "lowers"] {
            assert!(!finding.text.contains(word), "{}", finding.text);
        }
    }
    assert!(
        summary.findings[0]
            .text
            .starts_with("Nothing differs beyond noise")
    );
}

#[test]
fn one_policy_alone_is_described_without_a_comparison() {
    let headline = &found(&sample::sized(1, 1, 400), FindingKind::Headline)[0];
    assert!(
        headline
            .text
            .starts_with("\u{201c}no reserve\u{201d} answers "),
        "{}",
        headline.text
    );
}

#[test]
fn a_scenario_in_which_nothing_answers_says_so() {
    let mut study = sample::sized(1, 3, 50);
    for cell in &mut study.scenarios[0].cells {
        cell.tally.answered = 0;
        cell.tally
            .groups
            .iter_mut()
            .for_each(|group| group.answered = 0);
    }
    let headline = &found(&study, FindingKind::Headline)[0];
    assert!(
        headline
            .text
            .starts_with("No policy ends a single run with an answer")
    );
}

#[test]
fn a_reserve_is_blamed_only_for_what_it_changes() {
    // The policy that differs from the baseline in a limit, too, has no twin without its reserve.
    let mut study = sample::sized(1, 3, 800);
    study.policies[2].definition["limits"]["max_steps"] = 3.into();
    let finding = &found(&study, FindingKind::ReserveLowers)[0];
    assert_eq!(finding.policy.as_deref(), Some("cost reserve 0.25"));
    assert!(!finding.text.contains("0.50"), "{}", finding.text);
    let others = found(&study, FindingKind::AnswersLess);
    assert_eq!(others[0].policy.as_deref(), Some("cost reserve 0.50"));
}

/// The sample, its recommended policy changed by `alter`.
fn with_winner(
    alter: impl Fn(&mut crate::study::PolicyInfo, &mut crate::study::Cell),
) -> StudyResult {
    let mut study = sample::sized(1, 7, 800);
    let at = study
        .policies
        .iter()
        .position(|policy| policy.name == "cost 0.25, announced")
        .unwrap();
    alter(&mut study.policies[at], &mut study.scenarios[0].cells[at]);
    study
}

#[test]
fn a_headline_says_that_the_winner_has_no_money_cap_and_what_is_best_with_one() {
    let study =
        with_winner(|policy, _| policy.definition["limits"]["max_cost"] = "unlimited".into());
    let headline = &found(&study, FindingKind::Headline)[0];
    assert_eq!(headline.policy.as_deref(), Some("cost 0.25, announced"));
    for part in [
        " It has no money cap; \u{201c}no reserve\u{201d} has one of USD 5.00.",
        " With a cap of USD 5.00, ",
    ] {
        assert!(headline.text.contains(part), "{}", headline.text);
    }
}

#[test]
fn a_headline_names_another_cap_than_the_baselines() {
    let study = with_winner(|policy, _| policy.definition["limits"]["max_cost"] = "30.00".into());
    let headline = &found(&study, FindingKind::Headline)[0];
    let caps = " Its money cap is USD 30.00; \u{201c}no reserve\u{201d} has one of USD 5.00.";
    assert!(headline.text.contains(caps), "{}", headline.text);
}

#[test]
fn a_headline_says_that_overspent_runs_rise() {
    let study = with_winner(|_, cell| {
        for group in &mut cell.tally.groups {
            group.overspent = group.capped;
        }
    });
    let headline = &found(&study, FindingKind::Headline)[0];
    assert!(
        headline.text.contains(" It raises overspent runs from "),
        "{}",
        headline.text
    );
    assert!(headline.text.contains(" to 100.0%"), "{}", headline.text);
}

#[test]
fn a_headline_is_silent_about_caps_and_overspend_that_do_not_rise() {
    let headline = &found(&sample::study(), FindingKind::Headline)[0];
    for word in ["cap", "overspen"] {
        assert!(!headline.text.contains(word), "{}", headline.text);
    }
}

#[test]
fn overspend_is_ranked_only_under_the_same_cap() {
    let study = with_winner(|policy, cell| {
        policy.definition["limits"]["max_cost"] = "2.00".into();
        for group in &mut cell.tally.groups {
            group.overspent = group.capped;
        }
    });
    let finding = &found(&study, FindingKind::Overspend)[0];
    assert_ne!(finding.policy.as_deref(), Some("cost 0.25, announced"));
    assert!(finding.text.starts_with("Under a money cap of USD 5.00, "));
    let apart = "Not to be compared, since their caps differ: \u{201c}cost 0.25, announced\u{201d} in \
                 100.0% (its cap of USD 2.00).";
    assert!(finding.text.contains(apart), "{}", finding.text);
}
