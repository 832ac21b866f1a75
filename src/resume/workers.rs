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

const WORKERS: Kind = Kind { magic: *b"glnworks", version: 2 };

impl<T: Task> Collector<T> {
    pub(super) fn save_workers(&self, fleet: &dyn Fleet<T>, to: &mut dyn Write) -> Result<(), Error> {
        let (monitor, here) = (&self.drive.monitor, fleet.here());
        let before = here.iter().map(|(worker, _)| monitor.given_up(*worker, true)).collect();
        let save = |worker: &mut Collector<T>, before: Ledger| {
            let (mut bytes, mut ledger) = (Vec::new(), worker.drive.monitor.ledger().clone());
            ledger.follow(&before);
            let goes_on = worker.has_codec()?;
            worker.save_rows(&ledger, &mut bytes).map(|()| (bytes, goes_on))
        };
        let saved = fleet.on_each(before, save)?.into_iter().collect::<Result<Vec<_>, Error>>()?;
        if self.joins() && saved.iter().any(|(_, goes_on)| !goes_on) {
            let problem = "episodes that are joined here need environments with a codec; legal: Env::STATE".into();
            return Err(Error::State { call: "save", problem });
        }
        let rollout = self.drive.world.resource::<RolloutSlot<T>>().get().map_or(0, |rollout| rollout.rollout);
        let lives = fleet.lives();
        let mut to = BlockWriter::new(to, WORKERS)?;
        to.part(&(lives.len() as u64, rollout))?;
        to.part(&*monitor.ledger())?;
        let mut saved = saved.into_iter();
        for (worker, life) in lives.into_iter().enumerate() {
            let works = here.iter().any(|(own, _)| *own == worker);
            to.part(&(life, (!works).then(|| monitor.given_up(worker, false))))?;
            if works && let Some((bytes, _)) = saved.next() {
                to.part(&(bytes.len() as u64))?;
                to.raw(&bytes)?;
            }
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
        let own = fleet.lives().len();
        if workers != own as u64 {
            return wrong(format!("it has {workers} workers; legal: {own}"));
        }
        let ledger: Ledger = from.part()?;
        let (mut lives, mut parts) = (Vec::with_capacity(own), Vec::with_capacity(own));
        for worker in 0..own {
            let (life, lost): (u32, Option<Ledger>) = from.part()?;
            if life >> 16 != 0 {
                return wrong(format!("worker {worker} was restarted {life} times: out of all reach"));
            }
            if lost.is_none() {
                let (len, mut bytes) = (from.part()?, Vec::new());
                from.raw(len, &mut bytes)?;
                parts.push((worker, bytes));
            }
            lives.push((life, lost));
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
        let here: Vec<_> = parts.iter().map(|(worker, _)| *worker).collect();
        let looked = fleet.on(parts, read)?.into_iter().collect::<Result<Vec<_>, Error>>()?;
        if looked.is_empty() {
            return wrong("all its workers are lost; legal: at least one that is not".into());
        }
        let lost = || lives.iter().filter_map(|(_, lost)| lost.as_ref());
        lost().try_for_each(check_lost)?;
        let handed = looked.iter().map(|(frames, ..)| *frames).chain(lost().map(|lost| lost.counters.frames));
        check_ledger(&ledger, handed.map(u128::from).sum(), assembly.as_ref().map_or(0, Assembly::held))?;
        if number >> 48 != 0 {
            return wrong(format!("rollout {number}: out of all reach"));
        }
        if let Some(assembly) = assembly.as_ref().filter(|assembly| assembly.is_seated()) {
            let mut rows: Vec<_> = (0..self.rows()).map(|_| Default::default()).collect();
            let ranges = self.config.ranges();
            for (worker, (_, own, _)) in here.iter().zip(&looked) {
                let first = ranges[*worker].start as usize;
                rows[first..first + own.len()].copy_from_slice(own);
            }
            assembly.check(rows.into_iter())?;
        }
        let parts = here.into_iter().zip(looked.into_iter().map(|(.., bytes)| bytes));
        let loaded = fleet.on(parts, |worker, bytes| worker.load_from(&mut &bytes[..]));
        let loaded = loaded.and_then(|all| all.into_iter().collect::<Result<(), _>>());
        loaded.inspect_err(|_| self.shutdown())?;
        if let Some(fleet) = &mut self.fleet {
            fleet.follow_lives(lives);
        }
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

/// A worker that is lost has nothing in flight.
fn check_lost(ledger: &Ledger) -> Result<(), Error> {
    let flying = || (ledger.in_flight + ledger.sent > 0).then(|| "it has frames in flight".into());
    let problem = ledger.problem().or_else(flying);
    problem.map_or(Ok(()), |problem| Err(Error::Checkpoint(format!("counters of a worker that is lost: {problem}"))))
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
