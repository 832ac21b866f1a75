//! Where slices may start in a trajectory.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Pick;
use crate::{
    error::Error,
    replay::{draws::Draws, index::Record, view::View},
};

/// Which slices a trajectory has. They are numbered by where they start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Starts {
    pub len: u32,
    /// Whether a trajectory that is shorter than a slice is one.
    pub whole: bool,
    /// Frames by which slices reach out of the trajectory, before and behind.
    pub span: (u32, u32),
}

impl Starts {
    /// Frames of the slices of a trajectory of `frames` frames before they are cut, and how many start before its first
    /// and end behind its last frame: so few that one frame is left.
    fn reach(&self, frames: u32) -> (u32, u32, u32) {
        let len = self.len.min(frames);
        let most = len.saturating_sub(1);
        (len, self.span.0.min(most), self.span.1.min(most))
    }

    /// How many slices a trajectory of `frames` frames has.
    #[inline]
    pub(super) fn count(&self, frames: u32) -> u32 {
        if frames == 0 || (frames < self.len && !self.whole) {
            return 0;
        }
        let (len, before, behind) = self.reach(frames);
        frames - len + 1 + before + behind
    }

    /// Slice `start` of a trajectory of which the frames at `positions` are there.
    #[inline]
    pub(super) fn pick(&self, record: &Record, positions: Range<u32>, start: u32) -> Pick {
        let frames = positions.len() as u32;
        let (len, before, _) = self.reach(frames);
        let (first, end) = (start.saturating_sub(before), (start + len - before).min(frames));
        Pick { frame: record.at(positions.start + first), len: end - first, weight: 1.0 }
    }

    /// One of a trajectory's slices, all with the same chance; none if it has none.
    #[inline]
    pub(super) fn draw(&self, view: &View<'_>, record: u32, draws: &mut Draws) -> Option<Pick> {
        let record = view.trajectory(record);
        let positions = record.positions(view.window());
        match self.count(positions.len() as u32) {
            0 => None,
            count => Some(self.pick(record, positions, draws.below(u64::from(count)) as u32)),
        }
    }

    /// The error if no trajectory has a slice.
    pub(super) fn none(&self) -> Error {
        let problem = format!("no trajectory in the replay buffer has {} frames; collect longer ones, ", self.len);
        Error::State {
            call: "sample",
            problem: problem + "draw shorter slices, or take short trajectories as they are",
        }
    }
}
