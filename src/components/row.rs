//! Columns of a row. Rows of one task share an archetype, so each of these is one contiguous slice.

use bevy_ecs::{
    component::ComponentId,
    prelude::*,
    query::{QueryBuilder, QueryData},
};
use bytemuck::{Pod, Zeroable, cast_slice};
use serde::{Deserialize, Serialize};

use crate::{data::Data, task::Task};

/// The row's stable number, global over all workers; never used twice.
#[derive(
    Component, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct RowIndex(pub u32);

/// The row's place in the rollout: its column in a time-major block. Changes only between rollouts.
#[derive(Component, Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Slot(pub u32);

/// A query of the rows of task `T`. The task is no part of its type, so that it is compiled once for all of them.
pub(crate) fn rows_of<T: Task, D: QueryData>(world: &mut World) -> QueryState<D> {
    let observation = world.register_component::<Observation<T>>();
    rows_with(world, observation)
}

fn rows_with<D: QueryData>(world: &mut World, component: ComponentId) -> QueryState<D> {
    QueryBuilder::new(world).with_id(component).build()
}

macro_rules! task_column {
    ($(#[$attribute:meta])* $name:ident, $kind:ident) => {
        $(#[$attribute])*
        #[derive(Component)]
        #[repr(transparent)]
        pub struct $name<T: Task>(pub T::$kind);

        impl<T: Task> $name<T> {
            /// The values of a run of rows.
            #[inline(always)]
            pub fn values(column: &[Self]) -> &[T::$kind] {
                // A transparent wrapper of plain old data; bytemuck checks size and alignment.
                bytemuck::TransparentWrapper::peel_slice(column)
            }

            /// The values of a run of rows, to be written.
            #[inline(always)]
            pub fn values_mut(column: &mut [Self]) -> &mut [T::$kind] {
                bytemuck::TransparentWrapper::peel_slice_mut(column)
            }
        }

        #[expect(unsafe_code, reason = "bytemuck's derive does not take a projection as the wrapped type")]
        // SAFETY: `repr(transparent)` over exactly one field of the wrapped type. Test: `wrappers_are_transparent`.
        unsafe impl<T: Task> bytemuck::TransparentWrapper<T::$kind> for $name<T> {}

        impl<T: Task> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T: Task> Copy for $name<T> {}
        impl<T: Task> Default for $name<T> {
            fn default() -> Self {
                Self(Zeroable::zeroed())
            }
        }
        impl<T: Task> std::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0).finish()
            }
        }
    };
}

task_column!(
    /// What the policy sees next: the newest observation, after a reset the new episode's first.
    Observation, Observation
);
task_column!(
    /// What the policy chose, as sampled; the environment gets it clipped to its space.
    Action, Action
);
task_column!(
    /// Which actions are legal for [`Observation`]; no bytes for a task without masks.
    ActionMask, Mask
);
task_column!(
    /// The real last observation of the episode that ended last. Written only at ends.
    LastObservation, Observation
);

/// Reward of the newest frame, as the environment gave it.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Reward(pub f32);

/// Frames of the running episode before the coming one: 0 right after a reset.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct EpisodeStep(pub u32);

/// Sum of the raw rewards of the running episode.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct EpisodeReturn(pub f32);

/// Number of the row's episode, from 0; a key of its random streams.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Episode(pub u32);

/// Log-probability (density) of the very action taken; 0 in a random warm-up.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct LogProb(pub f32);

/// Value of the observation that the action was taken for; 0 in a random warm-up.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Value(pub f32);

/// Legal-action masks of a run of rows.
#[derive(Clone, Copy, Debug)]
pub struct Masks<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Masks<'a> {
    /// Masks over a run of rows.
    pub fn new<M: Data>(masks: &'a [M]) -> Self {
        Self { bytes: if size_of::<M>() == 0 { &[] } else { cast_slice(masks) }, width: size_of::<M>() }
    }

    /// Masks of `width` bytes a row; 0 for none.
    pub(crate) fn of_bytes(bytes: &'a [u8], width: usize) -> Self {
        Self { bytes, width }
    }

    /// The mask of the `i`-th row of the run, a byte an action, 0 for illegal; empty if the task has no masks.
    #[inline(always)]
    pub fn row(&self, i: usize) -> &'a [u8] {
        &self.bytes[i * self.width..(i + 1) * self.width]
    }

    /// Bytes a row; 0 if the task has no masks.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether action number `action` of the `i`-th row is legal.
    #[inline(always)]
    pub fn legal(&self, i: usize, action: usize) -> bool {
        self.row(i).get(action).is_none_or(|entry| *entry != 0)
    }
}
