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

/// Takes over the policies' newest weights once all of them are packed, together, and stamps the coming tick with their
/// versions; then has what was published meanwhile packed.
pub(crate) fn adopt<T: Task>(
    mut policies: Query<(&mut Actor<T>, &PolicyWeights<T>)>,
    mut plan: ResMut<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    // What is asked for meanwhile would be of another epoch.
    if !take_packed(&mut policies, &mut plan, &report) {
        return;
    }
    let mut asked = false;
    for (mut actor, published) in &mut policies {
        let is_new = published.version != plan.versions.get(actor.duty.policy);
        if is_new && let ActorKind::Network(network) = &mut actor.kind {
            network.packing.ask(published.version, &published.weights);
            asked = true;
        }
    }
    // Small ones are packed by now.
    if asked {
        take_packed(&mut policies, &mut plan, &report);
    }
}

/// Takes what is packed, of all policies or of none; whether nothing is waited for.
fn take_packed<T: Task>(
    policies: &mut Query<(&mut Actor<T>, &PolicyWeights<T>)>,
    plan: &mut TickPlan<T>,
    report: &TickReport<T>,
) -> bool {
    if policies.iter().any(|(actor, _)| matches!(&actor.kind, ActorKind::Network(own) if own.packing.is_busy())) {
        return false;
    }
    for policy in policies {
        take(policy, plan, report, |network, _| network.packing.take());
    }
    true
}

/// Takes over each policy's newest weights between two rollouts: they act in the next one's first frame.
pub(crate) fn adopt_now<T: Task>(
    mut policies: Query<(&mut Actor<T>, &PolicyWeights<T>)>,
    mut plan: ResMut<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    for policy in &mut policies {
        take(policy, &mut plan, &report, |network, published| {
            network.packing.now(published.version, &published.weights).map(Some)
        });
    }
}

fn take<T: Task>(
    (mut actor, published): (Mut<'_, Actor<T>>, &PolicyWeights<T>),
    plan: &mut TickPlan<T>,
    report: &TickReport<T>,
    ready: impl FnOnce(&mut NetworkActor<T>, &PolicyWeights<T>) -> Result<Option<Ready>, Error>,
) {
    let (policy, row) = (actor.duty.policy, actor.duty.rows.start);
    if published.version == plan.versions.get(policy) {
        return;
    }
    let ActorKind::Network(network) = &mut actor.kind else {
        return plan.versions.set(policy, published.version);
    };
    let adopted = ready(network, published).and_then(|ready| {
        let Some(ready) = ready else { return Ok(None) };
        network.keep_for_episodes(plan.versions.get(policy));
        network.adopt(ready.weights, ready.packed).map(|()| Some(ready.version))
    });
    match adopted {
        Ok(Some(version)) => plan.versions.set(policy, version),
        Ok(None) => {}
        Err(error) => report.fail(row, error),
    }
}

impl<T: Task> NetworkActor<T> {
    /// Acts by `weights` from now on, which are `packed`.
    pub(super) fn adopt(&mut self, weights: Arc<Weights>, packed: PackedWeights) -> Result<(), Error> {
        for lane in &mut self.networks {
            lane.get_mut().unwrap_or_else(PoisonError::into_inner).network.adopt(&packed)?;
        }
        self.std.clear();
        let log_std = self.plan.head.free_of(&weights);
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
