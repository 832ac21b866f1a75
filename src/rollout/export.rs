//! A batch's trajectories become a file for other programs.

use std::{collections::HashMap, path::Path};

use super::Batch;
use crate::{
    arrow::{self, Format},
    components::{Episodes, Frames},
    error::Error,
    task::Task,
};

impl<T: Task> Batch<T> {
    /// Writes the batch's frames to a file as [`arrow`](crate::arrow) says, row by row, without slots that hold none;
    /// returns how many. Episodes that ended are described as [`trajectories`](Self::trajectories) has them, also by frames
    /// of earlier batches. Extra memory: 4 MiB of frames and their arrays, for Parquet a group of 32 MiB of frames.
    ///
    /// The file at `path` is the old one until the new one is whole and on the disk. Errors: the file system's, recorded
    /// columns with names that the file needs.
    pub fn export(&self, path: impl AsRef<Path>, format: Format) -> Result<u64, Error> {
        let known: HashMap<u64, _> = self.trajectories().iter().map(|known| (known.id.0, known)).collect();
        let (episodes, frames): (_, &dyn Frames) = (Episodes::of(self), self);
        let rows = frames.rows().unwrap_or(1);
        arrow::write(path.as_ref(), format, self.columns(), |to| {
            episodes.each_run(rows, |first, last| {
                let mut slot = first;
                while slot <= last {
                    let len = to.room()?.min((last - slot) / rows + 1);
                    to.push(len, |column, values| copy_slots(frames, column, slot, rows, values));
                    slot += len * rows;
                }
                let known = known.get(&episodes.ids[last].0).filter(|_| episodes.ends[last].ends_episode());
                let row = self.rows().get(first % rows).copied().or(known.map(|known| known.row));
                to.end(row, known.copied(), frames.next_observation(last));
                Ok(())
            })
        })
    }
}

/// Copies values of a column that lie `step` slots apart.
fn copy_slots(frames: &dyn Frames, column: usize, first: usize, step: usize, to: &mut [u8]) {
    let stride = frames.columns()[column].stride;
    let from = &frames.bytes(column)[first * stride..];
    for (i, to) in to.chunks_exact_mut(stride.max(1)).enumerate() {
        to.copy_from_slice(&from[i * step * stride..][..stride]);
    }
}
