//! The structural worst case of the overspend.

use holdback_engine::Money;
use holdback_scenarios::policy::{Family, Settings};
use holdback_scenarios::price::Price;
use holdback_scenarios::scenario::{Model, TransportReported};
use holdback_scenarios::script::Bill;
use holdback_scenarios::{Policy, Scenario};

/// The most by which a run can pass its money cap: the largest single call, what tools charge
/// without any ledger counting it, and what kills make the run pay again.
///
/// `None` where there is no such bound: without a money cap in force, a context window or an output
/// cap; with usage that is not reported; with tools that charge and no cap on their calls.
pub fn overspend_bound(scenario: &Scenario, policy: &Policy) -> Option<Money> {
    policy.money_cap()?;
    let call = largest_call(scenario)?;
    if hides_usage(&scenario.model) {
        return None;
    }
    let tools = uncounted_tools(scenario, policy)?;
    let kills = if dies(scenario) {
        let lost = call + dearest_tool(scenario).times(lost_calls(policy)?);
        lost.times(i64::from(scenario.kills.max?))
    } else {
        Money::ZERO
    };
    Some(call + tools + kills)
}

/// The most that a single model call can cost: a full context window at the dearest input rate and
/// the model's output cap. `None` without a price, a window or an output cap.
pub fn largest_call(scenario: &Scenario) -> Option<Money> {
    if let Some(script) = &scenario.script {
        let price = dearest_price(&scenario.model);
        return (0..script.len())
            .filter_map(|position| script.turn(position))
            .chain(&script.closing)
            .map(|turn| match turn.bill {
                Bill::Nothing => Some(Money::ZERO),
                Bill::Cost { cost, .. } => Some(cost),
                Bill::Tokens(tokens) => Some(tokens_at(&price?, tokens.input, tokens.output)),
            })
            .try_fold(Money::ZERO, |most, cost| Some(most.max(cost?)));
    }
    let model = &scenario.model;
    dearest_call(model, model.context_window?)
}

/// The most that a call of this input can cost: nothing cached, the longest output. `None` without a
/// price or an output cap.
pub fn dearest_call(model: &Model, input: u64) -> Option<Money> {
    Some(tokens_at(
        &dearest_price(model)?,
        input,
        model.max_output_tokens?,
    ))
}

fn tokens_at(price: &Price, input: u64, output: u64) -> Money {
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let rate = price.input.max(price.cached_input).max(price.cache_write);
    rate.times(count(input)) + price.output.times(count(output))
}

/// Every rate at its dearest tier.
fn dearest_price(model: &Model) -> Option<Price> {
    let base = model.price?;
    let Some(long) = model.long_context else {
        return Some(base);
    };
    Some(Price {
        input: base.input.max(long.price.input),
        cached_input: base.cached_input.max(long.price.cached_input),
        cache_write: base.cache_write.max(long.price.cache_write),
        output: base.output.max(long.price.output),
    })
}

/// The engine may be told less than is billed.
fn hides_usage(model: &Model) -> bool {
    let hidden_retries = model.faults.transport_retries > 0
        && model.faults.transport_reported == TransportReported::Last
        && model.faults.billed.get() > 0.0;
    model.reporting.missing.get() > 0.0 || model.reporting.factor < 1.0 || hidden_retries
}

/// What tools can charge without the ledger counting it.
fn uncounted_tools(scenario: &Scenario, policy: &Policy) -> Option<Money> {
    let counted = match &policy.settings {
        Settings::RunLimits(settings) => settings.rules.count_tool_cost,
        Settings::Caps(settings) => settings.count_tool_cost,
        Settings::UsageLimits(_) => false,
    };
    let dearest = dearest_tool(scenario);
    if counted || dearest == Money::ZERO {
        return Some(Money::ZERO);
    }
    Some(dearest.times(tool_call_cap(policy)?))
}

fn dearest_tool(scenario: &Scenario) -> Money {
    scenario
        .tools
        .iter()
        .map(|tool| tool.cost)
        .max()
        .unwrap_or(Money::ZERO)
}

fn tool_call_cap(policy: &Policy) -> Option<i64> {
    let cap = |key: &str| policy.limits.get(key).and_then(serde_json::Value::as_i64);
    match policy.family {
        Family::RunLimits if !policy.limits.contains_key("max_tool_calls") => {
            Some(holdback_engine::run_limits::Limits::default().max_tool_calls)
        }
        Family::RunLimits | Family::Caps => cap("max_tool_calls"),
        Family::UsageLimits => {
            let extension = policy.limits.get("toolBudgetExtension");
            let part = |key: &str| {
                extension
                    .and_then(|e| e.get(key))
                    .and_then(serde_json::Value::as_i64)
            };
            let granted = part("increment")
                .unwrap_or(0)
                .checked_mul(part("maxExtensions").unwrap_or(0))?;
            cap("maxToolCalls")?.checked_add(granted)
        }
    }
}

fn dies(scenario: &Scenario) -> bool {
    let kills = &scenario.kills;
    kills.max != Some(0)
        && (kills.per_model_call.get() > 0.0
            || kills.per_tool_call.get() > 0.0
            || !kills.after_model_calls.is_empty()
            || !kills.after_tool_calls.is_empty())
}

/// Tool executions that one kill can lose.
fn lost_calls(policy: &Policy) -> Option<i64> {
    match policy.family {
        Family::RunLimits => Some(1),
        Family::UsageLimits => policy
            .limits
            .get("checkpointEveryToolCalls")
            .and_then(serde_json::Value::as_i64)
            .or_else(|| tool_call_cap(policy)),
        Family::Caps => tool_call_cap(policy),
    }
}
