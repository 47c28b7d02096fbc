//! Parts of a study on disk: what makes a shard, a resumed run and a merge possible.
//!
//! A part is one scenario's campaign over a set of runs. It is written whole or not at all, ends in a
//! checksum, and says which study it belongs to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use holdback_scenarios::policy::Policy;
use holdback_scenarios::study::{Gates, Skipped};
use holdback_scenarios::{Scenario, Study, read};
use holdback_sim::part::Part;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::output;

/// Name of the folder of parts inside an output folder.
pub(crate) const FOLDER: &str = "parts";
const HEADER: &str = "study.json";
/// The published JSON Schema of the header, as text.
pub(crate) const JSON_SCHEMA: &str = include_str!("parts.schema.json");
/// No part is larger: a thousand policies of full tallies stay far below.
const LARGEST: u64 = 1 << 30;

/// The study that parts belong to, complete enough to be reported from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// Version of this format.
    pub(crate) schema: u32,
    /// Version of Holdback that makes the parts.
    pub(crate) version: String,
    /// Name of the study.
    pub(crate) study: String,
    /// What the study is, in a sentence.
    pub(crate) summary: Option<String>,
    /// Seed of all luck.
    pub(crate) seed: u64,
    /// Runs of each cell.
    pub(crate) runs: u64,
    /// `--precision`, if given.
    pub(crate) precision: Option<f64>,
    /// Name of the baseline.
    pub(crate) baseline: String,
    /// The canonical command.
    pub(crate) command: String,
    /// What `explain` needs beside scenario, policy and run.
    pub(crate) explain_options: String,
    /// The user's volume.
    pub(crate) runs_per_month: Option<u64>,
    /// Each run is written to `runs.csv`.
    pub(crate) per_run: bool,
    /// Which shard of how many, from 1; 1 of 1 is the whole study.
    pub(crate) shard: (u64, u64),
    /// The scenarios, resolved.
    pub(crate) scenarios: Vec<Value>,
    /// The policies, resolved.
    pub(crate) policies: Vec<Value>,
    /// Combinations that were left out: name and reason.
    pub(crate) skipped: Vec<(String, String)>,
}

impl Header {
    /// Identity of the study, whatever the shard: equal if and only if parts may be put together.
    pub(crate) fn identity(&self) -> String {
        let whole = Header {
            shard: (1, 1),
            ..self.clone()
        };
        let text = serde_json::to_string(&whole).unwrap_or_default();
        hex(&Sha256::digest(text.as_bytes()))
    }

    /// The study, read back.
    pub(crate) fn study(&self, file: &str) -> Result<Study, Failure> {
        let scenarios = self
            .scenarios
            .iter()
            .map(|document| read::scenario_from_json(file, document))
            .collect::<Result<Vec<Scenario>, _>>()?;
        let policies = self
            .policies
            .iter()
            .map(|document| read::policy_from_json(file, document))
            .collect::<Result<Vec<Policy>, _>>()?;
        let baseline = crate::inputs::baseline(&policies, Some(&self.baseline))?;
        Ok(Study {
            name: self.study.clone(),
            summary: self.summary.clone(),
            seed: self.seed,
            runs: self.runs,
            scenarios,
            policies,
            skipped: self
                .skipped
                .iter()
                .map(|(name, reason)| Skipped {
                    name: name.clone(),
                    reason: reason.clone(),
                })
                .collect(),
            baseline,
            gates: Gates::default(),
        })
    }
}

/// The folder of parts of one output folder.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    path: PathBuf,
}

/// What a folder of parts holds of a scenario.
pub(crate) enum Found {
    /// The part, whole.
    Whole(Box<Part>),
    /// No part.
    Missing,
    /// A part that was not written to its end, or that was changed.
    Broken(String),
}

impl Parts {
    /// The parts of an output folder.
    pub(crate) fn of(folder: &Path) -> Parts {
        Parts {
            path: folder.join(FOLDER),
        }
    }

    /// The header, if there is one.
    pub(crate) fn header(&self) -> Result<Option<Header>, Failure> {
        let path = self.path.join(HEADER);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(|error| Failure::io(&path, error))?;
        let header = serde_json::from_str(&text).map_err(|error| {
            Failure::Usage(format!(
                "{}: found {error}, expected the header of a study's parts",
                path.display()
            ))
        })?;
        Ok(Some(header))
    }

    /// Writes the header.
    pub(crate) fn write_header(&self, header: &Header) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(header)
            .map_err(|error| Failure::Internal(error.to_string()))?;
        output::write_atomically(&self.path.join(HEADER), text.as_bytes())
    }

    /// Writes a part.
    pub(crate) fn write(&self, part: &Part) -> Result<(), Failure> {
        let bytes = part.encode().map_err(Failure::Internal)?;
        output::write_atomically(&self.file(part.scenario), &bytes)
    }

    /// Reads the part of a scenario.
    pub(crate) fn read(&self, scenario: u64) -> Result<Found, Failure> {
        let path = self.file(scenario);
        let size = match fs::metadata(&path) {
            Ok(found) => found.len(),
            Err(_) => return Ok(Found::Missing),
        };
        if size > LARGEST {
            return Ok(Found::Broken(format!(
                "{size} bytes, more than any part has"
            )));
        }
        let bytes = fs::read(&path).map_err(|error| Failure::io(&path, error))?;
        Ok(match Part::decode(&bytes) {
            Ok(part) => Found::Whole(Box::new(part)),
            Err(broken) => Found::Broken(broken.to_string()),
        })
    }

    /// Whether the rows of a scenario are those that its part was written with.
    pub(crate) fn has_rows_of(&self, part: &Part) -> Result<bool, Failure> {
        let path = self.rows(part.scenario);
        match output::digest_of_file(&path) {
            Ok(digest) => Ok(part.rows == Some(digest)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::io(&path, error)),
        }
    }

    /// File of the runs of a scenario.
    pub(crate) fn rows(&self, scenario: u64) -> PathBuf {
        self.path.join(format!("scenario-{scenario}.runs.csv"))
    }

    fn file(&self, scenario: u64) -> PathBuf {
        self.path.join(format!("scenario-{scenario}.part"))
    }

    /// Removes everything, once the study is complete.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        if self.path.exists() {
            fs::remove_dir_all(&self.path).map_err(|error| Failure::io(&self.path, error))?;
        }
        Ok(())
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
