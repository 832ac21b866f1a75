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
    mut seen: Local<Vec<T::Observation>>,
    mut order: Local<Vec<(u32, usize)>>,
    mut input: Local<Vec<f32>>,
) {
    for mut actor in &mut actors {
        let own = actor.rows();
        let ActorKind::Network(network) = &mut actor.kind else { continue };
        let Some(running) = network.running.as_mut().filter(|running| !running.frozen) else { continue };
        let active = rows.iter().filter(|(_, slot)| slot.0 < plan.active && own.contains(&slot.0));
        seen.clear();
        order.clear();
        for (observation, slot) in active {
            order.push((slot.0, seen.len()));
            seen.push(observation.0);
        }
        order.sort_unstable();
        input.resize(network.plan.inputs, 0.0);
        for (_, i) in order.drain(..) {
            seen[i].encode(&mut input);
            running.update(&input, |_| true);
        }
    }
}
