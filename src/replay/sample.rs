//! What samplers give.

use std::{fmt, marker::PhantomData};

use bytemuck::Pod;
use serde::{Deserialize, Serialize};

use super::{
    index::Piece,
    ring::{Pin, Ring},
    sampler::Pick,
    view::View,
};
use crate::{
    bytes::Bytes,
    components::{ColumnSpec, End, EpisodeStep, Flags, TrajectoryId, Truncation, column},
    error::Error,
    task::Task,
};

/// Frames that were drawn, in columns: the picks of a sampler one behind the other, each of one frame or, for slices, of
/// several that follow each other. It is independent of the buffer; given to
/// [`Sampler::sample_into`](super::Sampler::sample_into) again its memory is used again.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Sample<T: Task> {
    specs: Box<[ColumnSpec]>,
    columns: Vec<Bytes>,
    /// By pick: the observation after its last frame.
    next: Bytes,
    capacity: u64,
    frames: Vec<u64>,
    weights: Vec<f32>,
    /// By pick: where its frames end.
    ends: Vec<usize>,
    n_step: NStep,
    #[serde(skip)]
    scratch: Scratch,
    task: PhantomData<fn() -> T>,
}

/// By pick: its `n`-step return and the discount of the value that follows.
#[derive(Default, Serialize, Deserialize)]
struct NStep {
    returns: Vec<f32>,
    discounts: Vec<f32>,
}

/// How the drawn frames lie in the ring.
#[derive(Default)]
struct Scratch {
    pieces: Vec<Piece>,
    /// By pick: the frames of its n-step return.
    ahead: Vec<Piece>,
    /// By pick: where its pieces of `ahead` end.
    ahead_ends: Vec<usize>,
    rewards: Bytes,
    flags: Bytes,
    /// By pick: the frame whose observation follows; none if it was copied already.
    successors: Vec<Option<u64>>,
}

impl<T: Task> Default for Sample<T> {
    fn default() -> Self {
        Self {
            specs: Box::default(),
            columns: Vec::new(),
            next: Bytes::default(),
            capacity: 1,
            frames: Vec::new(),
            weights: Vec::new(),
            ends: Vec::new(),
            n_step: NStep::default(),
            scratch: Scratch::default(),
            task: PhantomData,
        }
    }
}

impl<T: Task> Sample<T> {
    /// Frames.
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

    /// The frames of pick `i`, as a range of places in the columns.
    pub fn pick(&self, i: usize) -> std::ops::Range<usize> {
        let begin = if i == 0 { 0 } else { self.ends[i - 1] };
        begin..self.ends[i]
    }

    /// Numbers of the frames, from 0 in the order of writing: what
    /// [`Sampler::update_priorities`](super::Sampler::update_priorities) takes.
    pub fn frames(&self) -> &[u64] {
        &self.frames
    }

    /// Place of frame `i` in the buffer, below its capacity.
    pub fn index(&self, i: usize) -> u64 {
        self.frames[i] % self.capacity
    }

    /// How often that place had been written before.
    pub fn generation(&self, i: usize) -> u64 {
        self.frames[i] / self.capacity
    }

    /// By pick: importance weights, 1 where every chance was the same.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// What the policy saw.
    pub fn observations(&self) -> &[T::Observation] {
        self.values(column::OBSERVATION)
    }

    /// The real observation after frame `i`; with n-step returns that after the last step.
    pub fn next_observation(&self, i: usize) -> &T::Observation {
        let pick = self.ends.partition_point(|end| *end <= i);
        if i + 1 == self.ends[pick] { &self.next_observations()[pick] } else { &self.observations()[i + 1] }
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

    /// Which slots hold frames.
    pub fn flags(&self) -> &[Flags] {
        self.values(column::FLAGS)
    }

    /// Version of the weights that chose each action.
    pub fn versions(&self) -> &[u64] {
        self.values(column::VERSION)
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

    /// Names and layouts of the columns.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }

    /// A column as values of `V`, which has the column's stride.
    pub fn column<V: Pod>(&self, name: &str) -> Result<&[V], Error> {
        let Some(i) = self.specs.iter().position(|spec| spec.name == name) else {
            let legal: Vec<_> = self.specs.iter().map(|spec| &*spec.name).collect();
            return Err(Error::config("column", name, legal.join(", ")));
        };
        self.specs[i].values(self.columns[i].bytes())
    }

    fn values<V: Pod>(&self, i: usize) -> &[V] {
        self.columns.get(i).map_or(&[], Bytes::values)
    }

    /// Lists where the picks lie and keeps what followed them, while nothing comes or goes.
    pub(super) fn begin(&mut self, view: &View<'_>, picks: &[Pick], n_step: u32) {
        let specs = &view.ring.specs;
        if self.specs != *specs {
            self.specs.clone_from(specs);
            self.columns.resize_with(specs.len(), Bytes::default);
        }
        self.capacity = view.ring.capacity;
        let Self { frames, weights, ends, scratch, next, .. } = self;
        (frames.clear(), weights.clear(), ends.clear());
        scratch.clear();
        let width = specs[column::OBSERVATION].stride;
        next.resize(picks.len() * width);
        for (pick, next) in picks.iter().zip(next.bytes_mut().chunks_exact_mut(width.max(1))) {
            let record = view.trajectory_of(pick.frame);
            let trajectory = view.trajectory(record);
            // One frame more than is asked for: the one whose observation follows.
            let most = pick.len.max(n_step);
            let (mut left, mut ahead, mut successor) = (pick.len, most, None);
            trajectory.from(pick.frame, most.saturating_add(1), view.window(), |piece| {
                let own = piece.len.min(left);
                if own > 0 {
                    scratch.pieces.push(Piece { len: own, ..piece });
                    frames.extend((0..own).map(|i| piece.frame(i)));
                }
                let steps = piece.len.min(ahead);
                if n_step > 0 && steps > 0 {
                    scratch.ahead.push(Piece { len: steps, ..piece });
                }
                if piece.len > steps {
                    successor = Some(piece.frame(steps));
                }
                (left, ahead) = (left - own, ahead - steps);
            });
            if successor.is_none() {
                next.copy_from_slice(view.state.index.last_observation(record));
            }
            scratch.successors.push(successor);
            scratch.ahead_ends.push(scratch.ahead.len());
            weights.push(pick.weight);
            ends.push(frames.len());
        }
    }

    /// The oldest frame that was drawn.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.frames.iter().min().copied()
    }

    /// Copies the drawn frames out of the ring.
    pub(super) fn gather(&mut self, ring: &Ring, pin: &Pin<'_>, n_step: Option<(u32, f32)>) {
        let Self { specs, columns, frames, scratch, .. } = self;
        for (i, (spec, values)) in specs.iter().zip(columns).enumerate() {
            values.resize(frames.len() * spec.stride);
            ring.gather(pin, i, &scratch.pieces, values.bytes_mut());
        }
        let width = self.specs[column::OBSERVATION].stride;
        for (successor, next) in scratch.successors.iter().zip(self.next.bytes_mut().chunks_exact_mut(width.max(1))) {
            if let Some(frame) = successor {
                ring.gather(pin, column::OBSERVATION, &[Piece { first: *frame, step: 1, len: 1 }], next);
            }
        }
        self.n_step.returns.clear();
        self.n_step.discounts.clear();
        match n_step {
            Some((_, gamma)) => self.gather_returns(ring, pin, gamma),
            None => self.mark_edges(),
        }
    }

    /// Marks the last frame of each slice whose episode goes on.
    fn mark_edges(&mut self) {
        let Self { columns, ends, frames, .. } = self;
        if ends.len() == frames.len() {
            return;
        }
        let marks: &mut [End] = columns[column::END].values_mut();
        for end in ends.iter() {
            marks[end - 1] = marks[end - 1].or_truncated(Truncation::BatchEdge);
        }
    }

    /// Sums the rewards of each pick's steps (Sutton and Barto 2018, equation 7.1).
    fn gather_returns(&mut self, ring: &Ring, pin: &Pin<'_>, gamma: f32) {
        let Self { scratch, n_step, .. } = self;
        let steps = scratch.ahead.iter().map(|piece| piece.len as usize).sum::<usize>();
        scratch.rewards.resize(steps * size_of::<f32>());
        scratch.flags.resize(steps);
        ring.gather(pin, column::REWARD, &scratch.ahead, scratch.rewards.bytes_mut());
        ring.gather(pin, column::END, &scratch.ahead, scratch.flags.bytes_mut());
        let (rewards, flags): (&[f32], &[End]) = (scratch.rewards.values(), scratch.flags.values());
        let (mut piece, mut at) = (0, 0);
        for end in &scratch.ahead_ends {
            let (mut sum, mut discount, begin) = (0.0_f64, 1.0_f64, at);
            at += scratch.ahead[piece..*end].iter().map(|piece| piece.len as usize).sum::<usize>();
            piece = *end;
            for reward in &rewards[begin..at] {
                sum += discount * f64::from(*reward);
                discount *= f64::from(gamma);
            }
            let ended = flags[begin..at].last().is_some_and(|end| end.terminated());
            n_step.returns.push(sum as f32);
            n_step.discounts.push(if ended { 0.0 } else { discount as f32 });
        }
    }

    /// Whether a sample that was loaded could be one of this ring. The error says what is wrong.
    pub(super) fn check(&self, ring: &Ring) -> Result<(), String> {
        let (frames, picks) = (self.frames.len(), self.ends.len());
        let columns = self.specs.iter().zip(&self.columns);
        let wanted = self.specs == ring.specs
            && self.columns.len() == ring.specs.len()
            && columns.into_iter().all(|(spec, values)| Some(values.bytes().len()) == spec.stride.checked_mul(frames));
        if !wanted {
            return Err("a sample has other columns".into());
        }
        let next = ring.specs[column::OBSERVATION].stride.checked_mul(picks);
        let NStep { returns, discounts } = &self.n_step;
        let steps = returns.len() == discounts.len() && (returns.is_empty() || returns.len() == picks);
        let ends = self.ends.is_sorted() && self.ends.last().copied().unwrap_or_default() == frames;
        let whole = steps && ends && next == Some(self.next.bytes().len()) && self.weights.len() == picks;
        if whole && self.capacity == ring.capacity { Ok(()) } else { Err("a sample is not whole".into()) }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.columns.iter().map(Bytes::capacity).sum::<usize>()
            + self.next.capacity()
            + self.frames.capacity() * size_of::<u64>()
            + (self.weights.capacity() + self.n_step.returns.capacity() * 2) * size_of::<f32>()
    }
}

impl Scratch {
    fn clear(&mut self) {
        self.pieces.clear();
        self.ahead.clear();
        self.ahead_ends.clear();
        self.successors.clear();
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
