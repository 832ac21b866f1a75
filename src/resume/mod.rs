//! A collector becomes a file between two rollouts, and goes on from it.

mod head;
mod install;
mod rows;
mod staged;
mod workers;

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
};

use crate::{
    checkpoint::{self, BlockReader, BlockWriter, Kind},
    collector::{Collector, State},
    components::Versions,
    error::Error,
    policy::Actor,
    replay_writer::ReplayWriter,
    rollout::Assembly,
    stats::Ledger,
    task::Task,
};
use head::{Fit, Head};
use staged::Staged;

const KIND: Kind = Kind { magic: *b"glncollc", version: 1 };

impl<T: Task> Collector<T> {
    /// Saves all that the collection goes on from: [`load`](Self::load) into a new collector of the same options, and it
    /// yields what this one would have yielded, to the bit.
    ///
    /// ```
    /// use gleaner::prelude::*;
    ///
    /// # let path = std::env::temp_dir().join(format!("gleaner-collector-{}", std::process::id()));
    /// let new = || Collector::<CartPole>::builder().rows(8).frames_per_batch(80).total_frames(800).build();
    /// let mut collector = new()?;
    /// collector.next().expect("of ten")?;
    /// collector.save(&path)?;
    ///
    /// let mut later = new()?;
    /// later.load(&path)?;
    /// assert_eq!(later.stats(), collector.stats());
    /// let [one, other] = [&mut collector, &mut later].map(|it| it.next().expect("of nine").expect("no fault"));
    /// assert_eq!(one.observations(), other.observations());
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), gleaner::Error>(())
    /// ```
    ///
    /// In it are: counters, gauges and the last episodes' returns; of each policy the weights that act with their
    /// version, those that were published since, the statistics of observations, the frames that an epsilon is annealed
    /// by; of each row its episode, step, return, trajectory id, stream, observation, mask, outputs of the newest
    /// frame, and what a recurrent network or a noise process remembers, and the weights that its running episode goes
    /// on by; the environments, by their [`StateCodec`](crate::env::StateCodec); frames that wait for the end of their
    /// episode or for a batch; the seed.
    ///
    /// Not in it are: the options of the builder, which `load` compares, and of resets; batches that were yielded;
    /// components, resources and systems of a host; what a policy that is a function or a system keeps of its own; the
    /// replay buffer, which has [its own file](crate::replay::Replay::save): save both between the same two receipts.
    ///
    /// Episodes of environments without a codec cannot go on: `load` ends them, truncated by
    /// [`Truncation::Checkpoint`](crate::components::Truncation::Checkpoint), and starts new ones. So it does under
    /// a larger budget where whole trajectories are collected and the budget was used up, which has discarded the frames
    /// of episodes that ran.
    ///
    /// Workers that deliver in step are saved each as such a collector, and go on in as many of as many rows. Whole
    /// trajectories over them need environments with a codec. A worker that was restarted goes on as what it is now, one that
    /// is lost stays lost; restarts are counted anew.
    ///
    /// The file at `path` is the old one until the new one is whole and on the disk. Errors: [`Error::State`] after a
    /// shutdown, if a row has left the world, and for rows that do not step together; [`Error::Io`];
    /// [`Error::Checkpoint`] for what an environment's codec does not manage.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        checkpoint::replace(path.as_ref(), |to| self.save_to(to))
    }

    /// Writes what [`save`](Self::save) writes. Errors: those of `save`; [`Error::Checkpoint`] if `to` does not take
    /// it.
    pub fn save_to(&self, to: &mut dyn Write) -> Result<(), Error> {
        let error = |problem: &str| Error::State { call: "save", problem: problem.into() };
        if self.state == State::Shut {
            return Err(error("the collector is shut down; legal: between rollouts"));
        }
        self.check_kind("save")?;
        if let Some(fleet) = &self.fleet {
            return self.save_workers(&**fleet, to);
        }
        let ledger = self.drive.monitor.ledger().clone();
        self.save_rows(&ledger, to)
    }

    /// Writes the rows of this world, which have counted this.
    fn save_rows(&self, ledger: &Ledger, to: &mut dyn Write) -> Result<(), Error> {
        let error = |problem: &str| Error::State { call: "save", problem: problem.into() };
        let world = &self.drive.world;
        let rows = rows::of::<T>(world, &self.entities)
            .ok_or_else(|| error("a row has left the world; legal: the rows that it was built with"))?;
        let rollout = self.drive.world.resource::<crate::components::RolloutSlot<T>>();
        let rollout = rollout.get().ok_or_else(|| error("a system took the rollout away"))?;
        let receipts = world.get_resource::<ReplayWriter<T>>().map(ReplayWriter::waiting).transpose()?;
        let mut to = BlockWriter::new(to, KIND)?;
        to.part(&Head::of(self))?;
        to.part(ledger)?;
        let (actors, versions) = (actors::<T>(world), self.versions());
        for (actor, seat) in actors.iter().zip(&self.policies) {
            let latest = seat.weights.as_ref().map(|weights| weights.latest());
            actor.save(versions.get(actor.number()), latest, &mut to)?;
        }
        rollout.save(actors.len(), &mut to)?;
        to.part(&receipts.unwrap_or_default())?;
        rows.iter().try_for_each(|row| row.save(&mut to))?;
        let keys = rows::keys(&rows, self.first_row(), self.config.seed);
        for actor in actors {
            actor.save_states(rows::identities(&keys), &mut to)?;
            if self.config.one_version_per_trajectory {
                actor.save_former(&mut to)?;
            }
        }
        self.save_envs(&mut to)?;
        if let Some(assembly) = world.get_resource::<Assembly<T>>() {
            assembly.save(&self.drive.specs, &mut to)?;
        }
        to.finish()
    }

    /// Goes on from a file that [`save`](Self::save) wrote, in a new collector: of the same task, options and policies,
    /// except that threads, executor, overlap, `max_arenas` and `total_frames` may be others. The seed becomes the saved
    /// one; weights that were published here before are replaced.
    ///
    /// Errors: [`Error::State`] once this collector has stepped a frame; an option or a policy that is another; a file
    /// that is not whole or contradicts itself. Then the collector is as it was, with one exception: what fails when
    /// environments start anew or a device takes weights, after everything was checked, shuts it down.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.load_file(path.as_ref(), true).map(drop)
    }

    /// Reads what [`save_to`](Self::save_to) has written, to its end. Errors: those of [`load`](Self::load).
    pub fn load_from(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        self.load_parts(from, true).map(drop)
    }

    /// [`load`](Self::load) of those parts that both the file and this collector have, whatever the options; returns what
    /// was left out, in words. A network is taken if its policy is one here too, statistics of observations if it
    /// normalises; the rows, with all that runs or waits, if there are as many, of the same columns and policies. Else
    /// their frames count as discarded, and the collector begins with the saved counters, as by
    /// [`load_counters`](Self::load_counters).
    ///
    /// Errors: as `load`; also tensors of other shapes under the same policy, which are no absent part.
    pub fn load_partial(&mut self, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        self.load_file(path.as_ref(), false)
    }

    fn load_file(&mut self, path: &Path, strict: bool) -> Result<Vec<String>, Error> {
        let mut file = File::open(path).map_err(|source| Error::Io { path: path.into(), source })?;
        self.load_parts(&mut file, strict).map_err(|error| match error {
            Error::Checkpoint(problem) => Error::Checkpoint(format!("{}: {problem}", path.display())),
            error => error,
        })
    }

    fn load_parts(&mut self, from: &mut dyn Read, strict: bool) -> Result<Vec<String>, Error> {
        let stepped = self.drive.monitor.stepped();
        if stepped > 0 || self.state != State::Ready {
            let problem = format!("{stepped} frames were stepped, it is {:?}; legal: a new collector", self.state);
            return Err(Error::State { call: "load", problem });
        }
        self.check_kind("load")?;
        if self.fleet.is_some() {
            return self.load_workers(from, strict);
        }
        if rows::of::<T>(&self.drive.world, &self.entities).is_none() {
            let problem = "a row has left the world; legal: the rows that it was built with".into();
            return Err(Error::State { call: "load", problem });
        }
        let staged = Staged::read(self, BlockReader::new(from, KIND)?, if strict { Fit::Whole } else { Fit::Parts })?;
        self.install(staged)
    }

    fn first_row(&self) -> u32 {
        self.drive.rows.first().map_or(0, |row| row.0)
    }

    /// Versions of the weights that act in the coming tick, by policy.
    fn versions(&self) -> &Versions {
        &self.drive.world.resource::<crate::components::TickPlan<T>>().versions
    }

    fn save_envs(&self, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        let states = self.stepper.save_states(&self.drive.world, &self.entities)?;
        to.part(&states.as_ref().map(|states| states.len() as u64))?;
        states.iter().flatten().try_for_each(|state| {
            to.part(&(state.len() as u64))?;
            to.raw(state)
        })
    }
}

/// The policies of a world, by number.
fn actors<T: Task>(world: &bevy_ecs::prelude::World) -> Vec<&Actor<T>> {
    let query = world.try_query::<&Actor<T>>();
    let mut actors: Vec<_> = query.into_iter().flat_map(|mut query| query.iter(world).collect::<Vec<_>>()).collect();
    actors.sort_by_key(|actor| actor.number());
    actors
}
