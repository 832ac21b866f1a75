//! The rows of a host: frames that it completed, resets that it is asked for, rows that left.

use std::marker::PhantomData;

use bevy_ecs::{entity_disabling::Disabled, prelude::*};

use crate::{
    components::{
        Action, ActionKey, ActionMask, End, Episode, EpisodeReturn, EpisodeStep, LastObservation, LogProb, Observation,
        Reward, RolloutSlot, RowIndex, Slot, TickPlan, TickReport, Trajectory, TrajectoryId, Truncation, Value,
    },
    data::{Data, finite},
    env::{MaskParts, Stepper},
    rollout::Ended,
    seed::{Purpose, Seed},
    task::Task,
};

/// Set when the engine ended a row's episode: the host resets the entity, writes its new observation and sets this
/// back to `false`. Until then the row has no frames.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResetRequest(pub bool);

/// Whether the row's [`Action`] waits for its outcome. The host steps only rows for which this holds: others wait for
/// the next rollout, for an arena, or for the answer to a [`ResetRequest`], and what happens to them is no frame.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acting(pub bool);

/// A row that has no place in the rollout yet.
pub(super) const WAITING: u32 = u32::MAX;
/// The tick before a rollout's first.
pub(super) const BEFORE: u32 = u32::MAX;

/// What restarts the rows of a task whose environments are gleaner's own.
#[derive(Resource)]
pub(super) struct OwnedRows<T: Task>(pub Box<dyn Stepper<T>>);

/// What the rows of a hosted task share.
#[derive(Resource)]
pub(super) struct HostRows<T: Task> {
    pub seed: Seed,
    pub limit: u32,
    pub next_row: u32,
    /// Rows that left since the last tick, with their unfinished episodes.
    pub leavers: Vec<(Ended<T::Observation>, Trajectory)>,
    /// By slot: whether the row is gone.
    pub gone: Vec<bool>,
}

impl<T: Task> HostRows<T> {
    pub(super) fn new(seed: Seed, limit: u32) -> Self {
        Self { seed, limit, next_row: 0, leavers: Vec::new(), gone: Vec::new() }
    }
}

/// What an entity that carries an observation needs beside it.
pub(super) fn require_columns<T: Task>(world: &mut World) {
    world.register_required_components::<Observation<T>, Action<T>>();
    world.register_required_components::<Observation<T>, ActionMask<T>>();
    world.register_required_components::<Observation<T>, LastObservation<T>>();
    world.register_required_components::<Observation<T>, Reward>();
    world.register_required_components::<Observation<T>, End>();
    world.register_required_components::<Observation<T>, EpisodeStep>();
    world.register_required_components::<Observation<T>, EpisodeReturn>();
    world.register_required_components::<Observation<T>, Episode>();
    world.register_required_components::<Observation<T>, TrajectoryId>();
    world.register_required_components::<Observation<T>, ActionKey>();
    world.register_required_components::<Observation<T>, LogProb>();
    world.register_required_components::<Observation<T>, Value>();
    world.register_required_components::<Observation<T>, ResetRequest>();
    world.register_required_components::<Observation<T>, Acting>();
    world.register_required_components_with::<Observation<T>, RowIndex>(|| RowIndex(WAITING));
    world.register_required_components_with::<Observation<T>, Slot>(|| Slot(WAITING));
}

type Joining<'w, 's, T> =
    Query<'w, 's, (&'static mut RowIndex, &'static mut ActionKey), (With<Observation<T>>, Allow<Disabled>)>;

/// Gives an arriving row its number and streams.
pub(super) fn join<T: Task>(event: On<Add<Observation<T>>>, rows: Joining<T>, shared: ResMut<HostRows<T>>) {
    give_number(event.entity, rows, shared);
}

/// A row that is enabled again is a new one.
pub(super) fn join_enabled<T: Task>(event: On<Remove<Disabled>>, rows: Joining<T>, shared: ResMut<HostRows<T>>) {
    give_number(event.entity, rows, shared);
}

fn give_number<T: Task>(entity: Entity, mut rows: Joining<T>, mut shared: ResMut<HostRows<T>>) {
    if let Ok((mut row, mut key)) = rows.get_mut(entity)
        && row.0 == WAITING
    {
        row.0 = shared.next_row;
        *key = ActionKey(shared.seed.row_key(row.0, Purpose::Action));
        shared.next_row += 1;
    }
}

type LeavingRow<T> = (
    (
        &'static mut Slot,
        &'static mut RowIndex,
        &'static mut EpisodeStep,
        &'static mut EpisodeReturn,
        &'static mut Acting,
    ),
    (&'static TrajectoryId, &'static Observation<T>),
);
type Leaving<'w, 's, T> = Query<'w, 's, LeavingRow<T>, Allow<Disabled>>;

/// Keeps the unfinished episode of a row that leaves.
pub(super) fn leave<T: Task>(
    event: On<Remove<Observation<T>>>,
    rows: Leaving<T>,
    holder: Res<RolloutSlot<T>>,
    shared: ResMut<HostRows<T>>,
) {
    take_leave(event.entity, rows, &holder, shared);
}

/// A row that is disabled leaves.
pub(super) fn leave_disabled<T: Task>(
    event: On<Add<Disabled>>,
    rows: Leaving<T>,
    holder: Res<RolloutSlot<T>>,
    shared: ResMut<HostRows<T>>,
) {
    take_leave(event.entity, rows, &holder, shared);
}

fn take_leave<T: Task>(entity: Entity, mut rows: Leaving<T>, holder: &RolloutSlot<T>, mut shared: ResMut<HostRows<T>>) {
    let Ok(((mut slot, mut row, mut step, mut total, mut acting), (id, last))) = rows.get_mut(entity) else {
        return;
    };
    // An entity that comes back is a new row.
    let (slot, row) = (std::mem::replace(&mut slot.0, WAITING), std::mem::replace(&mut *row, RowIndex(WAITING)));
    let (step, total) = (std::mem::take(&mut *step), std::mem::take(&mut *total));
    acting.0 = false;
    if slot == WAITING {
        return;
    }
    let Some(rollout) = holder.get() else { return };
    let trajectory = Trajectory {
        id: *id,
        row,
        rollout: rollout.rollout,
        // Before the tick at which Record finds it gone, which may be before tick 0.
        tick: (rollout.tick as u32).wrapping_sub(1),
        length: step.0,
        total_reward: total.0,
        first_version: rollout.first_versions.get(slot as usize).copied().unwrap_or(0),
        last_version: rollout.plan.versions.of(slot),
        end: End::truncated_by(Truncation::RowRemoved),
    };
    shared.leavers.push((Ended { slot, last: last.0 }, trajectory));
}

/// Completes the frames that the host's systems wrote: the engine's ends, the quarantine, and who had no frame.
pub(super) fn observe_host<T: Task>(
    mut rows: Query<(
        (&Acting, &mut ResetRequest, &mut Episode),
        (&Observation<T>, &mut LastObservation<T>, &Reward, &mut End, &EpisodeStep, &Slot),
    )>,
    shared: Res<HostRows<T>>,
    report: Res<TickReport<T>>,
    holder: Res<RolloutSlot<T>>,
) {
    let recording = holder.get().is_some_and(|rollout| rollout.block.is_some());
    let (mut stepped, mut quarantined) = (0, 0);
    for ((acting, mut request, mut episode), (seen, mut last, reward, mut end, step, slot)) in &mut rows {
        if !recording || !acting.0 || slot.0 == WAITING {
            *end = End::IDLE;
            continue;
        }
        stepped += 1;
        let own = *end;
        let real = if own.done() { last.0 } else { seen.0 };
        if !(finite(reward.0) & real.is_finite() & seen.0.is_finite()) {
            quarantined += 1;
            *end = End::QUARANTINED;
            // The host's number is broken: so is what it would go on from.
            request.0 = true;
        } else if !own.done() && step.0.saturating_add(1) >= shared.limit {
            *end = own.or_truncated(Truncation::StepLimit);
            last.0 = seen.0;
            request.0 = true;
        }
        if end.done() {
            episode.0 += 1;
        }
    }
    report.stepped(stepped);
    report.quarantined(quarantined);
}

/// After Record: empties the slots without a frame and closes the episodes of rows that left.
pub(super) fn close_rows<T: Task>(mut holder: ResMut<RolloutSlot<T>>, mut shared: ResMut<HostRows<T>>) {
    let Some(rollout) = holder.get_mut() else { return };
    let shared = &mut *shared;
    if rollout.block.is_none() || rollout.tick >= rollout.ticks {
        return;
    }
    for (leaver, trajectory) in shared.leavers.drain(..) {
        if let Some(gone) = shared.gone.get_mut(leaver.slot as usize) {
            *gone = true;
            rollout.keep_leaver(leaver.slot as usize, leaver.last);
            if trajectory.length > 0 {
                rollout.end_episode(leaver, trajectory);
            }
        }
    }
    rollout.clear_idle(|slot| shared.gone[slot]);
}

/// After Assemble: nobody's flags outlive their frame.
pub(super) fn lower_flags<T: Task>(mut rows: Query<(&mut End, &mut Acting), With<Observation<T>>>) {
    for (mut end, mut acting) in &mut rows {
        *end = End::RUNNING;
        acting.0 = false;
    }
}

/// Before Infer: a mask that the host left at zeros allows nothing.
pub(super) fn check_masks<T: Task>(
    rows: Query<(&ActionMask<T>, &RowIndex, &Episode, &EpisodeStep, &ResetRequest, &Slot), With<Observation<T>>>,
    parts: Local<MaskPartsOf<T>>,
    plan: Res<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    let acting = rows.iter().filter(|(.., request, slot)| slot.0 < plan.active && !request.0);
    for (mask, row, episode, step, ..) in acting {
        if let Err(error) = parts.0.check(&mask.0, row.0, episode.0, step.0) {
            report.fail(row.0, error);
        }
    }
}

/// The parts of the masks of a task.
pub(super) struct MaskPartsOf<T: Task>(MaskParts, PhantomData<fn() -> T>);

impl<T: Task> Default for MaskPartsOf<T> {
    fn default() -> Self {
        Self(MaskParts::of(&T::action_space()), PhantomData)
    }
}

/// After Infer: rows of the rollout wait for the outcome of their action, unless a reset is asked for.
pub(super) fn await_outcomes<T: Task>(
    mut rows: Query<(&mut Acting, &ResetRequest, &Slot), With<Observation<T>>>,
    plan: Res<TickPlan<T>>,
) {
    for (mut acting, request, slot) in &mut rows {
        acting.0 = slot.0 < plan.active && !request.0;
    }
}
