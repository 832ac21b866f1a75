//! The SyncWeights stage: the newest published weights, at the end of a tick and nowhere else.

use std::marker::PhantomData;

use bevy_ecs::prelude::*;

use super::WeightsHandle;
use crate::{
    components::{PolicyWeights, TickPlan, TickReport},
    task::Task,
};

/// Where the weights of task `T`'s policy come from.
#[derive(Resource)]
pub(crate) struct WeightsSource<T: Task> {
    pub handle: WeightsHandle,
    pub task: PhantomData<fn() -> T>,
}

/// Hands the newest weights to the policy.
pub(crate) fn sync_weights<T: Task>(source: Option<Res<WeightsSource<T>>>, policy: Single<&mut PolicyWeights<T>>) {
    let Some(source) = source else { return };
    let mut policy = policy.into_inner();
    if let Some((version, weights)) = source.handle.newer_than(policy.version) {
        *policy = PolicyWeights::new(version, weights);
    }
}

/// Tells publishers what acts from now on; runs after the policy took the weights.
pub(crate) fn confirm_adoption<T: Task>(
    source: Option<Res<WeightsSource<T>>>,
    plan: Res<TickPlan<T>>,
    report: Res<TickReport<T>>,
    mut confirmed: Local<u64>,
) {
    if let Some(source) = source
        && plan.version > *confirmed
        && !report.failed()
    {
        source.handle.adopted(plan.version);
        *confirmed = plan.version;
    }
}
