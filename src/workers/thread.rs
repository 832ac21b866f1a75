//! What runs on a worker's thread.

use std::{
    any::Any,
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::Duration,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Select, SendError, Sender};

use super::{Parcel, patience::awake};
use crate::error::{Error, discard, panic_message};

/// Time until a worker that could make nothing tries again.
const MOMENT: Duration = Duration::from_millis(2);

/// What a worker owns.
pub(crate) trait Job: Any + Send {
    /// Makes the next item.
    fn produce(&mut self) -> Made;

    /// Ends what nobody wants back, on its thread. Errors: what went wrong at the end.
    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// What became of what a worker owned, if it did not panic.
pub(super) enum Ended {
    Back(Box<dyn Job>),
    Closed(Result<(), Error>),
}

/// What came of making an item.
pub(crate) enum Made {
    Item(Parcel),
    /// Something that needs not be sent.
    More,
    /// Nothing now: it is tried again in a moment.
    Nothing,
    /// Nothing until it is told to go on.
    Rest,
    /// There will be no more until it is told to go on.
    End,
    /// There will be no more, whatever it is told: it stands in the middle of something.
    Failed(Error),
}

/// What a worker sends on its own: an item, or that there will be none.
pub(crate) struct Delivery {
    pub worker: usize,
    /// How often the worker was replaced before.
    pub life: u32,
    pub item: Option<Result<Parcel, Error>>,
}

pub(super) type Call = Box<dyn FnOnce(&mut dyn Job) -> Parcel + Send>;

pub(super) enum Order {
    /// To be answered there.
    Call(Call, Sender<Parcel>),
    Produce(bool),
    /// To end, and what it owns with it.
    Stop,
    /// To end, and give back what it owns.
    GiveBack,
}

/// A worker's side of its channels.
pub(super) struct Post {
    pub worker: usize,
    pub life: u32,
    pub orders: Receiver<Order>,
    pub items: Sender<Delivery>,
    /// Why the thread ended, if user code panicked outside of what catches it.
    pub died: Arc<OnceLock<String>>,
    /// Gets what became of the job. Not the thread's own result: one that nobody waits for is dropped where a panic ends
    /// the process.
    pub ended: Sender<Ended>,
    /// Closed when the thread ends.
    pub _alive: Sender<Infallible>,
    /// Held while the thread runs.
    pub _token: Arc<()>,
}

/// Whether items are made.
#[derive(Clone, Copy, PartialEq)]
enum Producing {
    Yes,
    No,
    /// It failed.
    NeverAgain,
}

/// Whether the thread goes on.
enum Next {
    GoOn,
    Stop,
    GiveBack,
}

impl Post {
    /// Works until told to end.
    pub(super) fn run(self, mut job: Box<dyn Job>) {
        let ended = match self.work(&mut *job) {
            Ok(true) => Ended::Back(job),
            Ok(false) => Ended::Closed(self.close(job)),
            // What panicked is not used again.
            Err(Panicked(message)) => {
                let error = self.panicked(&message);
                let _ = self.died.set(message);
                let _ = self.deliver(Some(Err(error)), |order| match order {
                    Order::Stop | Order::GiveBack => Ok(Next::Stop),
                    Order::Call(..) | Order::Produce(_) => Ok(Next::GoOn),
                });
                return discard(job);
            }
        };
        match self.ended.send(ended).map_err(SendError::into_inner) {
            Ok(()) => {}
            // Nobody waited so long.
            Err(Ended::Back(job)) => drop(self.close(job)),
            Err(Ended::Closed(closed)) => drop(closed.inspect_err(|error| tracing::warn!("{error}"))),
        }
    }

    /// Works until told to end; whether the job is wanted back.
    fn work(&self, job: &mut dyn Job) -> Result<bool, Panicked> {
        let (mut producing, mut pause) = (Producing::No, Duration::ZERO);
        loop {
            // An idle worker sleeps until there is an order.
            let order = match producing {
                Producing::Yes => self.orders.recv_timeout(std::mem::take(&mut pause)),
                Producing::No | Producing::NeverAgain => {
                    awake(&self.orders).or_else(|_| self.orders.recv().map_err(Into::into))
                }
            };
            let next = match order {
                Ok(order) => self.obey(order, job, &mut producing)?,
                Err(RecvTimeoutError::Disconnected) => Next::Stop,
                Err(RecvTimeoutError::Timeout) => self.produce(job, &mut producing, &mut pause)?,
            };
            match next {
                Next::GoOn => {}
                Next::Stop => return Ok(false),
                Next::GiveBack => return Ok(true),
            }
        }
    }

    fn close(&self, job: Box<dyn Job>) -> Result<(), Error> {
        guarded(|| job.close()).unwrap_or_else(|Panicked(message)| Err(self.panicked(&message)))
    }

    fn panicked(&self, message: &str) -> Error {
        Error::worker(self.worker, format!("it panicked: {message}"))
    }

    fn obey(&self, order: Order, job: &mut dyn Job, producing: &mut Producing) -> Result<Next, Panicked> {
        match order {
            // Who waits no longer has dropped the receiver.
            Order::Call(call, answer) => drop(answer.send(guarded(|| call(job))?)),
            Order::Produce(_) if *producing == Producing::NeverAgain => {}
            Order::Produce(on) => *producing = if on { Producing::Yes } else { Producing::No },
            Order::Stop => return Ok(Next::Stop),
            Order::GiveBack => return Ok(Next::GiveBack),
        }
        Ok(Next::GoOn)
    }

    fn produce(&self, job: &mut dyn Job, producing: &mut Producing, pause: &mut Duration) -> Result<Next, Panicked> {
        let item = match guarded(|| job.produce())? {
            Made::Item(item) => Some(Ok(item)),
            Made::End => {
                *producing = Producing::No;
                None
            }
            Made::Failed(error) => {
                *producing = Producing::NeverAgain;
                Some(Err(error))
            }
            Made::More => return Ok(Next::GoOn),
            Made::Rest => {
                *producing = Producing::No;
                return Ok(Next::GoOn);
            }
            Made::Nothing => {
                *pause = MOMENT;
                return Ok(Next::GoOn);
            }
        };
        self.deliver(item, |order| self.obey(order, job, producing))
    }

    /// Sends, and obeys orders while there is no room.
    fn deliver(
        &self,
        item: Option<Result<Parcel, Error>>,
        mut obey: impl FnMut(Order) -> Result<Next, Panicked>,
    ) -> Result<Next, Panicked> {
        let mut delivery = Delivery { worker: self.worker, life: self.life, item };
        loop {
            match self.send(delivery) {
                Sent::Done => return Ok(Next::GoOn),
                Sent::Gone => return Ok(Next::Stop),
                Sent::Ordered(order, kept) => {
                    delivery = kept;
                    match obey(order)? {
                        Next::GoOn => {}
                        end => return Ok(end),
                    }
                }
            }
        }
    }

    /// Waits for room or an order, whichever comes first.
    fn send(&self, delivery: Delivery) -> Sent {
        let mut select = Select::new();
        let room = select.send(&self.items);
        select.recv(&self.orders);
        let ready = select.select();
        if ready.index() == room {
            return if ready.send(&self.items, delivery).is_ok() { Sent::Done } else { Sent::Gone };
        }
        match ready.recv(&self.orders) {
            Ok(order) => Sent::Ordered(order, delivery),
            Err(_) => Sent::Gone,
        }
    }
}

/// User code panicked where nothing else catches it.
pub(super) struct Panicked(pub String);

pub(super) fn guarded<R>(work: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked(panic_message(payload)))
}

enum Sent {
    Done,
    /// The receiver is gone.
    Gone,
    Ordered(Order, Delivery),
}
