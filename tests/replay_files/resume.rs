//! A run that was saved and loaded is the run that was not.

use std::time::Duration;

use gleaner::replay::{
    Capacity, Prefetch, Replay, ReplayConfig, Sample, Sampler, SamplerBuilder, Storage,
    sampler::{
        Best, Boundary, Consuming, Groups, Prioritized, PrioritizedSlices, Recency, Sampling, Schedule, Sequences,
        Share, Short, Slices, SlicesWithoutReplacement, Staleness, Uniform, Weighting, WithoutReplacement,
    },
};

use crate::{
    fresh,
    made::{Block, Made, Source},
};

const CAPACITY: u64 = 40;

/// Every way to draw.
pub fn ways() -> Vec<Sampling> {
    let beta = Schedule::Linear { from: 0.4, to: 1.0, samples: 90 };
    let prioritized = Prioritized { beta, max_priority_within_buffer: true, ..Prioritized::default() };
    vec![
        Uniform.into(),
        Prioritized::default().into(),
        prioritized.into(),
        PrioritizedSlices { slice_len: 2, priorities: prioritized }.into(),
        Staleness::default().into(),
        Recency::HalfLife(9.0).into(),
        Recency::Window(11).into(),
        WithoutReplacement::default().into(),
        Consuming { uses: 3 }.into(),
        Slices::of(2).into(),
        Slices { short: Short::Whole, weighting: Weighting::Frames, ..Slices::of(3) }.into(),
        SlicesWithoutReplacement::of(1).into(),
        Sequences::of(2).into(),
        Sequences { boundary: Boundary::Pad, anchors: Some(prioritized), ..Sequences::of(2) }.into(),
        Groups { column: "trajectory".into(), share: Share::Groups(1), best: Best::default() }.into(),
    ]
}

fn config(storage: Storage) -> ReplayConfig {
    ReplayConfig { capacity: Capacity::Frames(CAPACITY), storage, ..ReplayConfig::default() }
}

fn buffer() -> Replay<Made> {
    Replay::with_config(config(Storage::Memory)).expect("a buffer")
}

/// A builder of a sampler that draws this way, with n-step returns if it draws frames one by one.
pub fn builder(replay: &Replay<Made>, way: &Sampling) -> SamplerBuilder<Made> {
    let builder = replay.sampler().sampling(way.clone());
    match way {
        Sampling::Slices(_)
        | Sampling::SlicesWithoutReplacement(_)
        | Sampling::PrioritizedSlices(_)
        | Sampling::Sequences(_) => builder,
        _ => builder.n_step(2, 0.9),
    }
}

fn sampler(replay: &Replay<Made>, way: &Sampling, seed: u64) -> Sampler<Made> {
    builder(replay, way).batch_size(5).seed(seed).build().expect("a sampler")
}

/// Everything that is in a sample.
fn bits(sample: &Sample<Made>) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        sample.frames(),
        sample.weights(),
        sample.actions(),
        sample.next_observations(),
        sample.returns(),
        sample.discounts()
    )
}

/// Writes and draws, `steps` times from step `from` on; gives all that was drawn.
fn run(
    replay: &Replay<Made>,
    samplers: &mut [Sampler<Made>],
    source: &mut Source,
    from: u64,
    steps: u64,
) -> Vec<String> {
    let mut drawn = Vec::new();
    for step in from..from + steps {
        let slots = source.ticks(2, 60, &mut || (step * 71 % 256) as u8 & 0xfe);
        replay.extend(&Block::new(&slots, Some(3))).expect("room");
        for sampler in &mut *samplers {
            let sample = sampler.sample();
            drawn.push(sample.as_ref().map_or_else(ToString::to_string, bits));
            let priorities = |sample: &Sample<Made>| sample.frames().iter().map(|frame| (frame % 7) as f32).collect();
            let priorities: Vec<f32> = sample.as_ref().map(priorities).unwrap_or_default();
            // Those that have priorities take them.
            let _taken = sample.map(|sample| sampler.update_priorities(sample.frames(), &priorities));
        }
    }
    drawn
}

/// I7: run(n) is run(k), save, load, run(n - k), in memory and in a mapped file, before the first write, before the ring is
/// full and long after.
#[test]
fn cp_01_i7_a_loaded_run_goes_on_bit_for_bit() {
    const STEPS: u64 = 30;
    let mut samples = 0;
    for way in &ways() {
        let straight = {
            let replay = buffer();
            let mut samplers = [sampler(&replay, way, 1), sampler(&replay, way, 2)];
            run(&replay, &mut samplers, &mut Source::new(3, 1), 0, STEPS)
        };
        for k in [0, 1, 5, 17, STEPS] {
            let (path, mapped) = (fresh("resume"), fresh("resume-mapped"));
            let mut source = Source::new(3, 1);
            let replay = buffer();
            let mut samplers = [sampler(&replay, way, 1), sampler(&replay, way, 2)];
            let mut drawn = run(&replay, &mut samplers, &mut source, 0, k);
            replay.save(&path, &[&samplers[0], &samplers[1]]).expect("saved");
            let stored = replay.trajectories();
            drop((replay, samplers));

            let replay = Replay::with_config(config(Storage::File(mapped.clone()))).expect("a buffer");
            let [mut first, mut second] = [sampler(&replay, way, 8), sampler(&replay, way, 9)];
            replay.load(&path, &mut [&mut first, &mut second]).expect("loaded");
            assert_eq!(replay.trajectories(), stored);
            drawn.extend(run(&replay, &mut [first, second], &mut source, k, STEPS - k));
            assert_eq!(drawn, straight, "{way:?}, saved after {k}");
            samples += drawn.iter().filter(|drawn| drawn.starts_with('[')).count();
            drop(replay);
            assert!(!mapped.exists());
            std::fs::remove_file(path).expect("saved");
        }
    }
    assert!(samples > ways().len() * 5 * 50, "{samples} samples, the rest were errors");
}

/// The same state is the same file, and a save changes nothing.
#[test]
fn a_file_says_the_same_each_time() {
    let replay = buffer();
    let mut samplers = [sampler(&replay, &Uniform.into(), 1)];
    run(&replay, &mut samplers, &mut Source::new(3, 1), 0, 9);
    let saved = |replay: &Replay<Made>, sampler: &Sampler<Made>| {
        let mut file = Vec::new();
        replay.save_to(&mut file, &[sampler]).expect("memory");
        file
    };
    let file = saved(&replay, &samplers[0]);
    assert_eq!(saved(&replay, &samplers[0]), file);
    let other = buffer();
    let mut loaded = sampler(&other, &Uniform.into(), 2);
    other.load_from(&mut file.as_slice(), &mut [&mut loaded]).expect("loaded");
    assert_eq!(saved(&other, &loaded), file);
}

/// RB-10: what was prepared ahead is yielded after a restore, then what would have been drawn next.
#[test]
fn rb_10_prepared_samples_are_part_of_the_state() {
    for taken in [0, 1, 4] {
        let replay = buffer();
        run(&replay, &mut [], &mut Source::new(3, 1), 0, 20);
        let mut ahead = sampler(&replay, &Uniform.into(), 1).prefetch(3).expect("a thread");
        (0..taken).for_each(|_| drop(ahead.next()));
        while ahead.ready() < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut file = Vec::new();
        replay.save_to(&mut file, &[&ahead]).expect("memory");
        let wanted: Vec<_> = ahead.take(8).map(|sample| bits(&sample.expect("frames"))).collect();

        let other = buffer();
        // One that prepares fewer yields all that was prepared nevertheless.
        let mut loaded = sampler(&other, &Uniform.into(), 2).prefetch(1).expect("a thread");
        other.load_from(&mut file.as_slice(), &mut [&mut loaded]).expect("loaded");
        let drawn: Vec<_> = loaded.take(8).map(|sample| bits(&sample.expect("frames"))).collect();
        assert_eq!(drawn, wanted, "after {taken}");

        let third = buffer();
        let mut plain = sampler(&third, &Uniform.into(), 2);
        let error = third.load_from(&mut file.as_slice(), &mut [&mut plain]).expect_err("samples would be lost");
        assert!(error.to_string().contains("prefetch"), "{error}");
    }
}

/// The end of an epoch that was prepared comes after the restore as well.
#[test]
fn rb_10_a_prepared_end_of_an_epoch_is_part_of_the_state() {
    let ways: [Sampling; 2] = [WithoutReplacement::default().into(), SlicesWithoutReplacement::of(1).into()];
    for way in &ways {
        for taken in [0, 3, 8, 9] {
            let replay = buffer();
            run(&replay, &mut [], &mut Source::new(3, 1), 0, 20);
            // Far ahead, so that the epoch's end is prepared: nothing is behind it before it is yielded.
            let prefetch = |replay: &Replay<Made>, seed| sampler(replay, way, seed).prefetch(9).expect("a thread");
            let mut ahead = prefetch(&replay, 1);
            let next = |ahead: &mut Prefetch<Made>| ahead.next().map(|sample| bits(&sample.expect("frames")));
            (0..taken).for_each(|_| drop(next(&mut ahead)));
            std::thread::sleep(Duration::from_millis(50));
            let mut file = Vec::new();
            replay.save_to(&mut file, &[&ahead]).expect("memory");
            let wanted: Vec<_> = (0..25).map(|_| next(&mut ahead)).collect();
            assert!(wanted.contains(&None));

            let other = buffer();
            let mut loaded = prefetch(&other, 2);
            other.load_from(&mut file.as_slice(), &mut [&mut loaded]).expect("loaded");
            let drawn: Vec<_> = (0..25).map(|_| next(&mut loaded)).collect();
            assert_eq!(drawn, wanted, "{way:?} after {taken}");
        }
    }
}

/// The learner's version is the saved one's, whatever that of the sampler was before.
#[test]
fn a_learners_version_is_part_of_the_state() {
    let replay = buffer();
    let way = Staleness { power: 3.0, ..Staleness::default() }.into();
    let mut own = sampler(&replay, &way, 1);
    run(&replay, &mut [], &mut Source::new(3, 1), 0, 9);
    own.set_version(u64::MAX - 2).expect("by staleness");
    own.sample().expect("frames");
    let mut file = Vec::new();
    replay.save_to(&mut file, &[&own]).expect("memory");
    let other = buffer();
    let mut loaded = sampler(&other, &way, 2);
    other.load_from(&mut file.as_slice(), &mut [&mut loaded]).expect("loaded");
    let [own, loaded] = [own.sample().expect("frames"), loaded.sample().expect("frames")];
    assert_eq!(bits(&loaded), bits(&own));
    assert_eq!(
        (0..5).map(|i| loaded.staleness(i)).collect::<Vec<_>>(),
        (0..5).map(|i| own.staleness(i)).collect::<Vec<_>>()
    );
}

/// CP-02: what does not fit is named, and nothing changes.
#[test]
fn cp_02_what_does_not_fit_is_an_error() {
    let replay = buffer();
    let mut samplers = [sampler(&replay, &Uniform.into(), 1)];
    run(&replay, &mut samplers, &mut Source::new(3, 1), 0, 9);
    let mut file = Vec::new();
    replay.save_to(&mut file, &[&samplers[0]]).expect("memory");
    let error = |replay: &Replay<Made>, samplers: &mut [&mut dyn gleaner::replay::Saved<Made>]| {
        let error = replay.load_from(&mut file.as_slice(), samplers).expect_err("it does not fit");
        error.to_string()
    };

    let small = Replay::<Made>::new(CAPACITY - 1).expect("a buffer");
    let wrong = error(&small, &mut [&mut sampler(&small, &Uniform.into(), 1)]);
    assert_eq!(wrong, "capacity is 39; legal: that of the checkpoint, 40");
    assert!(small.is_empty());

    let other = buffer();
    assert_eq!(error(&other, &mut []), "samplers is 0; legal: those of the checkpoint, 1");
    let mut plain = other.sampler().batch_size(5).build().expect("a sampler");
    assert!(error(&other, &mut [&mut plain]).contains("n_step Some((2, 0.9))"));
    let wrong = error(&other, &mut [&mut sampler(&small, &Uniform.into(), 1)]);
    assert!(wrong.contains("another buffer"), "{wrong}");
    let wrong = error(&replay, &mut [&mut sampler(&replay, &Uniform.into(), 1)]);
    assert!(wrong.contains("load into a new one"), "{wrong}");

    let cart = Replay::<gleaner::prelude::CartPole>::new(CAPACITY).expect("a buffer");
    let wrong = cart.load_from(&mut file.as_slice(), &mut []).expect_err("another task").to_string();
    assert!(wrong.contains("observation") && wrong.contains("legal for this task"), "{wrong}");

    let missing = other.load(fresh("missing"), &mut []).expect_err("no such file").to_string();
    assert!(missing.contains("missing"), "{missing}");
    assert!(other.save(fresh("no-folder").join("file"), &[]).is_err());
}
