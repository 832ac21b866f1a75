//! Networks for the tag environment whose outputs tell which weights made them.

use gleaner::policy::{Backend, HeadSpec, Layer, NetworkSpec, Policy};
use gleaner::prelude::{Task, Weights};

use super::Seen;

/// Width of the hidden block.
const WIDTH: usize = 64;

fn spec() -> NetworkSpec {
    let head = HeadSpec::Gaussian { log_std: 0.0 };
    NetworkSpec {
        trunk: vec![Layer::Linear(WIDTH)],
        actor: vec![],
        critic: Some(vec![]),
        head,
        ..NetworkSpec::default()
    }
}

/// What the weights of `version` are filled with: small enough that the mean over a block is exact.
pub fn stamp(version: u64) -> f32 {
    (version % 65_536) as f32
}

/// Two blocks that hold the stamp of `version`: the mean action tells the second, the value the mean over all of the first.
pub fn stamped_weights(version: u64) -> Weights {
    let stamp = stamp(version);
    let mut weights = Weights::new();
    weights.insert("trunk.0.weight", [WIDTH, 5], vec![0.0; 5 * WIDTH]);
    weights.insert("trunk.0.bias", [WIDTH], vec![stamp; WIDTH]);
    weights.insert("action.weight", [1, WIDTH], vec![0.0; WIDTH]);
    weights.insert("action.bias", [1], vec![stamp]);
    weights.insert("value.weight", [1, WIDTH], vec![1.0 / WIDTH as f32; WIDTH]);
    weights.insert("value.bias", [1], vec![0.0]);
    weights.insert("log_std", [1], vec![0.0]);
    weights
}

/// A policy whose mean action and value equal the stamp of its weights' version, starting at 0.
pub fn stamped_network<T: Task<Observation = Seen, Action = f32>>() -> Policy<T> {
    Policy::network(spec()).weights(stamped_weights(0)).backend(Backend::Cpu)
}

/// A policy whose actions depend on the whole observation and on chance.
pub fn sampling_network<T: Task<Observation = Seen, Action = f32>>() -> Policy<T> {
    Policy::network(spec()).seed(5).backend(Backend::Cpu)
}
