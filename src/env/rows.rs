//! Rows that gleaner owns: how they come into the world and start episodes outside the tick.

use std::{mem::needs_drop, sync::Arc, time::Duration};

use bevy_ecs::prelude::*;

use super::{
    Env, Factory, RowContext,
    clip::ActionClip,
    faults::{self, Rebuild, Start},
    mask::MaskParts,
    pool::PoolStepper,
    step,
};
use crate::{
    components::{
        Action, ActionKey, ActionMask, DropEnvs, End, Episode, EpisodeReturn, EpisodeStep, LastObservation, LogProb,
        Observation, Reward, RowIndex, SecondLane, Slot, TrajectoryId, Value,
    },
    data::{Data, Dtype},
    error::{BoxError, Error},
    fault::FaultPolicy,
    schedule::{CollectSystems, Overlap, TaskSystems},
    seed::{Purpose, Seed, Stream},
    stats::Monitor,
    task::Task,
};

/// Which rows to make, and under what settings.
#[derive(Clone, Debug)]
pub struct Spawn {
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
    /// Rows of all workers.
    pub(crate) all_rows: u32,
    pub(crate) seed: Seed,
    pub(crate) worker: Option<u32>,
    /// Number of the rows' first episodes.
    pub(crate) first_episode: u32,
    /// Frames after which an episode is truncated; `u32::MAX` for none.
    pub(crate) limit: u32,
    pub(crate) overlap: Overlap,
    pub(crate) on_fault: FaultPolicy,
    pub(crate) monitor: Monitor,
}

impl Spawn {
    /// Whether row `i` is one of the second lane.
    fn upper(&self, i: u32) -> bool {
        self.overlap == Overlap::Two && i >= self.rows.div_ceil(2)
    }
}

/// What steps the rows of a task: environments of their own, or one simulator for all.
pub trait Stepper<T: Task>: Send + Sync {
    /// The task's own time limit.
    fn time_limit(&self) -> Option<u32>;

    /// Rows of one simulation, which begin and end their episodes together. See [`BatchEnv::agents`](super::BatchEnv::agents).
    fn agents(&self) -> usize {
        1
    }

    /// Whether a row that fails can be built anew.
    fn rebuilds(&self) -> bool {
        false
    }

    /// The same rows, of which half can step while the others wait, if they can.
    fn with_lanes(self) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Whether half of the rows can step while the others wait.
    fn has_lanes(&self) -> bool {
        false
    }

    /// Spawns the rows, in row order, each at the start of its first episode, and adds the Step stage. Errors: those of
    /// factories and resets.
    fn install(&mut self, world: &mut World, schedule: &mut Schedule, spawn: &Spawn) -> Result<Vec<Entity>, Error>;

    /// The master seed that error messages name.
    fn reseed(&self, world: &mut World, seed: Seed);

    /// The same for the rows of another worker; none if there is only one of it.
    fn share(&self) -> Option<Box<dyn Stepper<T>>>;

    /// Starts an episode in each of `rows`, whose streams stand at its start. Errors: those of resets.
    fn restart(&self, world: &mut World, rows: &[Entity]) -> Result<(), Error>;

    /// The states of the environments of `rows`, all that there are, or of their one simulator. None if its type does not
    /// say how. Errors: panics of user code.
    fn save_states(&self, _world: &World, _rows: &[Entity]) -> Result<Option<Vec<Vec<u8>>>, Error> {
        Ok(None)
    }

    /// Gives the environments of `rows`, all that there are, the states that were saved; whether they can have any.
    /// Errors: those of user code; some have their state then.
    fn load_states(&self, _world: &mut World, _rows: &[Entity], _states: &[Vec<u8>]) -> Result<bool, Error> {
        Ok(false)
    }

    /// The same rows, stepped by a pool of threads. Errors: [`Error::Conflict`] if they cannot be stepped one by one.
    fn pooled(self) -> Result<Box<dyn Stepper<T>>, Error>
    where
        Self: Sized,
    {
        let reason = "a simulator steps all rows in one call; leave async_batched out".into();
        Err(Error::Conflict { first: "async_batched", second: "with_simulator", reason })
    }

    /// Waits for rows that a pool steps, at most `most` of them; the coming tick takes them. The pool's options say how
    /// long. Nothing to wait for elsewhere. Errors: those of a row that failed or is late, and is not to start anew.
    fn receive(&self, _world: &mut World, _most: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Ends the threads of a pool, at the latest after `timeout` or what its options say; frames that nobody took are counted
    /// as discarded. Nothing to do elsewhere.
    fn close(&self, _world: &mut World, _timeout: Duration) {}
}

/// As many states as there are environments.
pub(super) fn check_count(states: usize, legal: usize) -> Result<(), Error> {
    if states == legal {
        return Ok(());
    }
    Err(Error::Checkpoint(format!("it has states of {states} environments; legal: {legal}")))
}

/// The components of a row, before its first episode. The id is given by who collects.
pub(super) fn row_bundle<T: Task>(spawn: &Spawn, i: u32) -> impl Bundle {
    let row = spawn.first_row + i;
    (
        (RowIndex(row), Slot(i), Observation::<T>::default(), LastObservation::<T>::default()),
        (Action::<T>::default(), ActionMask::<T>::default(), Reward::default(), End::RUNNING),
        (EpisodeStep::default(), EpisodeReturn::default(), Episode(spawn.first_episode), TrajectoryId::default()),
        (
            ActionKey(spawn.seed.row_key(row, Purpose::Action)),
            Stream::new(spawn.seed, row, Purpose::Env, spawn.first_episode),
        ),
        (LogProb::default(), Value::default()),
    )
}

/// Rows whose environments are components.
pub struct RowStepper<E: Env> {
    pub(crate) factory: Factory<E>,
    pub(crate) options: E::Options,
    /// Adds the stages of two lanes. None where nobody asked for them: then they are not compiled for this task.
    lanes: Option<fn(&mut Schedule)>,
}

impl<E: Env> Stepper<E> for RowStepper<E> {
    fn with_lanes(self) -> Self {
        Self { lanes: Some(step::install_lanes::<E>), ..self }
    }

    fn pooled(self) -> Result<Box<dyn Stepper<E>>, Error> {
        Ok(Box::new(PoolStepper(self)))
    }

    fn time_limit(&self) -> Option<u32> {
        E::TIME_LIMIT
    }

    fn rebuilds(&self) -> bool {
        true
    }

    fn has_lanes(&self) -> bool {
        self.lanes.is_some()
    }

    fn install(&mut self, world: &mut World, schedule: &mut Schedule, spawn: &Spawn) -> Result<Vec<Entity>, Error> {
        world.insert_resource(step::EnvSettings::<E> {
            options: self.options.clone(),
            limit: spawn.limit,
            masks: MaskParts::of(&E::action_space()),
            clip: ActionClip::of::<E>(),
            seed: spawn.seed,
            worker: spawn.worker.unwrap_or(0),
            arch: pulp::Arch::new(),
            floats: E::Observation::fields().iter().all(|field| field.dtype == Dtype::F32),
            rebuild: Rebuild::new(self.factory.clone(), spawn),
        });
        if needs_drop::<E>() {
            world.insert_resource(DropEnvs(step::EnvSettings::<E>::drop_envs));
        }
        let mut entities = Vec::with_capacity(spawn.rows as usize);
        for i in 0..spawn.rows {
            let mut row = world.spawn((self.build(spawn, i)?, row_bundle::<E>(spawn, i)));
            if spawn.upper(i) {
                row.insert(SecondLane);
            }
            entities.push(row.id());
        }
        match self.lanes.filter(|_| spawn.overlap == Overlap::Two) {
            Some(install_lanes) => install_lanes(schedule),
            None => {
                let step = step::step_rows::<E>.in_set(CollectSystems::Step);
                schedule.add_systems(step.in_set(TaskSystems::of::<E>()));
            }
        }
        self.restart(world, &entities)?;
        Ok(entities)
    }

    fn reseed(&self, world: &mut World, seed: Seed) {
        world.resource_mut::<step::EnvSettings<E>>().seed = seed;
    }

    fn share(&self) -> Option<Box<dyn Stepper<E>>> {
        let Self { factory, options, lanes } = self;
        Some(Box::new(Self { factory: factory.clone(), options: options.clone(), lanes: *lanes }))
    }

    fn save_states(&self, world: &World, rows: &[Entity]) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let Some(codec) = E::STATE else { return Ok(None) };
        let envs = rows.iter().zip(0_u32..).filter_map(|(entity, row)| Some((world.get::<E>(*entity)?, row)));
        envs.map(|(env, row)| codec.saved(env, &format!("row {row}"))).collect::<Result<_, _>>().map(Some)
    }

    fn load_states(&self, world: &mut World, rows: &[Entity], states: &[Vec<u8>]) -> Result<bool, Error> {
        let Some(codec) = E::STATE else { return Ok(false) };
        check_count(states.len(), rows.len())?;
        for ((entity, state), row) in rows.iter().zip(states).zip(0_u32..) {
            if let Some(mut env) = world.get_mut::<E>(*entity) {
                codec.loaded(&mut env, state, &format!("row {row}"))?;
            }
        }
        Ok(true)
    }

    fn restart(&self, world: &mut World, rows: &[Entity]) -> Result<(), Error> {
        let mut query = world
            .query::<((&mut E, &mut Stream, &mut Episode, &RowIndex), (&mut Observation<E>, &mut ActionMask<E>))>();
        world.resource_scope(|world, settings: Mut<step::EnvSettings<E>>| {
            for entity in rows {
                let Ok(((mut env, mut stream, mut episode, row), (mut observation, mut mask))) =
                    query.get_mut(world, *entity)
                else {
                    continue;
                };
                let since = (episode.0, 0);
                let mut start = Start {
                    row: row.0,
                    env: &mut *env,
                    stream: &mut stream,
                    episode: &mut episode.0,
                    observation: &mut observation.0,
                    mask: &mut mask.0,
                };
                settings.start(&mut start).or_else(|error| settings.restart(&mut start, since, error))?;
            }
            Ok(())
        })
    }
}

impl<E: Env> RowStepper<E> {
    /// Rows that `factory` builds.
    pub(crate) fn new(factory: impl Fn(&mut RowContext) -> Result<E, BoxError> + Send + Sync + 'static) -> Self {
        Self { factory: Arc::new(factory), options: E::Options::default(), lanes: None }
    }

    pub(super) fn build(&self, spawn: &Spawn, i: u32) -> Result<E, Error> {
        faults::build(&self.factory, (spawn.first_row + i, spawn.all_rows), spawn.worker, spawn.seed)
    }
}
