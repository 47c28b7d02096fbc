//! `manifest.json`: what is in a report folder, and proof of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::numbers::sha256;
use crate::summary::Summary;

/// The JSON Schema of the file.
pub const JSON_SCHEMA: &str = include_str!("manifest.schema.json");

/// What is in a report folder. It holds no time stamp: the same study gives the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of this format.
    pub schema: u32,
    /// The name of the study.
    pub study: String,
    /// The seed of all luck.
    pub seed: u64,
    /// Runs asked for, a cell.
    pub runs: u64,
    /// The version of Holdback that made the folder.
    pub version: String,
    /// The command that reproduces it.
    pub command: String,
    /// SHA-256 of each file, by its path in the folder.
    pub files: BTreeMap<String, String>,
}

impl Manifest {
    /// The manifest of a study, without files.
    pub fn new(summary: &Summary) -> Manifest {
        Manifest {
            schema: 1,
            study: summary.study.name.clone(),
            seed: summary.study.seed,
            runs: summary.study.runs,
            version: summary.version.clone(),
            command: summary.study.command.clone(),
            files: BTreeMap::new(),
        }
    }

    /// Adds a file by its content.
    pub fn add(&mut self, path: &str, content: &[u8]) {
        self.files.insert(path.to_owned(), sha256(content));
    }

    /// Adds a file whose SHA-256 was computed while it was written.
    pub fn add_hash(&mut self, path: &str, hash: String) {
        self.files.insert(path.to_owned(), hash);
    }

    /// The manifest as the file holds it.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}
