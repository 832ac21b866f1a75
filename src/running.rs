//! Collecting in the background: into a replay buffer, while the caller learns from it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    collector::{Collector, State},
    components::WorkerStatus,
    error::Error,
    policies::of_worker,
    replay::Replay,
    stats::{Monitor, Stats},
    task::Task,
    weights::{Models, WeightsHandle},
    workers::{Crew, Job, Made, Patience, Stopped, until},
};

/// How often a wait looks whether it is over.
const LOOK: Duration = Duration::from_millis(1);

/// A collector on a thread of its own, by [`Collector::start`]. It writes to its replay buffer until its budget is used
/// up, an error, [`shutdown`](Self::shutdown), or until this is dropped.
///
/// ```
/// use std::time::Duration;
///
/// use gleaner::prelude::*;
///
/// let replay = Replay::<CartPole>::new(10_000)?;
/// let collector = Collector::<CartPole>::builder().rows(4).workers(2).replay(&replay).build()?;
/// let mut running = collector.start()?;
/// running.wait_written(1_000, Duration::from_secs(60))?;
/// {
///     let _paused = running.pause(Duration::from_secs(60))?;
///     let written = replay.write_count();
///     // Nothing is written here.
///     assert_eq!(replay.write_count(), written);
/// }
/// let collector = running.shutdown(Duration::from_secs(60))?;
/// assert_eq!(collector.stats().written_frames, Some(replay.write_count()));
/// # Ok::<(), gleaner::Error>(())
/// ```
pub struct Running<T: Task> {
    crew: Crew<Driver<T>>,
    over: Arc<Mutex<Option<Result<(), Error>>>>,
    passed: Arc<Mutex<Option<Error>>>,
    monitor: Monitor,
    replay: Replay<T>,
    models: Models,
    /// By worker, if each has weights of its own.
    worker_models: Vec<Models>,
    running: bool,
}

/// What the thread does.
struct Driver<T: Task> {
    collector: Collector<T>,
    over: Arc<Mutex<Option<Result<(), Error>>>>,
    /// An error that the collection went on after.
    passed: Arc<Mutex<Option<Error>>>,
}

impl<T: Task> Job for Driver<T> {
    fn produce(&mut self) -> Made {
        self.collector.stepwise = true;
        let next = self.collector.next_receipt();
        self.collector.stepwise = false;
        let over = match next {
            Some(Ok(_)) => return Made::More,
            // A batch that somebody holds will be dropped.
            Some(Err(Error::ArenasHeld { .. })) => return Made::Nothing,
            Some(Err(error)) if error.passes() => {
                *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return Made::More;
            }
            Some(Err(error)) => Err(error),
            None if self.collector.state == State::Ready => return Made::More,
            None => Ok(()),
        };
        // Told to go on, it does not forget what ended it.
        self.over.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(over);
        Made::End
    }
}

impl<T: Task> Collector<T> {
    /// Collects on a thread of its own from now on. Errors: [`Error::State`] without a replay buffer, and after shutdown;
    /// the system has no thread.
    pub fn start(self) -> Result<Running<T>, Error> {
        let Some(replay) = self.replay().cloned() else {
            let problem = "there is no replay buffer to write to; give one to CollectorBuilder::replay".into();
            return Err(Error::State { call: "start", problem });
        };
        let over = Arc::<Mutex<_>>::default();
        let (monitor, models, worker_models) = (self.monitor(), self.models(), self.worker_models.clone());
        let passed = Arc::<Mutex<_>>::default();
        let driver = Driver { collector: self, over: over.clone(), passed: passed.clone() };
        // Of what the thread sends only its end arrives.
        let crew = Crew::start([(driver, Arc::default())], 1)?;
        crew.produce(0, true);
        Ok(Running { crew, over, passed, monitor, replay, models, worker_models, running: true })
    }
}

impl<T: Task> Running<T> {
    /// Whether it collects, or is paused: neither the budget is used up nor was there an error.
    pub fn is_running(&self) -> bool {
        self.running && self.over().is_none() && self.crew.death(0).is_none()
    }

    /// The counters now.
    pub fn stats(&self) -> Stats {
        self.monitor.stats()
    }

    /// Reads the counters from other threads.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// The buffer that is written to.
    pub fn replay(&self) -> &Replay<T> {
        &self.replay
    }

    /// Publishes new weights; none if the policy is no network. Of several policies the first one's.
    pub fn weights(&self) -> Option<WeightsHandle> {
        self.weights_of(0)
    }

    /// Publishes new weights of policy number `policy`.
    pub fn weights_of(&self, policy: usize) -> Option<WeightsHandle> {
        self.models.get(policy).ok().cloned()
    }

    /// Publishes new weights of several policies as one epoch.
    pub fn models(&self) -> Models {
        self.models.clone()
    }

    /// Publishes new weights to worker number `worker` alone, as
    /// [`Collector::models_of_worker`](crate::collector::Collector::models_of_worker) does, with its errors.
    pub fn models_of_worker(&self, worker: usize) -> Result<Models, Error> {
        of_worker(&self.worker_models, worker)
    }

    /// Whether nothing is wrong: `Ok(())` while it runs and behind the end of its budget. A learner calls it where it
    /// would wait for data. Errors: what stopped it, once; [`Error::WeightsSource`], once, after which it goes on.
    pub fn check(&mut self) -> Result<(), Error> {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner).take();
        passed.map_or(Ok(()), Err).and_then(|()| self.stopped())
    }

    /// What stopped it, once.
    fn stopped(&mut self) -> Result<(), Error> {
        if let Some(over) = self.over.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            return std::mem::replace(over, Ok(()));
        }
        match self.crew.death(0) {
            Some(error) if std::mem::replace(&mut self.running, false) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until all workers answered, each between two of its rollouts, and act by weights at least as new as the newest
    /// ones at this call. Errors: [`Error::Timeout`]; at once what stopped the collection, and [`Error::State`] if it ended
    /// before they act.
    pub fn wait_ready(&mut self, deadline: Duration) -> Result<(), Error> {
        let end = until(deadline);
        let newest: Vec<_> =
            self.worker_models.iter().chain([&self.models]).map(|own| (own.clone(), own.versions())).collect();
        self.on_driver(deadline, |driver| driver.collector.answer())??;
        for (models, versions) in newest {
            while models.wait_adopted(&versions, LOOK).is_err() {
                let running = self.is_running();
                self.check()?;
                if !running {
                    let problem = "the collection ended before the newest weights acted".into();
                    return Err(Error::State { call: "wait_ready", problem });
                }
                if Instant::now() >= end {
                    return Err(Error::Timeout { what: "adoption of the newest weights", deadline });
                }
            }
        }
        Ok(())
    }

    /// Waits until the buffer has got `frames` frames, of all who write to it. Errors: [`Error::Timeout`]; at once what
    /// stopped the collection, and [`Error::State`] if it ended before.
    pub fn wait_written(&mut self, frames: u64, deadline: Duration) -> Result<(), Error> {
        let end = until(deadline);
        while self.replay.write_count() < frames {
            let running = self.is_running();
            self.check()?;
            if !running && self.replay.write_count() < frames {
                let problem = format!("the collection ended before the buffer had got {frames} frames");
                return Err(Error::State { call: "wait_written", problem });
            }
            if Instant::now() >= end {
                return Err(Error::Timeout { what: "frames in the replay buffer", deadline });
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Lets the rollout in progress be written, then holds everything still until the guard is dropped: nothing is
    /// stepped, nothing is written, no CPU is used. Errors: [`Error::Timeout`], and it goes on; what stopped it.
    pub fn pause(&mut self, deadline: Duration) -> Result<Paused<'_, T>, Error> {
        self.crew.produce(0, false);
        let held = self.on_driver(deadline, |driver| driver.collector.hold()).flatten();
        match held.and_then(|()| self.stopped()) {
            Ok(()) => Ok(Paused { running: self }),
            Err(error) => {
                self.crew.produce(0, true);
                Err(error)
            }
        }
    }

    /// Ends the collection and gives the collector back, which can be iterated or started again; its workers stand still
    /// until then. Errors: what stopped it; [`Error::Timeout`] if the thread is still in user code when `timeout` is over,
    /// and is left to itself.
    pub fn shutdown(mut self, timeout: Duration) -> Result<Collector<T>, Error> {
        self.running = false;
        let stopped = self.crew.give_back(until(timeout)).pop();
        self.stopped()?;
        match stopped {
            Some((_, Stopped::Back(mut driver))) => {
                driver.collector.hold()?;
                Ok(driver.collector)
            }
            Some((_, Stopped::Died(error))) => Err(error),
            Some((_, Stopped::Stuck)) => {
                Err(Error::Timeout { what: "the end of the collector's thread", deadline: timeout })
            }
            Some((_, Stopped::Closed(_))) | None => {
                Err(Error::State { call: "shutdown", problem: "the thread is gone".into() })
            }
        }
    }

    fn over(&self) -> Option<bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Result::is_ok)
    }

    fn on_driver<R: Send + 'static>(
        &mut self,
        deadline: Duration,
        work: impl FnOnce(&mut Driver<T>) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let answer = self.crew.call(0, work).wait(&mut Patience::new(deadline));
        answer.or_else(|_| {
            self.stopped()?;
            Err(Error::Timeout { what: "an answer of the collector's thread", deadline })
        })
    }
}

impl<T: Task> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("Running")
            .field("is_running", &self.is_running())
            .field("frames", &stats.frames)
            .field("written_frames", &stats.written_frames.unwrap_or(0))
            .finish_non_exhaustive()
    }
}

impl<T: Task> Drop for Running<T> {
    fn drop(&mut self) {
        // The thread ends with its rollout; one that is stuck in user code is not waited for.
        self.crew.stop(until(Duration::from_secs(10)));
    }
}

/// Holds a [`Running`] collector still; it goes on when this is dropped.
pub struct Paused<'r, T: Task> {
    running: &'r mut Running<T>,
}

impl<T: Task> Paused<'_, T> {
    /// Does something with the collector, between two of its rollouts: save it, reset rows, look at its world. Errors:
    /// [`Error::Timeout`].
    pub fn with<R: Send + 'static>(
        &mut self,
        deadline: Duration,
        work: impl FnOnce(&mut Collector<T>) -> R + Send + 'static,
    ) -> Result<R, Error> {
        self.running.on_driver(deadline, |driver| work(&mut driver.collector))
    }
}

impl<T: Task> Drop for Paused<'_, T> {
    fn drop(&mut self) {
        self.running.crew.produce(0, true);
    }
}

impl<T: Task> Collector<T> {
    /// Whether all workers answer, between two of their rollouts.
    fn answer(&mut self) -> Result<(), Error> {
        self.fleet.as_ref().map_or(Ok(()), |fleet| fleet.on_all(|_| ()).map(drop))
    }

    /// Lets workers stand still between two rollouts until the next batch is asked for.
    fn hold(&mut self) -> Result<(), Error> {
        if let Some(fleet) = &mut self.fleet {
            fleet.set_producing(false);
        }
        self.answer()
    }

    /// Has every worker do something with its own collector, between two of its rollouts: read a component of its rows,
    /// change a resource. The answers are in the workers' order; inline it is done with this collector. No frame is lost
    /// by it. Errors: [`Error::Worker`] for one that does not answer before `worker_deadline`.
    pub fn map_workers<R: Send + 'static>(
        &mut self,
        work: impl Fn(&mut Collector<T>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        match &self.fleet {
            Some(fleet) => fleet.on_all(work),
            None => Ok(vec![work(self)]),
        }
    }

    /// What became of each worker, as of now; empty inline.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.fleet.as_ref().map_or_else(Vec::new, |fleet| fleet.statuses())
    }
}
