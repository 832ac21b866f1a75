//! The WriteReplay stage: rollouts and finished episodes into a replay buffer.

use std::{collections::VecDeque, sync::Arc};

use bevy_ecs::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    components::{ColumnSpec, Frames, RolloutSlot, TickReport},
    error::Error,
    receipts::Receipt,
    replay::{Claim, Replay, Written},
    rollout::{Assembly, Block, BlockFrames},
    stats::{Ledger, Monitor},
    task::Task,
};

/// What a collector writes to its replay buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayWriteMode {
    /// Rollouts as they lie, time-major. An episode goes on where its next rollout is written.
    #[default]
    Rollout,
    /// Whole episodes when they end, each in one piece.
    Trajectory,
}

/// What is wrong with options of a collector, or a host, that `replay` says has a buffer.
pub(crate) fn mode_conflicts(
    replay: bool,
    mode: Option<ReplayWriteMode>,
    trajs_per_write: Option<usize>,
    max_open_frames: Option<usize>,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let set = [("trajs_per_write", trajs_per_write.is_some()), ("max_open_frames", max_open_frames.is_some())];
    for (first, set) in set.into_iter().chain([("replay_write_mode", mode.is_some())]) {
        if set && !replay {
            let reason = "there is no buffer to write to; give the builder one by replay, or leave this out".into();
            errors.push(Error::Conflict { first, second: "replay", reason });
        }
        if set && replay && mode != Some(ReplayWriteMode::Trajectory) && first != "replay_write_mode" {
            let reason =
                "only whole episodes are counted; set replay_write_mode to Trajectory, or leave this out".into();
            errors.push(Error::Conflict { first, second: "replay_write_mode", reason });
        }
    }
    errors
}

/// How whole episodes are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WholeEpisodes {
    /// Finished ones of a write; all that there are, if none.
    pub per_write: Option<usize>,
    /// Frames of running ones that are held at most; beyond, the longest piece is written as it is.
    pub max_open: usize,
}

/// The buffer of a collector, and what was written to it.
#[derive(Resource)]
pub(crate) struct ReplayWriter<T: Task> {
    pub replay: Replay<T>,
    specs: Arc<[ColumnSpec]>,
    episodes: Option<WholeEpisodes>,
    /// Whether the system writes. Not where user code is to see the batch before: then the collector does.
    pub direct: bool,
    /// Whole episodes that are written next.
    block: Block<T>,
    /// Writes of the system that are not in the ledger yet: the tick must be first.
    done: VecDeque<Written>,
    /// Those that are, and were not yielded yet.
    receipts: VecDeque<Receipt>,
    error: Option<Error>,
    _claim: Claim,
}

impl<T: Task> ReplayWriter<T> {
    /// What writes to `replay` as worker `worker`. Errors: another collector does as well.
    pub(crate) fn new(
        replay: &Replay<T>,
        worker: u16,
        specs: &[ColumnSpec],
        episodes: Option<WholeEpisodes>,
    ) -> Result<Self, Error> {
        Ok(Self {
            _claim: replay.claim(worker)?,
            replay: replay.clone(),
            specs: specs.into(),
            episodes,
            direct: true,
            block: Block::new(specs.len()),
            done: VecDeque::new(),
            receipts: VecDeque::new(),
            error: None,
        })
    }

    /// Puts what writes into a world.
    pub(crate) fn install(self, world: &mut World) {
        if self.episodes.is_some() {
            world.insert_resource(Assembly::<T>::new(&self.specs));
        }
        world.insert_resource(self);
    }

    /// Counts what the system wrote in the rollout that just ended.
    pub(crate) fn count(&mut self, ledger: &mut Ledger) {
        for written in self.done.drain(..) {
            self.receipts.push_back(Receipt::new(ledger.counters.batches, written));
            ledger.delivered(written.frames);
            ledger.written(written.frames, written.trajectories);
        }
    }

    /// Whether there is a write, or an error, to yield.
    pub(crate) fn has_receipt(&self) -> bool {
        !self.receipts.is_empty() || self.error.is_some()
    }

    /// The oldest write that was not yielded yet; then the error that stopped the system.
    pub(crate) fn take_receipt(&mut self) -> Result<Option<Receipt>, Error> {
        match self.receipts.pop_front() {
            Some(receipt) => Ok(Some(receipt)),
            None => self.error.take().map_or(Ok(None), Err),
        }
    }

    /// The writes that were not yielded yet. Errors: a write failed, which will be said first.
    pub(crate) fn waiting(&self) -> Result<Vec<Receipt>, Error> {
        match &self.error {
            None => Ok(self.receipts.iter().copied().collect()),
            Some(error) => Err(Error::State { call: "save", problem: format!("a write failed: {error}") }),
        }
    }

    /// Yields these first.
    pub(crate) fn restore(&mut self, receipts: Vec<Receipt>) {
        self.receipts = receipts.into();
    }

    fn write(&mut self, frames: &dyn Frames) {
        match self.replay.extend(frames) {
            Ok(written) => self.done.push_back(written),
            Err(error) => self.error = Some(error),
        }
    }

    /// Writes the episodes that wait, until there is none or an error.
    fn write_episodes(&mut self, assembly: &mut Assembly<T>, per_write: Option<usize>) {
        let mut block = std::mem::replace(&mut self.block, Block::new(0));
        while assembly.waiting() > 0 && self.error.is_none() {
            assembly.emit(&mut block, &self.specs, per_write.unwrap_or(usize::MAX), false);
            let specs = self.specs.clone();
            self.write(&BlockFrames { block: &block, specs: &specs });
        }
        self.block = block;
    }
}

/// At a rollout's last tick: writes it, or the episodes that are complete with it.
pub(crate) fn write_replay<T: Task>(
    mut holder: ResMut<RolloutSlot<T>>,
    mut writer: ResMut<ReplayWriter<T>>,
    assembly: Option<ResMut<Assembly<T>>>,
    report: Res<TickReport<T>>,
) {
    let Some(rollout) = holder.get_mut().filter(|rollout| rollout.tick >= rollout.ticks) else { return };
    if report.failed() || !rollout.seal() {
        return;
    }
    let Some(block) = rollout.block.as_deref() else { return };
    let writer = &mut *writer;
    let (Some(episodes), Some(mut assembly)) = (writer.episodes, assembly) else {
        if writer.direct {
            let specs = writer.specs.clone();
            writer.write(&BlockFrames { block, specs: &specs });
        }
        return;
    };
    assembly.ingest(rollout, block, rollout.ticks);
    let early = assembly.let_go(block, &writer.specs, rollout.ticks, episodes.max_open);
    note_open(&rollout.monitor, &assembly, early);
    if writer.direct {
        writer.write_episodes(&mut assembly, episodes.per_write);
    }
}

/// Counts pieces that were let go, and what running episodes hold.
pub(crate) fn note_open<T: Task>(monitor: &Monitor, assembly: &Assembly<T>, early: usize) {
    let mut ledger = monitor.ledger();
    ledger.counters.early_pieces += early as u64;
    ledger.open = assembly.open_frames() as u64;
}
