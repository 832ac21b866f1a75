//! Which frames are which trajectory's: kept as they are written, so that no search ever looks at the columns.

mod check;

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::components::{End, TrajectoryId};

/// Frames of a trajectory that lie equally far apart: `first`, `first + step` …
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    pub first: u64,
    pub step: u32,
    pub len: u32,
}

impl Piece {
    /// Its frame number `i`.
    #[inline]
    pub(super) fn frame(&self, i: u32) -> u64 {
        self.first + u64::from(i) * u64::from(self.step)
    }

    fn last(&self) -> u64 {
        self.frame(self.len - 1)
    }

    /// How many of its frames are below `bound`.
    #[inline]
    fn below(&self, bound: u64) -> u32 {
        if self.last() < bound {
            return self.len;
        }
        bound.saturating_sub(self.first).div_ceil(u64::from(self.step)).min(u64::from(self.len)) as u32
    }

    /// What of it lies in the window.
    #[inline]
    fn within(&self, window: &Window) -> Self {
        let (from, to) = (self.below(window.tail), self.below(window.head));
        Self { first: self.frame(from), step: self.step, len: to - from.min(to) }
    }
}

/// The frames that are there: from `tail` to below `head`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub tail: u64,
    pub head: u64,
}

/// A trajectory, also one of which the ring holds a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub id: TrajectoryId,
    /// Step of the first frame that was written.
    pub first_step: u32,
    /// Frames that were written, also those that are gone.
    pub frames: u32,
    pub end: End,
    /// Pieces before the newest; empty unless several writers take turns.
    earlier: Vec<Piece>,
    newest: Piece,
    /// Its place among the live ones.
    place: u32,
}

impl Record {
    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.earlier.iter().chain(std::iter::once(&self.newest))
    }

    /// Its pieces, as far as they lie in the window.
    #[inline]
    pub(super) fn within(&self, window: Window) -> impl Iterator<Item = Piece> {
        self.pieces().map(move |piece| piece.within(&window)).filter(|piece| piece.len > 0)
    }

    /// Its frames in the window.
    #[inline]
    pub(super) fn len(&self, window: Window) -> u32 {
        self.within(window).map(|piece| piece.len).sum()
    }

    /// Whether its end was written.
    pub(super) fn complete(&self, window: Window) -> bool {
        self.end.ends_episode() && self.newest.last() < window.head
    }

    /// Whether the frames of its beginning are not there: overwritten, or never written.
    pub(super) fn beheaded(&self, window: Window) -> bool {
        let oldest = self.pieces().next().map_or(0, |piece| piece.first);
        self.first_step > 0 || oldest < window.tail || self.pieces().map(|piece| piece.len).sum::<u32>() < self.frames
    }

    /// The pieces of `len` of its frames from `frame` on, at most as many as the window holds.
    #[inline]
    pub(super) fn from(&self, frame: u64, len: u32, window: Window, mut f: impl FnMut(Piece)) {
        let (mut left, mut found) = (len, false);
        for piece in self.within(window) {
            let skip = if found {
                0
            } else {
                let at = frame.wrapping_sub(piece.first);
                if frame < piece.first || !at.is_multiple_of(u64::from(piece.step)) || frame > piece.last() {
                    continue;
                }
                (at / u64::from(piece.step)) as u32
            };
            found = true;
            let take = left.min(piece.len - skip);
            f(Piece { first: piece.frame(skip), step: piece.step, len: take });
            left -= take;
            if left == 0 {
                return;
            }
        }
    }

    /// Its `i`-th frame in the window.
    #[inline]
    pub(super) fn frame(&self, mut i: u32, window: Window) -> Option<u64> {
        for piece in self.within(window) {
            if i < piece.len {
                return Some(piece.frame(i));
            }
            i -= piece.len;
        }
        None
    }
}

/// The trajectories of which the ring holds frames, with the observation that followed the newest frame of each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Index {
    records: Vec<Record>,
    free: Vec<u32>,
    /// Those in use, in no order that means anything.
    live: Vec<u32>,
    /// Those that go on, by id.
    #[serde(serialize_with = "check::by_id")]
    open: HashMap<u64, u32>,
    /// Newest frames of trajectories as they were, ascending: when that frame goes, and it is the newest still, all do.
    deaths: VecDeque<(u64, u32)>,
    /// By record.
    #[serde(skip)]
    finals: Vec<u8>,
    /// Bytes of an observation.
    #[serde(skip)]
    width: usize,
}

impl Index {
    pub(super) fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Places of the records in use.
    pub(super) fn live(&self) -> &[u32] {
        &self.live
    }

    #[inline]
    pub(super) fn record(&self, at: u32) -> &Record {
        &self.records[at as usize]
    }

    /// The record that frames of `id` from `step` on belong to: that of the frame before, or a new one.
    pub(super) fn open(&mut self, id: TrajectoryId, step: u32) -> u32 {
        if let Some(at) = self.open.get(&id.0) {
            let record = self.record(*at);
            if record.first_step.wrapping_add(record.frames) == step {
                return *at;
            }
        }
        let at = self.free.pop().unwrap_or(self.records.len() as u32);
        let place = self.live.len() as u32;
        let newest = Piece { first: 0, step: 1, len: 0 };
        if at as usize == self.records.len() {
            let record =
                Record { id, first_step: step, frames: 0, end: End::RUNNING, earlier: Vec::new(), newest, place };
            self.records.push(record);
            self.finals.resize(self.records.len() * self.width, 0);
        } else {
            let record = &mut self.records[at as usize];
            let earlier = std::mem::take(&mut record.earlier);
            *record = Record { id, first_step: step, frames: 0, end: End::RUNNING, earlier, newest, place };
        }
        self.live.push(at);
        self.open.insert(id.0, at);
        at
    }

    /// Adds frames to a record; `end` is how the last of them ended the episode. They count once the window reaches them.
    pub(super) fn grow(&mut self, at: u32, piece: Piece, end: End, window: Window) {
        let record = &mut self.records[at as usize];
        record.frames += piece.len;
        record.end = end;
        let newest = &mut record.newest;
        if newest.len == 0 {
            *newest = piece;
        } else if newest.step == piece.step && newest.frame(newest.len) == piece.first {
            newest.len += piece.len;
        } else {
            record.earlier.retain(|piece| piece.last() >= window.tail);
            record.earlier.push(std::mem::replace(newest, piece));
        }
        if end.ends_episode() && self.open.get(&record.id.0) == Some(&at) {
            self.open.remove(&record.id.0);
        }
        self.deaths.push_back((piece.last(), at));
    }

    /// What followed the newest frame of a record.
    pub(super) fn last_observation(&self, at: u32) -> &[u8] {
        &self.finals[at as usize * self.width..][..self.width]
    }

    pub(super) fn set_last_observation(&mut self, at: u32, observation: &[u8]) {
        self.finals[at as usize * self.width..][..self.width].copy_from_slice(observation);
    }

    /// Forgets the trajectories whose newest frame is below `tail`.
    pub(super) fn evict(&mut self, tail: u64) {
        while let Some((last, at)) = self.deaths.pop_front_if(|(last, _)| *last < tail) {
            let record = &mut self.records[at as usize];
            if record.newest.len == 0 || record.newest.last() != last {
                continue;
            }
            record.newest.len = 0;
            record.earlier.clear();
            let (id, place) = (record.id.0, record.place as usize);
            if self.open.get(&id) == Some(&at) {
                self.open.remove(&id);
            }
            self.live.swap_remove(place);
            if let Some(moved) = self.live.get(place) {
                self.records[*moved as usize].place = place as u32;
            }
            self.free.push(at);
        }
    }

    /// Bytes held, without what allocators add.
    pub(super) fn memory(&self) -> usize {
        let pieces: usize = self.records.iter().map(|record| record.earlier.capacity()).sum();
        self.records.capacity() * size_of::<Record>()
            + pieces * size_of::<Piece>()
            + (self.free.capacity() + self.live.capacity()) * size_of::<u32>()
            + (self.open.capacity() + self.deaths.capacity()) * size_of::<(u64, u32)>()
            + self.finals.capacity()
    }
}
