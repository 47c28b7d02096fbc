//! The first difference between what is recorded and what was found.

use holdback_engine::decimal::Decimal;
use serde_json::Value;

/// Where two values differ first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) place: String,
    pub(super) expected: String,
    pub(super) found: String,
}

/// Fields that hold money as decimals: compared as numbers, whatever their digits.
const MONEY: [&str; 3] = ["cost", "max_cost", "synthesis_reserve_cost"];

/// The first difference, in the order of the recorded fields and events; `None` if all agrees.
pub(super) fn first_difference(expected: &Value, found: &Value) -> Option<Difference> {
    below("", expected, found)
}

fn below(place: &str, expected: &Value, found: &Value) -> Option<Difference> {
    match (expected, found) {
        (Value::Object(expected_fields), Value::Object(found_fields)) => {
            for (name, value) in expected_fields {
                match found_fields.get(name) {
                    Some(other) => {
                        let difference = field(&join(place, name), name, value, other);
                        if difference.is_some() {
                            return difference;
                        }
                    }
                    // Events of different kinds share no fields: show them whole.
                    None => return Some(differ(place, expected, found)),
                }
            }
            let extra = found_fields
                .keys()
                .any(|name| !expected_fields.contains_key(name));
            extra.then(|| differ(place, expected, found))
        }
        (Value::Array(expected_items), Value::Array(found_items)) => {
            for index in 0..expected_items.len().max(found_items.len()) {
                let place = format!("{place}[{index}]");
                let difference = match (expected_items.get(index), found_items.get(index)) {
                    (Some(a), Some(b)) => below(&place, a, b),
                    (a, b) => Some(Difference {
                        place,
                        expected: a.map_or("nothing".to_owned(), Value::to_string),
                        found: b.map_or("nothing".to_owned(), Value::to_string),
                    }),
                };
                if difference.is_some() {
                    return difference;
                }
            }
            None
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        (expected, found) if expected == found => None,
        (expected, found) => Some(differ(place, expected, found)),
    }
}

fn field(place: &str, name: &str, expected: &Value, found: &Value) -> Option<Difference> {
    if MONEY.contains(&name)
        && let (Some(a), Some(b)) = (amount(expected), amount(found))
    {
        return (a != b).then(|| differ(place, expected, found));
    }
    below(place, expected, found)
}

fn amount(value: &Value) -> Option<Decimal> {
    match value {
        Value::String(text) => Decimal::parse(text),
        Value::Number(number) => Decimal::parse(&number.to_string()),
        _ => None,
    }
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() {
        name.to_owned()
    } else {
        format!("{place}.{name}")
    }
}

fn differ(place: &str, expected: &Value, found: &Value) -> Difference {
    Difference {
        place: place.to_owned(),
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(expected: Value, found: Value) -> Option<String> {
        first_difference(&expected, &found).map(|difference| difference.place)
    }

    #[test]
    fn money_is_compared_as_a_number_and_other_texts_are_not() {
        assert_eq!(place(json!({"cost": "0.20"}), json!({"cost": "0.2"})), None);
        assert_eq!(
            place(json!({"cost": "0.20"}), json!({"cost": "0.3"})),
            Some("cost".to_owned())
        );
        assert_eq!(
            place(json!({"text": "0.20"}), json!({"text": "0.2"})),
            Some("text".to_owned())
        );
    }

    #[test]
    fn the_first_difference_is_found_in_nested_values() {
        let expected = json!({"a": 1, "trace": [{"x": {"y": 1}}, {"z": 2}]});
        assert_eq!(place(expected.clone(), expected.clone()), None);
        let other = json!({"a": 1, "trace": [{"x": {"y": 2}}, {"z": 2}]});
        assert_eq!(
            place(expected.clone(), other),
            Some("trace[0].x.y".to_owned())
        );
        let shorter = json!({"a": 1, "trace": [{"x": {"y": 1}}]});
        assert_eq!(
            place(expected.clone(), shorter),
            Some("trace[1]".to_owned())
        );
        let other_kind = json!({"a": 1, "trace": [{"x": {"y": 1}}, {"w": 2}]});
        assert_eq!(place(expected, other_kind), Some("trace[1]".to_owned()));
    }

    #[test]
    fn a_field_that_is_not_recorded_is_a_difference() {
        assert_eq!(
            place(json!({"a": {}}), json!({"a": {"b": 1}})),
            Some("a".to_owned())
        );
    }

    #[test]
    fn whole_doubles_equal_integers() {
        assert_eq!(
            place(json!({"deadline_s": 600.0}), json!({"deadline_s": 600})),
            None
        );
    }
}
