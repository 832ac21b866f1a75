//! Priorities that were loaded are believed once chances follow from them.

use super::Priorities;
use crate::replay::{
    sampler::{Prioritized, PrioritizedSlices, Sampling, maximum::Maximum},
    view::View,
};

/// No sampler has drawn as often, so that counting goes on.
const MOST: u64 = 1 << 62;

/// Equal but for what machines round in another way.
fn close(a: f32, b: f32) -> bool {
    (f64::from(a) - f64::from(b)).abs() <= 1e-5 * f64::from(b)
}

fn legal(number: f32) -> bool {
    number.is_finite() && number >= 0.0
}

impl Priorities {
    pub(in crate::replay::sampler) fn is_of(&self, sampling: &Sampling) -> bool {
        match sampling {
            Sampling::Prioritized(options) => self.has(*options, 1),
            Sampling::PrioritizedSlices(PrioritizedSlices { slice_len, priorities }) => {
                self.has(*priorities, *slice_len)
            }
            _ => false,
        }
    }

    /// Whether it draws picks of `len` frames with these options.
    pub(in crate::replay::sampler) fn has(&self, options: Prioritized, len: u32) -> bool {
        options == self.options && len == self.len
    }

    /// Everything has the ring's places, priorities are legal numbers, and the chances are those of frames that were there.
    pub(in crate::replay::sampler) fn check(&self, view: &View<'_>) -> Result<(), String> {
        let (window, capacity) = (view.window(), view.ring.capacity());
        let size = self.tree.size();
        if size as u64 != capacity || self.raw.len() != size {
            return Err(format!("it has {} chances and {} priorities", size, self.raw.len()));
        }
        let counts = self.given.is_some() == self.options.max_priority_within_buffer;
        if !counts || self.given.as_ref().is_some_and(|given| !given.is_sound(size)) {
            return Err("its highest priority is not that of the frames".into());
        }
        let seen = self.head.checked_sub(self.tail).is_some_and(|frames| frames <= capacity);
        if !seen || self.tail > window.tail || self.head > window.head {
            return Err(format!("it knows frames {} to {}", self.tail, self.head));
        }
        let alphas = [self.samples, self.samples.saturating_sub(1)].map(|samples| self.options.alpha.at(samples));
        if self.samples > MOST || !alphas.into_iter().any(|alpha| close(self.alpha, alpha)) {
            return Err(format!("it has alpha {} after {} samples", self.alpha, self.samples));
        }
        if !self.raw.iter().copied().chain(self.highest).all(legal) {
            return Err("a priority is negative or not finite".into());
        }
        self.check_frames(view)
    }

    fn check_frames(&self, view: &View<'_>) -> Result<(), String> {
        let given = |at: usize| self.given.as_ref().and_then(|given: &Maximum| given.get(at));
        let (mut chances, mut priorities) = (0, 0);
        for frame in self.tail..self.head {
            let at = self.place(frame);
            let (chance, wanted) = (self.tree.get(at), self.chance(self.raw[at]));
            // Whether a frame that is gone since has begun a pick is not known any more.
            let gone = self.len > 1 && frame < view.window().tail;
            let begins = !gone && self.began(view, frame);
            if !(begins && close(chance, wanted) || chance == 0.0 && !begins || gone && close(chance, wanted)) {
                return Err(format!("frame {frame} has chance {chance}, priority {}", self.raw[at]));
            }
            if given(at).is_some_and(|given| given != self.raw[at]) {
                return Err(format!("frame {frame} has two priorities"));
            }
            chances += usize::from(chance > 0.0);
            priorities += usize::from(given(at).is_some());
        }
        let places = || 0..self.tree.size();
        let there = places().filter(|at| self.tree.get(*at) > 0.0).count();
        if there != chances || places().filter(|at| given(*at).is_some()).count() != priorities {
            return Err("a place without a frame has a chance or a priority".into());
        }
        Ok(())
    }

    /// Whether a pick that begins with a frame was there whole when the newest frames were taken in.
    fn began(&self, view: &View<'_>, frame: u64) -> bool {
        if self.len == 1 {
            return true;
        }
        let trajectory = view.trajectory(view.trajectory_of(frame));
        let last = trajectory.position(frame).checked_add(self.len - 1);
        let last = last.filter(|last| *last < trajectory.positions(view.window()).end);
        last.is_some_and(|last| trajectory.at(last) < self.head)
    }
}
