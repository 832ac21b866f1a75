//! Counters: a ledger in which each stepped frame has exactly one fate.

mod metrics;
mod monitor;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::components::Trajectory;

pub use metrics::StatsOf;
pub use monitor::Monitor;
pub(crate) use monitor::{Fixed, Watched};

/// Episodes that the means of [`EpisodeStats`] are taken over.
pub const EPISODE_WINDOW: usize = 100;

/// Frames that were stepped but will not be delivered, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discarded {
    /// Dropped by `reset` or `set_seed`: frames of episodes that waited for their end or their batch.
    pub reset: u64,
    /// Dropped at shutdown, at the end of the budget or on an error: frames of unfinished rollouts and episodes.
    pub shutdown: u64,
    /// Numbers that are not finite, a frame whose environment failed, or the tick that ended the collection with an error,
    /// in a host's world the rollout.
    pub fault: u64,
    /// Taken away by post-processing, or lost with a batch whose post-processing, hook or write to a replay buffer
    /// failed.
    pub post_processing: u64,
}

impl Discarded {
    /// Frames discarded for any reason.
    pub fn total(&self) -> u64 {
        self.reset + self.shutdown + self.fault + self.post_processing
    }

    fn add(&mut self, other: Self) {
        let Self { reset, shutdown, fault, post_processing } = other;
        self.reset += reset;
        self.shutdown += shutdown;
        self.fault += fault;
        self.post_processing += post_processing;
    }
}

/// Means over the last [`EPISODE_WINDOW`] finished episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpisodeStats {
    /// Episodes in the window; 0 before the first one ended.
    pub count: u32,
    /// Mean sum of raw rewards; absent while `count` is 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mean_return: Option<f32>,
    /// Mean number of frames; absent while `count` is 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mean_length: Option<f32>,
    /// Mean raw return so far of the episodes that run, as of the last rollout's end; absent before it, and
    /// in a host's world.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub running_return: Option<f32>,
}

/// A snapshot of a collector's counters. Cumulative except where it says gauge.
///
/// `stepped_frames = frames - discarded.post_processing + in_flight_frames + discarded.total()` at every moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// Frames delivered, in batches or to a replay buffer, before post-processing.
    pub frames: u64,
    /// Transitions that environments made.
    pub stepped_frames: u64,
    /// The same, of agents: several act in one simulation where [`BatchEnv::agents`](crate::env::BatchEnv::agents) says
    /// so, each with frames of its own.
    pub agent_frames: u64,
    /// Steps that simulations made: `agent_frames` over the agents of one simulation, so the same number where each has
    /// one.
    pub env_frames: u64,
    /// Gauge: stepped frames that are neither delivered nor discarded.
    pub in_flight_frames: u64,
    /// Frames that will not be delivered.
    pub discarded: Discarded,
    /// Frames of finished episodes.
    pub trajectory_completed_frames: u64,
    /// Gauge: frames of episodes that run.
    pub trajectory_pending_frames: u64,
    /// Finished episodes.
    pub completed_trajectories: u64,
    /// Batches delivered; with a replay buffer, writes to it.
    pub batches: u64,
    /// Frames that the replay buffer got of this collector, after post-processing; absent without a buffer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub written_frames: Option<u64>,
    /// Episodes whose end the replay buffer got of this collector; absent without a buffer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub written_trajectories: Option<u64>,
    /// Pieces of running episodes that were written before their end, because of `max_open_frames`; absent without a
    /// buffer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub early_pieces: Option<u64>,
    /// Gauge: frames of running episodes that are held until their end, when whole trajectories are written; absent
    /// without a buffer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub open_frames: Option<u64>,
    /// Threads that were stuck in user code and left to themselves; absent unless collection is async-batched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub abandoned: Option<u64>,
    /// What such threads came back with, which was dropped. The frames were counted as discarded when their deadline was
    /// over. Absent unless collection is async-batched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late_frames: Option<u64>,
    /// Environments that were built anew after a fault.
    #[serde(default)]
    pub row_restarts: u64,
    /// Times that the policy acted for rows of a pool that were ready: `stepped_frames` over this is how many act together.
    /// Absent unless collection is async-batched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dispatches: Option<u64>,
    /// Frames that one batch asks for: whole ticks. In trajectory mode, frames of one rollout. Absent in a host's world, whose
    /// rows come and go.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested_frames_per_batch: Option<u64>,
    /// The budget; absent if endless.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total_frames: Option<u64>,
    /// Whether the budget is used up.
    pub completed: bool,
    /// Version of the adopted weights, of several policies the first one's, 0 if that is no network; absent without any
    /// network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_version: Option<u64>,
    /// Versions of the adopted weights, by policy; empty and absent before the first tick, and without a network.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub policy_versions: Vec<u64>,
    /// What the networks run on; absent without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub backend: Option<String>,
    /// Means over the last finished episodes; with workers, over those of each.
    pub episodes: EpisodeStats,
    /// Workers; absent inline.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workers: Option<u32>,
    /// Gauge: workers whose threads run; absent inline.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workers_alive: Option<u32>,
}

/// Counters that a checkpoint holds: what is cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Frames delivered.
    pub frames: u64,
    /// Frames stepped.
    pub stepped_frames: u64,
    /// Frames discarded.
    pub discarded: Discarded,
    /// Frames of finished episodes.
    pub trajectory_completed_frames: u64,
    /// Finished episodes.
    pub completed_trajectories: u64,
    /// Batches delivered.
    pub batches: u64,
    /// Frames that a replay buffer got.
    #[serde(default)]
    pub written_frames: u64,
    /// Episodes whose end a replay buffer got.
    #[serde(default)]
    pub written_trajectories: u64,
    /// Pieces of running episodes that were written before their end.
    #[serde(default)]
    pub early_pieces: u64,
    /// Serial number of the newest trajectory id.
    pub trajectory_serial: u64,
}

/// The ledger that systems write and [`Monitor`] reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    pub counters: Counters,
    /// Gauges.
    pub in_flight: u64,
    /// In batches on their way from a worker.
    pub sent: u64,
    pub pending: u64,
    pub open: u64,
    /// Of a pool of environments.
    pub abandoned: u64,
    pub late_frames: u64,
    pub row_restarts: u64,
    pub dispatches: u64,
    /// By policy.
    pub versions: Vec<u64>,
    window: VecDeque<(f32, u32)>,
    running_return: Option<f32>,
}

impl Ledger {
    /// Counts frames that leave the collector, as one batch or write.
    pub(crate) fn delivered(&mut self, frames: u64) {
        self.counters.frames += frames;
        self.counters.batches += 1;
        self.in_flight -= frames;
    }

    /// Counts frames of a batch that a worker sends.
    pub(crate) fn send(&mut self, frames: u64) {
        // Of a worker that was given up they are counted already.
        let frames = frames.min(self.in_flight);
        self.in_flight -= frames;
        self.sent += frames;
    }

    /// The frames that have no fate yet, which the caller gives them.
    pub(crate) fn take_in_flight(&mut self) -> u64 {
        self.pending = 0;
        std::mem::take(&mut self.in_flight) + std::mem::take(&mut self.sent)
    }

    /// Keeps what is cumulative of a worker that is given up; what it had in flight is lost to a fault.
    pub(crate) fn give_up(&mut self) {
        let lost = self.take_in_flight();
        self.counters.discarded.fault += lost;
        *self = Self { counters: self.counters, row_restarts: self.row_restarts, ..Self::default() };
    }

    /// Counts on from lives of the same worker that were given up.
    pub(crate) fn follow(&mut self, lives: &Self) {
        self.add(lives);
        self.counters.frames += lives.counters.frames;
    }

    /// Counts what a replay buffer got.
    pub(crate) fn written(&mut self, frames: u64, trajectories: u64) {
        self.counters.written_frames += frames;
        self.counters.written_trajectories += trajectories;
    }

    /// Counts episodes that ended, in order.
    pub(crate) fn episodes_ended(&mut self, ended: &[Trajectory]) {
        let frames = ended.iter().map(|trajectory| u64::from(trajectory.length)).sum::<u64>();
        self.counters.completed_trajectories += ended.len() as u64;
        self.counters.trajectory_completed_frames += frames;
        self.pending = self.pending.saturating_sub(frames);
        if self.window.capacity() == 0 {
            self.window.reserve_exact(EPISODE_WINDOW);
        }
        let kept = ended.len().min(EPISODE_WINDOW);
        self.window.drain(..(self.window.len() + kept).saturating_sub(EPISODE_WINDOW));
        let newest = &ended[ended.len() - kept..];
        self.window.extend(newest.iter().map(|trajectory| (trajectory.total_reward, trajectory.length)));
    }

    pub(crate) fn set_running_return(&mut self, mean: Option<f32>) {
        self.running_return = mean;
    }

    /// Adds what a worker counted: everything but what is delivered from here.
    fn add(&mut self, worker: &Self) {
        let Counters {
            stepped_frames,
            discarded,
            trajectory_completed_frames,
            completed_trajectories,
            early_pieces,
            trajectory_serial,
            frames: _,
            batches: _,
            written_frames: _,
            written_trajectories: _,
        } = worker.counters;
        let sum = &mut self.counters;
        sum.stepped_frames += stepped_frames;
        sum.discarded.add(discarded);
        sum.trajectory_completed_frames += trajectory_completed_frames;
        sum.completed_trajectories += completed_trajectories;
        sum.early_pieces += early_pieces;
        sum.trajectory_serial = sum.trajectory_serial.max(trajectory_serial);
        self.in_flight += worker.in_flight + worker.sent;
        self.pending += worker.pending;
        self.open += worker.open;
        self.row_restarts += worker.row_restarts;
        // The oldest that act: what a publisher waits for.
        if self.versions.is_empty() {
            self.versions.clone_from(&worker.versions);
        }
        self.versions.iter_mut().zip(&worker.versions).for_each(|(oldest, version)| *oldest = (*oldest).min(*version));
        self.window.extend(&worker.window);
    }

    /// The same without the frames that are in flight, which count as discarded, and without episodes that run.
    pub(crate) fn without_frames(mut self) -> Self {
        self.counters.discarded.shutdown += std::mem::take(&mut self.in_flight);
        Self { pending: 0, open: 0, running_return: None, ..self }
    }

    /// What is wrong with a ledger that was read from a file.
    pub(crate) fn problem(&self) -> Option<String> {
        let (counters, lost) = (&self.counters, &self.counters.discarded);
        let fates = [counters.frames, self.in_flight, lost.reset, lost.shutdown, lost.fault].map(u128::from);
        // What was taken away after delivery is discarded, but not delivered any more.
        if fates.iter().sum::<u128>() != u128::from(counters.stepped_frames) || lost.post_processing > counters.frames {
            return Some(format!("its frames do not add up: {counters:?}, {} in flight", self.in_flight));
        }
        let done = counters.completed_trajectories | counters.trajectory_completed_frames | counters.batches;
        let written = counters.written_frames | counters.written_trajectories | counters.early_pieces;
        // They go on growing.
        if (counters.stepped_frames | done | written) >> 62 != 0 || !self.is_within_reach() {
            return Some(format!("numbers out of all reach: {counters:?}"));
        }
        let episodes = self.window.len();
        (episodes > EPISODE_WINDOW).then(|| format!("{episodes} last episodes; legal: up to {EPISODE_WINDOW}"))
    }

    /// Whether no sum with its numbers overflows.
    pub(crate) fn is_within_reach(&self) -> bool {
        let Counters { frames, stepped_frames, discarded, trajectory_serial, .. } = self.counters;
        let Counters { trajectory_completed_frames, completed_trajectories, batches, .. } = self.counters;
        let Counters { written_frames, written_trajectories, early_pieces, .. } = self.counters;
        let Discarded { reset, shutdown, fault, post_processing } = discarded;
        let delivered = frames | stepped_frames | reset | shutdown | fault | post_processing;
        let episodes = trajectory_completed_frames | completed_trajectories | batches;
        let written = written_frames | written_trajectories | early_pieces;
        let gauges = self.in_flight | self.sent | self.pending | self.open;
        let pool = self.abandoned | self.late_frames | self.row_restarts | self.dispatches;
        (delivered | episodes | written | gauges | pool) >> 48 == 0 && trajectory_serial >> 48 == 0
    }

    fn episodes(&self, running_return: Option<f32>) -> EpisodeStats {
        let count = self.window.len();
        let mean = |sum: f64| (count > 0).then(|| (sum / count as f64) as f32);
        EpisodeStats {
            count: count as u32,
            mean_return: mean(self.window.iter().map(|(total, _)| f64::from(*total)).sum()),
            mean_length: mean(self.window.iter().map(|(_, length)| f64::from(*length)).sum()),
            running_return,
        }
    }
}
