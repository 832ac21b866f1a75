//! Chances of the places of a ring: any of them changes, and one is drawn, in a time that grows with the logarithm of
//! their number.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Children of a node: a cache line of chances.
const WIDTH: usize = 16;

#[derive(Clone)]
#[repr(align(64))]
struct Line([f32; WIDTH]);

/// What is below each child: the sum, and the smallest chance that is not 0.
#[derive(Clone)]
#[repr(C, align(64))]
struct Node {
    sums: [f64; WIDTH],
    least: [f32; WIDTH],
}

/// A sum tree with a minimum. Sums are always those of their children in order, never changed by differences, so that
/// they depend on the chances alone and nothing drifts. [`put`](Self::put) and [`fill`](Self::fill) count from the next
/// [`settle`](Self::settle) on.
#[derive(Clone)]
pub(super) struct Tree {
    size: usize,
    lines: Vec<Line>,
    /// From the one above the lines to the root.
    levels: Vec<Vec<Node>>,
    /// Lines that changed, then nodes of one level after the other.
    changed: Vec<Range<usize>>,
}

impl Tree {
    /// A tree of `size` places, 1 or more, all of chance 0.
    pub(super) fn new(size: usize) -> Self {
        let mut count = size.div_ceil(WIDTH);
        let lines = vec![Line([0.0; WIDTH]); count];
        let mut levels = Vec::new();
        while levels.is_empty() || count > 1 {
            count = count.div_ceil(WIDTH);
            levels.push(vec![Node { sums: [0.0; WIDTH], least: [f32::INFINITY; WIDTH] }; count]);
        }
        Self { size, lines, levels, changed: Vec::new() }
    }

    /// Places.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The chance of a place.
    #[inline]
    pub(super) fn get(&self, at: usize) -> f32 {
        self.lines[at / WIDTH].0[at % WIDTH]
    }

    /// Sets the chance of a place.
    #[inline]
    pub(super) fn put(&mut self, at: usize, chance: f32) {
        debug_assert!(at < self.size && chance >= 0.0 && chance.is_finite());
        self.lines[at / WIDTH].0[at % WIDTH] = chance;
        note(&mut self.changed, at / WIDTH..at / WIDTH + 1);
    }

    /// Sets the chance of many places.
    pub(super) fn fill(&mut self, places: Range<usize>, chance: f32) {
        debug_assert!(places.end <= self.size && chance >= 0.0 && chance.is_finite());
        if places.is_empty() {
            return;
        }
        let lines = places.start / WIDTH..places.end.div_ceil(WIDTH);
        for (i, line) in lines.clone().zip(&mut self.lines[lines.clone()]) {
            let (from, to) = (places.start.saturating_sub(i * WIDTH), (places.end - i * WIDTH).min(WIDTH));
            line.0[from..to].fill(chance);
        }
        note(&mut self.changed, lines);
    }

    /// Sums up above what changed.
    pub(super) fn settle(&mut self) {
        let Self { lines, levels, changed, .. } = self;
        bound(changed, lines.len());
        for i in changed.iter().cloned().flatten() {
            let node = &mut levels[0][i / WIDTH];
            node.sums[i % WIDTH] = sum(&lines[i].0.map(f64::from));
            let some = lines[i].0.map(|chance| if chance > 0.0 { chance } else { f32::INFINITY });
            node.least[i % WIDTH] = smallest(some);
        }
        for above in 1..levels.len() {
            up(changed);
            let (below, level) = levels.split_at_mut(above);
            let (below, level) = (&below[above - 1], &mut level[0]);
            bound(changed, below.len());
            for i in changed.iter().cloned().flatten() {
                level[i / WIDTH].sums[i % WIDTH] = sum(&below[i].sums);
                level[i / WIDTH].least[i % WIDTH] = smallest(below[i].least);
            }
        }
        changed.clear();
    }

    fn root(&self) -> &Node {
        &self.levels[self.levels.len() - 1][0]
    }

    /// The sum of all chances.
    pub(super) fn total(&self) -> f64 {
        sum(&self.root().sums)
    }

    /// The smallest chance that is not 0; infinite if there is none.
    pub(super) fn least(&self) -> f32 {
        smallest(self.root().least)
    }

    /// Finds the places where the sum of the chances, in order, goes beyond numbers that are from 0 on and below the total,
    /// which is not 0: never one whose chance is 0. Each comes with place 0 and gets its own.
    ///
    /// All of them go down level by level, so that none waits for another's memory.
    pub(super) fn find(&self, found: &mut [(usize, f64)]) {
        for level in self.levels.iter().rev() {
            for (at, x) in &mut *found {
                let (child, rest) = child(&level[*at].sums, *x);
                (*at, *x) = (*at * WIDTH + child, rest);
            }
        }
        for (at, x) in found {
            *at = *at * WIDTH + child(&self.lines[*at].0.map(f64::from), *x).0;
        }
    }
}

/// Where the numbers begin and end if they lie one behind the other, summed up by fours: few additions wait for others.
#[inline]
fn bounds(numbers: &[f64; WIDTH]) -> [f64; WIDTH + 1] {
    let (mut bounds, mut before) = ([0.0; WIDTH + 1], 0.0);
    for (four, bounds) in numbers.as_chunks::<4>().0.iter().zip(bounds[1..].as_chunks_mut::<4>().0) {
        let two = four[0] + four[1];
        let three = two + four[2];
        *bounds = [before + four[0], before + two, before + three, before + (three + four[3])];
        before = bounds[3];
    }
    bounds
}

#[inline]
fn sum(numbers: &[f64; WIDTH]) -> f64 {
    bounds(numbers)[WIDTH]
}

/// The smallest number.
#[inline]
fn smallest(numbers: [f32; WIDTH]) -> f32 {
    let smaller = |a: f32, b: f32| if a < b { a } else { b };
    let mut least = [f32::INFINITY; 4];
    for four in numbers.as_chunks::<4>().0 {
        least = std::array::from_fn(|i| smaller(least[i], four[i]));
    }
    smaller(smaller(least[0], least[1]), smaller(least[2], least[3]))
}

/// Which child `x` falls to, and how far into it.
#[inline]
fn child(sums: &[f64; WIDTH], x: f64) -> (usize, f64) {
    let bounds = bounds(sums);
    // Counted, not searched: a branch would be guessed wrong. A child without a chance repeats the bound and so is passed.
    let child = bounds[1..].iter().map(|end| usize::from(*end <= x)).sum();
    if child < WIDTH {
        return (child, x - bounds[child]);
    }
    // What is left of `x` may be rounded to more than there is.
    let last = sums.iter().rposition(|sum| *sum > 0.0).expect("a chance that is not 0");
    (last, sums[last])
}

/// Adds a range, to the last one if they touch.
#[inline]
fn note(changed: &mut Vec<Range<usize>>, range: Range<usize>) {
    match changed.last_mut() {
        Some(last) if (last.start..=last.end).contains(&range.start) => last.end = last.end.max(range.end),
        _ => changed.push(range),
    }
}

/// The nodes above.
fn up(changed: &mut Vec<Range<usize>>) {
    let mut kept = 0;
    for i in 0..changed.len() {
        let above = changed[i].start / WIDTH..changed[i].end.div_ceil(WIDTH);
        if kept > 0 && (changed[kept - 1].start..=changed[kept - 1].end).contains(&above.start) {
            changed[kept - 1].end = changed[kept - 1].end.max(above.end);
        } else {
            changed[kept] = above;
            kept += 1;
        }
    }
    changed.truncate(kept);
}

/// More ranges than nodes are all nodes.
fn bound(changed: &mut Vec<Range<usize>>, nodes: usize) {
    if changed.len() > nodes {
        changed.truncate(1);
        changed[0] = 0..nodes;
    }
}

/// A tree is stored as its chances.
impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.size).map(|at| self.get(at)))
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let chances = Vec::<f32>::deserialize(deserializer)?;
        let legal = |chance: &f32| chance.is_finite() && *chance >= 0.0;
        if chances.is_empty() || !chances.iter().all(legal) {
            return Err(serde::de::Error::custom("chances are 1 or more finite numbers from 0 on"));
        }
        let mut tree = Self::new(chances.len());
        for (at, chance) in chances.into_iter().enumerate() {
            tree.put(at, chance);
        }
        tree.settle();
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::replay::draws::Draws;

    fn tree(chances: &[f32]) -> Tree {
        let mut tree = Tree::new(chances.len());
        chances.iter().enumerate().for_each(|(at, chance)| tree.put(at, *chance));
        tree.settle();
        tree
    }

    fn find(tree: &Tree, x: f64) -> usize {
        let mut found = [(0, x)];
        tree.find(&mut found);
        found[0].0
    }

    /// The sum in the order of the tree: by fours, and four of those.
    fn total(chances: &[f32]) -> f64 {
        let mut sums: Vec<f64> = chances.iter().map(|chance| f64::from(*chance)).collect();
        loop {
            let fours = sums.chunks(4).map(|sums| sums.iter().sum::<f64>()).collect::<Vec<_>>();
            sums = fours.chunks(4).map(|sums| sums.iter().sum()).collect();
            if let [sum] = sums[..] {
                return sum;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// I9: the total is that of the chances, whatever changed in which order; the minimum likewise.
        #[test]
        fn i9_sums_are_those_of_the_chances(
            size in 1..700_usize,
            changes in vec((0..700_usize, 0..300_usize, 0..5_u8, any::<bool>()), 1..60),
        ) {
            let (mut tree, mut list) = (Tree::new(size), vec![0.0_f32; size]);
            for (at, len, exponent, settle) in changes {
                let (at, chance) = (at % size, [0.0, 1e-30, 0.3, 7.0, 1e30][usize::from(exponent)]);
                let end = (at + len).min(size);
                if len < 100 {
                    tree.put(at, chance);
                    list[at] = chance;
                } else {
                    tree.fill(at..end, chance);
                    list[at..end].fill(chance);
                }
                if settle {
                    tree.settle();
                    prop_assert_eq!(tree.total(), total(&list));
                }
            }
            tree.settle();
            prop_assert_eq!(tree.total(), total(&list));
            let least = list.iter().copied().filter(|chance| *chance > 0.0).fold(f32::INFINITY, f32::min);
            prop_assert_eq!(tree.least(), least);
            prop_assert!((0..size).all(|at| tree.get(at) == list[at]));
        }

        /// Where sums are exact, `find` is a search from the left.
        #[test]
        fn what_is_found_is_where_the_sum_goes_beyond(
            chances in vec(prop_oneof![Just(0_u8), 0..9_u8], 1..700),
            places in vec(0.0..1.0_f64, 50),
        ) {
            let chances: Vec<f32> = chances.into_iter().map(f32::from).collect();
            let tree = tree(&chances);
            prop_assume!(tree.total() > 0.0);
            for x in places.into_iter().map(|part| part * tree.total()).flat_map(|x| [x, x.floor()]) {
                let mut below = 0.0;
                let found = chances.iter().position(|chance| {
                    below += f64::from(*chance);
                    below > x
                });
                prop_assert_eq!(Some(find(&tree, x)), found);
            }
        }
    }

    /// J11: a chance of 0 is never drawn, however small the others are and wherever it lies.
    #[test]
    fn j11_a_chance_of_zero_is_never_drawn() {
        for zero in [0, 1, 500, 998, 999] {
            let mut chances: Vec<f32> = (0..1_000).map(|i| 1e-20 * (1.0 + (i % 7) as f32)).collect();
            chances[zero] = 0.0;
            chances[(zero + 3) % 1_000] = 1.0e4;
            let (tree, mut draws) = (tree(&chances), Draws::new(zero as u64));
            let total = tree.total();
            let ends = [0.0, f64::MIN_POSITIVE, total - total * f64::EPSILON / 2.0, total];
            let drawn = (0..2_000_000).map(|_| draws.unit() * total);
            for x in drawn.chain(ends) {
                let at = find(&tree, x);
                assert!(at < 1_000 && at != zero, "{x} gives {at}");
            }
        }
        // Nothing but zeros around the only chance, in a tree that is not full.
        for (size, only) in [(1, 0), (17, 16), (4_097, 0), (4_097, 4_096), (5_000, 2_222)] {
            let mut chances = vec![0.0; size];
            chances[only] = 1e-30;
            let tree = tree(&chances);
            assert!([0.0, tree.total() * (1.0 - f64::EPSILON), tree.total()].iter().all(|x| find(&tree, *x) == only));
        }
    }

    /// J12: the first and the last of equal chances are as likely as the others.
    #[test]
    fn j12_equal_chances() {
        let tree = tree(&[1.0; 4]);
        assert_eq!(tree.total(), 4.0);
        let mut counts = [0; 4];
        (0..4_000).for_each(|i| counts[find(&tree, f64::from(i) * 1e-3)] += 1);
        assert_eq!(counts, [1_000; 4]);
    }

    #[test]
    fn a_stored_tree_is_the_same_and_a_wrong_one_refused() {
        let tree = tree(&(0..100).map(|i| (i % 3) as f32).collect::<Vec<_>>());
        let text = serde_json::to_string(&tree).expect("numbers");
        let again: Tree = serde_json::from_str(&text).expect("the same numbers");
        assert_eq!((again.total(), again.least(), again.size()), (tree.total(), tree.least(), 100));
        for wrong in ["[]", "[1.0, -1.0]", "[1e60]", "3"] {
            assert!(serde_json::from_str::<Tree>(wrong).is_err(), "{wrong}");
        }
    }
}
