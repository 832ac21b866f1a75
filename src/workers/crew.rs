//! The owner's side of its workers.

use std::{
    any::Any,
    convert::Infallible,
    marker::PhantomData,
    sync::{Arc, OnceLock},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::{
    Parcel, Patience, open,
    patience::awake,
    thread::{Call, Delivery, Ended, Job, Order, Panicked, Post, guarded},
};
use crate::error::{Error, discard};

/// How often a thread that unwinds is looked at.
const MOMENT: Duration = Duration::from_millis(1);

/// Workers, numbered from 0, that own a `J` each, and the one channel that their items come through.
pub(crate) struct Crew<J> {
    workers: Vec<Worker>,
    items: Receiver<Delivery>,
    sender: Sender<Delivery>,
    jobs: PhantomData<fn() -> J>,
}

struct Worker {
    number: usize,
    orders: Sender<Order>,
    /// With what becomes of its job; none once it was waited for.
    thread: Option<(JoinHandle<()>, Receiver<Ended>)>,
    died: Arc<OnceLock<String>>,
    alive: Receiver<Infallible>,
}

/// Makes a worker's job on its thread; none: the thread ends.
type Make = Box<dyn FnOnce() -> Option<Box<dyn Job>> + Send>;

impl Worker {
    fn start(worker: usize, life: u32, make: Make, _token: Arc<()>, items: Sender<Delivery>) -> Result<Self, Error> {
        let (orders, inbox) = unbounded();
        let (_alive, alive) = bounded(0);
        let (ended, end) = bounded(1);
        let died = Arc::<OnceLock<String>>::default();
        let post = Post { worker, life, orders: inbox, items, died: died.clone(), ended, _alive, _token };
        let work = move || {
            if let Some(job) = make() {
                post.run(job);
            }
        };
        let thread = Builder::new().name(format!("gleaner-worker-{worker}")).spawn(work);
        let thread = thread.map_err(|error| Error::worker(worker, format!("no thread: {error}")))?;
        Ok(Self { number: worker, orders, thread: Some((thread, end)), died, alive })
    }

    fn call(&self, call: Call) -> Pending {
        let (send, answer) = bounded(1);
        // A worker that is gone drops the call, and the answer's sender with it.
        let _ = self.orders.send(Order::Call(call, send));
        Pending { worker: self.number, answer, died: self.died.clone(), alive: self.alive.clone() }
    }

    /// Why its thread does not run any more; none if it does.
    fn death(&self) -> Option<Error> {
        let runs = self.thread.as_ref().is_some_and(|(thread, _)| !thread.is_finished());
        (!runs || self.died.get().is_some()).then(|| death(self.number, &self.died))
    }

    /// Waits for the end of a thread that was told to; none if somebody did before.
    fn end(&mut self, deadline: Instant) -> Option<Stopped<Box<dyn Job>>> {
        let (thread, end) = self.thread.take()?;
        let ended = end.recv_deadline(deadline);
        if matches!(ended, Err(RecvTimeoutError::Timeout)) {
            return Some(Stopped::Stuck);
        }
        let _ = thread.join();
        Some(match ended {
            Ok(Ended::Back(job)) => Stopped::Back(job),
            Ok(Ended::Closed(closed)) => Stopped::Closed(closed),
            Err(_) => Stopped::Died(death(self.number, &self.died)),
        })
    }
}

/// The answer to a call that a worker has yet to serve: an `R`.
pub(crate) struct Reply<R>(Pending, PhantomData<fn() -> R>);

struct Pending {
    worker: usize,
    answer: Receiver<Parcel>,
    died: Arc<OnceLock<String>>,
    alive: Receiver<Infallible>,
}

impl<R: 'static> Reply<R> {
    /// Waits for the answer. Errors: [`Error::Worker`] if the worker ended or the patience did.
    pub(crate) fn wait(self, patience: &mut Patience) -> Result<R, Error> {
        self.0.wait(patience).map(|answer| open(answer))
    }
}

impl Pending {
    fn wait(self, patience: &mut Patience) -> Result<Parcel, Error> {
        patience.wait(&self.answer).map_err(|error| match error {
            RecvTimeoutError::Timeout => Error::worker(self.worker, "it did not answer before the deadline"),
            RecvTimeoutError::Disconnected => {
                // The call unwinds before the thread can say why.
                while self.died.get().is_none() && self.alive.recv_timeout(MOMENT) == Err(RecvTimeoutError::Timeout) {}
                death(self.worker, &self.died)
            }
        })
    }
}

fn death(worker: usize, died: &OnceLock<String>) -> Error {
    match died.get() {
        Some(message) => Error::worker(worker, format!("it panicked: {message}")),
        None => Error::worker(worker, "its thread ended"),
    }
}

impl<J: Job> Crew<J> {
    /// Starts a thread for each job, which holds the job's token while it runs. At most `capacity` items wait in the
    /// channel. Errors: the system has no thread.
    pub(crate) fn start(jobs: impl IntoIterator<Item = (J, Arc<()>)>, capacity: usize) -> Result<Self, Error> {
        let (sender, items) = bounded(capacity);
        let start = |(worker, (job, token))| {
            let make = || -> Option<Box<dyn Job>> { Some(Box::new(job)) };
            Worker::start(worker, 0, Box::new(make), token, sender.clone())
        };
        let workers = jobs.into_iter().enumerate().map(start).collect::<Result<_, _>>()?;
        Ok(Self { workers, items, sender, jobs: PhantomData })
    }

    /// Starts another thread in a worker's place, which makes its job itself; gives what `make` says beside it. The thread
    /// before is told to end with what it owns, and left to itself; what it still sends is of an older `life`. Errors:
    /// those of `make`; [`Error::Worker`] if it panicked, if the deadline is over first, when it is left to itself, and if
    /// the system has no thread.
    pub(crate) fn replace<R: Send + 'static>(
        &mut self,
        worker: usize,
        life: u32,
        make: impl FnOnce() -> Result<(J, R), Error> + Send + 'static,
        token: Arc<()>,
        mut patience: Patience,
    ) -> Result<R, Error> {
        let (tell, told) = bounded(1);
        let make = move || -> Option<Box<dyn Job>> {
            let panicked = |Panicked(message)| Err(Error::worker(worker, format!("it panicked: {message}")));
            let (job, said) = match guarded(make).unwrap_or_else(panicked) {
                Ok((job, said)) => (Some(job), Ok(said)),
                Err(error) => (None, Err(error)),
            };
            // Nobody wants what came too late.
            if tell.send(said).is_err() {
                discard(job);
                return None;
            }
            Some(Box::new(job?))
        };
        let next = Worker::start(worker, life, Box::new(make), token, self.sender.clone())?;
        let late = |_| Error::worker(worker, "its rows were not built before the deadline");
        let said = patience.wait(&told).map_err(late)??;
        let before = std::mem::replace(&mut self.workers[worker], next);
        let _ = before.orders.send(Order::Stop);
        Ok(said)
    }

    /// Has a worker call `work`, between two items.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        worker: usize,
        work: impl FnOnce(&mut J) -> R + Send + 'static,
    ) -> Reply<R> {
        let call = move |job: &mut dyn Job| -> Parcel {
            let job: &mut dyn Any = job;
            Box::new(work(job.downcast_mut().unwrap_or_else(|| unreachable!("all jobs are of one type"))))
        };
        Reply(self.workers[worker].call(Box::new(call)), PhantomData)
    }

    /// Ends a worker's thread as soon as it sees its orders, and does not wait for it.
    pub(crate) fn dismiss(&self, worker: usize) {
        let _ = self.workers[worker].orders.send(Order::Stop);
    }

    /// Lets a worker make items, or stops it from making more.
    pub(crate) fn produce(&self, worker: usize, on: bool) {
        let _ = self.workers[worker].orders.send(Order::Produce(on));
    }

    /// The next thing that any worker sends on its own; none within `patience`.
    pub(crate) fn receive(&self, patience: Duration) -> Option<Delivery> {
        awake(&self.items).ok().or_else(|| self.items.recv_timeout(patience).ok())
    }

    /// Why a worker's thread does not run any more; none if it does.
    pub(crate) fn death(&self, worker: usize) -> Option<Error> {
        self.workers[worker].death()
    }

    /// Ends all threads, and what they own with them. Those that are stuck in user code beyond the deadline are left to
    /// themselves. Later calls find nothing.
    pub(crate) fn stop(&mut self, deadline: Instant) -> Vec<(usize, Stopped<J>)> {
        self.end(|| Order::Stop, deadline)
    }

    /// Ends all threads. What they own comes back, unless it panicked, or is stuck as in [`stop`](Self::stop).
    pub(crate) fn give_back(&mut self, deadline: Instant) -> Vec<(usize, Stopped<J>)> {
        self.end(|| Order::GiveBack, deadline)
    }

    fn end(&mut self, order: impl Fn() -> Order, deadline: Instant) -> Vec<(usize, Stopped<J>)> {
        for worker in &self.workers {
            let _ = worker.orders.send(order());
        }
        let end = |worker: &mut Worker| {
            let stopped = match worker.end(deadline)? {
                Stopped::Back(job) => Stopped::Back(open(job)),
                Stopped::Closed(closed) => Stopped::Closed(closed),
                Stopped::Died(error) => Stopped::Died(error),
                Stopped::Stuck => Stopped::Stuck,
            };
            Some((worker.number, stopped))
        };
        self.workers.iter_mut().filter_map(end).collect()
    }
}

/// How a worker ended.
pub(crate) enum Stopped<J> {
    /// As it was told: this is what it owned.
    Back(J),
    /// As it was told, with what it owned; what went wrong there.
    Closed(Result<(), Error>),
    /// By a panic.
    Died(Error),
    /// Not at all: its thread is detached.
    Stuck,
}
