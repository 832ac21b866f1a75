//! How a block of frames goes into the ring.

use std::time::Duration;

use super::{
    cells::Run,
    index::{Index, Piece, Window},
    ragged::Room,
    ring::Ring,
};
use crate::{
    components::{End, Episodes, Frames},
    error::Error,
};

/// What a write stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of the first frame; the others follow in the order of writing.
    pub first: u64,
    /// Frames.
    pub frames: u64,
    /// Episodes whose end was among them.
    pub trajectories: u64,
    /// Frames that the buffer had got when the last of these was in it.
    pub write_count: u64,
}

/// What a write needs to know of the block, and where it goes. Scratch of the writers, who take turns.
#[derive(Default)]
pub(super) struct Writer {
    /// By frame in ring order: its record.
    records: Vec<u32>,
    /// Frames to be copied, in ring order.
    copies: Vec<Run>,
    /// Records with the slot of the newest frame.
    newest: Vec<(u32, usize)>,
    /// By row: its record, and the tick of its first frame that is not in the index.
    rows: Vec<(u32, usize)>,
    /// Episodes that end in the block.
    ended: u64,
    /// What becomes of ragged columns.
    room: Room,
}

impl Writer {
    /// Writes all frames of the block, which no reader sees before the last one is there. More frames than the ring holds
    /// overwrite each other, the oldest first.
    pub(super) fn extend(&mut self, ring: &Ring, frames: &dyn Frames, deadline: Duration) -> Result<Written, Error> {
        let count = frames.frames() as u64;
        if count == 0 {
            let state = ring.lock();
            return Ok(Written { first: state.window.head, write_count: state.write_count(), ..Written::default() });
        }
        // Nobody else moves the window while writers take turns.
        self.room.make(ring, frames, ring.lock().window)?;
        let mut state = ring.reserve(count, &self.room, deadline)?;
        let (head, window) = (state.window.head, state.window);
        self.records.clear();
        self.copies.clear();
        self.newest.clear();
        self.ended = 0;
        let episodes = Episodes::of(frames);
        match frames.rows() {
            Some(rows) if frames.slots() == frames.frames() => {
                self.index_ticks(&mut state.index, &episodes, rows, window);
            }
            rows => self.index_runs(&mut state.index, &episodes, rows.unwrap_or(1), window),
        }
        drop(state);
        // What the block itself overwrites is not copied.
        let keep = self.room.keep;
        let skip = count.saturating_sub(ring.capacity()).max(keep.saturating_sub(head)) as usize;
        let mut at = 0;
        for copy in &self.copies {
            let gone = skip.saturating_sub(at).min(copy.len);
            let source = Run { first: copy.first + gone * copy.step, len: copy.len - gone, ..*copy };
            if source.len > 0 {
                ring.write(frames, source, head + (at + gone) as u64);
            }
            at += copy.len;
        }
        ring.write_records(&self.records[skip..], head + skip as u64);
        self.room.write(ring, frames, head, skip);
        let write_count = ring.show(count, keep, |index| {
            for (record, slot) in &self.newest {
                index.set_last_observation(*record, frames.next_observation(*slot));
            }
        });
        Ok(Written { first: head, frames: count, trajectories: self.ended, write_count })
    }

    /// Frames that lie as those before do are copied together with them.
    fn copy(&mut self, run: Run) {
        match self.copies.last_mut() {
            Some(last) if last.step == run.step && last.first + last.len * last.step == run.first => {
                last.len += run.len
            }
            _ => self.copies.push(run),
        }
    }

    /// A rollout without gaps goes in as it lies, tick by tick: its episodes are every `rows`-th frame.
    fn index_ticks(&mut self, index: &mut Index, episodes: &Episodes, rows: usize, window: Window) {
        let slots = episodes.ends.len();
        let piece = |row: usize, from: usize, to: usize| Piece {
            first: window.head + (from * rows + row) as u64,
            step: rows as u32,
            len: (to - from) as u32,
        };
        self.copies.push(Run { first: 0, step: 1, len: slots });
        self.rows.clear();
        self.rows.extend((0..rows).map(|row| (index.open(episodes.ids[row], episodes.steps[row].0), 0)));
        let last = slots / rows - 1;
        for tick in 0..last {
            self.records.extend(self.rows.iter().map(|(record, _)| record));
            let ends = &episodes.ends[tick * rows..(tick + 1) * rows];
            End::each_done(ends, |row| {
                if !ends[row].ends_episode() {
                    return;
                }
                let (record, from) = self.rows[row];
                index.grow(record, piece(row, from, tick + 1), ends[row], window);
                self.newest.push((record, tick * rows + row));
                self.ended += 1;
                let next = (tick + 1) * rows + row;
                self.rows[row] = (index.open(episodes.ids[next], episodes.steps[next].0), tick + 1);
            });
        }
        // Row by row, as their frames lie: the index hears of newest frames in their order.
        self.records.extend(self.rows.iter().map(|(record, _)| record));
        for (row, (record, from)) in self.rows.iter().enumerate() {
            let end = Some(episodes.ends[last * rows + row]).filter(|end| end.ends_episode());
            index.grow(*record, piece(row, *from, last + 1), end.unwrap_or(End::RUNNING), window);
            self.newest.push((*record, last * rows + row));
        }
    }

    /// Any other block: each run of frames that follow each other goes in by itself, the runs of a row one behind the
    /// other.
    fn index_runs(&mut self, index: &mut Index, episodes: &Episodes, rows: usize, window: Window) {
        let slots = episodes.ends.len();
        let mut at = window.head;
        for row in 0..rows {
            let mut slot = row;
            while slot < slots {
                if !episodes.flags[slot].valid() {
                    slot += rows;
                    continue;
                }
                let (first, mut last) = (slot, slot);
                while last + rows < slots && episodes.goes_on(last, last + rows) {
                    last += rows;
                }
                let len = (last - first) / rows + 1;
                let record = index.open(episodes.ids[first], episodes.steps[first].0);
                index.grow(record, Piece { first: at, step: 1, len: len as u32 }, episodes.ends[last], window);
                self.copy(Run { first, step: rows, len });
                self.records.extend(std::iter::repeat_n(record, len));
                self.newest.push((record, last));
                self.ended += u64::from(episodes.ends[last].ends_episode());
                at += len as u64;
                slot = last + rows;
            }
        }
    }
}
