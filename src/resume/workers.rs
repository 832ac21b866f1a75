//! Workers that deliver in step: each one's collector, and what the one in front holds.

use std::io::{Read, Write};

use super::{KIND, head::Fit, staged::Staged};
use crate::{
    checkpoint::{BlockReader, BlockWriter, Kind},
    collector::Collector,
    components::RolloutSlot,
    error::Error,
    fleet::Fleet,
    rollout::{Assembly, with_rollout},
    stats::Ledger,
    task::Task,
};

const WORKERS: Kind = Kind { magic: *b"glnworks", version: 1 };

impl<T: Task> Collector<T> {
    pub(super) fn save_workers(&self, fleet: &dyn Fleet<T>, to: &mut dyn Write) -> Result<(), Error> {
        let saved = fleet.on_all(|worker| {
            let mut bytes = Vec::new();
            let goes_on = worker.has_codec()?;
            worker.save_to(&mut bytes).map(|()| (bytes, goes_on))
        })?;
        let saved = saved.into_iter().collect::<Result<Vec<_>, Error>>()?;
        if self.joins() && saved.iter().any(|(_, goes_on)| !goes_on) {
            let problem = "episodes that are joined here need environments with a codec; legal: Env::STATE".into();
            return Err(Error::State { call: "save", problem });
        }
        let rollout = self.drive.world.resource::<RolloutSlot<T>>().get().map_or(0, |rollout| rollout.rollout);
        let mut to = BlockWriter::new(to, WORKERS)?;
        to.part(&(saved.len() as u64, rollout))?;
        to.part(&*self.drive.monitor.ledger())?;
        for (bytes, _) in saved {
            to.part(&(bytes.len() as u64))?;
            to.raw(&bytes)?;
        }
        let assembly = self.drive.world.get_resource::<Assembly<T>>();
        to.part(&assembly.is_some())?;
        if let Some(assembly) = assembly {
            assembly.save(&self.drive.specs, &mut to)?;
        }
        to.finish()
    }

    pub(super) fn load_workers(&mut self, from: &mut dyn Read, strict: bool) -> Result<Vec<String>, Error> {
        let wrong = |problem: String| Err(Error::Checkpoint(problem));
        if !strict {
            let problem = "workers are loaded whole or not at all; legal: load".into();
            return Err(Error::State { call: "load_partial", problem });
        }
        let Some(fleet) = &self.fleet else { return Ok(Vec::new()) };
        let mut from = BlockReader::new(from, WORKERS)?;
        let (workers, number): (u64, u64) = from.part()?;
        let own = fleet.here().len();
        if workers != own as u64 {
            return wrong(format!("it has {workers} workers; legal: {own}"));
        }
        let ledger: Ledger = from.part()?;
        let mut parts = Vec::with_capacity(own);
        for _ in 0..own {
            let (len, mut bytes) = (from.part()?, Vec::new());
            from.raw(len, &mut bytes)?;
            parts.push(bytes);
        }
        let joins = from.part::<bool>()?;
        if joins != self.joins() {
            return wrong(format!("it joins whole trajectories: {joins}; legal: {}", self.joins()));
        }
        let assembly = joins.then(|| Assembly::<T>::load(&self.drive.specs, &mut from)).transpose()?;
        from.finish()?;
        // First all are looked at, so that a wrong file changes none.
        let read = |worker: &mut Collector<T>, bytes: Vec<u8>| {
            let staged = Staged::read(worker, BlockReader::new(&mut &bytes[..], KIND)?, Fit::Whole)?;
            let rows = staged.rows.iter().flat_map(|rows| rows.rows.iter().map(|row| (row.id, row.step)));
            let rows: Vec<_> = rows.collect();
            Ok::<_, Error>((staged.ledger.counters.frames, rows, bytes))
        };
        let looked = fleet.on_each(parts, read)?.into_iter().collect::<Result<Vec<_>, Error>>()?;
        check_ledger(
            &ledger,
            looked.iter().map(|(frames, ..)| u128::from(*frames)).sum(),
            assembly.as_ref().map_or(0, Assembly::held),
        )?;
        if number >> 48 != 0 {
            return wrong(format!("rollout {number}: out of all reach"));
        }
        if let Some(assembly) = &assembly {
            let rows = looked.iter().flat_map(|(_, rows, _)| rows.iter().copied());
            assembly.check(rows.filter(|_| assembly.is_seated()))?;
        }
        let parts = looked.into_iter().map(|(.., bytes)| bytes).collect();
        let loaded = fleet.on_each(parts, |worker, bytes| worker.load_from(&mut &bytes[..]));
        let loaded = loaded.and_then(|all| all.into_iter().collect::<Result<(), _>>());
        loaded.inspect_err(|_| self.shutdown())?;
        *self.drive.monitor.ledger() = ledger;
        with_rollout::<T, _>(&mut self.drive.world, |_, rollout| rollout.rollout = number);
        if let Some(assembly) = assembly {
            self.drive.world.insert_resource(assembly);
        }
        Ok(Vec::new())
    }

    /// Whether rows stand still between two batches.
    pub(super) fn check_kind(&self, call: &'static str) -> Result<(), Error> {
        if !self.config.is_async() && self.config.async_batched.is_none() {
            return Ok(());
        }
        let problem =
            format!("rows are under way at all times ({}); legal: inline, or workers in step", self.config.kind());
        Err(Error::State { call, problem })
    }

    fn has_codec(&self) -> Result<bool, Error> {
        self.stepper.save_states(&self.drive.world, &self.entities).map(|states| states.is_some())
    }
}

/// What workers handed over was delivered, waits, or is discarded.
fn check_ledger(front: &Ledger, handed: u128, held: usize) -> Result<(), Error> {
    let (counters, lost) = (&front.counters, &front.counters.discarded);
    let fates = [counters.frames, front.in_flight, lost.reset, lost.shutdown, lost.fault].map(u128::from);
    if front.is_within_reach()
        && fates.iter().sum::<u128>() == handed
        && front.in_flight == held as u64
        && counters.stepped_frames == 0
    {
        return Ok(());
    }
    let problem = format!("counters: workers handed over {handed} frames, {held} wait, and {front:?}");
    Err(Error::Checkpoint(problem))
}
