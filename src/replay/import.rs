//! A file of trajectories, whoever wrote it, goes into a buffer.

use std::path::Path;

use super::{
    Replay, Written,
    load::{check_columns, task_columns},
};
use crate::{
    arrow::{self, Input, Plan},
    error::Error,
    task::Task,
};

impl<T: Task> Replay<T> {
    /// Writes all frames of a file that [`arrow`](crate::arrow) describes to the buffer, behind those that are there. A
    /// buffer without frames takes the columns that the file has beside the task's. A trajectory goes on in the buffer, and
    /// after its last record, where the next step of the same id is written.
    ///
    /// The file is read twice, at first to look at all of it: a wrong one is an error, and changes nothing. Errors: a file
    /// that is cut, contradicts itself, lacks columns, has unknown ones, or values that no column of ours has;
    /// [`extend`](Self::extend)'s, which transforms them too, behind the frames that were written before. Memory: two times
    /// 4 MiB of frames, and a batch of an IPC file or a page of each column of a Parquet file, as large as they were
    /// written.
    pub fn import(&self, path: impl AsRef<Path>) -> Result<Written, Error> {
        self.check_writable("import")?;
        let input = Input::open(path.as_ref())?;
        let plan = match self.ring() {
            Some(ring) => Plan::new(&input, ring.specs.to_vec(), false)?,
            None => Plan::new(&input, task_columns::<T>().into(), true)?,
        };
        check_columns::<T>(&plan.specs).map_err(|error| input.failed(error.to_string()))?;
        arrow::each_chunk(&input, &plan, |_| Ok(()))?;
        let mut all = Written { write_count: self.write_count(), ..Written::default() };
        arrow::each_chunk(&input, &plan, |chunk| {
            let written = self.extend(chunk)?;
            all.frames += written.frames;
            all.trajectories += written.trajectories;
            all.write_count = written.write_count;
            Ok(())
        })?;
        if all.frames == 0 {
            // The first block gives the columns, also one without frames.
            self.extend(&arrow::Chunk::empty(&plan))?;
        }
        Ok(all)
    }
}
