//! Folders of results, read back.

use std::path::{Path, PathBuf};

/// All files of a folder with their content, by path.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("the folder exists") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = std::fs::read(&path).expect("the file can be read");
                let name = path.strip_prefix(folder).expect("it is below").to_owned();
                found.push((name, content));
            }
        }
    }
    found.sort();
    found
}
