use super::{End, EpisodeStep, Flags, Frames, TrajectoryId, column};

/// The columns of a block that tell episodes apart.
pub(crate) struct Episodes<'a> {
    pub ends: &'a [End],
    pub steps: &'a [EpisodeStep],
    pub ids: &'a [TrajectoryId],
    pub flags: &'a [Flags],
}

impl<'a> Episodes<'a> {
    pub(crate) fn of(frames: &'a dyn Frames) -> Self {
        fn values<V: bytemuck::Pod>(frames: &dyn Frames, i: usize) -> &[V] {
            &bytemuck::cast_slice(frames.bytes(i))[..frames.slots()]
        }
        Self {
            ends: values(frames, column::END),
            steps: values(frames, column::STEP),
            ids: values(frames, column::TRAJECTORY),
            flags: values(frames, column::FLAGS),
        }
    }

    /// Whether slot `next` goes on with the episode of slot `i`.
    pub(crate) fn goes_on(&self, i: usize, next: usize) -> bool {
        self.flags[next].valid()
            && !self.ends[i].ends_episode()
            && self.ids[next] == self.ids[i]
            && self.steps[next].0 == self.steps[i].0.wrapping_add(1)
    }

    /// Calls `f` with each run of frames that follow each other, row by row: its first and its last slot, which lie
    /// `rows` slots apart.
    #[cfg(feature = "arrow")]
    pub(crate) fn each_run<E>(&self, rows: usize, mut f: impl FnMut(usize, usize) -> Result<(), E>) -> Result<(), E> {
        let slots = self.ends.len();
        for row in 0..rows {
            let mut slot = row;
            while slot < slots {
                let mut last = slot;
                if self.flags[slot].valid() {
                    while last + rows < slots && self.goes_on(last, last + rows) {
                        last += rows;
                    }
                    f(slot, last)?;
                }
                slot = last + rows;
            }
        }
        Ok(())
    }
}
