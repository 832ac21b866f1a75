//! What only some collectors need: a task is compiled for it if an option asks for it, and not else.

use crate::{
    batched,
    build::Spread,
    components::AllRows,
    config::CollectorConfig,
    env::Stepper,
    episode_versions,
    error::Error,
    fleet,
    plugin::{self, InstallActing},
    schedule::Overlap,
    task::Task,
};

/// How rows act and step.
pub(super) struct Way<T: Task, S> {
    pub stepper: fn(S) -> Result<Box<dyn Stepper<T>>, Error>,
    pub act: InstallActing,
}

/// The functions that options ask for.
pub(super) struct Asked<T: Task, S> {
    pub lanes: Option<Way<T, S>>,
    pub pool: Option<Way<T, S>>,
    pub episodes: Option<Way<T, S>>,
    pub workers: Option<Spread<T>>,
}

impl<T: Task, S: Stepper<T> + 'static> Way<T, S> {
    /// All rows at once.
    fn plain() -> Self {
        Self { stepper: |rows| Ok(Box::new(rows)), act: plugin::act_for::<T, AllRows> }
    }

    /// Half of the rows step while the policy acts for the others.
    pub(super) fn lanes() -> Self {
        Self { stepper: |rows| Ok(Box::new(rows.with_lanes())), act: plugin::act_for_lanes::<T> }
    }

    /// All rows at once, each by the weights of its episode.
    pub(super) fn episodes() -> Self {
        Self { act: episode_versions::act_by_episode::<T>, ..Self::plain() }
    }

    /// Each at its own pace, on threads.
    pub(super) fn pool() -> Self {
        Self { stepper: S::pooled, act: batched::act_for_ready::<T> }
    }
}

impl<T: Task, S> Default for Asked<T, S> {
    fn default() -> Self {
        Self { lanes: None, pool: None, episodes: None, workers: None }
    }
}

impl<T: Task, S: Stepper<T> + 'static> Asked<T, S> {
    /// For options that are not known yet.
    pub(super) fn all() -> Self {
        Self {
            lanes: Some(Way::lanes()),
            pool: Some(Way::pool()),
            episodes: Some(Way::episodes()),
            workers: Some(fleet::build),
        }
    }

    /// What `config` takes of them: how rows act and step, and what spreads them over workers.
    pub(super) fn taken(self, config: &CollectorConfig) -> (Way<T, S>, Option<Spread<T>>) {
        let lanes = self.lanes.filter(|_| config.overlap == Overlap::Two);
        let pool = self.pool.filter(|_| config.async_batched.is_some());
        let episodes = self.episodes.filter(|_| config.one_version_per_trajectory);
        (pool.or(lanes).or(episodes).unwrap_or_else(Way::plain), self.workers.filter(|_| config.workers > 0))
    }
}
