//! The invariants of what is collected hold when the policy runs on a GPU: the bodies of `tests/invariants.rs`.

#[path = "../support/gpu.rs"]
mod gpu;
#[path = "../support/mod.rs"]
mod support;

use gleaner::policy::Backend;
use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestCaseError, TestRunner},
};
use support::{
    Case, case, check_blanks, check_flags, check_ids, check_ledger, check_links, check_streams, check_versions, mixed,
};

fn main() -> std::process::ExitCode {
    gpu::run(vec![
        ("i1_links", || holds(case(), |case| check_links(&on_gpu(case).run()))),
        ("i2_flags", || holds(case(), |case| check_flags(&on_gpu(case).run()))),
        ("i3_ledger", || holds(case(), |case| check_ledger(&on_gpu(case).run()))),
        ("i3_i4_ledger_and_ids_over_resets_seeds_and_reloads", || {
            holds(mixed(), |(case, acts)| check_ids(&on_gpu(case).act(&acts)?));
        }),
        ("i5_versions", || holds(case(), |case| check_versions(&on_gpu(case).run()))),
        ("i6_streams", || holds((case(), 1..=33_usize), |(case, horizon)| check_streams(&on_gpu(case), horizon))),
        ("i13_blanks", || holds(case(), |case| check_blanks(&on_gpu(case).run()))),
    ])
}

fn on_gpu(case: Case) -> Case {
    Case { backend: Backend::Gpu, ..case }
}

fn holds<S: Strategy>(strategy: S, check: impl Fn(S::Value) -> Result<(), String>) {
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    let held = TestRunner::new(config).run(&strategy, |value| check(value).map_err(TestCaseError::fail));
    held.unwrap_or_else(|error| panic!("{error}"));
}
