//! The Report stage: the tick into the ledger.

use bevy_ecs::prelude::*;

use crate::{
    components::{RolloutSlot, TickPlan, TickReport},
    task::Task,
};

/// Adds what the tick did to the ledger.
pub(crate) fn report<T: Task>(
    mut report: ResMut<TickReport<T>>,
    mut holder: ResMut<RolloutSlot<T>>,
    plan: Res<TickPlan<T>>,
) {
    let Some(rollout) = holder.get_mut() else { return };
    let (stepped, quarantined) = (report.take_stepped(), report.take_quarantined());
    let lost = if report.failed() { stepped } else { quarantined };
    let mut ledger = rollout.monitor.ledger();
    ledger.versions.clear();
    ledger.versions.extend(plan.versions.iter());
    ledger.counters.stepped_frames += stepped;
    ledger.counters.discarded.fault += lost;
    ledger.counters.trajectory_serial = rollout.serial;
    ledger.in_flight += stepped - lost;
    ledger.pending += stepped - lost;
    ledger.episodes_ended(rollout.ended_from(rollout.noted));
    rollout.noted = rollout.ended.len();
}
