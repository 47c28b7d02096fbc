//! Whole JSON documents, read as a stream.

use std::io::{BufRead, ErrorKind};

use serde::de::DeserializeOwned;

use super::detect::past_mark;
use crate::read::FileError;
use crate::read::tree::json_message;

/// Reads every JSON document of a file (most have one; exports may hold one a line) and hands each to
/// `take`.
pub(super) fn each<T: DeserializeOwned>(
    file: &str,
    input: Box<dyn BufRead + Send>,
    expected: &str,
    mut take: impl FnMut(T) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let buffered = std::io::BufReader::with_capacity(1 << 16, past_mark(input));
    let documents = serde_json::Deserializer::from_reader(buffered).into_iter::<T>();
    for document in documents {
        take(document.map_err(|error| broken(file, &error, expected))?)?;
    }
    Ok(())
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
