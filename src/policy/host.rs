//! Actions that a host's own system wrote.

use bevy_ecs::prelude::*;

use super::actor::Actor;
use crate::{
    components::{Action, ActionMask, Masks, RowIndex, Slot, TickPlan, TickReport},
    task::Task,
};

/// Checks what the host's systems wrote for the rows that act: another one may have no action yet.
pub(crate) fn check_host_actions<T: Task>(
    mut actor: Single<&mut Actor<T>>,
    rows: Query<(&Action<T>, &ActionMask<T>, &RowIndex, &Slot)>,
    plan: Res<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    actor.ticks += 1;
    let Ok(chunks) = rows.contiguous_iter() else { return };
    for (actions, masks, rows, slots) in chunks {
        let (actions, masks) = (Action::values(actions), ActionMask::values(masks));
        let mut first = 0;
        for run in slots.chunk_by(|a, b| (a.0 < plan.active) == (b.0 < plan.active)) {
            let next = first + run.len();
            if run[0].0 < plan.active {
                actor.check(Masks::new(&masks[first..next]), &actions[first..next], &rows[first..next], &report);
            }
            first = next;
        }
    }
}
