//! Reading counters from any thread, of one world or of many.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};

use bevy_ecs::prelude::Resource;

use super::{Ledger, Stats};

/// What of [`Stats`] does not change while a collector lives.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    pub requested_frames_per_batch: Option<u64>,
    pub total_frames: Option<u64>,
    /// Rows.
    pub rows: u64,
    /// Rows of one simulation.
    pub agents: u64,
    /// What the networks run on, if there is one.
    pub backend: Option<String>,
    /// Whether a replay buffer is written to.
    pub writes: bool,
    /// Whether rows wait in a pool.
    pub pool: bool,
}

impl Default for Fixed {
    fn default() -> Self {
        Self {
            requested_frames_per_batch: None,
            total_frames: None,
            rows: 0,
            agents: 1,
            backend: None,
            writes: false,
            pool: false,
        }
    }
}

/// Reads a collector's counters from any thread while it runs. No worker is asked for anything.
#[derive(Clone, Debug, Resource)]
pub struct Monitor {
    ledger: Arc<Mutex<Ledger>>,
    fixed: Arc<Fixed>,
    /// In the order of their numbers; one that was restarted is there with each of its lives.
    workers: Arc<RwLock<Vec<Watched>>>,
}

/// A worker as others see it.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub worker: usize,
    pub monitor: Monitor,
    /// Held by its thread.
    pub thread: Weak<()>,
}

impl Monitor {
    pub(crate) fn new(fixed: Fixed) -> Self {
        Self { ledger: Arc::default(), fixed: Arc::new(fixed), workers: Arc::default() }
    }

    /// What is counted here, without the workers.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is counted here and by the workers.
    pub(crate) fn whole(&self) -> Ledger {
        let mut sum = self.ledger().clone();
        self.watched().iter().for_each(|worker| sum.add(&worker.monitor.ledger()));
        sum
    }

    /// Frames stepped here and by the workers.
    pub(crate) fn stepped(&self) -> u64 {
        let workers = self.watched();
        let stepped = workers.iter().map(|worker| worker.monitor.ledger().counters.stepped_frames);
        self.ledger().counters.stepped_frames + stepped.sum::<u64>()
    }

    fn watched(&self) -> RwLockReadGuard<'_, Vec<Watched>> {
        self.workers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a worker that delivers through this one, or another life of it.
    pub(crate) fn watch(&self, life: Watched) {
        let mut workers = self.workers.write().unwrap_or_else(PoisonError::into_inner);
        let behind = workers.partition_point(|other| other.worker <= life.worker);
        workers.insert(behind, life);
    }

    /// What a worker counted in those of its lives that were given up: all but the newest one, if it `works`.
    pub(crate) fn given_up(&self, worker: usize, works: bool) -> Ledger {
        let (watched, mut sum) = (self.watched(), Ledger::default());
        let lives: Vec<_> = watched.iter().filter(|life| life.worker == worker).collect();
        for life in &lives[..lives.len().saturating_sub(usize::from(works))] {
            let mut ledger = life.monitor.ledger().clone();
            // One that is stuck may have counted on.
            ledger.give_up();
            sum.follow(&ledger);
        }
        sum
    }

    /// Counts what workers have in flight, in all their lives, as discarded by a shutdown.
    pub(crate) fn close_workers(&self) {
        for worker in self.watched().iter() {
            let mut ledger = worker.monitor.ledger();
            let lost = ledger.take_in_flight();
            ledger.counters.discarded.shutdown += lost;
        }
    }

    /// Takes over frames that a worker hands to who delivers them.
    pub(crate) fn receive(&self, worker: &Self, frames: u64) {
        let mut from = worker.ledger();
        let mut to = self.ledger();
        from.sent -= frames;
        from.counters.frames += frames;
        to.in_flight += frames;
    }

    /// The counters of each worker, in their order; empty inline.
    pub fn worker_stats(&self) -> Vec<Stats> {
        let watched = self.watched();
        let lives = watched.chunk_by(|a, b| a.worker == b.worker);
        let delivered = |lives: &[Watched]| lives.iter().map(|life| life.monitor.ledger().counters.frames).sum();
        let stats = |lives: &[Watched]| {
            let stats = Self::stats_of(lives, &Ledger::default(), &lives[0].monitor.fixed);
            // What a worker hands on, it has delivered.
            Stats { frames: delivered(lives), ..stats }
        };
        lives.map(stats).collect()
    }

    /// A snapshot. Consistent inline and for a single worker; with several each one's part is, and the sum once they
    /// stand still.
    pub fn stats(&self) -> Stats {
        // Not held while the workers' are read.
        let own = self.ledger().clone();
        let watched = self.watched();
        let stats = Self::stats_of(&watched, &own, &self.fixed);
        let some = |count: usize| (!watched.is_empty()).then_some(count as u32);
        let workers = some(watched.chunk_by(|a, b| a.worker == b.worker).count());
        let workers_alive = some(watched.iter().filter(|worker| worker.thread.strong_count() > 0).count());
        Stats { workers, workers_alive, ..stats }
    }

    fn stats_of(watched: &[Watched], own: &Ledger, fixed: &Fixed) -> Stats {
        let (mut ledger, mut returns, mut rows) = (own.clone(), 0.0, 0.0);
        for worker in watched {
            let life = worker.monitor.ledger();
            ledger.add(&life);
            if let Some(mean) = life.running_return {
                let own = worker.monitor.fixed.rows as f64;
                (returns, rows) = (returns + f64::from(mean) * own, rows + own);
            }
        }
        let running_return = if rows > 0.0 { Some((returns / rows) as f32) } else { ledger.running_return };
        let counters = ledger.counters;
        let of_writes = |count| fixed.writes.then_some(count);
        let of_pool = |count| fixed.pool.then_some(count);
        let policy_version = fixed.backend.as_ref().map(|_| ledger.versions.first().copied().unwrap_or(0));
        Stats {
            frames: counters.frames,
            stepped_frames: counters.stepped_frames,
            agent_frames: counters.stepped_frames,
            env_frames: counters.stepped_frames / fixed.agents,
            in_flight_frames: ledger.in_flight + ledger.sent,
            discarded: counters.discarded,
            trajectory_completed_frames: counters.trajectory_completed_frames,
            trajectory_pending_frames: ledger.pending,
            completed_trajectories: counters.completed_trajectories,
            batches: counters.batches,
            written_frames: of_writes(counters.written_frames),
            written_trajectories: of_writes(counters.written_trajectories),
            early_pieces: of_writes(counters.early_pieces),
            open_frames: of_writes(ledger.open),
            abandoned: of_pool(ledger.abandoned),
            late_frames: of_pool(ledger.late_frames),
            row_restarts: ledger.row_restarts,
            dispatches: of_pool(ledger.dispatches),
            requested_frames_per_batch: fixed.requested_frames_per_batch,
            total_frames: fixed.total_frames,
            completed: fixed.total_frames.is_some_and(|total| counters.stepped_frames >= total),
            policy_version,
            policy_versions: if policy_version.is_some() { ledger.versions.clone() } else { Vec::new() },
            backend: fixed.backend.clone(),
            episodes: ledger.episodes(running_return),
            workers: None,
            workers_alive: None,
        }
    }
}
