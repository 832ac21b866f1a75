//! Stepping a strip of rows.

use std::cell::Cell;

use bytemuck::cast_slice;
use pulp::{Simd, WithSimd};

use super::{
    Env,
    step::{EnvSettings, close_frame},
};
use crate::{
    components::{End, Episode, EpisodeStep, FrameSlots, Reward, RowIndex, TrajectoryId},
    data::{Data, finite},
    seed::Stream,
};

/// Slices of equal length over the columns of a run of rows.
pub(super) struct Rows<'a, E: Env> {
    pub envs: &'a mut [E],
    pub streams: &'a mut [Stream],
    pub episodes: &'a mut [Episode],
    pub actions: &'a [E::Action],
    pub steps: &'a [EpisodeStep],
    pub rows: &'a [RowIndex],
    pub ids: &'a [TrajectoryId],
    pub observations: &'a mut [E::Observation],
    pub lasts: &'a mut [E::Observation],
    pub masks: &'a mut [E::Mask],
    pub rewards: &'a mut [Reward],
    pub ends: &'a mut [End],
    /// Where the frames are written, if not by Record.
    pub frames: Option<FrameSlots<'a, E>>,
}

impl<E: Env> Rows<'_, E> {
    /// Splits off the first `n` rows.
    #[inline(always)]
    pub(super) fn split_off(&mut self, n: usize) -> Self {
        macro_rules! first {
            (mut: $($m:ident),*; ref: $($r:ident),*) => {
                Rows {
                    $($m: self.$m.split_off_mut(..n).unwrap_or_default(),)*
                    $($r: self.$r.split_off(..n).unwrap_or_default(),)*
                    frames: self.frames.as_mut().map(|frames| frames.split_off(n)),
                }
            };
        }
        first!(mut: envs, streams, episodes, observations, lasts, masks, rewards, ends; ref: actions, steps, rows, ids)
    }
}

/// Rows that a thread takes at a time: what stepping them wrote is still in the first-level cache when their ends are
/// looked at, their next episodes begin and their frames are recorded.
pub(super) const STRIP: usize = 256;

/// Steps every row of a strip. Nothing is reset here, so that the loops stay free of rare branches.
///
/// Compiled for each instruction set: environments that are arithmetic are stepped as many rows at once as its registers
/// hold, with the same bits, since products and sums are never fused.
pub(super) struct StepAll<'s, 'r, E: Env, C> {
    pub settings: &'s EnvSettings<E>,
    /// Whether every episode is cut.
    pub cut: bool,
    pub rows: &'s mut Rows<'r, E>,
    /// The row that is being stepped, for the message of a panic. Not a `usize`: the loop writes it in every turn, and
    /// the widest number that a loop writes bounds how many rows a register holds.
    pub current: &'s Cell<u32>,
    pub clip: C,
}

impl<E: Env, C: Fn(&E::Action) -> E::Action> WithSimd for StepAll<'_, '_, E, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Rows { envs, streams, actions, observations, rewards, ends, .. } = &mut *self.rows;
        let action = |i| {
            self.current.set(i as u32);
            (self.clip)(&actions[i])
        };
        E::step_many(envs, streams, action, |i, transition| {
            ends[i] = End::from_env(transition.terminated, transition.truncated);
            rewards[i] = Reward(transition.reward);
            observations[i] = transition.observation;
        });
        close(self.settings, self.cut, self.rows);
    }
}

/// Ends frames as the engine does: at limits, by force, and where numbers are not finite.
#[inline(always)]
pub(super) fn close<E: Env>(settings: &EnvSettings<E>, cut: bool, rows: &mut Rows<'_, E>) {
    let Rows { steps, observations, rewards, ends, .. } = rows;
    close_frames(ends, steps, settings.limit.wrapping_sub(1), cut);
    if !all_finite(settings.floats, observations, rewards) {
        quarantine(ends, observations, rewards);
    }
}

/// Adds the engine's truncations to the ends that environments gave.
#[inline(always)]
fn close_frames(ends: &mut [End], steps: &[EpisodeStep], last: u32, cut: bool) {
    for (end, step) in ends.iter_mut().zip(steps) {
        *end = close_frame(*end, true, step.0 >= last, cut);
    }
}

/// Whether every number is finite. `floats` says that observations are floats and nothing else.
#[inline(always)]
fn all_finite<O: Data>(floats: bool, observations: &[O], rewards: &[Reward]) -> bool {
    let seen =
        if floats { all_numbers_finite(cast_slice(observations)) } else { observations.iter().all(Data::is_finite) };
    seen & all_numbers_finite(cast_slice(rewards))
}

/// By the largest magnitude, as bits: infinity and NaN lie above all numbers.
#[inline(always)]
fn all_numbers_finite(numbers: &[f32]) -> bool {
    numbers.iter().fold(0, |largest, x| (x.to_bits() & 0x7fff_ffff).max(largest)) < f32::INFINITY.to_bits()
}

#[cold]
fn quarantine<O: Data>(ends: &mut [End], observations: &[O], rewards: &[Reward]) {
    for ((end, observation), reward) in ends.iter_mut().zip(observations).zip(rewards) {
        if !(finite(reward.0) && observation.is_finite()) {
            *end = End::QUARANTINED;
        }
    }
}
