//! The invariants of what is collected hold when the policy runs on a GPU: the bodies of `tests/invariants.rs`, those on
//! one collection together, since each takes a while on a software adapter.

use crate::support::{
    Case, case, check_blanks, check_flags, check_ids, check_ledger, check_links, check_streams, check_versions, mixed,
};
use gleaner::policy::Backend;
use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestCaseError, TestRunner},
};

/// Names and bodies.
pub const TESTS: &[(&str, fn())] = &[
    ("invariants::i1_i2_i3_i4_i5_i13_on_one_collection", || {
        holds(case(), |case| {
            let log = on_gpu(case).run();
            let checks = [check_links, check_flags, check_ledger, check_ids, check_versions, check_blanks];
            checks.iter().try_for_each(|check| check(&log))
        });
    }),
    ("invariants::i3_i4_ledger_and_ids_over_resets_seeds_and_reloads", || {
        holds(mixed(), |(case, acts)| check_ids(&on_gpu(case).act(&acts)?));
    }),
    ("invariants::i6_streams", || {
        holds((case(), 1..=33_usize), |(case, horizon)| check_streams(&on_gpu(case), horizon))
    }),
];

fn on_gpu(case: Case) -> Case {
    Case { backend: Backend::Gpu, ..case }
}

fn holds<S: Strategy>(strategy: S, check: impl Fn(S::Value) -> Result<(), String>) {
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    let held = TestRunner::new(config).run(&strategy, |value| check(value).map_err(TestCaseError::fail));
    held.unwrap_or_else(|error| panic!("{error}"));
}
