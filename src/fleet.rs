//! A collector whose rows are spread over workers: threads that each own a collector of some of the rows.
//!
//! In step, all fill one rollout part by part; else each sends its batches when they are done. Either way the collector
//! in front delivers, writes and counts as one without workers does.

mod build;
mod child;
mod faults;
mod member;
mod pace;
mod threads;

use std::{ops::Range, time::Duration};

pub(crate) use build::build;
pub(crate) use child::Budget;

use crate::{
    collector::Collector,
    components::WorkerStatus,
    error::Error,
    rollout::{Batch, Block, Rollout},
    stats::{Ledger, Monitor},
    task::Task,
    workers::{Parcel, open},
};

/// What came of waiting for a batch.
pub(crate) enum Received<T: Task> {
    /// A batch, and the counters of its worker.
    Batch(Monitor, Batch<T>),
    /// None yet.
    Nothing,
    /// None any more.
    Through,
}

/// Something that a worker does with its collector, between two of its rollouts.
type Errand<T> = Box<dyn FnOnce(&mut Collector<T>) -> Parcel + Send>;

/// The workers of a collector, as it sees them: an object, so that tasks without workers are not compiled for them.
pub(crate) trait Fleet<T: Task>: Send {
    /// The workers that are worked with yet, and their rows.
    fn here(&self) -> Vec<(usize, Range<u32>)>;

    /// Rows of the workers that are worked with yet.
    fn live_rows(&self) -> usize;

    fn statuses(&self) -> Vec<WorkerStatus>;

    /// By worker: how often it was restarted.
    fn lives(&self) -> Vec<u32>;

    /// Goes on where workers stood that were restarted so often, or lost with these counters.
    fn follow_lives(&mut self, lives: Vec<(u32, Option<Ledger>)>);

    /// Collects a rollout of `ticks` ticks of all workers, whose last tick steps as many rows as `left` frames allow.
    /// Returns it with the rows of workers that were lost meanwhile.
    fn roll(
        &mut self,
        front: &Monitor,
        rollout: &mut Rollout<T>,
        block: Box<Block<T>>,
        ticks: usize,
        left: u64,
    ) -> Result<(Box<Block<T>>, Vec<Range<u32>>), Error>;

    /// The next batch that any worker sends. Waits until there is one, unless it is to look only for a moment.
    fn receive(&mut self, front: &Monitor, only_look: bool) -> Result<Received<T>, Error>;

    /// Has workers run errands; the answers in the errands' order.
    fn send(&self, errands: Vec<(usize, Errand<T>)>) -> Result<Vec<Parcel>, Error>;

    /// Lets workers that deliver on their own go on, or stand still between two batches.
    fn set_producing(&mut self, on: bool);

    /// Ends all threads; errors of workers that did not end as they were told.
    fn stop(&mut self, timeout: Duration) -> Vec<Error>;
}

impl<T: Task> dyn Fleet<T> + '_ {
    /// Has all workers do something between two of their rollouts; the answers in their order.
    pub(crate) fn on_all<R: Send + 'static>(
        &self,
        work: impl Fn(&mut Collector<T>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        self.on_each(self.here().iter().map(|_| ()).collect(), move |worker, ()| work(worker))
    }

    /// The same with something for each, in their order.
    pub(crate) fn on_each<A: Send + 'static, R: Send + 'static>(
        &self,
        given: Vec<A>,
        work: impl Fn(&mut Collector<T>, A) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        self.on(self.here().into_iter().zip(given).map(|((worker, _), given)| (worker, given)), work)
    }

    /// The same with the rows of each that are among `rows`; workers without any are left alone.
    pub(crate) fn on_rows<R: Send + 'static>(
        &self,
        rows: &[u32],
        work: impl Fn(&mut Collector<T>, &[u32]) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        let own = |range: Range<u32>| rows.iter().copied().filter(|row| range.contains(row)).collect::<Vec<_>>();
        let given = self.here().into_iter().map(|(worker, range)| (worker, own(range)));
        self.on(given.filter(|(_, own)| !own.is_empty()), move |worker, own| work(worker, &own))
    }

    /// The same with something for some, given with their numbers.
    pub(crate) fn on<A: Send + 'static, R: Send + 'static>(
        &self,
        given: impl IntoIterator<Item = (usize, A)>,
        work: impl Fn(&mut Collector<T>, A) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        let errand = |(worker, given)| {
            let work = work.clone();
            let errand: Errand<T> = Box::new(move |collector| Box::new(work(collector, given)));
            (worker, errand)
        };
        Ok(self.send(given.into_iter().map(errand).collect())?.into_iter().map(|answer| open(answer)).collect())
    }
}
