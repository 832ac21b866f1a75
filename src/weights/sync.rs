//! The SyncWeights stage: the newest published weights, at the end of a tick and nowhere else.

use std::marker::PhantomData;

use bevy_ecs::prelude::*;

use super::WeightsHandle;
use crate::{
    components::{PolicyWeights, TickPlan, TickReport},
    task::Task,
};

/// Where the weights of the policies of task `T` come from.
#[derive(Resource)]
pub(crate) struct WeightsSources<T: Task> {
    sources: Vec<Source>,
    task: PhantomData<fn() -> T>,
}

/// Where the weights of one policy come from.
pub(crate) struct Source {
    /// Number of the policy.
    pub policy: usize,
    pub entity: Entity,
    pub handle: WeightsHandle,
    /// Number of this world among those that act by the same weights, and how often it was built before.
    adopter: (usize, u32),
    /// The version that publishers were told of.
    confirmed: u64,
}

impl Source {
    pub(crate) fn new(policy: usize, entity: Entity, handle: WeightsHandle, adopter: (usize, u32)) -> Self {
        Self { policy, entity, handle, adopter, confirmed: 0 }
    }
}

impl<T: Task> WeightsSources<T> {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        Self { sources, task: PhantomData }
    }

    /// Whether weights are published that do not act yet.
    pub(crate) fn newer_than(&self, plan: &TickPlan<T>) -> bool {
        self.sources.iter().any(|source| source.handle.version() > plan.versions.get(source.policy))
    }
}

/// Hands the newest weights to the policies, those of all at one moment: epochs are whole.
pub(crate) fn sync_weights<T: Task>(
    sources: Option<Res<WeightsSources<T>>>,
    mut policies: Query<&mut PolicyWeights<T>>,
) {
    let sources = sources.as_ref().map_or(&[][..], |sources| &sources.sources);
    let is_newer = |source: &Source| {
        let newest = source.handle.version();
        policies.get(source.entity).is_ok_and(|policy| policy.version < newest)
    };
    if !sources.iter().any(is_newer) {
        return;
    }
    let held: Vec<_> = sources.iter().map(|source| source.handle.hold()).collect();
    for (source, held) in sources.iter().zip(&held) {
        let (version, weights) = held.get();
        if let Ok(mut policy) = policies.get_mut(source.entity)
            && policy.version < version
        {
            *policy = PolicyWeights::new(version, weights);
        }
    }
}

/// Tells publishers what acts from now on; runs after the policies took the weights.
pub(crate) fn confirm_adoption<T: Task>(
    sources: Option<ResMut<WeightsSources<T>>>,
    plan: Res<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    let Some(mut sources) = sources.filter(|_| !report.failed()) else { return };
    for source in &mut sources.sources {
        let version = plan.versions.get(source.policy);
        if version > source.confirmed {
            source.handle.adopted_by(source.adopter, version);
            source.confirmed = version;
        }
    }
}
