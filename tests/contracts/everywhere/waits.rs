//! I10: every wait ends by its deadline, and one that was in vain costs nothing.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{AT_ONCE, SOON};
use crate::support::{
    Stepping, balance,
    slow::{Gate, Slow, slow},
};
use gleaner::prelude::*;

const SHORT: Duration = Duration::from_millis(30);

/// Whether the wait was in vain. It takes as long as it may, and no longer.
fn in_vain<R>(wait: impl FnOnce() -> Result<R, Error>) -> bool {
    let begun = Instant::now();
    let waited = wait().map(drop);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    match waited {
        Ok(()) => false,
        Err(Error::Timeout { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// The steps of each row's frames are those of its episodes, one behind the other.
fn check_rows(replay: &Replay<Slow>) {
    let sample = replay.read(&replay.frames().collect::<Vec<_>>()).unwrap();
    let mut next = [[0, 0]; 4];
    let mut frames: Vec<_> = sample.observations().iter().map(|seen| seen.map(|x| x as u32)).collect();
    frames.sort_unstable_by_key(|[row, episode, t, ..]| [*row, *episode, *t]);
    for [row, episode, t, ..] in frames {
        assert_eq!([episode, t], next[row as usize], "row {row}");
        let ended = t + 1 == 5 + (row + episode) % 3;
        next[row as usize] = if ended { [episode + 1, 0] } else { [episode, t + 1] };
    }
}

#[test]
fn i10_waits_end_by_their_deadlines_and_lose_nothing() {
    for stepping in Stepping::ALL {
        let (gate, replay) = (Gate::default(), Replay::new(1 << 16).unwrap());
        let held = gate.clone();
        // All rows stand in their second episode. Later they take their time, so that the budget, which is what the
        // buffer holds, outlasts the waits.
        let builder = slow(5, move |_, episode, t| match (episode, t) {
            (1, 2) => held.wait(),
            (20.., _) => sleep(Duration::from_millis(1)),
            _ => {}
        });
        let policy = Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
        let builder = builder.rows(4).frames_per_batch(40).replay(&replay).policy(policy).total_frames(1 << 16);
        let mut running = stepping.set(builder).build().unwrap().start().unwrap();
        // So many threads stand there when nothing goes on.
        gate.wait_for(match stepping {
            Stepping::Inline | Stepping::Threads => 1,
            Stepping::InStep | Stepping::OnTheirOwn => 2,
            Stepping::Pooled => 4,
        });
        let weights = running.weights().unwrap();
        let version = weights.increment_version().unwrap();
        assert!(in_vain(|| weights.wait_adopted(version, SHORT)), "{stepping:?}");
        assert!(in_vain(|| weights.wait_adopted_by(version, &[0], SHORT)), "{stepping:?}");
        assert!(in_vain(|| running.models().wait_adopted(&[(0, version)], SHORT)), "{stepping:?}");
        assert!(in_vain(|| running.wait_written(1 << 20, SHORT)), "{stepping:?}");
        // A pool's rows stand on its threads; who collects answers, but has no tick to adopt weights in.
        assert!(in_vain(|| running.wait_ready(SHORT)), "{stepping:?}");
        assert!(in_vain(|| running.pause(SHORT).map(drop)) || stepping == Stepping::Pooled, "{stepping:?}");
        assert!(running.is_running());
        gate.open();
        running.wait_ready(SOON).unwrap();
        weights.wait_adopted(version, Duration::ZERO).unwrap();
        running.wait_written(replay.write_count() + 400, SOON).unwrap();
        drop(running.pause(SOON).unwrap());
        let mut collector = running.shutdown(SOON).unwrap();
        collector.shutdown();
        let stats = collector.stats();
        balance(&stats).unwrap();
        assert_eq!(
            (stats.written_frames, stats.abandoned.unwrap_or(0)),
            (Some(replay.write_count()), 0),
            "{stepping:?}"
        );
        check_rows(&replay);
    }
}
