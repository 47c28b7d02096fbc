//! Seeds: the search, each step of the proof and what is reported besides have luck of their own.

use sha2::{Digest, Sha256};

/// What runs are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Finding a candidate.
    Search,
    /// Proving the candidate of this step, from 1.
    Proof(u32),
    /// The steps less and more, and the closing call.
    Frontier,
    /// What changes the answer.
    Sensitivity,
}

/// The seed of a purpose: the first eight bytes, little endian, of the SHA-256 of
/// `holdback size 1\0`, the master seed (eight bytes, little endian), the purpose's word, and the
/// step (four bytes, little endian; 0 where there is none).
pub(crate) fn derive(master: u64, purpose: Purpose) -> u64 {
    let (word, step) = match purpose {
        Purpose::Search => ("search", 0),
        Purpose::Proof(step) => ("proof", step),
        Purpose::Frontier => ("frontier", 0),
        Purpose::Sensitivity => ("sensitivity", 0),
    };
    let mut hasher = Sha256::new();
    hasher.update(b"holdback size 1\0");
    hasher.update(master.to_le_bytes());
    hasher.update(word.as_bytes());
    hasher.update(step.to_le_bytes());
    let digest = hasher.finalize();
    digest
        .iter()
        .take(8)
        .rev()
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_purposes_share_their_luck() {
        let mut seeds: Vec<u64> = [7, 8]
            .into_iter()
            .flat_map(|master| {
                [
                    Purpose::Search,
                    Purpose::Proof(1),
                    Purpose::Proof(2),
                    Purpose::Frontier,
                    Purpose::Sensitivity,
                ]
                .map(|purpose| derive(master, purpose))
            })
            .collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 10);
    }
}
