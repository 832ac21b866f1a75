//! Keeps writers and samplers in step: whoever is too far ahead waits.
//!
//! The rule is Reverb's (Cassirer et al. 2021, "Reverb: a framework for experience replay", section 3.3): with `d` the
//! frames written times `samples_per_insert`, less the frames drawn, and `m` its value when exactly `min_size` frames were
//! written and none drawn,
//!
//! - a writer goes on while fewer than `min_size` frames are there, or one frame more leaves `d ≤ m + error_buffer`;
//! - a sampler goes on while `min_size` frames are there and one draw more leaves `d ≥ m − error_buffer`.
//!
//! Both rules ask for one frame, however large the block or the sample, so that no size is ever stuck; what is written at
//! once may go beyond the bound by itself. As the buffer is at least as wide as a step of either side, never do both wait.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::index::Window;
use crate::error::Error;

/// How many frames are drawn for each one that is written. Frames that were written but not drawn that often are never
/// more than `min_size + error_buffer / samples_per_insert` and one block. When nobody writes any more, draws beyond what
/// was written for are [`Error::Timeout`], and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limiter {
    /// Frames drawn for each frame written; above 0.
    pub samples_per_insert: f64,
    /// Frames that are there before the first is drawn; at most the capacity.
    pub min_size: u64,
    /// Drawn frames by which either side may be ahead; at least 1 and `samples_per_insert`.
    pub error_buffer: f64,
}

/// Counters of a [`Limiter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimiterStats {
    /// Frames written.
    pub inserts: u64,
    /// Frames drawn.
    pub samples: u64,
    /// Writes that had to wait.
    pub write_waits: u64,
    /// Draws that had to wait.
    pub draw_waits: u64,
    /// Waits that ran out, of either side.
    pub timeouts: u64,
}

impl LimiterStats {
    /// Whether counting can go on: nothing was ever counted as high as 2⁶².
    pub(super) fn is_sound(&self) -> bool {
        let Self { inserts, samples, write_waits, draw_waits, timeouts } = *self;
        [inserts, samples, write_waits, draw_waits, timeouts].into_iter().all(|count| count < 1 << 62)
    }
}

impl Limiter {
    /// What is wrong with it, for a buffer of `capacity` frames.
    pub(super) fn problems(&self, capacity: u64) -> Vec<Error> {
        let mut errors = Vec::new();
        let ratio = self.samples_per_insert;
        if !(ratio.is_finite() && ratio > 0.0) {
            errors.push(Error::config("limiter.samples_per_insert", ratio, "a finite number above 0"));
        }
        if !(1..=capacity).contains(&self.min_size) {
            let legal = format!("1 to the capacity, {capacity} frames");
            errors.push(Error::config("limiter.min_size", self.min_size, legal));
        }
        let least = ratio.max(1.0);
        if !(self.error_buffer.is_finite() && self.error_buffer >= least) {
            let legal = format!("a finite number from {least} on, so that both sides never wait at once");
            errors.push(Error::config("limiter.error_buffer", self.error_buffer, legal));
        }
        errors
    }
}

/// What is counted.
#[derive(Clone, Copy, Default)]
struct Counts {
    stats: LimiterStats,
    /// Frames of writers that were let in and are not done.
    coming: u64,
    /// Frames of samplers that were let in and are not done.
    going: u64,
    /// Frames that are there.
    size: u64,
}

impl Counts {
    fn drawn(&self) -> u64 {
        self.stats.samples + self.going
    }
}

/// Where writers and samplers wait.
pub(super) struct Gate {
    limiter: Limiter,
    counts: Mutex<Counts>,
    changed: Condvar,
}

/// A writer's leave to write; given back when dropped.
pub(super) struct Room<'g> {
    gate: &'g Gate,
    frames: u64,
}

/// A sampler's leave to draw; given back when dropped.
pub(super) struct Turn<'g> {
    gate: &'g Gate,
    frames: u64,
}

impl Gate {
    pub(super) fn new(limiter: Limiter) -> Self {
        Self { limiter, counts: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self) -> LimiterStats {
        self.lock().stats
    }

    /// How far the written frames, with `more`, are ahead of the drawn ones, beyond the middle.
    fn ahead(&self, written: u64, drawn: u64) -> f64 {
        let Limiter { samples_per_insert: ratio, min_size, .. } = self.limiter;
        (written as f64 - min_size as f64) * ratio - drawn as f64
    }

    fn may_write(&self, counts: &Counts) -> bool {
        counts.size + counts.coming < self.limiter.min_size
            || self.ahead(counts.stats.inserts + counts.coming + 1, counts.drawn()) <= self.limiter.error_buffer
    }

    fn may_draw(&self, counts: &Counts) -> bool {
        counts.size >= self.limiter.min_size
            && self.ahead(counts.stats.inserts, counts.drawn() + 1) >= -self.limiter.error_buffer
    }

    /// Waits until `may`, then counts.
    fn wait(
        &self,
        may: impl Fn(&Counts) -> bool,
        waits: impl Fn(&mut LimiterStats) -> &mut u64,
        (what, deadline): (&'static str, Duration),
        count: impl Fn(&mut Counts),
    ) -> Result<(), Error> {
        let mut counts = self.lock();
        if !may(&counts) {
            *waits(&mut counts.stats) += 1;
            let waited = self.changed.wait_timeout_while(counts, deadline, |counts| !may(counts));
            let (mut left, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                left.stats.timeouts += 1;
                return Err(Error::Timeout { what, deadline });
            }
            counts = left;
        }
        count(&mut counts);
        Ok(())
    }

    /// Waits until `frames` more may be written.
    pub(super) fn begin_write(&self, frames: u64, deadline: Duration) -> Result<Room<'_>, Error> {
        let what = "drawing the frames that the replay buffer's limiter asks for before the next write";
        let may = |counts: &Counts| frames == 0 || self.may_write(counts);
        self.wait(may, |stats| &mut stats.write_waits, (what, deadline), |counts| counts.coming += frames)?;
        Ok(Room { gate: self, frames })
    }

    /// Waits until `frames` more may be drawn, or nobody will: `given_up` is looked at when the gate is [woken](Self::wake).
    pub(super) fn begin_draw(
        &self,
        frames: usize,
        deadline: Duration,
        given_up: impl Fn() -> bool,
    ) -> Result<Turn<'_>, Error> {
        let what = "writing the frames that the replay buffer's limiter asks for before the next draw";
        let may = |counts: &Counts| self.may_draw(counts) || given_up();
        let frames = frames as u64;
        self.wait(may, |stats| &mut stats.draw_waits, (what, deadline), |counts| counts.going += frames)?;
        Ok(Turn { gate: self, frames })
    }

    /// The buffer and its counts were loaded; without any, what is there counts as written and drawn as often as it is to
    /// be.
    pub(super) fn restore(&self, stats: Option<LimiterStats>, window: Window) {
        let size = window.head - window.tail;
        let samples = self.ahead(size, 0).max(0.0) as u64;
        let stats = stats.unwrap_or(LimiterStats { inserts: size, samples, ..LimiterStats::default() });
        let mut counts = self.lock();
        // Those who wait for their turn to write or to draw go on.
        (counts.stats, counts.size) = (stats, size);
        drop(counts);
        self.changed.notify_all();
    }

    /// Lets those who wait look again.
    pub(super) fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// This is there now: the buffer was emptied, or frames were used up.
    pub(super) fn resized(&self, window: Window) {
        self.lock().size = window.len();
        self.changed.notify_all();
    }
}

impl Room<'_> {
    /// The frames were written, and this is there now.
    pub(super) fn written(mut self, window: Window) {
        let frames = std::mem::take(&mut self.frames);
        let mut counts = self.gate.lock();
        counts.coming -= frames;
        counts.stats.inserts += frames;
        counts.size = window.head - window.tail;
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.gate.lock().coming -= self.frames;
        self.gate.changed.notify_all();
    }
}

impl Turn<'_> {
    /// So many frames were drawn.
    pub(super) fn drawn(mut self, frames: usize) {
        let reserved = std::mem::take(&mut self.frames);
        let mut counts = self.gate.lock();
        counts.going -= reserved;
        counts.stats.samples += frames as u64;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate.lock().going -= self.frames;
        self.gate.changed.notify_all();
    }
}
