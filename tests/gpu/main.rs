//! Runs tests that need an adapter. Without one they show as ignored, with the reason; with `GLEANER_REQUIRE_GPU=1` a
//! missing adapter is a failure.

mod collector;
mod frames;
mod invariants;
mod policy;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use gleaner::gpu::Gpu;
use libtest_mimic::{Arguments, Completion, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One after the other: they share a device, and some measure the process's memory.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    // Kept open, so that all tests share one device.
    let gpu = Gpu::shared();
    let missing = gpu.as_ref().err().map(|error| format!("no GPU adapter: {error}"));
    let required = std::env::var("GLEANER_REQUIRE_GPU").is_ok_and(|value| value == "1");
    let trial = |(name, test): (&'static str, fn())| match missing.clone() {
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
        Some(reason) if required => Trial::test(name, move || Err(reason.into())),
        Some(reason) => Trial::ignorable_test(name, move || Ok(Completion::ignored_with(reason))),
    };
    let tests = [policy::TESTS, collector::TESTS, frames::TESTS, invariants::TESTS].concat();
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}
