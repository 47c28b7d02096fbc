//! Counts by opaque identity: how often each call, denial or result was seen in a run.
//!
//! A run sees tens of identities and an engine asks millions of runs a second about them, so this
//! is an open-addressing table that allocates nothing once it is warm and forgets in time
//! proportional to what it holds. Entries keep the order of their first appearance: iteration,
//! serialisation and comparison do not depend on hash values.

use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How often each 64-bit identity was counted.
#[derive(Debug, Default)]
pub struct Counts {
    entries: Vec<Entry>,
    /// Index into `entries` plus one; zero is free. The length is a power of two. Empty in a copy
    /// that nothing was counted in yet: checkpoints are copies, and most are never taken up.
    slots: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: NonZeroU64,
    count: u32,
    slot: u32,
}

const FIRST_SLOTS: usize = 64;
/// 2^64 divided by the golden ratio: spreads keys that differ in few bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Counts {
    /// Counts nothing and allocates nothing.
    pub const fn new() -> Counts {
        Counts {
            entries: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Counts `key` once more and returns the new count. Of a set of identities, 1 means new.
    pub fn add(&mut self, key: NonZeroU64) -> u32 {
        // At most half of the slots are taken, so a probe ends soon.
        if self.slots.len() < 2 * (self.entries.len() + 1) {
            self.grow();
        }
        match self.find(key) {
            Ok(index) => {
                let entry = &mut self.entries[index];
                entry.count = entry.count.saturating_add(1);
                entry.count
            }
            Err(slot) => {
                self.insert(slot, key, 1);
                1
            }
        }
    }

    /// How often `key` was counted.
    pub fn get(&self, key: NonZeroU64) -> u32 {
        if self.slots.is_empty() {
            let entry = self.entries.iter().find(|entry| entry.key == key);
            return entry.map_or(0, |entry| entry.count);
        }
        self.find(key).map_or(0, |index| self.entries[index].count)
    }

    /// How many different identities were counted.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        if !self.slots.is_empty() {
            for entry in &self.entries {
                self.slots[entry.slot as usize] = 0;
            }
        }
        self.entries.clear();
    }

    /// All identities with their counts, in the order of their first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (NonZeroU64, u32)> {
        self.entries.iter().map(|entry| (entry.key, entry.count))
    }

    /// The index of the entry of `key`, or the free slot where it belongs.
    fn find(&self, key: NonZeroU64) -> Result<usize, usize> {
        let slots = self.slots.as_slice();
        let mask = slots.len() - 1;
        let mut slot = (key.get().wrapping_mul(SPREAD) >> 32) as usize;
        loop {
            let place = slot & mask;
            match slots[place] {
                0 => return Err(place),
                taken => {
                    let index = taken as usize - 1;
                    if self.entries[index].key == key {
                        return Ok(index);
                    }
                }
            }
            slot += 1;
        }
    }

    fn insert(&mut self, slot: usize, key: NonZeroU64, count: u32) {
        self.entries.push(Entry {
            key,
            count,
            slot: slot as u32,
        });
        self.slots[slot] = self.entries.len() as u32;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * (self.entries.len() + 1))
            .next_power_of_two()
            .max(FIRST_SLOTS);
        self.slots.clear();
        self.slots.resize(size, 0);
        for index in 0..self.entries.len() {
            let key = self.entries[index].key;
            if let Err(slot) = self.find(key) {
                self.slots[slot] = index as u32 + 1;
                self.entries[index].slot = slot as u32;
            }
        }
    }
}

impl Clone for Counts {
    fn clone(&self) -> Counts {
        Counts {
            entries: self.entries.clone(),
            slots: Vec::new(),
        }
    }

    /// Reuses memory.
    fn clone_from(&mut self, source: &Counts) {
        self.entries.clone_from(&source.entries);
        self.slots.clear();
    }
}

impl PartialEq for Counts {
    fn eq(&self, other: &Counts) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Counts {}

impl FromIterator<(NonZeroU64, u32)> for Counts {
    /// The first of equal keys wins; a count of zero is no entry.
    fn from_iter<I: IntoIterator<Item = (NonZeroU64, u32)>>(pairs: I) -> Counts {
        let mut counts = Counts::new();
        for (key, count) in pairs {
            if count > 0
                && counts.add(key) == 1
                && let Some(entry) = counts.entries.last_mut()
            {
                entry.count = count;
            }
        }
        counts
    }
}

/// A list of pairs: the table itself is no part of the state.
impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Counts, D::Error> {
        Vec::<(NonZeroU64, u32)>::deserialize(deserializer).map(Counts::from_iter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn key(value: u64) -> NonZeroU64 {
        NonZeroU64::new(value).unwrap()
    }

    proptest::proptest! {
        #[test]
        fn counts_agree_with_an_ordered_map_through_growth_clearing_and_cloning(
            keys in proptest::collection::vec(1_u64..400, 0..600),
            stride in proptest::sample::select(vec![1_u64, 64, 1 << 32, SPREAD]),
            clear_at in 0_usize..600,
        ) {
            let mut counts = Counts::new();
            let mut reused = Counts::new();
            let mut expected = BTreeMap::new();
            for (index, value) in keys.into_iter().enumerate() {
                if index == clear_at {
                    counts.clear();
                    expected.clear();
                }
                let key = key(value.wrapping_mul(stride) | 1);
                let count: &mut u32 = expected.entry(key).or_default();
                *count += 1;
                proptest::prop_assert_eq!(counts.add(key), *count);
                let known = reused.get(key);
                reused.add(key);
                proptest::prop_assert_eq!(reused.get(key), known + 1);
                reused.clone_from(&counts);
            }
            for (key, count) in &expected {
                proptest::prop_assert_eq!(reused.get(*key), *count);
            }
            proptest::prop_assert_eq!(reused.len(), expected.len());
            let text = serde_json::to_string(&counts).unwrap();
            let restored: Counts = serde_json::from_str(&text).unwrap();
            proptest::prop_assert_eq!(restored, counts);
        }
    }

    #[test]
    fn an_identity_that_was_never_counted_counts_zero() {
        let mut counts = Counts::new();
        assert_eq!(counts.get(key(7)), 0);
        counts.add(key(8));
        assert_eq!(counts.get(key(7)), 0);
        counts.clear();
        assert_eq!(counts.get(key(8)), 0);
        assert!(counts.is_empty());
    }

    #[test]
    fn entries_keep_the_order_of_their_first_appearance() {
        let counts: Counts = [3, 1, 2].into_iter().map(|value| (key(value), 5)).collect();
        let order: Vec<u64> = counts.iter().map(|(key, _)| key.get()).collect();
        assert_eq!(order, [3, 1, 2]);
    }
}
