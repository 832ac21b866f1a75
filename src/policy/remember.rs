//! The states of recurrent networks, as rollouts keep them.

use std::sync::PoisonError;

use bevy_ecs::prelude::*;

use super::{
    actor::{Actor, ActorKind},
    plan::{Plan, States},
    states::Identity,
};
use crate::{
    components::{ActionKey, ColumnSpec, End, Episode, EpisodeStep, Remembered, Slot, Source, TickReport, rows_of},
    data::{Dtype, Field},
    task::Task,
};

type Rows = ((&'static Slot, &'static ActionKey, &'static Episode), &'static EpisodeStep, &'static End);

struct StateSource<T: Task> {
    policy: QueryState<&'static Actor<T>>,
    rows: QueryState<Rows>,
    /// Numbers of the widest policy's state; those of others are followed by zeros.
    width: usize,
    /// A tick's column. Scratch.
    floats: Vec<f32>,
}

impl<T: Task> StateSource<T> {
    fn new(world: &mut World, width: usize) -> Self {
        Self { policy: world.query(), rows: rows_of::<T, _>(world), width, floats: Vec::new() }
    }

    /// Hands over each recurrent policy's rows with whether `begins` holds: that their coming frame begins an episode. A
    /// policy whose states cannot be had fails the tick.
    fn with(
        &mut self,
        world: &World,
        begins: impl Fn(EpisodeStep, End) -> bool,
        mut f: impl FnMut(&States, &mut dyn Iterator<Item = (Identity<'_>, bool)>),
    ) {
        for actor in self.policy.iter(world) {
            let ActorKind::Network(network) = &actor.kind else { continue };
            if !network.plan.is_recurrent() {
                continue;
            }
            let pulled = network.networks.first().map_or(Ok(()), |lane| {
                lane.lock().unwrap_or_else(PoisonError::into_inner).network.pull_states(&network.states)
            });
            if let Err(error) = pulled {
                // Older states would be recorded as if they were these.
                world.resource::<TickReport<T>>().fail(actor.duty.rows.start, error);
                continue;
            }
            let own = self.rows.iter(world).filter(|((slot, ..), ..)| actor.duty.rows.contains(&slot.0));
            let mut rows = own.map(|(row, step, end)| (row, begins(*step, *end)));
            f(&network.states, &mut rows);
        }
    }
}

impl<T: Task> Remembered for StateSource<T> {
    fn width(&self) -> usize {
        self.width
    }

    fn before(&mut self, world: &World, out: &mut [f32]) {
        out.fill(0.0);
        let width = self.width;
        // Between rollouts, when steps are those of the coming frames.
        self.with(world, |step, _| step.0 == 0, |states, rows| states.by_slot(rows, width, out));
    }

    fn after(&mut self, world: &World, out: &mut [f32]) {
        out.fill(0.0);
        let width = self.width;
        self.with(world, |_, _| false, |states, rows| states.last_by_slot(rows.map(|(row, _)| row), width, out));
    }
}

impl<T: Task> Source for StateSource<T> {
    fn record(&mut self, world: &World, _in_order: bool, out: &mut [u8]) {
        let (width, mut floats) = (self.width, std::mem::take(&mut self.floats));
        floats.resize(out.len() / 4, 0.0);
        floats.fill(0.0);
        // Within a tick, when steps are still those of the newest frames.
        self.with(world, |_, end| end.done(), |states, rows| states.by_slot(rows, width, &mut floats));
        out.copy_from_slice(bytemuck::cast_slice(&floats));
        self.floats = floats;
    }
}

/// Numbers of the widest state among recurrent networks; 0 if none is recurrent.
fn width<'a>(plans: impl Iterator<Item = &'a Plan>) -> usize {
    plans.filter(|plan| plan.is_recurrent()).map(Plan::state).max().unwrap_or(0)
}

/// What the rows of recurrent networks remember; none for others.
pub(crate) fn remembered<'a, T: Task>(
    world: &mut World,
    plans: impl Iterator<Item = &'a Plan>,
) -> Option<Box<dyn Remembered>> {
    let width = width(plans);
    (width > 0).then(|| Box::new(StateSource::<T>::new(world, width)) as _)
}

/// The column "state": the state that each frame begins with; none if no network is recurrent.
pub(crate) fn state_column<'a, T: Task>(
    world: &mut World,
    plans: impl Iterator<Item = &'a Plan>,
) -> Option<(ColumnSpec, Box<dyn Source>)> {
    let width = width(plans);
    let fields = vec![Field { name: "".into(), dtype: Dtype::F32, shape: vec![width] }];
    let spec = ColumnSpec { name: "state".into(), fields, stride: 4 * width, leads: true };
    (width > 0).then(|| (spec, Box::new(StateSource::<T>::new(world, width)) as _))
}

#[cfg(test)]
#[path = "remember_tests.rs"]
mod tests;
