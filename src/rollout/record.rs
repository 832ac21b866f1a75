//! The Record stage: one frame of every row into the rollout's columns.

use bevy_ecs::{prelude::*, query::ArchetypeFilter};
use pulp::Arch;

use super::{
    block::Final,
    state::{Rollout, with_rollout},
};
use crate::{
    components::{
        Action, End, EpisodeStep, Flags, Observation, Reward, Slot, TickPlan, TickReport, TrajectoryId, Truncation,
        column,
    },
    task::Task,
};

/// The columns that every row has.
type RowColumns<T> = (
    (&'static Slot, &'static Observation<T>, &'static Action<T>),
    (&'static Reward, &'static End, &'static EpisodeStep, &'static TrajectoryId),
);

/// Writes the tick's frames, and the observations that follow them.
pub(crate) fn record<T: Task>(world: &mut World, rows: &mut QueryState<RowColumns<T>>) {
    let report = world.resource::<TickReport<T>>();
    if report.failed() {
        return;
    }
    let quarantined = report.quarantined_now() > 0;
    with_rollout::<T, _>(world, |world, rollout| {
        if rollout.block.is_none() || rollout.tick >= rollout.ticks {
            return;
        }
        rollout.previous_versions.clone_from(&rollout.plan.versions);
        rollout.plan.clone_from(world.resource::<TickPlan<T>>());
        rollout.record(world, rows);
        rollout.gaps = quarantined;
        if quarantined {
            rollout.quarantine(rollout.tick);
        }
        rollout.recorded = true;
    });
}

/// Whether the rows are tables of consecutive slots: one, or one a lane. Looked at every tick: a host may move rows.
pub(crate) fn in_order<F: ArchetypeFilter>(slots: &mut QueryState<&Slot, F>, world: &World, rows: usize) -> bool {
    let Ok(chunks) = slots.contiguous_iter(world) else { return false };
    let runs = chunks.map(|chunk| Some((consecutive(chunk, rows)?, chunk.len())));
    let covered = runs.into_iter().try_fold(0, |covered, run| run.map(|(_, len)| covered + len));
    covered == Some(rows)
}

/// Whether these are all slots, in order.
pub(super) fn are_in_order(slots: &[Slot], rows: usize) -> bool {
    slots.len() == rows && consecutive(slots, rows) == Some(0)
}

/// The first slot, if these are consecutive ones below `rows`.
fn consecutive(slots: &[Slot], rows: usize) -> Option<usize> {
    let first = slots.first().map_or(0, |slot| slot.0);
    let apart = Arch::new().dispatch(|| {
        slots.iter().enumerate().fold(0, |apart, (i, slot)| apart | (slot.0 ^ first.wrapping_add(i as u32)))
    });
    (apart == 0 && first as usize + slots.len() <= rows).then_some(first as usize)
}

impl<T: Task> Rollout<T> {
    fn record(&mut self, world: &World, columns: &mut QueryState<RowColumns<T>>) {
        let (rows, tick) = (self.rows, self.tick);
        let active = (self.plan.active as usize).min(rows);
        let random = (self.plan.random as usize).min(active);
        let lent = std::mem::take(&mut self.lent);
        let written = if lent { column::VERSION + 1 } else { self.record_in_order(world, columns) };
        self.record_columns(world, tick, written, |spec| !spec.leads);
        self.record_columns(world, tick + 1, written, |spec| spec.leads);
        let Some(block) = &mut self.block else { return };
        let frames = tick * rows..(tick + 1) * rows;
        if self.rewards != Default::default() {
            self.rewards.apply(&mut block.columns[column::REWARD].values_mut()[frames.clone()]);
        }
        // A Step stage that wrote the frames took the first policy's version for all rows.
        let apart = !lent || self.plan.versions.iter().nth(1).is_some();
        block.mark(tick, (!apart && random == 0).then(|| self.plan.versions.get(0)));
        if !lent {
            block.fill_tick(column::FLAGS, tick, rows, Flags::VALID);
        }
        block.columns[column::FLAGS].values_mut::<Flags>()[frames][..random].fill(Flags::RANDOM);
        if apart {
            for (slots, version) in self.plan.versions.runs(rows) {
                block.fill_slots(column::VERSION, tick * rows + slots.start..tick * rows + slots.end, version);
            }
        }
        block.frames += rows;
        self.remember_ends(world);
        for slot in active..rows {
            self.vacate(tick * rows + slot);
        }
        if !self.in_order {
            self.vacate_missing(world, columns);
        }
    }

    /// Empties the slots of rows that are not in the world any more and ends their episodes.
    fn vacate_missing(&mut self, world: &World, columns: &mut QueryState<RowColumns<T>>) {
        let mut missing = std::mem::take(&mut self.missing);
        missing.clear();
        missing.resize(self.rows, true);
        for ((slot, ..), _) in columns.iter(world) {
            if let Some(missing) = missing.get_mut(slot.0 as usize) {
                *missing = false;
            }
        }
        for (slot, _) in missing.iter().enumerate().filter(|(_, missing)| **missing) {
            self.vacate(self.tick * self.rows + slot);
            self.cut_before(slot, Truncation::RowRemoved);
        }
        self.missing = missing;
    }

    /// Writes the columns that every row has, if the rows are tables of consecutive slots: one look-up in place of one for
    /// each column. Returns how many of the block's columns were written.
    fn record_in_order(&mut self, world: &World, columns: &mut QueryState<RowColumns<T>>) -> usize {
        self.in_order = false;
        let (Ok(chunks), Some(block)) = (columns.contiguous_iter(world), &mut self.block) else { return 0 };
        let (rows, mut covered) = (self.rows, 0);
        for ((slots, observations, actions), (rewards, ends, steps, ids)) in chunks {
            // Newcomers have no place; rows that lie anyhow are written one by one, all of them.
            let Some(first) = consecutive(slots, rows) else { return 0 };
            let at = self.tick * rows + first;
            block.write(column::OBSERVATION, at + rows, Observation::values(observations));
            block.write(column::ACTION, at, Action::values(actions));
            block.write(column::REWARD, at, rewards);
            block.write(column::END, at, ends);
            block.write(column::STEP, at, steps);
            block.write(column::TRAJECTORY, at, ids);
            covered += slots.len();
        }
        self.in_order = covered == rows;
        if self.in_order { column::VERSION + 1 } else { 0 }
    }

    /// Empties the slots of rows that had no frame in the tick that Record has just written: rows that are pending,
    /// and those for which `gone` holds.
    pub(crate) fn clear_idle(&mut self, gone: impl Fn(usize) -> bool) {
        for slot in 0..self.rows {
            let frame = self.tick * self.rows + slot;
            let Some(block) = &mut self.block else { return };
            if gone(slot) || block.ends()[frame] == End::IDLE {
                self.gaps = true;
                self.vacate(frame);
            }
        }
    }

    /// Keeps the last observation of a row that left the world, and ends its episode at the frame before this tick.
    pub(crate) fn keep_leaver(&mut self, slot: usize, last: T::Observation) {
        let frame = self.tick * self.rows + slot;
        if let Some(block) = &mut self.block {
            // The row's last observation stands here already, unless it left within its first tick.
            block.columns[column::OBSERVATION].values_mut::<T::Observation>()[frame] = last;
        }
        self.keep_next(frame);
        self.cut_before(slot, Truncation::RowRemoved);
    }

    /// Ends the episode of a row that left the world at the frame before this tick, if this rollout holds it.
    pub(crate) fn cut_before(&mut self, slot: usize, reason: Truncation) {
        let Some(before) = (self.tick * self.rows + slot).checked_sub(self.rows) else { return };
        if let Some(block) = &mut self.block
            && block.flags()[before].valid()
            && !block.ends()[before].ends_episode()
        {
            block.ends_mut()[before] = block.ends()[before].or_truncated(reason);
        }
    }

    /// Makes slot `frame` one that holds no frame, if it held one.
    fn vacate(&mut self, frame: usize) {
        if self.block.as_ref().is_some_and(|block| block.flags()[frame].valid()) {
            self.keep_next(frame);
        }
        if let Some(block) = &mut self.block
            && block.flags()[frame].valid()
        {
            block.frames -= 1;
            block.clear_slot(&self.columns.specs, frame);
        }
    }

    /// Keeps the observation of slot `frame` as what followed the frame before, since the slot will hold no frame.
    fn keep_next(&mut self, frame: usize) {
        let rows = self.rows;
        let Some(block) = &mut self.block else { return };
        if let Some(before) = frame.checked_sub(rows)
            && block.flags()[before].valid()
            && !block.ends()[before].ends_episode()
        {
            let observation = block.observations()[frame];
            block.finals.push(Final { frame: before, observation });
        }
    }

    /// Turns frames whose numbers are not finite into slots without a frame and ends their episodes at the frame
    /// before, if this rollout holds it.
    fn quarantine(&mut self, tick: usize) {
        let rows = self.rows;
        self.quarantined.clear();
        for slot in 0..rows {
            let frame = tick * rows + slot;
            let Some(block) = &mut self.block else { return };
            let Some(reason) = block.ends()[frame].lost() else { continue };
            self.quarantined.push((slot as u32, block.observations()[frame]));
            let value = self.columns.specs.iter().position(|spec| spec.name == "value");
            if let (Some(value), Some(_), Some(before)) = (value, &self.columns.memory, frame.checked_sub(rows)) {
                // The policy has met the frame with the right state, which is gone.
                block.states.next_values.push((before, block.columns[value].values()[frame]));
            }
            self.vacate(frame);
            self.cut_before(slot, reason);
        }
    }
}
