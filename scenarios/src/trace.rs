//! Recorded runs in the neutral trace format: JSON lines, one run a line, plain or gzip.
//!
//! ```json
//! {"source": "label", "run_id": "1", "turns": [{"input_tokens": 10, "output_tokens": null,
//!  "cost_usd": 0.1, "tool_calls": [{"name": "search", "args_hash": "9f", "result_hash": "1c",
//!  "error": false}]}], "final_answer": true}
//! ```
//!
//! Turns may carry `cached_tokens` (part of the input) and `reasoning_tokens` (part of the output),
//! runs `exit`; other keys are ignored and counted. `null` and an absent key are "not recorded",
//! which is not 0; only a call's `error` is false then.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU64;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use holdback_engine::protocol::{Micros, Usage};
use holdback_engine::{Money, signature};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::price::Price;
use crate::read::FileError;
use crate::read::source;
use crate::read::tree::json_message;

/// The longest line, in bytes.
const MAX_LINE_BYTES: u64 = 256 << 20;
/// The most turns of a run and the most calls of one.
pub(crate) const MAX_TURNS: usize = 1_000_000;
pub(crate) const MAX_CALLS: usize = 10_000_000;
/// The most tokens of a turn.
pub(crate) const MAX_TOKENS: u64 = 1_000_000_000_000;
/// The most different names of tools, sources and exits.
const MAX_NAMES: usize = 65_000;
/// The most ignored keys that are remembered by name.
const MAX_IGNORED: usize = 100;
/// The largest recorded cost of a turn, in USD.
pub(crate) const MAX_DOLLARS: i64 = 1_000_000_000;

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The label of its source, a position in [`Names`].
    pub source: NameId,
    /// Its identity at the source.
    pub run_id: String,
    /// Its model calls, in order; there may be none.
    pub turns: Vec<Turn>,
    /// The tool calls of all turns, in order.
    calls: Vec<Call>,
    /// Whether it ended with an answer; `None` = not recorded.
    pub final_answer: Option<bool>,
    /// How the source says it ended, a position in [`Names`].
    pub exit: Option<NameId>,
    /// The model that it called first, a position in [`Names`]; `None` = not recorded.
    pub model: Option<NameId>,
    /// Model requests that failed without a result; they are no turns.
    pub failed_requests: u32,
}

impl Run {
    /// A run of these turns, each with its calls; everything else is not recorded.
    pub(crate) fn of_turns(source: NameId, run_id: String, parts: Vec<(Turn, Vec<Call>)>) -> Run {
        let mut turns = Vec::with_capacity(parts.len());
        let mut calls = Vec::new();
        for (mut turn, mut of_turn) in parts {
            turn.first_call = calls.len() as u32;
            turn.calls = of_turn.len() as u32;
            turns.push(turn);
            calls.append(&mut of_turn);
        }
        Run {
            source,
            run_id,
            turns,
            calls,
            final_answer: None,
            exit: None,
            model: None,
            failed_requests: 0,
        }
    }

    /// The tool calls of one turn.
    pub fn calls(&self, turn: &Turn) -> &[Call] {
        &self.calls[turn.first_call as usize..][..turn.calls as usize]
    }

    /// All tool calls of the run.
    pub fn all_calls(&self) -> &[Call] {
        &self.calls
    }
}

/// One recorded model call. `None` = not recorded, which is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Input tokens, cached ones included.
    pub input_tokens: Option<u64>,
    /// Output tokens, reasoning included.
    pub output_tokens: Option<u64>,
    /// Input tokens read from the cache.
    pub cached_tokens: Option<u64>,
    /// Input tokens written to the cache.
    pub cache_write_tokens: Option<u64>,
    /// Reasoning tokens.
    pub reasoning_tokens: Option<u64>,
    /// What it cost, rounded half to even at 1e-12 USD.
    pub cost: Option<Money>,
    /// How long it took.
    pub latency: Option<Micros>,
    pub(crate) first_call: u32,
    pub(crate) calls: u32,
}

impl Turn {
    /// The number of its tool calls.
    pub fn call_count(&self) -> usize {
        self.calls as usize
    }

    /// Its tokens, what is not recorded taken as 0. `None` where neither input nor output is.
    pub fn usage(&self) -> Option<Usage> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let input = self.input_tokens.unwrap_or(0);
        let cached = self.cached_tokens.unwrap_or(0).min(input);
        Some(Usage {
            input,
            cached,
            cache_write: self.cache_write_tokens.unwrap_or(0).min(input - cached),
            output: self.output_tokens.unwrap_or(0),
            reasoning: self.reasoning_tokens,
        })
    }

    /// The recorded cost, or else its tokens (input and output both recorded) at a price.
    pub fn cost_or_priced(&self, price: Option<&Price>) -> Option<Money> {
        if self.cost.is_some() {
            return self.cost;
        }
        self.input_tokens.and(self.output_tokens)?;
        Some(price?.cost(&self.usage()?))
    }
}

/// One recorded tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The tool's name, a position in [`Names`].
    pub tool: NameId,
    /// Identity of the arguments; `None` = not recorded.
    pub args: Option<NonZeroU64>,
    /// Identity of the result; `None` = not recorded.
    pub result: Option<NonZeroU64>,
    /// The call failed; `null` and absent mean that it succeeded.
    pub error: bool,
    /// How long it took; `None` = not recorded.
    pub latency: Option<Micros>,
}

/// A name that occurs in many runs, by its position in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u16);

/// The names of sources, tools and exits, each stored once, in order of appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    texts: Vec<String>,
    ids: BTreeMap<String, NameId>,
}

impl Names {
    /// The text of a name; empty for one of another file.
    pub fn get(&self, id: NameId) -> &str {
        self.texts.get(usize::from(id.0)).map_or("", String::as_str)
    }

    /// The position of a name.
    pub fn find(&self, name: &str) -> Option<NameId> {
        self.ids.get(name).copied()
    }

    /// All names, in order of appearance.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// True without any name.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The position of a name, which is added if it is new; `None` if there are too many.
    pub(crate) fn intern(&mut self, name: &str) -> Option<NameId> {
        if let Some(id) = self.find(name) {
            return Some(id);
        }
        if self.texts.len() >= MAX_NAMES {
            return None;
        }
        let id = NameId(u16::try_from(self.texts.len()).ok()?);
        self.texts.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        Some(id)
    }
}

/// Reads recorded runs one by one, so that memory does not grow with their number.
pub struct Reader<R> {
    file: String,
    input: R,
    buffer: Vec<u8>,
    line: usize,
    failed: bool,
    walk: Walk,
}

impl<R> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("file", &self.file)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// What reading has learned so far.
#[derive(Debug, Default)]
struct Walk {
    names: Names,
    ignored: BTreeMap<String, u64>,
}

impl Reader<Box<dyn BufRead + Send>> {
    /// Opens a file, plain or gzip (told by its first two bytes, whatever its name).
    ///
    /// # Errors
    /// If it is missing, a directory, or not readable.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Reader::new(&path.display().to_string(), unpacked(path)?))
    }
}

/// The content of a file, plain or gzip (told by its first two bytes, whatever its name).
pub(crate) fn unpacked(path: &Path) -> Result<Box<dyn BufRead + Send>, FileError> {
    let packed = BufReader::with_capacity(1 << 18, source::open(path)?);
    unpack(packed).map_err(|error| source::unreadable(&path.display().to_string(), &error))
}

/// What is plain or gzip, unpacked.
pub(crate) fn unpack(
    mut packed: impl BufRead + Send + 'static,
) -> std::io::Result<Box<dyn BufRead + Send>> {
    Ok(if packed.fill_buf()?.starts_with(&GZIP) {
        Box::new(BufReader::with_capacity(
            1 << 18,
            MultiGzDecoder::new(packed),
        ))
    } else {
        Box::new(packed)
    })
}

/// The first two bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

impl<R: BufRead> Reader<R> {
    /// Reads uncompressed lines; `file` is what errors call them.
    pub fn new(file: &str, input: R) -> Reader<R> {
        Reader {
            file: file.to_owned(),
            input,
            buffer: Vec::new(),
            line: 0,
            failed: false,
            walk: Walk::default(),
        }
    }

    /// Goes on with the names of other files, so that positions agree between files.
    #[must_use]
    pub fn with_names(mut self, names: Names) -> Self {
        self.walk.names = names;
        self
    }

    /// The next run; `None` at the end. Blank lines are skipped.
    ///
    /// # Errors
    /// The first line that is broken, with its number; a truncated or damaged gzip file.
    pub fn next_run(&mut self) -> Result<Option<Run>, FileError> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let read = (&mut self.input)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut self.buffer)
                .map_err(|error| self.broken_stream(&error))?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == MAX_LINE_BYTES {
                let most = format!("at most {MAX_LINE_BYTES} bytes");
                return Err(self.error("a longer line".to_owned(), most));
            }
            if self.buffer.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return self.parse_line().map(Some);
        }
    }

    /// The line that was read last, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The names met so far.
    pub fn names(&self) -> &Names {
        &self.walk.names
    }

    /// The names met, given away.
    pub fn into_names(self) -> Names {
        self.walk.names
    }

    /// Keys that were ignored, with how often each was met (at most a hundred different ones).
    pub fn ignored(&self) -> &BTreeMap<String, u64> {
        &self.walk.ignored
    }

    fn parse_line(&mut self) -> Result<Run, FileError> {
        let text = match std::str::from_utf8(&self.buffer) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(_) => {
                return Err(self.error("bytes that are not UTF-8".to_owned(), "UTF-8".to_owned()));
            }
        };
        let mut json = serde_json::Deserializer::from_str(text);
        let run = RunSeed(&mut self.walk).deserialize(&mut json);
        run.and_then(|run| json.end().map(|()| run))
            .map_err(|error| {
                let expected = if error.is_data() {
                    "a run in the neutral trace format"
                } else {
                    "one JSON object on the line"
                };
                self.error(
                    format!("broken JSON: {}", json_message(&error)),
                    expected.to_owned(),
                )
            })
    }

    fn error(&self, found: String, expected: String) -> FileError {
        FileError::of_file(&self.file, found, expected).at_line(self.line)
    }

    fn broken_stream(&self, error: &std::io::Error) -> FileError {
        use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match error.kind() {
            UnexpectedEof => self.error("a truncated gzip file".into(), "a whole one".into()),
            InvalidData | InvalidInput => self.error(
                format!("a damaged gzip file ({error})"),
                "a whole one".into(),
            ),
            _ => source::unreadable(&self.file, error),
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Run, FileError>;

    /// Ends after the first error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_run().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

/// The identity behind a recorded hash text. Up to fifteen lower-case hex digits are the number
/// itself, with its length, so that different texts never meet; anything else is hashed.
fn identity(text: &str) -> NonZeroU64 {
    const MAX_DIGITS: usize = 15;
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if text.len() <= MAX_DIGITS && text.bytes().all(is_hex) {
        let digits = text.bytes().fold(0, |number, b| {
            let digit = if b.is_ascii_digit() {
                b - b'0'
            } else {
                b - b'a' + 10
            };
            number << 4 | u64::from(digit)
        });
        let marked = 1 << (4 * text.len()) | digits;
        return NonZeroU64::new(marked).unwrap_or(NonZeroU64::MIN);
    }
    signature::raw("", text).0
}

/// A visitor of maps that are read into a value with the shared [`Walk`].
macro_rules! seed {
    ($name:ident, $value:ty, $expecting:literal) => {
        struct $name<'w>(&'w mut Walk);

        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = $value;
            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<$value, D::Error> {
                from.deserialize_map(self)
            }
        }

        impl<'de> Visitor<'de> for $name<'_> {
            type Value = $value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expecting)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$value, A::Error> {
                self.walk(map)
            }
        }
    };
}

seed!(RunSeed, Run, "a run: an object with `turns`");

impl RunSeed<'_> {
    fn walk<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<Run, A::Error> {
        let walk = self.0;
        let mut source = None;
        let mut run_id = String::new();
        let mut recorded = None;
        let mut final_answer = None;
        let mut exit = None;
        while let Some(key) = map.next_key::<Text<'_>>()? {
            match key.as_str() {
                "source" => source = Some(walk.name(map.next_value::<Text<'_>>()?.as_str())?),
                "run_id" => run_id = map.next_value::<RunId>()?.0,
                "turns" => recorded = Some(map.next_value_seed(TurnsSeed(walk))?),
                "final_answer" => final_answer = map.next_value()?,
                "exit" => {
                    let text = map.next_value::<Option<Text<'_>>>()?;
                    exit = text.map(|text| walk.name(text.as_str())).transpose()?;
                }
                other => {
                    walk.ignore(other);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let source = source.ok_or_else(|| A::Error::missing_field("source"))?;
        let (turns, calls) = recorded.ok_or_else(|| A::Error::missing_field("turns"))?;
        Ok(Run {
            source,
            run_id,
            turns,
            calls,
            final_answer,
            exit,
            model: None,
            failed_requests: 0,
        })
    }
}

/// The turns of a run and, in one list, their calls.
struct TurnsSeed<'w>(&'w mut Walk);

impl<'de> DeserializeSeed<'de> for TurnsSeed<'_> {
    type Value = (Vec<Turn>, Vec<Call>);
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for TurnsSeed<'_> {
    type Value = (Vec<Turn>, Vec<Call>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of turns")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (mut turns, mut calls) = (Vec::new(), Vec::new());
        while let Some(turn) = seq.next_element_seed(TurnSeed {
            walk: self.0,
            calls: &mut calls,
        })? {
            turns.push(turn);
            if turns.len() > MAX_TURNS {
                return Err(A::Error::custom(format!("more than {MAX_TURNS} turns")));
            }
        }
        Ok((turns, calls))
    }
}

struct TurnSeed<'w, 'c> {
    walk: &'w mut Walk,
    calls: &'c mut Vec<Call>,
}

impl<'de> DeserializeSeed<'de> for TurnSeed<'_, '_> {
    type Value = Turn;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Turn, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TurnSeed<'_, '_> {
    type Value = Turn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a turn: an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Turn, A::Error> {
        let first_call = self.calls.len() as u32;
        let mut turn = Turn {
            first_call,
            ..Turn::default()
        };
        while let Some(key) = map.next_key::<Text<'_>>()? {
            match key.as_str() {
                "input_tokens" => turn.input_tokens = tokens(&mut map, "input_tokens")?,
                "output_tokens" => turn.output_tokens = tokens(&mut map, "output_tokens")?,
                "cached_tokens" => turn.cached_tokens = tokens(&mut map, "cached_tokens")?,
                "reasoning_tokens" => turn.reasoning_tokens = tokens(&mut map, "reasoning_tokens")?,
                "cost_usd" => turn.cost = cost(&mut map)?,
                "tool_calls" => {
                    self.calls.truncate(first_call as usize);
                    map.next_value_seed(CallsSeed {
                        walk: &mut *self.walk,
                        calls: &mut *self.calls,
                    })?;
                }
                other => {
                    self.walk.ignore(other);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        turn.calls = self.calls.len() as u32 - first_call;
        Ok(turn)
    }
}

struct CallsSeed<'w, 'c> {
    walk: &'w mut Walk,
    calls: &'c mut Vec<Call>,
}

impl<'de> DeserializeSeed<'de> for CallsSeed<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CallsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tool calls")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(call) = seq.next_element_seed(CallSeed(&mut *self.walk))? {
            self.calls.push(call);
            if self.calls.len() > MAX_CALLS {
                return Err(A::Error::custom(format!(
                    "more than {MAX_CALLS} tool calls"
                )));
            }
        }
        Ok(())
    }
}

seed!(CallSeed, Call, "a tool call: an object with `name`");

impl CallSeed<'_> {
    fn walk<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<Call, A::Error> {
        let walk = self.0;
        let mut tool = None;
        let (mut args, mut result, mut error) = (None, None, false);
        let hash = |text: Option<Text<'_>>| text.map(|text| identity(text.as_str()));
        while let Some(key) = map.next_key::<Text<'_>>()? {
            match key.as_str() {
                "name" => tool = Some(walk.name(map.next_value::<Text<'_>>()?.as_str())?),
                "args_hash" => args = hash(map.next_value()?),
                "result_hash" => result = hash(map.next_value()?),
                "error" => error = map.next_value::<Option<bool>>()?.unwrap_or(false),
                other => {
                    walk.ignore(other);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Call {
            tool: tool.ok_or_else(|| A::Error::missing_field("name"))?,
            args,
            result,
            error,
            latency: None,
        })
    }
}

impl Walk {
    fn name<E: Error>(&mut self, text: &str) -> Result<NameId, E> {
        self.names
            .intern(text)
            .ok_or_else(|| E::custom(format!("more than {MAX_NAMES} different names")))
    }

    fn ignore(&mut self, key: &str) {
        if let Some(count) = self.ignored.get_mut(key) {
            *count += 1;
        } else if self.ignored.len() < MAX_IGNORED {
            self.ignored.insert(key.to_owned(), 1);
        }
    }
}

fn tokens<'de, A: MapAccess<'de>>(map: &mut A, key: &str) -> Result<Option<u64>, A::Error> {
    let raw: &RawValue = map.next_value()?;
    let digits = raw.get();
    if digits == "null" {
        return Ok(None);
    }
    let whole = digits.parse::<u64>().ok().or_else(|| {
        let x = digits.parse::<f64>().ok()?;
        (x >= 0.0 && x.fract() == 0.0 && x <= MAX_TOKENS as f64).then_some(x as u64)
    });
    match whole.filter(|tokens| *tokens <= MAX_TOKENS) {
        Some(tokens) => Ok(Some(tokens)),
        None => Err(A::Error::custom(format!(
            "`{key}` is {}, not a whole number from 0 to {MAX_TOKENS} or null",
            shown(digits)
        ))),
    }
}

fn cost<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Money>, A::Error> {
    let raw: &RawValue = map.next_value()?;
    let digits = raw.get();
    if digits == "null" {
        return Ok(None);
    }
    match Money::parse_rounded(digits.trim_matches('"')) {
        Ok(cost) if !cost.is_negative() && cost <= Money::from_dollars(MAX_DOLLARS) => {
            Ok(Some(cost))
        }
        _ => Err(A::Error::custom(format!(
            "`cost_usd` is {}, not an amount from 0 to {MAX_DOLLARS} USD or null",
            shown(digits)
        ))),
    }
}

fn shown(raw: &str) -> String {
    raw.chars().take(40).collect()
}

/// A string that is borrowed from the line unless it holds escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

impl Text<'_> {
    fn as_str(&self) -> &str {
        &self.0
    }
}

/// The identity of a run, which some sources write as a number.
#[derive(Default)]
struct RunId(String);

impl<'de> serde::Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RunId, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        match value {
            serde_json::Value::String(text) => Ok(RunId(text)),
            serde_json::Value::Number(number) => Ok(RunId(number.to_string())),
            serde_json::Value::Null => Ok(RunId::default()),
            other => Err(D::Error::custom(format!(
                "`run_id` is {}, not a string or a number",
                shown(&other.to_string())
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(text: &str) -> (Vec<Run>, Reader<std::io::Cursor<Vec<u8>>>) {
        let input = std::io::Cursor::new(text.as_bytes().to_vec());
        let mut reader = Reader::new("f.jsonl", input);
        let runs = reader.by_ref().collect::<Result<_, _>>().unwrap();
        (runs, reader)
    }

    fn error(text: &str) -> String {
        let mut reader = Reader::new("f.jsonl", text.as_bytes());
        reader.by_ref().find_map(Result::err).unwrap().to_string()
    }

    fn turn(members: &str) -> String {
        format!("{{\"source\":\"s\",\"run_id\":\"r\",\"turns\":[{{{members}}}]}}")
    }

    #[test]
    fn null_is_apart_from_zero() {
        let (runs, _) = read(&turn(
            "\"input_tokens\":null,\"output_tokens\":0,\"cost_usd\":0",
        ));
        let turn = runs[0].turns[0];
        assert_eq!((turn.input_tokens, turn.output_tokens), (None, Some(0)));
        assert_eq!(turn.cost, Some(Money::ZERO));
        assert_eq!(turn.cached_tokens, None);
        assert_eq!(runs[0].final_answer, None);
    }

    #[test]
    fn a_recorded_cost_is_rounded_half_to_even_from_its_digits() {
        for (digits, picos) in [
            ("0.1", 100_000_000_000),
            ("0.30000000000000004", 300_000_000_000),
            ("0.0000000000025", 2),
            ("0.0000000000035", 4),
            ("1.1e-5", 11_000_000),
            ("\"0.25\"", 250_000_000_000),
        ] {
            let (runs, _) = read(&turn(&format!("\"cost_usd\":{digits}")));
            assert_eq!(
                runs[0].turns[0].cost,
                Some(Money::from_picos(picos)),
                "{digits}"
            );
        }
    }

    #[test]
    fn calls_keep_their_turn_and_their_identities() {
        let calls = "\"tool_calls\":[{\"name\":\"a\",\"args_hash\":\"0f\",\"error\":null},\
            {\"name\":\"b\",\"args_hash\":\"f\",\"result_hash\":\"x y\",\"error\":true}]";
        let (runs, reader) = read(&turn(calls));
        let run = &runs[0];
        let calls = run.calls(&run.turns[0]);
        assert_eq!(calls.len(), 2);
        assert_eq!(reader.names().get(calls[1].tool), "b");
        assert_ne!(
            calls[0].args, calls[1].args,
            "a leading zero is another text"
        );
        assert_eq!(calls[0].result, None);
        assert!(!calls[0].error && calls[1].error);
    }

    #[test]
    fn unknown_keys_are_ignored_and_counted() {
        let text = turn("\"x\":[1,{\"y\":2}],\"tool_calls\":[{\"name\":\"a\",\"z\":1}]");
        let (runs, reader) = read(&format!("{text}\n\n{text}\n"));
        assert_eq!(runs.len(), 2);
        let ignored: Vec<_> = reader
            .ignored()
            .iter()
            .map(|(k, n)| (k.as_str(), *n))
            .collect();
        assert_eq!(ignored, [("x", 2), ("z", 2)]);
    }

    #[test]
    fn a_broken_line_is_named_by_its_number() {
        let good = turn("\"output_tokens\":1");
        for (bad, part) in [
            ("{\"source\":", "broken JSON"),
            ("[1]", "expected a run"),
            ("{\"source\":\"s\"}", "missing field `turns`"),
            ("{\"turns\":[]}", "missing field `source`"),
            (&turn("\"input_tokens\":-1"), "`input_tokens` is -1"),
            (&turn("\"input_tokens\":1.5"), "`input_tokens` is 1.5"),
            (&turn("\"cost_usd\":\"NaN\""), "`cost_usd` is"),
            (&turn("\"cost_usd\":-0.1"), "`cost_usd` is -0.1"),
            (&turn("\"tool_calls\":3"), "a list of tool calls"),
            (&format!("{good} {good}"), "trailing characters"),
        ] {
            let message = error(&format!("{good}\n{bad}\n"));
            assert!(message.starts_with("f.jsonl:2: "), "{message}");
            assert!(message.contains(part), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn gzip_is_told_by_its_content_and_a_truncated_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = String::new();
        for index in 0..2000 {
            text += &turn(&format!("\"output_tokens\":{index}"));
            text.push('\n');
        }
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        let bytes = gz.finish().unwrap();
        let path = folder.path().join("runs.anything");
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(
            Reader::open(&path).unwrap().filter(Result::is_ok).count(),
            2000
        );
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = Reader::open(&path)
            .unwrap()
            .find_map(Result::err)
            .unwrap()
            .to_string();
        assert!(error.contains("a truncated gzip file"), "{error}");
    }

    #[test]
    fn a_missing_file_and_a_directory_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("runs.jsonl"), "").unwrap();
        let missing = Reader::open(&folder.path().join("run.jsonl")).unwrap_err();
        assert_eq!(missing.hint.as_deref(), Some("did you mean `runs.jsonl`?"));
        let directory = Reader::open(folder.path()).unwrap_err();
        assert_eq!(&*directory.found, "a directory");
    }

    #[test]
    fn a_turn_without_a_cost_takes_its_tokens_at_a_price() {
        let price = Price {
            input: Money::from_picos(2_000_000),
            cached_input: Money::from_picos(200_000),
            cache_write: Money::from_picos(2_000_000),
            output: Money::from_picos(12_000_000),
        };
        let (runs, _) = read(&turn(
            "\"input_tokens\":6545,\"cached_tokens\":6178,\"output_tokens\":67,\"cost_usd\":null",
        ));
        let cost = runs[0].turns[0].cost_or_priced(Some(&price));
        assert_eq!(
            cost.map(|cost| cost.to_string()).as_deref(),
            Some("0.0027736")
        );
        let (runs, _) = read(&turn("\"input_tokens\":6545"));
        assert_eq!(runs[0].turns[0].cost_or_priced(Some(&price)), None);
    }
}
