//! What the overspend of a policy is measured against.

use holdback_engine::Money;
use serde_json::Value;

use crate::numbers::usd;
use crate::summary::{Policy, Scenario, Summary};

/// What a bill is compared with, to tell by how much it is too high.
///
/// Overspend under different ones is not the same measure: a policy with a higher cap overspends less
/// often by spending more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cap {
    /// The policy's own money cap.
    Own(Money),
    /// The scenario's budget: the policy has no money cap, so nothing enforces it.
    Budget(Money),
    /// Nothing: there is neither a cap nor a budget.
    None,
}

impl Cap {
    /// What the overspend of a policy is measured against in a scenario.
    pub(crate) fn of(summary: &Summary, scenario: &Scenario, policy: &str) -> Cap {
        let known = summary.policies.iter().find(|known| known.name == policy);
        match (known.and_then(own), scenario.budget_usd) {
            (Some(cap), _) => Cap::Own(cap),
            (None, Some(budget)) => Cap::Budget(budget),
            (None, None) => Cap::None,
        }
    }

    /// The amount that bills are compared with.
    pub(crate) fn amount(self) -> Option<Money> {
        match self {
            Cap::Own(amount) | Cap::Budget(amount) => Some(amount),
            Cap::None => None,
        }
    }

    /// The cap in a few words, as a note beside a policy's name.
    pub(crate) fn note(self) -> String {
        match self {
            Cap::Own(cap) => format!("cap USD {}", dollars(cap)),
            Cap::Budget(budget) => format!("no cap; budget USD {}", dollars(budget)),
            Cap::None => "no cap".to_owned(),
        }
    }
}

/// An amount as sentences hold it.
pub(crate) fn dollars(amount: Money) -> String {
    usd(amount.to_f64())
}

/// The money cap that a policy's definition sets, or else its defaults.
pub(crate) fn own(policy: &Policy) -> Option<Money> {
    let (group, key) = match policy.family.as_str() {
        "usage_limits" => ("budget", "ceiling_usd"),
        "caps" => ("limits", "max_cost_usd"),
        _ => ("limits", "max_cost"),
    };
    let set = |from: &Value| from.get(group)?.get(key).cloned();
    let text = match set(&policy.definition).or_else(|| set(&policy.defaults))? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Money::parse_exact(&text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(family: &str, definition: Value, defaults: Value) -> Policy {
        Policy {
            name: "a".to_owned(),
            family: family.to_owned(),
            definition,
            defaults,
        }
    }

    #[test]
    fn each_family_names_its_money_cap_in_its_own_way() {
        let five = Money::parse_exact("5").ok();
        let set = |family, definition| own(&policy(family, definition, json!({})));
        assert_eq!(
            set("run_limits", json!({ "limits": { "max_cost": "5.00" } })),
            five
        );
        assert_eq!(
            set("usage_limits", json!({ "budget": { "ceiling_usd": 5 } })),
            five
        );
        assert_eq!(
            set("caps", json!({ "limits": { "max_cost_usd": 5.0 } })),
            five
        );
        assert_eq!(set("caps", json!({ "limits": {} })), None);
    }

    #[test]
    fn a_cap_that_is_switched_off_is_none_whatever_the_default() {
        let default = json!({ "limits": { "max_cost": "5.00" } });
        let off = json!({ "limits": { "max_cost": "unlimited" } });
        assert_eq!(own(&policy("run_limits", off, default.clone())), None);
        let open = policy("run_limits", json!({ "limits": {} }), default);
        assert_eq!(own(&open), Money::parse_exact("5").ok());
    }
}
