//! Frames of recent weights rather than of old ones.

use gleaner::replay::{
    Replay, Sample, Sampler,
    sampler::{Staleness, Uniform},
};
use proptest::{collection::vec, prelude::*, test_runner::RngSeed};

use crate::{
    made::{Block, Made, Source},
    script::{Player, Write, agree, writes},
};

/// Draws are as often as they should be, given what is there and the learner's version, if there is one.
fn check(
    player: &Player,
    sampler: &mut Sampler<Made>,
    options: Staleness,
    version: u64,
    n: usize,
) -> Result<(), String> {
    let (tail, model) = (player.model.tail(), &player.model);
    let staleness = |serial: u32| version.saturating_sub((player.version)(serial));
    let chances: Vec<f64> = model
        .frames
        .iter()
        .map(|frame| staleness(frame.serial))
        .map(|staleness| match options.max_staleness {
            Some(most) if staleness > most => 0.0,
            _ => (staleness as f64 + 1.0).powf(-options.power),
        })
        .collect();
    let mut sample = Sample::default();
    let drawn = sampler.sample_n(n, &mut sample);
    if chances.iter().all(|chance| *chance == 0.0) {
        let error = drawn.expect_err("all are stale").to_string();
        return if error.contains("max_staleness") { Ok(()) } else { Err(error) };
    }
    drawn.map_err(|error| error.to_string())?;
    let mut counts = vec![0; chances.len()];
    for (i, frame) in sample.frames().iter().enumerate() {
        counts[(frame - tail) as usize] += 1;
        assert_eq!(sample.staleness(i), Some(staleness(model.frame(*frame).serial)));
    }
    agree(&counts, &chances)
}

proptest! {
    // Always the same draws: a statistical test fails now and then on others.
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn recent_versions_are_drawn_more_often(
        capacity in 1..90_usize,
        rows in [1..8_usize, 1..8_usize],
        rounds in vec((writes(), proptest::option::of(0..40_u64)), 1..4),
        script in vec(0..=255_u8, 97),
        max_staleness in proptest::option::of(0..12_u64),
        versions in 0..3_usize,
        power in prop_oneof![Just(1.0), 0.0..3.0],
        seed in any::<u64>(),
    ) {
        let mut player = Player::new(capacity, rows, script);
        player.version = [|serial| u64::from(serial / 10), |serial| u64::from(serial % 7), |_| 5][versions];
        let options = Staleness { power, max_staleness, version: None, replacement: true };
        let mut sampler = player.replay.sampler().sampling(options).seed(seed).build().expect("legal options");
        let (mut set, mut newest) = (None, 0);
        for (writes, version) in &rounds {
            for write in writes {
                player.play(write);
                // The sampler sees every write, and so every version.
                if player.model.written == 0 {
                    continue;
                }
                let there = player.model.frames.iter().map(|frame| (player.version)(frame.serial)).max();
                newest = newest.max(there.expect("frames"));
                check(&player, &mut sampler, options, set.unwrap_or(newest), 60).map_err(TestCaseError::fail)?;
            }
            if let Some(version) = version {
                sampler.set_version(*version).expect("a sampler by staleness");
                set = Some(*version);
            }
        }
        if player.model.written > 0 {
            check(&player, &mut sampler, options, set.unwrap_or(newest), 800).map_err(TestCaseError::fail)?;
        }
    }
}

#[test]
fn frequencies_of_many_draws() {
    let mut player = Player::new(200, [5, 3], vec![100]);
    player.version = |serial| u64::from(serial / 25);
    (0..7).for_each(|_| player.play(&Write::Ticks { source: 0, ticks: 8, ends: 0, gaps: false }));
    for max_staleness in [None, Some(4), Some(12)] {
        let options = Staleness { max_staleness, version: Some(12), replacement: true, ..Staleness::default() };
        let mut sampler = player.replay.sampler().sampling(options).build().expect("legal options");
        check(&player, &mut sampler, options, 12, 200_000).unwrap();
    }
}

/// SM-10: no frame twice while there are others, each as if those before were not there.
#[test]
fn sm10_frames_of_a_sample_differ_while_there_are_enough() {
    // Versions 0, 1, 7, 9, two frames each; the newest hold nearly all the chances.
    for versions in [[0_u64, 1, 7, 9], [9_000, 9_000, 9_900, 10_000]] {
        let frames = Source::new(1, 0).episodes(&[8]);
        let replay = Replay::<Made>::new(8).expect("a buffer");
        let version = |serial: u32| versions[serial as usize / 2];
        replay.extend(&Block::new(&frames, None).versions(version)).expect("room");
        let options = Staleness { max_staleness: Some(9_000), ..Staleness::default() };
        let mut sampler = replay.sampler().sampling(options).build().expect("a sampler");
        let chance = |frame: u64| 1.0 / ((versions[3] - versions[frame as usize / 2]) as f64 + 1.0);
        let (mut counts, mut chances) = (vec![0; 64], vec![0.0; 64]);
        let total: f64 = (0..8).map(chance).sum();
        for (first, second) in (0..64_u64).map(|pair| (pair / 8, pair % 8)).filter(|(first, second)| first != second) {
            chances[(first * 8 + second) as usize] = chance(first) / total * chance(second) / (total - chance(first));
        }
        let mut sample = Sample::default();
        for _ in 0..40_000 {
            sampler.sample_n(2, &mut sample).expect("frames");
            counts[(sample.frames()[0] * 8 + sample.frames()[1]) as usize] += 1;
        }
        agree(&counts, &chances).unwrap();
        for n in 1..=8 {
            sampler.sample_n(n, &mut sample).expect("frames");
            let mut frames = sample.frames().to_vec();
            frames.sort_unstable();
            frames.dedup();
            assert_eq!(frames.len(), n);
        }
        sampler.sample_n(9, &mut sample).expect("frames, one of them twice");
        assert_eq!(sample.len(), 9);
    }
}

#[test]
fn other_samplers_know_no_versions() {
    let replay = Replay::<Made>::new(4).expect("a buffer");
    replay.extend(&Block::new(&Source::new(1, 0).ticks(3, 0, &mut || 9), Some(1))).expect("room");
    let mut sampler = replay.sampler().sampling(Uniform).batch_size(2).build().expect("a sampler");
    assert_eq!(sampler.sample().expect("frames").staleness(0), None);
    assert!(sampler.set_version(1).is_err());
    // Before anything is written a version can be set.
    let empty = Replay::<Made>::new(4).expect("a buffer");
    let mut stale = empty
        .sampler()
        .sampling(Staleness { replacement: true, ..Staleness::default() })
        .batch_size(2)
        .build()
        .expect("a sampler");
    stale.set_version(7).expect("a sampler by staleness");
    empty.extend(&Block::new(&Source::new(1, 0).ticks(3, 0, &mut || 9), None).versions(|_| 5)).expect("room");
    assert_eq!(stale.sample().expect("frames").staleness(1), Some(2));
}

#[test]
fn a_power_is_a_finite_number() {
    for power in [-0.5, f64::NAN, f64::INFINITY] {
        let sampling = Staleness { power, ..Staleness::default() };
        let error = Replay::<Made>::new(8).unwrap().sampler().sampling(sampling).build().unwrap_err().to_string();
        assert!(error.contains("power") && error.contains("0 or more"), "{error}");
    }
}
