//! O-02: what a row does is the same.

use std::time::Instant;

use super::SOON;
use crate::support::{Case, Ending, Log, Script, Stepping, sampling_network, tags};

const ROWS: usize = 6;
/// Frames of each row to compare, several episodes of them.
const LEAST: usize = 60;

/// The first frames of each row, in order of time.
fn first_frames(stepping: Stepping) -> Vec<Vec<impl PartialEq + std::fmt::Debug>> {
    let script = Script::lengths(&[3, 40, 7], Ending::Terminated);
    let builder = tags(script).rows(ROWS).frames_per_batch(ROWS * 7).seed(11).max_frames_per_traj(20);
    let mut collector = stepping.set(builder.policy(sampling_network())).build().unwrap();
    let (mut log, deadline) = (Log::new(Case { rows: ROWS, ..Case::default() }), Instant::now() + SOON);
    // Which row is how fast is the machine's affair.
    while log.by_row().iter().any(|row| row.len() < LEAST) {
        assert!(Instant::now() < deadline, "{stepping:?}: {:?}", log.by_row());
        log.read(&collector.next().unwrap().unwrap(), collector.stats());
    }
    let rows = log.by_row().into_iter();
    rows.map(|row| row[..LEAST].iter().map(|i| log.frames[*i].essence()).collect()).collect()
}

#[test]
fn o02_rows_are_the_same_whoever_steps_them() {
    let wanted = first_frames(Stepping::Inline);
    for stepping in Stepping::ALL {
        assert_eq!(first_frames(stepping), wanted, "{stepping:?}");
    }
}
