//! Writing blocks of frames of 128 bytes, against copies of their columns into memory of the same size.

use gleaner::{Error, components::Frames, replay::Replay};
use memmap2::MmapMut;

use crate::{
    filled::{Episodes, Numbers, columns, fill, rollout, trajectories},
    pages::ones,
    runner::Runner,
};

/// More than the caches hold.
const CAPACITY: usize = 1_000_000;
const ROWS: usize = 1_024;
const TICKS: usize = 64;

/// Rollouts go in as they lie; blocks of whole episodes as the trajectory mode yields them.
pub fn run(runner: &mut Runner) -> Result<(), Error> {
    let specs = columns::<Numbers<24>>;
    compare(runner, "rollouts, of the bandwidth of a copy", &rollout(specs(), ROWS, TICKS), 0.7)?;
    compare(runner, "episodes, of the bandwidth of a copy", &trajectories(specs(), &mut 0, ROWS * TICKS), 0.5)
}

fn compare(runner: &mut Runner, name: &str, block: &Episodes, bound: f64) -> Result<(), Error> {
    let replay = Replay::<Numbers<24>>::new(CAPACITY as u64)?;
    // Two rounds, so that all memory is there.
    fill(&replay, 2 * CAPACITY)?;
    let mut copy = Copy::new(block);
    let write = || replay.extend(block).expect("no reader").frames;
    let compared = runner.compare(write, || copy.write(block));
    runner.at_least(name, compared.ratio(), bound, &compared.speeds());
    Ok(())
}

/// Columns that blocks are copied to, one block behind the other.
pub struct Copy {
    columns: Vec<MmapMut>,
    at: usize,
}

impl Copy {
    pub fn new(block: &Episodes) -> Self {
        let blocks = CAPACITY.div_ceil(block.frames());
        Self { columns: (0..block.columns().len()).map(|i| ones(blocks * block.bytes(i).len())).collect(), at: 0 }
    }

    pub fn write(&mut self, block: &Episodes) -> u64 {
        for (i, column) in self.columns.iter_mut().enumerate() {
            let from = block.bytes(i);
            column[self.at * from.len()..][..from.len()].copy_from_slice(from);
        }
        self.at = (self.at + 1) % CAPACITY.div_ceil(block.frames());
        std::hint::black_box(&self.columns);
        block.frames() as u64
    }
}
