//! Small made-up frames: the columns of a block, and nothing that is stepped.

use bytemuck::bytes_of;
use gleaner::{
    Error,
    components::{ColumnSpec, End, EpisodeStep, Flags, Frames, TrajectoryId},
    data::Dtype,
    prelude::*,
    replay::Replay,
};

/// A task whose observation is CartPole's in size.
pub struct Small;

impl Task for Small {
    type Observation = [f32; 4];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(4)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

/// Time-major ticks of rows whose episodes go on from block to block.
pub struct Block {
    specs: Vec<ColumnSpec>,
    columns: Vec<Vec<u8>>,
    rows: usize,
    slots: usize,
}

impl Block {
    pub fn new(rows: usize, ticks: usize) -> Self {
        let specs = vec![
            ColumnSpec::of::<[f32; 4]>("observation").leading(),
            ColumnSpec::of::<i32>("action"),
            ColumnSpec::scalar("reward", Dtype::F32),
            ColumnSpec::scalar("end", Dtype::U8),
            ColumnSpec::scalar("step", Dtype::U32),
            ColumnSpec::scalar("trajectory", Dtype::U64),
            ColumnSpec::scalar("flags", Dtype::U8),
            ColumnSpec::scalar("version", Dtype::U64),
        ];
        let slots = rows * ticks;
        let mut columns: Vec<_> = specs.iter().map(|spec| vec![0; slots * spec.stride]).collect();
        columns[3] = bytes_of(&End::RUNNING).repeat(slots);
        columns[5] = (0..slots).flat_map(|slot| bytes_of(&TrajectoryId((slot % rows) as u64)).to_vec()).collect();
        columns[6] = bytes_of(&Flags::VALID).repeat(slots);
        let mut block = Self { specs, columns, rows, slots };
        block.begin_at(0);
        block
    }

    fn begin_at(&mut self, step: usize) {
        let steps = (0..self.slots).map(|slot| EpisodeStep((step + slot / self.rows) as u32));
        self.columns[4] = steps.flat_map(|step| bytes_of(&step).to_vec()).collect();
    }
}

/// A buffer of `frames` frames, all of them written.
pub fn filled(frames: u64, rows: usize, ticks: usize) -> Result<Replay<Small>, Error> {
    let replay = Replay::new(frames)?;
    let mut block = Block::new(rows, ticks);
    for i in 0..frames.div_ceil((rows * ticks) as u64) as usize {
        block.begin_at(i * ticks);
        replay.extend(&block)?;
    }
    Ok(replay)
}

impl Frames for Block {
    fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }
    fn bytes(&self, i: usize) -> &[u8] {
        &self.columns[i]
    }
    fn slots(&self) -> usize {
        self.slots
    }
    fn frames(&self) -> usize {
        self.slots
    }
    fn rows(&self) -> Option<usize> {
        Some(self.rows)
    }
    fn next_observation(&self, _: usize) -> &[u8] {
        bytes_of(&[0.0_f32; 4])
    }
}
