//! Rollouts of a host's rows: where they begin and end, and the batches that come out.

use std::{collections::VecDeque, sync::Arc};

use bevy_ecs::prelude::*;

use super::rows::{BEFORE, HostRows, OwnedRows, ResetRequest, WAITING};
use crate::{
    components::{
        ColumnSpec, Critic, Episode, EpisodeReturn, EpisodeStep, Observation, RolloutSlot, RowIndex, Slot, TickPlan,
        TickReport, Trajectory, TrajectoryId,
    },
    error::Error,
    memory::rollout_bytes,
    plugin::adopt_now,
    policy::Evaluator,
    replay_writer::ReplayWriter,
    rollout::{ArenaPool, Assembly, Batch, Ended, Rollout, in_order, with_rollout},
    seed::Stream,
    stats::{Monitor, Stats},
    task::Task,
};

/// What was collected from the rows of task `T` in this world: a resource.
#[derive(Resource)]
pub struct Batches<T: Task> {
    pub(super) queue: VecDeque<Batch<T>>,
    pub(super) error: Option<Error>,
    pub(super) pool: ArenaPool<T>,
    pub(super) specs: Arc<[ColumnSpec]>,
    pub(super) evaluator: Option<Evaluator<T>>,
    pub(super) monitor: Monitor,
    pub(super) ticks: usize,
    pub(super) set_truncated: bool,
    pub(super) max_memory: usize,
    /// Whether the warning about held arenas was given.
    pub(super) held: bool,
    /// Whether a tick failed since rows were seated.
    pub(super) failed: bool,
}

impl<T: Task> Batches<T> {
    /// The oldest batch that was not taken yet.
    pub fn pop(&mut self) -> Option<Batch<T>> {
        self.queue.pop_front()
    }

    /// Batches that were not taken yet.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether every batch was taken.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The error that stopped the collection, such as an illegal action. The collection goes on once it is taken: the
    /// unfinished episodes are lost, and every row starts a new one, which a [`ResetRequest`] asks a host's rows for.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Whether a rollout of so many rows fits.
    pub(super) fn check_memory(&self, rows: usize) -> Result<(), Error> {
        let bytes = rollout_bytes(&self.specs, rows, self.ticks);
        if bytes <= self.max_memory {
            return Ok(());
        }
        let value = format!("{}, which takes {bytes} bytes for {rows} rows", self.ticks);
        Err(Error::config("ticks_per_batch", value, format!("at most max_memory, {} bytes", self.max_memory)))
    }

    /// The counters now.
    pub fn stats(&self) -> Stats {
        self.monitor.stats()
    }

    /// Reads the counters from other threads.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Names and layouts of the columns of every batch.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }
}

/// At the end of a tick: ends a rollout that is full, and begins the next when there are rows and an arena.
pub(super) fn turn_rollout<T: Task>(
    world: &mut World,
    rows: &mut QueryState<(Entity, &RowIndex), With<Observation<T>>>,
    slots: &mut QueryState<&Slot, With<Observation<T>>>,
) {
    if let Some(error) = world.resource_mut::<TickReport<T>>().take_error() {
        return fail::<T>(world, error);
    }
    if let Some(error) = finish_rollout::<T>(world) {
        return fail::<T>(world, error);
    }
    let recording = world.resource::<RolloutSlot<T>>().get().is_some_and(|rollout| rollout.block.is_some());
    if recording || world.resource::<Batches<T>>().error.is_some() {
        return;
    }
    let mut order: Vec<(RowIndex, Entity)> = rows.iter(world).map(|(entity, row)| (*row, entity)).collect();
    world.resource_mut::<TickPlan<T>>().active = 0;
    if order.is_empty() {
        return;
    }
    let mut batches = world.resource_mut::<Batches<T>>();
    if let Err(error) = batches.check_memory(order.len()) {
        return fail::<T>(world, error);
    }
    let block = match batches.pool.take() {
        Ok(block) => block,
        Err(held) => {
            if !std::mem::replace(&mut batches.held, true) {
                tracing::warn!("rows stand still: {held}");
            }
            return;
        }
    };
    let ticks = batches.ticks;
    batches.held = false;
    order.sort_unstable();
    if std::mem::take(&mut batches.failed)
        && let Err(error) = restart::<T>(world, &order)
    {
        world.resource::<Batches<T>>().pool.give_back(block);
        return fail::<T>(world, error);
    }
    seat::<T>(world, &order);
    // What was published before a rollout acts in its first frame.
    adopt_now::<T>(world);
    let numbers: Vec<RowIndex> = order.iter().map(|(row, _)| *row).collect();
    let ordered = in_order(slots, world, order.len());
    with_rollout::<T, _>(world, |world, rollout| {
        rollout.in_order = ordered;
        rollout.begin(world, block, &numbers, ticks);
    });
}

/// Gives rows their places in row order; newcomers get their first trajectory id.
fn seat<T: Task>(world: &mut World, order: &[(RowIndex, Entity)]) {
    world.resource_mut::<TickPlan<T>>().active = order.len() as u32;
    let mut shared = world.resource_mut::<HostRows<T>>();
    shared.gone.clear();
    shared.gone.resize(order.len(), false);
    let leavers = std::mem::take(&mut shared.leavers);
    with_rollout::<T, _>(world, |world, rollout| {
        list_leavers(rollout, leavers);
        let old = std::mem::take(&mut rollout.first_versions);
        rollout.started.clear();
        for (slot, (_, entity)) in order.iter().enumerate() {
            let mut row = world.entity_mut(*entity);
            let before = row.get::<Slot>().map_or(WAITING, |slot| slot.0);
            rollout.first_versions.push(old.get(before as usize).copied().unwrap_or(0));
            if before == WAITING
                && let Some(mut id) = row.get_mut::<TrajectoryId>()
            {
                *id = rollout.next_id();
            }
            // An episode whose first frame is still to come starts under the weights of that frame.
            if row.get::<EpisodeStep>().is_some_and(|step| step.0 == 0) {
                rollout.started.push(slot as u32);
            }
            if let Some(mut place) = row.get_mut::<Slot>() {
                place.0 = slot as u32;
            }
        }
    });
}

/// Lists the episodes of rows that left between two rollouts with the next one.
fn list_leavers<T: Task>(rollout: &mut Rollout<T>, leavers: Vec<(Ended<T::Observation>, Trajectory)>) {
    for (leaver, trajectory) in leavers {
        if trajectory.length > 0 {
            let trajectory = Trajectory { rollout: rollout.rollout, tick: BEFORE, ..trajectory };
            rollout.monitor.ledger().episodes_ended(&[trajectory]);
            rollout.forced.push_back((leaver, trajectory));
        }
    }
}

/// Rows whose tick failed start anew: what became of their episodes in it is not known.
fn restart<T: Task>(world: &mut World, order: &[(RowIndex, Entity)]) -> Result<(), Error> {
    for (_, entity) in order {
        let mut row = world.entity_mut(*entity);
        let episode = row.get::<Episode>().map_or(0, |episode| episode.0 + 1);
        if let Some(mut stream) = row.get_mut::<Stream>() {
            stream.start_episode(episode);
        }
        if let Some(mut request) = row.get_mut::<ResetRequest>() {
            request.0 = true;
        }
        // Places are those of newcomers.
        row.insert((Slot(WAITING), Episode(episode), EpisodeStep::default(), EpisodeReturn::default()));
    }
    let Some(owned) = world.remove_resource::<OwnedRows<T>>() else { return Ok(()) };
    let entities: Vec<Entity> = order.iter().map(|(_, entity)| *entity).collect();
    let restarted = owned.0.restart(world, &entities);
    world.insert_resource(owned);
    restarted
}

/// Puts a full rollout where it belongs. An error: a replay buffer did not take it.
fn finish_rollout<T: Task>(world: &mut World) -> Option<Error> {
    let mut holder = world.resource_mut::<RolloutSlot<T>>();
    let rollout = holder.get_mut().filter(|rollout| rollout.tick >= rollout.ticks)?;
    let mut block = rollout.finish()?;
    let monitor = rollout.monitor.clone();
    if let Some(mut writer) = world.get_resource_mut::<ReplayWriter<T>>() {
        writer.count(&mut monitor.ledger());
        // Nobody asks for the receipts of a host's rows.
        let error = loop {
            match writer.take_receipt() {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        world.resource::<Batches<T>>().pool.give_back(block);
        return error;
    }
    let mut batches = world.resource_mut::<Batches<T>>();
    if batches.set_truncated {
        block.mark_edge();
    }
    let index = {
        let mut ledger = batches.monitor.ledger();
        let index = ledger.counters.batches;
        ledger.delivered(block.frames as u64);
        index
    };
    let critic = batches.evaluator.clone().map(|evaluator| Arc::new(evaluator) as Arc<dyn Critic<T>>);
    let batch = Batch::new(block, batches.specs.clone(), critic, Some(batches.pool.clone()), index);
    batches.queue.push_back(batch);
    None
}

/// An error drops the rollout; its frames are counted as discarded.
fn fail<T: Task>(world: &mut World, error: Error) {
    tracing::warn!("collection stands still: {error}");
    world.resource_mut::<TickPlan<T>>().active = 0;
    let block = world.resource_mut::<RolloutSlot<T>>().get_mut().and_then(|rollout| rollout.block.take());
    if let Some(mut assembly) = world.get_resource_mut::<Assembly<T>>() {
        assembly.clear();
    }
    let mut batches = world.resource_mut::<Batches<T>>();
    if let Some(block) = block {
        batches.pool.give_back(block);
    }
    let mut ledger = batches.monitor.ledger();
    ledger.counters.discarded.fault += std::mem::take(&mut ledger.in_flight);
    // Every row starts anew: no frame waits for the end of its episode.
    ledger.pending = 0;
    ledger.open = 0;
    drop(ledger);
    batches.failed = true;
    batches.error = Some(error);
}

/// Writes observations again that the host changed by answering a reset request within the tick.
pub(super) fn record_answers<T: Task>(world: &mut World) {
    with_rollout::<T, _>(world, |world, rollout| {
        if rollout.block.is_some() {
            rollout.record_leading(world, rollout.tick);
        }
    });
}
