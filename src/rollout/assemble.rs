//! The Assemble stage: counts steps and returns, and turns episodes that ended into trajectories.

use bevy_ecs::prelude::*;
use pulp::{Arch, Simd, WithSimd};

use super::{
    block::Final,
    state::{Ended, Rollout, with_rollout},
    trajectories::Pooled,
};
use crate::{
    components::{
        End, EpisodeReturn, EpisodeStep, LastObservation, Reward, RowIndex, Slot, Trajectory, TrajectoryId, Truncation,
    },
    task::Task,
};

type EpisodeColumns<T> = (
    (&'static mut EpisodeStep, &'static mut EpisodeReturn, &'static mut TrajectoryId),
    (&'static End, &'static Reward, &'static LastObservation<T>),
    (&'static RowIndex, &'static Slot),
);

/// Closes the tick: after this the columns describe the coming frame.
///
/// Exclusive, so that episodes that end can be given entities without commands: a point where commands are applied costs
/// as much as a system in every tick.
pub(crate) fn assemble<T: Task>(
    world: &mut World,
    rows: &mut QueryState<EpisodeColumns<T>>,
    places: &mut QueryState<(Entity, &Slot), With<LastObservation<T>>>,
    trajectories: &mut QueryState<Pooled>,
    mut order: Local<Vec<(u32, Entity)>>,
) {
    with_rollout::<T, _>(world, |world, rollout| {
        if std::mem::take(&mut rollout.recorded) {
            for slot in rollout.started.drain(..) {
                rollout.first_versions[slot as usize] = rollout.plan.versions.of(slot);
            }
            if rollout.in_order {
                assemble_slices(rollout, rows.query_mut(&mut *world));
            } else {
                order.extend(places.iter(world).map(|(entity, slot)| (slot.0, entity)));
                order.sort_unstable();
                assemble_scattered(rollout, rows.query_mut(&mut *world), order.drain(..));
            }
            rollout.tick += 1;
        }
        rollout.publish(world, trajectories);
    });
}

/// Rows in slot order that may lie anywhere.
fn assemble_scattered<T: Task>(
    rollout: &mut Rollout<T>,
    mut rows: Query<EpisodeColumns<T>>,
    order: impl Iterator<Item = (u32, Entity)>,
) {
    let active = rollout.plan.active.min(rollout.rows as u32);
    for (slot, entity) in order.take_while(|(slot, _)| *slot < active) {
        let Ok(((mut step, mut total, mut id), (end, reward, last), (row, _))) = rows.get_mut(entity) else {
            continue;
        };
        advance(&mut step, &mut total, *end, *reward);
        if end.done() && *end != End::IDLE {
            rollout.finish_episode(slot, *row, *end, last, &mut step, &mut total, &mut id);
        }
    }
}

#[inline(always)]
fn advance(step: &mut EpisodeStep, total: &mut EpisodeReturn, end: End, reward: Reward) {
    let counts = end.is_frame();
    step.0 += u32::from(counts);
    // Selected, not multiplied: a quarantined reward may be NaN.
    total.0 += if counts { reward.0 } else { 0.0 };
}

/// Rows are tables of consecutive slots; they are taken in slot order, which is that of ids.
fn assemble_slices<T: Task>(rollout: &mut Rollout<T>, mut rows: Query<EpisodeColumns<T>>) {
    let mut next = 0;
    while next < rollout.rows {
        let (before, Ok(chunks)) = (next, rows.contiguous_iter_mut()) else { return };
        for ((mut steps, mut totals, mut ids), (ends, rewards, lasts), (rows, slots)) in chunks {
            if slots.first() != Some(&Slot(next as u32)) {
                continue;
            }
            let n = slots.len().min((rollout.plan.active as usize).saturating_sub(next));
            let columns = Chunk {
                first: next as u32,
                steps: &mut steps.bypass_change_detection()[..n],
                totals: &mut totals.bypass_change_detection()[..n],
                ids: ids.bypass_change_detection(),
                ends: &ends[..n],
                rewards: &rewards[..n],
                lasts,
                rows,
            };
            rollout.assemble_chunk(columns);
            next += slots.len();
        }
        if next == before {
            return;
        }
    }
}

/// A table of consecutive slots.
struct Chunk<'a, T: Task> {
    first: u32,
    steps: &'a mut [EpisodeStep],
    totals: &'a mut [EpisodeReturn],
    ids: &'a mut [TrajectoryId],
    ends: &'a [End],
    rewards: &'a [Reward],
    lasts: &'a [LastObservation<T>],
    rows: &'a [RowIndex],
}

/// Every row had a frame.
struct Advance<'a> {
    steps: &'a mut [EpisodeStep],
    totals: &'a mut [EpisodeReturn],
    rewards: &'a [Reward],
}

impl WithSimd for Advance<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for ((step, total), reward) in self.steps.iter_mut().zip(self.totals).zip(self.rewards) {
            step.0 += 1;
            total.0 += reward.0;
        }
    }
}

impl<T: Task> Rollout<T> {
    fn assemble_chunk(&mut self, chunk: Chunk<'_, T>) {
        let Chunk { first, steps, totals, ids, ends, rewards, lasts, rows } = chunk;
        if self.gaps {
            for (((step, total), end), reward) in steps.iter_mut().zip(totals.iter_mut()).zip(ends).zip(rewards) {
                advance(step, total, *end, *reward);
            }
        } else {
            Arch::new().dispatch(Advance { steps, totals, rewards });
        }
        End::each_done(ends, |i| {
            if ends[i] != End::IDLE {
                let (step, total, id) = (&mut steps[i], &mut totals[i], &mut ids[i]);
                self.finish_episode(first + i as u32, rows[i], ends[i], &lasts[i], step, total, id);
            }
        });
    }

    /// Closes the episode of a row whose end is set, and opens the next.
    #[expect(clippy::too_many_arguments, reason = "one a column of the row")]
    #[inline(always)]
    fn finish_episode(
        &mut self,
        slot: u32,
        row: RowIndex,
        end: End,
        last: &LastObservation<T>,
        step: &mut EpisodeStep,
        total: &mut EpisodeReturn,
        id: &mut TrajectoryId,
    ) {
        let ending = match end.lost() {
            None => {
                if let Some(block) = &mut self.block {
                    block.finals.push(Final { frame: self.tick * self.rows + slot as usize, observation: last.0 });
                }
                Ending { tick: self.tick as u32, last_version: self.plan.versions.of(slot), end, last: last.0 }
            }
            Some(reason) => self.ending_before(slot, reason, last.0),
        };
        // A quarantined first frame leaves an episode without frames: no trajectory.
        if step.0 > 0 {
            let Ending { tick, last_version, end, last } = ending;
            let first_version = self.first_versions[slot as usize];
            let (id, rollout, length, total_reward) = (*id, self.rollout, step.0, total.0);
            let trajectory =
                Trajectory { id, row, rollout, tick, length, total_reward, first_version, last_version, end };
            self.end_episode(Ended { slot, last }, trajectory);
        }
        *step = EpisodeStep(0);
        *total = EpisodeReturn(0.0);
        *id = self.next_id();
        self.started.push(slot);
    }

    /// The frame is lost: the episode ended at the one before, which may be of the rollout before, a tick before tick 0.
    #[cold]
    fn ending_before(&self, slot: u32, reason: Truncation, last: T::Observation) -> Ending<T::Observation> {
        let seen = self.quarantined.binary_search_by_key(&slot, |(slot, _)| *slot);
        Ending {
            tick: (self.tick as u32).wrapping_sub(1),
            last_version: self.previous_versions.of(slot),
            end: End::truncated_by(reason),
            last: seen.map_or(last, |i| self.quarantined[i].1),
        }
    }
}

/// The frame that an episode ended with. By value: what is lent to a call is put together in memory, and copied from there
/// before it has arrived.
struct Ending<O> {
    tick: u32,
    last_version: u64,
    end: End,
    /// What the episode led to.
    last: O,
}
