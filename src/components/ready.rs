//! Rows that step outside the world, and are ready at times of their own.

use bevy_ecs::prelude::Component;

use super::lane::Lane;

/// A row that acts in this tick. Such rows are a table of their own.
#[derive(Component, Clone, Copy, Debug)]
pub(crate) struct ReadyRow;

/// How the action of a pending row came about.
#[derive(Component, Clone, Copy, Debug, Default)]
pub(crate) struct Acted {
    /// Version that chose it.
    pub version: u64,
    /// Version of the row's newest frame.
    pub before: u64,
    /// Whether it was drawn at random.
    pub random: bool,
}

/// The rows that act in this tick, where others are pending.
pub(crate) struct ReadyRows;

impl Lane for ReadyRows {
    type Rows = bevy_ecs::prelude::With<ReadyRow>;
    const FIRST: bool = true;
    const LAST: bool = true;
}
