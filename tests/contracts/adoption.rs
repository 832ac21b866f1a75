//! Weights are adopted whole, at the end of a tick: no frame ever comes from two sets, whoever publishes when.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crate::support::{Ending, Script, Tag, publish_until, stamp, stamped_network, stamped_weights, tags};
use gleaner::{policy::Exploration, prelude::Collector};

fn collector(rows: usize, ticks: usize, total: u64) -> Collector<Tag> {
    let builder = tags(Script::all(100, Ending::Terminated)).rows(rows).frames_per_batch(rows * ticks);
    let builder = builder.total_frames(total).policy(stamped_network()).exploration(Exploration::Mode);
    builder.build().unwrap()
}

#[test]
fn e10_no_action_comes_from_half_written_weights() {
    let mut collector = collector(64, 500, 1 << 40);
    let weights = collector.weights().unwrap();
    let stop = AtomicBool::new(false);
    let (mut frames, mut versions) = (0, std::collections::BTreeSet::new());
    // How often the publisher has its turn is the machine's affair.
    let deadline = Instant::now() + Duration::from_secs(60);
    thread::scope(|scope| {
        scope.spawn(|| publish_until(&weights, &stop));
        while frames < 1_024_000 || versions.len() <= 100 && Instant::now() < deadline {
            let batch = collector.next().unwrap().unwrap();
            frames += batch.frames();
            let outputs = batch.actions().iter().zip(batch.values().unwrap());
            // The action tells one block, the value every element of the other.
            let torn = outputs.zip(batch.versions()).find(|((a, b), version)| {
                let version = stamp(**version);
                **a != version || **b != version
            });
            if torn.is_some() {
                stop.store(true, Relaxed);
            }
            assert_eq!(torn, None);
            versions.extend(batch.versions().iter().copied());
        }
        stop.store(true, Relaxed);
    });
    assert!(versions.len() > 100, "only {} versions acted", versions.len());
}

#[test]
fn e4_weights_published_between_batches_act_in_the_next_ones_first_frame() {
    let mut collector = collector(3, 4, 1_000);
    let weights = collector.weights().unwrap();
    for version in 0..5 {
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.versions().iter().all(|v| *v == version));
        assert!(batch.actions().iter().all(|action| *action == version as f32));
        assert_eq!(collector.stats().policy_version, Some(version));
        // The same numbers again are another version.
        let published = weights.publish(stamped_weights(version + 1)).unwrap();
        assert_eq!(published, version + 1);
    }
    collector.next().unwrap().unwrap();
    weights.wait_adopted(5, Duration::ZERO).unwrap();
    assert!(weights.wait_adopted(6, Duration::ZERO).is_err());
}

#[test]
fn e9_a_set_that_is_refused_changes_nothing() {
    let mut collector = collector(2, 4, 1_000);
    let weights = collector.weights().unwrap();
    weights.publish(stamped_weights(1)).unwrap();
    let mut broken = stamped_weights(2);
    broken.insert("action.bias", [1], vec![f32::NAN]);
    assert!(weights.publish(broken).unwrap_err().to_string().contains("action.bias"));
    let mut short = stamped_weights(2);
    short.0.remove("value.weight");
    assert!(weights.publish(short).unwrap_err().to_string().contains("value.weight"));
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.versions().iter().all(|version| *version == 1));
    assert!(batch.actions().iter().chain(batch.values().unwrap()).all(|x| *x == 1.0));
}
