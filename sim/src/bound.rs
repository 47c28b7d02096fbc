//! The structural worst case of the overspend.

use holdback_engine::Money;
use holdback_engine::caps::{self, Batch, Dimension, Durability, OnExhausted};
use holdback_engine::protocol::ToolId;
use holdback_engine::run_limits::UNLIMITED;
use holdback_scenarios::policy::{CapsSettings, Family, Settings, UsageLimitsSettings};
use holdback_scenarios::price::Price;
use holdback_scenarios::scenario::{Kills, Model, TransportReported};
use holdback_scenarios::script::Bill;
use holdback_scenarios::{Policy, Scenario};

/// The most by which a run can pass its money cap: the attempt in flight, what tools charge without
/// any ledger counting it in time, what a ledger without price tiers does not see, and what kills make
/// the run forget and pay again.
///
/// `None` where there is no such bound, or none that is worth the name: without a money cap, a context
/// window or an output cap; with usage that is not reported, checkpoints that are billed, or limits
/// that change after a restart; with tools that charge and no cap on their calls; with kills and no
/// cap on those.
pub fn overspend_bound(scenario: &Scenario, policy: &Policy) -> Option<Money> {
    let cap = policy.money_cap()?;
    let hidden = hides_usage(&scenario.model) || scenario.checkpoint_cost > Money::ZERO;
    if hidden || policy.resume_limits.is_some() {
        return None;
    }
    let rules = Rules::of(policy)?;
    let attempt = attempt(scenario)?;
    let in_flight = attempt.times(rules.attempts_past_cap);
    let tools = uncounted_tools(scenario, &rules)?;
    let forgotten = match deaths(&scenario.kills)? {
        0 => Money::ZERO,
        deaths => lost_by_a_kill(scenario, &rules, cap, attempt, tools)?.times(deaths),
    };
    Some(in_flight + tools + unseen_tier(&scenario.model, cap)? + forgotten)
}

/// What a policy's rules mean for the bound.
struct Rules {
    family: Family,
    /// Attempts that are made although, or whose usage is only known when, the cap is passed.
    attempts_past_cap: i64,
    /// Attempts of a turn.
    attempts: i64,
    /// The most tool calls of a run, as far as they are counted.
    tool_calls: Option<i64>,
    counts_tool_cost: bool,
    /// Calls that run in one go before their cost is looked at.
    looks_after: Option<i64>,
    /// Executions between two checkpoints.
    calls_at_risk: Option<i64>,
    /// Nothing is durable.
    forgets_all: bool,
}

impl Rules {
    /// `None` for limits that no engine accepts.
    fn of(policy: &Policy) -> Option<Rules> {
        match &policy.settings {
            Settings::RunLimits(settings) => {
                let default = holdback_engine::run_limits::Limits::default().max_tool_calls;
                let tool_calls = match policy.limits.get("max_tool_calls") {
                    None => Some(default),
                    Some(limit) => limit.as_i64().filter(|calls| *calls != UNLIMITED),
                };
                Some(Rules {
                    family: Family::RunLimits,
                    attempts_past_cap: 1,
                    attempts: 1,
                    tool_calls,
                    counts_tool_cost: settings.rules.count_tool_cost,
                    looks_after: tool_calls,
                    calls_at_risk: Some(1),
                    forgets_all: false,
                })
            }
            Settings::UsageLimits(settings) => Rules::of_usage_limits(policy, settings),
            Settings::Caps(settings) => Rules::of_caps(policy, settings),
        }
    }

    fn of_usage_limits(policy: &Policy, settings: &UsageLimitsSettings) -> Option<Rules> {
        let limit = |key: &str| policy.limits.get(key).and_then(serde_json::Value::as_i64);
        let extension = policy.limits.get("toolBudgetExtension");
        let part = |key: &str| extension?.get(key)?.as_i64();
        let grants = part("maxExtensions").unwrap_or(0);
        let granted = part("increment").unwrap_or(0).checked_mul(grants)?;
        let tool_calls = limit("maxToolCalls").and_then(|cap| cap.checked_add(granted));
        Some(Rules {
            family: Family::UsageLimits,
            attempts_past_cap: 1,
            attempts: i64::from(settings.retry_attempts.unwrap_or(3)),
            tool_calls,
            counts_tool_cost: false,
            looks_after: None,
            calls_at_risk: limit("checkpointEveryToolCalls").or(tool_calls),
            forgets_all: false,
        })
    }

    fn of_caps(policy: &Policy, settings: &CapsSettings) -> Option<Rules> {
        let limits = caps_limits(policy, settings)?;
        let action = limits
            .on_exhausted
            .named(Dimension::Cost)
            .or(limits.on_exhausted.default)
            .unwrap_or_default();
        // Which tool has which number makes no difference here.
        let config = limits.compile(|_| Some(ToolId(0))).ok()?;
        let attempts = i64::from(config.attempts);
        let attempts_past_cap = match action {
            OnExhausted::FinalTurn => 1 + attempts,
            // Tools cannot be blocked for money: that default means `error` here.
            OnExhausted::Error
            | OnExhausted::Stop
            | OnExhausted::Canned
            | OnExhausted::FinalTurnInside
            | OnExhausted::BlockTools => 1,
        };
        let calls = limits.max_tool_calls.value();
        let tool_calls = calls
            .filter(|_| config.batch != Batch::RunAll)
            .and_then(|calls| i64::try_from(calls).ok());
        Some(Rules {
            family: Family::Caps,
            attempts_past_cap,
            attempts,
            tool_calls,
            counts_tool_cost: config.count_tool_cost || settings.count_tool_cost,
            looks_after: Some(1),
            calls_at_risk: tool_calls,
            forgets_all: config.durable == Durability::None,
        })
    }
}

/// The limits of a caps policy with those of its preset below them.
fn caps_limits(policy: &Policy, settings: &CapsSettings) -> Option<caps::Limits> {
    let mut object = policy.limits.clone();
    if let Some(preset) = &settings.preset {
        object.insert("preset".to_owned(), preset.as_str().into());
    }
    let limits: caps::Limits = serde_json::from_value(object.into()).ok()?;
    limits.resolved().ok()
}

/// The most that one attempt is billed: its requests below the engine included.
fn attempt(scenario: &Scenario) -> Option<Money> {
    let faults = &scenario.model.faults;
    let resends = if scenario.script.is_none() && faults.billed.get() > 0.0 {
        i64::from(faults.transport_retries)
    } else {
        0
    };
    Some(largest_call(scenario)?.times(1 + resends))
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

/// What long requests can cost above what the ledger takes them for, up to the cap.
fn unseen_tier(model: &Model, cap: Money) -> Option<Money> {
    let (Some(base), Some(long)) = (model.price, model.long_context) else {
        return Some(Money::ZERO);
    };
    [
        (base.input, long.price.input),
        (base.cached_input, long.price.cached_input),
        (base.cache_write, long.price.cache_write),
        (base.output, long.price.output),
    ]
    .into_iter()
    .try_fold(Money::ZERO, |most, (base, long)| {
        let dearer = (long - base).or_zero().picos();
        if dearer == 0 {
            return Some(most);
        }
        if base == Money::ZERO {
            return None;
        }
        // Rounded up; a cap is far below 2^127 / 1e9 picodollars.
        let unseen = cap.picos().checked_mul(dearer)? / base.picos() + 1;
        Some(most.max(Money::from_picos(unseen)))
    })
}

/// The engine may be told less than is billed.
fn hides_usage(model: &Model) -> bool {
    let hidden_retries = model.faults.transport_retries > 0
        && model.faults.transport_reported == TransportReported::Last
        && model.faults.billed.get() > 0.0;
    model.reporting.missing.get() > 0.0 || model.reporting.factor < 1.0 || hidden_retries
}

/// What tools can charge before a ledger that counts it stops the run, or without any counting it.
fn uncounted_tools(scenario: &Scenario, rules: &Rules) -> Option<Money> {
    let dearest = dearest_tool(scenario);
    if dearest == Money::ZERO {
        return Some(Money::ZERO);
    }
    let calls = if rules.counts_tool_cost {
        rules.looks_after?
    } else {
        rules.tool_calls?
    };
    Some(dearest.times(calls))
}

fn dearest_tool(scenario: &Scenario) -> Money {
    let costs = scenario.tools.iter().map(|tool| tool.cost);
    costs.max().unwrap_or(Money::ZERO)
}

/// How often the process can die; `None` if there is no end to it.
fn deaths(kills: &Kills) -> Option<i64> {
    let planned = kills.after_model_calls.len() + kills.after_tool_calls.len();
    let drawn = kills.per_model_call.get() > 0.0 || kills.per_tool_call.get() > 0.0;
    match (kills.max, drawn) {
        (Some(max), true) => Some(i64::from(max)),
        (max, false) => Some(max.map_or(planned, |max| planned.min(max as usize)) as i64),
        (None, true) => None,
    }
}

/// What one kill can make a run pay without its ledger knowing it afterwards.
fn lost_by_a_kill(
    scenario: &Scenario,
    rules: &Rules,
    cap: Money,
    attempt: Money,
    tools: Money,
) -> Option<Money> {
    let dearest = dearest_tool(scenario);
    let calls = |calls: Option<i64>| match dearest {
        Money::ZERO => Some(Money::ZERO),
        dearest => Some(dearest.times(calls?)),
    };
    if rules.forgets_all {
        return Some(cap + attempt.times(rules.attempts_past_cap) + tools);
    }
    let loses_tail = scenario.kills.journal_tail_loss.get() > 0.0;
    match rules.family {
        // Its counters are durable; with a lost checkpoint a whole batch may run again.
        Family::RunLimits if loses_tail => Some(attempt + calls(rules.tool_calls)?),
        Family::RunLimits => Some(attempt + calls(rules.calls_at_risk)?),
        Family::UsageLimits => Some(attempt.times(rules.attempts) + calls(rules.calls_at_risk)?),
        Family::Caps => {
            let turn = attempt.times(rules.attempts) + calls(rules.calls_at_risk)?;
            Some(turn.times(if loses_tail { 2 } else { 1 }))
        }
    }
}
