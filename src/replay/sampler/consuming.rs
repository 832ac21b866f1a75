use serde::{Deserialize, Serialize};

use super::{Draw, Pick, Sampling};
use crate::{
    error::Error,
    replay::{draws::Draws, view::View},
};

/// Every frame at most `uses` times, and at most once in a batch; all that have uses left with the same chance. A frame
/// that was used up is never drawn by this sampler again.
///
/// Used-up frames leave the buffer, for every sampler of it, as soon as no older frame has uses left: frames lie in the order
/// of writing, so that trajectories stay whole, and new ones take the place of the oldest. Its
/// [`len`](crate::replay::Replay::len) and its limiter count those that are left.
///
/// A batch is smaller when fewer frames have uses left; the iteration of a [`Sampler`](crate::replay::Sampler) ends when
/// none has, and goes on when others were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consuming {
    /// How often a frame is drawn: 1 to 255.
    pub uses: u8,
}

impl Consuming {
    pub(super) fn check(&self, errors: &mut Vec<Error>) {
        if self.uses == 0 {
            errors.push(Error::config("uses", 0, "1 to 255"));
        }
    }

    pub(super) fn open(&self, capacity: u64) -> Result<Box<dyn Draw>, Error> {
        if u32::try_from(capacity).is_err() {
            return Err(Error::config("capacity", capacity, "at most 4,294,967,295 frames to be consumed"));
        }
        Ok(Box::new(Pool { uses: self.uses, capacity, seen: 0, left: Vec::new(), places: Vec::new(), sum: 0 }))
    }
}

/// Frames are known by their place, the number modulo the capacity.
#[derive(Serialize, Deserialize)]
struct Pool {
    uses: u8,
    capacity: u64,
    /// Frames below this number were taken note of.
    seen: u64,
    /// By place: the uses that its frame has left.
    left: Vec<u8>,
    /// Places whose frames have any, in no order.
    places: Vec<u32>,
    /// Uses that are left in all.
    sum: u64,
}

impl Pool {
    /// The newest frame at a place.
    fn frame(&self, place: u32) -> u64 {
        self.seen - 1 - (self.seen - 1 - u64::from(place)) % self.capacity
    }

    /// Takes uses from the frame of the `i`-th of the places.
    fn take(&mut self, i: usize, uses: u8) {
        let left = &mut self.left[self.places[i] as usize];
        *left -= uses;
        self.sum -= u64::from(uses);
        if *left == 0 {
            self.places.swap_remove(i);
        }
    }
}

impl Draw for Pool {
    fn used_up_below(&self, view: &View<'_>) -> u64 {
        let mut there = view.window().tail..self.seen;
        there.find(|frame| self.left[(frame % self.capacity) as usize] > 0).unwrap_or(self.seen)
    }

    fn is_of(&self, sampling: &Sampling) -> bool {
        *sampling == Sampling::Consuming(Consuming { uses: self.uses })
    }

    fn check(&self, view: &View<'_>) -> Result<(), String> {
        let Self { uses, capacity, seen, ref left, ref places, sum } = *self;
        let known = left.len() as u64 == seen.min(capacity);
        if capacity != view.ring.capacity() || seen > view.window().head || !known {
            return Err(format!("it has seen {seen} frames, {} of {capacity} places", left.len()));
        }
        let total: u64 = left.iter().copied().map(u64::from).sum();
        if total != sum || left.iter().any(|left| *left > uses) {
            return Err(format!("its frames have {total} uses left, not {sum}, or one has more than {uses}"));
        }
        let (mut places, some) = (places.clone(), left.iter().zip(0..).filter(|(left, _)| **left > 0));
        places.sort_unstable();
        if !places.into_iter().eq(some.map(|(_, place)| place)) {
            return Err("it has not every place once whose frame has uses left".into());
        }
        Ok(())
    }

    fn catch_up(&mut self, view: &View<'_>) {
        let window = view.window();
        self.left.resize(window.head.min(self.capacity) as usize, 0);
        for frame in self.seen.max(window.tail)..window.head {
            let place = (frame % self.capacity) as usize;
            if self.left[place] == 0 {
                self.places.push(place as u32);
            }
            self.sum += u64::from(self.uses - self.left[place]);
            self.left[place] = self.uses;
        }
        self.seen = window.head;
    }

    fn draw(&mut self, view: &View<'_>, n: usize, draws: &mut Draws, picks: &mut Vec<Pick>) -> Result<(), Error> {
        let mut drawn = 0;
        while drawn < n && drawn < self.places.len() {
            let other = drawn + draws.below((self.places.len() - drawn) as u64) as usize;
            let frame = self.frame(self.places[other]);
            if frame < view.window().tail {
                // It is being overwritten: what comes in its place is taken note of when it is there.
                let left = self.left[self.places[other] as usize];
                self.take(other, left);
                continue;
            }
            self.places.swap(drawn, other);
            picks.push(Pick { frame, len: 1, weight: 1.0 });
            drawn += 1;
        }
        // From behind: the places that fill gaps are none of those drawn.
        (0..drawn).rev().for_each(|i| self.take(i, 1));
        if drawn == 0 && n > 0 {
            let problem = "every frame in the replay buffer was used up; write others first".into();
            return Err(Error::State { call: "sample", problem });
        }
        Ok(())
    }

    fn ran_out(&self) -> bool {
        self.places.is_empty()
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.sum)
    }
}
