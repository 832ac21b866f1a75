//! Adoption of published weights at the end of a tick.

use std::sync::{Arc, PoisonError};

use bevy_ecs::prelude::*;

use super::{
    actor::{Actor, ActorKind, NetworkActor},
    normalize::RunningNorm,
    packing::{PackedWeights, Ready},
};
use crate::{
    components::{PolicyWeights, TickPlan, TickReport, Weights},
    error::Error,
    task::Task,
};

/// Takes over the newest weights that are packed by now, and stamps the coming tick with their version. The others are
/// packed meanwhile.
pub(crate) fn adopt<T: Task>(
    policy: Single<(&mut Actor<T>, &PolicyWeights<T>)>,
    plan: ResMut<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    take(policy.into_inner(), plan, &report, |network, published| {
        network.packing.poll(published.version, &published.weights)
    });
}

/// Takes over the newest weights between two rollouts: they act in the next one's first frame.
pub(crate) fn adopt_now<T: Task>(
    policy: Single<(&mut Actor<T>, &PolicyWeights<T>)>,
    plan: ResMut<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    take(policy.into_inner(), plan, &report, |network, published| {
        network.packing.now(published.version, &published.weights).map(Some)
    });
}

fn take<T: Task>(
    (mut actor, published): (Mut<'_, Actor<T>>, &PolicyWeights<T>),
    mut plan: ResMut<TickPlan<T>>,
    report: &TickReport<T>,
    ready: impl FnOnce(&mut NetworkActor<T>, &PolicyWeights<T>) -> Result<Option<Ready>, Error>,
) {
    if published.version == plan.version {
        return;
    }
    let ActorKind::Network(network) = &mut actor.kind else {
        plan.version = published.version;
        return;
    };
    let adopted = ready(network, published).and_then(|ready| {
        ready.map(|ready| network.adopt(ready.weights, ready.packed).map(|()| ready.version)).transpose()
    });
    match adopted {
        Ok(version) => plan.version = version.unwrap_or(plan.version),
        Err(error) => report.fail(0, error),
    }
}

impl<T: Task> NetworkActor<T> {
    /// Acts by `weights` from now on, which are `packed`.
    pub(super) fn adopt(&mut self, weights: Arc<Weights>, packed: PackedWeights) -> Result<(), Error> {
        for lane in &mut self.networks {
            lane.get_mut().unwrap_or_else(PoisonError::into_inner).network.adopt(&packed)?;
        }
        self.std.clear();
        let log_std = weights.get("log_std").map_or(&[][..], |tensor| &tensor.data);
        self.std.extend(log_std.iter().map(|log_std| crate::math::exp(*log_std)));
        if let Some(running) = &self.running {
            self.normalizer = Some(RunningNorm::snapshot(running));
        }
        let before = self.evaluator.set(weights, self.normalizer.clone());
        let retired: [PackedWeights; 2] = [before, std::mem::replace(&mut self.packed, packed)];
        self.packing.retire(retired);
        Ok(())
    }
}
