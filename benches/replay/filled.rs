//! Buffers full of made-up episodes.

use bytemuck::cast_slice;
use gleaner::{
    Error,
    components::{ColumnSpec, End, Flags, Frames},
    data::Dtype,
    prelude::{Space, Task},
    replay::Replay,
};

/// A task that is never stepped, whose observations are `N` numbers.
pub struct Numbers<const N: usize>;

impl Task for Numbers<4> {
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

impl Task for Numbers<24> {
    type Observation = [f32; 24];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(24)
    }
    fn action_space() -> Space {
        Space::discrete(2)
    }
}

/// Frames of an observation of `width` bytes: 30 bytes more, and the 2 that make wide ones 128.
pub fn columns<T: Task>() -> Vec<ColumnSpec> {
    let mut specs = vec![
        ColumnSpec::of::<T::Observation>("observation").leading(),
        ColumnSpec::of::<i32>("action"),
        ColumnSpec::scalar("reward", Dtype::F32),
        ColumnSpec::scalar("end", Dtype::U8),
        ColumnSpec::scalar("step", Dtype::U32),
        ColumnSpec::scalar("trajectory", Dtype::U64),
        ColumnSpec::scalar("flags", Dtype::U8),
        ColumnSpec::scalar("version", Dtype::U64),
    ];
    if specs.iter().map(|spec| spec.stride).sum::<usize>() > 100 {
        specs.extend([ColumnSpec::scalar("extra", Dtype::U8), ColumnSpec::scalar("other", Dtype::U8)]);
    }
    specs
}

/// A block of frames in episodes.
pub struct Episodes {
    specs: Vec<ColumnSpec>,
    columns: Vec<Vec<u8>>,
    frames: usize,
    rows: Option<usize>,
}

impl Frames for Episodes {
    fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }
    fn bytes(&self, i: usize) -> &[u8] {
        &self.columns[i]
    }
    fn slots(&self) -> usize {
        self.frames
    }
    fn frames(&self) -> usize {
        self.frames
    }
    fn rows(&self) -> Option<usize> {
        self.rows
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        let width = self.specs[0].stride;
        &self.columns[0][i * width..][..width]
    }
}

/// A full buffer of `capacity` frames in episodes of 24 to 279 frames, written one behind the other.
pub fn filled<T: Task>(capacity: usize) -> Result<Replay<T>, Error> {
    let replay = Replay::<T>::new(capacity as u64)?;
    fill(&replay, capacity)?;
    Ok(replay)
}

/// Writes `frames` frames in such episodes.
pub fn fill<T: Task>(replay: &Replay<T>, frames: usize) -> Result<(), Error> {
    let (mut id, mut written) = (0_u64, 0);
    while written < frames {
        let block = trajectories(columns::<T>(), &mut id, (frames - written).min(100_000));
        written += block.frames;
        replay.extend(&block)?;
    }
    Ok(())
}

/// A time-major block: `ticks` of `rows` rows, whose episodes of 150 frames begin at different ticks.
pub fn rollout(specs: Vec<ColumnSpec>, rows: usize, ticks: usize) -> Episodes {
    let (mut ends, mut steps, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for slot in 0..rows * ticks {
        let age = slot / rows + slot % rows;
        steps.push((age % 150) as u32);
        ids.push((slot % rows + rows * (age / 150)) as u64);
        ends.push(if age % 150 == 149 { End::TERMINATED } else { End::RUNNING });
    }
    episodes(specs, &ends, &steps, &ids, Some(rows))
}

/// A block of `most` frames in episodes one behind the other, which are numbered from `id + 1` on.
pub fn trajectories(specs: Vec<ColumnSpec>, id: &mut u64, most: usize) -> Episodes {
    let (mut ends, mut steps, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    while ends.len() < most {
        *id += 1;
        let length = (24 + (*id * 97 % 256) as usize).min(most - ends.len());
        ids.resize(ends.len() + length, *id);
        steps.extend(0..length as u32);
        ends.resize(ends.len() + length, End::RUNNING);
        ends[ids.len() - 1] = End::TERMINATED;
    }
    episodes(specs, &ends, &steps, &ids, None)
}

fn episodes(specs: Vec<ColumnSpec>, ends: &[End], steps: &[u32], ids: &[u64], rows: Option<usize>) -> Episodes {
    let frames = ends.len();
    let mut columns: Vec<_> = specs.iter().map(|spec| vec![1_u8; frames * spec.stride]).collect();
    columns[3] = cast_slice(ends).to_vec();
    columns[4] = cast_slice(steps).to_vec();
    columns[5] = cast_slice(ids).to_vec();
    columns[6] = cast_slice(&vec![Flags::VALID; frames]).to_vec();
    Episodes { specs, columns, frames, rows }
}
