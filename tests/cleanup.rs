//! I11: nothing is left of a collector, in whatever state and however often it is shut down. Alone in its process, whose
//! threads and open files it counts.
#![cfg(target_os = "linux")]

mod process;
mod support;

use std::time::Duration;

use gleaner::prelude::*;
use process::{held, holds_no_more_than};
use support::Stepping;

/// What a collector stands in when it is shut down.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    New,
    Collecting,
    Finished,
    Failed,
    /// In the background.
    Running,
}

fn collector(stepping: Stepping, state: State, replay: &Replay<CartPole>) -> Collector<CartPole> {
    let policy = Policy::function(move |seen: &[[f32; 4]], _, _, actions: &mut [i32]| {
        assert!(state != State::Failed || seen.iter().all(|seen| seen[2].abs() < 0.1), "boom 42");
        actions.fill(0);
    });
    let builder = Collector::<CartPole>::builder().rows(4).frames_per_batch(40).policy(policy);
    let builder = if state == State::Running { builder.replay(replay) } else { builder };
    let builder = if state == State::Finished { builder.total_frames(80) } else { builder };
    stepping.set(builder).build().expect("legal options")
}

/// Brings a collector to a state, shuts it down `times` times and drops it.
fn live(stepping: Stepping, state: State, times: usize) {
    const SOON: Duration = Duration::from_secs(60);
    let replay = Replay::new(1_000).expect("a buffer");
    let (mut collector, mut batch) = (collector(stepping, state, &replay), None);
    match state {
        State::New => {}
        State::Collecting => batch = Some(collector.next().expect("endless").expect("no fault")),
        State::Finished => {
            assert_eq!(collector.by_ref().map(|batch| batch.expect("no fault").frames()).sum::<usize>(), 80)
        }
        State::Failed => assert!(collector.by_ref().any(|batch| batch.is_err())),
        State::Running => {
            let mut running = collector.start().expect("a thread");
            running.wait_written(100, SOON).expect("frames");
            if times == 0 {
                return;
            }
            collector = running.shutdown(SOON).expect("no fault");
        }
    }
    (0..times).for_each(|_| collector.shutdown());
    drop(collector);
    assert!(batch.is_none_or(|batch| batch.frames() == 40), "a batch outlives its collector");
}

#[test]
fn i11_nothing_is_left() {
    let all = || {
        for stepping in Stepping::ALL {
            for state in [State::New, State::Collecting, State::Finished, State::Failed, State::Running] {
                (0..=3).for_each(|times| live(stepping, state, times));
            }
        }
    };
    // What is made once in a process.
    all();
    let before = held();
    all();
    holds_no_more_than(before);
}
