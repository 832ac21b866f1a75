//! What a sampler sees of the ring while it draws.

use std::ops::Range;

use bytemuck::Pod;

use super::{
    index::{Piece, Record, Window},
    ring::{Ring, State},
};
use crate::error::Error;

/// The ring with its lock held: nothing comes or goes.
pub(super) struct View<'a> {
    pub ring: &'a Ring,
    pub state: &'a State,
}

impl View<'_> {
    pub(super) fn window(&self) -> Window {
        self.state.window
    }

    /// Frames that are there.
    pub(super) fn len(&self) -> u64 {
        let Window { tail, head } = self.state.window;
        head - tail
    }

    /// The oldest frame and how many there are; an error if there is none.
    pub(super) fn frames(&self) -> Result<(u64, u64), Error> {
        match self.len() {
            0 => Err(Error::State { call: "sample", problem: "the replay buffer holds no frame".into() }),
            len => Ok((self.state.window.tail, len)),
        }
    }

    /// Places of the trajectories of which frames are there.
    pub(super) fn trajectories(&self) -> &[u32] {
        self.state.index.live()
    }

    #[inline]
    pub(super) fn trajectory(&self, at: u32) -> &Record {
        self.state.index.record(at)
    }

    /// Place of the trajectory that begins where the next frame of a trajectory's row lies, if that has ended: in rollouts
    /// the row's next episode, elsewhere the one that was written behind.
    pub(super) fn next_trajectory(&self, at: u32) -> Option<u32> {
        let window = self.window();
        let record = self.trajectory(at);
        let first = record.behind().filter(|first| *first < window.head && record.complete(window))?;
        let next = self.trajectory_of(first);
        let begins = next != at && !self.trajectory(next).beheaded(window) && self.trajectory(next).at(0) == first;
        begins.then_some(next)
    }

    /// Place of the trajectory of a frame that is there.
    #[inline]
    pub(super) fn trajectory_of(&self, frame: u64) -> u32 {
        self.ring.record_of(self.state, frame)
    }

    /// How many frames of its trajectory are there from `frame` on, at most `most`.
    #[inline]
    pub(super) fn ahead(&self, frame: u64, most: u32) -> u32 {
        let trajectory = self.trajectory(self.trajectory_of(frame));
        (trajectory.positions(self.window()).end - trajectory.position(frame)).min(most)
    }

    /// The frame of its trajectory that lies `n` before `frame`, if it is there.
    #[inline]
    pub(super) fn behind(&self, frame: u64, n: u32) -> Option<u64> {
        let (record, window) = (self.trajectory(self.trajectory_of(frame)), self.window());
        let position = record.position(frame).checked_sub(n)?;
        record.positions(window).contains(&position).then(|| record.at(position))
    }

    /// How many values of column `i` were edited so far: what was read before the last of them may be another now.
    pub(super) fn edits(&self, i: usize) -> u64 {
        self.state.edits[i]
    }

    /// Calls `f` with each of these frames, which are there, and its value of column `i`, which has the size of `V`.
    pub(super) fn each<V: Pod>(&self, i: usize, frames: Range<u64>, mut f: impl FnMut(u64, V)) {
        let mut values = [V::zeroed(); 512];
        let mut first = frames.start;
        while first < frames.end {
            let len = (frames.end - first).min(values.len() as u64) as u32;
            let values = &mut values[..len as usize];
            let to = bytemuck::cast_slice_mut(values);
            self.ring.read_shown(self.state, i, Piece { first, step: 1, len }, to);
            values.iter().zip(first..).for_each(|(value, frame)| f(frame, *value));
            first += u64::from(len);
        }
    }
}
