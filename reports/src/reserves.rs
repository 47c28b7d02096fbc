//! Reserves in a policy's definition: their sizes, and the same policy without them.

use std::collections::BTreeMap;

use serde_json::Value;

/// What only describes a policy.
const DESCRIPTIONS: [&str; 3] = ["name", "summary", "extends"];
/// Rules that say what a reserve does: without one they have no effect.
const RESERVE_RULES: [&str; 3] = [
    "crossing_turn",
    "reserve_tool_allowance",
    "reserve_fraction",
];

/// The sizes of the reserves in a policy's limits: every number above zero whose key speaks of a
/// reserve, by its dotted path.
pub(crate) fn sizes(definition: &Value) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    if let Some(limits) = definition.get("limits") {
        collect(limits, "", false, &mut found);
    }
    found.retain(|_, size| *size > 0.0);
    found
}

fn collect(value: &Value, path: &str, inside: bool, found: &mut BTreeMap<String, f64>) {
    let Some(object) = value.as_object() else {
        return;
    };
    for (key, value) in object {
        let here = inside || key.to_ascii_lowercase().contains("reserve");
        let path = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match number {
            Some(size) if here => {
                found.insert(path, size);
            }
            _ => collect(value, &path, here, found),
        }
    }
}

/// A text that policies share if they differ at most in the size of the reserve `kind`, which each
/// has, and in what only describes them.
pub(crate) fn alike_but_for(definition: &Value, kind: &str) -> String {
    let mut rest = definition.clone();
    strip(&mut rest, &others(definition, kind));
    rest.to_string()
}

/// A text that a policy shares with the same policy without its reserve `kind`. Rules that say what
/// reserves do count only where another reserve is left.
pub(crate) fn alike_without(definition: &Value, kind: &str) -> String {
    let mut rest = definition.clone();
    let kept = others(definition, kind);
    strip(&mut rest, &kept);
    if kept.is_empty() {
        strip_rules(&mut rest);
    }
    rest.to_string()
}

/// A text that a policy shares with the same policy without any reserve.
pub(crate) fn alike_without_any(definition: &Value) -> String {
    let mut rest = definition.clone();
    strip(&mut rest, &BTreeMap::new());
    strip_rules(&mut rest);
    rest.to_string()
}

/// A policy's definition without what only describes it.
pub(crate) fn undescribed(definition: &Value) -> Value {
    let mut rest = definition.clone();
    if let Some(object) = rest.as_object_mut() {
        for key in DESCRIPTIONS {
            object.shift_remove(key);
        }
    }
    rest
}

fn others(definition: &Value, kind: &str) -> BTreeMap<String, f64> {
    let mut others = sizes(definition);
    others.remove(kind);
    others
}

/// Removes descriptions and all reserves but those in `kept`.
fn strip(definition: &mut Value, kept: &BTreeMap<String, f64>) {
    let Some(object) = definition.as_object_mut() else {
        return;
    };
    for key in DESCRIPTIONS {
        object.shift_remove(key);
    }
    if let Some(limits) = object.get_mut("limits") {
        let mut all = BTreeMap::new();
        collect(limits, "", false, &mut all);
        for path in all.keys().filter(|path| !kept.contains_key(*path)) {
            remove(limits, path);
        }
    }
}

fn strip_rules(definition: &mut Value) {
    for rule in RESERVE_RULES {
        remove(definition, &format!("rules.{rule}"));
    }
}

/// Removes the value at a dotted path, and objects that this leaves empty.
fn remove(value: &mut Value, path: &str) {
    let Some(object) = value.as_object_mut() else {
        return;
    };
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    if let Some(inner) = object.get_mut(first).filter(|_| !rest.is_empty()) {
        remove(inner, rest);
        if inner.as_object().is_none_or(|inner| !inner.is_empty()) {
            return;
        }
    }
    object.shift_remove(first);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reserve_is_found_in_every_family() {
        let sizes = |limits| sizes(&json!({ "limits": limits }));
        assert_eq!(
            sizes(
                json!({ "max_cost": "5", "synthesis_reserve_cost": "0.25", "synthesis_reserve_steps": 0 })
            ),
            BTreeMap::from([("synthesis_reserve_cost".to_owned(), 0.25)])
        );
        assert_eq!(
            sizes(json!({ "finalizationWindow": { "reserveCalls": 4, "allow": ["verify"] } })),
            BTreeMap::from([("finalizationWindow.reserveCalls".to_owned(), 4.0)])
        );
    }

    #[test]
    fn a_policy_is_recognised_without_its_reserve() {
        let bare = json!({ "name": "a", "limits": { "max_steps": 12 } });
        let reserved = json!({
            "name": "b",
            "summary": "kept for the answer",
            "limits": { "max_steps": 12, "synthesis_reserve_steps": 2 },
            "rules": { "crossing_turn": "refuse_then_synthesize" },
        });
        let other =
            json!({ "name": "c", "limits": { "max_steps": 13, "synthesis_reserve_steps": 2 } });
        assert_eq!(alike_without_any(&reserved), alike_without_any(&bare));
        assert_ne!(alike_without_any(&other), alike_without_any(&bare));
    }

    #[test]
    fn policies_that_differ_in_one_size_are_alike_but_for_it() {
        let sized = |steps: u64, cost: &str| json!({ "limits": { "synthesis_reserve_steps": steps, "synthesis_reserve_cost": cost } });
        let key = |definition: &Value| alike_but_for(definition, "synthesis_reserve_steps");
        assert_eq!(key(&sized(1, "0.25")), key(&sized(2, "0.25")));
        assert_eq!(key(&sized(1, "0.25")), key(&sized(0, "0.25")));
        assert_ne!(key(&sized(1, "0.25")), key(&sized(1, "0.5")));
    }

    #[test]
    fn rules_of_a_reserve_count_only_where_there_is_one() {
        let with = |rule: &str, cost: &str| json!({ "limits": { "synthesis_reserve_cost": cost }, "rules": { "crossing_turn": rule } });
        let (fails, told, bare) = (
            with("fail", "1"),
            with("refuse_then_synthesize", "1"),
            with("fail", "0"),
        );
        let cost = "synthesis_reserve_cost";
        assert_ne!(alike_but_for(&fails, cost), alike_but_for(&told, cost));
        assert_eq!(alike_without(&fails, cost), alike_without(&bare, cost));
        assert_eq!(alike_without(&told, cost), alike_without(&bare, cost));
        let steps = "synthesis_reserve_steps";
        assert_ne!(alike_without(&told, steps), alike_without(&fails, steps));
    }
}
