//! O-14: what fails is heard of in time, and no thread is left behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use super::{AT_ONCE, SOON};
use crate::support::{
    Stepping, balance,
    slow::{Slow, slow},
};
use gleaner::{policy::Policy, prelude::*};

/// Threads that have stepped an environment: those that have not ended, and all.
#[derive(Clone, Default)]
struct Threads {
    alive: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

/// Counts a thread until it ends.
struct Counted(Threads);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
    }
}

impl Threads {
    /// Counts the calling thread, once.
    fn count(&self) {
        thread_local!(static COUNTED: std::cell::OnceCell<Counted> = const { std::cell::OnceCell::new() });
        COUNTED.with(|counted| {
            counted.get_or_init(|| {
                self.alive.fetch_add(1, SeqCst);
                self.all.fetch_add(1, SeqCst);
                Counted(self.clone())
            });
        });
    }
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    Environment,
    Policy,
    Hook,
}

fn collector(stepping: Stepping, fails: Fails, threads: &Threads) -> Collector<Slow> {
    let threads = threads.clone();
    let act = move |row, episode, t| {
        threads.count();
        assert!((fails, row, episode, t) != (Fails::Environment, 2, 1, 1), "boom 42");
    };
    let policy = Policy::function(move |seen: &[[f32; 5]], _, _, actions: &mut [f32]| {
        assert!(fails != Fails::Policy || seen.iter().all(|seen| seen[1] < 2.0), "boom 42");
        actions.fill(0.0);
    });
    let builder = stepping.set(slow(3, act).rows(4).frames_per_batch(16).policy(policy));
    let mut batches = 0;
    let hook = move |_: &Batch<Slow>| {
        batches += 1;
        if fails == Fails::Hook && batches == 3 { Err("boom 42".into()) } else { Ok(()) }
    };
    builder.post_collect(hook).build().unwrap()
}

#[test]
fn o14_a_failure_reaches_the_caller_and_leaves_no_thread() {
    for stepping in Stepping::ALL {
        for fails in [Fails::Environment, Fails::Policy, Fails::Hook] {
            let threads = Threads::default();
            let own = threads.clone();
            // The caller's thread ends too.
            let collected = thread::spawn(move || {
                let mut collector = collector(stepping, fails, &own);
                let begun = Instant::now();
                let error = collector.by_ref().find_map(Result::err).expect("it fails");
                assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
                assert!(own.all.load(SeqCst) > 0, "nobody was counted");
                assert!(error.to_string().contains("boom 42"), "{error}");
                let kind = match error {
                    Error::EnvPanic { call: "step", row: 2, episode: 1, step: 1, .. } => Fails::Environment,
                    Error::PolicyPanic { .. } => Fails::Policy,
                    Error::Hook { hook: "post_collect", .. } => Fails::Hook,
                    error => panic!("{error}"),
                };
                assert!(collector.next().is_none());
                let stats = collector.stats();
                balance(&stats).unwrap();
                assert_eq!(
                    (stats.in_flight_frames, stats.workers_alive.unwrap_or(0), stats.abandoned.unwrap_or(0)),
                    (0, 0, 0),
                    "{stats:?}"
                );
                kind
            });
            assert_eq!(collected.join().unwrap(), fails, "{stepping:?}");
            let deadline = Instant::now() + SOON;
            while threads.alive.load(SeqCst) > 0 {
                assert!(
                    Instant::now() < deadline,
                    "{stepping:?}, {fails:?}: {} threads are left",
                    threads.alive.load(SeqCst)
                );
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
