//! Off by default: a field that is absent, has its default, or has a value that cannot bind leaves
//! the run as if the field did not exist.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::script::{Drive, Policy, Script, is_mid_batch, policy, script};
use crate::protocol::{Action, ModelRequest};
use crate::usage_limits::limits::{Budget, EvidenceContract, Exposure, ExposureWait};

const NEVER: u64 = 1 << 40;

/// What a run asks of its driver, without output caps that no model reaches.
fn trace(policy: &Policy, script: &Script) -> Vec<Action> {
    let config = policy.config();
    let run = Drive::start(&config, script).finish();
    let unreachable_cap_dropped = |action: Action| match action {
        Action::CallModel(request) => Action::CallModel(ModelRequest {
            output_cap: request.output_cap.filter(|cap| *cap < NEVER),
            ..request
        }),
        other => other,
    };
    run.trace.into_iter().map(unreachable_cap_dropped).collect()
}

fn with(policy: &Policy, field: &str, value: Value) -> Policy {
    let mut policy = policy.clone();
    policy.limits[field] = value;
    policy
}

fn without(policy: &Policy, fields: &[&str]) -> Policy {
    let mut policy = policy.clone();
    if let Value::Object(limits) = &mut policy.limits {
        for field in fields {
            limits.shift_remove(*field);
        }
    }
    policy
}

/// Each row: a field, a value that cannot bind, and the fields without which that is so.
fn idle_values() -> Vec<(&'static str, Value, &'static [&'static str])> {
    vec![
        ("maxTurns", json!(32), &[]),
        ("streamIdleTimeoutMs", json!(120_000), &[]),
        ("noProgressTurns", json!(3), &[]),
        ("maxToolCalls", json!(NEVER), &[]),
        ("maxOutputTokensPerTurn", json!(1e300), &[]),
        ("timeoutMs", json!(1e300), &[]),
        ("toolBudgetNotices", json!(false), &[]),
        ("toolBudgetNotices", json!(true), &["maxToolCalls"]),
        ("maxRepeatedToolSignature", json!(NEVER), &[]),
        ("maxNoNewEvidenceCalls", json!(NEVER), &[]),
        ("maxCallsPerTool", json!({}), &[]),
        (
            "maxCallsPerTool",
            json!({ "search": NEVER, "elsewhere": 0 }),
            &[],
        ),
        (
            "toolUnits",
            json!({ "max": NEVER, "costs": { "search": 5 } }),
            &[],
        ),
        ("checkpointEveryToolCalls", json!(NEVER), &[]),
        (
            "finalizationReserve",
            json!({ "maxOutputTokens": 7 }),
            &["maxToolCalls", "toolUnits"],
        ),
        (
            "toolBudgetExtension",
            json!({ "increment": 1, "maxExtensions": 9, "requireNewEvidence": false, "coverEvidenceDeficit": true }),
            &["maxToolCalls"],
        ),
        (
            "finalizationWindow",
            json!({ "reserveCalls": 9, "allow": [] }),
            &["maxToolCalls", "toolUnits", "finalizationTurns"],
        ),
        (
            "finalizationWindow",
            json!({ "reserveCalls": 1, "allow": ["search"] }),
            &["maxToolCalls", "toolUnits", "finalizationTurns"],
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_field_that_cannot_bind_leaves_the_run_as_if_it_did_not_exist(
        policy in policy(),
        script in script(),
    ) {
        // An exposure plan counts the output cap, a drained turn rides on the reserve and the window.
        let mut policy = policy;
        policy.budget = policy.budget.map(|budget| Budget { exposure: None, ..budget });
        for (field, value, absent) in idle_values() {
            let base = without(&without(&policy, absent), &[field]);
            let configured = with(&base, field, value.clone());
            prop_assert_eq!(trace(&base, &script), trace(&configured, &script), "{} {}", field, value);
        }
    }

    #[test]
    fn a_turns_reserve_that_is_never_reached_leaves_the_run_as_if_it_did_not_exist(
        policy in policy(),
        script in script(),
    ) {
        let ends = |script: &Script| Script { hungry: false, ..script.clone() };
        let long = with(&without(&policy, &["finalizationTurns"]), "maxTurns", json!(NEVER));
        let configured = with(&long, "finalizationTurns", json!({ "reserveTurns": 3, "allow": [] }));
        prop_assert_eq!(trace(&long, &ends(&script)), trace(&configured, &ends(&script)));
    }

    #[test]
    fn a_contract_that_only_warns_and_a_budget_without_limits_change_nothing(
        policy in policy(),
        script in script(),
    ) {
        let plain = Policy { budget: None, evidence: None, ..policy };
        let warned = Policy {
            evidence: Some(EvidenceContract { min_entries: 5, refuse: false }),
            limits: without(&plain, &["finalizationWindow", "toolBudgetExtension"]).limits,
            ..plain.clone()
        };
        let unwarned = Policy { evidence: None, ..warned.clone() };
        prop_assert_eq!(trace(&unwarned, &script), trace(&warned, &script));

        let unlimited = Policy {
            budget: Some(Budget {
                exposure: Some(Exposure { cap_usd: 1e9, wait: ExposureWait::Child }),
                ..Budget::default()
            }),
            ..plain.clone()
        };
        let mut estimated = trace(&unlimited, &script);
        estimated.retain(|action| *action != Action::EstimatePrompt);
        prop_assert_eq!(trace(&plain, &script), estimated);
    }

    #[test]
    fn checkpoints_within_batches_change_nothing_else(policy in policy(), script in script()) {
        let none = without(&policy, &["checkpointEveryToolCalls"]);
        let each = with(&policy, "checkpointEveryToolCalls", json!(1));
        let mut saved = trace(&each, &script);
        saved.retain(|action| !is_mid_batch(action));
        prop_assert_eq!(trace(&none, &script), saved);
    }
}
