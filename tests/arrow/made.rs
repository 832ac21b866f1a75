//! Blocks of frames whose columns are random bytes, of every type and shape that columns have.

use bytemuck::{bytes_of, cast_slice, cast_slice_mut};
use gleaner::{
    components::{ColumnSpec, End, Flags, Frames, Truncation},
    data::Dtype,
    prelude::*,
};

gleaner::data! {
    /// What a row sees.
    pub struct Scene {
        pub places: [[f32; 2]; 3],
        pub count: i32,
        pub pixels: [[[u8; 2]; 2]; 3],
    }
}

gleaner::data! {
    /// A column that is no task's.
    pub struct Extra {
        pub left: f32,
        pub right: [i32; 2],
    }
}

/// A task that is never stepped.
pub struct Made;

impl Task for Made {
    type Observation = Scene;
    type Action = [f32; 2];
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(7)
    }
    fn action_space() -> Space {
        Space::unbounded(2)
    }
}

/// The columns of a task's blocks.
pub fn columns<T: Task>() -> Vec<ColumnSpec> {
    vec![
        ColumnSpec::of::<T::Observation>("observation").leading(),
        ColumnSpec::of::<T::Action>("action"),
        ColumnSpec::scalar("reward", Dtype::F32),
        ColumnSpec::scalar("end", Dtype::U8),
        ColumnSpec::scalar("step", Dtype::U32),
        ColumnSpec::scalar("trajectory", Dtype::U64),
        ColumnSpec::scalar("flags", Dtype::U8),
        ColumnSpec::scalar("version", Dtype::U64),
    ]
}

/// Those of [`Made`], and others.
pub fn many_columns() -> Vec<ColumnSpec> {
    let mut columns = columns::<Made>();
    columns.push(ColumnSpec::of::<[u8; 4]>("action_mask").leading());
    columns.push(ColumnSpec::of::<Extra>("extra"));
    columns.push(ColumnSpec::scalar("log_prob", Dtype::F32));
    columns.push(ColumnSpec::of::<[[f32; 1]; 5]>("state"));
    columns
}

/// Random bytes, with many zeros and signs alone (Vigna 2015, splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn word(&mut self) -> [u8; 4] {
        match self.below(5) {
            0 => 0.0_f32.to_ne_bytes(),
            1 => (-0.0_f32).to_ne_bytes(),
            _ => (self.next() as u32).to_ne_bytes(),
        }
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(4) {
            let word = self.word();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// A block of frames.
pub struct Block {
    specs: Vec<ColumnSpec>,
    /// Words, so that values of any type are aligned.
    columns: Vec<Vec<u64>>,
    next: Vec<Vec<u8>>,
    rows: usize,
    frames: usize,
}

/// Rows whose episodes have random lengths.
pub struct Source {
    /// By row: id and step of the coming frame.
    rows: Vec<(u64, u32)>,
    ids: u64,
    /// One in so many frames ends its episode.
    pub length: usize,
}

impl Source {
    pub fn new(rows: usize, worker: u16, length: usize) -> Self {
        let ids = u64::from(worker) << 48;
        Self { rows: (1..=rows as u64).map(|row| (ids + row, 0)).collect(), ids: ids + rows as u64, length }
    }

    fn end(&mut self, random: &mut Random) -> End {
        match random.below(self.length * 4) {
            0 | 1 => End::TERMINATED,
            2 => End::truncated_by(Truncation::StepLimit),
            3 => End::TERMINATED.or_truncated(Truncation::Fault),
            4 => End::truncated_by(Truncation::BatchEdge),
            _ => End::RUNNING,
        }
    }

    /// Some ticks, time-major; one in `gaps` slots holds no frame.
    pub fn block(&mut self, specs: &[ColumnSpec], ticks: usize, gaps: usize, random: &mut Random) -> Block {
        let (rows, slots) = (self.rows.len(), self.rows.len() * ticks);
        let mut columns: Vec<Vec<u64>> = specs.iter().map(|spec| vec![0; (slots * spec.stride).div_ceil(8)]).collect();
        let (mut next, mut frames) = (Vec::new(), 0);
        for slot in 0..slots {
            let mut followed = vec![0; specs[0].stride];
            random.fill(&mut followed);
            next.push(followed);
            if random.below(gaps) == 1 {
                continue;
            }
            frames += 1;
            let end = self.end(random);
            let row = &mut self.rows[slot % rows];
            let (id, step) = *row;
            *row = (id, step + 1);
            if end.ends_episode() {
                self.ids += 1;
                *row = (self.ids, 0);
            }
            let flags = if random.below(3) == 0 { Flags::RANDOM } else { Flags::VALID };
            for (column, spec) in columns.iter_mut().zip(specs) {
                let value = &mut cast_slice_mut::<u64, u8>(column)[slot * spec.stride..][..spec.stride];
                match &*spec.name {
                    "end" => value.copy_from_slice(bytes_of(&end)),
                    "step" => value.copy_from_slice(bytes_of(&step)),
                    "trajectory" => value.copy_from_slice(bytes_of(&id)),
                    "flags" => value.copy_from_slice(bytes_of(&flags)),
                    _ => random.fill(value),
                }
            }
        }
        Block { specs: specs.to_vec(), columns, next, rows, frames }
    }
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
        Some(self.rows)
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        &self.next[i]
    }
}
