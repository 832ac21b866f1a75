//! User code around a batch: hooks and post-processing.
//!
//! An error of a hook, or its panic, is [`Error::Hook`]: it ends the collection after a clean shutdown. The batch that
//! `post_process` or `post_collect` fails on is not yielded, and its frames are counted as discarded by
//! post-processing, but for those that a replay buffer has got.

use crate::{
    collector::Collector,
    error::{BoxError, Error, guarded},
    replay::Written,
    rollout::Batch,
    task::Task,
};

type PreHook = Box<dyn FnMut() -> Result<(), BoxError> + Send>;
type PostHook<T> = Box<dyn FnMut(&Batch<T>) -> Result<(), BoxError> + Send>;
type PostProcess<T> = Box<dyn FnMut(Batch<T>) -> Result<Batch<T>, BoxError> + Send>;

/// User code around a batch.
pub(crate) struct Hooks<T: Task> {
    pub pre_collect: Option<PreHook>,
    pub post_collect: Option<PostHook<T>>,
    pub post_process: Option<PostProcess<T>>,
}

impl<T: Task> Default for Hooks<T> {
    fn default() -> Self {
        Self { pre_collect: None, post_collect: None, post_process: None }
    }
}

impl<T: Task> Collector<T> {
    /// Replaces the hook before each rollout; see
    /// [`CollectorBuilder::pre_collect`](crate::config::CollectorBuilder::pre_collect), also for what its error does.
    pub fn set_pre_collect(&mut self, hook: impl FnMut() -> Result<(), BoxError> + Send + 'static) {
        self.hooks.pre_collect = Some(Box::new(hook));
    }

    /// Replaces the hook after each batch; see
    /// [`CollectorBuilder::post_collect`](crate::config::CollectorBuilder::post_collect), also for what its error does.
    pub fn set_post_collect(&mut self, hook: impl FnMut(&Batch<T>) -> Result<(), BoxError> + Send + 'static) {
        self.hooks.post_collect = Some(Box::new(hook));
    }

    /// Replaces the post-processing of each batch; see
    /// [`CollectorBuilder::post_process`](crate::config::CollectorBuilder::post_process), also for what its error does.
    pub fn set_post_process(&mut self, process: impl FnMut(Batch<T>) -> Result<Batch<T>, BoxError> + Send + 'static) {
        self.hooks.post_process = Some(Box::new(process));
    }

    /// Counts the batch, and shows it to user code; between the two steps of user code a replay buffer gets it.
    pub(crate) fn deliver(&mut self, batch: Batch<T>) -> Result<(Batch<T>, Option<Written>), Error> {
        let Self { drive, hooks, .. } = self;
        let frames = batch.frames() as u64;
        let monitor = drive.monitor.clone();
        monitor.ledger().delivered(frames);
        let lose = |lost| monitor.ledger().counters.discarded.post_processing += lost;
        let batch = match &mut hooks.post_process {
            Some(process) => {
                let processed = guarded("post_process", || process(batch));
                lose(frames.saturating_sub(processed.as_ref().map_or(0, |batch| batch.frames() as u64)));
                processed?
            }
            None => batch,
        };
        let left = frames.min(batch.frames() as u64);
        let written = drive.writer().map(|writer| writer.replay.extend(&batch)).transpose();
        let written = written.inspect_err(|_| lose(left))?;
        if let Some(written) = &written {
            monitor.ledger().written(written.frames, written.trajectories);
        }
        if let Some(hook) = &mut hooks.post_collect {
            // What is stored is not lost with the batch.
            let left = if written.is_some() { 0 } else { left };
            guarded("post_collect", || hook(&batch)).inspect_err(|_| lose(left))?;
        }
        Ok((batch, written))
    }
}
