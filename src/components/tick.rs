//! What the stages of one tick tell each other about a task.

use std::{
    marker::PhantomData,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bevy_ecs::prelude::Resource;

use super::Versions;
use crate::error::Error;

/// The coming tick of a task: which rows act, how, and under which weights.
#[derive(Resource, Debug)]
pub struct TickPlan<T> {
    /// Rows of slots `0..active` act and step.
    pub active: u32,
    /// Rows of slots `0..random` draw their action from the space.
    pub random: u32,
    /// Rows of slots from this one on have their episodes cut at the end of the tick, by a forced reset; `u32::MAX` for
    /// none.
    pub cut_from: u32,
    /// Versions of the weights that act.
    pub versions: Versions,
    /// `active` and `random` of the coming tick, if it belongs to the same rollout.
    pub(crate) ahead: Option<(u32, u32)>,
    /// How row chunks are spread over threads.
    pub parallelism: Parallelism,
    pub(crate) threads: Option<Threads>,
    pub(crate) task: PhantomData<fn() -> T>,
}

impl<T> Clone for TickPlan<T> {
    fn clone(&self) -> Self {
        Self { versions: self.versions.clone(), threads: self.threads.clone(), task: PhantomData, ..*self }
    }

    // Each tick takes a copy: into the memory that is there.
    fn clone_from(&mut self, other: &Self) {
        self.versions.clone_from(&other.versions);
        self.threads.clone_from(&other.threads);
        (self.active, self.random, self.cut_from) = (other.active, other.random, other.cut_from);
        (self.ahead, self.parallelism) = (other.ahead, other.parallelism);
    }
}

impl<T> Default for TickPlan<T> {
    fn default() -> Self {
        Self {
            active: u32::MAX,
            random: 0,
            cut_from: u32::MAX,
            versions: Versions::default(),
            ahead: None,
            parallelism: Parallelism::SERIAL,
            threads: None,
            task: PhantomData,
        }
    }
}

/// What went on in the running tick; written by many threads, read when the tick is over.
#[derive(Resource, Debug)]
pub struct TickReport<T> {
    stepped: AtomicU64,
    quarantined: AtomicU64,
    failed: std::sync::atomic::AtomicBool,
    error: Mutex<Option<(u32, Error)>>,
    task: PhantomData<fn() -> T>,
}

impl<T> Default for TickReport<T> {
    fn default() -> Self {
        Self {
            stepped: AtomicU64::new(0),
            quarantined: AtomicU64::new(0),
            failed: false.into(),
            error: Mutex::new(None),
            task: PhantomData,
        }
    }
}

impl<T> TickReport<T> {
    /// Counts frames that environments stepped.
    pub fn stepped(&self, frames: u64) {
        self.stepped.fetch_add(frames, Relaxed);
    }

    /// Counts frames whose numbers are not finite.
    pub fn quarantined(&self, frames: u64) {
        self.quarantined.fetch_add(frames, Relaxed);
    }

    /// Ends the iteration with this error; of several the one of the lowest row is kept, whatever thread was first.
    pub fn fail(&self, row: u32, error: Error) {
        let mut first = self.error.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if first.as_ref().is_none_or(|(kept, _)| row < *kept) {
            *first = Some((row, error));
        }
        self.failed.store(true, Relaxed);
    }

    /// Whether a stage failed: the later ones stand still.
    pub fn failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Frames quarantined in this tick so far.
    pub fn quarantined_now(&self) -> u64 {
        self.quarantined.load(Relaxed)
    }

    /// Frames stepped since the last call.
    pub fn take_stepped(&mut self) -> u64 {
        std::mem::take(self.stepped.get_mut())
    }

    /// Frames quarantined since the last call.
    pub fn take_quarantined(&mut self) -> u64 {
        std::mem::take(self.quarantined.get_mut())
    }

    /// The error, if a stage failed.
    pub fn take_error(&mut self) -> Option<Error> {
        *self.failed.get_mut() = false;
        self.error.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).take().map(|(_, error)| error)
    }
}

/// The collector's pool, for systems that bevy's own threads run. With the single-threaded executor the whole rollout
/// runs inside the pool and a plan has none.
#[derive(Clone, Debug)]
pub(crate) struct Threads(pub Arc<rayon::ThreadPool>);

impl Threads {
    /// Runs `work` on the pool, if there is one to enter.
    pub(crate) fn enter(threads: Option<&Self>, work: impl FnOnce() + Send) {
        match threads {
            Some(threads) => install(&threads.0, &mut once(work)),
            None => work(),
        }
    }

    /// Runs both, side by side if another thread of the pool is idle.
    pub(crate) fn join(left: impl FnOnce() + Send, right: impl FnOnce() + Send) {
        join(&mut once(left), &mut once(right));
    }
}

/// Work for a pool. A reference, so that what a pool does with it is compiled once, whatever the work.
type Work<'w> = &'w mut (dyn FnMut() + Send);

fn once(work: impl FnOnce() + Send) -> impl FnMut() + Send {
    let mut work = Some(work);
    move || {
        if let Some(work) = work.take() {
            work();
        }
    }
}

fn install(pool: &rayon::ThreadPool, work: Work<'_>) {
    pool.install(work);
}

fn join(left: Work<'_>, right: Work<'_>) {
    rayon::join(left, right);
}

/// How row chunks are spread over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallelism {
    /// Threads of the collector's pool; 1 runs everything on the calling thread.
    pub threads: usize,
    /// Fewest rows that a thread is given to step; below twice this the calling thread steps them all.
    pub step_rows: usize,
    /// Fewest rows that a thread is given to infer.
    pub infer_rows: usize,
}

impl Parallelism {
    /// One thread.
    pub const SERIAL: Self = Self { threads: 1, step_rows: usize::MAX, infer_rows: usize::MAX };

    /// Whether `rows` are split when no thread shall get fewer than `least`.
    pub fn splits(&self, rows: usize, least: usize) -> bool {
        self.threads > 1 && rows / 2 >= least
    }
}
