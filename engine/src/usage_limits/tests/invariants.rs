//! What holds at every moment of a process life.

use proptest::prelude::*;

use super::script::{Drive, policy, script};
use crate::protocol::{Action, LimitsEngine};
use crate::usage_limits::{Engine, State};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn counted_calls_units_turns_and_money_stay_within_their_bounds(
        policy in policy(),
        script in script(),
    ) {
        let config = policy.config();
        let mut run = Drive::start(&config, &script);
        let dearest_unit = 3;
        while run.ending().is_none() {
            if matches!(run.action, Action::RunCall { .. }) {
                let report = run.engine.report(&config);
                prop_assert!(report.max_tool_calls.is_none_or(|cap| report.tool_calls <= cap));
                if let (Some(units), Some(max)) = (report.tool_units, config.max_units) {
                    prop_assert!(units < max + dearest_unit);
                }
            }
            run.step();
        }
        let report = run.engine.report(&config);
        let closing = u64::from(report.expiry.is_some() && config.reserve.is_some());
        prop_assert!(report.turns <= config.max_turns + policy.repair_turns.unwrap_or(0) + closing);
        if let Some(budget) = policy.budget
            && let (Some(ceiling), Some(spent)) = (budget.ceiling_usd, report.spent_usd)
        {
            prop_assert!(spent <= ceiling + run.dearest + 1e-9);
        }
    }

    #[test]
    fn a_state_that_went_through_bytes_has_the_same_future(
        policy in policy(),
        script in script(),
    ) {
        let config = policy.config();
        let whole = Drive::start(&config, &script).finish();
        let mut run = Drive::start(&config, &script);
        while run.ending().is_none() {
            let bytes = serde_json::to_vec(run.engine.state()).unwrap();
            let state: State = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(&state, run.engine.state());
            let mut restored = run.clone();
            restored.engine = Engine::from_state(&config, state);
            run.step();
            restored.step();
            prop_assert_eq!(run.action, restored.action);
            run = restored;
        }
        prop_assert_eq!(&whole.trace, &run.trace);
        prop_assert_eq!(whole.engine.report(&config), run.engine.report(&config));
    }

    #[test]
    fn a_reset_engine_runs_as_a_new_one(
        first in (policy(), script()),
        second in (policy(), script()),
    ) {
        let (used_config, config) = (first.0.config(), second.0.config());
        let mut used = Drive::start(&used_config, &first.1);
        for _ in 0..40 {
            if used.ending().is_none() {
                used.step();
            }
        }
        let mut engine = used.engine;
        engine.reset(&config);
        let fresh = Drive::start(&config, &second.1).finish();
        let reused = Drive::start_with(engine, &config, &second.1).finish();
        prop_assert_eq!(&fresh.trace, &reused.trace);
        prop_assert_eq!(fresh.engine.ledger(&config), reused.engine.ledger(&config));
    }

    #[test]
    fn every_end_and_every_refusal_is_told_with_its_rule(policy in policy(), script in script()) {
        use crate::protocol::Verdict;
        let config = policy.config();
        let run = Drive::start(&config, &script).finish();
        let told = |verdict: Verdict| {
            run.decisions.iter().filter(|decision| decision.verdict == verdict).count()
        };
        let asked = |wanted: &dyn Fn(&Action) -> bool| run.trace.iter().filter(|action| wanted(action)).count();
        prop_assert_eq!(told(Verdict::Ended), 1);
        prop_assert_eq!(told(Verdict::Executed), run.executed.len());
        for verdict in [Verdict::Denied, Verdict::Refused] {
            let answered = asked(&|action| matches!(
                action,
                Action::AnswerCalls { verdict: answered, .. } if *answered == verdict
            ));
            prop_assert_eq!(told(verdict), answered);
        }
        let journalled = asked(&|action| matches!(action, Action::Journal(_)));
        prop_assert_eq!(told(Verdict::Granted) + told(Verdict::Entered), journalled);
        let retried = asked(&|action| matches!(action, Action::Wait(_)));
        prop_assert_eq!(told(Verdict::Retried), retried);
    }
}
