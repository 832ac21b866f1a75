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
            node.sums[i % WIDTH] = lines[i].0.iter().fold(0.0, |sum, chance| sum + f64::from(*chance));
            let some = lines[i].0.map(|chance| if chance > 0.0 { chance } else { f32::INFINITY });
            node.least[i % WIDTH] = some.into_iter().fold(f32::INFINITY, f32::min);
        }
        for above in 1..levels.len() {
            up(changed);
            let (below, level) = levels.split_at_mut(above);
            let (below, level) = (&below[above - 1], &mut level[0]);
            bound(changed, below.len());
            for i in changed.iter().cloned().flatten() {
                level[i / WIDTH].sums[i % WIDTH] = below[i].sums.iter().sum();
                level[i / WIDTH].least[i % WIDTH] = below[i].least.into_iter().fold(f32::INFINITY, f32::min);
            }
        }
        changed.clear();
    }

    fn root(&self) -> &Node {
        &self.levels[self.levels.len() - 1][0]
    }

    /// The sum of all chances.
    pub(super) fn total(&self) -> f64 {
        self.root().sums.iter().sum()
    }

    /// The smallest chance that is not 0; infinite if there is none.
    pub(super) fn least(&self) -> f32 {
        self.root().least.into_iter().fold(f32::INFINITY, f32::min)
    }

    /// The place where the sum of the chances, in order, goes beyond `x`, which is from 0 on and below the total: never
    /// one whose chance is 0. The total is not 0.
    #[inline]
    pub(super) fn find(&self, mut x: f64) -> usize {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let (child, rest) = child(&level[at].sums, x);
            (at, x) = (at * WIDTH + child, rest);
        }
        at * WIDTH + child(&self.lines[at].0.map(f64::from), x).0
    }
}

/// Which child `x` falls to, and how far into it.
#[inline]
fn child(sums: &[f64; WIDTH], x: f64) -> (usize, f64) {
    let (mut sum, mut before, mut child) = (0.0, 0.0, 0);
    for one in sums {
        sum += one;
        // No branch, which would be guessed wrong; a child without a chance repeats the sum and so is passed.
        child += usize::from(sum <= x);
        before = if sum <= x { sum } else { before };
    }
    if child < WIDTH {
        return (child, x - before);
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
