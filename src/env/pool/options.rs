//! Options of environments that are stepped on threads of their own.

use std::time::Duration;

use bevy_ecs::prelude::Resource;
use serde::{Deserialize, Serialize};

use crate::{error::Error, fault::FaultPolicy, stats::Monitor};

/// Most threads of a pool.
const MAX_THREADS: usize = 4_096;
/// Threads of a pool at most, unless more are asked for.
const DEFAULT_THREADS: usize = 1_024;

/// Async-batched collection: each environment steps on a thread of a pool, and rows whose step is done are acted for
/// together, whichever they are. A slow row delays only itself. For environments that wait, or whose steps take very
/// different times; where steps take microseconds, rows in the world are much faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AsyncBatched {
    /// Threads that environments step on. Default: one a row, at most 1,024, which suits environments that wait (for a
    /// process, a network, a clock). For those that compute, as many as there are cores.
    pub threads: Option<usize>,
    /// Rows that are waited for before the policy acts, for at most `window`. Default: 1.
    pub min_ready: usize,
    /// Most rows that the policy acts for at once. Default: all that are ready.
    pub max_ready: Option<usize>,
    /// How long the first row that is ready waits for others, up to `min_ready`. Default: 10 ms.
    pub window: Duration,
    /// How long a step, with the reset behind it, may take; the time that it waits for a thread does not count. What is
    /// done beyond says [`CollectorConfig::on_fault`](crate::config::CollectorConfig::on_fault). Default: 60 s.
    pub step_deadline: Duration,
    /// How long threads are waited for at shutdown and when the collector is dropped, all of them together. Default: 5 s.
    pub shutdown: Duration,
}

impl Default for AsyncBatched {
    fn default() -> Self {
        Self {
            threads: None,
            min_ready: 1,
            max_ready: None,
            window: Duration::from_millis(10),
            step_deadline: Duration::from_secs(60),
            shutdown: Duration::from_secs(5),
        }
    }
}

impl AsyncBatched {
    /// Threads for `rows` rows.
    pub fn threads(&self, rows: usize) -> usize {
        self.threads.unwrap_or(rows.min(DEFAULT_THREADS))
    }

    /// What is wrong with it for `rows` rows.
    pub(crate) fn problems(&self, rows: usize) -> Vec<Error> {
        // A year: beyond, an instant may not be representable.
        let longest = Duration::from_secs(365 * 24 * 3_600);
        let mut errors = Vec::new();
        let mut require = |holds: bool, field, value: String, legal: String| {
            if !holds {
                errors.push(Error::config(field, value, legal));
            }
        };
        let threads = self.threads.unwrap_or(1);
        let legal = format!("1 to {MAX_THREADS}, or none");
        require((1..=MAX_THREADS).contains(&threads), "async_batched.threads", threads.to_string(), legal);
        let most = self.max_ready.unwrap_or(rows.max(1));
        require(most > 0, "async_batched.max_ready", most.to_string(), "1 or more, or none".into());
        let (least, bound) = (self.min_ready, most.min(rows.max(1)).max(1));
        let legal = format!("1 to {bound}, the rows and max_ready");
        require((1..=bound).contains(&least), "async_batched.min_ready", least.to_string(), legal);
        let times = [
            ("async_batched.window", self.window, Duration::ZERO),
            ("async_batched.step_deadline", self.step_deadline, Duration::from_nanos(1)),
            ("async_batched.shutdown", self.shutdown, Duration::ZERO),
        ];
        for (field, time, least) in times {
            let legal = format!("{least:?} to 365 days");
            require((least..=longest).contains(&time), field, format!("{time:?}"), legal);
        }
        errors
    }
}

/// What a pool knows of the collection that it steps for.
#[derive(Resource, Clone, Debug)]
pub(crate) struct PoolShare {
    pub options: AsyncBatched,
    pub on_fault: FaultPolicy,
    /// Frames in all; none for endless.
    pub total_frames: Option<u64>,
    /// Frames that act at random before the policy does.
    pub random_frames: u64,
    pub monitor: Monitor,
}
