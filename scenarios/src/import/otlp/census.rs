//! The first pass: how many spans each trace has, and when it started.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::span::Nanos;
use super::walk::Sink;
use crate::import::document::{Stopped, or_default};
use crate::import::stream::Out;

/// What a span tells of its trace.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    #[serde(default, alias = "trace_id", deserialize_with = "or_default")]
    trace_id: String,
    #[serde(default, alias = "start_time_unix_nano")]
    start_time_unix_nano: Option<Nanos>,
}

/// What is known of a trace before its spans are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) spans: u64,
    /// The earliest start of its spans.
    pub(super) start: u64,
}

/// Counts the spans of traces.
pub(super) struct Census<'o> {
    pub(super) traces: BTreeMap<Box<str>, Known>,
    pub(super) most: usize,
    pub(super) out: &'o mut Out,
}

impl Sink for Census<'_> {
    type Span = Entry;
    type Resource = IgnoredAny;

    fn resource_begins(&mut self) {}

    fn resource(&mut self, _: IgnoredAny) -> Result<(), Stopped> {
        Ok(())
    }

    fn span(&mut self, entry: Entry) -> Result<(), Stopped> {
        let start = entry.start_time_unix_nano.map_or(0, |nanos| nanos.0);
        if let Some(known) = self.traces.get_mut(entry.trace_id.as_str()) {
            known.spans += 1;
            known.start = known.start.min(start);
            return Ok(());
        }
        if self.traces.len() == self.most {
            let found = format!("more than {} traces", self.most);
            return Err(self
                .out
                .stop(found, "fewer traces in a file: split it by time"));
        }
        let known = Known { spans: 1, start };
        self.traces.insert(entry.trace_id.into(), known);
        Ok(())
    }

    fn resource_ends(&mut self) -> Result<(), Stopped> {
        Ok(())
    }
}
