//! Recurrent policies: what a row remembers is zeroed exactly where an episode begins, survives everything else, and is
//! told to learners.

use gleaner::{
    collector::Rows,
    policy::{Evaluator, Layer},
    prelude::*,
    replay::sampler::Slices,
    rollout::Layout,
};
use proptest::prelude::*;

const HIDDEN: usize = 5;

fn policy<T: Task>(layer: Layer) -> Policy<T> {
    let spec = NetworkSpec { trunk: vec![layer], actor: vec![], critic: Some(vec![]), ..NetworkSpec::default() };
    Policy::network(spec).backend(Backend::Cpu).seed(3)
}

/// Values of a batch computed again frame by frame, from its initial states, and the states behind the last tick.
fn replay(batch: &Batch<CartPole>, policy: &Evaluator<CartPole>, width: usize) -> (Vec<f32>, Vec<Vec<f32>>) {
    let Layout::TimeMajor { ticks, rows } = batch.layout() else { panic!("a rollout") };
    let mut states = batch.initial_states().to_vec();
    let (mut values, mut behind) = (Vec::new(), Vec::new());
    for tick in 0..ticks {
        for row in 0..rows {
            let frame = tick * rows + row;
            let state = &mut states[row * width..(row + 1) * width];
            if batch.is_init(frame) {
                state.fill(0.0);
            }
            if let Ok(column) = batch.array::<f32>("state")
                && batch.flags()[frame].valid()
            {
                assert_eq!(column.slice(ndarray::s![tick, row, ..]).to_vec(), state, "frame {frame}");
            }
            // Neither a slot without a frame nor one of the warm-up was the network's.
            let acted = batch.flags()[frame].valid() && !batch.flags()[frame].random();
            let value = if acted {
                policy.evaluate_from(&batch.observations()[frame..=frame], state).unwrap().values[0]
            } else {
                0.0
            };
            values.push(value);
            behind.push(state.to_vec());
        }
    }
    (values, behind)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_rows_memory_is_its_episodes(
        rows in 1_usize..40,
        ticks in 1_usize..12,
        limit in 1_u32..9,
        forced in any::<bool>(),
        lstm in any::<bool>(),
        recorded in any::<bool>(),
        threads in 1_usize..3,
        total in 1_usize..600,
        random in 0_usize..50,
        reset_row in prop::option::of(0_u32..40),
    ) {
        let layer = if lstm { Layer::Lstm(HIDDEN) } else { Layer::Gru(HIDDEN) };
        let width = if lstm { 2 * HIDDEN } else { HIDDEN };
        let evaluator = policy::<CartPole>(layer).evaluator().unwrap();
        let builder = Collector::<CartPole>::builder().policy(policy(layer)).rows(rows).frames_per_batch(rows * ticks);
        let builder = builder.max_frames_per_traj(limit).reset_at_each_iter(forced).record_states(recorded);
        let builder = builder.threads(threads).infer_rows_per_thread(2).total_frames(total as u64);
        let mut collector = builder.init_random_frames(random as u64).seed(7).build().unwrap();
        let mut batches = 0;
        while let Some(batch) = collector.next() {
            let batch = batch.unwrap();
            let (values, behind) = replay(&batch, &evaluator, width);
            prop_assert_eq!(bits(batch.values().unwrap()), bits(&values));
            let next = batch.bootstrap_values().unwrap();
            for (frame, next) in next.into_iter().enumerate() {
                let end = batch.ends()[frame];
                if batch.flags()[frame].valid() && (end.truncated() || frame + rows >= batch.len()) && !end.terminated() {
                    let observation = *batch.next_observation(frame);
                    let want = evaluator.evaluate_from(&[observation], &mut behind[frame].clone()).unwrap().values[0];
                    prop_assert_eq!(next.to_bits(), want.to_bits(), "behind frame {}", frame);
                }
            }
            batches += 1;
            if let Some(row) = reset_row.filter(|row| (*row as usize) < rows && batches == 1) {
                collector.reset(Rows::Some(&[row])).unwrap();
            }
        }
    }
}

#[test]
fn threads_and_cuts_do_not_change_what_is_remembered() {
    let collect = |threads: usize, ticks: usize| {
        let builder = Collector::<CartPole>::builder().policy(policy(Layer::Gru(HIDDEN))).rows(30).seed(5);
        let builder = builder.frames_per_batch(30 * ticks).total_frames(30 * 60).threads(threads);
        let collector = builder.infer_rows_per_thread(3).build().unwrap();
        collector.flat_map(|batch| bits(batch.unwrap().values().unwrap())).collect::<Vec<_>>()
    };
    let alone = collect(1, 60);
    for (threads, ticks) in [(2, 60), (8, 20), (2, 1), (1, 7)] {
        assert_eq!(alone, collect(threads, ticks), "{threads} threads, {ticks} ticks");
    }
}

#[test]
fn whole_trajectories_begin_with_zeros_and_bootstrap_only_where_they_terminate() {
    let builder = Collector::<CartPole>::builder().policy(policy(Layer::Gru(HIDDEN))).rows(4).frames_per_batch(64);
    let mut collector = builder.trajs_per_batch(8).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.initial_states().is_empty());
    assert!(batch.bootstrap_values().is_ok());
    let builder = Collector::<CartPole>::builder().policy(policy(Layer::Gru(HIDDEN))).rows(4).frames_per_batch(64);
    let mut collector = builder.trajs_per_batch(8).max_frames_per_traj(3).build().unwrap();
    let message = collector.next().unwrap().unwrap().bootstrap_values().unwrap_err().to_string();
    assert!(message.contains("recurrent state"), "{message}");
}

#[test]
fn states_of_a_network_without_memory_are_a_conflict() {
    let policy = Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
    let error = Collector::<CartPole>::builder().policy(policy).record_states(true).build().unwrap_err().to_string();
    assert!(error.contains("record_states") && error.contains("recurrent"), "{error}");
}

#[test]
fn the_same_seed_again_begins_with_zeros() {
    let builder = Collector::<CartPole>::builder().policy(policy(Layer::Gru(HIDDEN))).rows(3).frames_per_batch(3 * 5);
    let mut collector = builder.seed(5).build().unwrap();
    let first = bits(collector.next().unwrap().unwrap().values().unwrap());
    collector.set_seed_static(5).unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.initial_states().iter().all(|x| *x == 0.0), "{:?}", batch.initial_states());
    assert_eq!(first, bits(batch.values().unwrap()));
}

#[test]
fn pieces_of_a_rollout_keep_what_learners_need() {
    let builder = Collector::<CartPole>::builder().policy(policy(Layer::Gru(HIDDEN))).rows(6).frames_per_batch(6 * 10);
    let mut collector = builder.max_frames_per_traj(4).build().unwrap();
    collector.next().unwrap().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let (next, split) = (batch.bootstrap_values().unwrap(), batch.split_trajectories().unwrap());
    let bootstrapped = |i: &usize| batch.ends()[*i].truncated() || i + 6 >= batch.len();
    let slots: Vec<_> = (0..batch.len()).rev().filter(bootstrapped).collect();
    let chosen = batch.select(&slots).unwrap();
    let expected: Vec<f32> = slots.iter().map(|slot| next[*slot]).collect();
    assert_eq!(bits(&chosen.bootstrap_values().unwrap()), bits(&expected));
    assert!(batch.select(&[0, 1]).unwrap().bootstrap_values().is_err());
    let pieces = split.initial_states().chunks(HIDDEN);
    assert_eq!(pieces.len() * split.len() / pieces.len(), split.len());
    assert!(pieces.clone().take(1).all(|state| *state == batch.initial_states()[..HIDDEN]));
    split.bootstrap_values().unwrap();
}

#[test]
fn a_warm_up_is_not_remembered() {
    let builder = Collector::<CartPole>::builder().policy(policy(Layer::Gru(HIDDEN))).rows(4).frames_per_batch(64);
    let mut collector = builder.init_random_frames(30).trajs_per_batch(8).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.bootstrap_values().is_ok());
}

/// With recorded states a slice of a replay buffer brings the memory that the policy had at its first frame, and at each.
#[test]
fn a_slice_brings_the_memory_before_it() {
    let buffer = Replay::<CartPole>::new(1_000).unwrap();
    let builder = Collector::<CartPole>::builder().policy(policy(Layer::Gru(HIDDEN))).rows(4).frames_per_batch(80);
    let mut collector = builder.record_states(true).seed(7).build().unwrap();
    for batch in collector.by_ref().take(5) {
        buffer.extend(&batch.unwrap()).unwrap();
    }
    let evaluator = policy::<CartPole>(Layer::Gru(HIDDEN)).evaluator().unwrap();
    let sampler = buffer.sampler().sampling(Slices::of(4)).batch_size(30).build();
    let sample = sampler.unwrap().sample().unwrap();
    let (states, values) = (sample.column::<[f32; HIDDEN]>("state").unwrap(), sample.column::<f32>("value").unwrap());
    for pick in 0..sample.picks() {
        let mut state = states[sample.pick(pick).start];
        for i in sample.pick(pick) {
            assert_eq!(bits(&state), bits(&states[i]), "slot {i}");
            let value = evaluator.evaluate_from(&sample.observations()[i..=i], &mut state).unwrap().values[0];
            assert_eq!(value.to_bits(), values[i].to_bits(), "slot {i}");
        }
    }
}
