//! Components of a policy entity that organs share.

use std::{marker::PhantomData, sync::Arc};

use bevy_ecs::prelude::Component;

use super::Weights;
use crate::task::Task;

/// The newest published weights of task `T`'s policy. The SyncWeights stage replaces them; the policy has them packed
/// for its backend off the tick, and acts by them from the first end of a tick on at which they are.
#[derive(Component, Clone, Debug)]
pub struct PolicyWeights<T: Task> {
    /// Version; 0 for the initial weights.
    pub version: u64,
    /// The set.
    pub weights: Arc<Weights>,
    task: PhantomData<fn() -> T>,
}

impl<T: Task> PolicyWeights<T> {
    /// Version `version` of the weights.
    pub fn new(version: u64, weights: Arc<Weights>) -> Self {
        Self { version, weights, task: PhantomData }
    }
}
