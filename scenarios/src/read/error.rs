//! The one error of every reader.

use std::borrow::Cow;
use std::fmt;

/// What is wrong with an input, where, and what would be right. Prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file as the user named it, or the name of a built-in one.
    pub file: Box<str>,
    /// Line in the file, from 1, where it is known.
    pub line: Option<u32>,
    /// Path of the key, such as `model.price.input_per_mtok`; empty for the file as a whole.
    pub path: Box<str>,
    /// What was found.
    pub found: Box<str>,
    /// What was expected.
    pub expected: Box<str>,
    /// What to do about it, such as the nearest valid name.
    pub hint: Option<Box<str>>,
    /// The values exclude each other, each of them being valid: a sweep leaves such a combination
    /// out instead of failing.
    pub(crate) impossible: bool,
}

impl FileError {
    /// An error about a file as a whole.
    pub fn of_file(
        file: &str,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
    ) -> FileError {
        FileError {
            file: file.into(),
            line: None,
            path: Box::default(),
            found: found.into(),
            expected: expected.into(),
            hint: None,
            impossible: false,
        }
    }

    /// Whether valid values exclude each other here, so that a sweep leaves the combination out.
    pub fn is_impossible(&self) -> bool {
        self.impossible
    }

    /// The same error at a line of the file.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> FileError {
        self.line = u32::try_from(line).ok();
        self
    }

    /// The same error with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Box<str>>) -> FileError {
        self.hint = Some(hint.into());
        self
    }

    /// The same error about a name, with the nearest of the valid ones as advice.
    #[must_use]
    pub fn nearest<'n>(self, name: &str, valid: impl IntoIterator<Item = &'n str>) -> FileError {
        match nearest(name, valid) {
            Some(near) => self.with_hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.file))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", bounded(&self.path))?;
        }
        write!(
            f,
            ": found {}, expected {}",
            bounded(&self.found),
            bounded(&self.expected)
        )?;
        if let Some(hint) = &self.hint {
            write!(f, " ({})", bounded(hint))?;
        }
        Ok(())
    }
}

/// A text with its control characters escaped: what a file holds must not reach a terminal as an
/// order, nor break a line.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        if char.is_control() {
            clean.extend(char.escape_default());
        } else {
            clean.push(char);
        }
    }
    Cow::Owned(clean)
}

/// A part of a message, printable and not longer than anybody reads.
fn bounded(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 400;
    let text = printable(text);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => text,
    }
}

impl std::error::Error for FileError {}

/// The valid name that is most like a wrong one, if any is like it at all.
pub fn nearest<'n>(name: &str, valid: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    /// Below this similarity a suggestion confuses more than it helps.
    const LIKE: f64 = 0.75;
    let lower = name.to_lowercase();
    let mut best: Option<(&str, f64)> = None;
    for candidate in valid {
        let likeness = strsim::jaro_winkler(&lower, &candidate.to_lowercase());
        if likeness >= LIKE && best.is_none_or(|(_, most)| likeness > most) {
            best = Some((candidate, likeness));
        }
    }
    best.map(|(candidate, _)| candidate)
}

/// A text from a file as it may stand in a message of one line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    let short: String = text.chars().take(SHOWN).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_place_finding_expectation_and_advice() {
        let mut error = FileError::of_file("a.toml", "\"x\"", "a number")
            .at_line(3)
            .nearest("serch", ["search", "fetch"]);
        error.path = "tools[0].weight".into();
        assert_eq!(
            error.to_string(),
            "a.toml:3: tools[0].weight: found \"x\", expected a number (did you mean `search`?)"
        );
    }

    #[test]
    fn a_name_unlike_every_valid_one_gets_no_suggestion() {
        assert_eq!(nearest("zzz", ["search", "fetch"]), None);
        assert_eq!(
            nearest("MaxTurn", ["maxTurns", "max_steps"]),
            Some("maxTurns")
        );
    }

    #[test]
    fn text_from_a_file_reaches_a_terminal_as_text_and_in_bounds() {
        let error = FileError::of_file("a\u{1b}[31m.toml", "\u{7f}\n", "x".repeat(9000));
        let text = error.to_string();
        assert!(
            text.starts_with("a\\u{1b}[31m.toml: found \\u{7f}\\n, expected xxx"),
            "{text}"
        );
        assert!(!text.contains(char::is_control) && text.len() < 500);
    }

    #[test]
    fn text_from_a_file_cannot_break_the_line() {
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
        assert!(quoted(&"x".repeat(500)).len() < 70);
    }
}
