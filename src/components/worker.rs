use bevy_ecs::prelude::Component;

/// A worker and its rows: the component of an entity in the collector's world, and of the only such entity in the world
/// that the worker steps.
#[derive(Component, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Number, from 0.
    pub index: u32,
    /// Its first row.
    pub first_row: u32,
    /// Its rows.
    pub rows: u32,
}

/// What a collector knows of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerStatus {
    /// It collects, or waits for an order.
    #[default]
    Working,
    /// It ended as it was told.
    Ended,
    /// It failed; the others go on without it.
    Dead,
    /// It missed its deadline: its thread is left to itself, and what it may yet send is not taken.
    Abandoned,
}
