//! Blocks of made-up frames whose every column says which frame it is, and a model of a buffer that is a list.

use std::collections::VecDeque;

use bytemuck::{bytes_of, cast_slice, cast_slice_mut};
use gleaner::{
    components::{ColumnSpec, End, EpisodeStep, Flags, Frames, TrajectoryId},
    data::Dtype,
    prelude::*,
};

/// A task that is never stepped. Observations are `[trajectory, step]`.
pub struct Made;

impl Task for Made {
    type Observation = [i32; 2];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(2)
    }
    fn action_space() -> Space {
        Space::discrete(1 << 30)
    }
}

/// One frame. Its action and reward are its serial number, its version the negative of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    pub serial: u32,
    pub id: u64,
    pub step: u32,
    pub end: End,
}

/// A block of frames.
pub struct Block {
    specs: Vec<ColumnSpec>,
    /// Words, so that values of any type are aligned.
    columns: Vec<Vec<u64>>,
    rows: Option<usize>,
    frames: usize,
    next: Vec<[i32; 2]>,
}

impl Block {
    /// A block with a frame, or none, in each slot; time-major if it has rows.
    pub fn new(slots: &[Option<Frame>], rows: Option<usize>) -> Self {
        let specs = vec![
            ColumnSpec::of::<[i32; 2]>("observation").leading(),
            ColumnSpec::of::<i32>("action"),
            ColumnSpec::scalar("reward", Dtype::F32),
            ColumnSpec::scalar("end", Dtype::U8),
            ColumnSpec::scalar("step", Dtype::U32),
            ColumnSpec::scalar("trajectory", Dtype::U64),
            ColumnSpec::scalar("flags", Dtype::U8),
            ColumnSpec::scalar("version", Dtype::U64),
        ];
        let mut columns = vec![Vec::new(); specs.len()];
        let mut next = Vec::new();
        for slot in slots {
            let blank = Frame { serial: 0, id: 0, step: 0, end: End::RUNNING };
            let (frame, flags) = slot.map_or((blank, Flags::INVALID), |frame| (frame, Flags::VALID));
            let Frame { serial, id, step, end } = frame;
            columns[0].extend_from_slice(cast_slice(&[id as i32, step as i32]));
            columns[1].extend_from_slice(&(serial as i32).to_ne_bytes());
            columns[2].extend_from_slice(&(serial as f32).to_ne_bytes());
            columns[3].extend_from_slice(bytes_of(&end));
            columns[4].extend_from_slice(bytes_of(&EpisodeStep(step)));
            columns[5].extend_from_slice(bytes_of(&TrajectoryId(id)));
            columns[6].extend_from_slice(bytes_of(&flags));
            columns[7].extend_from_slice(&u64::from(!serial).to_ne_bytes());
            next.push([id as i32, step as i32 + 1]);
        }
        let columns = columns.iter().map(|bytes| words(bytes)).collect();
        Self { specs, columns, rows, frames: slots.iter().flatten().count(), next }
    }

    /// The block with versions by serial number.
    pub fn versions(mut self, version: impl Fn(u32) -> u64) -> Self {
        let serials = self.bytes(1).chunks_exact(4).map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap()));
        self.columns[7] = serials.map(version).collect();
        self
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0; bytes.len().div_ceil(8)];
    cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

impl Frames for Block {
    fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }
    fn bytes(&self, i: usize) -> &[u8] {
        &cast_slice(&self.columns[i])[..self.slots() * self.specs[i].stride]
    }
    fn slots(&self) -> usize {
        self.next.len()
    }
    fn frames(&self) -> usize {
        self.frames
    }
    fn rows(&self) -> Option<usize> {
        self.rows
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        bytes_of(&self.next[i])
    }
}

/// Rows whose episodes end as a script of bytes says.
pub struct Source {
    /// By row: id and step of the coming frame.
    rows: Vec<(u64, u32)>,
    serial: u32,
    ids: u64,
}

impl Source {
    pub fn new(rows: usize, worker: u64) -> Self {
        let ids = worker << 20;
        Self { rows: (1..=rows as u64).map(|row| (ids + row, 0)).collect(), serial: 0, ids: ids + rows as u64 }
    }

    /// Goes on counting serial numbers from another source's.
    pub fn set_serial(&mut self, serial: u32) {
        self.serial = serial;
    }

    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// `ticks` frames of each row, time-major. A byte below `ends` ends an episode, one of 255 leaves the slot empty.
    pub fn ticks(&mut self, ticks: usize, ends: u8, script: &mut impl FnMut() -> u8) -> Vec<Option<Frame>> {
        let rows = self.rows.len();
        (0..ticks * rows).map(|slot| self.frame(slot % rows, ends, script())).collect()
    }

    /// Whole episodes of these lengths, one behind the other.
    pub fn episodes(&mut self, lengths: &[usize]) -> Vec<Option<Frame>> {
        let mut frames = Vec::new();
        for length in lengths {
            for step in 0..*length {
                let end = if step + 1 == *length { 0 } else { 1 };
                frames.push(self.frame(0, 1, end));
            }
        }
        frames
    }

    fn frame(&mut self, row: usize, ends: u8, byte: u8) -> Option<Frame> {
        if byte == 255 {
            return None;
        }
        let (id, step) = self.rows[row];
        let end = match byte {
            byte if byte >= ends => End::RUNNING,
            byte => End::from_env(byte % 2 == 0, byte % 2 == 1),
        };
        self.rows[row] = if end == End::RUNNING {
            (id, step + 1)
        } else {
            self.ids += 1;
            (self.ids, 0)
        };
        self.serial += 1;
        Some(Frame { serial: self.serial - 1, id, step, end })
    }
}

/// What a buffer should hold: the last `capacity` frames in the order of writing.
#[derive(Clone, Debug)]
pub struct Model {
    pub capacity: usize,
    pub frames: VecDeque<Frame>,
    pub written: u64,
}

impl Model {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, frames: VecDeque::new(), written: 0 }
    }

    /// Takes a block: time-major ones without gaps tick by tick, all others row by row.
    pub fn extend(&mut self, slots: &[Option<Frame>], rows: Option<usize>) {
        let rows = rows.unwrap_or(1);
        let whole = slots.iter().all(Option::is_some);
        let order: Vec<usize> = if whole {
            (0..slots.len()).collect()
        } else {
            (0..rows).flat_map(|row| (row..slots.len()).step_by(rows)).collect()
        };
        for frame in order.into_iter().filter_map(|slot| slots[slot]) {
            self.frames.push_back(frame);
            self.written += 1;
            if self.frames.len() > self.capacity {
                self.frames.pop_front();
            }
        }
    }

    /// Number of the oldest frame.
    pub fn tail(&self) -> u64 {
        self.written - self.frames.len() as u64
    }

    /// The frame with this number.
    pub fn frame(&self, number: u64) -> Frame {
        self.frames[(number - self.tail()) as usize]
    }

    /// Numbers of the frames of trajectory `id`, by step.
    pub fn trajectory(&self, id: u64) -> Vec<u64> {
        let numbered = self.frames.iter().zip(self.tail()..);
        let mut of: Vec<_> =
            numbered.filter(|(frame, _)| frame.id == id).map(|(frame, number)| (frame.step, number)).collect();
        of.sort_unstable();
        of.into_iter().map(|(_, number)| number).collect()
    }

    /// Ids of the trajectories that are there.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<_> = self.frames.iter().map(|frame| frame.id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}
