//! Looking at what is there, without a sampler.

use std::ops::Range;

use super::{
    Replay, Sample,
    ring::State,
    sampler::{Layout, Pick},
    view::View,
};
use crate::{
    components::{End, TrajectoryId},
    error::Error,
    task::Task,
};

/// A trajectory of which a buffer holds frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// The episode.
    pub id: TrajectoryId,
    /// Number of the oldest of its frames that is there.
    pub first: u64,
    /// Frames that are there.
    pub frames: u32,
    /// How it ended; running if it goes on, or its end was never written.
    pub end: End,
    /// Whether its end is there.
    pub complete: bool,
    /// Whether its first frames are not there: overwritten, or never written.
    pub beheaded: bool,
}

impl<T: Task> Replay<T> {
    /// Numbers of the frames that are there, from 0 in the order of writing.
    pub fn frames(&self) -> Range<u64> {
        let window = self.ring().map(|ring| ring.lock().window).unwrap_or_default();
        window.tail..window.head
    }

    /// The trajectories of which frames are there, the one with the oldest frame first.
    pub fn trajectories(&self) -> Vec<Stored> {
        let Some(ring) = self.ring() else { return Vec::new() };
        let state = ring.lock();
        let mut all: Vec<_> = self.stored(&state).map(|(_, stored)| stored).collect();
        all.sort_unstable_by_key(|stored| stored.first);
        all
    }

    /// The trajectories of which frames are there, each with its place in the index.
    pub(super) fn stored<'s>(&self, state: &'s State) -> impl Iterator<Item = (u32, Stored)> + use<'s, T> {
        let window = state.window;
        state.index.live().iter().filter_map(move |at| {
            let record = state.index.record(*at);
            let first = record.frame(0, window)?;
            let complete = record.complete(window);
            let end = if complete { record.end } else { End::RUNNING };
            let beheaded = record.beheaded(window);
            Some((*at, Stored { id: record.id, first, frames: record.len(window), end, complete, beheaded }))
        })
    }

    /// Copies frames, by number and in any order. Errors: a number that is not among [`frames`](Self::frames); an edit
    /// that is not done by the buffer's deadline.
    pub fn read(&self, frames: &[u64]) -> Result<Sample<T>, Error> {
        let mut sample = Sample::default();
        let Some(ring) = self.ring() else {
            return if frames.is_empty() { Ok(sample) } else { Err(absent(frames, 0..0)) };
        };
        let mut state = ring.lock_to_read(self.config().deadline)?;
        let there = state.window.tail..state.window.head;
        if frames.iter().any(|frame| !there.contains(frame)) {
            return Err(absent(frames, there));
        }
        let picks: Vec<_> = frames.iter().map(|frame| Pick { frame: *frame, len: 1, weight: 1.0 }).collect();
        sample.begin(&View { ring, state: &state }, &picks, Layout::default(), 0);
        let Some(oldest) = sample.oldest() else { return Ok(sample) };
        let pin = ring.pin(&mut state, oldest);
        drop(state);
        sample.gather(ring, &pin, None);
        Ok(sample)
    }
}

fn absent(frames: &[u64], there: Range<u64>) -> Error {
    let frame = frames.iter().find(|frame| !there.contains(frame)).copied().unwrap_or_default();
    Error::config("frame", frame, format!("those that are there, {there:?}"))
}
