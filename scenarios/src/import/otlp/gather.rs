//! The second pass: spans until their trace is whole, runs until no earlier one can come.

use std::collections::BTreeMap;

use super::census::Known;
use super::span::{Resource, Span};
use super::trace::{self, Held, Oddities, SpanId, Timed};
use super::walk::Sink;
use crate::import::document::Stopped;
use crate::import::stream::Out;
use crate::trace::{NameId, Run};

/// What was read of a trace of which spans are still to come.
struct Open {
    /// The position of its first span in the file.
    first: u64,
    spans: Vec<Held>,
}

/// When a run leaves: by its start; of those that started together runs without an agent come first,
/// by their trace, then agents by their place in the file.
type Place = (u64, Option<(u64, usize)>, Box<str>);

/// Gathers the spans of traces.
pub(super) struct Gathering<'o> {
    /// Traces that are not yet whole, begun or not.
    unfinished: BTreeMap<Box<str>, Known>,
    /// Those of them that are begun.
    open: BTreeMap<Box<str>, Open>,
    /// How many unfinished traces started at each time.
    starts: BTreeMap<u64, u64>,
    waiting: BTreeMap<Place, Run>,
    /// Spans of unfinished traces, and what waiting runs hold.
    held: usize,
    most: usize,
    /// Spans read so far.
    read: u64,
    /// The services of the resources so far.
    services: Vec<Option<NameId>>,
    /// The service of the present resource is known.
    has_service: bool,
    /// The present resource has spans.
    has_spans: bool,
    /// Traces that are whole but for the service of their last spans.
    whole: Vec<Box<str>>,
    odd: Oddities,
    out: &'o mut Out,
}

impl<'o> Gathering<'o> {
    pub(super) fn new(
        unfinished: BTreeMap<Box<str>, Known>,
        most: usize,
        out: &'o mut Out,
    ) -> Gathering<'o> {
        let mut starts = BTreeMap::new();
        for known in unfinished.values() {
            *starts.entry(known.start).or_default() += 1;
        }
        Gathering {
            unfinished,
            open: BTreeMap::new(),
            starts,
            waiting: BTreeMap::new(),
            held: 0,
            most,
            read: 0,
            services: Vec::new(),
            has_service: false,
            has_spans: false,
            whole: Vec::new(),
            odd: Oddities::default(),
            out,
        }
    }

    /// Ends the file, and tells what was odd.
    pub(super) fn end(self, file: &str) -> Result<(), Stopped> {
        if !self.unfinished.is_empty() {
            return Err(self.out.changed());
        }
        let told = [
            (self.odd.twice, "spans exported twice count once"),
            (
                self.odd.same_id,
                "spans have the id of another span of their trace and count beside it",
            ),
            (
                self.odd.failed_requests,
                "failed model requests are no turns",
            ),
        ];
        let told = told.iter().filter(|(number, _)| *number > 0);
        let remarks = told.map(|(number, what)| format!("{file}: {number} {what}"));
        self.out.remarks.extend(remarks);
        Ok(())
    }

    /// Makes runs of a trace that is whole, and lets those go that no earlier one can precede.
    fn finish(&mut self, id: &str) -> Result<(), Stopped> {
        let (Some(known), Some(trace)) = (self.unfinished.remove(id), self.open.remove(id)) else {
            return Ok(());
        };
        self.held -= trace.spans.len();
        if let Some(number) = self.starts.get_mut(&known.start) {
            *number -= 1;
            if *number == 0 {
                self.starts.remove(&known.start);
            }
        }
        let runs = trace::runs(id, trace.spans, &self.services, &mut self.odd, self.out)?;
        for Timed { start, agent, run } in runs {
            self.held += weight(&run);
            let agent = agent.map(|at| (trace.first, at));
            self.waiting.insert((start, agent, id.into()), run);
        }
        let earliest = self.starts.keys().next().copied();
        while let Some(first) = self.waiting.first_entry() {
            if earliest.is_some_and(|earliest| first.key().0 >= earliest) {
                break;
            }
            let run = first.remove();
            self.held -= weight(&run);
            self.out.run(run)?;
        }
        Ok(())
    }

    fn finish_whole(&mut self) -> Result<(), Stopped> {
        for id in std::mem::take(&mut self.whole) {
            self.finish(&id)?;
        }
        Ok(())
    }
}

/// What a waiting run counts, in spans.
fn weight(run: &Run) -> usize {
    1 + run.turns.len() + run.all_calls().len()
}

impl Sink for Gathering<'_> {
    type Span = Span;
    type Resource = Option<Resource>;

    fn resource_begins(&mut self) {
        self.has_service = false;
        self.has_spans = false;
        self.services.push(None);
    }

    fn resource(&mut self, resource: Option<Resource>) -> Result<(), Stopped> {
        let service = resource.unwrap_or_default().service();
        let service = self.out.maybe_name(service.as_deref())?;
        match self.services.as_mut_slice() {
            // Most files have one service, which takes one place.
            [.., before, _] if *before == service && !self.has_spans => {
                self.services.pop();
            }
            [.., last] => *last = service,
            [] => {}
        }
        self.has_service = true;
        self.finish_whole()
    }

    fn span(&mut self, span: Span) -> Result<(), Stopped> {
        let kind = span.kind.named(self.out)?;
        let Some(known) = self.unfinished.get(span.trace.as_str()).copied() else {
            return Err(self.out.changed());
        };
        let id: Box<str> = span.trace.into();
        let trace = self.open.entry(id.clone()).or_insert(Open {
            first: self.read,
            spans: Vec::new(),
        });
        trace.spans.push(Held {
            id: SpanId::new(span.id),
            parent: SpanId::new(span.parent),
            start: span.start,
            end: span.end,
            service: self.services.len() as u32 - 1,
            kind,
        });
        self.read += 1;
        self.held += 1;
        self.has_spans = true;
        let is_whole = trace.spans.len() as u64 == known.spans;
        if self.held > self.most {
            let found = format!(
                "more than {} spans of traces that are unfinished, or of runs that wait for a trace that \
                 started before them, at a time",
                self.most
            );
            return Err(self.out.stop(
                found,
                "fewer: sort the spans by time, or split the file by trace",
            ));
        }
        if is_whole && self.has_service {
            return self.finish(&id);
        }
        if is_whole {
            self.whole.push(id);
        }
        Ok(())
    }

    fn resource_ends(&mut self) -> Result<(), Stopped> {
        self.finish_whole()
    }
}
