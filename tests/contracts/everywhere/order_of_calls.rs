//! H5: who asks for what cannot come is told so at once, and does not wait.

use std::time::Instant;

use super::{AT_ONCE, SOON};
use crate::support::{Ending, Script, Stepping, Tag, tags};
use gleaner::{config::CollectorBuilder, env::RowStepper, episodes::EpisodeQuota, prelude::*};

fn builder(stepping: Stepping) -> CollectorBuilder<Tag, RowStepper<Tag>> {
    stepping.set(tags(Script::all(5, Ending::Terminated)).rows(4).frames_per_batch(20).total_frames(60))
}

/// The answer, which comes at once.
fn at_once<R>(ask: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let answer = ask();
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    answer
}

fn is_refused<R>(answer: Result<R, Error>, name: &str) {
    match answer {
        Err(Error::State { call, .. }) => assert_eq!(call, name),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{name} was answered"),
    }
}

#[test]
fn h5_what_cannot_come_is_refused_at_once() {
    for stepping in Stepping::ALL {
        // Nobody writes, nobody sends weights.
        let mut collector = builder(stepping).build().unwrap();
        is_refused(at_once(|| collector.receive_weights()), "receive_weights");
        is_refused(at_once(|| builder(stepping).build().unwrap().start()), "start");
        // Behind the end of the budget.
        assert_eq!(collector.by_ref().map(|batch| batch.unwrap().frames()).sum::<usize>(), 60, "{stepping:?}");
        assert!(at_once(|| collector.next()).is_none());
        is_refused(at_once(|| collector.rollout()), "rollout");
        is_refused(at_once(|| collector.episodes(1, EpisodeQuota::PerRow)), "episodes");
        // Behind the shutdown.
        collector.shutdown();
        assert!(at_once(|| collector.next()).is_none());
        is_refused(at_once(|| collector.rollout()), "rollout");
        is_refused(at_once(|| collector.episodes(1, EpisodeQuota::PerRow)), "episodes");
        is_refused(at_once(|| collector.save_to(&mut Vec::new())), "save");
        is_refused(at_once(|| collector.start()), "start");
    }
}

#[test]
fn h5_a_buffer_that_nobody_writes_to_is_not_waited_for() {
    for stepping in Stepping::ALL {
        let replay = Replay::new(1_000).unwrap();
        let mut sampler = replay.sampler().batch_size(4).build().unwrap();
        assert!(at_once(|| sampler.sample()).is_err(), "it is empty");
        let mut running = builder(stepping).replay(&replay).build().unwrap().start().unwrap();
        running.wait_written(60, SOON).unwrap();
        is_refused(at_once(|| running.wait_written(61, SOON)), "wait_written");
        let mut collector = running.shutdown(SOON).unwrap();
        assert!(at_once(|| collector.next_receipt()).is_none(), "{stepping:?}");
        assert!(at_once(|| sampler.sample()).is_ok());
    }
}
