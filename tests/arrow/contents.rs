//! What a buffer holds, trajectory by trajectory, wherever its frames lie.

use std::collections::HashMap;

use bytemuck::{Pod, cast_slice};
use gleaner::{
    components::ColumnSpec,
    prelude::*,
    replay::{Replay, Sample, Stored},
};

/// A trajectory: what the index says, the bytes of each column, what followed its last frame.
#[derive(Debug, PartialEq)]
pub struct Contents {
    pub stored: Stored,
    pub columns: Vec<(String, Vec<u8>)>,
    pub followed: Vec<u8>,
}

/// All trajectories of a buffer in its order. Numbers of frames, which differ between buffers, are 0.
pub fn contents<T: Task>(replay: &Replay<T>) -> Vec<Contents> {
    let all: Vec<u64> = replay.frames().collect();
    let ids = replay.read(&all).expect("frames that are there");
    let mut frames: HashMap<u64, Vec<u64>> = HashMap::new();
    for (frame, id) in all.iter().zip(ids.trajectory_ids()) {
        frames.entry(id.0).or_default().push(*frame);
    }
    let trajectory = |stored: Stored| {
        let frames = &frames[&stored.id.0];
        assert_eq!(frames.len(), stored.frames as usize, "{stored:?}");
        let sample = replay.read(frames).expect("frames that are there");
        let columns = sample.columns().iter().map(|spec| (spec.name.to_string(), column(&sample, spec))).collect();
        let next: &[T::Observation] = &sample.next_observations()[frames.len() - 1..];
        Contents { stored: Stored { first: 0, ..stored }, columns, followed: cast_slice(next).to_vec() }
    };
    replay.trajectories().into_iter().map(trajectory).collect()
}

/// The bytes of a column.
pub fn column<T: Task>(sample: &Sample<T>, spec: &ColumnSpec) -> Vec<u8> {
    fn bytes<T: Task, V: Pod>(sample: &Sample<T>, name: &str) -> Vec<u8> {
        cast_slice(sample.column::<V>(name).expect("a column")).to_vec()
    }
    macro_rules! by_stride {
        ($($n:literal)*) => {
            match spec.stride {
                0 => Vec::new(),
                $($n => bytes::<T, [u8; $n]>(sample, &spec.name),)*
                stride => panic!("a width of {stride} is not among those here"),
            }
        };
    }
    by_stride!(1 2 3 4 8 12 16 20 24 40 100 262144)
}
