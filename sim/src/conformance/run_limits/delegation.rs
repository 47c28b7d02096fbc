//! Vectors of the limits derived for child runs.

use holdback_engine::Money;
use holdback_engine::protocol::{Counters, Limiter, Micros};
use holdback_engine::run_limits::{
    self, Brief, BriefDefaults, Child, Limits, Parent, derive_children,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::compare::{Difference, first_difference};
use super::case::{optional_money, optional_seconds};

/// A parent, what it asks for, and what the reference gives it.
#[derive(Deserialize)]
pub(in super::super) struct DelegationVector {
    parent: ParentState,
    briefs: Vec<Option<BriefFields>>,
    defaults: BriefFields,
    expect: Value,
}

#[derive(Deserialize)]
struct ParentState {
    limits: Box<RawValue>,
    step_count: i64,
    model_call_count: i64,
    tool_call_count: i64,
    #[serde(default, deserialize_with = "optional_money")]
    cost: Option<Money>,
    /// Seconds from now.
    #[serde(default, deserialize_with = "optional_seconds")]
    deadline: Option<Micros>,
}

#[derive(Deserialize)]
struct BriefFields {
    max_steps: Option<i64>,
    max_model_calls: Option<i64>,
    max_tool_calls: Option<i64>,
    #[serde(default, deserialize_with = "optional_money")]
    max_cost: Option<Money>,
    #[serde(
        default,
        rename = "wall_seconds",
        deserialize_with = "optional_seconds"
    )]
    wall: Option<Micros>,
}

/// Derives the children and compares their limits, or the refusal.
pub(in super::super) fn play_delegation(
    vector: &DelegationVector,
) -> Result<Option<Difference>, String> {
    let declared =
        run_limits::read(vector.parent.limits.get()).map_err(|error| error.to_string())?;
    let limits = declared.limits().map_err(|error| error.to_string())?;
    let used = vector.parent.used();
    let parent = Parent {
        limits: &limits,
        used: &used,
        deadline: vector.parent.deadline,
    };
    let briefs: Vec<Brief> = vector.briefs.iter().map(brief).collect();
    let found = match derive_children(&parent, 0, &briefs, &defaults(&vector.defaults)?, None) {
        Ok(children) => {
            let children: Vec<Value> = children.iter().map(child).collect();
            json!({"ok": true, "children": children})
        }
        Err(insufficient) => json!({
            "ok": false,
            "reason": "delegation.budget_insufficient",
            "dimension": match insufficient.limiter {
                Limiter::Time => "wall_time",
                other => other.as_str(),
            },
        }),
    };
    Ok(first_difference(&vector.expect, &found))
}

impl ParentState {
    fn used(&self) -> Counters {
        Counters {
            steps: self.step_count,
            model_calls: self.model_call_count,
            tool_calls: self.tool_call_count,
            cost: self.cost.unwrap_or_default(),
            ..Counters::default()
        }
    }
}

fn brief(fields: &Option<BriefFields>) -> Brief {
    let Some(fields) = fields else {
        return Brief::default();
    };
    Brief {
        max_steps: fields.max_steps,
        max_model_calls: fields.max_model_calls,
        max_tool_calls: fields.max_tool_calls,
        max_cost: fields.max_cost,
        wall: fields.wall,
    }
}

fn defaults(fields: &BriefFields) -> Result<BriefDefaults, String> {
    let missing = |name: &str| format!("`defaults` has no `{name}`");
    Ok(BriefDefaults {
        max_steps: fields.max_steps.ok_or_else(|| missing("max_steps"))?,
        max_model_calls: fields
            .max_model_calls
            .ok_or_else(|| missing("max_model_calls"))?,
        max_tool_calls: fields
            .max_tool_calls
            .ok_or_else(|| missing("max_tool_calls"))?,
        max_cost: fields.max_cost.ok_or_else(|| missing("max_cost"))?,
        wall: fields.wall.ok_or_else(|| missing("wall_seconds"))?,
    })
}

fn child(child: &Child) -> Value {
    let Limits {
        max_steps,
        max_model_calls,
        max_tool_calls,
        max_input_tokens,
        max_output_tokens,
        max_cost,
        synthesis_reserve_steps,
        synthesis_reserve_model_calls,
        synthesis_reserve_tool_calls,
        synthesis_reserve_cost,
    } = &child.limits;
    json!({
        "max_steps": max_steps,
        "max_model_calls": max_model_calls,
        "max_tool_calls": max_tool_calls,
        "max_input_tokens": max_input_tokens,
        "max_output_tokens": max_output_tokens,
        "max_cost": max_cost,
        "deadline_s": child.deadline as f64 / 1e6,
        "synthesis_reserve_steps": synthesis_reserve_steps,
        "synthesis_reserve_model_calls": synthesis_reserve_model_calls,
        "synthesis_reserve_tool_calls": synthesis_reserve_tool_calls,
        "synthesis_reserve_cost": synthesis_reserve_cost,
    })
}
