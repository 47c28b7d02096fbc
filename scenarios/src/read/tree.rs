//! TOML and JSON as one tree that remembers lines and the digits of numbers.

use std::collections::BTreeSet;
use std::fmt;

use holdback_engine::Money;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::error::FileError;

/// How deep tables and lists may nest.
const MAX_DEPTH: usize = 24;
/// How many values a document may hold.
const MAX_NODES: usize = 1_000_000;

/// A value and its line (0 where there is none).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// JSON only.
    Null,
    Bool(bool),
    /// The digits as written (TOML's other radices are converted; `nan` and `inf` are possible).
    Number(String),
    Text(String),
    /// A TOML date or time, which no key takes.
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) node: Node,
}

/// The two syntaxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Toml,
    Json,
}

impl Syntax {
    /// The syntax by the extension of a file name.
    pub(crate) fn of(file: &str) -> Result<Syntax, FileError> {
        let extension = std::path::Path::new(file)
            .extension()
            .and_then(|extension| extension.to_str())
            .map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("toml") => Ok(Syntax::Toml),
            Some("json") => Ok(Syntax::Json),
            Some(other) => Err(FileError::of_file(
                file,
                format!("the extension `.{other}`"),
                "`.toml` or `.json`",
            )),
            None => Err(FileError::of_file(
                file,
                "no extension",
                "`.toml` or `.json`",
            )),
        }
    }
}

impl Node {
    /// Parses a document, which is a table.
    pub(crate) fn parse(file: &str, text: &str, syntax: Syntax) -> Result<Node, FileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = Lines::of(text);
        let mut budget = MAX_NODES;
        let node = match syntax {
            Syntax::Toml => {
                let table = DeTable::parse(text).map_err(|error| {
                    let broken = format!("broken TOML: {}", one_line(error.message()));
                    let error_line = error.span().map(|span| lines.line(span.start));
                    syntax_error(file, broken, "TOML", error_line)
                })?;
                from_toml_table(table.get_ref(), 1, &lines, MAX_DEPTH, &mut budget)
            }
            Syntax::Json => {
                let raw: &RawValue = serde_json::from_str(text).map_err(|error| {
                    let broken = format!("broken JSON: {}", json_message(&error));
                    syntax_error(file, broken, "JSON", Some(error.line()))
                })?;
                let origin = text.as_ptr() as usize;
                from_json(raw, origin, &lines, MAX_DEPTH, &mut budget)
            }
        };
        let node = node.map_err(|(line, found, expected)| {
            FileError::of_file(file, found, expected).at_line(line)
        })?;
        match node.kind {
            Kind::Table(_) => Ok(node),
            _ => Err(FileError::of_file(
                file,
                node.describe(),
                "a table at the top",
            )),
        }
    }

    /// A tree without lines.
    pub(crate) fn from_value(value: &Value) -> Node {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(truth) => Kind::Bool(*truth),
            Value::Number(number) => Kind::Number(number.to_string()),
            Value::String(text) => Kind::Text(text.clone()),
            Value::Array(items) => Kind::List(items.iter().map(Node::from_value).collect()),
            Value::Object(members) => Kind::Table(
                members
                    .iter()
                    .map(|(key, value)| Entry {
                        key: key.clone(),
                        node: Node::from_value(value),
                    })
                    .collect(),
            ),
        };
        Node { line: 0, kind }
    }

    /// The tree as JSON. A number that a double would change becomes a string with its digits.
    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(truth) => Value::Bool(*truth),
            Kind::Number(digits) => number(digits),
            Kind::Text(text) | Kind::Date(text) => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Kind::Table(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.node.to_value()))
                    .collect::<Map<String, Value>>(),
            ),
        }
    }

    /// The value for a message.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "null".to_owned(),
            Kind::Bool(truth) => truth.to_string(),
            Kind::Number(digits) => {
                let short: String = digits.chars().take(60).collect();
                if short.len() < digits.len() {
                    short + "..."
                } else {
                    short
                }
            }
            Kind::Text(text) => super::error::quoted(text),
            Kind::Date(text) => format!("the date {text}"),
            Kind::List(items) => format!("a list of {}", items.len()),
            Kind::Table(_) => "a table".to_owned(),
        }
    }

    /// The values of a list; none for anything else.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The value of a key of a table.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Table(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.node),
            _ => None,
        }
    }

    /// Sets a key of a table; does nothing to other values.
    pub(crate) fn set(&mut self, key: &str, node: Node) {
        if let Kind::Table(entries) = &mut self.kind {
            match entries.iter_mut().find(|entry| entry.key == key) {
                Some(entry) => entry.node = node,
                None => entries.push(Entry {
                    key: key.to_owned(),
                    node,
                }),
            }
        }
    }

    /// Sets a key of tables within tables, which are made where they are missing. False where the
    /// path leads through something that is no table.
    pub(crate) fn set_path(&mut self, path: &[&str], value: Node) -> bool {
        let Kind::Table(entries) = &mut self.kind else {
            return false;
        };
        let Some((key, rest)) = path.split_first() else {
            return false;
        };
        if rest.is_empty() {
            self.set(key, value);
            return true;
        }
        match entries.iter_mut().find(|entry| entry.key == *key) {
            Some(entry) => entry.node.set_path(rest, value),
            None => {
                let mut table = Node {
                    line: value.line,
                    kind: Kind::Table(Vec::new()),
                };
                let done = table.set_path(rest, value);
                self.set(key, table);
                done
            }
        }
    }

    /// Removes a key of a table.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Node> {
        match &mut self.kind {
            Kind::Table(entries) => {
                let at = entries.iter().position(|entry| entry.key == key)?;
                Some(entries.remove(at).node)
            }
            _ => None,
        }
    }

    /// Puts `over` on top: tables merge key by key, everything else replaces.
    pub(crate) fn merge(&mut self, over: &Node) {
        if let (Kind::Table(_), Kind::Table(entries)) = (&self.kind, &over.kind) {
            for Entry { key, node } in entries {
                match self.get(key) {
                    Some(below) => {
                        let mut merged = below.clone();
                        merged.merge(node);
                        self.set(key, merged);
                    }
                    None => self.set(key, node.clone()),
                }
            }
            return;
        }
        *self = over.clone();
    }
}

fn syntax_error(file: &str, found: String, syntax: &str, line: Option<usize>) -> FileError {
    let error = FileError::of_file(file, found, format!("valid {syntax}"));
    match line {
        Some(line) if line > 0 => error.at_line(line),
        _ => error,
    }
}

/// A text with its line breaks as spaces and other control characters escaped.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    super::error::printable(&line).into_owned()
}

/// The message of a JSON error without its position, which is given apart.
pub(crate) fn json_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => one_line(&text[..at]),
        None => one_line(&text),
    }
}

/// A number as JSON holds it without loss: integers of 64 bits, doubles whose shortest digits are
/// the same amount; the digits as a string otherwise.
fn number(digits: &str) -> Value {
    if let Ok(integer) = digits.parse::<i64>() {
        return integer.into();
    }
    if let Ok(integer) = digits.parse::<u64>() {
        return integer.into();
    }
    let double = digits.parse::<f64>().ok().and_then(Number::from_f64);
    match double {
        Some(double) if Money::parse_exact(digits) == Money::parse_exact(&double.to_string()) => {
            Value::Number(double)
        }
        Some(double) if Money::parse_exact(digits).is_err() => Value::Number(double),
        _ => Value::String(digits.to_owned()),
    }
}

/// Byte offsets of the line ends.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        Lines(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.0.partition_point(|end| *end < offset)
    }
}

/// Line, what was found, what was expected.
type Refusal = (usize, String, String);

/// Takes one node from the budget and one level from the depth.
fn spend(budget: &mut usize, depth: usize, line: usize) -> Result<(), Refusal> {
    let refuse = |found: &str, expected: String| Err((line, found.to_owned(), expected));
    if depth == 0 {
        return refuse("deeper nesting", format!("at most {MAX_DEPTH} levels"));
    }
    match budget.checked_sub(1) {
        Some(left) => *budget = left,
        None => return refuse("more values", format!("at most {MAX_NODES} in a file")),
    }
    Ok(())
}

fn from_toml(
    value: &DeValue<'_>,
    line: usize,
    lines: &Lines,
    depth: usize,
    budget: &mut usize,
) -> Result<Node, Refusal> {
    spend(budget, depth, line)?;
    let kind = match value {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(integer) => Kind::Number(if integer.radix() == 10 {
            integer.as_str().trim_start_matches('+').to_owned()
        } else {
            i128::from_str_radix(integer.as_str(), integer.radix())
                .map_err(|_| {
                    (
                        line,
                        format!("the number {integer}"),
                        "a smaller number".to_owned(),
                    )
                })?
                .to_string()
        }),
        DeValue::Float(float) => Kind::Number(float.as_str().trim_start_matches('+').to_owned()),
        DeValue::Boolean(truth) => Kind::Bool(*truth),
        DeValue::Datetime(date) => Kind::Date(date.to_string()),
        DeValue::Array(items) => Kind::List(
            items
                .iter()
                .map(|item| {
                    let at = lines.line(item.span().start);
                    from_toml(item.get_ref(), at, lines, depth - 1, budget)
                })
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => return from_toml_table(table, line, lines, depth, budget),
    };
    Ok(Node { line, kind })
}

fn from_toml_table(
    table: &DeTable<'_>,
    line: usize,
    lines: &Lines,
    depth: usize,
    budget: &mut usize,
) -> Result<Node, Refusal> {
    spend(budget, depth, line)?;
    // The parser sorts by key; the order of the file is what names and grids follow.
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    let entries = pairs
        .into_iter()
        .map(|(key, value)| {
            let at = lines.line(key.span().start);
            Ok(Entry {
                key: key.get_ref().to_string(),
                node: from_toml(value.get_ref(), at, lines, depth - 1, budget)?,
            })
        })
        .collect::<Result<_, Refusal>>()?;
    Ok(Node {
        line,
        kind: Kind::Table(entries),
    })
}

/// The members of a JSON object in order, duplicates kept.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Walk)
    }
}

/// `raw` is a slice of the document that begins at the address `origin`.
fn from_json(
    raw: &RawValue,
    origin: usize,
    lines: &Lines,
    depth: usize,
    budget: &mut usize,
) -> Result<Node, Refusal> {
    let text = raw.get();
    let line = lines.line(text.as_ptr() as usize - origin);
    spend(budget, depth, line)?;
    let broken = |error: serde_json::Error| {
        let found = format!("broken JSON: {}", json_message(&error));
        (line, found, "valid JSON".to_owned())
    };
    let kind = match text.as_bytes().first() {
        Some(b'{') => {
            let members: Members<'_> = serde_json::from_str(text).map_err(broken)?;
            let mut entries: Vec<Entry> = Vec::with_capacity(members.0.len());
            let mut keys = BTreeSet::new();
            for (key, value) in members.0 {
                if !keys.insert(key.clone()) {
                    let found = format!("the key {} twice", super::error::quoted(&key));
                    return Err((line, found, "each key once".to_owned()));
                }
                let node = from_json(value, origin, lines, depth - 1, budget)?;
                entries.push(Entry { key, node });
            }
            Kind::Table(entries)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(broken)?;
            Kind::List(
                items
                    .into_iter()
                    .map(|item| from_json(item, origin, lines, depth - 1, budget))
                    .collect::<Result<_, _>>()?,
            )
        }
        Some(b'"') => Kind::Text(serde_json::from_str(text).map_err(broken)?),
        Some(b't') => Kind::Bool(true),
        Some(b'f') => Kind::Bool(false),
        Some(b'n') => Kind::Null,
        _ => Kind::Number(text.to_owned()),
    };
    Ok(Node { line, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> Result<Node, FileError> {
        Node::parse("f.toml", text, Syntax::Toml)
    }

    fn json(text: &str) -> Result<Node, FileError> {
        Node::parse("f.json", text, Syntax::Json)
    }

    #[test]
    fn both_syntaxes_give_the_same_values_and_lines() {
        let from_toml = toml("b = 2\na = [1.50,\n 'x']\nt = { y = true }\n").unwrap();
        let from_json =
            json("{\"b\": 2,\n\"a\": [1.50,\n \"x\"],\n\"t\": { \"y\": true }}").unwrap();
        assert_eq!(from_toml.to_value(), from_json.to_value());
        for node in [&from_toml, &from_json] {
            let list = node.get("a").unwrap();
            assert_eq!(list.line, 2);
            let Kind::List(items) = &list.kind else {
                panic!("a list")
            };
            assert_eq!(items[0].kind, Kind::Number("1.50".to_owned()));
            assert_eq!(items[1].line, 3);
        }
    }

    #[test]
    fn keys_keep_the_order_of_the_file() {
        let node = toml("z = 1\na = 2\nm = 3").unwrap();
        let keys: Vec<_> = node
            .to_value()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(keys, ["z", "a", "m"]);
    }

    #[test]
    fn a_broken_line_is_named_by_its_number() {
        assert_eq!(toml("a = 1\nb = = 2\n").unwrap_err().line, Some(2));
        assert_eq!(json("{\"a\": 1,\n\"b\": }").unwrap_err().line, Some(2));
        assert_eq!(toml("a = 1\na = 2\n").unwrap_err().line, Some(2));
        assert_eq!(
            json("{\"a\": 1,\n\"c\":{\"b\":1, \"b\":1}}")
                .unwrap_err()
                .line,
            Some(2)
        );
        assert!(json("").unwrap_err().to_string().contains("broken JSON"));
        assert!(!toml("a = [").unwrap_err().to_string().contains('\n'));
    }

    #[test]
    fn deep_nesting_is_refused_before_it_hurts() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
        assert!(json(&deep).unwrap_err().to_string().contains("f.json"));
        let deep = format!("a = {}1{}", "[".repeat(5000), "]".repeat(5000));
        assert!(toml(&deep).unwrap_err().to_string().contains("f.toml"));
    }

    #[test]
    fn what_is_no_table_at_the_top_is_refused() {
        assert_eq!(
            json("[1, 2]").unwrap_err().to_string(),
            "f.json: found a list of 2, expected a table at the top"
        );
    }

    #[test]
    fn digits_that_a_double_would_change_stay_text() {
        assert_eq!(number("0.1"), serde_json::json!(0.1));
        assert_eq!(
            number("12345678901.000000000001"),
            serde_json::json!("12345678901.000000000001")
        );
        assert_eq!(number("18446744073709551615"), serde_json::json!(u64::MAX));
    }

    #[test]
    fn merging_replaces_values_and_joins_tables() {
        let mut below = toml("a = 1\nt = { x = 1, y = [1, 2] }").unwrap();
        below.merge(&toml("b = 2\nt = { y = [3] }").unwrap());
        assert_eq!(
            below.to_value(),
            serde_json::json!({"a": 1, "t": {"x": 1, "y": [3]}, "b": 2})
        );
    }
}
