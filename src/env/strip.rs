//! Stepping a strip of rows.

use std::ops::Range;

use bytemuck::cast_slice;
use pulp::{Simd, WithSimd};

use super::{
    Env,
    failed::Place,
    step::{Tick, close_frame},
};
use crate::{
    components::{End, Episode, EpisodeStep, FrameSlots, Reward, RowIndex, TrajectoryId, Writer},
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

    /// Some of the rows.
    #[inline(always)]
    pub(super) fn part(&mut self, range: Range<usize>) -> Rows<'_, E> {
        macro_rules! part {
            (mut: $($m:ident),*; ref: $($r:ident),*) => {
                Rows {
                    $($m: &mut self.$m[range.clone()],)*
                    $($r: &self.$r[range.clone()],)*
                    frames: self.frames.as_mut().map(|frames| frames.part(range)),
                }
            };
        }
        part!(mut: envs, streams, episodes, observations, lasts, masks, rewards, ends; ref: actions, steps, rows, ids)
    }
}

/// Rows that all passes of a tick go over before the next ones: what stepping them wrote is still in the first-level cache
/// when their ends are looked at, their next episodes begin and their frames are recorded. The place of one is a byte.
pub(super) const STRIP: usize = 256;

/// The tick of many rows, with their frames.
///
/// Compiled for each instruction set: environments that are arithmetic are stepped as many rows at once as its registers
/// hold, with the same bits, since products and sums are never fused.
pub(super) struct StepRows<'s, 'r, E: Env, C> {
    pub tick: &'s Tick<'s, E>,
    pub rows: &'s mut Rows<'r, E>,
    /// The first of the rows that are still to be stepped.
    pub next: usize,
    pub at: &'s Place,
    pub clip: C,
}

impl<E: Env, C: Fn(&E::Action) -> E::Action> WithSimd for StepRows<'_, '_, E, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { tick, rows, next, at, clip } = self;
        let n = rows.envs.len();
        for first in (next..n).step_by(STRIP) {
            let mut strip = rows.part(first..(first + STRIP).min(n));
            at.begin(first);
            step_all(tick, &mut strip, at, &clip);
            tick.finish(&mut strip, at);
            tick.close(&mut strip);
        }
    }
}

/// Steps every row of a strip. Nothing is reset here, so that the loops stay free of rare branches.
#[inline(always)]
fn step_all<E: Env>(tick: &Tick<'_, E>, rows: &mut Rows<'_, E>, at: &Place, clip: impl Fn(&E::Action) -> E::Action) {
    // Of one length that the compiler sees: a loop that may end at a bound's check does its last rows one by one.
    let n = rows.envs.len().min(STRIP);
    let (envs, streams, ends) = (&mut rows.envs[..n], &mut rows.streams[..n], &mut rows.ends[..n]);
    let actions = &rows.actions[..n];
    let (observations, rewards) = match &mut rows.frames {
        Some(frames) => (&mut frames.observations[..n], &mut frames.rewards[..n]),
        None => (&mut rows.observations[..n], &mut rows.rewards[..n]),
    };
    // So that a panic shows which rows have an outcome.
    ends.fill(End::IDLE);
    let action = |i| {
        at.at(i);
        clip(&actions[i])
    };
    E::step_many(envs, streams, action, |i, transition| {
        ends[i] = End::from_env(transition.terminated, transition.truncated);
        rewards[i] = Reward(transition.reward);
        observations[i] = transition.observation;
    });
    settle(tick, rows);
}

/// What a strip's steps gave, as the engine takes it: ended at limits, by force, and where numbers are not finite.
#[inline(always)]
pub(super) fn settle<E: Env>(tick: &Tick<'_, E>, rows: &mut Rows<'_, E>) {
    if let Some(frames) = &rows.frames {
        Writer::default().copy(frames.observations, rows.observations);
        Writer::default().copy(frames.rewards, rows.rewards);
    }
    close_frames(rows.ends, rows.steps, tick.settings.limit.wrapping_sub(1), tick.cut);
    if !all_finite(tick.settings.floats, rows.observations, rows.rewards) {
        quarantine(rows.ends, rows.observations, rows.rewards);
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
