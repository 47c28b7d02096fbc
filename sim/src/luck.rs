//! Luck: one stream of random words for model requests and one for proposed tool calls, per run.
//!
//! A stream is ChaCha8 keyed by (seed, scenario) with the run number as its nonce, so each run's luck
//! is addressed directly and no run depends on another. The n-th model request of a run owns
//! [`MODEL_WORDS`] words and the k-th proposed tool call [`TOOL_WORDS`], always at the same position:
//! whatever a policy does, it meets the same luck, and comparisons are paired. Words are consumed in
//! sequence; a stream is sought only when a run is forked.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use sha2::{Digest, Sha256};

/// Words that one model request owns.
pub const MODEL_WORDS: usize = 16;
/// Words that one proposed tool call owns.
pub const TOOL_WORDS: usize = 8;
/// Words generated at a time.
const BUFFER: usize = 64;

/// What each word of a model request decides. Ordinal 0 of the model stream belongs to the run as a
/// whole and has its own positions ([`run`]).
pub mod model {
    #![allow(missing_docs)]
    pub const FAULT: usize = 0;
    pub const CACHE: usize = 1;
    pub const OUTPUT: usize = 2;
    pub const REASONING: usize = 3;
    pub const LATENCY: usize = 4;
    pub const BATCH: usize = 5;
    pub const SPIKE: usize = 6;
    pub const SPIKE_SIZE: usize = 7;
    pub const SYNTHESIS_ONLY: usize = 8;
    pub const TOOLS_WITHHELD: usize = 9;
    pub const BUDGET_NOTICE: usize = 10;
    pub const WINDOW: usize = 11;
    pub const REPORTING: usize = 12;
    pub const KILL: usize = 13;
    pub const TAIL_LOSS: usize = 14;
    /// What a rate limit tells to wait; of a completed turn, whether its text holds a valid value.
    pub const RETRY_AFTER: usize = 15;
    /// The error of the prompt's estimate. Shares its word with the obedience that only families
    /// without estimates ask for.
    pub const ESTIMATE: usize = SYNTHESIS_ONLY;
}

/// What each word of a proposed tool call decides.
pub mod tool {
    #![allow(missing_docs)]
    pub const CHOICE: usize = 0;
    pub const REPEAT: usize = 1;
    pub const WHICH: usize = 2;
    pub const STATUS: usize = 3;
    pub const SIZE: usize = 4;
    /// Latency of a call that runs; the fresh window draw of one that is refused, skipped or denied.
    pub const LATENCY_OR_WINDOW: usize = 5;
    pub const RECORD: usize = 6;
    /// The kill behind this call; other words made of it are in [`super::purpose`].
    pub const KILL: usize = 7;
}

/// What the words of ordinal 0 of the model stream decide, once a run.
pub mod run {
    #![allow(missing_docs)]
    pub const DEMAND: usize = 0;
    pub const FINAL_OUTPUT: usize = 1;
    pub const BASE_INPUT: usize = 2;
    pub const KIND: usize = 3;
    pub const GIVES_UP: usize = 4;
}

/// The key of all streams of one scenario under one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LuckKey([u8; 32]);

impl LuckKey {
    /// Derives the key: SHA-256 of the seed and the scenario's name.
    pub fn new(seed: u64, scenario: &str) -> LuckKey {
        let mut hasher = Sha256::new();
        hasher.update(b"holdback luck 1\0");
        hasher.update(seed.to_le_bytes());
        hasher.update(scenario.as_bytes());
        LuckKey(hasher.finalize().into())
    }
}

/// The luck of one run at a time; `start` moves it to another.
#[derive(Clone, Debug)]
pub struct Luck {
    models: Stream<MODEL_WORDS>,
    tools: Stream<TOOL_WORDS>,
}

impl Luck {
    /// The streams of a scenario, standing at run 0.
    pub fn new(key: LuckKey) -> Luck {
        Luck {
            models: Stream::new(key),
            tools: Stream::new(key),
        }
    }

    /// Moves to the beginning of a run and returns the words of the run as a whole.
    pub fn start(&mut self, run: u64) -> [u32; MODEL_WORDS] {
        self.models.start(2 * run);
        self.tools.start(2 * run + 1);
        *self.models.next()
    }

    /// The words of the next model request.
    pub fn model(&mut self) -> &[u32; MODEL_WORDS] {
        self.models.next()
    }

    /// The words of the next model request, which stay there.
    pub fn peek_model(&mut self) -> &[u32; MODEL_WORDS] {
        self.models.peek()
    }

    /// The words of the next proposed tool call.
    pub fn tool(&mut self) -> &[u32; TOOL_WORDS] {
        self.tools.next()
    }
}

/// A stream of which `W` words are taken at a time; `W` divides the buffer.
#[derive(Clone, Debug)]
struct Stream<const W: usize> {
    rng: ChaCha8Rng,
    words: [u32; BUFFER],
    at: usize,
}

impl<const W: usize> Stream<W> {
    fn new(key: LuckKey) -> Stream<W> {
        const { assert!(BUFFER.is_multiple_of(W)) }
        Stream {
            rng: ChaCha8Rng::from_seed(key.0),
            words: [0; BUFFER],
            at: BUFFER,
        }
    }

    fn start(&mut self, nonce: u64) {
        // In this order: a generator that stands within a block would fill it once more for the nonce.
        self.rng.set_word_pos(0);
        self.rng.set_stream(nonce);
        self.at = BUFFER;
    }

    #[inline]
    fn next(&mut self) -> &[u32; W] {
        if self.at == BUFFER {
            self.fill();
        }
        let from = self.at;
        self.at += W;
        self.words_from(from)
    }

    #[inline]
    fn peek(&mut self) -> &[u32; W] {
        if self.at == BUFFER {
            self.fill();
        }
        self.words_from(self.at)
    }

    fn fill(&mut self) {
        let mut bytes = [0; 4 * BUFFER];
        self.rng.fill_bytes(&mut bytes);
        let (words, _) = bytes.as_chunks::<4>();
        for (word, bytes) in self.words.iter_mut().zip(words) {
            *word = u32::from_le_bytes(*bytes);
        }
        self.at = 0;
    }

    #[inline]
    fn words_from(&self, from: usize) -> &[u32; W] {
        self.words[from..from + W]
            .try_into()
            .expect("W words are left because W divides the buffer")
    }
}

/// A word for another decision than the one that `word` was drawn for: number `purpose` of the words
/// that can be made of it, independent of `word` as far as any threshold can tell (the finaliser of
/// MurmurHash3, a bijection).
#[inline]
pub fn another(word: u32, purpose: u32) -> u32 {
    let mut mixed = word.wrapping_add(purpose.wrapping_mul(0x9E37_79B9));
    mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x85EB_CA6B);
    mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xC2B2_AE35);
    mixed ^ (mixed >> 16)
}

/// What [`another`] word is for.
pub mod purpose {
    /// From the word of a kill: whether the newest durable item is lost.
    pub const TAIL_LOSS: u32 = 1;
    /// From the word of the loss: how long the restart takes.
    pub const DOWNTIME: u32 = 2;
    /// From the word of a kill: whether the process dies behind the call's second execution; the
    /// third has the next number, and so on.
    pub const SECOND_EXECUTION: u32 = 3;
    /// From the word that chooses which call is repeated: whether it is the one repeated last.
    pub const REPEAT_SAME: u32 = 1;
}

/// The uniform in (0, 1) that a word stands for: the middle of its 2^-32 cell, so neither 0 nor 1.
#[inline]
pub fn uniform(word: u32) -> f64 {
    (f64::from(word) + 0.5) * (1.0 / 4_294_967_296.0)
}

/// An event of a fixed probability, decided by comparing a word with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// Never happens.
    pub const NEVER: Chance = Chance(0);

    /// A probability, rounded to a multiple of 2^-32; values outside 0..=1 are clamped.
    pub fn new(probability: f64) -> Chance {
        Chance((probability.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64)
    }

    /// Whether it happens for this word.
    #[inline]
    pub fn happens(self, word: u32) -> bool {
        u64::from(word) < self.0
    }

    /// True if it can happen at all.
    pub fn possible(self) -> bool {
        self.0 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_draws_the_same_words_whatever_was_drawn_from_the_other_stream() {
        let key = LuckKey::new(7, "s");
        let (mut a, mut b) = (Luck::new(key), Luck::new(key));
        a.start(41);
        b.start(3);
        b.model();
        b.tool();
        b.start(41);
        for _ in 0..20 {
            b.tool();
        }
        for _ in 0..9 {
            assert_eq!(a.model(), b.model());
        }
    }

    #[test]
    fn runs_scenarios_and_seeds_have_different_luck() {
        let words = |seed, scenario, run| Luck::new(LuckKey::new(seed, scenario)).start(run);
        let first = words(7, "s", 0);
        assert_eq!(first, words(7, "s", 0));
        assert_ne!(first, words(8, "s", 0));
        assert_ne!(first, words(7, "t", 0));
        assert_ne!(first, words(7, "s", 1));
    }

    #[test]
    fn another_word_is_spread_evenly_where_the_first_is_small() {
        let low = (0..40_000_u32).filter(|word| another(*word, purpose::DOWNTIME) < 1 << 30);
        let count = low.count();
        // A quarter, within four standard errors.
        assert!((10_000_i64 - count as i64).abs() < 4 * 87, "{count}");
        assert_ne!(another(5, 1), another(5, 2));
    }

    #[test]
    fn certain_and_impossible_chances_are_exact() {
        assert!(!Chance::new(0.0).happens(0));
        assert!(Chance::new(1.0).happens(u32::MAX));
        assert!(Chance::new(0.5).happens((1 << 31) - 1));
        assert!(!Chance::new(0.5).happens(1 << 31));
    }
}
