//! Common random numbers: every policy meets the same luck, so differences are those of the policies.

mod common;

use common::{Estimate, caps, records, run_limits, scenario, usage_limits, watched};
use holdback_engine::protocol::{Call, Decision, Micros, ModelRequest, Observer};
use holdback_scenarios::{Policy, Scenario, library};
use holdback_sim::driver::Witness;
use holdback_sim::tally::{Outcome, RunRecord};
use holdback_sim::world::{Ran, Reply};
use proptest::prelude::*;

/// What was drawn, by the ordinal of the request and of the proposed call.
#[derive(Default)]
struct Draws {
    requests: Vec<Micros>,
    calls: Vec<Option<(u16, Micros)>>,
}

impl Observer for Draws {
    const ACTIVE: bool = false;
    fn decided(&mut self, _decision: Decision) {}
}

impl Witness for Draws {
    fn replied(&mut self, _now: Micros, _request: &ModelRequest, reply: &Reply, _calls: &[Call]) {
        self.requests.push(reply.latency);
    }

    fn ran(&mut self, _now: Micros, call: &Call, ran: &Ran, recovered: bool) {
        let id = call.id as usize;
        if self.calls.len() <= id {
            self.calls.resize(id + 1, None);
        }
        let draw = (call.tool.0, ran.latency);
        if let Some(before) = self.calls[id].filter(|_| !recovered) {
            assert_eq!(before, draw, "a call that runs again keeps its draw");
        }
        if !recovered {
            self.calls[id] = Some(draw);
        }
    }
}

#[test]
fn the_nth_request_and_the_nth_call_draw_the_same_luck_under_every_policy() {
    let scenario = scenario(
        r#"
[model]
price = { input_per_mtok = 3, output_per_mtok = 15 }
base_input_tokens = 4000
output_tokens = { dist = "lognormal", median = 350, p95 = 1200 }
final_output_tokens = 1000
latency_s = { dist = "lognormal", median = 6, p95 = 25 }
demand = { dist = "geometric", mean = 15 }
batch = { dist = "geometric", mean = 2, min = 1 }
compliance = { synthesis_only = 0.7, budget_notice = 0.5, window = 0.6 }
faults = { transient = 0.05, empty = 0.03, rate_limit = 0.02, storm = 2 }
[[tools]]
name = "a"
weight = 2
latency_s = { dist = "exponential", mean = 3 }
error = 0.1
parallel = true
[[tools]]
name = "b"
latency_s = { dist = "uniform", low = 1, high = 9 }
novelty = 0.5
[kills]
per_model_call = 0.02
per_tool_call = 0.02
journal_tail_loss = 0.3
max = 4
"#,
    );
    let policies = [
        run_limits(""),
        run_limits("max_steps = 8, max_tool_calls = 20, synthesis_reserve_steps = 2"),
        run_limits("max_cost = \"0.30\", synthesis_reserve_cost = \"0.05\""),
        usage_limits(
            "maxToolCalls = 15, finalizationReserve = {}, toolBudgetNotices = true, checkpointEveryToolCalls = 2",
        ),
        caps("max_turns = 6, on_exhausted = \"final_turn\", durable = \"none\""),
    ];
    let mut compared = 0;
    for run in 0..60 {
        let mut longest = Draws::default();
        for policy in &policies {
            let mut draws = Draws::default();
            watched(&scenario, policy, run, &mut draws);
            for (here, there) in draws.requests.iter().zip(&longest.requests) {
                assert_eq!(here, there, "run {run} {}", policy.document);
                compared += 1;
            }
            for (here, there) in draws.calls.iter().zip(&longest.calls) {
                if let (Some(here), Some(there)) = (here, there) {
                    assert_eq!(here.0 == there.0, here.1 == there.1);
                    compared += usize::from(here == there);
                }
            }
            if draws.requests.len() > longest.requests.len() {
                longest.requests = draws.requests;
            }
            if draws.calls.len() > longest.calls.len() {
                longest.calls = draws.calls;
            }
        }
    }
    assert!(compared > 3_000, "{compared}");
}

fn answers(run: &RunRecord) -> bool {
    run.outcome == Outcome::Answered
}

/// A workload without money caps, faults, spikes and kills, whose model obeys.
fn obedient() -> impl Strategy<Value = Scenario> {
    let dist = prop_oneof![
        Just("{ dist = \"geometric\", mean = 5 }"),
        Just("{ dist = \"lognormal\", median = 6, p95 = 20 }"),
        Just("{ dist = \"uniform\", low = 0, high = 15 }"),
        Just("\"endless\""),
    ];
    let batch = prop_oneof![
        Just("1"),
        Just("3"),
        Just("{ dist = \"geometric\", mean = 2, min = 1 }"),
    ];
    let chance = || (0_u32..4).prop_map(|tenths| f64::from(tenths) / 10.0);
    (dist, batch, chance(), chance(), chance(), chance()).prop_map(
        |(demand, batch, error, stale, repeat, record)| {
            scenario(&format!(
                "[model]\ndemand = {demand}\nbatch = {batch}\nhabits = {{ repeat_call = {repeat}, record_evidence = {record} }}\n[[tools]]\nname = \"t\"\nerror = {error}\nerror_after_error = {}\nnovelty = {}\n",
                error * 2.0,
                1.0 - stale,
            ))
        },
    )
}

/// Runs that a larger reserve loses.
fn lost_by_more(scenario: &Scenario, policies: &[Policy]) -> Vec<(usize, usize)> {
    let by_policy = records(scenario, policies, 30);
    let mut lost = Vec::new();
    for (reserve, pair) in by_policy.windows(2).enumerate() {
        for (run, (less, more)) in pair[0].iter().zip(&pair[1]).enumerate() {
            if answers(less) && !answers(more) {
                lost.push((reserve, run));
            }
        }
    }
    lost
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_larger_tool_call_reserve_never_answers_less(
        scenario in obedient(),
        calls in 2_u32..12,
        steps in 3_u32..15,
        requests in 3_u32..15,
    ) {
        let policies: Vec<Policy> = (0..calls)
            .map(|reserve| run_limits(&format!(
                "max_steps = {steps}, max_model_calls = {requests}, max_tool_calls = {calls}, synthesis_reserve_tool_calls = {reserve}"
            )))
            .collect();
        prop_assert_eq!(lost_by_more(&scenario, &policies), []);
    }

    #[test]
    fn a_larger_steps_reserve_never_answers_less(
        scenario in obedient(),
        calls in 1_u32..30,
        steps in 2_u32..12,
        requests in 3_u32..15,
    ) {
        let policies: Vec<Policy> = (0..steps)
            .map(|reserve| run_limits(&format!(
                "max_steps = {steps}, max_model_calls = {requests}, max_tool_calls = {calls}, synthesis_reserve_steps = {reserve}"
            )))
            .collect();
        prop_assert_eq!(lost_by_more(&scenario, &policies), []);
    }

    #[test]
    fn an_announced_model_call_reserve_never_answers_less(
        scenario in obedient(),
        requests in 2_u32..12,
    ) {
        let policies: Vec<Policy> = (0..requests)
            .map(|reserve| common::policy(&format!(
                "family = \"run_limits\"\nrules = {{ crossing_turn = \"refuse_then_synthesize\" }}\nlimits = {{ max_steps = \"unlimited\", max_tool_calls = \"unlimited\", max_model_calls = {requests}, synthesis_reserve_model_calls = {reserve} }}"
            )))
            .collect();
        prop_assert_eq!(lost_by_more(&scenario, &policies), []);
    }
}

#[test]
fn an_unannounced_model_call_reserve_can_answer_less() {
    // Why the announced one is a rule of its own: as shipped, a larger reserve loses runs.
    let scenario =
        scenario("[model]\ndemand = { dist = \"geometric\", mean = 5 }\n[[tools]]\nname = \"t\"\n");
    let policies: Vec<Policy> = (0..4)
        .map(|reserve| {
            run_limits(&format!(
                "max_model_calls = 8, synthesis_reserve_model_calls = {reserve}"
            ))
        })
        .collect();
    assert!(!lost_by_more(&scenario, &policies).is_empty());
}

/// Standard errors of a difference of means: paired by run, and as if the runs were independent.
fn ratio(here: &[f64], there: &[f64]) -> Option<f64> {
    let of = |values: &[f64]| Estimate::of(values.iter().copied()).standard_error;
    let differences: Vec<f64> = here.iter().zip(there).map(|(a, b)| a - b).collect();
    let unpaired = of(here).hypot(of(there));
    (unpaired > 0.0).then(|| of(&differences) / unpaired)
}

#[test]
fn paired_intervals_are_much_narrower_than_unpaired_ones() {
    type Value = fn(&RunRecord) -> f64;
    let measures: [(&str, Value); 4] = [
        ("answered", |run| f64::from(u8::from(answers(run)))),
        ("cost", |run| run.billed.to_f64()),
        ("evidence", |run| run.evidence as f64),
        ("duration", |run| run.duration as f64),
    ];
    let study = library::default_study();
    for (measure, value) in measures {
        let mut ratios = Vec::new();
        for scenario in &study.scenarios {
            let by_policy = records(scenario, &study.policies, 200);
            let values = |runs: &[RunRecord]| runs.iter().map(value).collect::<Vec<f64>>();
            let baseline = values(&by_policy[0]);
            for runs in &by_policy[1..] {
                ratios.extend(ratio(&values(runs), &baseline));
            }
        }
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[(share * (ratios.len() - 1) as f64) as usize];
        println!(
            "{measure}: paired / unpaired width, quartiles over {} comparisons of the default study: {:.2} {:.2} {:.2}",
            ratios.len(),
            at(0.25),
            at(0.5),
            at(0.75),
        );
        assert!(at(0.5) < 0.85, "{measure}: {}", at(0.5));
    }
}
