//! Threads that do jobs of user code, and that may be given up.
//!
//! A thread that is stuck in user code cannot be stopped. It is given up: another takes its place, and what it comes back
//! with is dropped. Its own lock decides whether a result or the deadline was first, so that each job has one of the two.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use crate::error::{Error, discard};

/// What a job is known by.
pub(super) type Ticket = u64;

/// What a thread does.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Nothing,
    Job(Ticket, Instant),
    /// Nobody waits for it any more.
    GivenUp,
}

struct Member {
    doing: Arc<Mutex<Doing>>,
    /// Is disconnected when the thread ends.
    ended: Receiver<()>,
    handle: JoinHandle<()>,
}

/// What all threads of a crew share.
struct Shared<J, R> {
    jobs: Mutex<Receiver<(Ticket, J)>>,
    work: Box<dyn Fn(J) -> R + Send + Sync>,
    /// Called for each result that comes after its thread was given up.
    late: Box<dyn Fn() + Send + Sync>,
    closing: AtomicBool,
}

/// Threads that take jobs `J` from one queue and give results `R`.
pub(super) struct Crew<J, R> {
    shared: Arc<Shared<J, R>>,
    /// None once it is closed.
    jobs: Option<Sender<(Ticket, J)>>,
    results: Receiver<R>,
    done: Sender<R>,
    members: Vec<Member>,
    spawned: usize,
}

/// How a crew ended.
pub(super) struct Closed<R> {
    /// Threads that were still in user code.
    pub given_up: u64,
    /// Results that nobody had taken.
    pub results: Vec<R>,
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<J: Send + 'static, R: Send + 'static> Crew<J, R> {
    /// `threads` threads. `work` must not panic.
    pub(super) fn new(
        threads: usize,
        work: impl Fn(J) -> R + Send + Sync + 'static,
        late: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let (jobs, queue) = channel();
        let (done, results) = channel();
        let shared = Arc::new(Shared {
            jobs: Mutex::new(queue),
            work: Box::new(work),
            late: Box::new(late),
            closing: AtomicBool::new(false),
        });
        let mut crew = Self { shared, jobs: Some(jobs), results, done, members: Vec::new(), spawned: 0 };
        for _ in 0..threads {
            let member = crew.spawn()?;
            crew.members.push(member);
        }
        Ok(crew)
    }

    fn spawn(&mut self) -> Result<Member, Error> {
        let doing = Arc::new(Mutex::new(Doing::Nothing));
        let (alive, ended) = channel();
        let (shared, done, own) = (self.shared.clone(), self.done.clone(), doing.clone());
        let thread = Builder::new().name(format!("gleaner-env-{}", self.spawned));
        let spawned = thread.spawn(move || {
            let _alive: Sender<()> = alive;
            shared.serve(&own, &done);
        });
        let handle = spawned.map_err(|source| {
            Error::config("async_batched.threads", self.spawned + 1, format!("what the system allows: {source}"))
        })?;
        self.spawned += 1;
        Ok(Member { doing, ended, handle })
    }

    /// Queues a job.
    pub(super) fn send(&self, ticket: Ticket, job: J) {
        if let Some(jobs) = &self.jobs {
            // The receiver lives as long as the crew.
            let _ = jobs.send((ticket, job));
        }
    }

    /// The next result, if it comes before `until`.
    pub(super) fn receive(&self, until: Instant) -> Option<R> {
        let left = until.saturating_duration_since(Instant::now());
        self.results.recv_timeout(left).ok()
    }

    /// The next result, if there is one.
    pub(super) fn try_receive(&self) -> Option<R> {
        self.results.try_recv().ok()
    }

    /// When the first job that runs has taken `deadline`; none can earlier.
    pub(super) fn next_deadline(&self, deadline: Duration) -> Instant {
        let begun = self.members.iter().filter_map(|member| match *lock(&member.doing) {
            Doing::Job(_, since) => Some(since),
            _ => None,
        });
        begun.min().unwrap_or_else(Instant::now) + deadline
    }

    /// Gives up threads whose job has taken longer than `deadline`, puts others in their places and says which jobs they
    /// were.
    pub(super) fn give_up(&mut self, deadline: Duration) -> Result<Vec<Ticket>, Error> {
        let (now, mut lost) = (Instant::now(), Vec::new());
        for i in 0..self.members.len() {
            let mut doing = lock(&self.members[i].doing);
            let Doing::Job(ticket, since) = *doing else { continue };
            if now.saturating_duration_since(since) < deadline {
                continue;
            }
            *doing = Doing::GivenUp;
            drop(doing);
            lost.push(ticket);
            self.members[i] = self.spawn()?;
        }
        Ok(lost)
    }

    /// Ends the threads: waits for them until `deadline` is over and leaves those that are still in user code to
    /// themselves. Jobs that wait are dropped.
    pub(super) fn close(&mut self, deadline: Duration) -> Closed<R> {
        let until = Instant::now() + deadline;
        self.shared.closing.store(true, Relaxed);
        self.jobs = None;
        let mut given_up = 0;
        for member in self.members.drain(..) {
            let left = until.saturating_duration_since(Instant::now());
            let stuck = matches!(member.ended.recv_timeout(left), Err(std::sync::mpsc::RecvTimeoutError::Timeout));
            if stuck {
                *lock(&member.doing) = Doing::GivenUp;
                given_up += 1;
            } else {
                let _ = member.handle.join();
            }
        }
        // If all are stuck, nobody is left to take them.
        lock(&self.shared.jobs).try_iter().for_each(discard);
        Closed { given_up, results: self.results.try_iter().collect() }
    }
}

impl<J, R> Shared<J, R> {
    /// A thread's life: jobs until there are none any more, or until it was given up.
    fn serve(&self, doing: &Mutex<Doing>, done: &Sender<R>) {
        loop {
            // One waits for a job, the others for the lock: nobody spins.
            let next = lock(&self.jobs).recv();
            let Ok((ticket, job)) = next else { return };
            if self.closing.load(Relaxed) {
                discard(job);
                continue;
            }
            *lock(doing) = Doing::Job(ticket, Instant::now());
            let result = (self.work)(job);
            let mut state = lock(doing);
            if matches!(*state, Doing::GivenUp) {
                drop(state);
                (self.late)();
                return discard(result);
            }
            *state = Doing::Nothing;
            drop(state);
            if let Err(unsent) = done.send(result) {
                return discard(unsent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn soon() -> Instant {
        Instant::now() + LONG
    }

    #[test]
    fn every_job_gives_its_result_once() {
        let mut crew = Crew::new(3, |job: u64| job * 2, || unreachable!("nobody is given up")).expect("threads");
        (0..100).for_each(|job| crew.send(job, job));
        let mut results: Vec<u64> = (0..100).filter_map(|_| crew.receive(soon())).collect();
        results.sort_unstable();
        assert_eq!(results, (0..100).map(|job| job * 2).collect::<Vec<_>>());
        assert_eq!(crew.close(LONG).given_up, 0);
    }

    #[test]
    fn a_job_that_is_given_up_gives_nothing_and_another_thread_takes_the_place() {
        let (release, held) = channel::<()>();
        let held = Mutex::new(held);
        let (late, came) = channel();
        let late = Mutex::new(late);
        let work = move |job: u64| {
            if job == 0 {
                let _ = lock(&held).recv();
            }
            job
        };
        let mut crew = Crew::new(1, work, move || {
            let _ = lock(&late).send(());
        })
        .expect("a thread");
        crew.send(0, 0);
        crew.send(1, 1);
        let mut lost = Vec::new();
        while lost.is_empty() {
            assert_eq!(crew.receive(Instant::now() + Duration::from_millis(5)), None, "job 0 holds the only thread");
            lost = crew.give_up(Duration::from_millis(1)).expect("a thread");
        }
        assert_eq!((lost, crew.receive(soon())), (vec![0], Some(1)));
        drop(release);
        assert!(came.recv_timeout(LONG).is_ok(), "the late result is counted");
        let closed = crew.close(LONG);
        assert_eq!((closed.given_up, closed.results), (0, vec![]));
    }

    #[test]
    fn a_thread_that_is_stuck_for_ever_does_not_hold_up_the_end() {
        let (_never, held) = channel::<()>();
        let held = Mutex::new(held);
        let work = move |_: u64| {
            let _ = lock(&held).recv();
        };
        let mut crew = Crew::new(2, work, || {}).expect("threads");
        crew.send(0, 0);
        let running =
            |crew: &Crew<u64, ()>| crew.members.iter().any(|member| matches!(*lock(&member.doing), Doing::Job(..)));
        while !running(&crew) {
            std::thread::yield_now();
        }
        let begun = Instant::now();
        assert_eq!(crew.close(Duration::from_secs(4)).given_up, 1);
        assert!(begun.elapsed() < LONG);
    }
}
