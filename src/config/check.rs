//! What is legal, and what goes together.

use super::{CollectorConfig, MAX_ROWS};
use crate::{error::Error, replay_writer::mode_conflicts};

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
        require(self.max_frames_per_traj != Some(0), "max_frames_per_traj", "0".into(), "1 or more, or none");
        require(positive(self.trajs_per_batch), "trajs_per_batch", show(self.trajs_per_batch), "1 or more, or none");
        require(positive(self.trajs_per_write), "trajs_per_write", show(self.trajs_per_write), "1 or more, or none");
        require((1..=1_024).contains(&self.threads), "threads", self.threads.to_string(), "1 to 1024");
        require((1..=1 << 16).contains(&self.max_arenas), "max_arenas", self.max_arenas.to_string(), "1 to 65536");
        let rows = [
            ("step_rows_per_thread", self.step_rows_per_thread),
            ("infer_rows_per_thread", self.infer_rows_per_thread),
        ];
        for (field, value) in rows {
            require(value > 0, field, value.to_string(), "1 or more");
        }
        errors.extend(self.reward.problems());
        errors.extend(self.conflicts());
        errors.extend(crate::batched::conflicts(self));
        errors.extend(self.replay_conflicts(replay));
        Error::all(errors)
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
