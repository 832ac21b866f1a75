//! The best trajectories that were ever given.

use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use super::{
    Capacity, Replay, ReplayConfig,
    buffer::{check_columns, check_ragged},
};
use crate::{
    components::{ColumnSpec, Episodes, Frames, RaggedSpec},
    data::Dtype,
    error::Error,
    task::Task,
};

/// Keeps the `k` whole trajectories with the highest returns of all it was given, each a copy of its own. A ring drops the
/// oldest frames, whatever they are worth; this drops the least, so it has no fixed size in frames. To draw from them make
/// a buffer of them: [`replay`](Self::replay).
///
/// ```
/// use gleaner::{prelude::*, replay::TopTrajectories};
///
/// let mut best = TopTrajectories::<CartPole>::new(5)?;
/// for batch in Collector::<CartPole>::builder().rows(4).total_frames(2_000).trajs_per_batch(10).build()? {
///     best.extend(&batch?)?;
/// }
/// assert_eq!(best.returns().len(), 5);
/// let replay = best.replay()?;
/// assert_eq!(replay.trajectories().len(), 5);
/// # Ok::<(), gleaner::Error>(())
/// ```
pub struct TopTrajectories<T: Task> {
    k: usize,
    /// Name of the column whose sum ranks.
    rank: Cow<'static, str>,
    /// Of the first block.
    specs: Arc<[ColumnSpec]>,
    ragged: Arc<[RaggedSpec]>,
    /// By descending return, of equal ones the older first.
    kept: Vec<Kept>,
    task: PhantomData<fn() -> T>,
}

/// A trajectory, as a block.
struct Kept {
    total: f64,
    specs: Arc<[ColumnSpec]>,
    columns: Vec<Vec<u8>>,
    ragged: Arc<[RaggedSpec]>,
    /// By ragged column and frame.
    lists: Vec<Vec<Vec<u8>>>,
    frames: usize,
    last: Vec<u8>,
}

impl<T: Task> TopTrajectories<T> {
    /// Keeps up to `k` trajectories. Errors: `k` is 0.
    pub fn new(k: usize) -> Result<Self, Error> {
        if k == 0 {
            return Err(Error::config("k", 0, "1 or more"));
        }
        let rank = "reward".into();
        Ok(Self { k, rank, specs: Arc::default(), ragged: Arc::default(), kept: Vec::new(), task: PhantomData })
    }

    /// Ranks by the sums of this column, of one `f32` a frame, wherever returns are spoken of here. Default: "reward".
    #[must_use]
    pub fn ranked_by(mut self, column: impl Into<Cow<'static, str>>) -> Self {
        self.rank = column.into();
        self
    }

    /// The ranking column among those of the first block.
    fn rank_column(&self) -> Result<usize, Error> {
        let number = ColumnSpec::scalar("", Dtype::F32).fields;
        let may = |spec: &&ColumnSpec| spec.fields == number;
        if let Some(i) = self.specs.iter().position(|spec| spec.name == self.rank && may(&spec)) {
            return Ok(i);
        }
        let legal: Vec<_> = self.specs.iter().filter(may).map(|spec| &*spec.name).collect();
        Err(Error::config("ranked_by", &self.rank, format!("columns of one f32 a frame: {}", legal.join(", "))))
    }

    /// Takes the trajectories whose first and last frame are in the block, each in one run, if their returns are among the
    /// highest; of equal ones the earlier stays. The return is the sum of the recorded rewards; one that is NaN is never
    /// kept. Returns how many were taken. Errors: other columns than those of the first block; no such column to rank by.
    pub fn extend(&mut self, frames: &dyn Frames) -> Result<usize, Error> {
        if self.specs.is_empty() {
            self.specs = frames.columns().into();
            self.ragged = frames.ragged().into();
        }
        check_columns(&self.specs, frames.columns())?;
        check_ragged(self.ragged.iter(), frames.ragged())?;
        let episodes = Episodes::of(frames);
        let ranks = frames.bytes(self.rank_column()?).as_chunks::<4>().0;
        let rows = frames.rows().unwrap_or(1);
        let mut taken = 0;
        for row in 0..rows {
            let mut slot = row;
            while slot < frames.slots() {
                let first = slot;
                while slot + rows < frames.slots()
                    && episodes.flags[slot].valid()
                    && episodes.goes_on(slot, slot + rows)
                {
                    slot += rows;
                }
                let whole =
                    episodes.flags[first].valid() && episodes.steps[first].0 == 0 && episodes.ends[slot].ends_episode();
                let slots = (first..=slot).step_by(rows);
                let total = slots.clone().map(|slot| f64::from(f32::from_ne_bytes(ranks[slot]))).sum();
                if whole && self.takes(total) {
                    self.insert(frames, slots, total);
                    taken += 1;
                }
                slot += rows;
            }
        }
        Ok(taken)
    }

    fn takes(&self, total: f64) -> bool {
        let lowest = self.kept.last().map_or(f64::NEG_INFINITY, |kept| kept.total);
        !total.is_nan() && (self.kept.len() < self.k || total > lowest)
    }

    fn insert(&mut self, frames: &dyn Frames, slots: impl Iterator<Item = usize> + Clone, total: f64) {
        let copy = |(i, spec): (usize, &ColumnSpec)| {
            let (bytes, size) = (frames.bytes(i), spec.stride);
            slots.clone().flat_map(|slot| &bytes[slot * size..(slot + 1) * size]).copied().collect()
        };
        let columns = self.specs.iter().enumerate().map(copy).collect();
        let last = slots.clone().last().map_or_else(Vec::new, |slot| frames.next_observation(slot).to_vec());
        let list = |i: usize| slots.clone().map(|slot| frames.list(i, slot).to_vec()).collect();
        let lists = (0..self.ragged.len()).map(list).collect();
        let (specs, ragged) = (self.specs.clone(), self.ragged.clone());
        let kept = Kept { total, specs, columns, ragged, lists, frames: slots.count(), last };
        self.kept.insert(self.kept.partition_point(|other| other.total >= total), kept);
        self.kept.truncate(self.k);
    }

    /// The returns of those that are kept, the highest first.
    pub fn returns(&self) -> Vec<f64> {
        self.kept.iter().map(|kept| kept.total).collect()
    }

    /// Frames that are kept.
    pub fn frames(&self) -> usize {
        self.kept.iter().map(|kept| kept.frames).sum()
    }

    /// A new buffer that holds exactly them, the highest return first. Errors: [`Error::State`] while there is none.
    pub fn replay(&self) -> Result<Replay<T>, Error> {
        if self.kept.is_empty() {
            let problem = "no whole trajectory was given yet".into();
            return Err(Error::State { call: "replay", problem });
        }
        let elements = |i: usize| {
            let lists = self.kept.iter().flat_map(|kept| &kept.lists[i]);
            (lists.map(Vec::len).sum::<usize>() / self.ragged[i].dtype.size()) as u64
        };
        let most = (0..self.ragged.len()).map(elements).max().unwrap_or_default().max(1);
        let capacity = Capacity::Frames(self.frames() as u64);
        let config = ReplayConfig { capacity, ragged_elements: Some(most), ..ReplayConfig::default() };
        let replay = Replay::with_config(config)?;
        for kept in &self.kept {
            replay.extend(kept)?;
        }
        Ok(replay)
    }
}

impl Frames for Kept {
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
        None
    }
    fn next_observation(&self, _: usize) -> &[u8] {
        // Asked for the last frame only: a whole trajectory is one run.
        &self.last
    }
    fn ragged(&self) -> &[RaggedSpec] {
        &self.ragged
    }
    fn list(&self, i: usize, slot: usize) -> &[u8] {
        &self.lists[i][slot]
    }
}

impl<T: Task> fmt::Debug for TopTrajectories<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopTrajectories").field("k", &self.k).field("returns", &self.returns()).finish()
    }
}
