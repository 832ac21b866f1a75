//! The best trajectories are those that a sort of all of them gives.

use gleaner::{prelude::*, replay::TopTrajectories};
use proptest::{collection::vec, prelude::*};

use crate::made::{Block, Made, Source};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn wr2_the_best_are_kept(k in 1..6_usize, blocks in vec(vec(1..6_usize, 1..5), 1..8)) {
        let mut top = TopTrajectories::<Made>::new(k).expect("a number");
        let mut source = Source::new(1, 0);
        // Rewards are serial numbers; a reset of the serial makes early ones return.
        let (mut all, mut taken) = (Vec::new(), 0);
        for (i, lengths) in blocks.iter().enumerate() {
            source.set_serial((i as u32 * 7) % 5);
            let slots = source.episodes(lengths);
            let mut begin = 0;
            for length in lengths {
                let frames = slots[begin..begin + length].iter().flatten();
                let total: f64 = frames.clone().map(|frame| f64::from(frame.serial)).sum();
                all.push((total, frames.map(|frame| frame.id).next().expect("a frame")));
                begin += length;
            }
            taken += top.extend(&Block::new(&slots, None)).expect("the same columns");
        }
        // Stable: of equal returns the earlier.
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.truncate(k);
        prop_assert_eq!(top.returns(), all.iter().map(|(total, _)| *total).collect::<Vec<_>>());
        prop_assert!(taken >= all.len());
        let replay = top.replay().expect("some");
        let stored = replay.trajectories();
        let ids: Vec<u64> = stored.iter().map(|stored| stored.id.0).collect();
        prop_assert_eq!(ids, all.iter().map(|(_, id)| *id).collect::<Vec<_>>());
        prop_assert!(stored.iter().all(|stored| stored.complete && !stored.beheaded));
        let sample = replay.read(&replay.frames().collect::<Vec<_>>()).expect("frames");
        for i in 0..sample.len() {
            let [id, step] = sample.observations()[i];
            prop_assert_eq!(sample.next_observation(i), &[id, step + 1]);
        }
    }
}

#[test]
fn only_whole_ones_count() {
    let mut top = TopTrajectories::<Made>::new(3).unwrap();
    assert!(top.replay().is_err() && TopTrajectories::<Made>::new(0).is_err());
    // Two rows, time-major: row 0 ends at tick 1, both run on at the edge.
    let mut source = Source::new(2, 0);
    let mut script = [9, 9, 0, 9, 9, 9].into_iter();
    let first = Block::new(&source.ticks(3, 1, &mut || script.next().unwrap()), Some(2));
    assert_eq!(top.extend(&first).unwrap(), 1);
    assert_eq!(top.returns(), [2.0]);
    // Row 1 ends here, but began before.
    let mut script = [9, 0].into_iter();
    let second = Block::new(&source.ticks(1, 1, &mut || script.next().unwrap()), Some(2));
    assert_eq!(top.extend(&second).unwrap(), 0);
    let mut collector = Collector::<CartPole>::builder().frames_per_batch(2).build().unwrap();
    let error = top.extend(&collector.next().unwrap().unwrap()).unwrap_err().to_string();
    assert!(error.contains("columns"), "{error}");
}

#[test]
fn wr2_another_column_ranks() {
    let builder = Collector::<CartPole>::builder().rows(4).frames_per_batch(400).trajs_per_batch(12);
    let mut collector = builder.policy(Policy::network(NetworkSpec::default())).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let mut top = TopTrajectories::<CartPole>::new(3).unwrap().ranked_by("log_prob");
    top.extend(&batch).unwrap();
    // Trajectories lie one behind the other.
    let mut rest = batch.log_probs().unwrap();
    let mut sums: Vec<f64> = Vec::new();
    for one in batch.trajectories() {
        let (own, behind) = rest.split_at(one.length as usize);
        sums.push(own.iter().map(|value| f64::from(*value)).sum());
        rest = behind;
    }
    sums.sort_by(|a, b| b.total_cmp(a));
    assert_eq!(top.returns(), sums[..3]);
    for column in ["observation", "nothing"] {
        let error = TopTrajectories::<CartPole>::new(3).unwrap().ranked_by(column).extend(&batch).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(column) && error.contains("reward") && error.contains("log_prob"), "{error}");
    }
}
