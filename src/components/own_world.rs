//! A world that gleaner owns, and how environments leave it.

use std::ops::{Deref, DerefMut};

use bevy_ecs::prelude::*;

use crate::error::Error;

/// Drops the environments of a world, each on its own. Errors: the first panic of one.
///
/// A table that drops its rows leaks those behind a panic, and a panic in a second table ends the process.
#[derive(Resource)]
pub(crate) struct DropEnvs(pub fn(&mut World) -> Result<(), Error>);

/// A world whose environments may panic when they are dropped.
#[derive(Default)]
pub(crate) struct OwnWorld(World);

impl OwnWorld {
    /// Drops the environments. Errors: the first panic of one.
    pub(crate) fn drop_envs(&mut self) -> Result<(), Error> {
        self.0.remove_resource::<DropEnvs>().map_or(Ok(()), |DropEnvs(drop)| drop(&mut self.0))
    }
}

impl Drop for OwnWorld {
    fn drop(&mut self) {
        if let Err(error) = self.drop_envs() {
            tracing::warn!("{error}");
        }
    }
}

impl Deref for OwnWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl DerefMut for OwnWorld {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.0
    }
}
