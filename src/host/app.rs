//! The plugin for a `bevy_app::App`.

use std::sync::{Mutex, PoisonError};

use bevy_app::{App, Plugin};
use bevy_ecs::{
    prelude::*,
    schedule::{InternedScheduleLabel, ScheduleLabel},
};

use super::install::HostBuilder;
use crate::{error::Error, schedule::Collect, task::Task};

/// Collects from the entities of an app: [`Collect`] runs once each time that the schedule `label` runs.
///
/// With several tasks in one app the first plugin's label holds for all.
pub struct CollectorPlugin<T: Task> {
    label: InternedScheduleLabel,
    builder: Mutex<Option<HostBuilder<T>>>,
}

/// Which schedule runs [`Collect`] in this app.
#[derive(Resource)]
struct RunsCollect;

impl<T: Task> CollectorPlugin<T> {
    /// Rows of task `T`, collected in the schedule `label` (such as `FixedUpdate`).
    pub fn new(label: impl ScheduleLabel, builder: HostBuilder<T>) -> Self {
        Self { label: label.intern(), builder: Mutex::new(Some(builder)) }
    }

    /// Adds the plugin's parts to `app`. Errors, with which [`Plugin::build`] would panic: those of
    /// [`HostBuilder::install`]; [`Error::State`] if the plugin was added before.
    pub fn try_build(&self, app: &mut App) -> Result<(), Error> {
        let builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(builder) = builder else {
            return Err(Error::State { call: "add_plugins", problem: "the plugin was added before".into() });
        };
        let installed = builder.install(app.world_mut())?;
        app.insert_resource(installed);
        if !app.world().contains_resource::<RunsCollect>() {
            app.insert_resource(RunsCollect);
            app.add_systems(self.label, run_collect);
        }
        Ok(())
    }
}

impl<T: Task> Plugin for CollectorPlugin<T> {
    fn build(&self, app: &mut App) {
        if let Err(error) = self.try_build(app) {
            panic!("CollectorPlugin: {error}");
        }
    }
}

/// One tick.
fn run_collect(world: &mut World) {
    world.run_schedule(Collect);
}
