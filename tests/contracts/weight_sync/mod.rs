//! New weights: where they come from, under which version they act, and that they act everywhere and whole.

mod episodes;
mod epochs;
mod sources;
mod staleness;
mod versions;
mod workers;

use crate::support::{Ending, Script, Tag, tags};
use gleaner::{
    config::{CollectorBuilder, Delivery},
    env::RowStepper,
    policy::Exploration,
    prelude::Error,
};

/// Everything that steps rows: workers, and how they deliver.
const KINDS: [(usize, Delivery); 3] = [(0, Delivery::Sync), (2, Delivery::Sync), (2, Delivery::Async)];

/// A collector of `rows` rows and 10 ticks a batch, whose actions are the policy's mean.
fn of_kind((workers, delivery): (usize, Delivery), rows: usize) -> CollectorBuilder<Tag, RowStepper<Tag>> {
    let builder = tags(Script::all(7, Ending::Terminated)).rows(rows).frames_per_batch(rows * 10);
    let builder = builder.exploration(Exploration::Mode);
    if workers > 0 { builder.workers(workers).delivery(delivery) } else { builder }
}

/// The two options that a build refuses together.
fn refusal(builder: CollectorBuilder<Tag, RowStepper<Tag>>) -> (&'static str, &'static str) {
    match builder.build().expect_err("the options do not go together") {
        Error::Conflict { first, second, .. } => (first, second),
        error => panic!("{error}"),
    }
}
