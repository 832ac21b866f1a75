//! Parts that contract tests share: an environment whose observations name row, episode and step, one that fails on
//! demand, one that takes its time, networks whose actions tell their weights, and an owned log of what was collected.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part")]

pub mod actors;
pub mod alone;
pub mod car;
mod case;
mod check;
mod fault;
mod least;
mod log;
pub mod slow;
mod stamp;
mod stepping;
mod tag;

pub use case::{
    Act, Case, Mode, Publish, case, configure, mixed, mixed_with_workers, pooled_case, pooled_mixed, publish_until,
    with_async_workers, with_workers,
};
pub use check::{check_blanks, check_flags, check_ids, check_ledger, check_links, check_streams, check_versions};
pub use fault::{ANY, Call, Fault, Faulty, Kind};
pub use least::least_of;
pub use log::{Frame, Log, Note, balance};
pub use stamp::{sampling_network, stamp, stamped_network, stamped_weights};
pub use stepping::Stepping;
pub use tag::{Ending, NEVER, Script, Seen, Tag, tags};
