//! From a path to text, with every way in which that can fail.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::error::{FileError, nearest};

/// The largest scenario, policy, study or price file, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 8 << 20;

/// Reads a whole text file.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    let file = path.display().to_string();
    let mut bytes = Vec::new();
    let size = open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(&file, &error))?;
    if size as u64 > MAX_FILE_BYTES {
        let limit = format!("at most {MAX_FILE_BYTES} bytes");
        return Err(FileError::of_file(&file, "a larger file", limit));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..valid]
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        FileError::of_file(&file, "bytes that are not UTF-8", "UTF-8 text").at_line(line)
    })
}

/// Opens a file for reading; a directory is refused here, as reading it fails late and obscurely.
pub(crate) fn open(path: &Path) -> Result<File, FileError> {
    let file = path.display().to_string();
    let opened = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(path),
        _ => unreadable(&file, &error),
    })?;
    if opened.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(FileError::of_file(&file, "a directory", "a file"));
    }
    Ok(opened)
}

/// An input/output error of a file, in our words where they are clearer.
pub(crate) fn unreadable(file: &str, error: &std::io::Error) -> FileError {
    let found = match error.kind() {
        ErrorKind::IsADirectory => "a directory".to_owned(),
        ErrorKind::PermissionDenied => "a file that may not be read".to_owned(),
        _ => format!("an error while reading it: {error}"),
    };
    FileError::of_file(file, found, "a readable file")
}

fn missing(path: &Path) -> FileError {
    let file = path.display().to_string();
    let error = FileError::of_file(&file, "no such file", "an existing file");
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (Some(name), Ok(entries)) = (
        path.file_name().and_then(|n| n.to_str()),
        fs::read_dir(parent),
    ) else {
        return error;
    };
    // Sorted, so that the suggestion does not depend on the order of the directory.
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .take(10_000)
        .collect();
    names.sort();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => error.with_hint(format!("did you mean `{near}`?")),
        None => error,
    }
}
