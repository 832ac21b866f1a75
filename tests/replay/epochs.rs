//! Without replacement every frame, or a slice of every trajectory, comes once an epoch.

use gleaner::replay::{
    Replay, Sample, Sampler,
    sampler::{Sampling, Short, Slices, SlicesWithoutReplacement, WithoutReplacement},
};
use proptest::prelude::*;

use crate::{
    chances::chi_square,
    made::{Block, Made, Source},
    scene::{Scene, scene},
};

fn sampler(replay: &Replay<Made>, sampling: impl Into<Sampling>, picks: usize, seed: u64) -> Sampler<Made> {
    replay.sampler().sampling(sampling).batch_size(picks).seed(seed).build().expect("a sampler")
}

fn sorted(samples: &[Sample<Made>]) -> Vec<u64> {
    let mut frames: Vec<_> = samples.iter().flat_map(|sample| sample.frames().to_vec()).collect();
    frames.sort_unstable();
    frames
}

fn epoch<I: Iterator<Item = Result<Sample<Made>, gleaner::Error>>>(sampler: &mut I) -> Vec<Sample<Made>> {
    sampler.map(|sample| sample.expect("a sample")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn o17_every_frame_once_an_epoch(scene in scene(), picks in 1..20_usize, drop_last: bool, shuffle: bool, seed in 0..9_u64) {
        let frames: Vec<u64> = (scene.model.tail()..scene.model.written).collect();
        let mut sampler = sampler(&scene.replay, WithoutReplacement { drop_last, shuffle }, picks, seed);
        if drop_last && picks > frames.len() {
            prop_assert!(sampler.sample().expect_err("too many").to_string().contains("batch_size"));
            return Ok(());
        }
        for _ in 0..3 {
            let samples = epoch(&mut sampler);
            samples.iter().for_each(|sample| scene.check_frames(sample));
            let (whole, rest) = (frames.len() / picks, frames.len() % picks);
            let sizes: Vec<_> = samples.iter().map(Sample::len).collect();
            let last = if rest == 0 || drop_last { vec![] } else { vec![rest] };
            prop_assert_eq!(sizes, [vec![picks; whole], last].concat());
            let drawn = sorted(&samples);
            if drop_last {
                prop_assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]));
            } else {
                prop_assert_eq!(drawn, frames.clone());
            }
            if !shuffle {
                prop_assert!(samples.iter().all(|sample| sample.frames().is_sorted()));
            }
        }
    }

    #[test]
    fn i8_a_slice_of_every_trajectory_once_an_epoch(
        scene in scene(), picks in 1..6_usize, len in 1..6_u32, pad: bool, shuffle: bool, seed in 0..9_u64,
    ) {
        let short = if pad { Short::Pad } else { Short::Skip };
        let mut ids: Vec<u64> = scene.trajectories().iter()
            .filter(|frames| pad || frames.len() >= len as usize)
            .map(|frames| scene.model.frame(frames[0]).id)
            .collect();
        ids.sort_unstable();
        let slices = Slices { short, ..Slices::of(len) };
        let options = SlicesWithoutReplacement { slices, drop_last: false, shuffle };
        let mut sampler = sampler(&scene.replay, options, picks, seed);
        if ids.is_empty() {
            prop_assert!(sampler.sample().is_err());
            return Ok(());
        }
        for _ in 0..3 {
            let samples = epoch(&mut sampler);
            samples.iter().for_each(|sample| scene.check(sample, 1));
            let own = |sample: &Sample<Made>| -> Vec<u64> {
                (0..sample.picks()).map(|i| sample.trajectory_ids()[sample.pick(i).start].0).collect()
            };
            let mut drawn: Vec<u64> = samples.iter().flat_map(own).collect();
            drawn.sort_unstable();
            prop_assert_eq!(&drawn, &ids);
        }
    }

    /// What is written in the middle of an epoch: no frame twice that is there, none that is not.
    #[test]
    fn epochs_go_on_while_frames_are_written(mut scene in scene(), picks in 1..9_usize, writes in 1..6_usize, seed in 0..9_u64) {
        let mut sampler = sampler(&scene.replay, WithoutReplacement::default(), picks, seed);
        let mut slices = self::sampler(&scene.replay, SlicesWithoutReplacement::of(1), picks, seed);
        let mut seen = Vec::new();
        let mut source = Source::new(2, 7);
        for _ in 0..writes {
            scene.check(&slices.sample().expect("slices"), 1);
            let full = scene.model.frames.len() == scene.model.capacity;
            let before = sampler.remaining().unwrap_or(0);
            let sample = sampler.sample().expect("frames");
            scene.check_frames(&sample);
            if sampler.remaining().expect("an epoch") + sample.len() as u64 > before {
                seen.clear();
            }
            seen.extend_from_slice(sample.frames());
            let mut once = seen.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), seen.len());
            let slots = source.ticks(2, 60, &mut || 77);
            if full { scene.write(&slots, Some(2)) }
        }
    }
}

#[test]
fn a_buffer_that_grows_begins_the_epoch_again() {
    let mut scene = Scene::of_episodes(&[4]);
    let replay = Replay::<Made>::new(20).expect("a buffer");
    scene.replay = replay;
    scene.model = crate::made::Model::new(20);
    let mut source = Source::new(1, 0);
    scene.write(&source.ticks(4, 0, &mut || 9), Some(1));
    let mut sampler = sampler(&scene.replay, WithoutReplacement::default(), 2, 0);
    let _ = sampler.sample().expect("two of four");
    assert_eq!((sampler.remaining(), sampler.ran_out()), (Some(2), false));
    scene.write(&source.ticks(2, 0, &mut || 9), Some(1));
    assert_eq!(sorted(&epoch(&mut sampler)), [0, 1, 2, 3, 4, 5]);
    assert!(sampler.ran_out());
}

/// Every frame is as often the first as any other, every pair as any other.
#[test]
fn orders_have_the_same_chance() {
    let scene = Scene::of_episodes(&[3, 4]);
    let mut sampler = sampler(&scene.replay, WithoutReplacement::default(), 7, 5);
    let orders: Vec<_> = (0..20_000).map(|_| sampler.sample().expect("an epoch").frames().to_vec()).collect();
    let pairs = (0..7).flat_map(|a| (0..7).filter(move |b| a != *b).map(move |b| ((a, b), 1.0)));
    chi_square(orders.iter().map(|order| (order[2], order[3])), &pairs.collect());
    chi_square(orders.iter().map(|order| order[0]), &(0..7).map(|i| (i, 1.0)).collect());
}

/// A buffer that was emptied grows again, however much was written before.
#[test]
fn an_epoch_begins_again_when_an_emptied_buffer_grows() {
    let replay = Replay::<Made>::new(10).expect("a buffer");
    let mut source = Source::new(1, 0);
    let mut write = |frames| replay.extend(&Block::new(&source.ticks(frames, 0, &mut || 9), Some(1))).expect("room");
    write(25);
    replay.empty(false).expect("nobody reads");
    write(4);
    let mut sampler = sampler(&replay, WithoutReplacement::default(), 2, 1);
    sampler.sample().expect("frames");
    write(3);
    sampler.sample().expect("frames");
    assert_eq!(sampler.remaining(), Some(5), "an epoch of seven frames");
}
