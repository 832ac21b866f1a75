//! What is legal, and what goes together.

use super::{CollectorConfig, MAX_ROWS, MAX_WORKERS};
use crate::{
    error::Error,
    replay_writer::mode_conflicts,
    schedule::{Executor, Overlap},
    weights::WeightSync,
};

impl CollectorConfig {
    /// Every violation at once. `replay` says that there is a buffer to write to.
    pub(crate) fn check(&self, replay: bool) -> Result<(), Error> {
        let mut errors = Vec::new();
        let mut require = |holds: bool, field: &'static str, value: String, legal: &str| {
            if !holds {
                errors.push(Error::config(field, value, legal));
            }
        };
        let positive = |value: Option<usize>| value != Some(0);
        let show = |value: Option<usize>| value.unwrap_or(0).to_string();
        require((1..=MAX_ROWS).contains(&self.rows), "rows", self.rows.to_string(), "1 to 16777216");
        require(positive(self.frames_per_batch), "frames_per_batch", show(self.frames_per_batch), "1 or more");
        require(self.horizon() < 1 << 31, "frames_per_batch", show(self.frames_per_batch), "fewer than 2^31 ticks");
        require(self.total_frames != Some(0), "total_frames", "0".into(), "1 or more, or none for endless");
        require(self.weight_sync_interval != Some(0), "weight_sync_interval", "0".into(), "1 or more, or none");
        require(self.max_frames_per_traj != Some(0), "max_frames_per_traj", "0".into(), "1 or more, or none");
        require(positive(self.trajs_per_batch), "trajs_per_batch", show(self.trajs_per_batch), "1 or more, or none");
        require(positive(self.trajs_per_write), "trajs_per_write", show(self.trajs_per_write), "1 or more, or none");
        require((1..=1_024).contains(&self.threads), "threads", self.threads.to_string(), "1 to 1024");
        require((1..=1 << 16).contains(&self.max_arenas), "max_arenas", self.max_arenas.to_string(), "1 to 65536");
        require(
            positive(self.step_rows_per_thread),
            "step_rows_per_thread",
            show(self.step_rows_per_thread),
            "1 or more",
        );
        let infer = self.infer_rows_per_thread;
        require(infer > 0, "infer_rows_per_thread", infer.to_string(), "1 or more");
        errors.extend(self.reward.problems());
        errors.extend(self.worker_problems());
        errors.extend(self.staleness_conflicts());
        errors.extend(self.conflicts());
        errors.extend(crate::batched::conflicts(self));
        errors.extend(self.replay_conflicts(replay));
        Error::all(errors)
    }

    /// What is wrong with the options of workers.
    fn worker_problems(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        let only = [
            ("delivery", self.delivery.is_some()),
            ("worker_rows", self.worker_rows.is_some()),
            ("preemptive_threshold", self.preemptive_threshold.is_some()),
            ("worker_deadline", self.worker_deadline.is_some()),
            ("on_worker_fault", self.on_worker_fault.is_some()),
            ("max_staleness", self.max_staleness.is_some()),
        ];
        let mut conflict = |first, second, reason: &str| {
            errors.push(Error::Conflict { first, second, reason: reason.into() });
        };
        if self.workers == 0 {
            let only = only.into_iter().chain([("weight_sync", self.weight_sync == WeightSync::PerWorker)]);
            for (first, _) in only.filter(|(_, set)| *set) {
                conflict(first, "workers", "there are none; set workers, or leave this out");
            }
            return errors;
        }
        let inside = "each worker is one thread, with a world of its own; leave this out";
        let own = [
            ("threads", self.threads != 1),
            ("executor", self.executor != Executor::SingleThreaded),
            ("overlap", self.overlap != Overlap::None),
        ];
        for (first, _) in own.into_iter().filter(|(_, set)| *set) {
            conflict(first, "workers", inside);
        }
        if self.worker.is_some() {
            conflict("worker", "workers", "workers have numbers of their own; leave worker out");
        }
        if self.is_async() && self.preemptive_threshold.is_some() {
            let reason = "no worker waits for another in asynchronous delivery; leave this out";
            conflict("preemptive_threshold", "delivery", reason);
        }
        if self.reset_at_each_iter && self.preemptive_threshold.is_some_and(|share| share < 1.0) {
            let reason = "a rollout that is cut short has no last tick that ends its episodes; leave one of them out";
            conflict("preemptive_threshold", "reset_at_each_iter", reason);
        }
        let most = self.rows.min(MAX_WORKERS);
        if self.workers > most {
            errors.push(Error::config("workers", self.workers, format!("1 to {most}, at least a row for each")));
        }
        if let Some(rows) = &self.worker_rows
            && (rows.len() != self.workers || rows.contains(&0) || rows.iter().sum::<usize>() != self.rows)
        {
            let legal = format!("{} numbers above 0 whose sum is {}, the rows", self.workers, self.rows);
            errors.push(Error::config("worker_rows", format!("{rows:?}"), legal));
        }
        if let Some(share) = self.preemptive_threshold.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
            errors.push(Error::config("preemptive_threshold", share, "above 0 and at most 1"));
        }
        if self.worker_deadline.is_some_and(|deadline| deadline.is_zero()) {
            errors.push(Error::config("worker_deadline", "0 s", "above 0"));
        }
        errors
    }

    /// What does not go together with a bound on the age of weights.
    fn staleness_conflicts(&self) -> Vec<Error> {
        let step = "workers in step begin a batch when it is asked for, under the newest weights; leave this out";
        let whole = "whole trajectories are as old as they are long; leave one of them out";
        let parts = [
            (self.is_sync(), "delivery", step),
            (self.trajs_per_batch.is_some(), "trajs_per_batch", whole),
            (self.whole_episodes().is_some(), "replay_write_mode", whole),
        ];
        let holds = |(holds, ..): &(bool, _, _)| *holds && self.workers > 0 && self.max_staleness.is_some();
        let conflict = |(_, second, reason): (bool, _, &str)| Error::Conflict {
            first: "max_staleness",
            second,
            reason: reason.into(),
        };
        parts.into_iter().filter(holds).map(conflict).collect()
    }

    fn conflicts(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        let mut conflict = |first, second, reason: &str| {
            errors.push(Error::Conflict { first, second, reason: reason.into() });
        };
        if self.traj_format.is_some() && self.trajs_per_batch.is_none() {
            conflict("traj_format", "trajs_per_batch", "a format of trajectories needs trajs_per_batch");
        }
        if self.set_truncated && self.trajs_per_batch.is_some() {
            let reason = "whole trajectories have no batch edge to mark; leave one of them out";
            conflict("set_truncated", "trajs_per_batch", reason);
        }
        errors
    }

    fn replay_conflicts(&self, replay: bool) -> Vec<Error> {
        let mut errors = Vec::new();
        let mut conflict = |holds, first, second, reason: &str| {
            if holds {
                errors.push(Error::Conflict { first, second, reason: reason.into() });
            }
        };
        let (mode, trajectories) = (self.replay_write_mode, self.trajs_per_batch.is_some());
        let reason = "with a replay buffer no batches are yielded; set replay_write_mode to Trajectory instead of \
                      trajs_per_batch, and trajs_per_write if need be";
        conflict(replay && trajectories && mode.is_none(), "trajs_per_batch", "replay_write_mode", reason);
        let reason = "the write mode says what is written, and no batches are yielded; leave trajs_per_batch out";
        conflict(trajectories && mode.is_some(), "replay_write_mode", "trajs_per_batch", reason);
        let reason = "the edge of a batch means nothing in a buffer; leave set_truncated out";
        conflict(replay && self.set_truncated, "set_truncated", "replay", reason);
        errors.extend(mode_conflicts(replay, mode, self.trajs_per_write, self.max_open_frames));
        errors
    }
}
