//! Each built-in scenario shows what it is meant to show.

mod common;

use common::{policy, records, tally};
use holdback_engine::Money;
use holdback_scenarios::scenario::Faults;
use holdback_scenarios::{Loader, Policy, Scenario, library};
use holdback_sim::tally::{Event, RunRecord, Tally};

/// Runs of each cell: enough for differences as large as these.
const RUNS: u64 = 200;

fn scenario(name: &str) -> Scenario {
    Loader::default().scenario(name).unwrap()
}

/// A built-in policy, which is no sweep.
fn built_in(name: &str) -> Policy {
    Loader::default().policies(name).unwrap().0.remove(0)
}

/// What a built-in scenario brings under a built-in policy.
fn cell(scenario_name: &str, policy_name: &str) -> Tally {
    tally(&scenario(scenario_name), &built_in(policy_name), RUNS)
}

fn answered(tally: &Tally) -> f64 {
    tally.answered as f64 / tally.runs as f64
}

/// The share of runs that ended for this reason.
fn share(tally: &Tally, reason: &str) -> f64 {
    let of_reason =
        |((_, cause), _): &(&(_, holdback_sim::tally::Cause), &u64)| cause.as_str() == reason;
    let runs: u64 = tally
        .causes
        .iter()
        .filter(of_reason)
        .map(|(_, runs)| runs)
        .sum();
    runs as f64 / tally.runs as f64
}

fn mean(sum: u64, tally: &Tally) -> f64 {
    sum as f64 / tally.runs as f64
}

fn saw(tally: &Tally, event: Event) -> bool {
    tally.seen[event as usize] > 0
}

fn median_cost(scenario_name: &str, policy_name: &str) -> f64 {
    let runs = records(&scenario(scenario_name), &[built_in(policy_name)], RUNS);
    let mut costs: Vec<Money> = runs[0]
        .iter()
        .map(|record: &RunRecord| record.billed)
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2].to_f64()
}

#[test]
fn every_scenario_runs_under_every_policy() {
    let mut policies = library::all_policies();
    for study in library::study_names() {
        policies.extend(Loader::default().study(study).unwrap().policies);
    }
    for scenario in library::scenarios() {
        let campaign = common::campaign(&scenario, &policies, 2);
        for cell in &campaign.cells {
            assert_eq!(cell.tally.runs, 2);
            assert!(cell.tally.sums.model_calls > 0, "{}", scenario.name);
        }
    }
}

#[test]
fn the_briefing_needs_an_announced_step_and_enough_money() {
    let name = "scheduled-briefing";
    let without = answered(&cell(name, "no reserve"));
    let with = answered(&cell(name, "steps 1, cost 1.00, announced"));
    assert!(with > without + 0.05, "{without} -> {with}");
    let unannounced = answered(&cell(name, "cost reserve 1.00"));
    assert!(
        unannounced < without,
        "a reserve that nobody is told of costs answers"
    );
}

#[test]
fn the_facility_research_is_lost_where_a_crossing_batch_fails() {
    let failing = cell("facility-research", "32 tool calls, crossing batch fails");
    let fitting = cell("facility-research", "32 tool calls");
    assert!(share(&failing, "max_tool_calls") > 0.5);
    assert!(answered(&fitting) > 0.9, "{}", answered(&fitting));
}

#[test]
fn the_fitted_agents_cost_what_their_recorded_runs_did() {
    // Recorded medians: USD 0.38 and 0.03.
    let coding = median_cost("coding-agent", "browser task");
    assert!((0.25..0.45).contains(&coding), "{coding}");
    let retail = median_cost("retail-agent", "browser task");
    assert!((0.02..0.04).contains(&retail), "{retail}");
}

#[test]
fn a_browser_task_is_long_and_its_reserves_are_not_announced() {
    let shipped = cell("browser-task", "browser task");
    assert!(mean(shipped.sums.tool_calls, &shipped) > 50.0);
    assert!(share(&shipped, "synthesis_reserve") > 0.2);
    let mut announced = built_in("browser task");
    if let holdback_scenarios::policy::Settings::RunLimits(settings) = &mut announced.settings {
        settings.rules.crossing_turn =
            holdback_scenarios::policy::CrossingTurn::RefuseThenSynthesize;
    }
    let announced = tally(&scenario("browser-task"), &announced, RUNS);
    assert!(answered(&announced) > answered(&shipped) + 0.2);
}

#[test]
fn a_hungry_model_answers_only_when_told_in_time() {
    let without = answered(&cell("tool-hungry", "no reserve"));
    let with = answered(&cell("tool-hungry", "steps reserve 1"));
    assert!(with > without + 0.1, "{without} -> {with}");
    let endless = tally(&scenario("tool-hungry"), &common::no_limits(), 2);
    assert_eq!(endless.answered, 0, "without a limit it never ends");
}

#[test]
fn a_stubborn_model_is_stopped_by_missing_tools_and_not_by_being_told() {
    let told = cell("stubborn", "steps reserve 1");
    let without_tools = tally(
        &scenario("stubborn"),
        &policy(
            "family = \"caps\"\nlimits = { max_turns = 12, on_exhausted = \"final_turn_inside\" }",
        ),
        RUNS,
    );
    assert!(answered(&told) < 0.65, "{}", answered(&told));
    assert!(
        answered(&without_tools) > 0.8,
        "{}",
        answered(&without_tools)
    );
    assert!(share(&without_tools, "empty_answer") > 0.02);
}

#[test]
fn a_runaway_turn_passes_a_money_cap_by_more_than_a_usual_run_costs() {
    let spikes = cell("cost-spikes", "cost reserve 1.00");
    assert!(saw(&spikes, Event::CostSpike) && saw(&spikes, Event::Overspent));
    assert!(spikes.largest_call > Money::from_micros(2_000_000));
}

#[test]
fn a_price_jump_makes_the_bill_outgrow_the_ledger() {
    let long = cell("long-context", "interactive defaults");
    assert!(saw(&long, Event::LongContext));
    let (billed, ledger) = (long.sums.billed.to_f64(), long.sums.ledger.to_f64());
    assert!(billed > 1.3 * ledger, "{billed} against {ledger}");
}

#[test]
fn a_closing_request_that_loses_the_cache_is_dearer() {
    let name = "steps 1, cost 1.00, announced";
    let losing = cell("cache-misses", name);
    let mut keeping = scenario("cache-misses");
    keeping.model.cache_hit_under_control = keeping.model.cache_hit;
    let keeping = tally(&keeping, &built_in(name), RUNS);
    assert!(losing.sums.billed > keeping.sums.billed);
    assert!(losing.overspent > keeping.overspent);
}

#[test]
fn a_long_answer_is_cut_and_counted_as_partial_in_every_family() {
    let policies = [
        built_in("interactive defaults"),
        built_in("usage limits, no reserve"),
        built_in("crewai"),
    ];
    for one in &policies {
        let cut = share(&tally(&scenario("overlong-answer"), one, RUNS), "truncated");
        assert!((0.05..0.3).contains(&cut), "{}: {cut}", one.name);
    }
}

#[test]
fn a_guard_against_results_without_news_saves_most_of_a_looping_run() {
    let plain = policy("family = \"usage_limits\"\nlimits = { maxTurns = 28, maxToolCalls = 96 }");
    let guarded = policy(
        "family = \"usage_limits\"\nlimits = { maxTurns = 28, maxToolCalls = 96, maxNoNewEvidenceCalls = 5 }",
    );
    let looping = scenario("looping");
    let (plain, guarded) = (
        tally(&looping, &plain, RUNS),
        tally(&looping, &guarded, RUNS),
    );
    assert!(guarded.sums.billed.to_f64() < 0.6 * plain.sums.billed.to_f64());
    assert!(share(&guarded, "exploration") > 0.5);
    // The same in the other family: the fifth identical call ends the run.
    assert!(
        share(
            &cell("looping", "interactive defaults"),
            "tool_loop_detected"
        ) > 0.5
    );
}

#[test]
fn denials_stop_a_run_only_where_they_are_counted() {
    let counted = cell("denied-calls", "interactive defaults");
    assert!(share(&counted, "repeated_denial") > 0.3);
    let uncounted = policy("family = \"caps\"\nlimits = { max_turns = 32, max_tool_calls = 64 }");
    let uncounted = tally(&scenario("denied-calls"), &uncounted, RUNS);
    assert!(uncounted.sums.denied_calls > 3 * counted.sums.denied_calls / 2);
}

#[test]
fn a_storm_costs_answers_and_money_that_no_ledger_sees() {
    let name = "no reserve";
    let stormy = cell("retry-storm", name);
    let mut calm = scenario("retry-storm");
    calm.model.faults = Faults::default();
    let calm = tally(&calm, &built_in(name), RUNS);
    assert!(answered(&calm) > answered(&stormy) + 0.15);
    assert!(stormy.sums.billed > stormy.sums.ledger);
    assert_eq!(calm.sums.billed, calm.sums.ledger);
    assert!(saw(&stormy, Event::RateLimited) && saw(&stormy, Event::Stall));
}

#[test]
fn a_deadline_without_a_reserve_of_time_loses_most_runs_of_slow_tools() {
    let timed = cell("slow-tools", "interactive, 10 minutes");
    let untimed = cell("slow-tools", "interactive defaults");
    assert!(answered(&untimed) > 0.9);
    assert!(answered(&timed) < 0.5, "{}", answered(&timed));
    assert!(timed.late > 0, "the work in flight is not cut");
}

#[test]
fn a_kill_in_a_batch_costs_what_was_not_durable() {
    let killed = scenario("kill-mid-batch");
    let repaid = |one: &Policy| common::record(&killed, one).repaid_calls;
    assert_eq!(repaid(&built_in("no reserve")), 1);
    let usage_limits = |every: &str| {
        policy(&format!(
            "family = \"usage_limits\"\nlimits = {{ maxToolCalls = 40{every} }}"
        ))
    };
    assert_eq!(repaid(&usage_limits("")), 7);
    for (every, again) in [(2, 1), (4, 3), (7, 7)] {
        let one = usage_limits(&format!(", checkpointEveryToolCalls = {every}"));
        assert_eq!(repaid(&one), again, "every {every}");
    }
}

#[test]
fn a_process_that_dies_often_pays_twice_and_its_ledger_does_not_know() {
    let dying = cell("repeated-kills", "interactive defaults");
    assert!(dying.sums.kills > dying.runs / 2);
    assert!(dying.sums.repaid_calls > 0);
    assert!(dying.sums.billed.to_f64() > 1.2 * dying.sums.ledger.to_f64());
    assert!(saw(&dying, Event::ResumeAfterTailLoss) && saw(&dying, Event::KillInModelCall));
}

#[test]
fn no_policy_changes_anything_for_an_early_finisher() {
    let early = scenario("early-finisher");
    let mut policies = library::default_study().policies;
    policies.extend(Loader::default().study("families").unwrap().policies);
    let campaign = common::campaign(&early, &policies, RUNS);
    let first = &campaign.cells[0].tally;
    for (one, cell) in policies.iter().zip(&campaign.cells) {
        assert_eq!(cell.tally.answered, RUNS, "{}", one.name);
        assert_eq!(cell.tally.sums.billed, first.sums.billed, "{}", one.name);
        assert_eq!(
            cell.tally.sums.evidence, campaign.twin_evidence,
            "{}",
            one.name
        );
    }
}

/// A workload of the study `usage-limits` before and after a feature.
fn pair(name: &str, before: &str, after: &str) -> (Tally, Tally) {
    let study = Loader::default().study("usage-limits").unwrap();
    let policy = |name: &str| {
        study
            .policies
            .iter()
            .find(|p| p.name == name)
            .unwrap()
            .clone()
    };
    let both = [policy(before), policy(after)];
    let workload = study.scenarios.iter().find(|s| s.name == name).unwrap();
    let mut cells = common::campaign(workload, &both, RUNS).cells.into_iter();
    (cells.next().unwrap().tally, cells.next().unwrap().tally)
}

#[test]
fn finalization_turns_let_a_worker_finish_that_ran_out_of_turns() {
    let (before, after) = pair(
        "turns-run-out",
        "28 turns, 96 calls",
        "28 turns, 3 of them kept",
    );
    // 28 turns, and about 66 of the 96 calls.
    assert!(share(&before, "max_turns") > 0.9);
    let executed = mean(before.sums.tool_calls, &before);
    assert!((64.0..69.0).contains(&executed), "{executed}");
    assert!(answered(&after) > 0.9, "{}", answered(&after));
    assert!(
        after.sums.evidence < before.sums.evidence,
        "what it costs: research"
    );
}

#[test]
fn a_window_as_long_as_the_deficit_closes_the_evidence_contract() {
    let (before, after) = pair(
        "evidence-behind",
        "108 calls, window of 4",
        "108 calls, window of the deficit",
    );
    // 108 calls, and about 10 of the 14 entries.
    let entries = mean(before.sums.evidence_entries, &before);
    assert!((9.0..11.0).contains(&entries), "{entries}");
    assert!(mean(before.sums.tool_calls, &before) > 107.0);
    assert!(answered(&before) < 0.1 && answered(&after) > 0.95);
    assert!(mean(after.sums.evidence_entries, &after) > 13.8);
}

#[test]
fn grants_for_a_deficit_turn_money_into_entries_before_a_partial_ending() {
    let (before, after) = pair(
        "child-short-of-entries",
        "child, 24 calls",
        "child, grants for the deficit",
    );
    assert!(share(&before, "evidence_floor") > 0.3);
    assert!(answered(&after) > answered(&before) + 0.2);
    assert!(saw(&after, Event::GrantGiven));
}

#[test]
fn an_extension_spends_the_money_of_a_starved_worker_on_calls() {
    let (before, after) = pair("starved-worker", "84 calls", "84 calls and grants");
    // 84 calls, and about 38% of the USD 1 unspent.
    let unspent = 1.0 - before.sums.billed.to_f64() / before.runs as f64;
    assert!((0.33..0.43).contains(&unspent), "{unspent}");
    assert!(answered(&after) > answered(&before) + 0.4);
    assert!(after.sums.tool_calls > before.sums.tool_calls);
}

#[test]
fn boundaries_within_a_batch_bound_what_a_kill_costs() {
    let (before, after) = pair(
        "whole-budget-in-one-batch",
        "24 calls",
        "24 calls, a boundary every 4",
    );
    assert_eq!(before.sums.repaid_calls, 20 * RUNS);
    assert_eq!(after.sums.repaid_calls, 4 * RUNS);
    // What it costs: checkpoints.
    assert!(after.sums.checkpoints > before.sums.checkpoints);
    assert!(after.sums.billed < before.sums.billed);
}

#[test]
fn a_finalization_reserve_grants_the_summary_that_was_missing() {
    let (before, after) = pair(
        "summary-never-granted",
        "40 calls",
        "40 calls and a summary turn",
    );
    assert_eq!((before.partial, before.answered), (0, after.answered));
    assert!(before.unanswered as f64 > 0.3 * RUNS as f64);
    assert!(after.unanswered < before.unanswered / 5);
    assert!(
        after.sums.billed > before.sums.billed,
        "what it costs: a turn"
    );
}
