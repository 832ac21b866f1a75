//! What holds whoever steps the rows: one thread, several, workers in step or on their own, or a pool.

mod counters;
mod drops;
mod failures;
mod order_of_calls;
mod orders;
mod rows;
mod versions;
mod waits;

use std::time::Duration;

/// How long to wait for what comes.
const SOON: Duration = Duration::from_secs(60);

/// What is called "at once" on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(30);
