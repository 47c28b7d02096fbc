//! Recorded runs of any known format, told by their content, as the runs of [`crate::trace`].
//!
//! | format | told by the key | a run is |
//! |---|---|---|
//! | neutral JSON lines | `turns`, `source`, `run_id` or `final_answer` | a line |
//! | OTLP/JSON with GenAI spans, one document or one a line | `resourceSpans` | an agent of a trace |
//! | mini-swe-agent trajectory | `trajectory_format` or `messages` | the file |
//! | tau2 results | `simulations` | a simulation |
//!
//! Plain or gzip. Runs are read one by one, so memory grows neither with the size of the texts nor with
//! the number of runs: it is bounded by one line (neutral), by one run without its texts and one of its
//! messages (mini-swe-agent, tau2), or by the spans of the traces that are unfinished at the same time
//! (OTLP, see there; at most [`MAX_SPANS_HELD`]).

mod detect;
mod document;
mod mini_swe;
mod otlp;
mod stream;
mod tau2;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::io::{BufRead, Cursor};
use std::path::Path;
use std::sync::Arc;

use crate::read::FileError;
use crate::trace::{Names, Reader, Run, Turn, unpack, unpacked};
use stream::{Parse, Stream};

pub use detect::Format;
pub use otlp::MAX_SPANS_HELD;

/// Whether recorded input tokens include those that were read from or written to the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputTokens {
    /// They do, as OpenAI and Google count and the GenAI conventions ask for.
    #[default]
    Inclusive,
    /// They do not, as Anthropic's own API counts: cached tokens come on top.
    Exclusive,
}

/// Reads recorded runs one by one.
pub struct Traces {
    file: String,
    format: Format,
    input_tokens: InputTokens,
    runs: Runs,
}

enum Runs {
    Lines(Reader<Box<dyn BufRead + Send>>),
    Documents(Stream),
}

/// The content of a file from its beginning, each time it is called.
type Content = Box<dyn Fn() -> Result<Box<dyn BufRead + Send>, FileError> + Send>;

/// Of a format without keys that are counted.
static NOTHING_IGNORED: BTreeMap<String, u64> = BTreeMap::new();

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces")
            .field("file", &self.file)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl From<Reader<Box<dyn BufRead + Send>>> for Traces {
    fn from(reader: Reader<Box<dyn BufRead + Send>>) -> Traces {
        Traces {
            file: "the built-in sample of recorded runs".to_owned(),
            format: Format::Neutral,
            input_tokens: InputTokens::Inclusive,
            runs: Runs::Lines(reader),
        }
    }
}

impl Traces {
    /// Opens a file and tells its format.
    ///
    /// # Errors
    /// If it cannot be read or has no known format.
    pub fn open(path: &Path, input_tokens: InputTokens) -> Result<Traces, FileError> {
        let own = path.to_owned();
        Traces::of(path, input_tokens, Box::new(move || unpacked(&own)))
    }

    /// Reads what is in memory, plain or gzip; `file` is what errors call it.
    ///
    /// # Errors
    /// If it has no known format.
    pub fn from_bytes(
        file: &str,
        bytes: &[u8],
        input_tokens: InputTokens,
    ) -> Result<Traces, FileError> {
        let name = file.to_owned();
        let bytes: Arc<[u8]> = bytes.into();
        let content = move || {
            unpack(Cursor::new(Arc::clone(&bytes)))
                .map_err(|error| crate::read::source::unreadable(&name, &error))
        };
        Traces::of(Path::new(file), input_tokens, Box::new(content))
    }

    fn of(path: &Path, input_tokens: InputTokens, content: Content) -> Result<Traces, FileError> {
        let file = path.display().to_string();
        let format = detect::format(&file, content()?)?;
        let name = file.clone();
        let parse: Parse = match format {
            Format::Neutral => {
                let runs = Runs::Lines(Reader::new(&file, content()?));
                return Ok(Traces {
                    file,
                    format,
                    input_tokens,
                    runs,
                });
            }
            Format::Otlp => Box::new(move |out| otlp::read(&name, &content, out)),
            Format::MiniSwe => {
                let stem = stem(path);
                Box::new(move |out| mini_swe::read(&name, &stem, content()?, out))
            }
            Format::Tau2 => Box::new(move |out| tau2::read(&name, &content, out)),
        };
        let runs = Runs::Documents(Stream::new(&file, parse));
        Ok(Traces {
            file,
            format,
            input_tokens,
            runs,
        })
    }

    /// The format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The next run; `None` at the end.
    ///
    /// # Errors
    /// What is broken, with its line; input tokens that contradict the convention; more spans of
    /// unfinished traces than [`MAX_SPANS_HELD`].
    pub fn next_run(&mut self) -> Result<Option<Run>, FileError> {
        let next = match &mut self.runs {
            Runs::Lines(reader) => reader.next_run()?,
            Runs::Documents(stream) => stream.next_run()?,
        };
        let Some(mut run) = next else { return Ok(None) };
        let exclusive = self.input_tokens == InputTokens::Exclusive;
        for at in 0..run.turns.len() {
            if exclusive {
                include_cached(&mut run.turns[at]);
            } else if let Some(found) = contradiction(&run.turns[at]) {
                return Err(self.wrong_convention(&run.run_id, at, found));
            }
        }
        Ok(Some(run))
    }

    fn wrong_convention(&self, run_id: &str, turn: usize, found: String) -> FileError {
        let mut error = FileError::of_file(
            &self.file,
            found,
            "input tokens that include the cached ones",
        )
        .with_hint("give --input-tokens exclusive if cached tokens come on top of the input");
        if let Runs::Lines(reader) = &self.runs {
            error = error.at_line(reader.line());
        }
        let place = format!("run {run_id}, turns[{turn}]");
        error.path = crate::read::one_line(&place).into();
        error
    }

    /// The names met so far.
    pub fn names(&self) -> &Names {
        match &self.runs {
            Runs::Lines(reader) => reader.names(),
            Runs::Documents(stream) => stream.names(),
        }
    }

    /// Keys that were ignored, with how often each was met; only in the neutral format, as the
    /// others hold far more than a run needs.
    pub fn ignored(&self) -> &BTreeMap<String, u64> {
        match &self.runs {
            Runs::Lines(reader) => reader.ignored(),
            Runs::Documents(_) => &NOTHING_IGNORED,
        }
    }

    /// What a user should know about the import, one line each; whole once the last run was read.
    pub fn remarks(&self) -> &[String] {
        match &self.runs {
            Runs::Lines(_) => &[],
            Runs::Documents(stream) => stream.remarks(),
        }
    }
}

/// Turns exclusive input tokens into inclusive ones.
fn include_cached(turn: &mut Turn) {
    let on_top = turn.cached_tokens.unwrap_or(0) + turn.cache_write_tokens.unwrap_or(0);
    turn.input_tokens = turn.input_tokens.map(|input| input + on_top);
}

/// What shows that input tokens cannot include the cached ones.
fn contradiction(turn: &Turn) -> Option<String> {
    let input = turn.input_tokens?;
    let cached = turn.cached_tokens.unwrap_or(0);
    let written = turn.cache_write_tokens.unwrap_or(0);
    (cached + written > input).then(|| {
        let written = if written == 0 {
            String::new()
        } else {
            format!(" and {written} written to the cache")
        };
        format!("{input} input tokens, {cached} of them cached{written}")
    })
}

/// The name of a file without its endings.
fn stem(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| {
        let name = name.to_string_lossy();
        name.split('.').next().unwrap_or_default().to_owned()
    })
}
