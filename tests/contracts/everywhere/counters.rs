//! Which counters there are: what does not apply to a kind of collection is absent (PC-03).

use std::collections::BTreeSet;

use gleaner::{env::AsyncBatched, prelude::*, stats::StatsOf};

use crate::support::{Ending, Script, stamped_network, tags};

/// In every collector, before the first frame.
const ALWAYS: [&str; 18] = [
    "agent_frames",
    "batches",
    "completed",
    "completed_trajectories",
    "discarded/fault",
    "discarded/post_processing",
    "discarded/reset",
    "discarded/shutdown",
    "env_frames",
    "episodes/count",
    "frames",
    "in_flight_frames",
    "requested_frames_per_batch",
    "row_restarts",
    "stepped_frames",
    "total_frames",
    "trajectory_completed_frames",
    "trajectory_pending_frames",
];
const OF_NETWORKS: [&str; 3] = ["backend", "policy_version", "policy_versions/0"];
const OF_WRITES: [&str; 4] = ["early_pieces", "open_frames", "written_frames", "written_trajectories"];
const OF_POOLS: [&str; 3] = ["abandoned", "dispatches", "late_frames"];
const OF_WORKERS: [&str; 2] = ["workers", "workers_alive"];
const OF_EPISODES: [&str; 3] = ["episodes/mean_length", "episodes/mean_return", "episodes/running_return"];

#[test]
fn pc03_what_does_not_apply_is_absent() {
    let plain = || tags(Script::all(3, Ending::Terminated)).rows(4).frames_per_batch(16).total_frames(32);
    let writes = || plain().replay(&Replay::new(100).unwrap()).replay_write_mode(ReplayWriteMode::Rollout);
    let any: [(_, &[&[&str]]); 6] = [
        (plain(), &[]),
        (plain().policy(stamped_network()), &[&OF_NETWORKS]),
        (writes(), &[&OF_WRITES]),
        (plain().async_batched(AsyncBatched::default()), &[&OF_POOLS]),
        (plain().workers(2), &[&OF_WORKERS]),
        (writes().policy(stamped_network()).workers(2), &[&OF_NETWORKS, &OF_WRITES, &OF_WORKERS]),
    ];
    for (case, (builder, more)) in any.into_iter().enumerate() {
        let mut collector = builder.build().unwrap();
        let monitor = collector.monitor();
        let names = || monitor.metrics(StatsOf::Aggregate).into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>();
        let wanted: Vec<&str> = ALWAYS.iter().chain(more.iter().copied().flatten()).copied().collect();
        let expect = |wanted: &[&str]| {
            let wanted: BTreeSet<_> = wanted.iter().map(|name| String::from(*name)).collect();
            assert_eq!(names(), wanted, "case {case}");
        };
        let at_first: Vec<_> = wanted.iter().copied().filter(|name| *name != "policy_versions/0").collect();
        expect(&at_first);
        let stats = collector.stats();
        assert_eq!((stats.frames, stats.batches, stats.completed), (0, 0, false), "case {case}");
        for batches in 1..=2 {
            match stats.written_frames {
                Some(_) => drop(collector.receipts().next().unwrap().unwrap()),
                None => drop(collector.next().unwrap().unwrap()),
            }
            let stats = collector.stats();
            assert_eq!((stats.frames, stats.batches), (16 * batches, batches), "case {case}");
        }
        assert!(collector.stats().completed, "case {case}");
        expect(&[&wanted[..], &OF_EPISODES].concat());
    }
}
