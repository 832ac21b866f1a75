//! Which weights act for which rows.

use std::ops::Range;

/// Versions of the weights that act in a tick, by policy. Each policy acts for a range of slots.
#[derive(Debug, PartialEq, Eq)]
pub struct Versions(Vec<(Range<u32>, u64)>);

impl Default for Versions {
    /// One policy for all slots.
    fn default() -> Self {
        Self::of_ranges(std::iter::once(0..u32::MAX))
    }
}

impl Clone for Versions {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    // Each tick takes a copy: into the memory that is there.
    fn clone_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

impl Versions {
    /// Version 0 for each of the policies that act for these slots.
    pub fn of_ranges(ranges: impl IntoIterator<Item = Range<u32>>) -> Self {
        Self(ranges.into_iter().map(|range| (range, 0)).collect())
    }

    /// Replaces everything by a version a slot, from slot 0 on.
    pub(crate) fn set_by_slot(&mut self, versions: impl Iterator<Item = u64>) {
        self.0.clear();
        self.0.extend((0..).zip(versions).map(|(slot, version)| (slot..slot + 1, version)));
    }

    /// The version that acts in `slot`; 0 if no policy does.
    #[inline]
    pub fn of(&self, slot: u32) -> u64 {
        // Where each slot has its own, it is found at once.
        if let Some((range, version)) = self.0.get(slot as usize)
            && range.contains(&slot)
        {
            return *version;
        }
        self.0.iter().find(|(range, _)| range.contains(&slot)).map_or(0, |(_, version)| *version)
    }

    /// The version of policy number `policy`; 0 if there is none.
    pub fn get(&self, policy: usize) -> u64 {
        self.0.get(policy).map_or(0, |(_, version)| *version)
    }

    /// Replaces the version of policy number `policy`, if there is one.
    pub fn set(&mut self, policy: usize, version: u64) {
        if let Some(place) = self.0.get_mut(policy) {
            place.1 = version;
        }
    }

    /// The versions, by policy.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(_, version)| *version)
    }

    /// The slots below `rows` of each policy, and its version.
    pub fn runs(&self, rows: usize) -> impl Iterator<Item = (Range<usize>, u64)> {
        self.0.iter().map(move |(range, version)| {
            let bound = |slot: u32| (slot as usize).min(rows);
            (bound(range.start)..bound(range.end), *version)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_the_version_of_its_range() {
        let mut versions = Versions::of_ranges([4..9, 0..4]);
        versions.set(0, 7);
        versions.set(1, 2);
        versions.set(2, 5);
        assert_eq!([0, 3, 4, 8, 9].map(|slot| versions.of(slot)), [2, 2, 7, 7, 0]);
        assert_eq!(versions.iter().collect::<Vec<_>>(), [7, 2]);
        assert_eq!(versions.runs(6).collect::<Vec<_>>(), [(4..6, 7), (0..4, 2)]);
        versions.set_by_slot([3, 1, 4].into_iter());
        assert_eq!([0, 1, 2, 3].map(|slot| versions.of(slot)), [3, 1, 4, 0]);
        assert_eq!(Versions::default().runs(3).collect::<Vec<_>>(), [(0..3, 0)]);
    }
}
