//! Rows of several policies next to those of collectors that have one policy each.

use std::ops::Range;

use gleaner::{
    policy::{Layer, plan::Activation},
    prelude::*,
};

const ROWS: usize = 13;
const TICKS: usize = 40;
/// Two networks, one of which remembers, and one policy that is no network; not in the order of their rows.
const RANGES: [Range<usize>; 3] = [5..11, 0..5, 11..13];

fn policy(number: usize, backend: Backend) -> Policy<CartPole> {
    let spec = match number {
        0 => NetworkSpec::mlp(&[64, 64], Activation::Tanh),
        1 => NetworkSpec { trunk: vec![Layer::Gru(24)], ..NetworkSpec::mlp(&[], Activation::Tanh) },
        _ => return Policy::random(),
    };
    Policy::network(spec).backend(backend).seed(number as u64)
}

fn sharper(weights: &WeightsHandle) -> Weights {
    let mut sharp = (*weights.latest().1).clone();
    if let Some(tensor) = sharp.0.get_mut("action.weight") {
        tensor.data.iter_mut().for_each(|x| *x *= 30.0);
    }
    sharp
}

/// The bytes of a column's slots of some rows.
fn rows(batch: &Batch<CartPole>, name: &str, rows: &Range<usize>) -> Vec<u8> {
    let spec = batch.columns().iter().find(|spec| spec.name == name).expect("a column");
    let bytes: &[u8] = match spec.stride {
        1 => batch.column::<u8>(name).expect("bytes"),
        4 => bytemuck::cast_slice(batch.column::<u32>(name).expect("words")),
        8 => bytemuck::cast_slice(batch.column::<u64>(name).expect("long words")),
        _ => bytemuck::cast_slice(batch.column::<[f32; 4]>(name).expect("an observation")),
    };
    let ticks = bytes.chunks_exact(spec.stride * ROWS);
    ticks.flat_map(|tick| &tick[rows.start * spec.stride..rows.end * spec.stride]).copied().collect()
}

/// Each row of a collector with several policies has, to the bit, what it has where its policy acts for all rows.
pub fn each_range_acts_as_if_alone(backend: Backend, threads: usize) {
    let builder = || {
        let builder = Collector::<CartPole>::builder().rows(ROWS).frames_per_batch(ROWS * TICKS).seed(4);
        let builder = builder.total_frames((3 * ROWS * TICKS - 7) as u64).init_random_frames(20);
        builder.max_frames_per_traj(25).threads(threads).step_rows_per_thread(2).infer_rows_per_thread(2)
    };
    let several = RANGES.iter().cloned().enumerate().map(|(number, range)| (range, policy(number, backend)));
    let mut together = builder().policies(several).build().expect("builds");
    assert!(together.policies().eq(RANGES));
    let mut alone = [0, 1, 2].map(|number| builder().policy(policy(number, backend)).build().expect("builds"));
    while let Some(batch) = together.next() {
        let batch = batch.expect("no fault");
        let bootstrap = batch.bootstrap_values().expect("networks are among them");
        for (number, range) in RANGES.iter().enumerate() {
            let own = alone[number].next().expect("as many batches").expect("no fault");
            // Ids are given in the order of ends, whoever acts.
            for spec in own.columns().iter().filter(|spec| spec.name != "trajectory") {
                let same = rows(&batch, &spec.name, range) == rows(&own, &spec.name, range);
                assert!(same, "column {} of policy {number}", spec.name);
            }
            let own_bootstrap = own.bootstrap_values().ok();
            for i in (0..batch.len()).filter(|i| range.contains(&(i % ROWS))) {
                let valid = batch.flags()[i].valid();
                assert_eq!(batch.policies().expect("several")[i], if valid { number as u32 } else { 0 });
                let want = own_bootstrap.as_ref().map_or(0.0, |values| values[i]);
                assert_eq!(bootstrap[i].to_bits(), want.to_bits(), "value behind slot {i} of policy {number}");
                if number == 2 {
                    assert_eq!((batch.log_probs().unwrap()[i], batch.values().unwrap()[i]), (0.0, 0.0));
                }
            }
            // Only policy 1 remembers; the states of others' rows are zeros.
            let states = &batch.initial_states()[range.start * 24..range.end * 24];
            let own_states = own.initial_states();
            let want = if number == 1 {
                &own_states[range.start * 24..range.end * 24]
            } else {
                &[0.0; 24 * ROWS][..states.len()]
            };
            assert_eq!(states, want, "initial states of policy {number}");
            // Policy 1 gets new weights between batches, the other network never.
            if number == 1 {
                for weights in [together.weights_of(1), alone[1].weights()].into_iter().flatten() {
                    weights.publish(sharper(&weights)).expect("its own tensors");
                }
            }
        }
    }
    assert!(together.stats().completed_trajectories > 20);
    assert_eq!(together.stats().policy_versions, [0, 2, 0]);
}
