//! The options of a collector, and their defaults.

mod check;

use std::{ops::Range, time::Duration};

use crate::{
    env::AsyncBatched,
    fault::FaultPolicy,
    policy::Exploration,
    replay_writer::WholeEpisodes,
    rollout::RewardTransform,
    schedule::{Executor, Overlap},
    weights::WeightSync,
};

pub use crate::{builder::CollectorBuilder, replay_writer::ReplayWriteMode};

/// How whole trajectories lie in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum TrajFormat {
    /// One behind the other, no padding.
    #[default]
    Cat,
    /// `[trajectories, length of the longest]`, the rest of each padded with slots that hold no frame.
    Padded,
}

/// How workers deliver what they collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Delivery {
    /// Each batch holds one rollout of all workers, which act under the weights that were newest when it began or are
    /// adopted at the end of a tick: the batches of one world with all rows, but for the numbers of trajectories.
    #[default]
    Sync,
    /// Each batch is one worker's, of its rows, first come, first served. Workers go on while a batch is used; one that
    /// is a batch ahead waits until there is room. Nothing is dropped.
    Async,
}

/// What happens when a worker panics or misses its deadline, or a row of it fails that is not restarted
/// ([`CollectorConfig::on_fault`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum OnWorkerFault {
    /// The collection ends with an error that names it.
    #[default]
    Stop,
    /// The others go on without its rows. An error ends the collection when it was the last one.
    Drop,
    /// Its rows are built anew, up to `most` times over all workers; then the first of the errors ends the collection.
    /// Each time the rows play other episodes: those from number `lives · 2^24` on, modulo `2^32`.
    Restart {
        /// Restarts of all workers together.
        most: u32,
    },
}

/// Options of a collector; fields of the same names are set by [`CollectorBuilder`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CollectorConfig {
    /// Environments. Default: 1.
    pub rows: usize,
    /// Frames of a batch over all rows, rounded up to whole ticks. In trajectory mode: frames between two looks for
    /// finished episodes. Default: 64 for each row.
    pub frames_per_batch: Option<usize>,
    /// Frames to step in all; the last batch is smaller if need be. Default: endless.
    pub total_frames: Option<u64>,
    /// Frames after which an episode is truncated, if the task's own limit is not lower. Default: the task's own.
    pub max_frames_per_traj: Option<u32>,
    /// Frames, in row order, whose actions are drawn from the space before the policy acts. Default: 0.
    pub init_random_frames: u64,
    /// Whether every rollout ends all episodes, truncated by a forced reset. The reset is part of its last tick, and
    /// the first observations of the next rollout come from it: what [`pre_collect`](CollectorBuilder::pre_collect)
    /// changes about how episodes start acts one batch later. Default: no.
    pub reset_at_each_iter: bool,
    /// Whether the last frame of each row in a batch is marked as truncated. The episode goes on under the same id.
    /// Default: no.
    pub set_truncated: bool,
    /// Whole trajectories of a batch. Default: none, batches of fixed frames.
    pub trajs_per_batch: Option<usize>,
    /// How whole trajectories lie in a batch. Only with `trajs_per_batch`. Default: one behind the other.
    pub traj_format: Option<TrajFormat>,
    /// What is written to the replay buffer. Only with [`CollectorBuilder::replay`]. Default: rollouts.
    pub replay_write_mode: Option<ReplayWriteMode>,
    /// Finished episodes of a write, fewer if fewer wait. Only with mode `Trajectory`. Default: all that wait.
    pub trajs_per_write: Option<usize>,
    /// Frames of running episodes that are held until their end; looked at after each rollout. Beyond, the longest ones
    /// are written as they are and go on in the buffer with the rest of their episode. Only with mode `Trajectory`.
    /// Default: 4,096 for each row.
    pub max_open_frames: Option<usize>,
    /// How the policy's distribution becomes an action. Mode and mean need a network among the policies, random not a
    /// host's system; policies that are no networks act as ever. Default: sample.
    pub exploration: Exploration,
    /// Master seed of all streams. Default: 0.
    pub seed: u64,
    /// Threads that row chunks are spread over. Default: 1.
    pub threads: usize,
    /// What runs the systems of a tick. Default: single-threaded.
    pub executor: Executor,
    /// Whether half of the rows step while the policy acts for the others. Not with a simulator, nor with a policy that is
    /// a host's system. Default: no.
    pub overlap: Overlap,
    /// What is done when an environment panics, cannot start an episode, or takes longer than
    /// [`AsyncBatched::step_deadline`]; for all rows, also those of workers: what a row's restarts do not mend is then its
    /// worker's fault. A simulator's rows are not restarted. Faults of a row are counted anew where a checkpoint is loaded.
    /// Default: stop.
    pub on_fault: FaultPolicy,
    /// Number of this collector among several whose data are put together: it is in trajectory ids, errors and what
    /// factories know. Default: none, and ids as of worker 0.
    pub worker: Option<u16>,
    /// Worker threads that the rows are spread over, each with a world of its own. Default: 0, all rows are in this one,
    /// on the caller's thread.
    pub workers: usize,
    /// How workers deliver. Only with `workers`. Default: [`Delivery::Sync`].
    pub delivery: Option<Delivery>,
    /// Rows of each worker. Only with `workers`. Default: as even as they go, the first workers one more.
    pub worker_rows: Option<Vec<usize>>,
    /// Share of the workers, above 0 and at most 1, after which a synchronous rollout ends for the others too, where they
    /// stand: their later slots hold no frame, and their episodes go on in the next one. Workers that were lost do not count.
    /// Not with `reset_at_each_iter`. Only with `workers` that deliver in step. Default: 1, all are waited for.
    pub preemptive_threshold: Option<f32>,
    /// Longest time that a worker may take for a rollout, or for an order between two. Only with `workers`. Default: 2
    /// minutes.
    pub worker_deadline: Option<Duration>,
    /// What happens when a worker panics or misses its deadline. Only with `workers`. Default:
    /// [`OnWorkerFault::Stop`].
    pub on_worker_fault: Option<OnWorkerFault>,
    /// Most batches that may be taken between the begin of a batch and its own turn. So every frame acted under weights at
    /// least as new as the newest ones when the batch so many before its own was asked for: a learner that publishes at
    /// most once for each batch gets no frame more than so many versions old. Workers are held back for it and nothing is
    /// discarded: one batch more than this is made, waits or is used at a time; a slow worker's batch has its turn before
    /// it would be late, faster ones wait for it. At 0 no worker steps while a batch is used. Only with `workers` that
    /// deliver on their own, and not with whole trajectories, which are as old as they are long. Elsewhere a batch is begun
    /// when it is asked for, under the newest weights. Default: none, each worker goes on while there is room.
    pub max_staleness: Option<u64>,
    /// Whether an episode acts to its end by the weights that were the newest ones when it began: new ones act for a row
    /// from its next episode on, and every trajectory's first version is its last. Nobody waits for it: sets that running
    /// episodes began under are kept, as many as are published while the longest one runs, and in each tick the network
    /// runs once for the rows of each, so more often for fewer rows; on a GPU the weights are sent there each time. A
    /// version counts as adopted as soon as new episodes begin under it; an evaluator, and so a batch's values behind its
    /// frames, go by the newest. Only with a network, not with `overlap`, `async_batched`, `record_distribution` and
    /// `max_staleness`. Default: no.
    pub one_version_per_trajectory: bool,
    /// Where new weights come from. Other than [`WeightSync::Shared`] only with a network. Default: whoever publishes them.
    pub weight_sync: WeightSync,
    /// Batches, or writes to a replay buffer, from one look for new weights to the next. Only with a
    /// [`WeightSync::File`], of which `every` holds as well, or a
    /// [`weights_source`](CollectorBuilder::weights_source). After a look that failed comes one batch. Default: 1, before
    /// each.
    pub weight_sync_interval: Option<u64>,
    /// Batches that may be alive at once. Default: 8.
    pub max_arenas: usize,
    /// How recorded rewards are made from the environment's. Default: as they are.
    pub reward: RewardTransform,
    /// Whether distributions are recorded, as columns "logits", "mean", "std" or "q_values" by the head, and "entropy",
    /// but for deterministic heads. A squashed Gaussian has none in closed form: there it is the negative log-probability
    /// of the action taken, of which the entropy is the mean; "mean" and "std" are those of the number before the squash.
    /// Only with a network. Default: no.
    pub record_distribution: bool,
    /// Whether the state that each frame begins with is recorded as column "state". Only with a recurrent network.
    /// Default: no.
    pub record_states: bool,
    /// Whether [`EpisodeEnded`](crate::rollout::EpisodeEnded) is triggered for each finished episode. Default: no.
    pub episode_events: bool,
    /// Whether a pool of threads steps the rows, each at its own pace, and how; see [`AsyncBatched`]. Batches are then flat:
    /// frames of rows as they come, those of an episode one behind the other, exactly `frames_per_batch` of them; or whole
    /// trajectories. First episodes start with the first batch; what comes before a rollout elsewhere, hooks and the look for
    /// weights, comes before each batch. Not with a simulator, a policy that is a host's system,
    /// `overlap`, `reset_at_each_iter`, `set_truncated` and `record_states`. Default: no.
    pub async_batched: Option<AsyncBatched>,
    /// Fewest rows that a thread is given to step; below twice this many one thread steps all. Default: 16,384, worth
    /// waking a thread for environments of a few ns, or 2,048 where threads are awake because a policy's rows are spread
    /// over them; an environment of 10 µs is worth it from 4 rows on.
    pub step_rows_per_thread: Option<usize>,
    /// Fewest rows that a thread is given to infer. Default: 512, worth a thread for a network of 64 × 64.
    pub infer_rows_per_thread: usize,
}

impl Default for CollectorConfig {
    fn default() -> Self {
        Self {
            rows: 1,
            frames_per_batch: None,
            total_frames: None,
            max_frames_per_traj: None,
            init_random_frames: 0,
            reset_at_each_iter: false,
            set_truncated: false,
            trajs_per_batch: None,
            traj_format: None,
            replay_write_mode: None,
            trajs_per_write: None,
            max_open_frames: None,
            exploration: Exploration::Sample,
            seed: 0,
            threads: 1,
            executor: Executor::SingleThreaded,
            overlap: Overlap::None,
            on_fault: FaultPolicy::Stop,
            worker: None,
            workers: 0,
            delivery: None,
            worker_rows: None,
            preemptive_threshold: None,
            worker_deadline: None,
            on_worker_fault: None,
            max_staleness: None,
            one_version_per_trajectory: false,
            weight_sync: WeightSync::Shared,
            weight_sync_interval: None,
            max_arenas: 8,
            reward: RewardTransform::default(),
            record_distribution: false,
            record_states: false,
            episode_events: false,
            async_batched: None,
            step_rows_per_thread: None,
            infer_rows_per_thread: 512,
        }
    }
}

/// Most rows of a collector.
pub const MAX_ROWS: usize = 1 << 24;
/// Most workers of a collector.
pub const MAX_WORKERS: usize = 1 << 12;
/// Most bytes of one rollout.
pub const MAX_ROLLOUT_BYTES: usize = 1 << 40;

impl CollectorConfig {
    /// Ticks of a rollout.
    pub fn horizon(&self) -> usize {
        self.frames_per_batch.map_or(64, |frames| frames.div_ceil(self.rows.max(1)))
    }

    /// Frames of a full batch: whole ticks, or as they were asked for where rows do not step together.
    pub fn effective_frames_per_batch(&self) -> usize {
        if let (true, Some(frames)) = (self.takes_as_they_come(), self.frames_per_batch) {
            return frames;
        }
        self.horizon().saturating_mul(self.rows)
    }

    /// What steps the rows, in a word.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.is_sync(), self.is_async(), self.async_batched.is_some()) {
            (true, ..) => "workers in step",
            (_, true, _) => "workers on their own",
            (.., true) => "async-batched",
            _ => "inline",
        }
    }

    /// Whether each batch holds the rollouts of all workers.
    pub(crate) fn is_sync(&self) -> bool {
        self.workers > 0 && self.delivery != Some(Delivery::Async)
    }

    /// Whether each batch is one worker's.
    pub(crate) fn is_async(&self) -> bool {
        self.workers > 0 && !self.is_sync()
    }

    /// The rows of each worker.
    pub(crate) fn ranges(&self) -> Vec<Range<u32>> {
        let even = |i: usize| self.rows / self.workers + usize::from(i < self.rows % self.workers);
        let given = |i: usize| self.worker_rows.as_ref().map_or(even(i), |rows| rows[i]);
        let mut first = 0;
        let next = |i| {
            let range = first..first + given(i) as u32;
            first = range.end;
            range
        };
        (0..self.workers).map(next).collect()
    }

    /// Longest time to wait for a worker.
    pub(crate) fn deadline(&self) -> Duration {
        self.worker_deadline.unwrap_or(Duration::from_secs(120))
    }

    /// How whole episodes are written to a replay buffer; none if rollouts are.
    pub(crate) fn whole_episodes(&self) -> Option<WholeEpisodes> {
        let most = self.max_open_frames.unwrap_or(self.rows.saturating_mul(4_096));
        (self.replay_write_mode == Some(ReplayWriteMode::Trajectory))
            .then_some(WholeEpisodes { per_write: self.trajs_per_write, max_open: most })
    }
}
