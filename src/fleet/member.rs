//! What is known of a worker.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use super::child::Child;
use crate::{components::WorkerStatus, stats::Monitor, task::Task};

pub(super) struct Member {
    pub rows: Range<u32>,
    pub status: WorkerStatus,
    /// How often it was restarted, also before a checkpoint that it goes on from.
    pub life: u32,
    pub monitor: Monitor,
    /// Frames that its lives before stepped.
    pub stepped_before: u64,
    /// Whether it will send no more.
    pub through: bool,
    /// How long its next batch has been waited for.
    pub waited: Duration,
    /// Whether the caller's batches hold it back.
    pub held: Arc<AtomicBool>,
    /// Whether it is to make a batch; none if it makes as many as there is room for.
    pub ordered: Option<Arc<AtomicBool>>,
    /// What it ever took of a budget that it shares; none if it steps as it is told.
    pub taken: Option<Arc<AtomicU64>>,
}

impl Member {
    pub(super) fn of<T: Task>(child: &Child<T>, rows: Range<u32>, life: u32) -> Self {
        Self {
            rows,
            status: WorkerStatus::Working,
            life,
            monitor: child.collector.monitor(),
            stepped_before: 0,
            through: false,
            waited: Duration::ZERO,
            held: child.held.clone(),
            ordered: child.ordered.clone(),
            taken: child.collector.budget.as_ref().map(|budget| budget.taken.clone()),
        }
    }
}
