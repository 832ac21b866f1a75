//! The states of a recurrent network, as rollouts keep them.

use std::sync::PoisonError;

use bevy_ecs::prelude::*;

use super::{
    actor::{Actor, ActorKind},
    plan::{Plan, States},
    states::Identity,
};
use crate::{
    components::{ActionKey, ColumnSpec, End, Episode, EpisodeStep, Observation, Remembered, Slot, Source},
    data::{Dtype, Field},
    task::Task,
};

type Rows = ((&'static Slot, &'static ActionKey, &'static Episode), &'static EpisodeStep, &'static End);

struct StateSource<T: Task> {
    policy: QueryState<&'static Actor<T>>,
    rows: QueryState<Rows, With<Observation<T>>>,
    width: usize,
    /// A tick's column. Scratch.
    floats: Vec<f32>,
}

impl<T: Task> StateSource<T> {
    fn new(world: &mut World, plan: &Plan) -> Self {
        Self { policy: world.query(), rows: world.query_filtered(), width: plan.state(), floats: Vec::new() }
    }

    /// Hands over the rows with whether `begins` holds: that their coming frame begins an episode.
    fn with(
        &mut self,
        world: &World,
        begins: impl Fn(EpisodeStep, End) -> bool,
        f: impl FnOnce(&States, &mut dyn Iterator<Item = (Identity<'_>, bool)>),
    ) {
        let Ok(actor) = self.policy.single(world) else { return };
        let ActorKind::Network(network) = &actor.kind else { return };
        if let Some(lane) = network.networks.first() {
            // A device that is lost fails the next forward.
            let _ = lane.lock().unwrap_or_else(PoisonError::into_inner).network.pull_states(&network.states);
        }
        let mut rows = self.rows.iter(world).map(|(row, step, end)| (row, begins(*step, *end)));
        f(&network.states, &mut rows);
    }
}

impl<T: Task> Remembered for StateSource<T> {
    fn width(&self) -> usize {
        self.width
    }

    fn before(&mut self, world: &World, out: &mut [f32]) {
        out.fill(0.0);
        // Between rollouts, when steps are those of the coming frames.
        self.with(world, |step, _| step.0 == 0, |states, rows| states.by_slot(rows, out));
    }

    fn after(&mut self, world: &World, out: &mut [f32]) {
        out.fill(0.0);
        self.with(world, |_, _| false, |states, rows| states.last_by_slot(rows.map(|(row, _)| row), out));
    }
}

impl<T: Task> Source for StateSource<T> {
    fn record(&mut self, world: &World, _in_order: bool, out: &mut [u8]) {
        let mut floats = std::mem::take(&mut self.floats);
        floats.resize(out.len() / 4, 0.0);
        floats.fill(0.0);
        // Within a tick, when steps are still those of the newest frames.
        self.with(world, |_, end| end.done(), |states, rows| states.by_slot(rows, &mut floats));
        out.copy_from_slice(bytemuck::cast_slice(&floats));
        self.floats = floats;
    }
}

/// What the rows of a recurrent network remember; none for another.
pub(crate) fn remembered<T: Task>(world: &mut World, plan: &Plan) -> Option<Box<dyn Remembered>> {
    plan.is_recurrent().then(|| Box::new(StateSource::<T>::new(world, plan)) as _)
}

/// The column "state": the state that each frame begins with.
pub(crate) fn state_column<T: Task>(world: &mut World, plan: &Plan) -> (ColumnSpec, Box<dyn Source>) {
    let fields = vec![Field { name: "".into(), dtype: Dtype::F32, shape: vec![plan.state()] }];
    let spec = ColumnSpec { name: "state".into(), fields, stride: 4 * plan.state(), leads: true };
    (spec, Box::new(StateSource::<T>::new(world, plan)))
}
