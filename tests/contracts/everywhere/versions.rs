//! O-09: versions count updates.

use std::time::{Duration, Instant};

use super::SOON;
use crate::support::{Case, Ending, Log, Script, Stepping, stamp, stamped_network, stamped_weights, tags};
use gleaner::policy::Exploration;

const ROWS: usize = 4;

#[test]
fn o09_versions_count_the_updates_before_each_step() {
    for stepping in Stepping::ALL {
        let builder = tags(Script::lengths(&[3, 7], Ending::Terminated)).rows(ROWS).frames_per_batch(ROWS * 6);
        let builder = stepping.set(builder.policy(stamped_network()).exploration(Exploration::Mode));
        let mut collector = builder.build().unwrap();
        let (weights, deadline) = (collector.weights().unwrap(), Instant::now() + SOON);
        let mut log = Log::new(Case { rows: ROWS, ..Case::default() });
        let mut newest = [0; ROWS];
        for updates in 0.. {
            let batch = collector.next().unwrap().unwrap();
            let told = batch.versions().iter().zip(batch.actions()).zip(batch.observations());
            for ((version, action), seen) in told {
                assert_eq!(*action, stamp(*version), "{stepping:?}: it acted by another version");
                assert!(*version <= updates, "{stepping:?}: version {version} of {updates}");
                // A batch is of one version, where all of it was stepped since the update.
                assert!(!stepping.asks_all() || *version == updates, "{stepping:?}: version {version} of {updates}");
                let newest = &mut newest[seen.place().0 as usize];
                *newest = (*newest).max(*version);
            }
            log.read(&batch, collector.stats());
            if newest.iter().all(|version| *version >= 10) {
                break;
            }
            assert!(Instant::now() < deadline, "{stepping:?}: rows have acted by {newest:?} of {updates}");
            assert_eq!(weights.publish(stamped_weights(updates + 1)).unwrap(), updates + 1);
        }
        for row in log.by_row() {
            let versions: Vec<_> = row.iter().map(|i| log.frames[*i].version).collect();
            assert!(versions.is_sorted(), "{stepping:?}: {versions:?}");
        }
        weights.wait_adopted(10, Duration::ZERO).unwrap();
    }
}
