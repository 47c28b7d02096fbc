//! What must come out where it can be computed by hand. Every limit that is not named is unlimited.
//!
//! Throughout, the demand `D` is geometric with mean `m`, so that `P(D >= k) = q^k` with
//! `q = m / (1 + m)`; a turn proposes one call, whose result is novel. Tolerances are standard errors.

mod common;

use common::{
    Estimate, caps, no_limits, policy, rate_agrees, record, records, run_limits, scenario, tally,
    usage_limits,
};
use holdback_scenarios::{Policy, Scenario};
use holdback_sim::tally::{Event, RunRecord};

const RUNS: u64 = 5_000;
/// Allowed distance between a measured mean and the truth, in standard errors. The seed is fixed, so a
/// test that holds always holds; by chance alone one mean in 15,000 would be further away.
const SE: f64 = 4.0;
const MEAN_DEMAND: f64 = 6.0;
const Q: f64 = MEAN_DEMAND / (1.0 + MEAN_DEMAND);

/// Geometric demand, one call a turn.
fn research(model: &str) -> Scenario {
    scenario(&format!(
        "[model]\ndemand = {{ dist = \"geometric\", mean = {MEAN_DEMAND} }}\n{model}\n[[tools]]\nname = \"t\"\n"
    ))
}

fn mean(scenario: &Scenario, policy: &Policy, of: impl Fn(&RunRecord) -> f64) -> Estimate {
    mean_over(RUNS, scenario, policy, of)
}

fn mean_over(
    runs: u64,
    scenario: &Scenario,
    policy: &Policy,
    of: impl Fn(&RunRecord) -> f64,
) -> Estimate {
    let records = records(scenario, std::slice::from_ref(policy), runs);
    Estimate::of(records[0].iter().map(of))
}

#[track_caller]
fn answered(scenario: &Scenario, policy: &Policy, truth: f64) {
    let tally = tally(scenario, policy, RUNS);
    rate_agrees("answered", tally.answered, RUNS, truth, SE);
}

fn usd(money: holdback_engine::Money) -> f64 {
    money.to_f64()
}

/// E min(D, k).
fn kept(k: i32) -> f64 {
    Q * (1.0 - Q.powi(k)) / (1.0 - Q)
}

mod reserves {
    use super::*;

    #[test]
    fn a_steps_reserve_loses_only_the_runs_that_disobey_at_its_edge() {
        for compliance in [1.0, 0.7, 0.0] {
            let scenario = research(&format!("compliance = {{ synthesis_only = {compliance} }}"));
            for (steps, reserve) in [(8, 1), (8, 3)] {
                let policy = run_limits(&format!(
                    "max_steps = {steps}, synthesis_reserve_steps = {reserve}"
                ));
                let truth = 1.0 - Q.powi(steps - reserve) * (1.0 - compliance) * Q;
                answered(&scenario, &policy, truth);
            }
        }
    }

    #[test]
    fn without_a_reserve_the_steps_answer_what_needs_one_less() {
        answered(&research(""), &run_limits("max_steps = 8"), 1.0 - Q.powi(8));
    }

    #[test]
    fn a_tool_call_reserve_loses_only_the_runs_that_disobey_at_its_edge() {
        for compliance in [1.0, 0.7] {
            let scenario = research(&format!("compliance = {{ synthesis_only = {compliance} }}"));
            for (calls, reserve) in [(8, 0), (8, 1), (8, 4)] {
                let policy = run_limits(&format!(
                    "max_tool_calls = {calls}, synthesis_reserve_tool_calls = {reserve}"
                ));
                let truth = 1.0 - Q.powi(calls - reserve + 1) * (1.0 - compliance);
                answered(&scenario, &policy, truth);
                let evidence = mean(&scenario, &policy, |run| run.evidence as f64);
                evidence.agrees("evidence", kept(calls - reserve), SE);
            }
        }
    }

    #[test]
    fn an_unannounced_model_call_reserve_only_shortens_the_run() {
        for (calls, reserve) in [(8, 1), (8, 3)] {
            let policy = run_limits(&format!(
                "max_model_calls = {calls}, synthesis_reserve_model_calls = {reserve}"
            ));
            answered(&research(""), &policy, 1.0 - Q.powi(calls - reserve));
        }
    }

    #[test]
    fn an_announced_model_call_reserve_loses_only_those_that_disobey() {
        for (compliance, reserve) in [(1.0, 1), (0.6, 1), (0.6, 3)] {
            let scenario = research(&format!("compliance = {{ synthesis_only = {compliance} }}"));
            let policy = policy(&format!(
                "family = \"run_limits\"\nrules = {{ crossing_turn = \"refuse_then_synthesize\" }}\nlimits = {{ max_steps = \"unlimited\", max_tool_calls = \"unlimited\", max_model_calls = 8, synthesis_reserve_model_calls = {reserve} }}"
            ));
            answered(
                &scenario,
                &policy,
                1.0 - Q.powi(8 - reserve) * (1.0 - compliance),
            );
        }
    }

    #[test]
    fn the_share_of_evidence_that_a_steps_reserve_keeps_is_one_less_a_power() {
        let policy = run_limits("max_steps = 9, synthesis_reserve_steps = 2");
        let scenario = research("");
        let campaign = common::campaign(&scenario, &[policy], RUNS);
        let sums = &campaign.cells[0].tally.sums;
        let share = sums.evidence as f64 / campaign.twin_evidence as f64;
        // Both sums have standard errors below 1.5%, and move together.
        assert!((share - (1.0 - Q.powi(7))).abs() < 0.02, "{share}");
        let demand = campaign.twin_evidence as f64 / RUNS as f64;
        let standard_error = (MEAN_DEMAND * (1.0 + MEAN_DEMAND) / RUNS as f64).sqrt();
        assert!(
            (demand - MEAN_DEMAND).abs() < SE * standard_error,
            "{demand}"
        );
    }
}

mod other_families {
    use super::*;

    #[test]
    fn a_cap_on_turns_answers_what_needs_one_less() {
        answered(
            &research(""),
            &usage_limits("maxTurns = 7"),
            1.0 - Q.powi(7),
        );
        answered(
            &research(""),
            &caps("max_turns = 7, on_exhausted = \"error\""),
            1.0 - Q.powi(7),
        );
    }

    #[test]
    fn a_cap_on_tool_calls_answers_what_needs_no_more() {
        answered(
            &research(""),
            &usage_limits("maxToolCalls = 7"),
            1.0 - Q.powi(8),
        );
        answered(
            &research(""),
            &caps("max_tool_calls = 7, on_exhausted = \"error\""),
            1.0 - Q.powi(8),
        );
    }

    #[test]
    fn a_final_turn_loses_only_the_runs_that_write_nothing_without_tools() {
        for writes in [1.0, 0.6] {
            let scenario = research(&format!("compliance = {{ tools_withheld = {writes} }}"));
            // It is the eighth request, or the seventh.
            for (ending, turn) in [("final_turn", 8), ("final_turn_inside", 7)] {
                let policy = caps(&format!("max_turns = 7, on_exhausted = \"{ending}\""));
                answered(&scenario, &policy, 1.0 - Q.powi(turn) * (1.0 - writes));
            }
        }
    }

    #[test]
    fn a_summary_turn_makes_partial_what_the_tool_budget_cuts() {
        let scenario = research("compliance = { tools_withheld = 0.6 }");
        let policy = usage_limits("maxToolCalls = 7, finalizationReserve = {}");
        let tally = tally(&scenario, &policy, RUNS);
        rate_agrees("answered", tally.answered, RUNS, 1.0 - Q.powi(8), SE);
        rate_agrees("partial", tally.partial, RUNS, 0.6 * Q.powi(8), SE);
    }

    #[test]
    fn each_refusal_in_a_window_is_one_more_chance_to_obey() {
        let obeys = 0.3;
        // Nothing novel, so that there is nothing to record in the window.
        let scenario = scenario(&format!(
            "[model]\ndemand = \"endless\"\ncompliance = {{ window = {obeys} }}\n[[tools]]\nname = \"t\"\nnovelty = 0\n"
        ));
        let policy = usage_limits(
            "maxToolCalls = 10, finalizationWindow = { reserveCalls = 4, allow = [\"record_evidence\"] }",
        );
        let tally = tally(&scenario, &policy, RUNS);
        assert_eq!(tally.answered, RUNS);
        assert_eq!(tally.sums.tool_calls, 6 * RUNS);
        let refused = mean(&scenario, &policy, |run| run.refused_calls as f64);
        refused.agrees("refused calls", (1.0 - obeys) / obeys, SE);
    }

    #[test]
    fn who_heeds_the_budget_notice_takes_the_other_half_one_call_a_turn() {
        let heeds = 0.4;
        let scenario = scenario(&format!(
            "[model]\ndemand = \"endless\"\nbatch = 5\ncompliance = {{ budget_notice = {heeds} }}\n[[tools]]\nname = \"t\"\n"
        ));
        let policy = usage_limits("maxToolCalls = 20, toolBudgetNotices = true");
        // Two turns reach the half; then ten turns of one call or two of five, and one that expires.
        let calls = mean(&scenario, &policy, |run| run.model_calls as f64);
        calls.agrees("model calls", heeds * 13.0 + (1.0 - heeds) * 5.0, SE);
    }
}

mod money {
    use super::*;

    /// Exponential cost of mean USD 0.10 a call, demand without end.
    fn exponential_cost() -> Scenario {
        scenario(
            "[model]\nprice = { input_per_mtok = 0, output_per_mtok = 1 }\noutput_tokens = { dist = \"exponential\", mean = 100000 }\nfinal_output_tokens = 1\ndemand = \"endless\"\n[[tools]]\nname = \"t\"\n",
        )
    }

    #[test]
    fn the_overspend_past_a_cap_is_as_exponential_as_the_cost_of_a_call() {
        // The waiting time paradox: what is left of the interval that covers a fixed point of a
        // Poisson process is exponential of the full mean (Feller, vol. 2, section I.4).
        for policy in [
            run_limits("max_cost = \"0.75\""),
            caps("max_cost_usd = \"0.75\", on_exhausted = \"error\", check = \"after\""),
            caps("max_cost_usd = \"0.75\", on_exhausted = \"stop\", check = \"before\""),
        ] {
            let over = |run: &RunRecord| usd(run.overspend.unwrap());
            let overspend = mean(&exponential_cost(), &policy, over);
            overspend.agrees("mean overspend", 0.1, SE);
            let squares = mean(&exponential_cost(), &policy, |run| over(run).powi(2));
            squares.agrees("mean square of the overspend", 2.0 * 0.01, SE);
            let calls = mean(&exponential_cost(), &policy, |run| run.model_calls as f64);
            // One more than a Poisson number of mean cap / u.
            calls.agrees("model calls", 1.0 + 7.5, SE);
        }
    }

    #[test]
    fn quantiles_of_the_overspend_are_those_of_the_exponential() {
        let tally = tally(
            &exponential_cost(),
            &run_limits("max_cost = \"0.75\""),
            RUNS,
        );
        for share in [0.5_f64, 0.9, 0.95, 0.99] {
            let nanodollars = tally.overspend.quantile(share).unwrap() as f64;
            let truth = -0.1 * (1.0 - share).ln();
            let density = (1.0 - share) / 0.1;
            let standard_error = (share * (1.0 - share) / RUNS as f64).sqrt() / density;
            let bucket = truth / 1024.0;
            let distance = (nanodollars / 1e9 - truth).abs();
            assert!(
                distance < SE * standard_error + bucket,
                "{share}: {nanodollars} {truth}"
            );
        }
    }

    #[test]
    fn a_clamped_output_never_passes_the_ceiling() {
        let policy = policy(
            "family = \"usage_limits\"\nlimits = { maxTurns = 100000 }\nbudget = { ceiling_usd = 0.75 }",
        );
        let tally = tally(&exponential_cost(), &policy, 2_000);
        assert_eq!(tally.overspent, 0);
        assert!(tally.seen[Event::OutputClamped as usize] == 2_000);
    }

    #[test]
    fn usage_that_is_not_reported_is_overspent() {
        // Of calls of USD 1 a share of 0.2 is not seen: 10 seen calls take a negative binomial number.
        let scenario = scenario(
            "[model]\nprice = { input_per_mtok = 1 }\nbase_input_tokens = 1000000\ndemand = \"endless\"\nreporting = { missing = 0.2 }\n[[tools]]\nname = \"t\"\n",
        );
        let policy = run_limits("max_cost = \"10\"");
        let overspend = mean(&scenario, &policy, |run| usd(run.overspend.unwrap()));
        overspend.agrees("overspend", 10.0 * 0.2 / 0.8, SE);
        let ledger = tally(&scenario, &policy, 100).sums.ledger;
        assert_eq!(usd(ledger), 1000.0);
    }

    #[test]
    fn fixed_tokens_cost_what_the_conversation_adds_up_to() {
        let scenario = scenario(
            "[model]\nprice = { input_per_mtok = 3, output_per_mtok = 15 }\nbase_input_tokens = 6000\noutput_tokens = 350\nreasoning_tokens = 100\nfinal_output_tokens = 1400\ndemand = 12\n[[tools]]\nname = \"t\"\ncost_usd = \"0.005\"\nresult_tokens = 1800\n",
        );
        let run = record(&scenario, &no_limits());
        let calls = 12_u64;
        let input = 13 * 6000 + (350 + 1800) * (calls * (calls + 1) / 2);
        let output = calls * 450 + 1500;
        assert_eq!((run.input_tokens, run.output_tokens), (input, output));
        let picos = i128::from(3 * input + 15 * output) * 1_000_000 + 12 * 5_000_000_000;
        assert_eq!(run.billed.picos(), picos);
        assert_eq!(run.ledger.picos(), picos - 12 * 5_000_000_000);
    }

    #[test]
    fn a_cache_hit_reads_what_the_request_before_it_sent() {
        let hit = 0.7;
        let scenario = scenario(&format!(
            "[model]\nprice = {{ input_per_mtok = 3, cached_input_per_mtok = 0.3, cache_write_per_mtok = 3.75, output_per_mtok = 0 }}\nbase_input_tokens = 6000\noutput_tokens = 350\ndemand = 9\ncache_hit = {hit}\n[[tools]]\nname = \"t\"\nresult_tokens = 650\n"
        ));
        let inputs: Vec<f64> = (0..10)
            .map(|turn| 6000.0 + 1000.0 * f64::from(turn))
            .collect();
        let all: f64 = inputs.iter().sum();
        let before: f64 = inputs[..9].iter().sum();
        let cached = mean(&scenario, &no_limits(), |run| run.cached_tokens as f64);
        cached.agrees("cached tokens", hit * before, SE);
        let written = mean(&scenario, &no_limits(), |run| run.written_tokens as f64);
        written.agrees("written tokens", all - hit * before, SE);
        let billed = mean(&scenario, &no_limits(), |run| usd(run.billed));
        let truth = (3.75 * (all - hit * before) + 0.3 * hit * before) / 1e6;
        billed.agrees("billed", truth, SE);
    }

    #[test]
    fn a_spike_multiplies_the_output_by_the_mean_of_its_law() {
        let (probability, min, alpha, max) = (0.3, 3.0_f64, 1.5_f64, 40.0_f64);
        let scenario = scenario(&format!(
            "[model]\noutput_tokens = 1000\ndemand = \"endless\"\nspike = {{ probability = {probability}, output_multiplier = {{ dist = \"pareto\", min = {min}, alpha = {alpha}, max = {max} }} }}\n[[tools]]\nname = \"t\"\n"
        ));
        // E min(X, max) of a Pareto variable.
        let clamped =
            min + min.powf(alpha) * (min.powf(1.0 - alpha) - max.powf(1.0 - alpha)) / (alpha - 1.0);
        let policy = run_limits("max_steps = 4");
        let output = mean(&scenario, &policy, |run| run.output_tokens as f64);
        let truth = 4.0 * 1000.0 * (1.0 - probability + probability * clamped);
        output.agrees("output tokens", truth, SE);
    }

    #[test]
    fn lognormal_tokens_have_the_mean_of_their_law() {
        let scenario = scenario(
            "[model]\noutput_tokens = { dist = \"lognormal\", median = 350, p95 = 1200 }\ndemand = \"endless\"\n[[tools]]\nname = \"t\"\n",
        );
        let sigma = (1200.0_f64 / 350.0).ln() / 1.644_853_626_951_472_7;
        let truth = 5.0 * 350.0 * (sigma * sigma / 2.0).exp();
        let output = mean(&scenario, &run_limits("max_steps = 5"), |run| {
            run.output_tokens as f64
        });
        output.agrees("output tokens", truth, SE);
    }

    #[test]
    fn tools_are_chosen_by_their_weights() {
        let scenario = scenario(
            "[model]\ndemand = 10\n[[tools]]\nname = \"a\"\nweight = 3\ncost_usd = \"1\"\n[[tools]]\nname = \"b\"\nweight = 0\ncost_usd = \"1000\"\n[[tools]]\nname = \"c\"\nweight = 1\ncost_usd = \"5\"\n[[tools]]\nname = \"d\"\nweight = 0\ncost_usd = \"1000\"\n",
        );
        let billed = mean(&scenario, &no_limits(), |run| usd(run.billed));
        billed.agrees("billed", 10.0 * (0.75 * 1.0 + 0.25 * 5.0), SE);
    }
}

mod tools {
    use super::*;

    /// Twenty calls, one a turn, whatever they bring.
    fn twenty_calls(scenario: &Scenario, of: impl Fn(&RunRecord) -> f64) -> Estimate {
        let policy = policy(
            "family = \"run_limits\"\nidentical_calls = 1000\nlimits = { max_steps = \"unlimited\", max_model_calls = \"unlimited\", max_tool_calls = 20 }",
        );
        mean(scenario, &policy, of)
    }

    fn hungry(habits: &str, tool: &str) -> Scenario {
        scenario(&format!(
            "[model]\ndemand = \"endless\"\n{habits}\n[[tools]]\nname = \"t\"\n{tool}\n"
        ))
    }

    #[test]
    fn errors_cluster_as_their_chain_says() {
        let (error, after): (f64, f64) = (0.1, 0.6);
        let scenario = hungry("", &format!("error = {error}\nerror_after_error = {after}"));
        let (mut failed, mut chance) = (0.0, error);
        for _ in 0..20 {
            failed += chance;
            chance = chance * after + (1.0 - chance) * error;
        }
        let stationary = error / (1.0 - after + error);
        assert!((chance - stationary).abs() < 1e-4);
        let failures = twenty_calls(&scenario, |run| 20.0 - run.evidence as f64);
        failures.agrees("failed calls", failed, SE);
    }

    #[test]
    fn errors_of_one_tool_leave_the_others_alone() {
        let scenario = scenario(
            "[model]\ndemand = \"endless\"\n[[tools]]\nname = \"a\"\nerror = 1\n[[tools]]\nname = \"b\"\nerror = 0.2\nerror_after_error = 0.2\n",
        );
        let evidence = twenty_calls(&scenario, |run| run.evidence as f64);
        evidence.agrees("evidence", 20.0 * 0.5 * 0.8, SE);
    }

    #[test]
    fn a_call_counts_unless_it_repeats_fails_or_brings_nothing_new() {
        let (repeat, error, novelty) = (0.3, 0.2, 0.75);
        let scenario = hungry(
            &format!("habits = {{ repeat_call = {repeat} }}"),
            &format!("error = {error}\nnovelty = {novelty}"),
        );
        // The first call has nothing to repeat.
        let truth = (1.0 - error) * novelty * (1.0 + 19.0 * (1.0 - repeat));
        let evidence = twenty_calls(&scenario, |run| run.evidence as f64);
        evidence.agrees("evidence", truth, SE);
    }

    #[test]
    fn a_denied_call_does_not_run() {
        let scenario = hungry("", "denied = 0.3\ncost_usd = \"1\"");
        let ran = twenty_calls(&scenario, |run| run.tool_calls as f64);
        ran.agrees("executed calls", 14.0, SE);
        let denied = twenty_calls(&scenario, |run| run.denied_calls as f64);
        denied.agrees("denied calls", 6.0, SE);
    }

    #[test]
    fn each_novel_result_but_the_last_may_be_recorded() {
        let scenario = hungry("habits = { record_evidence = 0.4 }", "");
        let policy = run_limits("max_steps = 11");
        let entries = mean(&scenario, &policy, |run| run.evidence_entries as f64);
        entries.agrees("entries", 0.4 * 10.0, SE);
    }

    #[test]
    fn a_batch_has_at_least_one_call_and_otherwise_its_law() {
        let scenario = scenario(
            "[model]\ndemand = \"endless\"\nbatch = { dist = \"geometric\", mean = 2.5 }\n[[tools]]\nname = \"t\"\n",
        );
        let ran = mean(&scenario, &usage_limits("maxTurns = 6"), |run| {
            run.tool_calls as f64
        });
        ran.agrees("executed calls", 6.0 * (2.5 + 1.0 / 3.5), SE);
    }
}

mod faults {
    use super::*;

    #[test]
    fn three_attempts_a_step_fail_together_or_not_at_all() {
        let p: f64 = 0.3;
        let scenario = scenario(&format!(
            "[model]\ndemand = 5\nfaults = {{ transient = {p} }}\n[[tools]]\nname = \"t\"\n"
        ));
        let lives: f64 = 1.0 - p.powi(3);
        answered(&scenario, &no_limits(), lives.powi(6));
        let truth: f64 = (0..6)
            .map(|step| lives.powi(step) * (1.0 + p + p * p))
            .sum();
        let requests = mean(&scenario, &no_limits(), |run| run.model_calls as f64);
        requests.agrees("model calls", truth, SE);
    }

    #[test]
    fn a_storm_refuses_as_many_requests_as_it_is_long() {
        let (p, storm) = (0.1, 4.0);
        let scenario = scenario(&format!(
            "[model]\ndemand = 9\nfaults = {{ rate_limit = {p}, storm = {storm} }}\n[[tools]]\nname = \"t\"\n"
        ));
        let policy = policy(
            "family = \"run_limits\"\nattempts = 1000\nlimits = { max_steps = \"unlimited\", max_model_calls = \"unlimited\", max_tool_calls = \"unlimited\" }",
        );
        let requests = mean(&scenario, &policy, |run| run.model_calls as f64);
        requests.agrees("model calls", 10.0 * (1.0 + storm * p / (1.0 - p)), SE);
    }

    #[test]
    fn a_permanent_fault_ends_a_run_at_any_of_its_requests() {
        let p = 0.05;
        let scenario = scenario(&format!(
            "[model]\ndemand = 9\nfaults = {{ permanent = {p} }}\n[[tools]]\nname = \"t\"\n"
        ));
        answered(&scenario, &no_limits(), (1.0_f64 - p).powi(10));
    }
}

mod kills {
    use super::*;

    #[test]
    fn executions_die_until_each_has_lived_once() {
        let p = 0.2;
        let scenario = scenario(&format!(
            "[model]\ndemand = 10\n[[tools]]\nname = \"t\"\n[kills]\nper_tool_call = {p}\n"
        ));
        for policy in [no_limits(), usage_limits("maxToolCalls = 1000")] {
            // A negative binomial number: deaths before ten lives.
            let kills = mean(&scenario, &policy, |run| run.kills as f64);
            kills.agrees("kills", 10.0 * p / (1.0 - p), SE);
            let repaid = mean(&scenario, &policy, |run| run.repaid_calls as f64);
            repaid.agrees("repaid calls", 10.0 * p / (1.0 - p), SE);
            let ran = mean(&scenario, &policy, |run| run.tool_calls as f64);
            ran.agrees("executed calls", 10.0 / (1.0 - p), SE);
            answered(&scenario, &policy, 1.0);
        }
    }

    #[test]
    fn requests_die_until_each_has_lived_once_and_what_they_cost_is_the_ledgers_gap() {
        let p = 0.2;
        let scenario = scenario(&format!(
            "[model]\nprice = {{ input_per_mtok = 1 }}\nbase_input_tokens = 1000000\ndemand = 9\n[[tools]]\nname = \"t\"\n[kills]\nper_model_call = {p}\n"
        ));
        for policy in [
            no_limits(),
            usage_limits("maxToolCalls = 1000"),
            caps("max_turns = 1000"),
        ] {
            let requests = mean(&scenario, &policy, |run| run.model_calls as f64);
            requests.agrees("model calls", 10.0 / (1.0 - p), SE);
            for run in &records(&scenario, &[policy], 500)[0] {
                assert_eq!(usd(run.billed - run.ledger), run.kills as f64);
                assert_eq!(usd(run.repaid), run.kills as f64);
            }
        }
    }

    #[test]
    fn downtime_is_the_only_time_that_passes_where_nothing_else_takes_any() {
        let scenario = scenario(
            "[model]\ndemand = 10\n[[tools]]\nname = \"t\"\n[kills]\nper_tool_call = 0.2\nmax = 3\ndowntime_s = { dist = \"exponential\", mean = 40 }\njournal_tail_loss = 0.5\n",
        );
        let policy = usage_limits("maxToolCalls = 1000");
        let runs = &records(&scenario, &[policy], RUNS)[0];
        assert!(runs.iter().all(|run| run.kills <= 3));
        let per_kill = runs
            .iter()
            .map(|run| run.duration as f64 / 1e6 - 40.0 * run.kills as f64);
        Estimate::of(per_kill).agrees("downtime past its mean", 0.0, SE);
    }

    #[test]
    fn the_tail_is_lost_as_often_as_given_whatever_the_downtime() {
        let scenario = scenario(
            "[model]\ndemand = 5\n[[tools]]\nname = \"t\"\n[kills]\nafter_model_calls = [3]\ndowntime_s = { dist = \"uniform\", low = 0, high = 10 }\njournal_tail_loss = 0.3\n",
        );
        let runs = &records(&scenario, &[no_limits()], RUNS)[0];
        let lost: Vec<_> = runs
            .iter()
            .filter(|run| run.seen.has(Event::ResumeAfterTailLoss))
            .collect();
        rate_agrees("tail losses", lost.len() as u64, RUNS, 0.3, SE);
        let downtime = Estimate::of(lost.iter().map(|run| run.duration as f64 / 1e6));
        downtime.agrees("downtime where the tail was lost", 5.0, SE);
    }
}

mod time {
    use super::*;

    #[test]
    fn a_deadline_cancels_the_turn_that_reaches_it() {
        let scenario = research("latency_s = 10");
        // An answer counts if it arrives before the deadline: turns end at 10, 20, ...
        let policy = |seconds: u32| {
            policy(&format!(
                "family = \"run_limits\"\ndeadline_s = {seconds}\nlimits = {{ max_steps = \"unlimited\", max_model_calls = \"unlimited\", max_tool_calls = \"unlimited\" }}"
            ))
        };
        answered(&scenario, &policy(70), 1.0 - Q.powi(6));
        answered(&scenario, &policy(71), 1.0 - Q.powi(7));
    }

    #[test]
    fn a_timeout_is_looked_at_between_turns_only() {
        let scenario = research("latency_s = 10");
        // The turn that begins at 60 s ends at 70 s, and its answer counts.
        answered(
            &scenario,
            &usage_limits("timeoutMs = 60001"),
            1.0 - Q.powi(7),
        );
        answered(
            &scenario,
            &usage_limits("timeoutMs = 60000"),
            1.0 - Q.powi(6),
        );
    }

    #[test]
    fn a_parallel_batch_takes_as_long_as_its_longest_call() {
        let batch = |parallel: bool| {
            scenario(&format!(
                "[model]\ndemand = 4\nbatch = 4\n[[tools]]\nname = \"t\"\nlatency_s = {{ dist = \"exponential\", mean = 6 }}\nparallel = {parallel}\n"
            ))
        };
        let seconds = |run: &RunRecord| run.duration as f64 / 1e6;
        // The maximum of four exponentials: the mean times 1 + 1/2 + 1/3 + 1/4.
        let longest = 6.0 * (1.0 + 0.5 + 1.0 / 3.0 + 0.25);
        mean(&batch(true), &no_limits(), seconds).agrees("longest of four", longest, SE);
        mean(&batch(false), &no_limits(), seconds).agrees("sum of four", 24.0, SE);
        let usage = usage_limits("maxToolCalls = 100");
        mean(&batch(true), &usage, seconds).agrees("sum of four", 24.0, SE);
    }
}

mod laws {
    use super::*;

    /// Distribution functions written here anew.
    fn normal_cdf(z: f64) -> f64 {
        0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
    }

    #[test]
    fn sample_quantiles_are_the_true_ones_for_each_law() {
        let sigma = (25.0_f64 / 6.0).ln() / 1.644_853_626_951_472_7;
        let lognormal = move |x: f64| normal_cdf((x / 6.0).ln() / sigma);
        let exponential = |x: f64| 1.0 - (-x / 6.0).exp();
        let pareto = |x: f64| {
            if x < 3.0 {
                0.0
            } else {
                1.0 - (3.0 / x).powf(1.5)
            }
        };
        let uniform = |x: f64| ((x - 2.0) / 7.0).clamp(0.0, 1.0);
        let mixture = move |x: f64| 0.25 * uniform(x) + 0.75 * exponential(x);
        type Cdf<'c> = &'c dyn Fn(f64) -> f64;
        let laws: [(&str, Cdf<'_>); 5] = [
            ("{ dist = \"lognormal\", median = 6, p95 = 25 }", &lognormal),
            ("{ dist = \"exponential\", mean = 6 }", &exponential),
            ("{ dist = \"pareto\", min = 3, alpha = 1.5 }", &pareto),
            ("{ dist = \"uniform\", low = 2, high = 9 }", &uniform),
            (
                "{ dist = \"mixture\", parts = [{ weight = 1, dist = \"uniform\", low = 2, high = 9 }, { weight = 3, dist = \"exponential\", mean = 6 }] }",
                &mixture,
            ),
        ];
        for (law, cdf) in laws {
            // One request a run: its duration is one draw of the law.
            let scenario = scenario(&format!(
                "[model]\ndemand = 0\nlatency_s = {law}\n[[tools]]\nname = \"t\"\n"
            ));
            let runs = &records(&scenario, &[no_limits()], RUNS)[0];
            let mut drawn: Vec<f64> = runs.iter().map(|run| run.duration as f64 / 1e6).collect();
            drawn.sort_by(f64::total_cmp);
            // Kolmogorov: the largest distance exceeds 1.95 / sqrt(n) once in a thousand samples.
            let farthest = drawn
                .iter()
                .enumerate()
                .map(|(at, x)| (cdf(*x) - (at as f64 + 0.5) / RUNS as f64).abs())
                .fold(0.0, f64::max);
            assert!(farthest < 1.95 / (RUNS as f64).sqrt(), "{law}: {farthest}");
            for share in [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999] {
                let x = drawn[(share * RUNS as f64) as usize];
                let distance = (cdf(x) - share).abs();
                let standard_error = (share * (1.0 - share) / RUNS as f64).sqrt();
                assert!(
                    distance < SE * standard_error + 1.0 / RUNS as f64,
                    "{law} at {share}: {x}"
                );
            }
        }
    }

    #[test]
    fn counts_come_with_the_chances_of_their_laws() {
        let geometric = |k: i32| (1.0 - Q) * Q.powi(k);
        let poisson = |k: i32| (0..k).fold((-4.0_f64).exp(), |p, j| p * 4.0 / f64::from(j + 1));
        let empirical = |k: i32| match k {
            2 => 0.5,
            3 | 7 => 0.25,
            _ => 0.0,
        };
        let clamped = |k: i32| match k {
            3 => 1.0 - Q.powi(4),
            4 => geometric(4),
            5 => Q.powi(5),
            _ => 0.0,
        };
        type Chance<'c> = &'c dyn Fn(i32) -> f64;
        let laws: [(&str, Chance<'_>); 5] = [
            ("{ dist = \"geometric\", mean = 6 }", &geometric),
            ("{ dist = \"poisson\", mean = 4 }", &poisson),
            (
                "{ dist = \"empirical\", values = [7, 2, 3], weights = [1, 2, 1] }",
                &empirical,
            ),
            (
                "{ dist = \"geometric\", mean = 6, min = 3, max = 5 }",
                &clamped,
            ),
            ("{ dist = \"constant\", value = 2.5 }", &|k| {
                f64::from(k == 3)
            }),
        ];
        for (law, chance) in laws {
            let scenario = scenario(&format!(
                "[model]\ndemand = {law}\n[[tools]]\nname = \"t\"\n"
            ));
            let runs = &records(&scenario, &[no_limits()], RUNS)[0];
            for k in 0..16 {
                let hits = runs.iter().filter(|run| run.evidence == k as u64).count();
                rate_agrees(&format!("{law} = {k}"), hits as u64, RUNS, chance(k), SE);
            }
        }
    }
}
