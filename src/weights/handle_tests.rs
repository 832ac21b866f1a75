use std::sync::atomic::AtomicBool;

use super::*;

fn specs() -> Vec<TensorSpec> {
    ["first", "second"].map(|name| TensorSpec { name: name.into(), shape: vec![256] }).into()
}

fn blocks(x: f32) -> Weights {
    let mut weights = Weights::new();
    weights.insert("first", [256], vec![x; 256]);
    weights.insert("second", [256], vec![-x; 256]);
    weights
}

fn handle() -> WeightsHandle {
    WeightsHandle::new(specs(), blocks(0.0)).unwrap()
}

#[test]
fn versions_rise_by_one_from_the_initial_zero() {
    let handle = handle();
    assert_eq!((handle.version(), handle.latest().0), (0, 0));
    assert!(handle.newer_than(0).is_none());
    assert_eq!(handle.publish(blocks(1.0)).unwrap(), 1);
    assert_eq!(handle.clone().publish(blocks(2.0)).unwrap(), 2);
    let (version, weights) = handle.newer_than(1).unwrap();
    assert_eq!((version, &*weights), (2, &blocks(2.0)));
    assert!(handle.newer_than(2).is_none());
}

#[test]
fn a_refused_set_changes_nothing() {
    let handle = handle();
    let mut wrong = blocks(1.0);
    wrong.0.get_mut("second").unwrap().data[17] = f32::NAN;
    let message = handle.publish(wrong).unwrap_err().to_string();
    assert!(message.contains("second") && message.contains("17"), "{message}");
    let mut short = blocks(1.0);
    short.0.remove("first");
    assert!(handle.publish(short).unwrap_err().to_string().contains("first"));
    assert_eq!(handle.version(), 0);
    assert_eq!(*handle.latest().1, blocks(0.0));
    assert!(WeightsHandle::new(specs(), Weights::new()).is_err());
}

#[test]
fn a_reader_keeps_what_it_holds() {
    let handle = handle();
    let (_, held) = handle.latest();
    handle.publish(blocks(5.0)).unwrap();
    assert_eq!(*held, blocks(0.0));
}

#[test]
fn copies_are_published_in_the_memory_of_old_sets() {
    let handle = handle();
    let mut own = blocks(1.0);
    let data = |weights: &Weights| weights.get("first").unwrap().data.as_ptr();
    assert_eq!(handle.publish_copy(&own).unwrap(), 1);
    let (_, held) = handle.latest();
    assert_ne!(data(&held), data(&own));
    let mut places = std::collections::HashSet::new();
    for version in 2..50 {
        own = blocks(version as f32);
        assert_eq!(handle.publish_copy(&own).unwrap(), version);
        assert_eq!(*handle.latest().1, own);
        places.insert(data(&handle.latest().1));
    }
    assert_eq!(*held, blocks(1.0), "a reader keeps what it holds");
    assert!(places.len() <= 3, "{} sets for one after the other", places.len());
    own.0.get_mut("second").unwrap().data[200] = f32::INFINITY;
    let message = handle.publish_copy(&own).unwrap_err().to_string();
    assert!(message.contains("second") && message.contains("element 200 is inf"), "{message}");
    own.0.remove("first");
    assert!(handle.publish_copy(&own).unwrap_err().to_string().contains("first"));
    assert_eq!((handle.version(), &*handle.latest().1), (49, &blocks(49.0)));
}

#[test]
fn a_resumed_handle_goes_on_counting() {
    let handle = WeightsHandle::resume(specs(), 41, blocks(1.0)).unwrap();
    handle.wait_adopted(41, Duration::ZERO).unwrap();
    assert_eq!(handle.publish(blocks(2.0)).unwrap(), 42);
}

#[test]
fn who_was_replaced_adopts_nothing_in_its_successors_name() {
    let handle = handle();
    handle.set_adopters(2);
    let version = handle.publish(blocks(1.0)).unwrap();
    handle.adopted_by((0, 0), version);
    handle.replaced(1, 1);
    handle.adopted_by((1, 0), version);
    assert!(matches!(handle.wait_adopted(version, Duration::ZERO), Err(Error::Timeout { .. })));
    handle.adopted_by((1, 1), version);
    handle.wait_adopted(version, Duration::ZERO).unwrap();
    handle.gone(1);
    handle.wait_adopted(version + 1, Duration::ZERO).unwrap_err();
    handle.wait_adopted_by(version + 1, &[1], Duration::ZERO).unwrap();
}

#[test]
fn adoption_is_waited_for_with_a_deadline() {
    let handle = handle();
    handle.wait_adopted(0, Duration::ZERO).unwrap();
    let version = handle.publish(blocks(1.0)).unwrap();
    let deadline = Duration::from_millis(5);
    assert!(matches!(handle.wait_adopted(version, deadline), Err(Error::Timeout { .. })));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| handle.wait_adopted(version, Duration::from_secs(60)));
        handle.adopted(version);
        // An older one that comes late takes nothing back.
        handle.adopted(version - 1);
        waiter.join().unwrap().unwrap();
    });
    handle.wait_adopted(version, Duration::MAX).unwrap();
}

/// Two blocks of opposite sign, published back to back: a reader that mixes two sets sees a sum that is not zero.
#[test]
fn no_reader_sees_half_of_a_set() {
    let (handle, stop) = (handle(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let next = handle.version() + 1;
                assert_eq!(handle.publish(blocks(next as f32)).unwrap(), next);
            }
        });
        let mut seen = 0;
        for _ in 0..100_000 {
            let Some((version, weights)) = handle.newer_than(seen) else { continue };
            assert!(version > seen);
            seen = version;
            let (first, second) = (&weights.get("first").unwrap().data, &weights.get("second").unwrap().data);
            assert!(first.iter().zip(second).all(|(a, b)| *a == version as f32 && a + b == 0.0));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_lock_that_a_panic_poisoned_still_works() {
    let handle = handle();
    let shared = handle.0.clone();
    let panicked = std::thread::spawn(move || {
        let _latest = shared.latest.lock();
        let _adopted = shared.adopted.lock();
        panic!("while holding both locks");
    });
    assert!(panicked.join().is_err());
    assert_eq!(handle.publish(blocks(1.0)).unwrap(), 1);
    handle.adopted(1);
    handle.wait_adopted(1, Duration::ZERO).unwrap();
}
