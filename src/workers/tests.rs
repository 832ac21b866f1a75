use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::*;
use crate::error::Error;

/// Counts up to `end`; then there is no more.
struct Counter {
    next: u32,
    end: u32,
    /// What it panics at.
    bad: u32,
}

impl Job for Counter {
    fn produce(&mut self) -> Made {
        assert!(self.next != self.bad, "a bad number");
        if self.next == self.end {
            return Made::End;
        }
        if self.next == 77 {
            self.next += 1;
            return Made::Failed(Error::worker(0, "it is 77"));
        }
        self.next += 1;
        Made::Item(Box::new(self.next))
    }
}

fn crew(ends: &[u32], bad: u32, capacity: usize) -> Crew<Counter> {
    let jobs = ends.iter().map(|end| (Counter { next: 0, end: *end, bad }, Arc::default()));
    Crew::start(jobs, capacity).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn patient() -> Patience {
    Patience::new(LONG)
}

const LONG: Duration = Duration::from_secs(60);

/// Whose item it is, and what; none for the end.
fn next(crew: &Crew<Counter>) -> (usize, Option<u32>) {
    let delivery = crew.receive(LONG).expect("a delivery");
    (delivery.worker, delivery.item.map(|item| open(item.expect("no error"))))
}

#[test]
fn items_come_in_order_and_then_the_end() {
    let mut crew = crew(&[3, 2], u32::MAX, 1);
    (0..2).for_each(|worker| crew.produce(worker, true));
    let mut own = [Vec::new(), Vec::new()];
    for _ in 0..7 {
        let (worker, item) = next(&crew);
        own[worker].push(item);
    }
    assert_eq!(own, [vec![Some(1), Some(2), Some(3), None], vec![Some(1), Some(2), None]]);
    // It waits for orders again.
    assert_eq!(crew.call(0, |job| std::mem::replace(&mut job.end, 4)).wait(&mut patient()).unwrap(), 3);
    crew.produce(0, true);
    assert_eq!(next(&crew), (0, Some(4)));
    assert_eq!(crew.stop(soon()).len(), 2);
    assert!(crew.stop(soon()).is_empty());
}

#[test]
fn an_order_costs_no_item_and_does_not_wait_for_room() {
    let crew = crew(&[u32::MAX], u32::MAX, 1);
    crew.produce(0, true);
    // One item waits in the channel, the next one in the worker's hands.
    while crew.call(0, |job| job.next).wait(&mut patient()).unwrap() < 2 {}
    crew.produce(0, false);
    assert_eq!(crew.call(0, |job| job.next).wait(&mut patient()).unwrap(), 2);
    assert_eq!([next(&crew), next(&crew)], [(0, Some(1)), (0, Some(2))]);
    assert!(crew.receive(Duration::from_millis(20)).is_none());
    crew.produce(0, true);
    assert_eq!(next(&crew), (0, Some(3)));
}

#[test]
fn a_panic_is_told_in_order_and_ends_the_thread() {
    let mut crew = crew(&[9, 9], 1, 4);
    crew.produce(0, true);
    assert_eq!(next(&crew), (0, Some(1)));
    let told = crew.receive(LONG).unwrap();
    let error = told.item.unwrap().unwrap_err().to_string();
    assert!(told.worker == 0 && error.contains("a bad number"), "{error}");
    let error = crew.call(0, |job| job.next).wait(&mut patient()).unwrap_err().to_string();
    assert!(error.contains("worker 0") && error.contains("a bad number"), "{error}");
    let reply = crew.call(1, |_| panic!("a bad call"));
    assert!(reply.wait(&mut patient()).map(|(): ()| ()).is_err());
    while crew.death(1).is_none() {
        std::thread::yield_now();
    }
    assert!(crew.death(1).unwrap().to_string().contains("a bad call"));
    assert!(crew.stop(soon()).iter().all(|(_, stopped)| matches!(stopped, Stopped::Died(_))));
}

#[test]
fn one_that_failed_is_not_told_to_go_on() {
    let crew = crew(&[u32::MAX], u32::MAX, 1);
    crew.call(0, |job| job.next = 77).wait(&mut patient()).unwrap();
    crew.produce(0, true);
    // It waits for room, or has it, when the order comes.
    crew.produce(0, true);
    assert!(crew.receive(LONG).unwrap().item.unwrap().is_err());
    crew.produce(0, true);
    assert_eq!(crew.call(0, |job| job.next).wait(&mut patient()).unwrap(), 78);
    assert!(crew.receive(Duration::from_millis(20)).is_none());
}

#[test]
fn one_is_replaced_and_what_it_sends_is_told_apart() {
    let mut crew = crew(&[u32::MAX], u32::MAX, 4);
    crew.produce(0, true);
    assert_eq!(crew.receive(LONG).unwrap().life, 0);
    let token = Arc::new(());
    let make = || Ok((Counter { next: 100, end: 200, bad: u32::MAX }, "made"));
    assert_eq!(crew.replace(0, 1, make, token.clone(), patient()).unwrap(), "made");
    crew.produce(0, true);
    let first = std::iter::from_fn(|| crew.receive(LONG)).find(|delivery| delivery.life == 1).unwrap();
    assert_eq!(open::<u32>(first.item.unwrap().unwrap()), 101);
    assert!(matches!(crew.give_back(soon())[..], [(0, Stopped::Back(_))]));
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn what_cannot_take_a_place_leaves_it_as_it_was() {
    let mut crew = crew(&[9], u32::MAX, 1);
    let mut failed = |make: Box<dyn FnOnce() -> Result<(Counter, ()), Error> + Send>, patience| {
        crew.replace(0, 1, make, Arc::default(), patience).unwrap_err().to_string()
    };
    let refused = || Err(Error::worker(0, "no such level"));
    assert!(failed(Box::new(refused), patient()).contains("no such level"));
    assert!(failed(Box::new(|| panic!("a bad number")), patient()).contains("it panicked: a bad number"));
    let (send, held) = crossbeam_channel::bounded::<()>(0);
    let begin = Instant::now();
    let hangs = move || {
        let _ = held.recv();
        Ok((Counter { next: 100, end: 200, bad: u32::MAX }, ()))
    };
    assert!(
        failed(Box::new(hangs), Patience::new(Duration::from_millis(10))).contains("not built before the deadline")
    );
    assert!(begin.elapsed() < LONG);
    drop(send);
    assert_eq!(crew.call(0, |job| job.next).wait(&mut patient()).unwrap(), 0);
}

#[test]
fn one_that_is_stuck_is_left_behind() {
    let mut crew = crew(&[1, 1], u32::MAX, 1);
    let (send, held) = crossbeam_channel::bounded::<()>(0);
    let reply = crew.call(1, move |_| held.recv().is_ok());
    let error = reply.wait(&mut Patience::new(Duration::from_millis(10))).unwrap_err().to_string();
    assert!(error.contains("worker 1"), "{error}");
    let stopped = crew.stop(Instant::now() + Duration::from_secs(4));
    assert!(matches!(stopped[..], [(0, Stopped::Closed(Ok(()))), (1, Stopped::Stuck)]));
    drop(send);
}

/// Says that it is dropped, and then panics.
struct Failing(crossbeam_channel::Sender<std::thread::ThreadId>);

impl Job for Failing {
    fn produce(&mut self) -> Made {
        Made::Nothing
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::current().id());
        panic!("a bad end");
    }
}

#[test]
fn what_panics_as_it_is_dropped_does_so_on_its_own_thread() {
    let (send, dropped) = crossbeam_channel::unbounded();
    let job = || (Failing(send.clone()), Arc::default());
    let elsewhere = || dropped.recv_timeout(LONG).unwrap() != std::thread::current().id();
    let mut crew = Crew::start([job(), job(), job()], 1).unwrap();
    // One of a life before, one that is stuck and wakes, wanted or not, one that is dismissed, and one whose owner leaves.
    let other = send.clone();
    crew.replace(0, 1, move || Ok((Failing(other), ())), Arc::default(), patient()).unwrap();
    assert!(elsewhere());
    crew.dismiss(2);
    assert!(elsewhere());
    let (open_it, held) = crossbeam_channel::bounded::<()>(0);
    let stuck = crew.call(1, move |_| held.recv().is_ok());
    let stopped = crew.stop(Instant::now() + Duration::from_secs(4));
    let [(0, Stopped::Closed(Err(first))), (1, Stopped::Stuck), (2, Stopped::Closed(Err(_)))] = &stopped[..] else {
        panic!("they end otherwise")
    };
    assert!(first.to_string().contains("worker 0: it panicked: a bad end"), "{first}");
    assert!(elsewhere());
    drop((open_it, stuck));
    assert!(elsewhere());
    let mut crew = Crew::start([job()], 1).unwrap();
    let (open_it, held) = crossbeam_channel::bounded::<()>(0);
    let stuck = crew.call(0, move |_| held.recv().is_ok());
    assert!(matches!(crew.give_back(Instant::now())[..], [(0, Stopped::Stuck)]));
    drop((open_it, stuck));
    assert!(elsewhere());
    drop(Crew::start([job()], 1).unwrap());
    assert!(elsewhere());
}
