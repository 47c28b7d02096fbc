//! The part of JSON Schema that the published schemas use.

use serde_json::Value;

/// What is wrong with a value, with its path; the keywords are those that the schemas use.
pub(crate) fn wrong(root: &Value, schema: &Value, value: &Value, path: &str) -> Option<String> {
    for (keyword, rule) in schema.as_object().unwrap() {
        let found = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => None,
            // Taken with the properties, if there are any.
            "additionalProperties" if schema.get("properties").is_some() => None,
            "additionalProperties" => value
                .as_object()
                .and_then(|table| wrong_key(root, schema, &Value::Null, table, path)),
            "$ref" => {
                let target = rule.as_str().unwrap().strip_prefix('#').unwrap();
                wrong(root, root.pointer(target).unwrap(), value, path)
            }
            "type" => {
                let words = rule
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![rule.clone()]);
                let is = |word: &Value| match word.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "number" => value.is_number(),
                    "integer" => value.as_f64().is_some_and(|x| x.fract() == 0.0),
                    other => panic!("{other}"),
                };
                (!words.iter().any(is)).then(|| format!("{path}: {value} is no {rule}"))
            }
            "const" => (rule != value).then(|| format!("{path}: {value} is not {rule}")),
            "propertyNames" => value.as_object().and_then(|table| {
                let mut keys = table.keys();
                keys.find_map(|key| wrong(root, rule, &Value::from(key.as_str()), path))
            }),
            "pattern" => {
                let text = value.as_str().unwrap_or_default();
                let fits = match rule.as_str().unwrap() {
                    "^[0-9a-f]{64}$" => text.len() == 64 && only(text, "0123456789abcdef"),
                    "^-?[0-9]+(\\.[0-9]{1,12})?$" => is_amount(text),
                    other => panic!("an unknown pattern {other}"),
                };
                (!fits).then(|| format!("{path}: {value} is no {rule}"))
            }
            "minItems" | "maxItems" => value.as_array().and_then(|items| {
                let (limit, number) = (rule.as_u64().unwrap(), items.len() as u64);
                let fits = if keyword == "minItems" {
                    number >= limit
                } else {
                    number <= limit
                };
                (!fits).then(|| format!("{path}: {number} items"))
            }),
            "enum" => {
                let is_one = rule.as_array().unwrap().contains(value);
                (!is_one).then(|| format!("{path}: {value} is none of {rule}"))
            }
            "minimum" | "maximum" => {
                let (limit, value) = (rule.as_f64().unwrap(), value.as_f64());
                let beyond = value.is_some_and(|x| {
                    if keyword == "minimum" {
                        x < limit
                    } else {
                        x > limit
                    }
                });
                beyond.then(|| format!("{path}: {value:?} beyond {limit}"))
            }
            "required" => rule
                .as_array()
                .unwrap()
                .iter()
                .map(|key| key.as_str().unwrap())
                .find(|key| value.is_object() && value.get(key).is_none())
                .map(|key| format!("{path}: no {key}")),
            "items" => value.as_array().and_then(|items| {
                let mut items = items.iter().enumerate();
                items.find_map(|(at, item)| wrong(root, rule, item, &format!("{path}[{at}]")))
            }),
            "properties" => value
                .as_object()
                .and_then(|table| wrong_key(root, schema, rule, table, path)),
            "anyOf" | "oneOf" => {
                let tried: Vec<_> = rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|option| wrong(root, option, value, path))
                    .collect();
                let fitting = tried.iter().filter(|error| error.is_none()).count();
                let fits = fitting == 1 || (fitting > 1 && keyword == "anyOf");
                (!fits).then(|| format!("{path}: {fitting} of {keyword} fit: {tried:?}"))
            }
            other => panic!("an unknown keyword {other}"),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn wrong_key(
    root: &Value,
    schema: &Value,
    properties: &Value,
    table: &serde_json::Map<String, Value>,
    path: &str,
) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let path = format!("{path}.{key}");
        match (properties.get(key), schema.get("additionalProperties")) {
            (Some(rule), _) => wrong(root, rule, value, &path),
            (None, Some(Value::Bool(false))) => Some(format!("{path}: unknown")),
            (None, Some(rule @ Value::Object(_))) => wrong(root, rule, value, &path),
            _ => None,
        }
    })
}

fn only(text: &str, chars: &str) -> bool {
    text.chars().all(|char| chars.contains(char))
}

fn is_amount(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && only(text, "0123456789");
    let text = text.strip_prefix('-').unwrap_or(text);
    match text.split_once('.') {
        Some((whole, part)) => digits(whole) && digits(part) && part.len() <= 12,
        None => digits(text),
    }
}
