//! Actions that a host's own system wrote.

use bevy_ecs::prelude::*;

use super::actor::Actor;
use crate::{
    components::{Action, ActionMask, Masks, RowIndex, TickReport},
    task::Task,
};

/// Checks what the host's systems in the Infer set wrote.
pub(crate) fn check_host_actions<T: Task>(
    mut actor: Single<&mut Actor<T>>,
    rows: Query<(&Action<T>, &ActionMask<T>, &RowIndex)>,
    report: Res<TickReport<T>>,
) {
    actor.ticks += 1;
    let Ok(chunks) = rows.contiguous_iter() else { return };
    for (actions, masks, rows) in chunks {
        actor.check(Masks::new(ActionMask::values(masks)), Action::values(actions), rows, &report);
    }
}
