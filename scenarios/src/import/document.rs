//! Whole JSON documents, read as a stream.

use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::marker::PhantomData;

use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::de::IoRead;

use super::detect::past_mark;
use crate::read::FileError;
use crate::read::tree::json_message;
use crate::trace::{MAX_CALLS, MAX_TURNS};

/// What a document is read from.
pub(super) type Json = serde_json::Deserializer<IoRead<BufReader<Box<dyn Read + Send>>>>;

/// Goes through the JSON documents of a file (most have one; exports may hold one a line); `read` takes
/// one from its beginning to its end.
pub(super) fn walk(
    file: &str,
    input: Box<dyn BufRead + Send>,
    expected: &str,
    mut read: impl FnMut(&mut Json) -> serde_json::Result<()>,
) -> Result<(), FileError> {
    let input: Box<dyn Read + Send> = Box::new(past_mark(input));
    let mut json = Json::from_reader(BufReader::with_capacity(1 << 16, input));
    loop {
        match json.end() {
            Ok(()) => return Ok(()),
            Err(error) if error.is_io() => return Err(broken(file, &error, expected)),
            // Something follows: the next document.
            Err(_) => {}
        }
        read(&mut json).map_err(|error| broken(file, &error, expected))?;
    }
}

/// Reads every document of a file whole and hands each to `take`.
pub(super) fn each<T: DeserializeOwned>(
    file: &str,
    input: Box<dyn BufRead + Send>,
    expected: &str,
    mut take: impl FnMut(T) -> Result<(), Stopped>,
) -> Result<(), FileError> {
    walk(file, input, expected, |json| {
        take(T::deserialize(json)?).map_err(serde::de::Error::custom)
    })
}

fn broken(file: &str, error: &serde_json::Error, expected: &str) -> FileError {
    let (found, expected) = match error.io_error_kind() {
        Some(ErrorKind::UnexpectedEof) => ("a truncated gzip file".to_owned(), "a whole one"),
        Some(ErrorKind::InvalidData | ErrorKind::InvalidInput) => {
            ("a damaged gzip file".to_owned(), "a whole one")
        }
        _ => (format!("broken JSON: {}", json_message(error)), expected),
    };
    FileError::of_file(file, found, expected).at_line(error.line())
}

/// Reading stops before the end; why is kept where the runs are handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped;

impl Stopped {
    /// Stands for the cause where no parser carries it.
    pub(super) fn in_file(self, file: &str) -> FileError {
        FileError::of_file(file, self.to_string(), "the end of the file")
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reading has stopped")
    }
}

/// A JSON object whose members are taken one by one, so that it is never held as a whole.
pub(super) trait Object {
    /// What stands where something else than an object is found.
    const EXPECTED: &'static str;

    /// An object of this kind begins; a list has many.
    fn begin(&mut self) {}

    /// Takes the value of a member; what is of no use is taken as [`serde::de::IgnoredAny`].
    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;

    /// The object ends.
    fn end<E: Error>(&mut self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads one object.
pub(super) struct One<'o, O>(pub(super) &'o mut O);

impl<'de, O: Object> DeserializeSeed<'de> for One<'_, O> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, O: Object> Visitor<'de> for One<'_, O> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(O::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.begin();
        while let Some(key) = map.next_key::<String>()? {
            self.0.member(&key, &mut map)?;
        }
        self.0.end()
    }
}

/// Reads a list of objects, one after the other; null is an empty list.
pub(super) struct Many<'o, O>(pub(super) &'o mut O);

impl<'de, O: Object> DeserializeSeed<'de> for Many<'_, O> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de, O: Object> Visitor<'de> for Many<'_, O> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(One(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

/// Reads a list and hands over each of its elements at once; null is an empty list.
pub(super) struct Each<T, F>(F, PhantomData<T>);

impl<T, F: FnMut(T) -> Result<(), Stopped>> Each<T, F> {
    pub(super) fn to(take: F) -> Each<T, F> {
        Each(take, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), Stopped>> DeserializeSeed<'de>
    for Each<T, F>
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), Stopped>> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.0)(element).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// A value, or its default for null: exporters write null for what is absent.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// What turns a list of messages into turns with their calls, message by message.
pub(super) trait Fold: Default {
    /// A message, without what is of no use.
    type Message: DeserializeOwned;

    /// Takes a message; gives the number of calls that it brought.
    fn take(&mut self, message: Self::Message) -> usize;
    /// The number of turns so far.
    fn turns(&self) -> usize;
}

/// Reads messages into a [`Fold`]; only one of them is held at a time.
pub(super) fn folded<'de, D: Deserializer<'de>, T: Fold>(from: D) -> Result<T, D::Error> {
    struct Messages<T>(PhantomData<T>);

    impl<'de, T: Fold> Visitor<'de> for Messages<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of messages")
        }

        fn visit_none<E: Error>(self) -> Result<T, E> {
            Ok(T::default())
        }

        fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
            from.deserialize_seq(self)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
            let mut all = T::default();
            let mut calls = 0;
            while let Some(message) = list.next_element()? {
                calls += all.take(message);
                within(all.turns(), calls).map_err(A::Error::custom)?;
            }
            Ok(all)
        }
    }

    from.deserialize_option(Messages(PhantomData))
}

/// Refuses a run of more turns or calls than any file may have.
pub(super) fn within(turns: usize, calls: usize) -> Result<(), String> {
    if turns > MAX_TURNS {
        return Err(format!("more than {MAX_TURNS} turns"));
    }
    if calls > MAX_CALLS {
        return Err(format!("more than {MAX_CALLS} tool calls"));
    }
    Ok(())
}
