//! Which frames are which trajectory's: kept as they are written, so that no search ever looks at the columns.

mod check;

use std::{
    collections::{VecDeque, hash_map::Entry},
    ops::Range,
};

use serde::{Deserialize, Serialize};

use super::ids::ById;
pub(super) use super::turns::Window;
use crate::components::{End, TrajectoryId, fetch};

/// How many records ahead the memory is asked for them.
const AHEAD: usize = 8;

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
        if self.len == 0 || self.last() < bound {
            return self.len;
        }
        if bound <= self.first {
            return 0;
        }
        (bound - self.first).div_ceil(u64::from(self.step)).min(u64::from(self.len)) as u32
    }
}

/// A piece of a trajectory, and how many of its frames come before.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Span {
    at: u32,
    piece: Piece,
}

/// A trajectory, also one of which the ring holds a part. Its frames have positions, from 0 in the order of writing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub id: TrajectoryId,
    /// Step of the first frame that was written.
    pub first_step: u32,
    /// Frames that were written, also those that are gone.
    pub frames: u32,
    pub end: End,
    /// Pieces before the newest, as far as the window held them; empty unless several writers take turns.
    earlier: VecDeque<Span>,
    newest: Span,
    /// Its place among the live ones.
    place: u32,
}

impl Record {
    fn new(id: TrajectoryId, first_step: u32, place: u32) -> Self {
        let newest = Span { at: 0, piece: Piece { first: 0, step: 1, len: 0 } };
        Self { id, first_step, frames: 0, end: End::RUNNING, earlier: VecDeque::new(), newest, place }
    }

    #[inline]
    fn span(&self, i: usize) -> &Span {
        self.earlier.get(i).unwrap_or(&self.newest)
    }

    /// The last piece for which `begun` holds, or the first one.
    #[inline]
    fn find(&self, begun: impl Fn(&Span) -> bool) -> usize {
        if self.earlier.is_empty() || begun(&self.newest) {
            return self.earlier.len();
        }
        self.earlier.partition_point(begun).saturating_sub(1)
    }

    /// Position of its first frame from number `bound` on.
    #[inline]
    fn position_below(&self, bound: u64) -> u32 {
        let Span { at, piece } = self.span(self.find(|span| span.piece.first < bound));
        at + piece.below(bound)
    }

    /// Positions of its frames in the window.
    #[inline]
    pub(super) fn positions(&self, window: Window) -> Range<u32> {
        let begin = self.position_below(window.tail);
        begin..self.position_below(window.head).max(begin)
    }

    /// How many of its frames are in the window.
    #[inline]
    pub(super) fn len(&self, window: Window) -> u32 {
        self.positions(window).len() as u32
    }

    /// Position of one of its frames.
    #[inline]
    pub(super) fn position(&self, frame: u64) -> u32 {
        let Span { at, piece } = self.span(self.find(|span| span.piece.first <= frame));
        let beyond = frame - piece.first;
        at + if piece.step == 1 { beyond as u32 } else { (beyond / u64::from(piece.step)) as u32 }
    }

    /// The frame that follows one of its frames, if both are in the window.
    #[inline]
    pub(super) fn after(&self, frame: u64, window: Window) -> Option<u64> {
        let i = self.find(|span| span.piece.first <= frame);
        let piece = self.span(i).piece;
        let next = if frame < piece.last() {
            frame + u64::from(piece.step)
        } else if i < self.earlier.len() {
            self.span(i + 1).piece.first
        } else {
            return None;
        };
        (next < window.head).then_some(next)
    }

    /// Number of the frame at a position in the window.
    #[inline]
    pub(super) fn at(&self, position: u32) -> u64 {
        let Span { at, piece } = self.span(self.find(|span| span.at <= position));
        piece.frame(position - at)
    }

    /// Number of the `i`-th of its frames in the window.
    pub(super) fn frame(&self, i: u32, window: Window) -> Option<u64> {
        self.positions(window).nth(i as usize).map(|position| self.at(position))
    }

    /// The pieces of `len` of its frames, `stride` positions apart from `position` on; all of them are in the window.
    #[inline]
    pub(super) fn pieces(&self, mut position: u32, mut len: u32, stride: u32, mut f: impl FnMut(Piece)) {
        let mut i = self.find(|span| span.at <= position);
        while len > 0 {
            let Span { at, piece } = self.span(i);
            let there = piece.len.saturating_sub(position - at);
            if there > 0 {
                let take = if u64::from(there) > u64::from(len - 1) * u64::from(stride) {
                    len
                } else {
                    there.div_ceil(stride)
                };
                f(Piece { first: piece.frame(position - at), step: piece.step.wrapping_mul(stride), len: take });
                position = position.wrapping_add(take.wrapping_mul(stride));
                len -= take;
            }
            debug_assert!(len == 0 || i < self.earlier.len(), "frames that are there");
            i += 1;
        }
    }

    /// Number of the frame that lies where another one would follow.
    pub(super) fn behind(&self) -> Option<u64> {
        let Piece { len, step, .. } = self.newest.piece;
        (len > 0).then(|| self.newest.piece.last() + u64::from(step))
    }

    /// Whether its end was written.
    pub(super) fn complete(&self, window: Window) -> bool {
        self.end.ends_episode() && self.newest.piece.last() < window.head
    }

    /// Whether the frames of its beginning are not there: overwritten, or never written.
    pub(super) fn beheaded(&self, window: Window) -> bool {
        self.first_step > 0 || self.positions(window).start > 0
    }

    /// Adds a piece, and forgets those that the window has left. A list that it needs comes from `spare`.
    fn push(&mut self, piece: Piece, window: Window, spare: &mut Vec<VecDeque<Span>>) {
        let at = self.frames;
        self.frames += piece.len;
        let newest = &mut self.newest.piece;
        if newest.len == 0 {
            self.newest = Span { at, piece };
        } else if newest.step == piece.step && newest.frame(newest.len) == piece.first {
            newest.len += piece.len;
        } else {
            if self.earlier.capacity() == 0 {
                self.earlier = spare.pop().unwrap_or_default();
            }
            while self.earlier.pop_front_if(|span| span.piece.last() < window.tail).is_some() {}
            self.earlier.push_back(std::mem::replace(&mut self.newest, Span { at, piece }));
        }
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
    open: ById<u32>,
    /// Newest frames of trajectories as they were, ascending: when that frame goes, and it is the newest still, all do.
    deaths: VecDeque<(u64, u32)>,
    /// Empty lists of earlier pieces that no record has now: few records have any, and which ones changes all the time.
    #[serde(skip)]
    spare: Vec<VecDeque<Span>>,
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

    /// Whether there is a record at this place, in use or not.
    pub(super) fn has(&self, at: u32) -> bool {
        (at as usize) < self.records.len()
    }

    /// The record that frames of `id` from `step` on belong to: that of the frame before, or a new one.
    pub(super) fn open(&mut self, id: TrajectoryId, step: u32) -> u32 {
        let entry = self.open.entry(id.0);
        if let Entry::Occupied(entry) = &entry {
            let record = &self.records[*entry.get() as usize];
            if record.first_step.wrapping_add(record.frames) == step {
                return *entry.get();
            }
        }
        let at = self.free.pop().unwrap_or(self.records.len() as u32);
        entry.insert_entry(at);
        let place = self.live.len() as u32;
        if at as usize == self.records.len() {
            self.records.push(Record::new(id, step, place));
            self.finals.resize(self.records.len() * self.width, 0);
        } else {
            self.records[at as usize] = Record::new(id, step, place);
        }
        self.live.push(at);
        at
    }

    /// Adds frames to a record; `end` is how the last of them ended the episode. They count once the window reaches them.
    pub(super) fn grow(&mut self, at: u32, piece: Piece, end: End, window: Window) {
        let record = &mut self.records[at as usize];
        record.push(piece, window, &mut self.spare);
        record.end = end;
        if end.ends_episode() && self.open.get(&record.id.0) == Some(&at) {
            self.open.remove(&record.id.0);
        }
        self.deaths.push_back((piece.last(), at));
    }

    /// Asks the memory for what follows the newest frame of a record.
    pub(super) fn fetch_last(&self, at: u32) {
        fetch(self.last_observation(at));
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
            if let Some((_, later)) = self.deaths.get(AHEAD) {
                fetch(std::slice::from_ref(&self.records[*later as usize]));
            }
            let record = &mut self.records[at as usize];
            if record.newest.piece.len == 0 || record.newest.piece.last() != last {
                continue;
            }
            record.newest.piece.len = 0;
            if record.earlier.capacity() > 0 {
                let mut earlier = std::mem::take(&mut record.earlier);
                earlier.clear();
                self.spare.push(earlier);
            }
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
        let lists = self.records.iter().map(|record| &record.earlier).chain(&self.spare);
        let pieces: usize = lists.map(VecDeque::capacity).sum();
        self.records.capacity() * size_of::<Record>()
            + pieces * size_of::<Span>()
            + (self.free.capacity() + self.live.capacity()) * size_of::<u32>()
            + (self.open.capacity() + self.deaths.capacity()) * size_of::<(u64, u32)>()
            + self.finals.capacity()
    }
}
