//! The process dies: what runs again, what is paid again, and what the ledger then knows.

mod common;

use std::ops::RangeInclusive;

use common::{caps, policy, record, run_limits, scenario, usage_limits, watched};
use holdback_engine::Money;
use holdback_engine::protocol::{
    Action, Call, CallStatus, Decision, JournalEntry, Micros, ModelRequest, Observer,
};
use holdback_scenarios::policy::Family;
use holdback_scenarios::scenario::Probability;
use holdback_scenarios::{Policy, Scenario};
use holdback_sim::driver::{self, Resumption, Witness};
use holdback_sim::tally::{Cause, Event, Outcome, RunRecord};
use holdback_sim::world::{Ran, Reply};

fn cents(cents: i128) -> Money {
    Money::from_picos(cents * 10_000_000_000)
}

fn ten_at_once() -> Scenario {
    scenario(
        r#"
[[turn]]
calls = { m = 10 }
cost_usd = "0.10"
[[turn]]
answer = "the table"
cost_usd = "0.12"
[[tools]]
name = "m"
cost_usd = "0.01"
[kills]
after_tool_calls = [7]
"#,
    )
}

#[test]
fn a_batch_of_ten_killed_at_its_seventh_runs_again_from_the_last_boundary() {
    let one = record(&ten_at_once(), &run_limits(""));
    assert_eq!(
        (one.repaid_calls, one.tool_calls, one.model_calls),
        (1, 11, 2)
    );
    for (cadence, again) in [("", 7), ("2", 1), ("4", 3), ("7", 7)] {
        let policy = match cadence {
            "" => usage_limits(""),
            every => usage_limits(&format!("checkpointEveryToolCalls = {every}")),
        };
        let run = record(&ten_at_once(), &policy);
        assert_eq!(run.repaid_calls, again, "K = {cadence}");
        assert_eq!(run.tool_calls, 10 + again);
        assert_eq!((run.kills, run.outcome), (1, Outcome::Answered));
        // The turn's request is sent again unless a checkpoint within the batch was written.
        let requests = if again == 7 { 3 } else { 2 };
        assert_eq!(run.model_calls, requests, "K = {cadence}");
        assert!(run.seen.has(Event::KillMidBatch));
    }
    let turn = record(&ten_at_once(), &caps("max_turns = 10"));
    assert_eq!((turn.repaid_calls, turn.model_calls), (7, 3));
    let nothing = record(&ten_at_once(), &caps("max_turns = 10, durable = \"none\""));
    assert_eq!((nothing.repaid_calls, nothing.model_calls), (7, 3));
}

#[test]
fn what_is_paid_again_is_on_the_bill_and_what_is_lost_is_not_in_the_ledger() {
    let run = record(&ten_at_once(), &usage_limits(""));
    // Two requests of the batch, the answer, seventeen executions.
    assert_eq!(run.billed, cents(10 + 10 + 12 + 17));
    assert_eq!(run.ledger, cents(10 + 12));
    assert_eq!(run.repaid, cents(10 + 7));
    let run = record(&ten_at_once(), &run_limits(""));
    assert_eq!(run.billed, cents(10 + 12 + 11));
    assert_eq!(run.ledger, cents(10 + 12));
    assert_eq!(run.repaid, cents(1));
}

#[test]
fn a_kill_behind_a_request_costs_a_step_under_run_limits_and_a_request_elsewhere() {
    let mut scenario = ten_at_once();
    scenario.kills.after_tool_calls = vec![];
    scenario.kills.after_model_calls = vec![2];
    let run = record(&scenario, &run_limits("max_steps = 2"));
    assert_eq!((run.outcome, run.steps), (Outcome::Unanswered, 2));
    let run = record(&scenario, &run_limits("max_steps = 3"));
    assert_eq!(
        (run.outcome, run.steps, run.model_calls),
        (Outcome::Answered, 3, 3)
    );
    for policy in [usage_limits("maxTurns = 2"), caps("max_turns = 2")] {
        let run = record(&scenario, &policy);
        assert_eq!(
            (run.outcome, run.steps, run.model_calls),
            (Outcome::Answered, 2, 3)
        );
        assert_eq!(
            (run.repaid, run.billed - run.ledger),
            (cents(12), cents(12 + 10))
        );
    }
}

#[test]
fn the_request_at_which_the_process_dies_is_the_planned_one_even_below_the_engine() {
    let scenario = scenario(
        r#"
[model]
price = { input_per_mtok = 1 }
base_input_tokens = 1000000
demand = 0
faults = { rate_limit = 1, billed = 1, transport_retries = 3 }
[[tools]]
name = "t"
[kills]
after_model_calls = [2]
"#,
    );
    let run = record(&scenario, &run_limits(""));
    // Two requests, death, then three attempts of four requests each.
    assert_eq!((run.kills, run.model_calls, run.steps), (1, 14, 2));
}

#[test]
fn deaths_without_end_are_an_endless_run() {
    let scenario =
        scenario("[model]\ndemand = 3\n[[tools]]\nname = \"t\"\n[kills]\nper_tool_call = 1\n");
    let run = record(&scenario, &run_limits(""));
    assert_eq!(
        (run.outcome, run.cause),
        (Outcome::Unanswered, Cause::Endless)
    );
}

#[test]
fn refused_calls_of_a_batch_that_was_interrupted_stay_refused() {
    // Eight calls fit, two are refused; the batch dies, recovers, and the next request dies as well.
    let mut scenario = ten_at_once();
    scenario.kills.after_model_calls = vec![2];
    let run = record(&scenario, &run_limits("max_tool_calls = 8"));
    assert_eq!(run.tool_calls, 9);
    assert_eq!(run.refused_calls, 2);
    assert_eq!(run.outcome, Outcome::Answered);
}

/// Keeps books of its own on what a run has done and what its process can still know.
#[derive(Default)]
struct OwnBooks {
    family: Option<Family>,
    /// The engine's ledger as this family's durability says it must be.
    ledger: Money,
    /// Ledger and results at each checkpoint.
    saved: Vec<(Money, u64)>,
    /// Results that the conversation holds, those that kills took out of it, and those that came back
    /// from their stored outcomes.
    held: u64,
    lost: u64,
    recovered: u64,
    /// Requests that were billed and never recorded.
    lost_requests: u64,
    /// The most executions that one kill has taken back.
    most_lost: u64,
    /// What was charged: requests and tools.
    requests: Money,
    tools: Money,
    checkpoints: u64,
    grants: u64,
}

impl Observer for OwnBooks {
    fn decided(&mut self, _decision: Decision) {}
}

impl Witness for OwnBooks {
    fn acted(&mut self, _now: Micros, action: &Action, _books: &driver::Books<'_>) {
        match action {
            Action::Save(_) => {
                self.checkpoints += 1;
                self.saved.push((self.ledger, self.held));
            }
            Action::Journal(JournalEntry::Grant { ordinal, .. }) => {
                self.grants = self.grants.max(*ordinal);
            }
            _ => {}
        }
    }

    fn replied(&mut self, _now: Micros, _request: &ModelRequest, reply: &Reply, _calls: &[Call]) {
        self.requests += reply.billed;
        if reply.died {
            self.lost_requests += u64::from(reply.requests);
        } else {
            self.ledger += reply.told_cost;
        }
    }

    fn ran(&mut self, _now: Micros, _call: &Call, ran: &Ran, recovered: bool) {
        if ran.result.status == CallStatus::Denied {
            return;
        }
        self.held += 1;
        if recovered {
            self.recovered += 1;
        } else {
            self.tools += ran.result.cost;
        }
    }

    fn resumed(&mut self, _now: Micros, resumption: &Resumption<'_>) {
        if resumption.tail_lost && self.family != Some(Family::UsageLimits) {
            self.saved.pop();
        }
        let (ledger, held) = self.saved.last().copied().unwrap_or_default();
        if self.family != Some(Family::RunLimits) {
            self.ledger = ledger;
        }
        self.most_lost = self.most_lost.max(self.held - held);
        self.lost += self.held - held;
        self.held = held;
    }
}

/// The workloads of the sweep: drawn with everything that happens in a batch, and scripted.
fn workloads() -> Vec<Scenario> {
    vec![
        scenario(
            r#"
[model]
price = { input_per_mtok = 4, output_per_mtok = 16 }
base_input_tokens = 2048
output_tokens = 256
final_output_tokens = 512
latency_s = 1
demand = 9
batch = { dist = "geometric", mean = 2.5, min = 1 }
[model.habits]
repeat_call = 0.1
record_evidence = 0.3
[model.faults]
transient = 0.05
empty = 0.03
[storage]
checkpoint_usd = "0.001"
[[tools]]
name = "search"
cost_usd = "0.01"
error = 0.1
error_after_error = 0.5
novelty = 0.8
latency_s = 1
parallel = true
"#,
        ),
        scenario(
            r#"
on_end = "answer"
[[turn]]
calls = { s = 3 }
cost_usd = "0.25"
[[turn]]
fault = "transient"
cost_usd = "0.125"
[[turn]]
calls = ["s", { tool = "s", error = true }, "s", "s", "s"]
text = "so far"
cost_usd = "0.25"
times = 3
[[turn]]
answer = "done"
cost_usd = "0.5"
[[tools]]
name = "s"
cost_usd = "0.0625"
"#,
        ),
    ]
}

fn policies() -> Vec<Policy> {
    vec![
        run_limits(""),
        run_limits(
            "max_steps = 7, max_model_calls = 9, max_tool_calls = 14, synthesis_reserve_steps = 1, synthesis_reserve_tool_calls = 2",
        ),
        policy(
            "family = \"run_limits\"\nrules = { crossing_turn = \"refuse_then_synthesize\", answer_over_cap = \"keep\" }\nlimits = { max_steps = 20, max_model_calls = 6, max_tool_calls = 40, synthesis_reserve_model_calls = 1 }",
        ),
        usage_limits(""),
        usage_limits(
            "maxTurns = 7, maxToolCalls = 14, finalizationReserve = {}, toolBudgetNotices = true",
        ),
        usage_limits(
            "maxToolCalls = 9, checkpointEveryToolCalls = 2, finalizationWindow = { reserveCalls = 3, allow = [\"record_evidence\"] }, toolBudgetExtension = { increment = 2, maxExtensions = 2 }",
        ),
        caps("max_turns = 100"),
        caps("max_turns = 100, durable = \"none\""),
        caps("max_turns = 6, max_tool_calls = 14, on_exhausted = \"final_turn\", batch = \"trim\""),
    ]
}

fn cap(policy: &Policy, key: &str) -> u64 {
    policy
        .limits
        .get(key)
        .and_then(serde_json::Value::as_u64)
        .unwrap_or(u64::MAX / 2)
}

/// What must hold of every run, killed or not.
fn check(policy: &Policy, scenario: &Scenario, run: &RunRecord, books: &OwnBooks, what: &str) {
    let what = format!("{what} under {} {}", policy.family, policy.document);
    assert_ne!(run.cause, Cause::Endless, "{what}");
    // The bill holds all that was charged; the ledger, what its family can still know of it.
    let checkpoints = scenario.checkpoint_cost.times(books.checkpoints as i64);
    assert_eq!(
        run.billed,
        books.requests + books.tools + checkpoints,
        "{what}"
    );
    assert_eq!(run.ledger, books.ledger, "{what}");
    assert!(run.billed >= run.ledger, "{what}");
    // What runs again was lost, and not more than since the last boundary.
    assert!(run.repaid_calls <= books.lost, "{what}");
    assert!(run.repaid_calls <= books.most_lost * run.kills, "{what}");
    assert!(run.evidence + run.repaid_calls <= run.tool_calls, "{what}");
    // Caps hold for what is counted.
    let lost = books.lost;
    let (turns, calls, requests) = match policy.family {
        Family::RunLimits => (
            cap(policy, "max_steps"),
            cap(policy, "max_tool_calls"),
            cap(policy, "max_model_calls"),
        ),
        Family::UsageLimits => (
            cap(policy, "maxTurns") + 1,
            cap(policy, "maxToolCalls") + 2 * books.grants,
            u64::MAX / 2,
        ),
        Family::Caps => (
            cap(policy, "max_turns") + 1,
            cap(policy, "max_tool_calls"),
            u64::MAX / 2,
        ),
    };
    assert!(run.steps <= turns, "{what}");
    assert!(run.tool_calls <= calls + lost, "{what}");
    assert!(run.model_calls <= requests + books.lost_requests, "{what}");
    assert_eq!(
        run.tool_calls + books.recovered,
        books.held + lost,
        "{what}"
    );
}

fn play(scenario: &Scenario, policy: &Policy, run: u64) -> (RunRecord, OwnBooks) {
    let mut books = OwnBooks {
        family: Some(policy.family),
        ..OwnBooks::default()
    };
    let record = watched(scenario, policy, run, &mut books);
    (record, books)
}

/// One or two kills, in the order in which the sweep tries them.
fn plans(events: RangeInclusive<u32>) -> impl Iterator<Item = Vec<u32>> {
    events.flat_map(|at| [vec![at], vec![at, at + 1], vec![at, at + 3]])
}

#[test]
fn a_run_killed_behind_any_event_ends_and_keeps_its_books() {
    let mut killed = 0;
    for base in workloads() {
        for policy in policies() {
            for number in 0..2 {
                let (whole, books) = play(&base, &policy, number);
                check(&policy, &base, &whole, &books, "unkilled");
                assert_eq!((whole.kills, books.lost), (0, 0));
                for tail_loss in [Probability::NEVER, Probability::ALWAYS] {
                    let mut scenario = base.clone();
                    scenario.kills.journal_tail_loss = tail_loss;
                    for plan in plans(1..=whole.tool_calls as u32) {
                        scenario.kills.after_tool_calls = plan.clone();
                        let (run, books) = play(&scenario, &policy, number);
                        let what = format!("{} killed behind calls {plan:?}", scenario.document);
                        check(&policy, &scenario, &run, &books, &what);
                        assert!(run.kills >= 1, "{what}");
                        killed += 1;
                    }
                    scenario.kills.after_tool_calls.clear();
                    for plan in plans(1..=whole.model_calls as u32) {
                        scenario.kills.after_model_calls = plan.clone();
                        let (run, books) = play(&scenario, &policy, number);
                        let what = format!("{} killed behind requests {plan:?}", scenario.document);
                        check(&policy, &scenario, &run, &books, &what);
                        assert!(run.kills >= 1, "{what}");
                        killed += 1;
                    }
                }
            }
        }
    }
    assert!(killed > 2_000, "{killed}");
}

#[test]
fn without_limits_a_kill_changes_what_a_script_costs_and_nothing_else() {
    let base = &workloads()[1];
    for policy in policies().iter().filter(|policy| {
        let keys = ["max_steps", "maxToolCalls", "max_tool_calls"];
        keys.iter().all(|key| cap(policy, key) > 1_000)
    }) {
        let (whole, _) = play(base, policy, 0);
        assert_eq!(whole.outcome, Outcome::Answered);
        for at in 1..=whole.tool_calls as u32 {
            let mut scenario = base.clone();
            scenario.kills.after_tool_calls = vec![at];
            let (run, books) = play(&scenario, policy, 0);
            assert_eq!(run.outcome, Outcome::Answered);
            assert_eq!(run.evidence, whole.evidence, "{at}");
            assert_eq!(run.tool_calls - run.repaid_calls, whole.tool_calls, "{at}");
            assert_eq!(run.billed - run.repaid, whole.billed, "{at}");
            if policy.family == Family::RunLimits {
                assert_eq!(run.repaid_calls, 1);
            } else {
                assert_eq!(run.repaid_calls, books.most_lost);
            }
        }
    }
}

#[test]
fn results_that_no_request_carried_are_counted_once_also_across_a_restart() {
    for policy in [
        run_limits(""),
        usage_limits(""),
        usage_limits("checkpointEveryToolCalls = 1"),
    ] {
        let (run, books) = play(&ten_at_once(), &policy, 0);
        // The interrupted execution brings a result that nobody reads; what is lost with it as well.
        let lost = match policy.family {
            Family::RunLimits => 1,
            _ => books.most_lost,
        };
        assert_eq!(run.unread_results, lost, "{}", policy.document);
    }
}
