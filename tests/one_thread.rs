//! One thread for everything is enough: no system waits for another one to run beside it.

mod support;

use std::{sync::mpsc, thread, time::Duration};

use bevy_tasks::{ComputeTaskPool, TaskPoolBuilder};
use gleaner::prelude::Executor;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use support::{Case, Ending, Mode, Publish, Script, case, check_ledger};

#[test]
fn h13_collection_ends_with_one_compute_thread() {
    let pool = ComputeTaskPool::get_or_init(|| TaskPoolBuilder::new().num_threads(1).build());
    assert_eq!(pool.thread_num(), 1, "another pool was first");
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        for (threads, mode) in [(1, Mode::Rollout), (2, Mode::Rollout), (1, Mode::Cat(3)), (2, Mode::Padded(3))] {
            let script = Script::lengths(&[3, 7], Ending::Truncated);
            let case = Case { rows: 16, horizon: 8, total: 1_024, script, mode, threads, ..Case::default() };
            let log = Case { executor: Executor::MultiThreaded, publish: Publish::Thread, ..case }.run();
            assert!(!log.frames.is_empty(), "{threads} threads, {mode:?}");
        }
        let mut runner = TestRunner::deterministic();
        for _ in 0..64 {
            let case = case().new_tree(&mut runner).expect("a case").current();
            let log = Case { executor: Executor::MultiThreaded, ..case }.run();
            check_ledger(&log).expect("a ledger that closes");
        }
        done.send(()).expect("the test waits");
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("collection ended within a minute");
}
