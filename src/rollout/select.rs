//! Choosing frames of a batch: minibatches, and smaller batches for post-processing.

use super::{
    batch::Batch,
    block::{Block, Final, Layout},
};
use crate::{
    error::Error,
    seed::{Purpose, Seed, Stream},
    task::Task,
};

/// Disjoint random parts of a batch's frames, by [`Batch::minibatches`].
#[derive(Clone, Debug)]
pub struct Minibatches {
    order: Vec<usize>,
    parts: usize,
    next: usize,
}

impl Iterator for Minibatches {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        if self.next == self.parts {
            return None;
        }
        let bound = |part: usize| self.order.len() * part / self.parts;
        let part = self.order[bound(self.next)..bound(self.next + 1)].to_vec();
        self.next += 1;
        Some(part)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.parts - self.next, Some(self.parts - self.next))
    }
}

impl ExactSizeIterator for Minibatches {}

impl<T: Task> Batch<T> {
    /// Cuts the frames into `n` disjoint random parts whose sizes differ by at most one: lists of slots. Slots without
    /// a frame are in none. The same seed gives the same parts. With more parts than frames some are empty; `n` 0 is
    /// taken as 1.
    pub fn minibatches(&self, n: usize, seed: u64) -> Minibatches {
        let mut order: Vec<usize> = (0..self.len()).filter(|i| self.flags()[*i].valid()).collect();
        let mut stream = Stream::new(Seed(seed), 0, Purpose::Shuffle, 0);
        // Fisher and Yates 1938, in Durstenfeld's form.
        for i in (1..order.len()).rev() {
            order.swap(i, stream.below(i as u32 + 1) as usize);
        }
        Minibatches { order, parts: n.max(1), next: 0 }
    }

    /// A flat batch of the frames at `slots`, in that order, copied; what followed each of them is kept. The result
    /// holds no arena. Errors: [`Error::Config`] for a slot outside the batch or without a frame.
    pub fn select(&self, slots: &[usize]) -> Result<Self, Error> {
        if let Some(slot) = slots.iter().find(|slot| **slot >= self.len() || !self.flags()[**slot].valid()) {
            let legal = format!("slots below {} that hold a frame", self.len());
            return Err(Error::config("slot", slot, legal));
        }
        let mut block = Box::new(Block::new(self.specs.len()));
        block.shape(&self.specs, Layout::Flat { frames: slots.len() });
        for (i, spec) in self.specs.iter().enumerate() {
            let from = self.block().columns[i].bytes();
            let to = block.columns[i].bytes_mut();
            for (to, slot) in to.chunks_exact_mut(spec.stride).zip(slots) {
                to.copy_from_slice(&from[slot * spec.stride..(slot + 1) * spec.stride]);
            }
        }
        let next = slots.iter().enumerate().map(|(frame, slot)| (frame, *self.next_observation(*slot)));
        block.finals.extend(next.map(|(frame, observation)| Final { frame, observation }));
        block.frames = slots.len();
        for (frame, slot) in slots.iter().enumerate() {
            block.states.keep(&self.block().states, *slot, frame);
        }
        let ids: std::collections::HashSet<_> = block.ids().iter().copied().collect();
        block.trajectories.extend(self.trajectories().iter().filter(|trajectory| ids.contains(&trajectory.id)));
        Ok(Self {
            block: Some(block),
            specs: self.specs.clone(),
            critic: self.critic.clone(),
            pool: None,
            index: self.index,
        })
    }
}
