//! What samplers give.

use std::{fmt, marker::PhantomData, ops::Range, sync::Arc};

use bytemuck::Pod;
use serde::{Deserialize, Deserializer, Serialize};

use super::{gather::Scratch, lists::Lists, transform::find};
use crate::{
    bytes::Bytes,
    components::{ColumnSpec, End, EpisodeStep, Flags, TrajectoryId, column},
    error::Error,
    task::Task,
};

/// Frames that were drawn, in columns: the picks of a sampler one behind the other, each of one frame or, for slices, of
/// several that follow each other. It is independent of the buffer; given to
/// [`Sampler::sample_into`](super::Sampler::sample_into) again its memory is used again.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Sample<T: Task> {
    #[serde(serialize_with = "<[_]>::serialize", deserialize_with = "shared")]
    pub(super) specs: Arc<[ColumnSpec]>,
    pub(super) columns: Vec<Bytes>,
    /// Ragged columns.
    pub(super) lists: Vec<Lists>,
    /// By pick: the observation after its last frame.
    pub(super) next: Bytes,
    pub(super) capacity: u64,
    pub(super) frames: Vec<u64>,
    pub(super) weights: Vec<f32>,
    /// By pick: where its slots end.
    pub(super) ends: Vec<usize>,
    /// Slots that end an episode which another one follows in the same pick, and the observations after them.
    pub(super) joints: Vec<usize>,
    pub(super) after_joints: Bytes,
    /// The slots of each pick that are learned from.
    pub(super) learning: Range<usize>,
    /// By pick: slots that its trajectory was too short for, before the first; empty if no pick misses any.
    pub(super) missing: Vec<u32>,
    /// By pick: the buffer of a mixture; empty if it is of one.
    pub(super) buffers: Vec<u32>,
    /// By buffer of a mixture.
    pub(super) capacities: Vec<u64>,
    pub(super) n_step: NStep,
    /// The learner's version when it was drawn, if staleness counted.
    pub(super) consumer_version: Option<u64>,
    #[serde(skip)]
    pub(super) scratch: Scratch,
    task: PhantomData<fn() -> T>,
}

fn shared<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[ColumnSpec]>, D::Error> {
    Box::deserialize(from).map(Arc::from)
}

/// By pick: its `n`-step return and the discount of the value that follows.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct NStep {
    pub returns: Vec<f32>,
    pub discounts: Vec<f32>,
}

impl<T: Task> Default for Sample<T> {
    fn default() -> Self {
        Self {
            specs: Arc::default(),
            columns: Vec::new(),
            lists: Vec::new(),
            next: Bytes::default(),
            capacity: 1,
            frames: Vec::new(),
            weights: Vec::new(),
            ends: Vec::new(),
            joints: Vec::new(),
            after_joints: Bytes::default(),
            learning: 0..usize::MAX,
            missing: Vec::new(),
            buffers: Vec::new(),
            capacities: Vec::new(),
            n_step: NStep::default(),
            consumer_version: None,
            scratch: Scratch::default(),
            task: PhantomData,
        }
    }
}

impl<T: Task> Sample<T> {
    /// Slots: frames, and what pads picks to a length.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether nothing was drawn: the end of an epoch.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Picks: as many as frames, or slices.
    pub fn picks(&self) -> usize {
        self.ends.len()
    }

    /// The slots of pick `i`, as a range of places in the columns.
    pub fn pick(&self, i: usize) -> Range<usize> {
        let begin = if i == 0 { 0 } else { self.ends[i - 1] };
        begin..self.ends[i]
    }

    /// Numbers of the frames, from 0 in the order of writing: what
    /// [`Sampler::update_priorities`](super::Sampler::update_priorities) takes. `u64::MAX` where a slot only pads.
    pub fn frames(&self) -> &[u64] {
        &self.frames
    }

    /// Place of frame `i` in its buffer, below the capacity.
    pub fn index(&self, i: usize) -> u64 {
        self.frames[i] % self.capacity_of(i)
    }

    /// How often that place had been written before.
    pub fn generation(&self, i: usize) -> u64 {
        self.frames[i] / self.capacity_of(i)
    }

    fn capacity_of(&self, i: usize) -> u64 {
        if self.buffers.is_empty() { self.capacity } else { self.capacities[self.buffers[self.pick_of(i)] as usize] }
    }

    /// By pick: importance weights, 1 where every chance was the same.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// What the policy saw.
    pub fn observations(&self) -> &[T::Observation] {
        self.values(column::OBSERVATION)
    }

    /// The real observation after frame `i`; with n-step returns that after the last step. In sequences with dilation that
    /// of the next slot of its episode.
    pub fn next_observation(&self, i: usize) -> &T::Observation {
        if let Ok(joint) = self.joints.binary_search(&i) {
            return &self.after_joints.values()[joint];
        }
        let pick = self.pick_of(i);
        let last = i + 1 == self.ends[pick] || !self.flags()[i + 1].valid();
        if last { &self.next_observations()[pick] } else { &self.observations()[i + 1] }
    }

    /// The pick that slot `i` belongs to.
    pub fn pick_of(&self, i: usize) -> usize {
        self.ends.partition_point(|end| *end <= i)
    }

    /// Step of slot `i` in its pick, from 0. A sequence that its trajectory's beginning cut begins with a later step.
    pub fn step_in_pick(&self, i: usize) -> usize {
        let pick = self.pick_of(i);
        i - self.pick(pick).start + self.missing(pick)
    }

    fn missing(&self, pick: usize) -> usize {
        self.missing.get(pick).map_or(0, |missing| *missing as usize)
    }

    /// Whether slot `i` is one to learn from: it holds a frame, which is neither burn-in nor bootstrap of a sequence.
    pub fn is_learning(&self, i: usize) -> bool {
        self.flags()[i].valid() && self.learning.contains(&self.step_in_pick(i))
    }

    /// Number of the frame that pick `i` was drawn by: its first, behind the burn-in.
    pub fn anchor(&self, i: usize) -> u64 {
        self.frames[self.pick(i).start + self.learning.start - self.missing(i)]
    }

    /// By pick: the real observation after its last frame; with n-step returns that after the last step.
    pub fn next_observations(&self) -> &[T::Observation] {
        self.next.values()
    }

    /// What the policy did.
    pub fn actions(&self) -> &[T::Action] {
        self.values(column::ACTION)
    }

    /// Rewards as they were recorded.
    pub fn rewards(&self) -> &[f32] {
        self.values(column::REWARD)
    }

    /// How each frame ended its episode. The last frame of a slice is marked as a batch edge where the episode goes on.
    pub fn ends(&self) -> &[End] {
        self.values(column::END)
    }

    /// Frames of the episode before each frame.
    pub fn steps(&self) -> &[EpisodeStep] {
        self.values(column::STEP)
    }

    /// The episode of each frame.
    pub fn trajectory_ids(&self) -> &[TrajectoryId] {
        self.values(column::TRAJECTORY)
    }

    /// Which slots hold frames; the others are zeros.
    pub fn flags(&self) -> &[Flags] {
        self.values(column::FLAGS)
    }

    /// Version of the weights that chose each action.
    pub fn versions(&self) -> &[u64] {
        self.values(column::VERSION)
    }

    /// How many versions the weights of frame `i` were behind the learner's; none unless frames were drawn by staleness.
    pub fn staleness(&self, i: usize) -> Option<u64> {
        Some(self.consumer_version?.saturating_sub(self.versions()[i]))
    }

    pub(super) fn set_consumer_version(&mut self, version: Option<u64>) {
        self.consumer_version = version;
    }

    /// By pick: the n-step return without a bootstrap value, `r₀ + γ r₁ + …`; empty without n-step returns.
    pub fn returns(&self) -> &[f32] {
        &self.n_step.returns
    }

    /// By pick: what the value of [`next_observations`](Self::next_observations) counts in the return, `γ` to the number
    /// of its steps, 0 where the task ended; empty without n-step returns.
    pub fn discounts(&self) -> &[f32] {
        &self.n_step.discounts
    }

    /// By pick: the number of its sampler in a [`Mixture`](super::sampler::Mixture); empty without one.
    pub fn buffers(&self) -> &[u32] {
        &self.buffers
    }

    /// Names and layouts of the columns.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }

    /// A column as values of `V`, which has the column's stride. Errors: [`Error::Config`] for an unknown name;
    /// [`Error::State`] for a `V` of another size.
    pub fn column<V: Pod>(&self, name: &str) -> Result<&[V], Error> {
        let i = find(&self.specs, name)?;
        self.specs[i].values(self.columns[i].bytes())
    }

    fn values<V: Pod>(&self, i: usize) -> &[V] {
        self.columns.get(i).map_or(&[], Bytes::values)
    }

    /// Observation, next observation and reward of pick `i`, which is one frame.
    pub(super) fn transition_mut(&mut self, i: usize) -> (&mut T::Observation, &mut T::Observation, &mut f32) {
        let [observations, _, rewards, ..] = &mut self.columns[..] else { unreachable!("columns of every block") };
        (&mut observations.values_mut()[i], &mut self.next.values_mut()[i], &mut rewards.values_mut()[i])
    }

    /// Whether a sample that was loaded could be one of this ring. The error says what is wrong.
    pub(super) fn check(&self, ring: &super::ring::Ring) -> Result<(), String> {
        let (frames, picks) = (self.frames.len(), self.ends.len());
        let columns = self.specs.iter().zip(&self.columns);
        let wanted = self.specs == ring.specs
            && self.columns.len() == ring.specs.len()
            && columns.into_iter().all(|(spec, values)| Some(values.bytes().len()) == spec.stride.checked_mul(frames));
        if !wanted || !self.lists_are_whole(ring) {
            return Err("a sample has other columns".into());
        }
        let next = ring.specs[column::OBSERVATION].stride.checked_mul(picks);
        let NStep { returns, discounts } = &self.n_step;
        let steps = returns.len() == discounts.len() && (returns.is_empty() || returns.len() == picks);
        let ends = self.ends.is_sorted() && self.ends.last().copied().unwrap_or_default() == frames;
        // By pick: its anchor is one of its slots.
        let anchor = |i: usize| {
            let before = self.learning.start.checked_sub(self.missing(i));
            before.is_some_and(|before| before < self.pick(i).len())
        };
        let missing = (self.missing.is_empty() || self.missing.len() == picks) && ends && (0..picks).all(anchor);
        let after_joints = ring.specs[column::OBSERVATION].stride.checked_mul(self.joints.len());
        let joints = self.joints.is_sorted()
            && self.joints.last().is_none_or(|last| *last < frames)
            && after_joints == Some(self.after_joints.bytes().len());
        let one = joints && self.buffers.is_empty() && self.capacities.is_empty() && missing;
        let whole = one && steps && ends && next == Some(self.next.bytes().len()) && self.weights.len() == picks;
        if whole && self.capacity == ring.capacity() { Ok(()) } else { Err("a sample is not whole".into()) }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.columns.iter().map(Bytes::capacity).sum::<usize>()
            + self.lists.iter().map(Lists::memory).sum::<usize>()
            + self.next.capacity()
            + self.after_joints.capacity()
            + self.frames.capacity() * size_of::<u64>()
            + (self.weights.capacity() + self.n_step.returns.capacity() * 2) * size_of::<f32>()
    }
}

impl<T: Task> fmt::Debug for Sample<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.specs.iter().map(|spec| &*spec.name).collect();
        f.debug_struct("Sample")
            .field("frames", &self.len())
            .field("picks", &self.picks())
            .field("columns", &names)
            .finish()
    }
}
