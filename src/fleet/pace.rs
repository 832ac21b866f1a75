//! How far workers that deliver on their own run ahead of who uses their batches.

use std::collections::VecDeque;

/// Says when a worker begins a batch, and which batch has its turn, so that at most `most` others are taken between the
/// order of a batch and its own turn.
///
/// A batch is ordered only if it could be the last one to be taken of all that are under way, and one that has come is
/// taken unless another would then be late. So there is always an order that keeps the promise, and nothing is discarded.
pub(super) struct Pace<I> {
    most: u64,
    /// Batches taken so far.
    taken: u64,
    /// In the order in which they were ordered.
    under_way: VecDeque<UnderWay<I>>,
    /// By worker: number of its newest order.
    newest: Vec<u64>,
    orders: u64,
}

struct UnderWay<I> {
    worker: usize,
    /// Batches that were taken when it was ordered.
    since: u64,
    /// What the worker sent; none while it is being made.
    item: Option<I>,
}

impl<I> Pace<I> {
    pub(super) fn new(most: u64, workers: usize) -> Self {
        Self { most, taken: 0, under_way: VecDeque::new(), newest: vec![0; workers], orders: 0 }
    }

    /// Orders a batch, if one more may be under way, of that worker among `workers` which makes none now and whose last
    /// order was given first.
    pub(super) fn order(&mut self, workers: impl Iterator<Item = usize>) -> Option<usize> {
        if self.under_way.len() as u64 > self.most {
            return None;
        }
        let worker = workers.filter(|worker| !self.waits_for(*worker)).min_by_key(|worker| self.newest[*worker])?;
        self.orders += 1;
        self.newest[worker] = self.orders;
        self.under_way.push_back(UnderWay { worker, since: self.taken, item: None });
        Some(worker)
    }

    /// Whether a worker makes a batch.
    pub(super) fn waits_for(&self, worker: usize) -> bool {
        self.under_way.iter().any(|batch| batch.worker == worker && batch.item.is_none())
    }

    /// Takes in what a worker was ordered to make.
    pub(super) fn came(&mut self, worker: usize, item: I) {
        let made = self.under_way.iter_mut().find(|batch| batch.worker == worker && batch.item.is_none());
        made.unwrap_or_else(|| unreachable!("nobody makes what was not ordered")).item = Some(item);
    }

    /// Whether a batch of a worker waits for its turn.
    pub(super) fn keeps(&self, worker: usize) -> bool {
        self.under_way.iter().any(|batch| batch.worker == worker && batch.item.is_some())
    }

    /// The next batch that has its turn, with its worker; none if it is not there yet.
    pub(super) fn next(&mut self) -> Option<(usize, I)> {
        let ready = |at: &usize| self.under_way[*at].item.is_some() && self.keeps_others(*at);
        let at = (0..self.under_way.len()).find(ready)?;
        let batch = self.under_way.remove(at)?;
        self.taken += 1;
        batch.item.map(|item| (batch.worker, item))
    }

    /// Whether all others can have their turns in time, one after the other, once this one has been taken.
    fn keeps_others(&self, taken: usize) -> bool {
        let others = self.under_way.iter().enumerate().filter(|(at, _)| *at != taken);
        (self.taken + 1..).zip(others).all(|(turn, (_, batch))| turn - batch.since <= self.most)
    }

    /// Waits for nothing more of a worker that has ended.
    pub(super) fn end(&mut self, worker: usize) {
        self.under_way.retain(|batch| batch.worker != worker || batch.item.is_some());
    }

    /// Forgets all that is of a worker that is lost.
    pub(super) fn lose(&mut self, worker: usize) {
        self.under_way.retain(|batch| batch.worker != worker);
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
