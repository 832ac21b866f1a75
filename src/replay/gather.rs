//! From picks to columns: where the picks lie is listed under the ring's lock, what lies there is copied without it.

use std::sync::Arc;

use super::{
    Sample,
    cells::Move,
    index::Piece,
    lap::Lap,
    ragged::List,
    ring::{AHEAD, Pin, Ring},
    sampler::{Layout, Pick},
    view::View,
};
use crate::{
    bytes::Bytes,
    components::{End, Truncation, column, fetch},
    task::Task,
};

/// How the drawn frames lie in the ring.
#[derive(Default)]
pub(super) struct Scratch {
    /// By pick: where its first frame lies.
    pub(super) slots: Vec<usize>,
    /// By pick: its trajectory's record.
    records: Vec<u32>,
    /// Where slices lie; empty if every pick is a single frame.
    pub(super) moves: Vec<Move>,
    /// By pick: where the frame lies whose observation follows; that of the pick itself if there is none.
    next: Vec<usize>,
    /// Picks that no frame follows, and the observations after them.
    finals: Vec<usize>,
    final_observations: Vec<u8>,
    /// Slots without a frame: where they begin, and how many.
    pads: Vec<(usize, usize)>,
    /// By slice: the slot of its last frame.
    last: Vec<usize>,
    /// By slot of the sample that ends an episode within a pick: where the frame lies whose observation follows, or any if
    /// none does; and which of them those are.
    joints: Vec<usize>,
    joint_finals: Vec<usize>,
    joint_observations: Vec<u8>,
    oldest: Option<u64>,
    /// The frames of the n-step returns, and by pick where they end.
    ahead: Vec<Piece>,
    ahead_ends: Vec<usize>,
    rewards: Bytes,
    flags: Bytes,
    /// By slot of the sample, of the ragged column at hand.
    pub(super) lists: Vec<List>,
}

impl Scratch {
    fn clear(&mut self) {
        self.slots.clear();
        self.records.clear();
        self.moves.clear();
        self.next.clear();
        self.finals.clear();
        self.final_observations.clear();
        self.pads.clear();
        self.last.clear();
        self.joints.clear();
        self.joint_finals.clear();
        self.joint_observations.clear();
        self.oldest = None;
        self.ahead.clear();
        self.ahead_ends.clear();
    }
}

impl Scratch {
    /// Asks the memory for the record of a later pick.
    #[inline(always)]
    fn fetch_record(&self, view: &View<'_>, i: usize) {
        if let Some(record) = self.records.get(i) {
            fetch(std::slice::from_ref(view.trajectory(*record)));
        }
    }

    /// Notes the frame whose observation follows the next pick. If there is none the index has the observation, which is
    /// kept while the lock is held.
    #[inline(always)]
    fn follow(&mut self, view: &View<'_>, lap: Lap, record: u32, frame: Option<u64>) {
        let i = self.next.len();
        self.next.push(frame.map_or(self.slots[i], |frame| lap.slot(frame)));
        if frame.is_none() {
            self.finals.push(i);
            self.final_observations.extend_from_slice(view.state.index.last_observation(record));
        }
    }
}

impl<T: Task> Sample<T> {
    /// Lists where the picks lie and keeps what followed them, while nothing comes or goes.
    pub(super) fn begin(&mut self, view: &View<'_>, picks: &[Pick], layout: Layout<'_>, n_step: u32) {
        let specs = &view.ring.specs;
        if !Arc::ptr_eq(&self.specs, specs) {
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
        self.joints.clear();
        self.after_joints.resize(0);
        self.scratch.clear();
        self.next.resize(picks.len() * specs[column::OBSERVATION].stride);
        self.scratch.oldest = picks.iter().map(|pick| pick.frame).min();
        // As many as there can be, so that samples of a size allocate once.
        self.scratch.finals.reserve(picks.len());
        self.scratch.final_observations.reserve(picks.len() * specs[column::OBSERVATION].stride);
        let lap = view.ring.lap(view.window());
        self.scratch.slots.extend(picks.iter().map(|pick| lap.slot(pick.frame)));
        self.scratch.records.extend_from_slice(layout.records);
        if layout.records.is_empty() {
            self.scratch.records.resize(picks.len(), 0);
            // By themselves, so that the memory answers many of them at a time.
            view.ring.records_at(view.state, &self.scratch.slots, &mut self.scratch.records);
        }
        self.weights.extend(picks.iter().map(|pick| pick.weight));
        if n_step == 0 && !layout.slices && picks.iter().all(|pick| pick.len == 1) {
            self.begin_frames(view, lap, picks);
        } else {
            self.begin_slices(view, lap, picks, &layout, n_step);
        }
    }

    /// Picks of one frame each: where they lie is known already.
    fn begin_frames(&mut self, view: &View<'_>, lap: Lap, picks: &[Pick]) {
        self.frames.extend(picks.iter().map(|pick| pick.frame));
        self.ends.extend(1..=picks.len());
        for (i, pick) in picks.iter().enumerate() {
            self.scratch.fetch_record(view, i + AHEAD);
            let record = self.scratch.records[i];
            let next = view.trajectory(record).after(pick.frame, view.window());
            self.scratch.follow(view, lap, record, next);
        }
    }

    /// Picks of any length, with what their layout adds.
    fn begin_slices(&mut self, view: &View<'_>, lap: Lap, picks: &[Pick], layout: &Layout<'_>, n_step: u32) {
        let mut joined = layout.joined;
        for (i, pick) in picks.iter().enumerate() {
            self.scratch.fetch_record(view, i + AHEAD);
            let (begin, before) = (self.frames.len(), layout.before.get(i).copied().unwrap_or(0));
            self.pad(if layout.slots.is_some() { before } else { 0 });
            let parts = joined.partition_point(|(of, _)| *of as usize == i);
            self.begin_pick(view, lap, (i, pick, &joined[..parts]), layout, n_step);
            joined = &joined[parts..];
            let lie = (self.frames.len() - begin) as u32;
            self.pad(layout.slots.map_or(0, |slots| slots - lie));
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
    fn begin_pick(
        &mut self,
        view: &View<'_>,
        lap: Lap,
        (i, pick, joined): (usize, &Pick, &[(u32, Pick)]),
        &Layout { slices, stride, .. }: &Layout<'_>,
        n_step: u32,
    ) {
        let mut record = self.scratch.records[i];
        let mut following = self.lay(view, lap, record, pick, stride);
        for (_, part) in joined {
            self.join(view, lap, record, following);
            record = view.trajectory_of(part.frame);
            following = self.lay(view, lap, record, part, stride);
        }
        let scratch = &mut self.scratch;
        if slices {
            scratch.last.push(self.frames.len() - 1);
        }
        let trajectory = view.trajectory(record);
        let end = trajectory.positions(view.window()).end;
        if n_step > 0 {
            let position = trajectory.position(pick.frame);
            let steps = (end - position).min(n_step);
            following = position + steps;
            let at = scratch.ahead_ends.last().copied().unwrap_or(0);
            trajectory.pieces(position, steps, 1, |piece| scratch.ahead.push(piece));
            scratch.ahead_ends.push(at + steps as usize);
        }
        scratch.follow(view, lap, record, (following < end).then(|| trajectory.at(following)));
    }

    /// Lists frames of one trajectory behind those before; returns the position behind the last one.
    #[inline]
    fn lay(&mut self, view: &View<'_>, lap: Lap, record: u32, pick: &Pick, stride: u32) -> u32 {
        let Self { frames, scratch, .. } = self;
        let trajectory = view.trajectory(record);
        let position = trajectory.position(pick.frame);
        trajectory.pieces(position, pick.len, stride, |piece| {
            view.ring.moves(lap, piece, frames.len(), |part| {
                if scratch.moves.len() < AHEAD {
                    view.ring.fetch(part.run);
                }
                scratch.moves.push(part);
            });
            match piece.step {
                1 => frames.extend(piece.first..piece.first + u64::from(piece.len)),
                _ => frames.extend((0..piece.len).map(|i| piece.frame(i))),
            }
        });
        position + (pick.len - 1) * stride + 1
    }

    /// Notes that another episode follows the last slot, and the observation at position `following` of its own.
    fn join(&mut self, view: &View<'_>, lap: Lap, record: u32, following: u32) {
        let trajectory = view.trajectory(record);
        let next = (following < trajectory.positions(view.window()).end).then(|| trajectory.at(following));
        let (last, joint) = (self.frames.len() - 1, self.joints.len());
        self.joints.push(last);
        self.scratch.joints.push(lap.slot(next.unwrap_or(self.frames[last])));
        if next.is_none() {
            self.scratch.joint_finals.push(joint);
            self.scratch.joint_observations.extend_from_slice(view.state.index.last_observation(record));
        }
    }

    /// The oldest frame that was drawn.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.scratch.oldest
    }

    /// How many frames were drawn, without what pads them.
    pub(super) fn drawn(&self) -> usize {
        self.frames.len() - self.scratch.pads.iter().map(|(_, slots)| slots).sum::<usize>()
    }

    /// Copies the drawn frames out of the ring.
    pub(super) fn gather(&mut self, ring: &Ring, pin: &Pin<'_>, n_step: Option<(u32, f32)>) {
        let Self { specs, columns, frames, scratch, next, after_joints, .. } = self;
        for (i, (spec, values)) in specs.iter().zip(&mut *columns).enumerate() {
            // As much room as the list of frames has: samples of varying length soon allocate no more.
            values.resize(frames.capacity() * spec.stride);
            values.resize(frames.len() * spec.stride);
            if scratch.moves.is_empty() {
                ring.gather_each(pin, i, &scratch.slots, values.bytes_mut());
            }
            for (at, slots) in &scratch.pads {
                values.bytes_mut()[at * spec.stride..][..slots * spec.stride].fill(0);
            }
        }
        ring.gather_moves(pin, &scratch.moves, columns);
        let width = specs[column::OBSERVATION].stride;
        let gather_next = |slots: &[usize], finals: &[usize], observations: &[u8], to: &mut Bytes| {
            to.resize(slots.len() * width);
            ring.gather_each(pin, column::OBSERVATION, slots, to.bytes_mut());
            for (observation, i) in observations.chunks_exact(width).zip(finals) {
                to.bytes_mut()[i * width..][..width].copy_from_slice(observation);
            }
        };
        gather_next(&scratch.next, &scratch.finals, &scratch.final_observations, next);
        gather_next(&scratch.joints, &scratch.joint_finals, &scratch.joint_observations, after_joints);
        self.gather_lists(ring, pin);
        self.n_step.returns.clear();
        self.n_step.discounts.clear();
        match n_step {
            Some((_, gamma)) => self.gather_returns(ring, pin, gamma),
            None => self.mark_edges(),
        }
    }

    /// Marks the last frame of each slice whose episode goes on.
    fn mark_edges(&mut self) {
        let Self { columns, scratch, .. } = self;
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
