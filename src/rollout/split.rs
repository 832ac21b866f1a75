//! Cutting a time-major batch into its trajectories.

use std::ops::Range;

use super::{
    batch::Batch,
    block::{Block, Final, Layout},
};
use crate::{error::Error, task::Task};

/// Consecutive slots of one row and one episode: every `step`-th slot of a range.
struct Run {
    first: usize,
    frames: usize,
}

impl<T: Task> Batch<T> {
    /// Cuts a time-major batch where episodes change: `[pieces, longest]`, each piece padded with slots that hold no
    /// frame, row by row and in time order within a row. An episode that goes on beyond the batch stays cut: what
    /// followed its last frame here is [`next_observation`](Self::next_observation) of that frame. Copied; the result
    /// holds no arena. Errors: [`Error::State`] for a batch in another layout, whose trajectories are apart already.
    pub fn split_trajectories(&self) -> Result<Self, Error> {
        let Layout::TimeMajor { ticks, rows } = self.layout() else {
            let problem = format!("the batch is {:?}; legal: a time-major one", self.layout());
            return Err(Error::State { call: "split_trajectories", problem });
        };
        let runs: Vec<Run> = (0..rows).flat_map(|row| self.runs(row, rows, 0..ticks)).collect();
        let length = runs.iter().map(|run| run.frames).max().unwrap_or(0);
        let mut block = Box::new(Block::new(self.specs.len()));
        block.shape(&self.specs, Layout::Padded { trajectories: runs.len(), length });
        for (i, spec) in self.specs.iter().enumerate() {
            let from = self.block().columns[i].bytes();
            let to = block.columns[i].bytes_mut();
            to.fill(0);
            for (piece, run) in runs.iter().enumerate() {
                for t in 0..run.frames {
                    let (at, slot) = ((piece * length + t) * spec.stride, (run.first + t * rows) * spec.stride);
                    to[at..at + spec.stride].copy_from_slice(&from[slot..slot + spec.stride]);
                }
            }
        }
        for (piece, run) in runs.iter().enumerate() {
            let last = run.first + (run.frames - 1) * rows;
            let frame = piece * length + run.frames - 1;
            block.finals.push(Final { frame, observation: *self.next_observation(last) });
            block.states.keep(&self.block().states, last, frame);
            block.states.begin(&self.block().states, run.first, rows);
        }
        block.frames = self.frames();
        block.trajectories.extend_from_slice(self.trajectories());
        let (specs, critic) = (self.specs.clone(), self.critic.clone());
        Ok(Self { block: Some(block), specs, critic, pool: None, index: self.index })
    }

    /// The runs of one row within `ticks`.
    fn runs(&self, row: usize, rows: usize, ticks: Range<usize>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut open = None;
        for slot in ticks.map(|tick| tick * rows + row) {
            let id = self.flags()[slot].valid().then(|| self.trajectory_ids()[slot]);
            match (id, runs.last_mut()) {
                (Some(_), Some(run)) if id == open => run.frames += 1,
                (Some(_), _) => runs.push(Run { first: slot, frames: 1 }),
                (None, _) => {}
            }
            open = id;
        }
        runs
    }
}
