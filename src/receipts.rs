//! What a collector with a replay buffer yields.

use crate::{
    collector::{Collector, State},
    error::Error,
    replay::{Replay, Written},
    replay_writer::ReplayWriter,
    task::Task,
};

/// A write to a replay buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Receipt {
    /// Number of the write among this collector's, from 0.
    pub index: u64,
    /// Frames that were stored, after post-processing.
    pub frames: u64,
    /// Episodes whose end was among them.
    pub trajectories: u64,
    /// Frames that the buffer had got with this write, also of other collectors.
    pub write_count: u64,
}

impl Receipt {
    pub(crate) fn new(index: u64, written: Written) -> Self {
        let Written { frames, trajectories, write_count, .. } = written;
        Self { index, frames, trajectories, write_count }
    }
}

impl<T: Task> Collector<T> {
    /// The buffer that this collector writes to; see [`CollectorBuilder::replay`](crate::config::CollectorBuilder::replay).
    pub fn replay(&self) -> Option<&Replay<T>> {
        self.drive.world.get_resource::<ReplayWriter<T>>().map(|writer| &writer.replay)
    }

    /// Collects until something was written to the replay buffer: a rollout, or `trajs_per_write` episodes. None at the
    /// end of the budget and after shutdown.
    ///
    /// An error ends the collection after a clean shutdown, except [`Error::ArenasHeld`] and [`Error::WeightsSource`].
    /// Errors: those of iteration; [`Error::Timeout`] if the buffer took too long; [`Error::State`] without a buffer.
    pub fn next_receipt(&mut self) -> Option<Result<Receipt, Error>> {
        if self.state != State::Ready {
            return None;
        }
        let polled = self.poll_receipt();
        self.yielded(polled)
    }

    /// Iterates over [`next_receipt`](Self::next_receipt).
    ///
    /// ```
    /// use gleaner::prelude::*;
    ///
    /// let replay = Replay::<CartPole>::new(10_000)?;
    /// let mut collector = Collector::<CartPole>::builder().rows(4).total_frames(2_000).replay(&replay).build()?;
    /// for receipt in collector.receipts() {
    ///     assert_eq!(receipt?.write_count, replay.write_count());
    /// }
    /// assert_eq!(replay.len(), 2_000);
    /// # Ok::<(), gleaner::Error>(())
    /// ```
    pub fn receipts(&mut self) -> impl Iterator<Item = Result<Receipt, Error>> {
        std::iter::from_fn(|| self.next_receipt())
    }

    fn poll_receipt(&mut self) -> Result<Option<Receipt>, Error> {
        // Frames that come as they are ready are written when they are as many as asked for: not by a turn's system.
        let flat = self.config.takes_as_they_come();
        let direct = self.hooks.post_process.is_none() && self.hooks.post_collect.is_none() && !flat;
        let Some(mut writer) = self.drive.writer() else {
            let problem =
                "there is no replay buffer; give one to CollectorBuilder::replay, or iterate over batches".into();
            return Err(Error::State { call: "receipts", problem });
        };
        writer.direct = direct && self.config.workers == 0;
        if self.config.workers > 0 {
            let Some(batch) = self.produce()? else { return Ok(None) };
            let (batch, written) = self.deliver(batch)?;
            return Ok(written.map(|written| Receipt::new(batch.index(), written)));
        }
        loop {
            let receipt = self.drive.writer().map(|mut writer| writer.take_receipt()).transpose()?.flatten();
            if receipt.is_some() {
                self.begun = false;
                return Ok(receipt);
            }
            let batch = if flat {
                let Some(batch) = self.flat_batch()? else { return Ok(None) };
                batch
            } else if !direct && self.waiting() > 0 {
                self.joined(self.config.trajs_per_write.unwrap_or(usize::MAX), false)?
            } else if self.ticks_left() == 0 {
                return Ok(None);
            } else {
                let rolled = self.roll();
                let monitor = self.drive.monitor.clone();
                if let Some(mut writer) = self.drive.writer() {
                    writer.count(&mut monitor.ledger());
                }
                let block = rolled?;
                if direct || self.joins() {
                    self.drive.pool.give_back(block);
                    let wrote = self.drive.writer().is_some_and(|writer| writer.has_receipt());
                    if !wrote && self.leaves_off(1) {
                        return Ok(None);
                    }
                    continue;
                }
                self.wrap(block)
            };
            let (batch, written) = self.deliver(batch)?;
            return Ok(written.map(|written| Receipt::new(batch.index(), written)));
        }
    }
}
