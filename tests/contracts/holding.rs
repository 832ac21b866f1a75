//! A batch is the consumer's own: it may be held, sent and dropped anywhere, and what all of them hold is bounded and known.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    thread,
};

use crate::support::{Ending, NEVER, Script, Tag, sampling_network, tags};
use gleaner::prelude::{Batch, CartPole, Collector, Error};

const _: () = {
    const fn owned<T: Send + 'static>() {}
    owned::<Batch<CartPole>>();
    owned::<Collector<CartPole>>();
};

fn hash(batch: &Batch<Tag>) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytemuck::cast_slice::<_, u8>(batch.observations()).hash(&mut hasher);
    bytemuck::cast_slice::<_, u8>(batch.last_observations()).hash(&mut hasher);
    bytemuck::cast_slice::<_, u8>(batch.actions()).hash(&mut hasher);
    format!("{:?} {:?}", batch.ends(), batch.trajectories()).hash(&mut hasher);
    batch.versions().hash(&mut hasher);
    for i in 0..batch.len() {
        format!("{:?}", batch.next_observation(i)).hash(&mut hasher);
    }
    hasher.finish()
}

#[test]
fn j20_a_held_batch_stays_as_it_was() {
    for trajectories in [false, true] {
        let mut builder = tags(Script::all(5, Ending::Truncated)).rows(3).frames_per_batch(33);
        if trajectories {
            builder = builder.trajs_per_batch(4);
        }
        let mut collector = builder.build().unwrap();
        let first = collector.next().unwrap().unwrap();
        let before = hash(&first);
        let second = collector.next().unwrap().unwrap();
        assert_ne!(hash(&second), before);
        collector.next().unwrap().unwrap();
        assert_eq!(hash(&first), before);
        drop(collector);
        assert_eq!(hash(&first), before, "a batch outlives its collector");
        assert_eq!(thread::spawn(move || hash(&first)).join().unwrap(), before);
    }
}

#[test]
fn holding_too_many_batches_is_an_error_that_passes() {
    let builder = tags(Script::all(5, Ending::Truncated)).frames_per_batch(10).max_arenas(3).total_frames(60);
    let mut collector = builder.build().unwrap();
    let mut held: Vec<_> = collector.by_ref().take(3).map(|batch| batch.unwrap()).collect();
    let stats = collector.stats();
    for _ in 0..2 {
        assert!(matches!(collector.next(), Some(Err(Error::ArenasHeld { max_arenas: 3 }))));
        assert!(matches!(collector.rollout(), Err(Error::ArenasHeld { .. })));
    }
    assert_eq!(collector.stats(), stats, "nothing was stepped");
    held.remove(1);
    let next = collector.next().unwrap().unwrap();
    assert_eq!((next.index(), next.observations()[0].resets), (3, 7.0));
    drop((held, next));
    assert_eq!(collector.map(|batch| batch.unwrap().frames()).sum::<usize>(), 20);
}

#[test]
fn holding_too_many_trajectories_loses_none() {
    let builder = tags(Script::all(5, Ending::Truncated)).frames_per_batch(10).max_arenas(2).total_frames(50);
    let mut collector = builder.trajs_per_batch(1).build().unwrap();
    let mut ids = Vec::new();
    let mut held = Vec::new();
    for batch in &mut collector {
        match batch {
            Ok(batch) => {
                ids.push(batch.trajectories()[0].id.serial());
                held.push(batch);
            }
            Err(Error::ArenasHeld { .. }) => held.clear(),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(ids, (1..=10).collect::<Vec<_>>());
}

#[test]
fn a_dropped_batchs_memory_is_used_again() {
    let mut collector = tags(Script::all(5, Ending::Truncated)).frames_per_batch(64).build().unwrap();
    let place = |batch: Batch<Tag>| batch.rewards().as_ptr() as usize;
    let first = place(collector.next().unwrap().unwrap());
    assert!((0..5).all(|_| place(collector.next().unwrap().unwrap()) == first));
    assert_eq!(collector.memory().arenas, 1);
}

#[test]
fn recorded_bytes_are_those_of_the_columns() {
    for (rows, horizon) in [(1, 64), (16, 64), (7, 256)] {
        let builder = tags(Script::all(NEVER, Ending::Terminated)).rows(rows).frames_per_batch(rows * horizon);
        let mut collector = builder.policy(sampling_network()).build().unwrap();
        let widths: usize = collector.columns().iter().map(|column| column.stride).sum();
        let most = (widths * rows * horizon) as f64 * 1.1;
        let known = collector.memory().rollout;
        assert!(known > 0 && known as f64 <= most, "{rows} × {horizon}: {known} bytes");
        drop(collector.next().unwrap().unwrap());
        let memory = collector.memory();
        assert_eq!(memory.rollout, known);
        assert!(memory.free_arenas as f64 <= most.max(known as f64 + 1024.0), "{rows} × {horizon}: {memory:?}");
        assert!(memory.free_arenas >= known, "{rows} × {horizon}: {memory:?}");
    }
}
