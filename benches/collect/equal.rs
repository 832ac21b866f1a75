//! gleaner and the hand-written loops give the same bits in every column.

use gleaner::prelude::*;

use super::{
    baseline::{Columns, Rollouts, Trajectories},
    collectors::{SEED, random, whole},
};

/// Compares some batches of fixed length and of whole trajectories; those that are measured among them.
pub fn check() -> Result<(), Error> {
    for (rows, ticks, n) in [(1, 700, 1), (67, 33, 50), (1_024, 64, 2_560), (16_384, 64, 40_960)] {
        let (mut collector, mut baseline) = (random(rows, ticks, 1)?, Rollouts::new(rows, ticks, SEED));
        for i in 0..4 {
            let batch = next(&mut collector)?;
            compare(&batch, baseline.roll(), &format!("{rows} rows, batch {i}"));
            let ends = &batch.observations()[batch.len() - rows..];
            assert_eq!(ends.len(), batch.last_observations().len());
        }
        let (mut collector, mut baseline) = (whole(rows, ticks, n)?, Trajectories::new(rows, ticks, SEED, n));
        for i in 0..6 {
            let (batch, expected) = (next(&mut collector)?, baseline.batch());
            compare(&batch, &expected, &format!("{rows} rows, batch {i} of {n} trajectories"));
            baseline.give_back(expected);
        }
    }
    println!("every column of gleaner and of the hand-written loops has the same bits\n");
    Ok(())
}

/// The next batch of an endless collector.
pub fn next<T: Task>(collector: &mut Collector<T>) -> Result<Batch<T>, Error> {
    match collector.next() {
        Some(batch) => batch,
        None => unreachable!("the collector is endless"),
    }
}

fn compare(batch: &Batch<CartPole>, expected: &Columns, what: &str) {
    fn bits<A: bytemuck::NoUninit, B: bytemuck::NoUninit>(ours: &[A], theirs: &[B], what: &str, column: &str) {
        let (ours, theirs): (&[u8], &[u8]) = (bytemuck::cast_slice(ours), bytemuck::cast_slice(theirs));
        let apart = ours.iter().zip(theirs).position(|(a, b)| a != b);
        assert!(apart.is_none() && ours.len() == theirs.len(), "{what}: {column} differs at byte {apart:?}");
    }
    let n = batch.len();
    bits(batch.observations(), &expected.observations[..n], what, "observation");
    bits(batch.last_observations(), &expected.observations[n..], what, "last observation");
    bits(batch.actions(), &expected.actions, what, "action");
    bits(batch.rewards(), &expected.rewards, what, "reward");
    bits(batch.ends(), &expected.ends, what, "end");
    bits(batch.steps(), &expected.steps, what, "step");
    bits(batch.trajectory_ids(), &expected.ids, what, "id");
    bits(batch.flags(), &expected.flags, what, "flags");
    bits(batch.versions(), &expected.versions, what, "version");
    let finals: Vec<_> = (0..n).filter_map(|i| batch.final_observation(i).map(|last| (i, *last))).collect();
    assert_eq!(finals, expected.finals, "{what}: final observations");
    assert_eq!(batch.trajectories().len(), expected.episodes.len(), "{what}: episodes");
    for (ours, theirs) in batch.trajectories().iter().zip(&expected.episodes) {
        assert_eq!((ours.id.0, ours.row.0, ours.tick), (theirs.id, theirs.row, theirs.tick), "{what}");
        assert_eq!((ours.length, ours.total_reward), (theirs.length, theirs.total), "{what}");
        assert_eq!((ours.first_version, ours.last_version), (theirs.first_version, theirs.last_version), "{what}");
        bits(&[ours.end], &[theirs.end], what, "end of an episode");
    }
}
