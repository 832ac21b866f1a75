//! O-02: what a row does does not depend on how fast it or others are, on threads, or on who acts together.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use gleaner::{
    config::CollectorBuilder,
    env::{AsyncBatched, RowStepper},
    policy::{HeadSpec, Layer, NetworkSpec, Policy, head::LogStd},
    prelude::{Batch, CartPole, Collector, Env},
};

use crate::support::slow::{Slow, slow, uneven};

/// By row, episode serial and step: all that a frame says, as bits.
type Frames = BTreeMap<(u32, u32, u32), Vec<u64>>;

/// The network that every collector here acts by: version-independent, but it looks at everything.
fn network<E: Env>(head: HeadSpec, trunk: Vec<Layer>) -> Policy<E> {
    Policy::network(NetworkSpec { trunk, head, ..NetworkSpec::default() }).seed(3)
}

fn bits(values: &[f32]) -> impl Iterator<Item = u64> {
    values.iter().map(|value| u64::from(value.to_bits()))
}

fn note(batch: &Batch<Slow>, frames: &mut Frames) {
    let (log_probs, values) = (batch.log_probs(), batch.values());
    for i in 0..batch.len() {
        if !batch.flags()[i].valid() {
            continue;
        }
        let seen = batch.observations()[i];
        let mut all: Vec<u64> = bits(&seen).chain(bits(batch.next_observation(i))).collect();
        all.extend(bits(&[batch.actions()[i], batch.rewards()[i]]));
        all.extend(log_probs.into_iter().chain(values).flat_map(|column| bits(&column[i..=i])));
        all.push(u64::from(batch.ends()[i].terminated()) + 2 * u64::from(batch.ends()[i].truncated()));
        let key = (seen[0] as u32, seen[1] as u32, batch.steps()[i].0);
        assert!(frames.insert(key, all).is_none(), "{key:?} came twice");
    }
}

const ROWS: u32 = 6;

/// Frames of a row, in order.
fn of(frames: &Frames, row: u32) -> Vec<(&(u32, u32, u32), &Vec<u64>)> {
    frames.iter().filter(|(key, _)| key.0 == row).collect()
}

/// What a collector without a budget yields until each row has frames to compare: which row is how fast is the machine's
/// affair.
fn frames_of(mut collector: Collector<Slow>) -> Frames {
    let (mut frames, deadline) = (Frames::new(), Instant::now() + Duration::from_secs(60));
    while (0..ROWS).any(|row| of(&frames, row).len() < 20) {
        assert!(Instant::now() < deadline, "a row has too few frames: {:?}", frames.keys());
        note(&collector.next().expect("endless").expect("no fault"), &mut frames);
    }
    assert_eq!(frames.len() as u64, collector.stats().frames);
    frames
}

/// Each row's frames are the first ones of the other's, and the same.
fn assert_same_rows(pooled: &Frames, inline: &Frames) {
    for row in 0..ROWS {
        let (pooled, inline) = (of(pooled, row), of(inline, row));
        let n = pooled.len().min(inline.len());
        assert!(n >= 20, "row {row} has {n} frames to compare");
        assert_eq!(pooled[..n], inline[..n], "row {row}");
    }
}

fn builder(length: u32, sleeps: bool) -> CollectorBuilder<Slow, RowStepper<Slow>> {
    let builder = slow(length, move |row, episode, t| {
        if sleeps {
            uneven(row, episode, t)
        }
    });
    builder.rows(ROWS as usize).frames_per_batch(60).seed(11).max_frames_per_traj(9)
}

#[test]
fn o02_each_row_is_the_inline_collectors_bit_for_bit() {
    let policies: [fn() -> Policy<Slow>; 3] = [
        Policy::random,
        || network(HeadSpec::Gaussian { log_std: LogStd::Free(0.0) }, vec![Layer::Linear(16), Layer::Tanh]),
        || network(HeadSpec::Gaussian { log_std: LogStd::Free(0.0) }, vec![Layer::Linear(8), Layer::Gru(8)]),
    ];
    for policy in policies {
        let inline = frames_of(builder(8, false).policy(policy()).build().unwrap());
        for (threads, min_ready, max_ready) in
            [(None, 1, None), (Some(1), 1, None), (Some(2), 2, Some(3)), (None, 6, None)]
        {
            let options = AsyncBatched { threads, min_ready, max_ready, ..AsyncBatched::default() };
            let pooled = builder(8, true).policy(policy()).async_batched(options);
            assert_same_rows(&frames_of(pooled.build().unwrap()), &inline);
        }
    }
}

#[test]
fn o02_whole_trajectories_are_the_inline_collectors() {
    let builder = |pooled: bool| {
        let builder = builder(8, pooled).trajs_per_batch(4);
        if pooled { builder.async_batched(AsyncBatched::default()) } else { builder }
    };
    let whole = |pooled: bool| frames_of(builder(pooled).build().unwrap());
    assert_same_rows(&whole(true), &whole(false));
    let (mut collector, mut frames, mut batches) = (builder(true).total_frames(420).build().unwrap(), Frames::new(), 0);
    for batch in &mut collector {
        let batch = batch.unwrap();
        batches += 1;
        assert!(batch.trajectories().len() <= 4);
        assert_eq!(batch.trajectories().iter().map(|t| t.length as usize).sum::<usize>(), batch.frames());
        note(&batch, &mut frames);
    }
    assert!(batches > 5);
    let stats = collector.stats();
    assert_eq!((stats.stepped_frames, stats.in_flight_frames, frames.len() as u64), (420, 0, stats.frames));
}

#[test]
fn o02_a_task_with_a_limit_of_its_own_ends_as_inline() {
    let lengths = |pooled: bool| {
        let builder = Collector::<CartPole>::builder().rows(4).frames_per_batch(512).seed(5);
        let builder = if pooled { builder.async_batched(AsyncBatched::default()) } else { builder };
        let (mut collector, mut by_row) = (builder.build().unwrap(), vec![Vec::new(); 4]);
        let deadline = Instant::now() + Duration::from_secs(60);
        while by_row.iter().any(|row| row.len() < 12) {
            assert!(Instant::now() < deadline, "a row has too few episodes: {by_row:?}");
            let batch = collector.next().unwrap().unwrap();
            let ended = batch.trajectories().iter();
            ended.for_each(|t| by_row[t.row.0 as usize].push((t.length, t.total_reward)));
        }
        by_row
    };
    for (pooled, inline) in lengths(true).iter().zip(&lengths(false)) {
        let n = pooled.len().min(inline.len());
        assert_eq!(pooled[..n], inline[..n]);
    }
}
