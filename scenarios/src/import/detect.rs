//! Which format a file of recorded runs has, by the first decisive key of its first object.

use std::fmt;
use std::io::{BufRead, Read};

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::read::FileError;

/// A format of recorded runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON lines of our own (design section 6).
    Neutral,
    /// OpenTelemetry spans with GenAI attributes.
    Otlp,
    /// A trajectory of mini-swe-agent.
    MiniSwe,
    /// A result file of tau2-bench.
    Tau2,
}

impl Format {
    fn of_key(key: &str) -> Option<Format> {
        Some(match key {
            "turns" | "source" | "run_id" | "final_answer" => Format::Neutral,
            "resourceSpans" | "resource_spans" => Format::Otlp,
            "trajectory_format" | "messages" => Format::MiniSwe,
            "simulations" => Format::Tau2,
            _ => return None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Neutral => "neutral JSON lines",
            Format::Otlp => "OTLP/JSON",
            Format::MiniSwe => "a mini-swe-agent trajectory",
            Format::Tau2 => "tau2 results",
        })
    }
}

/// Tells the format. What is no JSON object is left to the neutral reader, which names the line.
pub(super) fn format(file: &str, mut input: impl BufRead) -> Result<Format, FileError> {
    skip_mark(&mut input);
    let mut seen = Seen::default();
    let mut json = serde_json::Deserializer::from_reader(input);
    let whole = json.deserialize_map(&mut seen).is_ok();
    if let Some(format) = seen.format {
        return Ok(format);
    }
    if !whole || seen.keys.is_empty() {
        return Ok(Format::Neutral);
    }
    let found = format!("an object with the keys {}", seen.keys.join(", "));
    let expected = "runs in the neutral format (`turns`), OTLP/JSON (`resourceSpans`), a \
        mini-swe-agent trajectory (`messages`) or tau2 results (`simulations`)";
    Err(FileError::of_file(file, found, expected))
}

/// Skips a byte order mark.
fn skip_mark(input: &mut impl BufRead) {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if input.fill_buf().is_ok_and(|start| start.starts_with(MARK)) {
        input.consume(MARK.len());
    }
}

/// The reader of a document, past a byte order mark.
pub(super) fn past_mark(mut input: Box<dyn BufRead + Send>) -> impl Read {
    skip_mark(&mut input);
    input
}

#[derive(Default)]
struct Seen {
    format: Option<Format>,
    keys: Vec<String>,
}

impl<'de> Visitor<'de> for &mut Seen {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    /// Ends with an error as soon as the format is known, so that nothing more is read.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        const MOST_SHOWN: usize = 5;
        while let Some(key) = map.next_key::<String>()? {
            self.format = Format::of_key(&key);
            if self.format.is_some() {
                return Err(A::Error::custom("the format is known"));
            }
            if self.keys.len() < MOST_SHOWN {
                self.keys.push(crate::read::one_line(&format!("`{key}`")));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}
