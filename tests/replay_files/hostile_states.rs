//! States of samplers, and of the index, that are wrong in files whose checksums are right.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gleaner::{
    Error,
    replay::{
        Replay, Sampler,
        sampler::{
            Boundary, Groups, Prioritized, PrioritizedSlices, Sampling, Schedule, Sequences, Share,
            SlicesWithoutReplacement, WithoutReplacement,
        },
    },
};

use crate::{
    allocator::largest,
    hostile::{CONSTANT, Random, carried, sealed, spoil},
    made::{Block, Made, Source},
    resume::{builder, ways},
};

const CAPACITY: u64 = 12;

/// Every way to draw, also with options that keep more of a state.
fn all_ways() -> Vec<Sampling> {
    let alpha = Schedule::Linear { from: 0.0, to: 1.0, samples: 7 };
    let changing = Prioritized { alpha, eps: 0.0, max_priority_within_buffer: true, ..Prioritized::default() };
    let more: [Sampling; 7] = [
        changing.into(),
        PrioritizedSlices { slice_len: 3, priorities: changing }.into(),
        PrioritizedSlices { slice_len: 1, priorities: Prioritized::default() }.into(),
        WithoutReplacement { drop_last: true, shuffle: false }.into(),
        SlicesWithoutReplacement { drop_last: true, ..SlicesWithoutReplacement::of(2) }.into(),
        Sequences { burn_in: 4, bootstrap: 1, boundary: Boundary::Stop, ..Sequences::of(2) }.into(),
        Groups { column: "trajectory".into(), share: Share::Frames(2), best: gleaner::replay::sampler::Best::Reward }
            .into(),
    ];
    ways().into_iter().chain(more).collect()
}

fn buffer() -> Replay<Made> {
    Replay::new(CAPACITY).expect("a buffer")
}

fn sampler(replay: &Replay<Made>, way: &Sampling) -> Sampler<Made> {
    builder(replay, way).batch_size(4).build().expect("a sampler")
}

/// Two writers who take turns, so that trajectories have several pieces.
struct Writers([Source; 2]);

impl Writers {
    fn new(worker: u64) -> Self {
        Self([Source::new(2, worker), Source::new(1, worker + 1)])
    }

    fn write(&mut self, replay: &Replay<Made>, ticks: usize, random: &mut Random) {
        for (source, rows) in self.0.iter_mut().zip([2, 1]) {
            let slots = source.ticks(ticks, 40, &mut || random.next() as u8);
            replay.extend(&Block::new(&slots, Some(rows))).expect("room");
        }
    }
}

/// Draws, and gives what was drawn priorities; whether anything was drawn.
fn draw(sampler: &mut Sampler<Made>, n: usize, random: &mut Random) -> bool {
    let mut sample = gleaner::replay::Sample::default();
    if sampler.sample_n(n, &mut sample).is_err() {
        return false;
    }
    let frames: Vec<u64> = sample.frames().iter().copied().filter(|frame| *frame < u64::MAX).collect();
    let priorities: Vec<f32> = frames.iter().map(|_| random.below(5) as f32).collect();
    // Those that have priorities take them.
    let _taken = (sampler.update_priorities(&frames, &priorities).is_ok(), sampler.remaining());
    let _taken = random.below(4) == 0 && sampler.mark_update(&frames[..frames.len() / 2]).is_ok();
    !sample.is_empty()
}

/// A buffer and a sampler that some things were done with.
fn history(way: &Sampling, random: &mut Random) -> (Replay<Made>, Sampler<Made>) {
    let (replay, mut writers) = (buffer(), Writers::new(1));
    let mut sampler = sampler(&replay, way);
    for _ in 0..4 + random.below(20) {
        match random.below(16) {
            0 => replay.empty(random.below(2) == 0).expect("writable"),
            1 => writers.write(&replay, 6, random),
            2..6 => writers.write(&replay, 1, random),
            _ => drop(draw(&mut sampler, 1 + random.below(6), random)),
        }
    }
    (replay, sampler)
}

fn saved(replay: &Replay<Made>, samplers: &[&dyn gleaner::replay::Saved<Made>]) -> Vec<u8> {
    let mut file = Vec::new();
    replay.save_to(&mut file, samplers).expect("memory");
    file
}

/// Loads a file; one that is taken is drawn from while others are written. Nothing takes much memory.
fn load(file: &[u8], way: &Sampling, random: &mut Random) -> Result<usize, Error> {
    let work = || {
        let (replay, mut writers) = (buffer(), Writers::new(20));
        let mut sampler = sampler(&replay, way);
        replay.load_from(&mut &file[..], &mut [&mut sampler])?;
        let mut drawn = 0;
        for i in 0..20 {
            drawn += usize::from(draw(&mut sampler, 4, random));
            if i % 2 == 1 {
                writers.write(&replay, 1, random);
            }
        }
        Ok(drawn)
    };
    let (loaded, most) = largest(work);
    assert!(most <= CONSTANT, "{most} bytes at once");
    loaded
}

/// Whatever was done before, what was saved is taken: no check refuses a state that can be.
#[test]
fn a_state_of_any_moment_is_taken() {
    let mut random = Random(5);
    for way in all_ways() {
        let mut drawn = 0;
        for case in 0..300 {
            let (replay, sampler) = history(&way, &mut random);
            let file = saved(&replay, &[&sampler]);
            let loaded = load(&file, &way, &mut random);
            drawn += loaded.unwrap_or_else(|error| panic!("{way:?}, case {case}: {error}"));
        }
        assert!(drawn > 1_000, "{way:?} has drawn {drawn} times");
    }
}

/// Where two files differ first.
fn differ(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).position(|(a, b)| a != b).expect("different files")
}

/// What a file carries, and where window and index, and a sampler's state, lie in it.
fn parts(way: &Sampling, random: &mut Random) -> (Vec<u8>, Range<usize>, Range<usize>) {
    let (replay, sampler) = loop {
        let (replay, mut sampler) = history(way, random);
        if replay.len() > 2 && replay.write_count() > 2 * CAPACITY && draw(&mut sampler, 2, random) {
            break (replay, sampler);
        }
    };
    if random.below(2) == 0 {
        Writers::new(7).write(&replay, 1, random);
    }
    let bare = carried(&saved(&replay, &[]));
    let whole = carried(&saved(&replay, &[&sampler]));
    // The number of samplers: 0 or 1.
    let count = differ(&bare, &whole);
    Writers::new(9).write(&replay, 1, random);
    let window = differ(&bare, &carried(&saved(&replay, &[])));
    let end = whole.len() - (bare.len() - count - 1);
    (whole, window..count, count + 1..end)
}

/// Spoils a part of a file, or changes a number a little.
fn spoil_part(whole: &[u8], part: Range<usize>, random: &mut Random) -> Vec<u8> {
    let mut bytes = whole[part.clone()].to_vec();
    for _ in 0..1 + random.below(2) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => spoil(&mut bytes, random),
            1 if !bytes.is_empty() => bytes[at] = bytes[at].wrapping_add(1),
            2 if !bytes.is_empty() => bytes[at] = bytes[at].wrapping_sub(1),
            _ if !bytes.is_empty() => {
                let other = random.below(bytes.len());
                bytes.swap(at, other);
            }
            _ => {}
        }
    }
    [&whole[..part.start], &bytes, &whole[part.end..]].concat()
}

/// Runs cases in a thread of their own: a panic or a case without an end fails. Returns how many files were taken.
fn run(count: usize, seed: u64, pick: fn((Range<usize>, Range<usize>)) -> Range<usize>) -> usize {
    let done = Arc::new(AtomicUsize::new(0));
    let counter = done.clone();
    let cases = std::thread::spawn(move || {
        let (mut random, mut taken) = (Random(seed), 0);
        let header = saved(&buffer(), &[])[..16].to_vec();
        for way in all_ways().into_iter().cycle() {
            let (whole, index, state) = parts(&way, &mut random);
            let part = pick((index, state));
            for _ in 0..50 {
                let file = sealed(&header, &spoil_part(&whole, part.clone(), &mut random));
                let loaded = catch_unwind(AssertUnwindSafe(|| load(&file, &way, &mut random)));
                let case = counter.fetch_add(1, Relaxed);
                taken += usize::from(loaded.unwrap_or_else(|_| panic!("case {case}, {way:?}: {file:?}")).is_ok());
            }
            if counter.load(Relaxed) >= count {
                return taken;
            }
        }
        taken
    });
    let (mut seen, mut since) = (0, Instant::now());
    while !cases.is_finished() {
        std::thread::sleep(Duration::from_millis(10));
        if done.load(Relaxed) != seen {
            (seen, since) = (done.load(Relaxed), Instant::now());
        }
        assert!(since.elapsed() < Duration::from_secs(60), "case {seen} does not end");
    }
    cases.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A sampler's state is an error, or draws; priorities, random numbers and versions may be any.
#[test]
fn wrong_states_of_samplers_are_errors_or_harmless() {
    let taken = run(30_000, 6, |(_, state)| state);
    assert!(taken > 500 && taken < 15_000, "{taken} were taken");
}

/// So is an index.
#[test]
fn wrong_indices_are_errors_or_harmless() {
    let taken = run(15_000, 7, |(index, _)| index);
    assert!(taken > 200 && taken < 10_000, "{taken} were taken");
}
