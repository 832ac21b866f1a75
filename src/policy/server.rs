//! One place where the networks of several collectors act together.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{backend::Site, plan::Plan, served::Group};
use crate::{components::Weights, error::Error};

/// How requests are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Rows from which on a batch is begun at once. Default: 1, so that rows wait only for a batch that is under way, and
    /// those that come meanwhile make the next one.
    pub min_rows: usize,
    /// Most rows of a batch that is put together of several requests; a larger request goes alone. Default: 65,536.
    pub max_rows: usize,
    /// Longest wait for `min_rows`; it ends as soon as all wait that act by the same weights. Default: 1 ms.
    pub window: Duration,
    /// Longest wait for an answer, an error from then on. Default: 60 s.
    pub deadline: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        let (window, deadline) = (Duration::from_millis(1), Duration::from_secs(60));
        Self { min_rows: 1, max_rows: 1 << 16, window, deadline }
    }
}

impl ServerConfig {
    fn check(&self) -> Result<(), Error> {
        let mut errors = Vec::new();
        if self.min_rows == 0 {
            errors.push(Error::config("min_rows", 0, "1 or more"));
        }
        if self.max_rows < self.min_rows {
            errors.push(Error::config("max_rows", self.max_rows, format!("min_rows, {}, or more", self.min_rows)));
        }
        if self.deadline <= self.window {
            errors.push(Error::config("deadline", format!("{:?}", self.deadline), "longer than window"));
        }
        Error::all(errors)
    }
}

/// Batches of a server since it was made, or since they were read last by [`InferenceServer::take_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerStats {
    /// Requests that were answered.
    pub requests: u64,
    /// Batches that they were put together to.
    pub batches: u64,
    /// Rows of all of them.
    pub rows: u64,
    /// Time from a request to the begin of its batch, in ms: of the newest 1,024 the median, and what 95 of 100 are below.
    pub queue_ms: [f32; 2],
    /// Time that a batch took, in ms, likewise.
    pub forward_ms: [f32; 2],
}

/// Counters, and the newest times.
#[derive(Default)]
struct Measured {
    stats: ServerStats,
    queue: VecDeque<f32>,
    forward: VecDeque<f32>,
}

impl Measured {
    fn stats(&self) -> ServerStats {
        let (queue_ms, forward_ms) = (percentiles(&self.queue), percentiles(&self.forward));
        ServerStats { queue_ms, forward_ms, ..self.stats }
    }
}

/// Times that percentiles are of.
const NEWEST: usize = 1_024;

fn note(times: &mut VecDeque<f32>, time: Duration) {
    if times.len() == NEWEST {
        times.pop_front();
    }
    times.push_back(time.as_secs_f32() * 1e3);
}

/// Median and 95th percentile.
fn percentiles(times: &VecDeque<f32>) -> [f32; 2] {
    let mut sorted: Vec<f32> = times.iter().copied().collect();
    sorted.sort_by(f32::total_cmp);
    [50, 95].map(|share| sorted.get((sorted.len() * share / 100).min(sorted.len().max(1) - 1)).copied().unwrap_or(0.0))
}

/// Lets networks of several collectors act together: what rows of any of them need at a time goes through the network as
/// one batch, a single dispatch on a GPU. A policy is served by [`Policy::served_by`](crate::policy::Policy::served_by).
///
/// It has no thread of its own: of those that wait one runs the batch for all, on one thread whatever `threads` says, and
/// the next batch of the same weights waits for it. Requests are put together that have the same network, backend, weights
/// and exploration (of Q-networks while epsilon changes also the same count of frames); so each collector acts by the set
/// that it has adopted, and the data have the same bits as without a server. Each set has a network of its own, opened when
/// the first collector adopts it. Not for networks that remember (recurrent layers, noise that goes on).
///
/// ```
/// use gleaner::{policy::{InferenceServer, ServerConfig}, prelude::*};
///
/// let server = InferenceServer::new(ServerConfig::default())?;
/// let policy = Policy::network(NetworkSpec::default()).served_by(&server);
/// let build = |seed| {
///     Collector::<CartPole>::builder().rows(8).policy(policy.clone()).seed(seed).total_frames(800).build()
/// };
/// let collectors = [build(1)?, build(2)?];
/// std::thread::scope(|scope| {
///     for mut collector in collectors {
///         scope.spawn(move || collector.by_ref().try_for_each(|batch| batch.map(drop)));
///     }
/// });
/// assert_eq!(server.stats().rows, 1_600);
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone)]
pub struct InferenceServer(Arc<Shared>);

struct Shared {
    config: ServerConfig,
    measured: Mutex<Measured>,
    groups: Mutex<Vec<Weak<Group>>>,
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    // Whole values only are put there.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InferenceServer {
    /// A server for any networks. Errors: illegal options, all of them.
    pub fn new(config: ServerConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self(Arc::new(Shared { config, measured: Mutex::default(), groups: Mutex::default() })))
    }

    /// The options.
    pub fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    /// The counters.
    pub fn stats(&self) -> ServerStats {
        lock(&self.0.measured).stats()
    }

    /// The counters, which begin anew.
    pub fn take_stats(&self) -> ServerStats {
        std::mem::take(&mut *lock(&self.0.measured)).stats()
    }

    /// Counts a batch.
    pub(super) fn note(&self, waited: impl Iterator<Item = Duration>, rows: usize, took: Duration) {
        let mut measured = lock(&self.0.measured);
        for time in waited {
            measured.stats.requests += 1;
            note(&mut measured.queue, time);
        }
        measured.stats.batches += 1;
        measured.stats.rows += rows as u64;
        note(&mut measured.forward, took);
    }

    /// Those that act by these weights together.
    pub(super) fn group(&self, site: &Site, plan: &Plan, weights: &Weights) -> Result<Arc<Group>, Error> {
        let find = |groups: &[Weak<Group>]| {
            groups.iter().filter_map(Weak::upgrade).find(|group| group.is_of(site, plan, weights))
        };
        if let Some(group) = find(&lock(&self.0.groups)) {
            return Ok(group);
        }
        // Without the lock: opening takes its time.
        let mut network = site.network(plan)?;
        network.load(weights)?;
        let made = Arc::new(Group::new(site.clone(), plan.clone(), weights.clone(), network));
        let mut groups = lock(&self.0.groups);
        groups.retain(|group| group.strong_count() > 0);
        let group = find(&groups).unwrap_or(made);
        groups.push(Arc::downgrade(&group));
        Ok(group)
    }
}

impl fmt::Debug for InferenceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InferenceServer").field("config", &self.0.config).field("stats", &self.stats()).finish()
    }
}
