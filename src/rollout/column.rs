//! The components that columns are copied from.

use bevy_ecs::prelude::*;
use bytemuck::Pod;

use crate::{
    components::{
        Action, ActionMask, End, LogProb, Observation, Reward, Slot, Source, TrajectoryId, Value, Writer, rows_of,
    },
    data::Data,
    task::Task,
};

/// A component of rows that is recorded.
pub(crate) trait Recorded: Component + Sized {
    type Value: Pod;
    fn values(column: &[Self]) -> &[Self::Value];
}

macro_rules! recorded {
    ($($wrapper:ident => $kind:ident),*; $($plain:ty),*) => {
        $(impl<T: Task> Recorded for $wrapper<T> {
            type Value = T::$kind;
            #[inline(always)]
            fn values(column: &[Self]) -> &[T::$kind] {
                $wrapper::values(column)
            }
        })*
        $(impl Recorded for $plain {
            type Value = $plain;
            #[inline(always)]
            fn values(column: &[Self]) -> &[$plain] {
                column
            }
        })*
    };
}
recorded!(
    Observation => Observation, Action => Action, ActionMask => Mask;
    Reward, End, crate::components::EpisodeStep, TrajectoryId, LogProb, Value
);

/// Records component `C` of a task's rows.
pub(crate) struct ComponentSource<C: Recorded>(QueryState<(&'static C, &'static Slot)>);

impl<C: Recorded> ComponentSource<C> {
    pub(crate) fn of<T: Task>(world: &mut World) -> Self {
        Self(rows_of::<T, _>(world))
    }
}

impl<C: Recorded> Source for ComponentSource<C> {
    fn record(&mut self, world: &World, in_order: bool, out: &mut [u8]) {
        copy_column(&mut self.0, world, in_order, out, |column| C::values(column));
    }
}

/// Records a user's component `C`, which is plain old data itself.
pub(crate) struct ExtraSource<C: Component + Data>(QueryState<(&'static C, &'static Slot)>);

impl<C: Component + Data> ExtraSource<C> {
    pub(crate) fn of<T: Task>(world: &mut World) -> Self {
        Self(rows_of::<T, _>(world))
    }
}

impl<C: Component + Data> Source for ExtraSource<C> {
    fn record(&mut self, world: &World, in_order: bool, out: &mut [u8]) {
        copy_column(&mut self.0, world, in_order, out, |column| column);
    }
}

fn copy_column<C: Component, V: Pod>(
    query: &mut QueryState<(&'static C, &'static Slot)>,
    world: &World,
    in_order: bool,
    out: &mut [u8],
    values: impl Fn(&[C]) -> &[V],
) {
    let stride = size_of::<V>();
    if in_order && let Ok(chunks) = query.contiguous_iter(world) {
        let mut copied = 0;
        for (column, slots) in chunks {
            let (Some(first), bytes) = (slots.first(), bytemuck::cast_slice(values(column))) else { continue };
            let at = first.0 as usize * stride;
            // A newcomer has no place yet.
            let Some(place) = out.get_mut(at..at + bytes.len()) else { break };
            Writer::default().copy(bytes, place);
            copied += bytes.len();
        }
        if copied == out.len() {
            return;
        }
    }
    // Rows in any order, of which some lack the component, or which keep it in a sparse set.
    out.fill(0);
    for (component, slot) in query.iter(world) {
        let at = (slot.0 as usize).saturating_mul(stride);
        if let Some(place) = at.checked_add(stride).and_then(|end| out.get_mut(at..end)) {
            place.copy_from_slice(bytemuck::cast_slice(values(std::slice::from_ref(component))));
        }
    }
}
