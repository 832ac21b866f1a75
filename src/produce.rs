//! How a collector comes by its next batch, before user code sees it.

use crate::{
    collector::Collector,
    config::TrajFormat,
    drive::{Drive, Ticks},
    error::{Error, guarded},
    fleet::Received,
    rollout::{Assembly, Batch, Block, with_rollout},
    task::Task,
};

impl<T: Task> Collector<T> {
    /// Ticks that the budget allows for the next rollout, at most a horizon.
    pub(crate) fn ticks_left(&mut self) -> usize {
        let rows = self.fleet.as_ref().map_or(self.config.rows, |fleet| fleet.live_rows().max(1));
        let left = self.frames_left().div_ceil(rows as u64);
        left.min(self.horizon() as u64) as usize
    }

    fn frames_left(&mut self) -> u64 {
        let rollout = (self.horizon() * self.rows()) as u64;
        if let Some(budget) = &mut self.budget {
            return budget.grant(rollout);
        }
        let stepped = self.drive.monitor.stepped();
        self.config.total_frames.map_or(u64::MAX, |total| total.saturating_sub(stepped))
    }

    /// Steps one rollout and returns its block.
    pub(crate) fn roll(&mut self) -> Result<Box<Block<T>>, Error> {
        if self.config.async_batched.is_some() {
            return self.turn(usize::MAX);
        }
        // The arena first: a call that finds none is made again, and the hook belongs to a rollout.
        let block = self.drive.pool.take()?;
        if let Err(error) = self.prepare() {
            self.drive.pool.give_back(block);
            return Err(error);
        }
        let (ticks, left) = (self.ticks_left(), self.frames_left());
        if let Some(budget) = &mut self.budget {
            budget.granted = 0;
        }
        let Some(fleet) = &mut self.fleet else {
            return self.drive.roll(&self.config, block, Ticks { now: ticks, later: 0 }, left, &self.stop);
        };
        let Drive { world, monitor, .. } = &mut self.drive;
        let rolled = with_rollout::<T, _>(world, |_, rollout| fleet.roll(monitor, rollout, block, ticks, left));
        let taken = || Err(Error::State { call: "rollout", problem: "the rollout was taken away".into() });
        let (block, lost) = rolled.unwrap_or_else(taken)?;
        for rows in lost {
            self.lose_waiting(rows);
        }
        Ok(block)
    }

    /// [`prepare`](Self::prepare), once for each batch, however often it is waited for.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        if !self.begun {
            self.prepare()?;
            self.begun = true;
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), Error> {
        // First: after its error the rollout is begun anew.
        self.look_for_weights()?;
        if let Some(hook) = &mut self.hooks.pre_collect {
            guarded("pre_collect", hook)?;
        }
        // Workers adopt weights themselves.
        if self.fleet.is_none() { self.drive.adopt_weights() } else { Ok(()) }
    }

    /// The next batch of fixed frames; none at the end of the budget.
    pub(crate) fn next_batch(&mut self) -> Result<Option<Batch<T>>, Error> {
        if self.config.takes_as_they_come() {
            return self.flat_batch();
        }
        (self.ticks_left() > 0).then(|| self.fixed_batch()).transpose()
    }

    pub(crate) fn fixed_batch(&mut self) -> Result<Batch<T>, Error> {
        let mut block = self.roll()?;
        if self.config.set_truncated {
            block.mark_edge();
        }
        Ok(self.wrap(block))
    }

    pub(crate) fn wrap(&self, block: Box<Block<T>>) -> Batch<T> {
        let index = self.drive.monitor.ledger().counters.batches;
        Batch::new(block, self.drive.specs.clone(), self.critic.clone(), Some(self.drive.pool.clone()), index)
    }

    /// The next `n` complete trajectories that wait, as a batch.
    pub(crate) fn joined(&mut self, n: usize, padded: bool) -> Result<Batch<T>, Error> {
        let (mut block, specs) = (self.drive.pool.take()?, self.drive.specs.clone());
        if let Some(mut assembly) = self.drive.assembly() {
            assembly.emit(&mut block, &specs, n, padded);
        }
        self.begun = false;
        Ok(self.wrap(block))
    }

    /// Complete trajectories that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.drive.world.get_resource().map_or(0, Assembly::<T>::waiting)
    }

    /// Rolls until a batch of whole trajectories is complete; at the end of the budget what is left, then none.
    fn trajectory_batch(&mut self, n: usize) -> Result<Option<Batch<T>>, Error> {
        while self.waiting() < n && self.ticks_left() > 0 {
            let block = self.roll()?;
            self.drive.ingest(&block, None);
            self.drive.pool.give_back(block);
            if self.leaves_off(n) {
                return Ok(None);
            }
        }
        if self.waiting() == 0 {
            return Ok(None);
        }
        self.joined(n, self.config.traj_format == Some(TrajFormat::Padded)).map(Some)
    }

    /// Whether a wait for `n` episodes is left off for now.
    pub(crate) fn leaves_off(&mut self, n: usize) -> bool {
        self.not_yet = self.stepwise && self.waiting() < n && self.ticks_left() > 0;
        self.not_yet
    }

    /// The next batch, before user code sees it; none at the end of the budget.
    pub(crate) fn produce(&mut self) -> Result<Option<Batch<T>>, Error> {
        if self.config.is_async() {
            return self.receive();
        }
        if let Some(n) = self.config.trajs_per_batch {
            return self.trajectory_batch(n);
        }
        if self.joins() {
            return self.episodes_to_write();
        }
        self.next_batch()
    }

    /// The next batch of any worker.
    fn receive(&mut self) -> Result<Option<Batch<T>>, Error> {
        self.begin()?;
        let Some(fleet) = &mut self.fleet else { return Ok(None) };
        let (worker, mut batch) = match fleet.receive(&self.drive.monitor, self.stepwise)? {
            Received::Batch(worker, batch) => (worker, batch),
            Received::Nothing => {
                self.not_yet = true;
                return Ok(None);
            }
            Received::Through => return Ok(None),
        };
        self.begun = false;
        self.drive.monitor.receive(&worker, batch.frames() as u64);
        batch.set_index(self.drive.monitor.ledger().counters.batches);
        Ok(Some(batch))
    }

    /// Rolls until episodes wait that a buffer is to get.
    fn episodes_to_write(&mut self) -> Result<Option<Batch<T>>, Error> {
        while self.waiting() == 0 && self.ticks_left() > 0 {
            let block = self.roll()?;
            self.drive.ingest(&block, self.config.whole_episodes().map(|episodes| episodes.max_open));
            self.drive.pool.give_back(block);
            if self.leaves_off(1) {
                return Ok(None);
            }
        }
        let episodes = self.config.trajs_per_write.unwrap_or(usize::MAX);
        (self.waiting() > 0).then(|| self.joined(episodes, false)).transpose()
    }
}
