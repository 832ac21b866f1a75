//! The engine costs little where environments do little. These bounds are for the tests' build, which is hardly optimised;
//! those of optimised builds are the bench's (`one-row`, `light`, `spread`).

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use bevy_ecs::prelude::Component;
use gleaner::{env::RowContext, prelude::*};

/// Does nothing but note who steps it.
#[derive(Component, Clone, Default)]
struct Idle(Option<Arc<Mutex<HashSet<ThreadId>>>>);

impl Task for Idle {
    type Observation = f32;
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        Space::unbounded(1)
    }

    fn action_space() -> Space {
        Space::discrete(2)
    }
}

impl Env for Idle {
    type Options = ();

    fn reset(&mut self, _: &(), _: &mut Stream) -> f32 {
        0.0
    }

    fn step(&mut self, _: &i32, _: &mut Stream) -> Transition<f32> {
        if let Some(threads) = &self.0 {
            threads.lock().expect("no panic").insert(thread::current().id());
        }
        Transition { observation: 0.0, reward: 0.0, terminated: false, truncated: false }
    }
}

/// Tests of this program run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `turn` says in the end: after twenty turns, or as many as bring it within `bound`, for a minute at most.
fn settled(bound: f64, mut turn: impl FnMut() -> f64) -> f64 {
    let (mut turns, mut said, deadline) = (0, f64::INFINITY, Instant::now() + Duration::from_secs(60));
    while turns < 20 || said > bound && Instant::now() < deadline {
        said = turn();
        turns += 1;
    }
    said
}

#[test]
fn r1_a_step_of_an_empty_environment_is_cheap() {
    let _alone = alone();
    // Microseconds a step: of one row about what a loop in Python takes, optimised builds stay below 1.
    // Few ticks, so that now and then nothing comes between.
    for (rows, ticks, bound) in [(1, 128, 6.0), (8, 64, 1.0), (64, 16, 0.5)] {
        let mut collector = Collector::<Idle>::builder().rows(rows).frames_per_batch(rows * ticks).build().unwrap();
        let mut least = f64::INFINITY;
        let step = settled(bound, || {
            let start = Instant::now();
            drop(collector.next().expect("endless").expect("no fault"));
            least = least.min(start.elapsed().as_secs_f64() / (rows * ticks) as f64 * 1e6);
            least
        });
        println!("{rows} rows: {step:.3} us of engine time a step; legal: {bound}");
        assert!(step <= bound, "{rows} rows: a step takes {step:.3} us; legal: {bound}");
    }
}

/// What a batch costs beside its frames does not show in small ones.
#[test]
fn r2_a_small_batch_is_cheap() {
    let _alone = alone();
    for workers in [0, 2] {
        // Gives the seconds that 4,000 frames take: of each batch the least so far, since hardly all are undisturbed.
        let time = |frames: usize| {
            let builder = Collector::<Idle>::builder().rows(8).frames_per_batch(frames).workers(workers);
            let (mut collector, mut least) = (builder.build().unwrap(), vec![f64::INFINITY; 4_000 / frames]);
            move || {
                for least in &mut least {
                    let start = Instant::now();
                    drop(collector.next().expect("endless").expect("no fault"));
                    *least = least.min(start.elapsed().as_secs_f64());
                }
                least.iter().sum::<f64>()
            }
        };
        let (mut of_small, mut of_large, mut times) = (time(80), time(400), (0.0, 0.0));
        let cost = settled(500.0, || {
            times = (of_small(), of_large());
            (times.0 - times.1) / (4_000 / 80 - 4_000 / 400) as f64 * 1e6
        });
        println!("{workers} workers: {cost:.1} us a batch; of 80 frames {:.5} s, of 400 {:.5} s", times.0, times.1);
        assert!(cost <= 500.0, "{workers} workers: a batch costs {cost:.1} us");
    }
}

/// Few rows that do little are never handed to other threads, whatever number of threads is allowed. What other threads cost
/// where they help is judged by the bench (`spread`): steps of 100 ns to 100 us.
#[test]
fn r6_light_work_stays_on_one_thread() {
    let _alone = alone();
    let steppers = |rows: usize, least: Option<usize>| {
        let seen = Arc::new(Mutex::new(HashSet::new()));
        let shared = seen.clone();
        let factory = move |_: &mut RowContext| Ok(Idle(Some(shared.clone())));
        let builder = Collector::<Idle>::with_factory(factory).rows(rows).frames_per_batch(rows * 8).threads(4);
        let builder = if let Some(least) = least { builder.step_rows_per_thread(least) } else { builder };
        let mut collector = builder.build().expect("legal options");
        for _ in 0..20 {
            collector.next().expect("endless").expect("no fault");
        }
        let seen = seen.lock().expect("no panic");
        (seen.len(), seen.contains(&thread::current().id()))
    };
    assert_eq!(steppers(64, None), (1, true), "64 rows of next to nothing");
    assert_eq!(steppers(4_096, None), (1, true), "4,096 rows of next to nothing");
    // On a busy machine one thread may be done before another one wakes.
    assert!((0..100).any(|_| steppers(64, Some(1)).0 > 1), "heavy rows are spread on request");
}
