//! What collection a file is of.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    collector::Collector, components::ColumnSpec, config::CollectorConfig, error::Error, policy::Actor, task::Task,
};

/// How much of a file must fit.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fit {
    /// All of it.
    Whole,
    /// Parts that are in the file and in the collector.
    Parts,
}

/// Options that change no data, or that a resumed run may change, as the budget; rows and the seed are looked at apart.
const FREE: [&str; 10] = [
    "total_frames",
    "threads",
    "executor",
    "overlap",
    "max_arenas",
    "step_rows_per_thread",
    "infer_rows_per_thread",
    "episode_events",
    "rows",
    "seed",
];

/// What stands first in a file.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    /// The task's type.
    pub task: String,
    pub columns: Vec<ColumnSpec>,
    pub rows: u64,
    /// Rows of one simulation.
    pub agents: u64,
    pub worker: u16,
    /// Whether whole trajectories are joined.
    pub joins: bool,
    pub seed: u64,
    /// Slots of each policy, and numbers that a row of it remembers.
    pub policies: Vec<(Range<u32>, u64)>,
    /// What the policies ran on.
    pub backend: String,
    /// The options that decide the data, as JSON.
    pub options: String,
}

impl Head {
    pub(super) fn of<T: Task>(collector: &Collector<T>) -> Self {
        let actors = super::actors::<T>(&collector.drive.world);
        let policy = |actor: &&Actor<T>| (actor.rows(), actor.state_width() as u64);
        Self {
            task: std::any::type_name::<T>().into(),
            columns: collector.drive.specs.to_vec(),
            rows: collector.config.rows as u64,
            agents: collector.agents as u64,
            worker: collector.config.worker.unwrap_or(0),
            joins: collector.joins() && !collector.joined_in_front,
            seed: collector.config.seed,
            policies: actors.iter().map(policy).collect(),
            backend: collector.stats().backend.unwrap_or_else(|| "none".into()),
            options: serde_json::to_string(&options(&collector.config)).unwrap_or_default(),
        }
    }

    /// Whether rows of this file can be rows of a collector that `own` describes. Errors: what is another, and what is
    /// legal.
    pub(super) fn check_rows(&self, own: &Self) -> Result<(), Error> {
        let other = |field, own: String, saved: String| {
            Err(Error::Config { field, value: own, legal: format!("that of the checkpoint, {saved}") })
        };
        if self.rows != own.rows {
            return other("rows", own.rows.to_string(), self.rows.to_string());
        }
        if self.agents != own.agents {
            return other("agents", own.agents.to_string(), self.agents.to_string());
        }
        if self.worker != own.worker {
            return other("worker", own.worker.to_string(), self.worker.to_string());
        }
        if self.joins != own.joins {
            let mode = |joins| if joins { "whole trajectories" } else { "rollouts" };
            return other("trajs_per_batch", mode(own.joins).into(), mode(self.joins).into());
        }
        if self.acts_by_episode() != own.acts_by_episode() {
            let by_episode = |head: &Self| head.acts_by_episode().to_string();
            return other("one_version_per_trajectory", by_episode(own), by_episode(self));
        }
        if self.policies != own.policies {
            let policies = |head: &Self| format!("rows and numbers remembered {:?}", head.policies);
            return other("policies", policies(own), policies(self));
        }
        if self.columns != own.columns {
            let pairs = self.columns.iter().zip(&own.columns);
            let (saved, own) = match pairs.into_iter().find(|(saved, own)| saved != own) {
                Some((saved, own)) => (format!("{saved:?}"), format!("{own:?}")),
                None => (format!("{} of them", self.columns.len()), format!("{} of them", own.columns.len())),
            };
            return other("columns", own, saved);
        }
        Ok(())
    }

    /// Whether rows act by one set of weights for an episode.
    fn acts_by_episode(&self) -> bool {
        let options = serde_json::from_str::<Map<String, Value>>(&self.options).unwrap_or_default();
        options.get("one_version_per_trajectory") == Some(&Value::Bool(true))
    }

    /// Whether the options that decide the data are the same. Errors: the first one that is another.
    pub(super) fn check_options(&self, own: &Self) -> Result<(), Error> {
        let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text);
        let (Ok(saved), Ok(own)) = (read(&self.options), read(&own.options)) else {
            return Err(Error::Checkpoint("its options are no JSON object".into()));
        };
        // An option that one of them does not know yet has its default there.
        let defaults = options(&CollectorConfig { rows: self.rows.max(1) as usize, ..CollectorConfig::default() });
        for name in saved.keys().chain(own.keys()) {
            let value = |of: &Map<String, Value>| of.get(name).or(defaults.get(name)).cloned().unwrap_or(Value::Null);
            let (saved, own) = (value(&saved), value(&own));
            if saved != own {
                let problem = format!("option {name} is {own}; legal: that of the checkpoint, {saved}");
                return Err(Error::Checkpoint(problem));
            }
        }
        Ok(())
    }
}

fn options(config: &CollectorConfig) -> Map<String, Value> {
    let frames_per_batch = Some(config.effective_frames_per_batch());
    let mut options = match serde_json::to_value(CollectorConfig { frames_per_batch, ..config.clone() }) {
        Ok(Value::Object(options)) => options,
        _ => Map::new(),
    };
    options.retain(|name, _| !FREE.contains(&name.as_str()));
    options
}
