use super::*;

/// Plays `batches` batches of workers that take `ticks` ticks for each; returns how many each delivered. Publishes after
/// each batch, as a learner does that uses it for `used` ticks.
fn play(most: u64, ticks: &[u64], used: u64, batches: usize) -> Vec<usize> {
    let mut pace = Pace::new(most, ticks.len());
    // By worker: when its batch is done, and the version that it began with.
    let mut making: Vec<Option<(u64, u64)>> = vec![None; ticks.len()];
    let (mut now, mut version, mut delivered) = (0, 0, vec![0; ticks.len()]);
    for _ in 0..batches {
        let (worker, acted) = loop {
            while let Some(worker) = pace.order(0..ticks.len()) {
                assert!(making[worker].is_none());
                making[worker] = Some((now + ticks[worker], version));
            }
            if let Some(batch) = pace.next() {
                break batch;
            }
            // The next one that is done; what was done while the caller was busy comes first.
            let first =
                (0..ticks.len()).filter(|worker| making[*worker].is_some()).min_by_key(|worker| making[*worker]);
            let worker = first.expect("somebody works");
            let (done, acted) = making[worker].take().unwrap();
            now = now.max(done);
            pace.came(worker, acted);
        };
        assert!(version - acted <= most, "{most}, {ticks:?}: {} versions old", version - acted);
        delivered[worker] += 1;
        now += used;
        version += 1;
    }
    delivered
}

#[test]
fn no_batch_is_older_and_no_worker_starves() {
    for most in 0..9 {
        for ticks in [&[1][..], &[1, 1], &[1, 10], &[10, 1, 1], &[100, 1, 7], &[1, 1, 1, 50, 1]] {
            for used in [0, 1, 5] {
                let delivered = play(most, ticks, used, 1_000);
                let least = 1_000 / (most as usize + ticks.len() + 1);
                assert!(delivered.iter().all(|own| *own >= least), "{most}, {ticks:?}, {used}: {delivered:?}");
            }
        }
    }
}

#[test]
fn fast_workers_go_ahead_as_far_as_a_slow_one_allows() {
    let delivered = play(8, &[10, 1], 0, 900);
    assert_eq!(delivered, [100, 800]);
    // As if there were no bound.
    let delivered = play(1_000, &[10, 1], 1, 1_100);
    assert!(delivered[1] >= 950, "{delivered:?}");
}

#[test]
fn who_is_lost_is_not_waited_for() {
    let mut pace = Pace::new(2, 2);
    assert_eq!((pace.order(0..2), pace.order(0..2), pace.order(0..2)), (Some(0), Some(1), None));
    pace.came(1, 'a');
    assert_eq!(pace.order(0..2), Some(1));
    pace.came(1, 'b');
    assert_eq!((pace.order(0..2), pace.next(), pace.next()), (None, Some((1, 'a')), Some((1, 'b'))));
    assert_eq!(pace.order([1].into_iter()), Some(1));
    pace.came(1, 'c');
    // Now it is the turn of worker 0.
    assert_eq!(pace.next(), None);
    pace.lose(0);
    assert_eq!(pace.next(), Some((1, 'c')));
    assert_eq!(pace.order([1].into_iter()), Some(1));
    pace.end(1);
    assert!(!pace.waits_for(1));
    assert_eq!(pace.next(), None);
}
