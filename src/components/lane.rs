//! Lanes: two halves of a task's rows, of which one steps while the policy acts for the other.

use bevy_ecs::{
    prelude::*,
    query::{ArchetypeFilter, QueryFilter},
};

/// A row of the second lane: of the second half of the rows under
/// [`Overlap::Two`](crate::schedule::Overlap::Two). Given when the row is made; rows without it are the first lane.
#[derive(Component, Clone, Copy, Debug)]
pub struct SecondLane;

/// The rows that a system of the stages Infer or Step takes.
pub(crate) trait Lane: Send + Sync + 'static {
    type Rows: QueryFilter + ArchetypeFilter + 'static;
    /// Whether it is the first to act in a tick.
    const FIRST: bool;
    /// Whether it is the last.
    const LAST: bool;
}

/// All rows, without lanes.
pub(crate) struct AllRows;

/// Slots below the middle.
pub(crate) struct LowerRows;

/// Slots from the middle on.
pub(crate) struct UpperRows;

impl Lane for AllRows {
    type Rows = ();
    const FIRST: bool = true;
    const LAST: bool = true;
}

impl Lane for LowerRows {
    type Rows = Without<SecondLane>;
    const FIRST: bool = true;
    const LAST: bool = false;
}

impl Lane for UpperRows {
    type Rows = With<SecondLane>;
    const FIRST: bool = false;
    const LAST: bool = true;
}
