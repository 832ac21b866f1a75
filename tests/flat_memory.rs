//! K1, I12: a long run takes no more memory than a short one. Alone in its process, whose resident size it reads.
#![cfg(target_os = "linux")]

mod support;

use gleaner::{
    policy::Policy,
    prelude::{Collector, Replay, ReplayWriteMode},
    replay::{
        Sample, Sampler,
        sampler::{
            Best, Groups, Prioritized, Sampling, Share, Short, Slices, SlicesWithoutReplacement, Staleness,
            WithoutReplacement,
        },
    },
};
use support::{Ending, NEVER, Script, Tag, least_of, tags};

/// Resident bytes of this process.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: i64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second number");
    pages * 4096
}

/// Samplers that keep something of the frames that they saw.
fn samplers(replay: &Replay<Tag>) -> Vec<Sampler<Tag>> {
    let ways: [Sampling; 6] = [
        Prioritized::default().into(),
        Staleness::default().into(),
        WithoutReplacement::default().into(),
        Slices { short: Short::Whole, ..Slices::of(9) }.into(),
        SlicesWithoutReplacement {
            slices: Slices { short: Short::Whole, ..Slices::of(9) },
            ..SlicesWithoutReplacement::of(9)
        }
        .into(),
        Groups { column: "trajectory".into(), share: Share::Groups(1), best: Best::Recency }.into(),
    ];
    let sampler = |way| replay.sampler().sampling(way).batch_size(4).build().expect("a sampler");
    ways.map(sampler).into()
}

/// Grows by less than a kilobyte per 1,000 steps.
fn stays_flat(mut collector: Collector<Tag>, what: &str) {
    let (mut samplers, mut sample) = (collector.replay().map(samplers).unwrap_or_default(), Sample::default());
    let mut stepped = 0;
    let mut step = |frames: u64| {
        stepped += frames;
        while collector.stats().stepped_frames < stepped {
            match collector.replay() {
                Some(_) => {
                    _ = collector.next_receipt().expect("endless").expect("no fault");
                    samplers.iter_mut().for_each(|sampler| sampler.sample_into(&mut sample).expect("frames"));
                }
                None => drop(collector.next().expect("endless").expect("no fault")),
            }
        }
        resident()
    };
    let mut before = step(200_000);
    let grown = least_of(3, 999_999, || {
        let now = step(1_000_000);
        now - std::mem::replace(&mut before, now)
    });
    assert!(grown < 1_000 * 1_000, "{what}: {grown} bytes in 1,000,000 steps");
}

#[test]
fn k1_i12_a_million_steps_take_no_memory() {
    let build = || {
        let policy = Policy::function(|_, _, _, _| {});
        let script = Script::lengths(&[7, 30, 200], Ending::Truncated);
        tags(script).rows(64).frames_per_batch(64 * 50).policy(policy)
    };
    stays_flat(build().build().unwrap(), "rollouts");
    stays_flat(build().trajs_per_batch(20).build().unwrap(), "trajectories");
    // I12. Also of an episode that never ends, whose frames are let go.
    let replay = || Replay::new(50_000).unwrap();
    stays_flat(build().replay(&replay()).build().unwrap(), "rollouts into a buffer");
    let script = Script::lengths(&[7, 30, 200, NEVER], Ending::Truncated);
    let endless = tags(script).rows(64).frames_per_batch(64 * 50).policy(Policy::function(|_, _, _, _| {}));
    let endless = endless.replay(&replay()).replay_write_mode(ReplayWriteMode::Trajectory).max_open_frames(10_000);
    stays_flat(endless.build().unwrap(), "trajectories into a buffer");
    stays_flat(build().threads(2).step_rows_per_thread(8).build().unwrap(), "two threads");
}
