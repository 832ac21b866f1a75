//! Newer frames rather than old ones.

use gleaner::replay::{Replay, sampler::Recency};
use proptest::{collection::vec, prelude::*, test_runner::RngSeed};

use crate::{
    made::Made,
    script::{Player, agree, writes},
};

/// Frames are drawn as often as they should be, given what is there.
fn check(player: &Player, recency: Recency, seed: u64, n: usize) -> Result<(), String> {
    let sampler = player.replay.sampler().sampling(recency).batch_size(n).seed(seed);
    let sample = sampler.build().expect("legal options").sample().expect("frames");
    let (tail, len) = (player.model.tail(), player.model.frames.len());
    let mut counts = vec![0; len];
    sample.frames().iter().for_each(|frame| counts[(frame - tail) as usize] += 1);
    let chance = |age: usize| match recency {
        Recency::Window(frames) => f64::from(u8::from((age as u64) < frames)),
        Recency::HalfLife(frames) => 0.5_f64.powf(age as f64 / frames),
    };
    agree(&counts, &(0..len).rev().map(chance).collect::<Vec<_>>())
}

proptest! {
    // Always the same draws: a statistical test fails now and then on others.
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn newer_frames_are_drawn_more_often(
        capacity in 1..90_usize,
        rows in [1..8_usize, 1..8_usize],
        writes in writes(),
        script in vec(0..=255_u8, 97),
        recency in prop_oneof![
            (1..120_u64).prop_map(Recency::Window),
            (0.3..300.0_f64).prop_map(Recency::HalfLife),
        ],
        seed in any::<u64>(),
    ) {
        let mut player = Player::new(capacity, rows, script);
        for write in &writes {
            player.play(write);
        }
        prop_assume!(player.model.written > 0);
        check(&player, recency, seed, 1_000).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn frequencies_of_many_draws() {
    let mut player = Player::new(80, [5, 3], vec![100]);
    (0..4).for_each(|source| {
        player.play(&crate::script::Write::Ticks { source: source % 2, ticks: 8, ends: 0, gaps: false })
    });
    for recency in [Recency::Window(30), Recency::Window(500), Recency::HalfLife(7.5), Recency::HalfLife(1e9)] {
        check(&player, recency, 1, 200_000).unwrap();
    }
}

#[test]
fn wrong_options_are_named() {
    let replay = Replay::<Made>::new(4).expect("a buffer");
    let error = |recency: Recency| replay.sampler().sampling(recency).build().expect_err("illegal").to_string();
    assert!(error(Recency::Window(0)).starts_with("window is 0"));
    for frames in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(error(Recency::HalfLife(frames)).starts_with("half_life is"));
    }
}
