//! A part of a study in bytes: one scenario's campaign over the runs of one shard.
//!
//! It begins with the name of the format, then the SHA-256 of its body, then the body, so that a part
//! that was not written to its end or was changed is never taken for a whole one.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::campaign::Campaign;

const MAGIC: &[u8] = b"holdback part 2\n";
const SUM_BYTES: usize = 32;

/// One scenario's share of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Identity of the study.
    pub identity: String,
    /// Which shard of how many, from 1.
    pub shard: (u64, u64),
    /// Position of the scenario.
    pub scenario: u64,
    /// Runs of the scenario in the whole study; more than asked for with `--precision`.
    pub runs: u64,
    /// SHA-256 of the rows of the runs, where they are written.
    pub rows: Option<[u8; SUM_BYTES]>,
    /// What was measured.
    pub campaign: Campaign,
}

/// Why bytes are no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Something else, or a part of another version.
    #[error("no part of this version of Holdback")]
    Foreign,
    /// It was not written to its end, or it was changed.
    #[error("its checksum does not match: it was not written to its end, or changed")]
    Damaged,
    /// The checksum is right and the body is none of ours.
    #[error("its content is none of Holdback: {0}")]
    Content(String),
}

impl Part {
    /// The part as bytes.
    ///
    /// # Errors
    /// None of a part that was measured.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let body = postcard::to_allocvec(self).map_err(|error| error.to_string())?;
        let mut bytes = Vec::with_capacity(MAGIC.len() + SUM_BYTES + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&Sha256::digest(&body));
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// Reads a part from its bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Part, Broken> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(Broken::Foreign)?;
        let (sum, body) = rest.split_at_checked(SUM_BYTES).ok_or(Broken::Damaged)?;
        if Sha256::digest(body).as_slice() != sum {
            return Err(Broken::Damaged);
        }
        Part::from_body(body)
    }

    /// Reads a part from what stands behind its checksum.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_body(body: &[u8]) -> Result<Part, Broken> {
        let content = |error: &str| Broken::Content(error.to_owned());
        let (part, rest): (Part, _) =
            postcard::take_from_bytes(body).map_err(|error| content(&error.to_string()))?;
        if !rest.is_empty() {
            return Err(content("bytes behind its end"));
        }
        if !part.campaign.is_sound() {
            return Err(content("counts that no campaign has"));
        }
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> Part {
        Part {
            identity: "study".to_owned(),
            shard: (1, 2),
            scenario: 0,
            runs: 10,
            rows: Some([7; SUM_BYTES]),
            campaign: Campaign::empty(2),
        }
    }

    #[test]
    fn a_part_comes_back_from_its_bytes() {
        let bytes = part().encode().unwrap();
        assert_eq!(Part::decode(&bytes), Ok(part()));
    }

    #[test]
    fn a_part_cut_anywhere_or_with_any_byte_changed_is_broken() {
        let bytes = part().encode().unwrap();
        for length in (0..bytes.len()).step_by(97) {
            assert!(Part::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in (0..bytes.len()).step_by(89) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Part::decode(&changed).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn a_campaign_of_another_shape_is_refused_in_spite_of_its_checksum() {
        let mut other = part();
        other.campaign.twin_groups.pop();
        let bytes = other.encode().unwrap();
        assert!(matches!(Part::decode(&bytes), Err(Broken::Content(_))));
    }
}
