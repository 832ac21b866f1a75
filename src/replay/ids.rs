//! Trajectories by their ids.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
};

/// A value for each of some trajectories. Writers look up all of a block's while samplers wait.
pub(super) type ById<V> = HashMap<u64, V, Keyed>;

/// Hashes an id by one multiplication, under a key of the map's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed(u64);

/// The hash of what was written so far.
pub(super) struct IdHasher(u64);

impl Default for Keyed {
    fn default() -> Self {
        // The key of one of std's maps: a hostile file cannot know it, and nothing depends on it but places in this one.
        Self(HashMap::<u64, ()>::new().hasher().hash_one(0_u64))
    }
}

impl BuildHasher for Keyed {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    /// Both halves of a product, so that every bit counts in every bit.
    fn write_u64(&mut self, id: u64) {
        let product = u128::from(self.0 ^ id) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn neighbours_lie_apart() {
        let ids = (0..4).flat_map(|worker| (0..1_000_u64).map(move |serial| worker << 48 | serial));
        let hashes: Vec<_> = ids.map(|id| Keyed(7).hash_one(id)).collect();
        // A map looks at the low bits and at the seven highest ones.
        let low: HashSet<_> = hashes.iter().map(|hash| hash % 4_096).collect();
        let high: HashSet<_> = hashes.iter().map(|hash| hash >> 57).collect();
        assert!(low.len() > 2_000 && high.len() == 128, "{} and {} places", low.len(), high.len());
    }
}
