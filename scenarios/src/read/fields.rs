//! Walking a tree table by table, with every wrong type, range and key reported by its path.

use holdback_engine::protocol::Micros;
use holdback_engine::{Money, MoneyError};

use super::error::{FileError, nearest, quoted};
use super::tree::{Entry, Kind, Node};
use crate::scenario::Probability;

/// The largest amount of money that a file may give, in USD: beyond it a slip is likelier than a
/// budget, and sums of it stay far inside [`Money`].
const MAX_DOLLARS: i64 = 1_000_000_000;
/// The longest name.
const MAX_NAME_CHARS: usize = 200;
/// The longest text.
const MAX_TEXT_CHARS: usize = 20_000;

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) file: &'a str,
    pub(crate) path: String,
    pub(crate) node: &'a Node,
}

impl<'a> Field<'a> {
    /// The document as a whole.
    pub(crate) fn root(file: &'a str, node: &'a Node) -> Field<'a> {
        Field {
            file,
            path: String::new(),
            node,
        }
    }

    /// An error at this place about this value.
    pub(crate) fn wrong(&self, expected: impl Into<Box<str>>) -> FileError {
        self.error(self.node.describe(), expected)
    }

    /// An error at this place.
    pub(crate) fn error(
        &self,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
    ) -> FileError {
        FileError {
            file: self.file.into(),
            line: u32::try_from(self.node.line).ok().filter(|line| *line > 0),
            path: self.path.as_str().into(),
            found: found.into(),
            expected: expected.into(),
            hint: None,
            impossible: false,
        }
    }

    /// As [`Field::error`], for values that are valid alone and not together.
    pub(crate) fn conflict(
        &self,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
    ) -> FileError {
        FileError {
            impossible: true,
            ..self.error(found, expected)
        }
    }

    /// A table.
    pub(crate) fn table(&self) -> Result<Table<'a>, FileError> {
        match &self.node.kind {
            Kind::Table(entries) => Ok(Table {
                place: self.clone(),
                entries,
                taken: vec![false; entries.len()],
                asked: Vec::new(),
            }),
            _ => Err(self.wrong("a table")),
        }
    }

    /// The values of a table whose keys are free, such as tool names.
    pub(crate) fn entries(&self, most: usize) -> Result<Vec<(&'a str, Field<'a>)>, FileError> {
        match &self.node.kind {
            Kind::Table(entries) if entries.len() > most => Err(self.error(
                format!("{} entries", entries.len()),
                format!("at most {most}"),
            )),
            Kind::Table(entries) => Ok(entries
                .iter()
                .map(|entry| (entry.key.as_str(), self.child(&entry.key, &entry.node)))
                .collect()),
            _ => Err(self.wrong("a table")),
        }
    }

    /// A list of at most so many values.
    pub(crate) fn list(&self, most: usize) -> Result<Vec<Field<'a>>, FileError> {
        match &self.node.kind {
            Kind::List(items) if items.len() > most => Err(self.error(
                format!("a list of {}", items.len()),
                format!("a list of at most {most}"),
            )),
            Kind::List(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, node)| Field {
                    file: self.file,
                    path: format!("{}[{index}]", self.path),
                    node,
                })
                .collect()),
            _ => Err(self.wrong("a list")),
        }
    }

    fn child(&self, key: &str, node: &'a Node) -> Field<'a> {
        let plain = key
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        let key = if plain { key.to_owned() } else { quoted(key) };
        let path = if self.path.is_empty() {
            key
        } else {
            format!("{}.{key}", self.path)
        };
        Field {
            file: self.file,
            path,
            node,
        }
    }

    /// A text of any length up to a generous bound.
    pub(crate) fn text(&self) -> Result<&'a str, FileError> {
        match &self.node.kind {
            Kind::Text(text) if text.chars().count() > MAX_TEXT_CHARS => Err(self.error(
                "a longer text",
                format!("at most {MAX_TEXT_CHARS} characters"),
            )),
            Kind::Text(text) => Ok(text),
            _ => Err(self.wrong("a string")),
        }
    }

    /// A name: one line, not blank.
    pub(crate) fn name(&self) -> Result<&'a str, FileError> {
        let name = self.text()?;
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(self.wrong("a name that is one line and not blank"));
        }
        if name.chars().count() > MAX_NAME_CHARS {
            return Err(self.error(
                "a longer name",
                format!("at most {MAX_NAME_CHARS} characters"),
            ));
        }
        Ok(name)
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T, FileError> {
        let all = || {
            let names: Vec<String> = words
                .iter()
                .map(|(name, _)| format!("\"{name}\""))
                .collect();
            names.join(" or ")
        };
        let Kind::Text(text) = &self.node.kind else {
            return Err(self.wrong(all()));
        };
        match words.iter().find(|(name, _)| name == text) {
            Some((_, value)) => Ok(*value),
            None => Err(self
                .wrong(all())
                .nearest(text, words.iter().map(|(name, _)| *name))),
        }
    }

    /// True or false.
    pub(crate) fn bool(&self) -> Result<bool, FileError> {
        match self.node.kind {
            Kind::Bool(truth) => Ok(truth),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// The digits of a number or of a decimal string.
    fn digits(&self) -> Option<&'a str> {
        match &self.node.kind {
            Kind::Number(digits) | Kind::Text(digits) => Some(digits),
            _ => None,
        }
    }

    /// A finite number in a range. `what` says what it is, for the message.
    pub(crate) fn number(&self, low: f64, high: f64) -> Result<f64, FileError> {
        let expected = || match (low == f64::NEG_INFINITY, high == f64::INFINITY) {
            (true, true) => "a finite number".to_owned(),
            (false, true) => format!("a finite number not below {low}"),
            (true, false) => format!("a finite number not above {high}"),
            (false, false) => format!("a number from {low} to {high}"),
        };
        let digits = self.digits().ok_or_else(|| self.wrong(expected()))?;
        match digits.parse::<f64>() {
            Ok(x) if x.is_finite() && low <= x && x <= high => Ok(x),
            _ => Err(self.wrong(expected())),
        }
    }

    /// A probability.
    pub(crate) fn probability(&self) -> Result<Probability, FileError> {
        Probability::new(self.number(0.0, 1.0)?)
            .ok_or_else(|| self.wrong("a probability from 0 to 1"))
    }

    /// A whole number in a range; `7.0` is whole.
    pub(crate) fn integer(&self, low: i64, high: i64) -> Result<i64, FileError> {
        let expected = || match high {
            i64::MAX => format!("a whole number not below {low}"),
            _ => format!("a whole number from {low} to {high}"),
        };
        let digits = match &self.node.kind {
            Kind::Number(digits) => digits,
            // A decimal string, as limits are often stored.
            Kind::Text(digits) if digits.parse::<i64>().is_ok() => digits,
            _ => return Err(self.wrong(expected())),
        };
        let whole = digits.parse::<i64>().ok().or_else(|| {
            let x = digits.parse::<f64>().ok()?;
            // Doubles hold every whole number of this size exactly.
            (x.fract() == 0.0 && x.abs() <= 9_007_199_254_740_992.0).then_some(x as i64)
        });
        match whole {
            Some(x) if low <= x && x <= high => Ok(x),
            _ => Err(self.wrong(expected())),
        }
    }

    /// A whole number from `low` to `high` as an unsigned one.
    pub(crate) fn count(&self, low: u32, high: u64) -> Result<u64, FileError> {
        let high = i64::try_from(high).unwrap_or(i64::MAX);
        self.integer(i64::from(low), high).map(|x| x.unsigned_abs())
    }

    /// A whole number of 32 bits.
    pub(crate) fn small(&self, low: u32, high: u32) -> Result<u32, FileError> {
        self.count(low, u64::from(high)).map(|x| x as u32)
    }

    /// An exact amount in USD, 0 or more.
    pub(crate) fn money(&self) -> Result<Money, FileError> {
        const EXPECTED: &str = "a decimal amount in USD, as a number or a string";
        let digits = self.digits().ok_or_else(|| self.wrong(EXPECTED))?;
        let amount = Money::parse_exact(digits).map_err(|error| match error {
            MoneyError::NotDecimal(_) => self.wrong(EXPECTED),
            MoneyError::TooFine(_) => self.wrong("no digits below 1e-12 USD"),
            MoneyError::TooLarge(_) => self.wrong(format!("at most {MAX_DOLLARS} USD")),
        })?;
        if amount.is_negative() {
            return Err(self.wrong("an amount not below 0"));
        }
        if amount > Money::from_dollars(MAX_DOLLARS) {
            return Err(self.wrong(format!("at most {MAX_DOLLARS} USD")));
        }
        Ok(amount)
    }

    /// A duration given in seconds, to the microsecond.
    pub(crate) fn seconds(&self, most: f64) -> Result<Micros, FileError> {
        Ok((self.number(0.0, most)? * 1e6).round() as Micros)
    }
}

/// A table that is read key by key. Whatever was not asked for is an unknown key.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    place: Field<'a>,
    entries: &'a [Entry],
    taken: Vec<bool>,
    asked: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// The place of the table itself.
    pub(crate) fn place(&self) -> &Field<'a> {
        &self.place
    }

    /// The value of a key, if it is there.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.asked.push(key);
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        self.taken[at] = true;
        Some(self.place.child(key, &self.entries[at].node))
    }

    /// The value of a key that must be there.
    pub(crate) fn require(
        &mut self,
        key: &'static str,
        what: &str,
    ) -> Result<Field<'a>, FileError> {
        if let Some(field) = self.take(key) {
            return Ok(field);
        }
        // A misspelt key is the likelier mistake than a forgotten one.
        let untaken = self.untaken().map(|(entry, _)| entry.key.as_str());
        if let Some(misspelt) = nearest(key, untaken)
            && let Some((entry, _)) = self.untaken().find(|(entry, _)| entry.key == misspelt)
        {
            return Err(self.unknown(entry, &[key]));
        }
        let name = self.place.path.clone();
        let holder = if name.is_empty() {
            String::new()
        } else {
            format!(" in `{name}`")
        };
        Err(self.place.error(format!("no `{key}`{holder}"), what))
    }

    /// The value of an optional key, read by `read`.
    pub(crate) fn maybe<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Field<'a>) -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        self.take(key).map(|field| read(&field)).transpose()
    }

    /// The value of an optional key, or what holds without it.
    pub(crate) fn or<T>(
        &mut self,
        key: &'static str,
        absent: T,
        read: impl FnOnce(&Field<'a>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        Ok(self.maybe(key, read)?.unwrap_or(absent))
    }

    /// True if the table has the key, whether or not it was asked for.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Refuses what nobody asked for.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        match self.untaken().next() {
            Some((entry, _)) => Err(self.unknown(entry, &[])),
            None => Ok(()),
        }
    }

    fn untaken(&self) -> impl Iterator<Item = (&'a Entry, usize)> + '_ {
        let entries = self.entries.iter().zip(0..);
        entries.filter(|(_, at)| !self.taken[*at])
    }

    fn unknown(&self, entry: &'a Entry, also: &[&'static str]) -> FileError {
        let field = self.place.child(&entry.key, &entry.node);
        let valid = || also.iter().chain(&self.asked).copied();
        let error = field.error("an unknown key", "a key of this table");
        if nearest(&entry.key, valid()).is_some() {
            return error.nearest(&entry.key, valid());
        }
        let mut names: Vec<&str> = valid().collect();
        names.sort_unstable();
        names.dedup();
        error.with_hint(format!("valid keys: {}", names.join(", ")))
    }
}
