//! How a block of frames goes into the ring.

use std::time::Duration;

use super::{
    cells::Run,
    index::{Index, Piece, Window},
    load::task_columns,
    ragged::Room,
    ring::Ring,
};
use crate::{
    components::{End, Episodes, Flags, Frames, column},
    error::Error,
    task::Task,
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

/// How many records ahead the memory is asked for what follows them.
const AHEAD: usize = 8;

/// What a write needs to know of the block, and where it goes. Scratch of the writers, who take turns.
#[derive(Default)]
pub(super) struct Writer {
    /// By frame in ring order: its record.
    records: Vec<u32>,
    /// Frames to be copied, in ring order.
    copies: Vec<Run>,
    /// Frames that follow each other, unless the block is a rollout without gaps.
    runs: Vec<Run>,
    /// Records with the slot of the newest frame.
    newest: Vec<(u32, usize)>,
    /// By row: its record, and the tick of its first frame that is not in the index.
    rows: Vec<(u32, usize)>,
    /// Slots of such a rollout at which other records begin than those of the tick before, ascending, and which.
    begun: Vec<(usize, u32)>,
    /// Episodes that end in the block.
    ended: u64,
    /// What becomes of ragged columns.
    room: Room,
}

/// Errors: a first block without the task's columns, columns that are shorter than their slots, other frames than are
/// marked, or slots that are no whole ticks.
pub(super) fn check<T: Task>(frames: &dyn Frames, first: bool) -> Result<(), Error> {
    let (slots, columns) = (frames.slots(), frames.columns());
    if columns.len() <= column::FLAGS || first && !columns.starts_with(&task_columns::<T>()) {
        let names: Vec<_> = columns.iter().map(|spec| &*spec.name).collect();
        let legal = "observation, action, reward, end, step, trajectory, flags and version of the task first";
        return Err(Error::config("columns", names.join(", "), legal));
    }
    for (i, spec) in columns.iter().enumerate() {
        let bytes = frames.bytes(i).len();
        if slots.checked_mul(spec.stride).is_none_or(|least| bytes < least) {
            let legal = format!("at least {} for each of {slots} slots", spec.stride);
            return Err(Error::config("column", format!("{:?} of {bytes} bytes", spec.name), legal));
        }
    }
    let flags: &[Flags] = bytemuck::cast_slice(&frames.bytes(column::FLAGS)[..slots]);
    let marked = flags.iter().filter(|flags| flags.valid()).count();
    if marked != frames.frames() {
        let legal = format!("the {marked} slots that are marked as frames");
        return Err(Error::config("frames", frames.frames(), legal));
    }
    match frames.rows() {
        Some(rows) if rows == 0 || !slots.is_multiple_of(rows) => {
            Err(Error::config("rows", rows, format!("a divisor of {slots} slots")))
        }
        _ => Ok(()),
    }
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
        self.clear();
        let episodes = Episodes::of(frames);
        let ticks = frames.rows().filter(|_| frames.slots() == frames.frames());
        match ticks {
            Some(_) => self.copies.push(Run { first: 0, step: 1, len: frames.slots() }),
            None => self.find_runs(&episodes, frames.rows().unwrap_or(1)),
        }
        // Nobody else moves the window while writers take turns.
        self.room.make(ring, frames, ring.lock().window)?;
        let mut state = ring.reserve(count, &self.room, deadline)?;
        let (head, window) = (state.window.head, state.window);
        match ticks {
            Some(rows) => self.index_ticks(&mut state.index, &episodes, rows, window),
            None => self.index_runs(&mut state.index, &episodes, window),
        }
        drop(state);
        match ticks {
            Some(rows) => self.list_ticks(frames.slots(), rows),
            None => self.list_runs(),
        }
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
            for (i, (record, slot)) in self.newest.iter().enumerate() {
                if let Some((later, _)) = self.newest.get(i + AHEAD) {
                    index.fetch_last(*later);
                }
                index.set_last_observation(*record, frames.next_observation(*slot));
            }
        });
        Ok(Written { first: head, frames: count, trajectories: self.ended, write_count })
    }

    fn clear(&mut self) {
        self.records.clear();
        self.copies.clear();
        self.runs.clear();
        self.newest.clear();
        self.rows.clear();
        self.begun.clear();
        self.ended = 0;
    }

    /// A rollout without gaps goes in as it lies, tick by tick: its episodes are every `rows`-th frame.
    fn index_ticks(&mut self, index: &mut Index, episodes: &Episodes, rows: usize, window: Window) {
        let piece = |row: usize, from: usize, to: usize| Piece {
            first: window.head + (from * rows + row) as u64,
            step: rows as u32,
            len: (to - from) as u32,
        };
        self.rows.extend((0..rows).map(|row| (index.open(episodes.ids[row], episodes.steps[row].0), 0)));
        self.begun.extend(self.rows.iter().map(|(record, _)| *record).enumerate());
        let last = episodes.ends.len() / rows - 1;
        for tick in 0..last {
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
                let record = index.open(episodes.ids[next], episodes.steps[next].0);
                self.rows[row] = (record, tick + 1);
                self.begun.push((next, record));
            });
        }
        // Row by row, as their frames lie: the index hears of newest frames in their order.
        for (row, (record, from)) in self.rows.iter().enumerate() {
            let end = Some(episodes.ends[last * rows + row]).filter(|end| end.ends_episode());
            index.grow(*record, piece(row, *from, last + 1), end.unwrap_or(End::RUNNING), window);
            self.newest.push((*record, last * rows + row));
        }
    }

    /// Lists the records of a rollout's frames: those of the tick before, but for rows where another one begins.
    fn list_ticks(&mut self, slots: usize, rows: usize) {
        let mut begun = self.begun.iter().peekable();
        self.records.resize(rows, 0);
        for at in (0..slots / rows * rows).step_by(rows) {
            if at > 0 {
                self.records.extend_from_within(at - rows..);
            }
            while let Some((slot, record)) = begun.next_if(|(slot, _)| *slot < at + rows) {
                self.records[*slot] = *record;
            }
        }
    }

    /// Any other block: each run of frames that follow each other goes in by itself, the runs of a row one behind the
    /// other.
    fn find_runs(&mut self, episodes: &Episodes, rows: usize) {
        let slots = episodes.ends.len();
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
                let run = Run { first, step: rows, len: (last - first) / rows + 1 };
                self.runs.push(run);
                self.copy(run);
                slot = last + rows;
            }
        }
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

    fn index_runs(&mut self, index: &mut Index, episodes: &Episodes, window: Window) {
        let mut at = window.head;
        for Run { first, step, len } in &self.runs {
            let last = first + step * (len - 1);
            let record = index.open(episodes.ids[*first], episodes.steps[*first].0);
            index.grow(record, Piece { first: at, step: 1, len: *len as u32 }, episodes.ends[last], window);
            self.newest.push((record, last));
            self.ended += u64::from(episodes.ends[last].ends_episode());
            at += *len as u64;
        }
    }

    /// Lists the records of the runs' frames.
    fn list_runs(&mut self) {
        for (run, (record, _)) in self.runs.iter().zip(&self.newest) {
            self.records.extend(std::iter::repeat_n(*record, run.len));
        }
    }
}
