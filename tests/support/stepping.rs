//! Who steps the rows: everything that is promised holds for each.

use gleaner::{
    config::{CollectorBuilder, Delivery},
    env::{AsyncBatched, Stepper},
    prelude::Task,
};

use super::Case;

/// Who steps the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepping {
    /// The caller's thread.
    Inline,
    /// Two threads, in one world.
    Threads,
    /// Two workers that deliver in step.
    InStep,
    /// Two workers that deliver on their own.
    OnTheirOwn,
    /// A pool, each row at its own pace.
    Pooled,
}

impl Stepping {
    pub const ALL: [Self; 5] = [Self::Inline, Self::Threads, Self::InStep, Self::OnTheirOwn, Self::Pooled];

    /// Sets the options of a builder.
    pub fn set<T: Task, S: Stepper<T> + 'static>(self, builder: CollectorBuilder<T, S>) -> CollectorBuilder<T, S> {
        match self {
            Self::Inline => builder,
            Self::Threads => builder.threads(2).step_rows_per_thread(1).infer_rows_per_thread(1),
            Self::InStep => builder.workers(2),
            Self::OnTheirOwn => builder.workers(2).delivery(Delivery::Async),
            Self::Pooled => builder.async_batched(AsyncBatched::default()),
        }
    }

    /// Sets the options of a case.
    pub fn of(self, case: Case) -> Case {
        match self {
            Self::Inline => case,
            Self::Threads => Case { threads: 2, ..case },
            Self::InStep => Case { workers: 2, ..case },
            Self::OnTheirOwn => Case { workers: 2, delivery: Delivery::Async, ..case },
            Self::Pooled => Case { pooled: Some(AsyncBatched::default()), ..case },
        }
    }

    /// Whether each batch is a rollout of all rows that begins when it is asked for.
    pub fn asks_all(self) -> bool {
        !matches!(self, Self::OnTheirOwn | Self::Pooled)
    }
}
