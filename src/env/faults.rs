//! What becomes of a row that fails. Nothing here runs in a tick in which none does.

use std::{
    cell::Cell,
    collections::BTreeMap,
    mem::replace,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
};

use bevy_ecs::prelude::*;

use super::{Env, Factory, RowContext, rows::Spawn, step::EnvSettings};
use crate::{
    components::{Episode, EpisodeStep, RowIndex},
    data::Data,
    error::{Error, discard, panic_message},
    fault::FaultPolicy,
    seed::{Purpose, Seed, Stream},
    stats::Monitor,
};

/// The faults of a row since its last frame.
#[derive(Default)]
pub(super) struct Faults {
    count: u32,
    first: Option<Error>,
}

impl Faults {
    /// Notes another one. Errors: those that end the collection: any, or the first of too many.
    pub(super) fn add(&mut self, policy: FaultPolicy, row: u32, error: Error) -> Result<(), Error> {
        let FaultPolicy::RestartRow { retries } = policy else { return Err(error) };
        self.count += 1;
        tracing::warn!("fault {} of row {row}, which may have {retries} in a row: {error}", self.count);
        let first = self.first.take().unwrap_or(error);
        if self.count > retries {
            return Err(first);
        }
        self.first = Some(first);
        Ok(())
    }
}

/// Builds the environment of a row. Panics of user code are errors.
pub(super) fn build<E>(
    factory: &Factory<E>,
    (row, rows): (u32, u32),
    worker: Option<u32>,
    seed: Seed,
) -> Result<E, Error> {
    let mut context = RowContext { row, rows, worker, stream: Stream::new(seed, row, Purpose::Factory, 0) };
    match catch_unwind(AssertUnwindSafe(|| factory(&mut context))) {
        Ok(built) => built.map_err(|source| Error::Factory { row, source }),
        Err(payload) => Err(Error::EnvPanic {
            call: "build",
            message: panic_message(payload),
            worker: worker.unwrap_or(0),
            row,
            episode: 0,
            step: 0,
            seed: seed.0,
        }),
    }
}

/// What rows in the world need to be built anew, and which of them were.
pub(crate) struct Rebuild<E: Env> {
    policy: FaultPolicy,
    factory: Factory<E>,
    /// Rows of all workers.
    rows: u32,
    worker: Option<u32>,
    monitor: Monitor,
    /// By row: the episode that its newest environment began with, and the faults before that.
    known: Mutex<BTreeMap<u32, (u32, Faults)>>,
}

impl<E: Env> Rebuild<E> {
    pub(super) fn new(factory: Factory<E>, spawn: &Spawn) -> Self {
        let Spawn { on_fault: policy, all_rows: rows, worker, ref monitor, .. } = *spawn;
        Self { policy, factory, rows, worker, monitor: monitor.clone(), known: Mutex::default() }
    }

    /// Whether rows that fail start anew.
    #[inline(always)]
    pub(super) fn is_wanted(&self) -> bool {
        self.policy != FaultPolicy::Stop
    }
}

/// The columns of a row that is to start an episode.
pub(super) struct Start<'a, E: Env> {
    pub row: u32,
    pub env: &'a mut E,
    /// At the start of the episode.
    pub stream: &'a mut Stream,
    pub episode: &'a mut u32,
    pub observation: &'a mut E::Observation,
    pub mask: &'a mut E::Mask,
}

impl<E: Env> EnvSettings<E> {
    /// Starts an episode. Panics of user code are errors.
    pub(super) fn start(&self, start: &mut Start<'_, E>) -> Result<(), Error> {
        let Start { row, ref mut env, ref mut stream, ref episode, ref mut observation, ref mut mask } = *start;
        self.guarded((row, **episode, 0), |call| {
            call.set("reset");
            **observation = env.reset(&self.options, stream);
            if !observation.is_finite() {
                return Err(Error::reset_not_finite(&**observation, row, **episode, self.seed.0));
            }
            call.set("action_mask");
            env.action_mask(mask);
            self.masks.check(&**mask, row, **episode, 0)
        })
    }

    /// Takes the mask of a row's coming frame. Panics of user code are errors.
    pub(super) fn look(&self, env: &E, mask: &mut E::Mask, place: (u32, u32, u32)) -> Result<(), Error> {
        self.guarded(place, |call| {
            call.set("action_mask");
            env.action_mask(mask);
            self.masks.check(mask, place.0, place.1, place.2)
        })
    }

    /// Runs user code at a place: row, episode, step.
    fn guarded(
        &self,
        (row, episode, step): (u32, u32, u32),
        work: impl FnOnce(&Cell<&'static str>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let call = Cell::new("");
        catch_unwind(AssertUnwindSafe(|| work(&call))).unwrap_or_else(|payload| {
            let message = panic_message(payload);
            let (call, worker, seed) = (call.get(), self.worker, self.seed.0);
            Err(Error::EnvPanic { call, message, worker, row, episode, step, seed })
        })
    }

    /// [`DropEnvs`] of rows whose environments are components.
    pub(super) fn drop_envs(world: &mut World) -> Result<(), Error> {
        let mut rows = world.query_filtered::<(Entity, &RowIndex, &Episode, &EpisodeStep), With<E>>();
        let rows: Vec<_> = rows.iter(world).map(|(row, at, episode, step)| (row, (at.0, episode.0, step.0))).collect();
        let dropped = world.try_resource_scope(|world, settings: Mut<Self>| {
            // All, also behind one that panicked.
            let mut first = Ok(());
            for (row, place) in rows {
                let dropped = settings.guarded(place, |call| {
                    call.set("drop");
                    world.get_entity_mut(row).map(|mut row| drop(row.take::<E>())).or(Ok(()))
                });
                first = first.and(dropped);
            }
            first
        });
        dropped.unwrap_or(Ok(()))
    }

    /// Gives a row that failed another environment, in an episode after the one that it is in, unless that is not wanted.
    /// `since` is the episode and step in which the tick found the row. Errors: what ends the collection.
    pub(super) fn restart(&self, start: &mut Start<'_, E>, since: (u32, u32), mut error: Error) -> Result<(), Error> {
        let (row, rebuild) = (start.row, &self.rebuild);
        let known = || rebuild.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever stands where the last restart put it has had no frame since.
        let before = known().remove(&row).filter(|(episode, _)| (*episode, 0) == since);
        let mut faults = before.map(|(_, faults)| faults).unwrap_or_default();
        loop {
            faults.add(rebuild.policy, row, error)?;
            rebuild.monitor.ledger().row_restarts += 1;
            *start.episode = start.episode.wrapping_add(1);
            start.stream.start_episode(*start.episode);
            match self.replace(start) {
                Ok(()) => break,
                Err(again) => error = again,
            }
        }
        known().insert(row, (*start.episode, faults));
        Ok(())
    }

    /// Puts a new environment, at the start of an episode, in the place of the one that is there.
    fn replace(&self, start: &mut Start<'_, E>) -> Result<(), Error> {
        let Rebuild { factory, rows, worker, .. } = &self.rebuild;
        let mut env = build(factory, (start.row, *rows), *worker, self.seed)?;
        let begun = self.start(&mut Start {
            row: start.row,
            env: &mut env,
            stream: start.stream,
            episode: start.episode,
            observation: start.observation,
            mask: start.mask,
        });
        // Either one may panic when it is dropped.
        match begun {
            Ok(()) => discard(replace(start.env, env)),
            Err(_) => discard(env),
        }
        begun
    }
}
