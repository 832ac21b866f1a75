//! A block of frames: the memory of a batch.

use std::ops::Range;

use bytemuck::Pod;

use super::memory::BlockStates;
use crate::{
    bytes::Bytes,
    components::{
        ColumnSpec, End, EpisodeStep, Flags, FrameSlots, RowIndex, Trajectory, TrajectoryId, Truncation, Writer, column,
    },
    task::Task,
};

/// How the frames of a batch lie in its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[ticks, rows]`: frame `tick · rows + row`. Observations have one tick more, the last ones.
    TimeMajor {
        /// Ticks.
        ticks: usize,
        /// Rows.
        rows: usize,
    },
    /// `[frames]`: whole trajectories one behind the other ("cat").
    Flat {
        /// Frames.
        frames: usize,
    },
    /// `[trajectories, length]`: whole trajectories, each padded with slots that hold no frame to the longest.
    Padded {
        /// Trajectories.
        trajectories: usize,
        /// Slots of each.
        length: usize,
    },
}

impl Layout {
    /// Slots, with and without a frame.
    pub fn slots(self) -> usize {
        match self {
            Self::TimeMajor { ticks, rows } => ticks * rows,
            Self::Flat { frames } => frames,
            Self::Padded { trajectories, length } => trajectories * length,
        }
    }

    /// Slots of columns that lead.
    pub(crate) fn leading_slots(self) -> usize {
        match self {
            Self::TimeMajor { ticks, rows } => (ticks + 1) * rows,
            layout => layout.slots(),
        }
    }
}

/// What followed a frame, where the next tick's slot holds something else: the real last observation of an episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Final<O> {
    /// Slot of the frame.
    pub frame: usize,
    pub observation: O,
}

/// Rows from which on it is noted what a tick's flags and versions are: with fewer the note is longer than they.
const NOTED: usize = 64;

/// Columns of frames with what belongs to them.
pub(crate) struct Block<T: Task> {
    pub layout: Layout,
    /// Parallel to the registered columns.
    pub columns: Vec<Bytes>,
    /// By ascending frame, once the block is complete.
    pub finals: Vec<Final<T::Observation>>,
    /// Episodes that ended, in order of (tick, slot), or as they lie in a flat block.
    pub trajectories: Vec<Trajectory>,
    /// Rows by slot; empty outside time-major blocks.
    pub rows: Vec<RowIndex>,
    /// Slots that hold a frame.
    pub frames: usize,
    /// Of a recurrent policy.
    pub states: BlockStates,
    /// By tick of a time-major block: the version that every slot of its column of versions holds, while every slot of
    /// its flags says valid. Few ticks differ from the same one of the rollout that had the block before, and what a tick
    /// writes is what it waits for. Empty for few rows.
    uniform: Vec<Option<u64>>,
    writer: Writer,
}

impl<T: Task> Block<T> {
    /// A block that holds nothing yet.
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            layout: Layout::Flat { frames: 0 },
            columns: vec![Bytes::default(); columns],
            finals: Vec::new(),
            trajectories: Vec::new(),
            rows: Vec::new(),
            frames: 0,
            states: BlockStates::default(),
            uniform: Vec::new(),
            writer: Writer::default(),
        }
    }

    /// Makes room for a rollout; forgets what the block held.
    pub(crate) fn begin(&mut self, specs: &[ColumnSpec], ticks: usize, rows: &[RowIndex]) {
        let layout = Layout::TimeMajor { ticks, rows: rows.len() };
        let mut uniform = std::mem::take(&mut self.uniform);
        if self.layout != layout {
            uniform.clear();
        }
        uniform.resize(if rows.len() < NOTED { 0 } else { ticks }, None);
        self.shape(specs, layout);
        self.rows.extend_from_slice(rows);
        self.uniform = uniform;
    }

    /// Makes room for `layout`; forgets what the block held.
    pub(crate) fn shape(&mut self, specs: &[ColumnSpec], layout: Layout) {
        self.layout = layout;
        self.uniform.clear();
        for (column, spec) in self.columns.iter_mut().zip(specs) {
            let slots = if spec.leads { layout.leading_slots() } else { layout.slots() };
            column.resize(slots * spec.stride);
        }
        self.writer = Writer::new(self.columns.iter().map(|column| column.bytes().len()).sum());
        self.finals.clear();
        self.trajectories.clear();
        self.rows.clear();
        self.frames = 0;
        self.states.clear();
    }

    /// Marks the last tick's frames as truncated by the batch edge.
    pub(crate) fn mark_edge(&mut self) {
        let Layout::TimeMajor { ticks, rows } = self.layout else { return };
        for slot in 0..rows {
            // A row that the last tick left out has its edge where its last frame is.
            let last = (0..ticks).rev().map(|tick| tick * rows + slot).find(|frame| self.flags()[*frame].valid());
            if let Some(frame) = last {
                self.ends_mut()[frame] = self.ends()[frame].or_truncated(Truncation::BatchEdge);
            }
        }
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.columns.iter().map(Bytes::capacity).sum::<usize>()
            + self.finals.capacity() * size_of::<Final<T::Observation>>()
            + self.trajectories.capacity() * size_of::<Trajectory>()
            + self.uniform.capacity() * size_of::<Option<u64>>()
            + self.states.memory()
    }

    pub(crate) fn observations(&self) -> &[T::Observation] {
        self.columns[column::OBSERVATION].values()
    }
    pub(crate) fn actions(&self) -> &[T::Action] {
        self.columns[column::ACTION].values()
    }
    pub(crate) fn rewards(&self) -> &[f32] {
        self.columns[column::REWARD].values()
    }
    pub(crate) fn ends(&self) -> &[End] {
        self.columns[column::END].values()
    }
    pub(crate) fn ends_mut(&mut self) -> &mut [End] {
        self.columns[column::END].values_mut()
    }
    pub(crate) fn steps(&self) -> &[EpisodeStep] {
        self.columns[column::STEP].values()
    }
    pub(crate) fn ids(&self) -> &[TrajectoryId] {
        self.columns[column::TRAJECTORY].values()
    }
    pub(crate) fn flags(&self) -> &[Flags] {
        self.columns[column::FLAGS].values()
    }
    pub(crate) fn versions(&self) -> &[u64] {
        self.columns[column::VERSION].values()
    }

    /// The slots of the frames of `tick`, unless one thread writes them past the caches: each of several writes its own, as
    /// what one of them stepped is slow to reach for another. Those of flags and versions are left out
    /// if they hold already what valid frames of `version` have.
    pub(crate) fn frame_slots(
        &mut self,
        tick: usize,
        rows: usize,
        version: u64,
        split: bool,
    ) -> Option<FrameSlots<'_, T>> {
        if self.writer.past_caches() && !split {
            return None;
        }
        let frames = tick * rows..(tick + 1) * rows;
        let held = self.uniform.get_mut(tick).and_then(Option::take);
        let marked = if held == Some(version) { frames.start..frames.start } else { frames.clone() };
        let [observations, actions, rewards, ends, steps, ids, flags, versions] = self.columns.first_chunk_mut()?;
        Some(FrameSlots {
            observations: &mut observations.values_mut()[frames.end..frames.end + rows],
            actions: &mut actions.values_mut()[frames.clone()],
            rewards: &mut rewards.values_mut()[frames.clone()],
            ends: &mut ends.values_mut()[frames.clone()],
            steps: &mut steps.values_mut()[frames.clone()],
            ids: &mut ids.values_mut()[frames.clone()],
            flags: &mut flags.values_mut()[marked.clone()],
            versions: &mut versions.values_mut()[marked],
        })
    }

    /// All frames of `tick` are valid ones of this version; none: some is to have a flag or a version of its own.
    pub(crate) fn mark(&mut self, tick: usize, version: Option<u64>) {
        if let Some(uniform) = self.uniform.get_mut(tick) {
            *uniform = version;
        }
    }

    /// Writes a column from slot `first` on.
    pub(crate) fn write<V: Pod>(&mut self, column: usize, first: usize, values: &[V]) {
        self.writer.copy(values, &mut self.columns[column].values_mut()[first..first + values.len()]);
    }

    /// Writes the same value to one tick of a column of a time-major block.
    pub(crate) fn fill_tick<V: Pod>(&mut self, column: usize, tick: usize, rows: usize, value: V) {
        self.fill_slots(column, tick * rows..(tick + 1) * rows, value);
    }

    /// Writes the same value to some slots of a column.
    pub(crate) fn fill_slots<V: Pod>(&mut self, column: usize, slots: Range<usize>, value: V) {
        self.writer.fill(&mut self.columns[column].values_mut()[slots], value);
    }

    /// What followed slot `frame`, if that is kept apart.
    pub(crate) fn kept_next(&self, frame: usize) -> Option<&T::Observation> {
        let i = self.finals.binary_search_by_key(&frame, |last| last.frame).ok()?;
        Some(&self.finals[i].observation)
    }

    /// The real observation after slot `i`.
    pub(crate) fn next_observation(&self, i: usize) -> &T::Observation {
        if let Some(kept) = self.kept_next(i) {
            return kept;
        }
        let next = match self.layout {
            Layout::TimeMajor { rows, .. } => i + rows,
            Layout::Flat { .. } | Layout::Padded { .. } => i + 1,
        };
        &self.observations()[next.min(self.observations().len() - 1)]
    }

    /// Turns slot `frame` into one that holds no frame: zeros in every column.
    pub(crate) fn clear_slot(&mut self, specs: &[ColumnSpec], frame: usize) {
        if let Layout::TimeMajor { rows, .. } = self.layout {
            self.mark(frame / rows.max(1), None);
        }
        for (column, spec) in self.columns.iter_mut().zip(specs) {
            column.bytes_mut()[frame * spec.stride..(frame + 1) * spec.stride].fill(0);
        }
    }
}
