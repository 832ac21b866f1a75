//! FD-07: what does not go together with `async_batched` fails in `build()`, naming both.

use std::time::Duration;

use gleaner::{
    config::CollectorConfig,
    policy::Policy,
    prelude::{AsyncBatched, CartPole, Collector, Error, Overlap},
};

use crate::support::{Ending, Script, Tag};

fn config() -> CollectorConfig {
    CollectorConfig { rows: 8, async_batched: Some(AsyncBatched::default()), ..CollectorConfig::default() }
}

fn conflict(built: Result<impl std::fmt::Debug, Error>) -> (&'static str, &'static str) {
    let Error::Conflict { first, second, reason } = built.expect_err("a conflict") else { panic!("another error") };
    assert!(reason.contains("leave") || reason.contains("use another"), "{reason}");
    (first, second)
}

#[test]
fn fd7_every_pair_that_excludes_each_other_is_named() {
    let pairs = [
        (CollectorConfig { overlap: Overlap::Two, ..config() }, "overlap"),
        (CollectorConfig { reset_at_each_iter: true, ..config() }, "reset_at_each_iter"),
        (CollectorConfig { set_truncated: true, ..config() }, "set_truncated"),
        (CollectorConfig { record_states: true, ..config() }, "record_states"),
    ];
    for (config, first) in pairs {
        assert_eq!(conflict(Collector::<CartPole>::builder().config(config).build()), (first, "async_batched"));
    }
    let system = Collector::<CartPole>::builder().config(config()).policy(Policy::system());
    assert_eq!(conflict(system.build()), ("policy", "async_batched"));
    let sim = Tag::simulator(&Script::all(3, Ending::Terminated), 8);
    let sim = Collector::with_simulator(sim).config(config());
    assert_eq!(conflict(sim.build()), ("async_batched", "with_simulator"));
}

#[test]
fn fd7_every_value_that_is_illegal_is_named() {
    let wrong = [
        (AsyncBatched { threads: Some(0), ..AsyncBatched::default() }, "async_batched.threads is 0"),
        (AsyncBatched { threads: Some(5_000), ..AsyncBatched::default() }, "async_batched.threads is 5000"),
        (AsyncBatched { min_ready: 0, ..AsyncBatched::default() }, "async_batched.min_ready is 0"),
        (AsyncBatched { min_ready: 9, ..AsyncBatched::default() }, "async_batched.min_ready is 9; legal: 1 to 8"),
        (
            AsyncBatched { min_ready: 4, max_ready: Some(3), ..AsyncBatched::default() },
            "async_batched.min_ready is 4; legal: 1 to 3",
        ),
        (AsyncBatched { max_ready: Some(0), ..AsyncBatched::default() }, "async_batched.max_ready is 0"),
        (
            AsyncBatched { step_deadline: Duration::ZERO, ..AsyncBatched::default() },
            "async_batched.step_deadline is 0ns",
        ),
        (AsyncBatched { window: Duration::MAX, ..AsyncBatched::default() }, "async_batched.window is "),
        (AsyncBatched { shutdown: Duration::MAX, ..AsyncBatched::default() }, "async_batched.shutdown is "),
    ];
    for (options, message) in wrong {
        let config = CollectorConfig { async_batched: Some(options), ..config() };
        let error = Collector::<CartPole>::builder().config(config).build().unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("legal: "), "{error} lacks {message}");
    }
}
