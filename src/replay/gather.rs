//! From picks to columns: where the picks lie is listed under the ring's lock, what lies there is copied without it.

use super::{
    Sample,
    cells::Move,
    index::Piece,
    ring::{Pin, Ring},
    sampler::{Layout, Pick},
    view::View,
};
use crate::{
    bytes::Bytes,
    components::{End, Truncation, column},
    task::Task,
};

/// How the drawn frames lie in the ring.
#[derive(Default)]
pub(super) struct Scratch {
    /// By pick: its trajectory's record.
    records: Vec<u32>,
    moves: Vec<Move>,
    /// Frames whose observation follows a pick.
    successors: Vec<Move>,
    /// Slots without a frame: where they begin, and how many.
    pads: Vec<(usize, usize)>,
    /// By pick: the slot of its last frame.
    last: Vec<usize>,
    oldest: Option<u64>,
    /// The frames of the n-step returns, and by pick where they end.
    ahead: Vec<Piece>,
    ahead_ends: Vec<usize>,
    rewards: Bytes,
    flags: Bytes,
}

impl Scratch {
    fn clear(&mut self) {
        self.records.clear();
        self.moves.clear();
        self.successors.clear();
        self.pads.clear();
        self.last.clear();
        self.oldest = None;
        self.ahead.clear();
        self.ahead_ends.clear();
    }
}

impl<T: Task> Sample<T> {
    /// Lists where the picks lie and keeps what followed them, while nothing comes or goes.
    pub(super) fn begin(&mut self, view: &View<'_>, picks: &[Pick], layout: Layout<'_>, n_step: u32) {
        let specs = &view.ring.specs;
        if self.specs != *specs {
            self.specs.clone_from(specs);
            self.columns.resize_with(specs.len(), Bytes::default);
        }
        self.capacity = view.ring.capacity();
        self.learning = layout.learning.clone();
        self.missing.clear();
        self.buffers.clear();
        if layout.slots.is_none() {
            self.missing.extend_from_slice(layout.before);
        }
        self.frames.clear();
        self.weights.clear();
        self.ends.clear();
        self.scratch.clear();
        self.next.resize(picks.len() * specs[column::OBSERVATION].stride);
        self.scratch.oldest = picks.iter().map(|pick| pick.frame).min();
        // By themselves, so that the memory answers many of them at a time.
        self.scratch.records.extend(picks.iter().map(|pick| view.trajectory_of(pick.frame)));
        for (i, pick) in picks.iter().enumerate() {
            let before = layout.before.get(i).copied().unwrap_or(0);
            let behind = layout.slots.map_or(0, |slots| slots - before - pick.len);
            self.pad(if layout.slots.is_some() { before } else { 0 });
            self.begin_pick(view, i, pick, layout.stride, n_step);
            self.pad(behind);
            self.weights.push(pick.weight);
            self.ends.push(self.frames.len());
        }
    }

    #[inline]
    fn pad(&mut self, slots: u32) {
        if slots > 0 {
            self.scratch.pads.push((self.frames.len(), slots as usize));
            self.frames.extend(std::iter::repeat_n(u64::MAX, slots as usize));
        }
    }

    #[inline]
    fn begin_pick(&mut self, view: &View<'_>, i: usize, pick: &Pick, stride: u32, n_step: u32) {
        let Self { frames, scratch, next, .. } = self;
        let record = scratch.records[i];
        let trajectory = view.trajectory(record);
        let (position, end) = (trajectory.position(pick.frame), trajectory.positions(view.window()).end);
        trajectory.pieces(position, pick.len, stride, |piece| {
            view.ring.moves(piece, frames.len(), |part| scratch.moves.push(part));
            frames.extend((0..piece.len).map(|i| piece.frame(i)));
        });
        scratch.last.push(frames.len() - 1);
        let mut following = position + (pick.len - 1) * stride + 1;
        if n_step > 0 {
            let steps = (end - position).min(n_step.max(pick.len));
            following = position + steps;
            let at = scratch.ahead_ends.last().copied().unwrap_or(0);
            trajectory.pieces(position, steps, 1, |piece| scratch.ahead.push(piece));
            scratch.ahead_ends.push(at + steps as usize);
        }
        if following < end {
            trajectory.pieces(following, 1, 1, |piece| view.ring.moves(piece, i, |part| scratch.successors.push(part)));
        } else {
            let observation = view.state.index.last_observation(record);
            next.bytes_mut()[i * observation.len()..][..observation.len()].copy_from_slice(observation);
        }
    }

    /// The oldest frame that was drawn.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.scratch.oldest
    }

    /// Copies the drawn frames out of the ring.
    pub(super) fn gather(&mut self, ring: &Ring, pin: &Pin<'_>, n_step: Option<(u32, f32)>) {
        let Self { specs, columns, frames, scratch, next, .. } = self;
        for (i, (spec, values)) in specs.iter().zip(columns).enumerate() {
            values.resize(frames.len() * spec.stride);
            ring.gather_moves(pin, i, &scratch.moves, values.bytes_mut());
            for (at, slots) in &scratch.pads {
                values.bytes_mut()[at * spec.stride..][..slots * spec.stride].fill(0);
            }
        }
        ring.gather_moves(pin, column::OBSERVATION, &scratch.successors, next.bytes_mut());
        self.n_step.returns.clear();
        self.n_step.discounts.clear();
        match n_step {
            Some((_, gamma)) => self.gather_returns(ring, pin, gamma),
            None => self.mark_edges(),
        }
    }

    /// Marks the last frame of each slice whose episode goes on.
    fn mark_edges(&mut self) {
        let Self { columns, ends, frames, scratch, .. } = self;
        if ends.len() == frames.len() {
            return;
        }
        let marks: &mut [End] = columns[column::END].values_mut();
        for last in &scratch.last {
            // A terminated frame would take the mark as well, and need none.
            if !marks[*last].done() {
                marks[*last] = End::truncated_by(Truncation::BatchEdge);
            }
        }
    }

    /// Sums the rewards of each pick's steps (Sutton and Barto 2018, equation 7.1).
    fn gather_returns(&mut self, ring: &Ring, pin: &Pin<'_>, gamma: f32) {
        let Self { scratch, n_step, .. } = self;
        let steps = scratch.ahead_ends.last().copied().unwrap_or(0);
        scratch.rewards.resize(steps * size_of::<f32>());
        scratch.flags.resize(steps);
        ring.gather(pin, column::REWARD, &scratch.ahead, scratch.rewards.bytes_mut());
        ring.gather(pin, column::END, &scratch.ahead, scratch.flags.bytes_mut());
        let (rewards, flags): (&[f32], &[End]) = (scratch.rewards.values(), scratch.flags.values());
        let mut begin = 0;
        for end in &scratch.ahead_ends {
            let (mut sum, mut discount) = (0.0_f64, 1.0_f64);
            for reward in &rewards[begin..*end] {
                sum += discount * f64::from(*reward);
                discount *= f64::from(gamma);
            }
            let ended = flags[begin..*end].last().is_some_and(|end| end.terminated());
            n_step.returns.push(sum as f32);
            n_step.discounts.push(if ended { 0.0 } else { discount as f32 });
            begin = *end;
        }
    }
}
