//! Slices lie within one trajectory, and every one of them has the chance that it should have.

use std::collections::BTreeMap;

use gleaner::{
    components::End,
    prelude::Error,
    replay::{
        Replay, Sample,
        sampler::{Short, Slices, Weighting},
    },
};
use proptest::prelude::*;

use crate::{
    chances::chi_square,
    made::{Block, Frame, Made, Source},
    scene::{Scene, scene},
};

fn draw(replay: &Replay<Made>, slices: &Slices, picks: usize, seed: u64) -> Result<Sample<Made>, Error> {
    replay.sampler().sampling(slices.clone()).batch_size(picks).seed(seed).build()?.sample()
}

/// The slices that there are, each with its chance.
fn chances(scene: &Scene, slices: &Slices) -> BTreeMap<Vec<u64>, f64> {
    let mut chances = BTreeMap::new();
    for frames in scene.trajectories() {
        let len = frames.len().min(slices.len as usize);
        if len < slices.len as usize && slices.short == Short::Skip {
            continue;
        }
        // Slices that would be cut to nothing are none.
        let reach = |span: u32| (span as i64).min(len as i64 - 1);
        let starts = -reach(slices.span.0)..=frames.len() as i64 - len as i64 + reach(slices.span.1);
        let count = starts.clone().count() as f64;
        for start in starts {
            let kept = (start..start + len as i64).filter_map(|i| frames.get(usize::try_from(i).ok()?).copied());
            let chance = if slices.weighting == Weighting::Trajectories { 1.0 / count } else { 1.0 };
            *chances.entry(kept.collect()).or_insert(0.0) += chance;
        }
    }
    chances
}

fn drawn(sample: &Sample<Made>) -> Vec<Vec<u64>> {
    let valid = |i: &usize| sample.flags()[*i].valid();
    (0..sample.picks()).map(|i| sample.pick(i).filter(valid).map(|i| sample.frames()[i]).collect()).collect()
}

fn slices() -> impl Strategy<Value = Slices> {
    let short = prop_oneof![Just(Short::Skip), Just(Short::Whole), Just(Short::Pad)];
    let weighting = prop_oneof![Just(Weighting::Trajectories), Just(Weighting::Frames)];
    (1..12_u32, short, 0..12_u32, 0..12_u32, any::<bool>(), weighting).prop_map(
        |(len, short, left, right, none, weighting)| {
            let span = if none { (0, 0) } else { (left % len, right % len) };
            Slices { len, short, span, weighting }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// I8, J3, O-08: slices are those that there are, and nothing else; if there is none, that is said.
    #[test]
    fn i8_j3_o08_slices_lie_within_one_trajectory(scene in scene(), slices in slices(), seed in 0..100_u64) {
        let chances = chances(&scene, &slices);
        match draw(&scene.replay, &slices, 20, seed) {
            Ok(sample) => {
                scene.check(&sample, 1);
                prop_assert_eq!(sample.picks(), 20);
                for (pick, drawn) in drawn(&sample).iter().enumerate() {
                    prop_assert!(chances.contains_key(drawn), "{:?} of {:?}", drawn, chances);
                    let slots = if slices.short == Short::Pad { slices.len as usize } else { drawn.len() };
                    prop_assert_eq!(sample.pick(pick).len(), slots);
                }
                let again = draw(&scene.replay, &slices, 20, seed).expect("slices");
                prop_assert_eq!(again.frames(), sample.frames());
            }
            Err(error) => {
                prop_assert!(chances.is_empty(), "{}", error);
                let legal = format!("{} frames", slices.len);
                prop_assert!(error.to_string().contains(&legal), "{}", error);
            }
        }
    }
}

fn frequencies(scene: &Scene, slices: &Slices) {
    let sample = draw(&scene.replay, slices, 60_000, 3).expect("slices");
    chi_square(drawn(&sample), &chances(scene, slices));
}

#[test]
fn every_slice_has_its_chance() {
    // The first trajectories have lost their heads, and rows take turns.
    let mut scene = Scene::of_episodes(&[9, 1, 4, 6, 12, 3, 5, 5]);
    let mut bytes = (0..).map(|i: u32| (i * 83 % 254) as u8);
    scene.write(&Source::new(3, 1).ticks(5, 40, &mut || bytes.next().unwrap_or(9)), Some(3));
    for weighting in [Weighting::Trajectories, Weighting::Frames] {
        for short in [Short::Skip, Short::Whole] {
            for span in [(0, 0), (2, 0), (3, 3)] {
                frequencies(&scene, &Slices { len: 4, short, span, weighting });
            }
        }
    }
}

/// When hardly any trajectory is long enough, chance does not find it, and the draws are the same still.
#[test]
fn rare_slices_have_their_chances_too() {
    let mut lengths = vec![2; 300];
    (lengths[100], lengths[200], lengths[201]) = (7, 5, 6);
    let scene = Scene::of_episodes(&lengths);
    for weighting in [Weighting::Trajectories, Weighting::Frames] {
        frequencies(&scene, &Slices { weighting, ..Slices::of(5) });
    }
}

/// J1: a full ring of 10 whose trajectory 3 goes over the seam, or would if the seam were not the write cursor.
#[test]
fn j1_slices_do_not_cross_the_cursor() {
    let ids = [3, 3, 0, 1, 1, 1, 2, 2, 2, 3];
    // By cursor: steps of the frames of trajectory 3 at places 9, 0 and 1, and the places where slices may start.
    for (cursor, steps, starts) in [(2, [0, 1, 2], vec![3, 6, 9]), (0, [0, 1, 2], vec![3, 6])] {
        let replay = Replay::<Made>::new(10).expect("a buffer");
        let filler = (0..cursor).map(|serial| Some(Frame { serial, id: 9, step: serial, end: End::RUNNING }));
        replay.extend(&Block::new(&filler.collect::<Vec<_>>(), None)).expect("room");
        let frames = (cursor as usize..cursor as usize + 10).map(|number| {
            let (place, id) = (number % 10, ids[number % 10]);
            let step = match place {
                9 => steps[0],
                0 | 1 => steps[place + 1],
                2 => 0,
                _ => (place as u32 - 3) % 3,
            };
            Some(Frame { serial: number as u32, id, step, end: End::RUNNING })
        });
        replay.extend(&Block::new(&frames.collect::<Vec<_>>(), None)).expect("room");
        for weighting in [Weighting::Trajectories, Weighting::Frames] {
            let sample = draw(&replay, &Slices { weighting, ..Slices::of(3) }, 10_000, 1).expect("slices");
            let mut found: Vec<_> = (0..sample.picks()).map(|i| sample.index(sample.pick(i).start)).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found, starts, "cursor {cursor}");
        }
    }
}

#[test]
fn seeds_draw_differently() {
    let scene = Scene::of_episodes(&[20, 30, 40]);
    let draws = [1, 2].map(|seed| draw(&scene.replay, &Slices::of(4), 10, seed).expect("slices").frames().to_vec());
    assert_ne!(draws[0], draws[1]);
}

#[test]
fn illegal_slices_are_named() {
    let replay = Scene::of_episodes(&[5]).replay;
    let error = |slices: Slices| draw(&replay, &slices, 1, 0).expect_err("illegal").to_string();
    assert!(error(Slices::of(0)).contains("len"));
    assert!(error(Slices { span: (3, 0), ..Slices::of(3) }).contains("span.0"));
    assert!(error(Slices { span: (0, 4), ..Slices::of(3) }).contains("less than the slice's 3 frames"));
    assert!(error(Slices::of(6)).contains("6 frames"));
}
