//! Frames by priority: frequencies, weights, what is refused.

use gleaner::{
    components::{ColumnSpec, Frames},
    data::Dtype,
    replay::{
        Replay, Sampler,
        sampler::{Prioritized, Schedule, Uniform},
    },
};

use crate::{
    made::{Block, Frame, Made, Source},
    script::agree,
};

/// A buffer with frames 0 to `frames`.
fn filled(capacity: u64, frames: usize) -> Replay<Made> {
    let replay = Replay::<Made>::new(capacity).expect("a buffer");
    more(&replay, frames);
    replay
}

fn more(replay: &Replay<Made>, frames: usize) {
    let slots = Source::new(1, replay.write_count()).ticks(frames, 0, &mut || 9);
    replay.extend(&Block::new(&slots, Some(1))).expect("room");
}

fn sampler(replay: &Replay<Made>, options: Prioritized) -> Sampler<Made> {
    replay.sampler().sampling(options).batch_size(1_000).build().expect("a sampler")
}

/// How often each frame is drawn in `samples` samples.
fn counts(sampler: &mut Sampler<Made>, frames: usize, samples: usize) -> Vec<u64> {
    let mut counts = vec![0; frames];
    for _ in 0..samples {
        sampler.sample().expect("frames").frames().iter().for_each(|frame| counts[*frame as usize] += 1);
    }
    counts
}

/// O-16: frequencies are those of `p^alpha`, and weights those of `(p / p_min)^-beta`.
#[test]
fn o16_frequencies_and_weights() {
    let replay = filled(300, 257);
    let frames: Vec<u64> = (0..257).collect();
    let priorities: Vec<f32> = frames.iter().map(|frame| 0.5 + (frame % 13) as f32).collect();
    for (alpha, beta) in [(0.0, 1.0), (0.6, 0.4), (1.0, 1.0), (2.0, 0.0)] {
        let options = Prioritized { alpha: alpha.into(), beta: beta.into(), eps: 0.0, ..Prioritized::default() };
        let mut sampler = sampler(&replay, options);
        sampler.update_priorities(&frames, &priorities).expect("there");
        let chances: Vec<f64> = priorities.iter().map(|p| f64::from(*p).powf(alpha.into())).collect();
        agree(&counts(&mut sampler, 257, 200), &chances).unwrap();
        let sample = sampler.sample().expect("frames");
        for (frame, weight) in sample.frames().iter().zip(sample.weights()) {
            let expected = (priorities[*frame as usize] / 0.5).powf(-alpha * beta);
            assert!((weight - expected).abs() < 1e-5, "{weight} {expected}");
        }
    }
}

/// J8: alpha and eps are applied once. Frames of priorities 4 and 1 with alpha 0.5 are drawn 2 to 1.
#[test]
fn j8_priorities_are_transformed_once() {
    let replay = filled(4, 2);
    let options = Prioritized { alpha: 0.5.into(), beta: 1.0.into(), eps: 0.0, ..Prioritized::default() };
    let mut sampler = sampler(&replay, options);
    sampler.update_priorities(&[0, 1], &[4.0, 1.0]).expect("there");
    let sample = sampler.sample().expect("frames");
    for (frame, weight) in sample.frames().iter().zip(sample.weights()) {
        assert_eq!(*weight, if *frame == 0 { 0.5 } else { 1.0 });
    }
    // A new frame has the highest priority as it was given, 4, and so the chance 2.
    more(&replay, 1);
    agree(&counts(&mut sampler, 3, 50), &[2.0, 1.0, 2.0]).unwrap();
}

/// P_min is that of all frames that are there, not of the sample, and not of those that are gone.
#[test]
fn the_smallest_chance_is_the_buffers() {
    let replay = filled(100, 100);
    let options = Prioritized { alpha: 1.0.into(), beta: 1.0.into(), eps: 0.0, ..Prioritized::default() };
    let mut sampler = sampler(&replay, options);
    sampler.update_priorities(&[0, 1], &[1e-6, 0.5]).expect("there");
    let weight = |sampler: &mut Sampler<Made>| {
        let sample = sampler.sample().expect("frames");
        let other = sample.frames().iter().position(|frame| *frame > 1).expect("most are");
        sample.weights()[other]
    };
    assert!((weight(&mut sampler) - 1e-6).abs() < 1e-11);
    // Frame 0 goes: new ones have the highest priority given, 0.5.
    more(&replay, 1);
    assert_eq!(weight(&mut sampler), 0.5);
}

/// Updates that come late: the place holds another frame by then, which keeps its priority.
#[test]
fn late_updates_are_left_out() {
    let replay = filled(4, 4);
    let mut sampler = sampler(&replay, Prioritized { beta: 1.0.into(), ..Prioritized::default() });
    let old = sampler.sample().expect("frames");
    assert_eq!((old.index(0), old.generation(0)), (old.frames()[0], 0));
    more(&replay, 3);
    assert_eq!(sampler.update_priorities(&[0, 1, 2, 3, 4, 7, u64::MAX], &[1e6; 7]).expect("legal"), 2);
    // Frames 3 and 4 are there; 5 and 6 came before the update did.
    let mut counts = [0_u64; 7];
    sampler.sample().expect("frames").frames().iter().for_each(|frame| counts[*frame as usize] += 1);
    assert!(counts[..3] == [0; 3] && counts[3] > 400 && counts[4] > 400, "{counts:?}");
}

/// J12: equal priorities are equal chances.
#[test]
fn j12_equal_priorities() {
    let mut sampler = sampler(&filled(4, 4), Prioritized::default());
    agree(&counts(&mut sampler, 4, 100), &[1.0; 4]).unwrap();
}

/// J11: no frame of priority 0 is drawn among tiny ones, without an eps.
#[test]
fn j11_priorities_of_zero_are_never_drawn() {
    let replay = filled(1_000, 1_000);
    let mut sampler = sampler(&replay, Prioritized { eps: 0.0, ..Prioritized::default() });
    let frames: Vec<u64> = (0..1_000).collect();
    let priorities: Vec<f32> = frames.iter().map(|frame| if frame % 10 == 0 { 0.0 } else { 1e-30 }).collect();
    sampler.update_priorities(&frames, &priorities).expect("there");
    let counts = counts(&mut sampler, 1_000, 100);
    assert!(counts.iter().step_by(10).all(|count| *count == 0));
    sampler.update_priorities(&frames, &[0.0; 1_000]).expect("there");
    let error = sampler.sample().expect_err("no chance").to_string();
    assert_eq!(error, "sample: the priorities of all frames are 0");
}

/// A new alpha is applied to the priorities as they were given, also after an alpha of 0.
#[test]
fn a_schedule_of_alpha_loses_nothing() {
    let alpha = Schedule::Step { from: 0.0, to: 0.0, factor: 1.0, samples: 1 };
    assert_eq!(alpha.at(3), 0.0);
    let alpha = Schedule::Linear { from: 0.0, to: 1.0, samples: 1 };
    let replay = filled(3, 3);
    let mut sampler = sampler(&replay, Prioritized { alpha, ..Prioritized::default() });
    sampler.update_priorities(&[0, 1, 2], &[1.0, 2.0, 5.0]).expect("there");
    agree(&counts(&mut sampler, 3, 1), &[1.0; 3]).unwrap();
    agree(&counts(&mut sampler, 3, 50), &[1.0, 2.0, 5.0]).unwrap();
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let replay = filled(50, 70);
    let draw = |seed| {
        let mut sampler =
            replay.sampler().sampling(Prioritized::default()).batch_size(64).seed(seed).build().expect("a sampler");
        sampler.update_priorities(&[30, 40], &[9.0, 0.1]).expect("there");
        (0..5).flat_map(|_| sampler.sample().expect("frames").frames().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}

#[test]
fn wrong_options_are_named_when_a_sampler_is_built() {
    let replay = Replay::<Made>::new(4).expect("a buffer");
    let error =
        |options: Prioritized| replay.sampler().sampling(options).build().expect_err("illegal options").to_string();
    let legal = Prioritized::default();
    assert!(error(Prioritized { alpha: (-0.1).into(), ..legal }).starts_with("alpha is -0.1"));
    assert!(error(Prioritized { beta: f32::NAN.into(), ..legal }).starts_with("beta is NaN"));
    assert!(error(Prioritized { eps: -1.0, ..legal }).starts_with("eps is -1"));
    let endless = Schedule::Linear { from: 0.0, to: 1.0, samples: 0 };
    assert!(error(Prioritized { beta: endless, ..legal }).contains("1 or more"));
}

#[test]
fn wrong_priorities_are_refused() {
    let replay = filled(4, 4);
    let mut uniform = replay.sampler().sampling(Uniform).build().expect("a sampler");
    assert!(uniform.update_priorities(&[0], &[1.0]).is_err() && uniform.mark_update(&[0]).is_err());
    let mut sampler = sampler(&replay, Prioritized::default());
    assert!(sampler.update_priorities(&[0, 1], &[1.0]).is_err());
    for wrong in [-1.0, f32::NAN, f32::INFINITY] {
        assert!(sampler.update_priorities(&[0], &[wrong]).is_err());
    }
}

/// A block whose frames bring priorities: their serial number, but for some that bring none.
struct Rated {
    block: Block,
    specs: Vec<ColumnSpec>,
    priorities: Vec<f32>,
}

impl Rated {
    fn new(slots: &[Option<Frame>], priority: impl Fn(u32) -> f32) -> Self {
        let block = Block::new(slots, None);
        let specs = [block.columns(), &[ColumnSpec::scalar("priority", Dtype::F32)]].concat();
        let priorities = slots.iter().flatten().map(|frame| priority(frame.serial)).collect();
        Self { block, specs, priorities }
    }
}

impl Frames for Rated {
    fn columns(&self) -> &[ColumnSpec] {
        &self.specs
    }
    fn bytes(&self, i: usize) -> &[u8] {
        if i + 1 == self.specs.len() { bytemuck::cast_slice(&self.priorities) } else { self.block.bytes(i) }
    }
    fn slots(&self) -> usize {
        self.block.slots()
    }
    fn frames(&self) -> usize {
        self.block.frames()
    }
    fn rows(&self) -> Option<usize> {
        None
    }
    fn next_observation(&self, i: usize) -> &[u8] {
        self.block.next_observation(i)
    }
}

/// RB-23: frames are drawn by the priorities that they bring, whatever the sampler has seen of them before.
#[test]
fn rb23_frames_bring_their_priorities() {
    let replay = Replay::<Made>::new(40).expect("a buffer");
    let mut source = Source::new(1, 0);
    let brought = |serial: u32| match serial % 10 {
        7 => f32::NAN,
        8 => -1.0,
        ones => ones as f32,
    };
    let mut write = |frames| {
        let block = Rated::new(&source.ticks(frames, 0, &mut || 9), brought);
        replay.extend(&block).expect("room");
    };
    for within in [false, true] {
        let options = Prioritized {
            alpha: 1.0.into(),
            eps: 0.5,
            by_column: true,
            max_priority_within_buffer: within,
            ..Prioritized::default()
        };
        let mut early = sampler(&replay, options);
        let (mut priorities, mut highest) = (Vec::new(), None);
        // Past the ring's end, in blocks that begin anywhere.
        for frames in [3, 30, 30] {
            write(frames);
            early.sample().expect("frames");
            // Those that bring none have the highest that was given before.
            let default = highest.unwrap_or(1.0);
            priorities.resize(replay.frames().start.max(priorities.len() as u64) as usize, 0.0);
            let new = priorities.len() as u64..replay.frames().end;
            priorities.extend(new.map(|frame| match brought(frame as u32) {
                priority if priority >= 0.0 => priority,
                _ => default,
            }));
            highest = priorities.iter().copied().reduce(f32::max);
        }
        let (first, end) = (replay.frames().start, replay.frames().end);
        let chance = |frame: u64| if frame < first { 0.0 } else { f64::from(priorities[frame as usize]) + 0.5 };
        let chances: Vec<f64> = (0..end).map(chance).collect();
        agree(&counts(&mut early, end as usize, 200), &chances).unwrap();
        // One that is given later counts.
        early.update_priorities(&[end - 1], &[1_000.0]).expect("there");
        let sample = early.sample().expect("frames");
        assert!(sample.frames().iter().filter(|frame| **frame == end - 1).count() > 500);
    }
    let plain = filled(10, 10);
    let error =
        plain.sampler().sampling(Prioritized { by_column: true, ..Prioritized::default() }).batch_size(1).build();
    let error = error.expect("a sampler").sample().expect_err("no such column").to_string();
    assert!(error.contains("by_column is true; legal: with a recorded column \"priority\""), "{error}");
}
