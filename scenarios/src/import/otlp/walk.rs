//! Through the spans of an export, one by one.

use std::io::BufRead;

use serde::de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess};

use crate::import::document::{self, Each, Many, Object, One, Stopped};
use crate::read::FileError;

/// Takes the spans of an export.
pub(super) trait Sink {
    /// What is read of a span.
    type Span: DeserializeOwned;
    /// What is read of a resource.
    type Resource: DeserializeOwned;

    /// The spans of another resource begin.
    fn resource_begins(&mut self);
    /// What the resource is, before, between or after its spans.
    fn resource(&mut self, resource: Self::Resource) -> Result<(), Stopped>;
    /// A span of the resource.
    fn span(&mut self, span: Self::Span) -> Result<(), Stopped>;
    /// The spans of the resource end.
    fn resource_ends(&mut self) -> Result<(), Stopped>;
}

/// Reads a file into a sink.
pub(super) fn walk<S: Sink>(
    file: &str,
    input: Box<dyn BufRead + Send>,
    sink: &mut S,
) -> Result<(), FileError> {
    let mut export = Export { sink, seen: false };
    document::walk(file, input, "an OTLP/JSON export of spans", |json| {
        One(&mut export).deserialize(json)
    })
}

struct Export<'s, S> {
    sink: &'s mut S,
    seen: bool,
}

impl<S: Sink> Object for Export<'_, S> {
    const EXPECTED: &'static str = "an object with `resourceSpans`";

    fn begin(&mut self) {
        self.seen = false;
    }

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "resourceSpans" | "resource_spans" => {
                self.seen = true;
                map.next_value_seed(Many(&mut ResourceSpans(&mut *self.sink)))
            }
            _ => skip(map),
        }
    }

    fn end<E: Error>(&mut self) -> Result<(), E> {
        if self.seen {
            return Ok(());
        }
        Err(E::missing_field("resourceSpans"))
    }
}

struct ResourceSpans<'s, S>(&'s mut S);

impl<S: Sink> Object for ResourceSpans<'_, S> {
    const EXPECTED: &'static str = "an object with `scopeSpans`";

    fn begin(&mut self) {
        self.0.resource_begins();
    }

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "resource" => {
                let resource = map.next_value()?;
                self.0.resource(resource).map_err(A::Error::custom)
            }
            "scopeSpans" | "scope_spans" | "instrumentationLibrarySpans" => {
                map.next_value_seed(Many(&mut ScopeSpans(&mut *self.0)))
            }
            _ => skip(map),
        }
    }

    fn end<E: Error>(&mut self) -> Result<(), E> {
        self.0.resource_ends().map_err(E::custom)
    }
}

struct ScopeSpans<'s, S>(&'s mut S);

impl<S: Sink> Object for ScopeSpans<'_, S> {
    const EXPECTED: &'static str = "an object with `spans`";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "spans" => {
                let sink = &mut *self.0;
                map.next_value_seed(Each::to(|span| sink.span(span)))
            }
            _ => skip(map),
        }
    }
}

fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}
