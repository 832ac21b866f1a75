//! Running statistics of what the policy sees.

use bevy_ecs::prelude::*;

use super::actor::{Actor, ActorKind};
use crate::{
    components::{Lane, Observation, Slot, TickPlan},
    data::Data,
    task::Task,
};

/// Adds the observations of each policy's active rows to its statistics, in row order whatever the order of the table.
pub(crate) fn observe<T: Task, L: Lane>(
    mut actors: Query<&mut Actor<T>>,
    rows: Query<(&Observation<T>, &Slot), L::Rows>,
    plan: Res<TickPlan<T>>,
    mut order: Local<Vec<(u32, T::Observation)>>,
    mut input: Local<Vec<f32>>,
) {
    for mut actor in &mut actors {
        let own = actor.rows();
        let ActorKind::Network(network) = &mut actor.kind else { continue };
        let Some(running) = network.running.as_mut().filter(|running| !running.frozen) else { continue };
        let active = rows.iter().filter(|(_, slot)| slot.0 < plan.active && own.contains(&slot.0));
        order.clear();
        order.extend(active.map(|(seen, slot)| (slot.0, seen.0)));
        order.sort_unstable_by_key(|(slot, _)| *slot);
        input.resize(network.plan.inputs, 0.0);
        for (_, observation) in order.drain(..) {
            observation.encode(&mut input);
            running.update(&input, |_| true);
        }
    }
}
