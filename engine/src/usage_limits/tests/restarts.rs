//! Deaths and restarts.

use proptest::prelude::*;
use serde_json::json;

use super::script::{Attempt, Drive, Policy, Proposed, Script, policy, script};
use crate::protocol::{Action, CheckpointKind, Finish, Text, Usage};

/// Calls executed since the last checkpoint that a resume can start from.
fn since_checkpoint(run: &Drive<'_>) -> usize {
    let after = run
        .trace
        .iter()
        .rposition(|action| matches!(action, Action::Save(_)))
        .map_or(0, |at| at + 1);
    let calls = run.trace[after..].iter();
    calls
        .filter(|action| matches!(action, Action::RunCall { .. }))
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_run_that_dies_at_any_action_ends_after_its_restart(
        policy in policy(),
        script in script(),
    ) {
        let config = policy.config();
        let mut alive = Drive::start(&config, &script);
        while alive.ending().is_none() {
            for performed in [false, true] {
                let mut run = alive.clone();
                run.kill(performed);
                let restarted = run.finish();
                prop_assert!(restarted.ending().is_some());
                let report = restarted.engine.report(&config);
                prop_assert!(
                    report.turns <= config.max_turns + policy.repair_turns.unwrap_or(0) + 1
                );
            }
            alive.step();
        }
    }

    #[test]
    fn only_calls_since_the_last_checkpoint_run_again(policy in policy(), script in script()) {
        let config = policy.config();
        let mut alive = Drive::start(&config, &script);
        while alive.ending().is_none() {
            // A performed save is a checkpoint, an unperformed one is not.
            let saving = matches!(alive.action, Action::Save(_));
            if !saving {
                let lost = since_checkpoint(&alive);
                let mut run = alive.clone();
                run.kill(true);
                let run = run.finish();
                let mut ids = run.executed.clone();
                ids.sort_unstable();
                ids.dedup();
                prop_assert!(run.executed.len() - ids.len() <= lost);
            }
            alive.step();
        }
    }

    #[test]
    fn two_deaths_at_any_place_still_end(
        policy in policy(),
        script in script(),
        first in 0_usize..60,
        second in 0_usize..60,
    ) {
        let config = policy.config();
        let mut run = Drive::start(&config, &script);
        for steps in [first, second] {
            for _ in 0..steps {
                if run.ending().is_none() {
                    run.step();
                }
            }
            if run.ending().is_none() {
                run.kill(true);
            }
        }
        prop_assert!(run.finish().ending().is_some());
    }
}

/// A turn of ten calls, then an answer.
fn batch_of_ten() -> Script {
    let call = |n: u8| Proposed {
        tool: 0,
        arguments: n,
        result: n,
        fails: false,
        denied: false,
        accepted: false,
    };
    let turn = |calls: Vec<Proposed>| Attempt {
        calls,
        text: Text::Content,
        finish: Finish::Stop,
        fault: None,
        usage: Usage::default(),
        usage_mid: false,
        latency: 0,
    };
    Script {
        attempts: vec![turn((0..10).map(call).collect()), turn(Vec::new())],
        hungry: false,
    }
}

/// How many calls run again when the process dies within the seventh execution.
fn run_again(checkpoint_every: Option<u64>) -> usize {
    let limits = match checkpoint_every {
        Some(every) => json!({ "checkpointEveryToolCalls": every }),
        None => json!({}),
    };
    let mut script = batch_of_ten();
    // Without any checkpoint the model is asked again: it says the same.
    if checkpoint_every.is_none_or(|every| every >= 7) {
        script.attempts.insert(0, script.attempts[0].clone());
    }
    let config = Policy::of(limits).config();
    let mut run = Drive::start(&config, &script);
    while run.executed.len() < 6 || !matches!(run.action, Action::RunCall { .. }) {
        run.step();
    }
    run.kill(true);
    let run = run.finish();
    assert!(matches!(
        run.trace[run.trace.len() - 3],
        Action::Save(CheckpointKind::Boundary)
    ));
    run.executed.len() - 10
}

#[test]
fn a_batch_of_ten_killed_at_its_seventh_execution_repeats_the_calls_since_its_checkpoint() {
    assert_eq!(run_again(None), 7);
    assert_eq!(run_again(Some(2)), 1);
    assert_eq!(run_again(Some(4)), 3);
    assert_eq!(run_again(Some(7)), 7);
}
