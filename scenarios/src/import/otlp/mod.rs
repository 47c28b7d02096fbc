//! OpenTelemetry spans with GenAI attributes, as OTLP/JSON.
//!
//! Attribute names of the current semantic conventions (`gen_ai.provider.name`,
//! `gen_ai.usage.input_tokens`, `gen_ai.usage.cache_read.input_tokens` ...) and of the previous ones
//! (`gen_ai.system`, `gen_ai.usage.prompt_tokens`, `gen_ai.usage.completion_tokens`,
//! `llm.request.type` ...), and the cost that some exporters add (`gen_ai.usage.cost`,
//! `operation.cost`).
//!
//! A run is an `invoke_agent` span with the model calls and tool calls whose nearest agent it is, so
//! several agents of a trace are several runs; a trace without agents is one run. Spans may come in
//! any order and from interleaved traces: they are put in order by their start. A span exported
//! twice counts once, the copy that ended last; another span under its id, told by its start, counts
//! too. A failed model request without usage is a retry, not a turn.
//!
//! The file is read twice, so that it need not be held. The first pass counts the spans of each trace
//! ([`census`]), so the second knows with which span a trace is whole and can let it go ([`gather`]).
//! Runs leave in the order of their start: one waits while a trace that started earlier is unfinished.
//! Memory is that of the spans of unfinished traces and of waiting runs, without texts, and of a number
//! for each trace that is still to come. A file in order of time holds what was open at one moment; the
//! worst, such as one trace from the first line to the last, holds every span, up to [`MAX_SPANS_HELD`].

mod census;
mod gather;
mod span;
mod trace;
mod walk;

use std::collections::BTreeMap;

use super::Content;
use super::stream::Out;
use crate::read::FileError;
use census::Census;
use gather::Gathering;

/// The most spans of unfinished traces, with the turns and calls of runs that wait for an earlier one,
/// that are held at a time; also the most traces of a file.
pub const MAX_SPANS_HELD: usize = 10_000_000;

/// Reads the runs of a file.
pub(super) fn read(file: &str, content: &Content, out: &mut Out) -> Result<(), FileError> {
    read_within(MAX_SPANS_HELD, file, content, out)
}

pub(super) fn read_within(
    most: usize,
    file: &str,
    content: &Content,
    out: &mut Out,
) -> Result<(), FileError> {
    let mut census = Census {
        traces: BTreeMap::new(),
        most,
        out: &mut *out,
    };
    walk::walk(file, content()?, &mut census)?;
    let mut gathering = Gathering::new(census.traces, most, out);
    walk::walk(file, content()?, &mut gathering)?;
    gathering.end(file).map_err(|stopped| stopped.in_file(file))
}
