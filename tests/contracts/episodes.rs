//! A number of episodes is chosen before they start (C1, I15), whatever steps the rows.

use crate::support::{Ending, Script, Stepping, Tag, balance, tags};
use gleaner::{config::CollectorBuilder, env::RowStepper, episodes::EpisodeQuota, prelude::Error};

/// A row whose episodes have one frame, and one with ten.
fn uneven() -> CollectorBuilder<Tag, RowStepper<Tag>> {
    tags(Script::lengths(&[1, 10], Ending::Terminated)).rows(2).frames_per_batch(8)
}

fn lengths(episodes: &[gleaner::components::Trajectory]) -> (usize, f32) {
    let long = episodes.iter().filter(|episode| episode.length == 10).count();
    (long, episodes.iter().map(|episode| episode.length as f32).sum::<f32>() / episodes.len() as f32)
}

#[test]
fn c1_i15_short_episodes_are_not_favoured() {
    for stepping in Stepping::ALL {
        let mut collector = stepping.set(uneven()).build().unwrap();
        for _ in 0..2 {
            let episodes = collector.episodes(10, EpisodeQuota::PerRow).unwrap();
            assert_eq!((episodes.len(), lengths(&episodes)), (10, (5, 5.5)));
        }
        balance(&collector.stats()).unwrap();
    }
    // One more of the first row where it does not go evenly.
    let episodes = uneven().build().unwrap().episodes(5, EpisodeQuota::PerRow).unwrap();
    assert_eq!(lengths(&episodes), (2, 23.0 / 5.0));
}

#[test]
fn c1_the_first_that_end_are_mostly_short() {
    let episodes = uneven().build().unwrap().episodes(10, EpisodeQuota::FirstFinished).unwrap();
    assert!(lengths(&episodes).0 <= 1, "{episodes:?}");
}

#[test]
fn c1_a_budget_that_is_too_small_is_an_error() {
    let error = uneven().total_frames(40).build().unwrap().episodes(10, EpisodeQuota::PerRow).unwrap_err();
    assert!(matches!(error, Error::State { call: "episodes", .. }), "{error}");
}
