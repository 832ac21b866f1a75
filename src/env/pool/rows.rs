//! The rows of a pool: where their environments are, and what becomes of those that fail.

use std::time::{Duration, Instant};

use bevy_ecs::prelude::*;

use super::{
    crew::{Crew, Ticket},
    job::{Finished, Job, Place, Seen},
    options::PoolShare,
};
use crate::{
    components::End,
    env::{Env, faults::Faults},
    error::{Error, discard},
    seed::{Purpose, Seed, Stream},
};

/// A row of a pool.
pub(super) struct PoolRow<E: Env> {
    pub entity: Entity,
    /// Its global number.
    pub number: u32,
    /// None while a thread has it, or has lost it.
    pub env: Option<E>,
    /// The job that it waits for.
    pub out: Option<Out>,
    /// The episode to start once the job is back, whatever that gives: the row was reset meanwhile.
    pub again: Option<(Stream, u32, E::Options)>,
    faults: Faults,
}

/// A job that a row waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    ticket: Ticket,
    /// Whether it makes a frame.
    pub steps: bool,
    place: Place,
}

/// What came for a row.
pub(super) enum Arrival<E: Env> {
    /// It sees something, maybe after a frame.
    Seen(Box<Seen<E>>),
    /// Its frame is lost; a new environment is on its way.
    Lost(End),
}

/// The environments of a task, with the threads that step them.
#[derive(Resource)]
pub(super) struct Pool<E: Env> {
    // A receiver is not shared between threads; nobody but the owner of the world uses it.
    crew: std::sync::Mutex<Crew<Job<E>, Finished<E>>>,
    pub share: PoolShare,
    pub worker: u32,
    pub seed: Seed,
    /// By slot.
    pub rows: Vec<PoolRow<E>>,
    /// What came for this turn, by slot.
    pub arrived: Vec<(usize, Arrival<E>)>,
    /// Jobs that are out.
    out: usize,
    /// Of them those that make a frame.
    pub stepping: u64,
    tickets: Ticket,
}

impl<E: Env> PoolRow<E> {
    pub(super) fn new(entity: Entity, number: u32, env: E) -> Self {
        Self { entity, number, env: Some(env), out: None, again: None, faults: Faults::default() }
    }
}

impl<E: Env> Pool<E> {
    pub(super) fn new(crew: Crew<Job<E>, Finished<E>>, share: PoolShare, worker: u32, seed: Seed) -> Self {
        let crew = std::sync::Mutex::new(crew);
        Self { crew, share, worker, seed, rows: Vec::new(), arrived: Vec::new(), out: 0, stepping: 0, tickets: 0 }
    }

    fn crew(&mut self) -> &mut Crew<Job<E>, Finished<E>> {
        self.crew.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Frames of the budget that are used, or will be when their jobs are back.
    pub(super) fn sent(&self) -> u64 {
        self.share.monitor.ledger().counters.stepped_frames + self.stepping
    }

    /// Gives the row in `slot` to a thread: to step with `action`, or to start `episode`.
    pub(super) fn send(
        &mut self,
        slot: usize,
        (stream, episode, step): (Stream, u32, u32),
        action: Option<E::Action>,
        options: E::Options,
    ) {
        self.tickets += 1;
        let (ticket, seed, steps) = (self.tickets, self.seed, action.is_some());
        let row = &mut self.rows[slot];
        let place = Place { row: row.number, episode, step, seed };
        row.out = Some(Out { ticket, steps, place });
        let job = Job { slot, place, env: row.env.take(), stream, action, options };
        self.out += 1;
        self.stepping += u64::from(steps);
        self.crew().send(ticket, job);
    }

    /// Starts an episode of the row in `slot`: now, or when its environment is back.
    pub(super) fn start(&mut self, slot: usize, stream: Stream, episode: u32, options: &E::Options) {
        if self.rows[slot].out.is_some() {
            self.rows[slot].again = Some((stream, episode, options.clone()));
        } else {
            self.send(slot, (stream, episode, 0), None, options.clone());
        }
    }

    /// Waits until rows are ready: at least `min_ready` of them, or one and the window is over; at most `most`. Returns at
    /// once if no job is out.
    pub(super) fn receive(&mut self, most: usize, options: &E::Options) -> Result<(), Error> {
        if self.out == 0 && self.rows.iter().all(|row| row.env.is_none()) {
            let problem = "no row is left: a host removed them all from the world".into();
            return Err(Error::State { call: "next", problem });
        }
        let times = self.share.options;
        let most = most.min(times.max_ready.unwrap_or(usize::MAX)).max(1);
        let least = times.min_ready.min(most);
        let mut window = None;
        loop {
            for ticket in self.crew().give_up(times.step_deadline)? {
                self.timed_out(ticket, options)?;
            }
            while self.arrived.len() < most
                && let Some(finished) = self.crew().try_receive()
            {
                self.take(finished, options)?;
            }
            if self.arrived.len() >= least || self.out == 0 {
                break;
            }
            let mut until = self.crew().next_deadline(times.step_deadline);
            if !self.arrived.is_empty() {
                let over = *window.get_or_insert_with(|| Instant::now() + times.window);
                if Instant::now() >= over {
                    break;
                }
                until = until.min(over);
            }
            if let Some(finished) = self.crew().receive(until) {
                self.take(finished, options)?;
            }
        }
        // Stable: a row's frame may be lost, and its new environment come, within one turn.
        self.arrived.sort_by_key(|(slot, _)| *slot);
        Ok(())
    }

    /// Takes a job back.
    fn take(&mut self, finished: Finished<E>, options: &E::Options) -> Result<(), Error> {
        let Finished { slot, result } = finished;
        let Some(out) = self.back(slot) else { return Ok(()) };
        let again = self.rows[slot].again.take();
        match (result, again) {
            (Ok(seen), None) => {
                let row = &mut self.rows[slot];
                if seen.frame.is_some() {
                    row.faults = Faults::default();
                }
                self.arrived.push((slot, Arrival::Seen(seen)));
            }
            (result, Some((stream, episode, options))) => {
                self.rows[slot].env = result.ok().map(|seen| seen.env);
                self.discard_frame(out);
                self.send(slot, (stream, episode, 0), None, options);
            }
            (Err((episode, error)), None) => self.fault(slot, out, episode, End::QUARANTINED, error, options)?,
        }
        Ok(())
    }

    /// The job that the row waits for is back, or lost.
    fn back(&mut self, slot: usize) -> Option<Out> {
        let out = self.rows[slot].out.take()?;
        self.out -= 1;
        self.stepping -= u64::from(out.steps);
        Some(out)
    }

    /// Counts the frame of a row that was reset while it was made.
    fn discard_frame(&self, out: Out) {
        let mut ledger = self.share.monitor.ledger();
        ledger.counters.stepped_frames += u64::from(out.steps);
        ledger.counters.discarded.reset += u64::from(out.steps);
    }

    /// A job took too long, and its thread with the environment is gone.
    fn timed_out(&mut self, ticket: Ticket, options: &E::Options) -> Result<(), Error> {
        self.share.monitor.ledger().abandoned += 1;
        let waits = |row: &PoolRow<E>| row.out.is_some_and(|out| out.ticket == ticket);
        let Some(slot) = self.rows.iter().position(waits) else { return Ok(()) };
        let Some(out) = self.back(slot) else { return Ok(()) };
        if let Some((stream, episode, options)) = self.rows[slot].again.take() {
            self.discard_frame(out);
            self.send(slot, (stream, episode, 0), None, options);
            return Ok(());
        }
        let Place { row, episode, step, seed } = out.place;
        let (deadline, worker) = (self.share.options.step_deadline, self.worker);
        let error = Error::StepDeadline { deadline, worker, row, episode, step, seed: seed.0 };
        self.fault(slot, out, episode, End::TIMED_OUT, error, options)
    }

    /// Does with a row that failed in `episode` what the policy says.
    fn fault(
        &mut self,
        slot: usize,
        out: Out,
        episode: u32,
        end: End,
        error: Error,
        options: &E::Options,
    ) -> Result<(), Error> {
        let seed = self.seed;
        let row = &mut self.rows[slot];
        let number = row.number;
        row.faults.add(self.share.on_fault, number, error)?;
        self.share.monitor.ledger().row_restarts += 1;
        if out.steps {
            self.arrived.push((slot, Arrival::Lost(end)));
        }
        let episode = episode + 1;
        let stream = Stream::new(seed, number, Purpose::Env, episode);
        self.send(slot, (stream, episode, 0), None, options.clone());
        Ok(())
    }

    /// Forgets what came for this turn; returns how many frames that were.
    pub(super) fn drop_arrived(&mut self) -> u64 {
        let steps = |arrival: &Arrival<E>| matches!(arrival, Arrival::Seen(seen) if seen.frame.is_some());
        let frames = self.arrived.iter().filter(|(_, arrival)| steps(arrival)).count();
        self.arrived.drain(..).for_each(discard);
        frames as u64
    }

    /// Ends the threads and drops the environments; returns the frames that nobody took.
    pub(super) fn close(&mut self, timeout: Duration) -> u64 {
        let deadline = self.share.options.shutdown.min(timeout);
        let closed = self.crew().close(deadline);
        let mut frames = 0;
        for finished in closed.results {
            frames += u64::from(finished.result.as_ref().is_ok_and(|seen| seen.frame.is_some()));
            discard(finished);
        }
        frames += self.drop_arrived();
        self.rows.drain(..).for_each(|row| discard(row.env));
        (self.out, self.stepping) = (0, 0);
        self.share.monitor.ledger().abandoned += closed.given_up;
        frames
    }
}

impl<E: Env> Drop for Pool<E> {
    fn drop(&mut self) {
        self.close(Duration::MAX);
    }
}
