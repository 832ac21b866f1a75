//! O-12: orders cost no frame and give none twice, whatever is asked of a collector while it collects.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Instant,
};

use super::SOON;
use crate::support::{
    Case, Ending, Log, Script, Stepping, Tag, balance, check_ids, check_ledger, check_links, check_versions, configure,
    publish_until, stamped_network, tags,
};
use gleaner::{
    policy::Exploration,
    prelude::{Collector, Replay},
};

const ROWS: usize = 4;

/// Questions to every worker, of which each goes to it in the middle of what it does.
fn ask(collector: &mut Collector<Tag>) {
    let before = collector.stats();
    let stepped = collector.map_workers(|own| own.stats().stepped_frames).expect("answers");
    let after = collector.monitor().stats();
    assert!(stepped.iter().sum::<u64>() >= before.frames && after.stepped_frames >= before.stepped_frames);
    assert!(collector.map_workers(|own| own.rows()).expect("answers").iter().sum::<usize>() == ROWS);
    balance(&after).unwrap();
}

#[test]
fn o12_orders_between_batches_cost_no_frame() {
    for stepping in Stepping::ALL {
        let script = Script::lengths(&[3, 40, 7], Ending::Truncated);
        let case = stepping.of(Case { rows: ROWS, horizon: 6, total: 6_001, script, ..Case::default() });
        let mut collector = configure(tags(case.script.clone()), &case);
        let (mut log, weights, over) = (Log::new(case), collector.weights().unwrap(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| publish_until(&weights, &over));
            while let Some(batch) = collector.next() {
                log.read(&batch.unwrap(), collector.stats());
                ask(&mut collector);
            }
            over.store(true, Relaxed);
        });
        log.finished = Some(collector.stats());
        for check in [check_links, check_ledger, check_ids, check_versions] {
            check(&log).unwrap_or_else(|problem| panic!("{stepping:?}: {problem}"));
        }
    }
}

/// Each row's frames in the buffer: one after the other, without a gap and none twice.
fn check_written(replay: &Replay<Tag>) {
    let numbers: Vec<u64> = replay.frames().collect();
    let sample = replay.read(&numbers).unwrap();
    let mut rows = BTreeMap::<u32, Vec<(u32, u32)>>::new();
    for (seen, step) in sample.observations().iter().zip(sample.steps()) {
        let (row, resets) = seen.place();
        assert_eq!(step.0, seen.t as u32);
        rows.entry(row).or_default().push((resets, step.0));
    }
    let whole = replay.write_count() == replay.len();
    for (row, frames) in &mut rows {
        frames.sort_unstable();
        assert!(!whole || frames[0] == (1, 0), "row {row} begins with {:?}", frames[0]);
        let length = [3, 40, 7][*row as usize % 3];
        for pair in frames.windows(2) {
            let [(episode, step), next] = [pair[0], pair[1]];
            let wanted = if step + 1 == length { (episode + 1, 0) } else { (episode, step + 1) };
            assert_eq!(next, wanted, "row {row}");
        }
    }
    assert_eq!(rows.len(), ROWS);
}

#[test]
fn o12_orders_to_a_running_collector_cost_no_frame() {
    for stepping in Stepping::ALL {
        let replay = Replay::new(100_000).unwrap();
        let builder = tags(Script::lengths(&[3, 40, 7], Ending::Truncated)).rows(ROWS).frames_per_batch(ROWS * 6);
        let builder = builder.replay(&replay).policy(stamped_network()).exploration(Exploration::Mode);
        let mut running = stepping.set(builder).build().unwrap().start().unwrap();
        let (weights, deadline) = (running.weights().unwrap(), Instant::now() + SOON);
        for turn in 0..25 {
            assert!(Instant::now() < deadline, "{stepping:?}: turn {turn}");
            running.wait_ready(SOON).unwrap();
            weights.increment_version().unwrap();
            let mut paused = running.pause(SOON).unwrap();
            paused.with(SOON, ask).unwrap();
            let written = replay.write_count();
            drop(paused);
            running.wait_written(written + 1, SOON).unwrap();
        }
        weights.wait_adopted(25, SOON).unwrap();
        let mut collector = running.shutdown(SOON).unwrap();
        collector.shutdown();
        let stats = collector.stats();
        assert_eq!((stats.written_frames, stats.in_flight_frames), (Some(replay.write_count()), 0), "{stepping:?}");
        assert_eq!(stats.frames + stats.discarded.total(), stats.stepped_frames, "{stepping:?}: {stats:?}");
        check_written(&replay);
    }
}
