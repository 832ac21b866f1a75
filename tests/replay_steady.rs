//! Drawing into a sample that was used before allocates nothing, and updating priorities does not either, while frames
//! come and go.

mod counting;
#[path = "support/least.rs"]
mod least;

use std::sync::atomic::Ordering::Relaxed;

use counting::ALLOCATIONS;
use gleaner::{
    prelude::{CartPole, Collector},
    replay::{
        Replay, Sample,
        sampler::{Prioritized, PrioritizedSlices, Recency, Sampling, Schedule, Staleness, Uniform},
    },
};

/// Ways to draw, and whether they have priorities.
fn samplings() -> Vec<(Sampling, bool)> {
    let beta = Schedule::Linear { from: 0.4, to: 1.0, samples: 1_000 };
    let prioritized = Prioritized { beta, max_priority_within_buffer: true, ..Prioritized::default() };
    vec![
        (Uniform.into(), false),
        (prioritized.into(), true),
        (PrioritizedSlices { slice_len: 5, priorities: prioritized }.into(), true),
        (Staleness { max_staleness: Some(1_000), ..Staleness::default() }.into(), false),
        (Recency::HalfLife(500.0).into(), false),
    ]
}

/// One test, so that hardly any other thread of the test runner allocates meanwhile: its main thread may, once.
#[test]
fn steady_samples_allocate_nothing() {
    for (sampling, priorities) in samplings() {
        let what = format!("{sampling:?}");
        let replay = Replay::<CartPole>::new(3_000).expect("a buffer");
        let mut collector =
            Collector::<CartPole>::builder().rows(8).frames_per_batch(160).build().expect("a collector");
        let mut sampler = replay.sampler().sampling(sampling).batch_size(64).build().expect("a sampler");
        let mut sample = Sample::default();
        let new: Vec<f32> = (0..640).map(|i| (i % 11) as f32).collect();
        let mut round = |_| {
            replay.extend(&collector.next().expect("endless").expect("no fault")).expect("room");
            let before = ALLOCATIONS.load(Relaxed);
            sampler.sample_into(&mut sample).expect("frames");
            if priorities {
                sampler.update_priorities(sample.frames(), &new[..sample.len()]).expect("there");
                sampler.mark_update(&sample.frames()[..3]).expect("there");
            }
            ALLOCATIONS.load(Relaxed) - before
        };
        // What is made once.
        (0..300).map(&mut round).for_each(drop);
        let allocations = least::least_of(2, 0, || (0..300).map(&mut round).sum::<u64>());
        assert_eq!(allocations, 0, "{what}");
    }
}
