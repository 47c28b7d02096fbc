//! The variants of [`super::Rules`], one by one, and that the default has none of them.

use super::harness::{Attempt, COMPLETED, Driver, Tools, answer, calls, verdict};
use super::{AnswerOverCap, Config, CrossingTurn, Fraction, Limits, Rules};
use crate::Money;
use crate::protocol::{Limiter, Reason, Status, Verdict};

const VIOLATION: (Status, Reason) = (Status::Failed, Reason::SynthesisReserve);
const OVER_BUDGET: (Status, Reason) = (Status::Failed, Reason::BudgetExceeded);

fn cents(cents: i64) -> Money {
    Money::from_micros(cents * 10_000)
}

/// Tool turns with fresh calls, without end.
fn hungry(turns: u64, batch: u64) -> Vec<Attempt> {
    (0..turns)
        .map(|turn| {
            // Signatures that are neither denied nor failing nor serial.
            let fresh: Vec<u64> = (0..batch)
                .map(|call| (turn * batch + call) * 210 + 1)
                .collect();
            calls(&fresh)
        })
        .collect()
}

fn crossing(crossing_turn: CrossingTurn) -> Rules {
    Rules {
        crossing_turn,
        ..Rules::default()
    }
}

#[test]
fn a_crossing_turn_fails_unannounced_by_default() {
    let limits = Limits {
        max_model_calls: 5,
        synthesis_reserve_model_calls: 2,
        ..Limits::default()
    };
    let mut driver = Driver::new(limits, Rules::default(), hungry(3, 2));
    assert_eq!(verdict(driver.play()), VIOLATION);
    assert_eq!(driver.controls(), [None; 3]);
    assert_eq!(driver.count(Verdict::Violation), 2);
    assert_eq!(driver.counters.tool_calls, 4);
}

#[test]
fn a_refused_crossing_turn_runs_nothing_and_the_next_request_asks_for_the_answer() {
    let limits = Limits {
        max_model_calls: 5,
        synthesis_reserve_model_calls: 2,
        ..Limits::default()
    };
    let mut driver = Driver::new(
        limits,
        crossing(CrossingTurn::RefuseThenSynthesize),
        hungry(3, 2),
    );
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(
        driver.controls(),
        [None, None, None, Some(Limiter::ModelCalls)]
    );
    assert_eq!(driver.count(Verdict::Refused), 2);
    assert_eq!(driver.counters.tool_calls, 4);
    assert_eq!(driver.executed.len(), 4);
}

#[test]
fn denials_of_an_earlier_batch_do_not_touch_a_refused_turn() {
    let limits = Limits {
        max_model_calls: 3,
        synthesis_reserve_model_calls: 1,
        ..Limits::default()
    };
    let script = vec![calls(&[1, 7]), calls(&[2]), answer()];
    let mut driver = Driver::new(limits, crossing(CrossingTurn::RefuseThenSynthesize), script);
    assert_eq!(verdict(driver.play()), COMPLETED);
}

#[test]
fn a_refused_crossing_turn_is_no_repetition() {
    let limits = Limits {
        max_model_calls: 3,
        synthesis_reserve_model_calls: 1,
        ..Limits::default()
    };
    let script = vec![calls(&[1, 1]), calls(&[1, 1, 1]), answer()];
    let mut driver = Driver::new(limits, crossing(CrossingTurn::RefuseThenSynthesize), script);
    assert_eq!(verdict(driver.play()), COMPLETED);
}

#[test]
fn a_crossing_turn_that_runs_is_announced_in_the_next_request() {
    let limits = Limits {
        max_cost: Some(cents(100)),
        synthesis_reserve_cost: cents(30),
        ..Limits::default()
    };
    let script = hungry(2, 2)
        .into_iter()
        .map(|turn| turn.cents(40))
        .collect();
    let mut driver = Driver::new(limits, crossing(CrossingTurn::RunThenSynthesize), script);
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.controls(), [None, None, Some(Limiter::Cost)]);
    assert_eq!(driver.counters.tool_calls, 4);
    assert_eq!(driver.count(Verdict::Refused), 0);
}

#[test]
fn an_announced_tool_turn_fails_under_every_variant() {
    for rule in [
        CrossingTurn::Fail,
        CrossingTurn::RefuseThenSynthesize,
        CrossingTurn::RunThenSynthesize,
    ] {
        let limits = Limits {
            max_steps: 2,
            synthesis_reserve_steps: 1,
            ..Limits::default()
        };
        let mut driver = Driver::new(limits, crossing(rule), hungry(2, 1));
        assert_eq!(verdict(driver.play()), VIOLATION, "{rule:?}");
    }
}

#[test]
fn the_last_model_call_is_left_for_the_answer_of_a_refused_turn() {
    let limits = Limits {
        max_model_calls: 2,
        synthesis_reserve_model_calls: 1,
        ..Limits::default()
    };
    let mut driver = Driver::new(
        limits,
        crossing(CrossingTurn::RefuseThenSynthesize),
        hungry(1, 1),
    );
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.counters.model_calls, 2);
}

#[test]
fn without_any_call_left_a_crossing_turn_cannot_be_answered() {
    // The steps reserve switches on the comparison of model calls with zero.
    let limits = Limits {
        max_model_calls: 1,
        synthesis_reserve_steps: 1,
        ..Limits::default()
    };
    for (rule, expected) in [
        (CrossingTurn::Fail, VIOLATION),
        (CrossingTurn::RefuseThenSynthesize, OVER_BUDGET),
        (CrossingTurn::RunThenSynthesize, OVER_BUDGET),
    ] {
        let mut driver = Driver::new(limits, crossing(rule), hungry(1, 1));
        assert_eq!(verdict(driver.play()), expected, "{rule:?}");
    }
}

proptest::proptest! {
    #[test]
    fn a_larger_model_call_or_cost_reserve_never_answers_less_when_crossing_turns_are_refused(
        turns in proptest::collection::vec((1_i64..40, 1_u64..4), 1..12),
        answer_cents in 1_i64..60,
        max_model_calls in 1_i64..12,
        max_cents in 1_i64..300,
        by_cost: bool,
    ) {
        let rules = crossing(CrossingTurn::RefuseThenSynthesize);
        let mut next = 0;
        let research: Vec<Attempt> = turns
            .iter()
            .map(|(cost, batch)| {
                let fresh: Vec<u64> = (0..*batch).map(|call| (next + call) * 210 + 1).collect();
                next += batch;
                calls(&fresh).cents(*cost)
            })
            .collect();
        let answers = |reserve: i64| {
            let limits = Limits {
                max_model_calls,
                max_cost: Some(cents(max_cents)),
                synthesis_reserve_model_calls: if by_cost { 0 } else { reserve },
                synthesis_reserve_cost: if by_cost { cents(reserve) } else { Money::ZERO },
                ..Limits::default()
            };
            let mut script = research.clone();
            script.push(answer().cents(answer_cents));
            let mut driver = Driver::new(limits, rules, script);
            driver.when_told = Some(answer().cents(answer_cents));
            verdict(driver.play()) == COMPLETED
        };
        let largest = if by_cost { max_cents } else { max_model_calls };
        let mut before = false;
        for reserve in 0..largest {
            let now = answers(reserve);
            proptest::prop_assert!(now || !before, "reserve {} answers less than {}", reserve, reserve - 1);
            before = now;
        }
    }
}

proptest::proptest! {
    #[test]
    fn a_larger_steps_or_tool_call_reserve_never_answers_less_under_the_rules_of_the_reference(
        batches in proptest::collection::vec(1_u64..5, 1..12),
        max_steps in 1_i64..12,
        max_tool_calls in 1_i64..20,
        by_steps: bool,
    ) {
        let mut next = 0;
        let mut script: Vec<Attempt> = batches
            .iter()
            .map(|batch| {
                let fresh: Vec<u64> = (0..*batch).map(|call| (next + call) * 210 + 1).collect();
                next += batch;
                calls(&fresh)
            })
            .collect();
        script.push(answer());
        let answers = |reserve: i64| {
            let limits = Limits {
                max_steps,
                max_tool_calls,
                synthesis_reserve_steps: if by_steps { reserve } else { 0 },
                synthesis_reserve_tool_calls: if by_steps { 0 } else { reserve },
                ..Limits::default()
            };
            let mut driver = Driver::new(limits, Rules::default(), script.clone());
            driver.when_told = Some(answer());
            verdict(driver.play()) == COMPLETED
        };
        let largest = if by_steps { max_steps } else { max_tool_calls };
        let mut before = false;
        for reserve in 0..largest {
            let now = answers(reserve);
            proptest::prop_assert!(now || !before, "reserve {} answers less than {}", reserve, reserve - 1);
            before = now;
        }
    }
}

#[test]
fn an_answer_over_the_money_cap_is_lost_by_default_and_kept_on_request() {
    let limits = Limits {
        max_cost: Some(cents(100)),
        ..Limits::default()
    };
    let script = vec![answer().cents(150)];
    let mut driver = Driver::new(limits, Rules::default(), script.clone());
    assert_eq!(verdict(driver.play()), OVER_BUDGET);
    let keep = Rules {
        answer_over_cap: AnswerOverCap::Keep,
        ..Rules::default()
    };
    let mut driver = Driver::new(limits, keep, script);
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.counters.cost, cents(150));
    assert_eq!(driver.count(Verdict::Exceeded), 1);
}

#[test]
fn what_is_no_answer_or_crosses_another_limit_is_not_kept() {
    let keep = Rules {
        answer_over_cap: AnswerOverCap::Keep,
        ..Rules::default()
    };
    let limits = Limits {
        max_cost: Some(cents(100)),
        ..Limits::default()
    };
    let mut tool_turn = Driver::new(limits, keep, vec![calls(&[1]).cents(150)]);
    assert_eq!(verdict(tool_turn.play()), OVER_BUDGET);
    let limits = Limits {
        max_input_tokens: Some(50),
        ..limits
    };
    let mut tokens = Driver::new(limits, keep, vec![answer().cents(150)]);
    assert_eq!(verdict(tokens.play()), OVER_BUDGET);
}

#[test]
fn an_allowance_lets_that_many_calls_run_inside_a_reserve() {
    let limits = Limits {
        max_steps: 4,
        synthesis_reserve_steps: 3,
        ..Limits::default()
    };
    let allowance = |calls| Rules {
        reserve_tool_allowance: calls,
        ..Rules::default()
    };
    // Step 1 is outside the reserve, steps 2 and 3 propose two calls each inside it.
    let mut none = Driver::new(limits, allowance(0), hungry(2, 2));
    assert_eq!(verdict(none.play()), VIOLATION);
    let mut three = Driver::new(limits, allowance(3), hungry(3, 2));
    assert_eq!(verdict(three.play()), COMPLETED);
    assert_eq!(three.counters.tool_calls, 5);
    assert_eq!(three.count(Verdict::Refused), 1);
    let used_up = Driver::new(limits, allowance(3), hungry(4, 2)).play();
    assert_eq!(verdict(used_up), VIOLATION);
}

#[test]
fn an_allowance_does_not_pass_the_tool_budget() {
    let limits = Limits {
        max_tool_calls: 3,
        synthesis_reserve_tool_calls: 2,
        ..Limits::default()
    };
    let rules = Rules {
        reserve_tool_allowance: 9,
        ..Rules::default()
    };
    let mut driver = Driver::new(limits, rules, hungry(3, 1));
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.counters.tool_calls, 3);
    let exhausted = Driver::new(limits, rules, hungry(4, 1)).play();
    assert_eq!(verdict(exhausted), VIOLATION);
}

#[test]
fn an_allowance_that_is_used_survives_a_crash() {
    let limits = Limits {
        max_steps: 5,
        synthesis_reserve_steps: 4,
        ..Limits::default()
    };
    let rules = Rules {
        reserve_tool_allowance: 1,
        ..Rules::default()
    };
    let mut driver = Driver::new(limits, rules, hungry(4, 1));
    while driver.counters.tool_calls < 2 {
        driver.turn();
    }
    driver.crash();
    assert_eq!(verdict(driver.play()), VIOLATION);
}

#[test]
fn closing_work_with_one_tool_needs_a_reserve_of_two_calls() {
    // 30 calls; the closing needs a verification with one tool and the report.
    let rules = Rules {
        crossing_turn: CrossingTurn::RunThenSynthesize,
        reserve_tool_allowance: 1,
        ..Rules::default()
    };
    let limits = |reserve| Limits {
        max_steps: 60,
        max_model_calls: 30,
        max_tool_calls: 100,
        synthesis_reserve_model_calls: reserve,
        ..Limits::default()
    };
    let closing_after = |turns: u64| {
        let mut script = hungry(turns + 1, 1);
        script.push(answer());
        script
    };
    let mut one = Driver::new(limits(1), rules, closing_after(29));
    assert_eq!(verdict(one.play()), OVER_BUDGET);
    assert_eq!(
        (one.counters.model_calls, one.counters.tool_calls),
        (30, 30)
    );
    let mut two = Driver::new(limits(2), rules, closing_after(28));
    assert_eq!(verdict(two.play()), COMPLETED);
    assert_eq!(two.counters.model_calls, 30);
}

#[test]
fn a_reserved_fraction_of_a_limit_of_one_leaves_nothing_but_the_answer() {
    let limits = Limits {
        max_model_calls: 1,
        ..Limits::default()
    };
    let rules = Rules {
        reserve_fraction: Fraction::parse("0.1").unwrap(),
        ..Rules::default()
    };
    let mut driver = Driver::new(limits, rules, vec![answer()]);
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.controls(), [Some(Limiter::ModelCalls)]);
}

#[test]
fn tool_costs_reach_the_ledger_only_when_they_count() {
    let limits = Limits {
        max_cost: Some(cents(100)),
        ..Limits::default()
    };
    let tools = Tools {
        cost: cents(30),
        latency: 0,
    };
    let config = Config::new(&limits, &Rules::default(), None);
    let mut uncounted = Driver::with(config, hungry(2, 2), tools);
    assert_eq!(verdict(uncounted.play()), COMPLETED);
    assert_eq!(uncounted.counters.cost, Money::ZERO);
    let rules = Rules {
        count_tool_cost: true,
        ..Rules::default()
    };
    let mut counted = Driver::with(Config::new(&limits, &rules, None), hungry(2, 2), tools);
    assert_eq!(verdict(counted.play()), OVER_BUDGET);
    assert_eq!(counted.counters.cost, cents(120));
}

#[test]
fn tool_costs_that_were_recorded_before_a_crash_are_not_recorded_again() {
    let rules = Rules {
        count_tool_cost: true,
        ..Rules::default()
    };
    let tools = Tools {
        cost: cents(30),
        latency: 0,
    };
    let mut driver = Driver::with(
        Config::new(&Limits::default(), &rules, None),
        hungry(1, 2),
        tools,
    );
    while driver.counters.tool_calls < 2 {
        driver.turn();
    }
    driver.crash();
    assert_eq!(verdict(driver.play()), COMPLETED);
    assert_eq!(driver.counters.cost, cents(60));
    assert_eq!(driver.counters.tool_calls, 2);
}

#[test]
fn thresholds_are_configurable() {
    let rules = Rules {
        attempts: 1,
        identical_calls: 2,
        identical_denials: 1,
        ..Rules::default()
    };
    let ends = |script| verdict(Driver::new(Limits::default(), rules, script).play());
    assert_eq!(
        ends(vec![super::harness::attempt(super::harness::Does::Nothing)]),
        (Status::Failed, Reason::EmptyModelTurn)
    );
    assert_eq!(
        ends(vec![calls(&[1, 1])]),
        (Status::Failed, Reason::ToolLoopDetected)
    );
    assert_eq!(
        ends(vec![calls(&[7])]),
        (Status::Failed, Reason::RepeatedDenial)
    );
}
