//! Rows on several threads: same data, same counters, and a life cycle that never hangs.

mod delivery;
mod drops;
mod faults;
mod options;
mod restarts;
mod resume;
mod running;
#[cfg(unix)]
mod stall;

use std::{thread, time::Duration};

use gleaner::{config::CollectorBuilder, env::RowStepper};

use crate::support::slow::{Slow, slow};

/// Rows each of whose steps takes as long as `delay` says.
fn delayed(delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> CollectorBuilder<Slow, RowStepper<Slow>> {
    slow(5, move |row, _, _| thread::sleep(delay(row)))
}
