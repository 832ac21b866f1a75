//! Environments that step on threads of their own, so that a slow one delays only itself.
//!
//! ```text
//! receive ─▶ Step: what came is written ─▶ Record … Report ─▶ choose ─▶ Respond: the policy acts ─▶ send ─▶ receive …
//! ```
//!
//! A row's environment and its stream go to a thread with the action and come back with the frame. Until then the row is
//! pending: its columns stay as they were when its action was chosen.

mod crew;
mod job;
mod options;
mod rows;
mod stages;

pub use options::AsyncBatched;
pub(crate) use options::PoolShare;

use std::time::Duration;

use bevy_ecs::prelude::*;

use self::{
    crew::Crew,
    job::{Finished, Job, Rules},
    rows::{Pool, PoolRow},
};
use super::{
    Env,
    clip::ActionClip,
    mask::MaskParts,
    rows::{RowStepper, Spawn, Stepper, row_bundle},
};
use crate::{
    components::{Acted, Episode, Slot},
    error::Error,
    schedule::{CollectSystems, TaskSystems},
    seed::{Seed, Stream},
};

/// Options of automatic resets.
#[derive(Resource)]
pub(crate) struct PoolOptions<E: Env>(pub E::Options);

/// Rows whose environments are stepped by a pool of threads.
pub(in crate::env) struct PoolStepper<E: Env>(
    /// Builds the rows.
    pub RowStepper<E>,
);

impl<E: Env> Stepper<E> for PoolStepper<E> {
    fn time_limit(&self) -> Option<u32> {
        E::TIME_LIMIT
    }

    fn rebuilds(&self) -> bool {
        true
    }

    fn install(&mut self, world: &mut World, schedule: &mut Schedule, spawn: &Spawn) -> Result<Vec<Entity>, Error> {
        let Self(own) = self;
        let share = world.resource::<PoolShare>().clone();
        let rules = Rules {
            factory: own.factory.clone(),
            rows: spawn.rows,
            worker: spawn.worker,
            limit: spawn.limit,
            masks: MaskParts::of(&E::action_space()),
            clip: ActionClip::of::<E>(),
        };
        let threads = share.options.threads(spawn.rows as usize);
        let monitor = share.monitor.clone();
        let late = move || monitor.ledger().late_frames += 1;
        let crew = Crew::<Job<E>, Finished<E>>::new(threads, move |job| rules.run(job), late)?;
        let mut pool = Pool::new(crew, share, spawn.worker.unwrap_or(0), spawn.seed);
        let mut entities = Vec::with_capacity(spawn.rows as usize);
        for i in 0..spawn.rows {
            // What was built before an error is dropped as the rest of the pool is.
            let env = own.build(spawn, i)?;
            let entity = world.spawn((row_bundle::<E>(spawn, i), Acted::default())).id();
            pool.rows.push(PoolRow::new(entity, spawn.first_row + i, env));
            entities.push(entity);
        }
        world.insert_resource(pool);
        world.insert_resource(PoolOptions::<E>(own.options.clone()));
        let stages = (
            stages::write_arrived::<E>.in_set(CollectSystems::Step),
            stages::choose_rows::<E>.after(CollectSystems::Report).before(CollectSystems::Respond),
            stages::send_actions::<E>.after(CollectSystems::Respond),
        );
        schedule.add_systems(stages.in_set(TaskSystems::of::<E>()));
        self.restart(world, &entities)?;
        Ok(entities)
    }

    fn reseed(&self, world: &mut World, seed: Seed) {
        // Behind the end of a collection there is no pool, and nothing starts any more.
        if let Some(mut pool) = world.get_resource_mut::<Pool<E>>() {
            pool.seed = seed;
        }
    }

    fn share(&self) -> Option<Box<dyn Stepper<E>>> {
        None
    }

    /// Sends the rows to start an episode; those whose environment is away do so when it is back.
    fn restart(&self, world: &mut World, rows: &[Entity]) -> Result<(), Error> {
        let mut starts = world.query::<(&Slot, &Stream, &Episode)>();
        world.try_resource_scope(|world, mut pool: Mut<Pool<E>>| {
            let options = &world.resource::<PoolOptions<E>>().0;
            for entity in rows {
                let Ok((slot, stream, episode)) = starts.get(world, *entity) else { continue };
                pool.start(slot.0 as usize, *stream, episode.0, options);
            }
        });
        Ok(())
    }

    fn receive(&self, world: &mut World, most: usize) -> Result<(), Error> {
        world.resource_scope(|world, mut pool: Mut<Pool<E>>| {
            let options = &world.resource::<PoolOptions<E>>().0;
            let Err(error) = pool.receive(most, options) else { return Ok(()) };
            let frames = pool.drop_arrived();
            let mut ledger = pool.share.monitor.ledger();
            ledger.counters.stepped_frames += frames;
            ledger.counters.discarded.fault += frames;
            Err(error)
        })
    }

    fn close(&self, world: &mut World, timeout: Duration) {
        let Some(mut pool) = world.remove_resource::<Pool<E>>() else { return };
        let frames = pool.close(timeout);
        let mut ledger = pool.share.monitor.ledger();
        ledger.counters.stepped_frames += frames;
        ledger.counters.discarded.shutdown += frames;
    }
}
