//! Actors as Stable-Baselines3 saves them, with numbers made up, against the same networks computed in f64.

use gleaner::{
    policy::{Evaluation, HeadSpec},
    prelude::*,
};
use safetensors::{Dtype, serialize, tensor::TensorView};

const HIDDEN: usize = 24;

/// A `state_dict`: name, shape, elements.
type StateDict = Vec<(String, Vec<usize>, Vec<f32>)>;

/// Linear layers of these widths, called `NAME.0`, `NAME.2` …
fn sequential(name: &str, widths: &[usize]) -> StateDict {
    let layers = widths.windows(2).enumerate();
    layers.flat_map(|(i, pair)| linear(&format!("{name}.{}", 2 * i), pair[0], pair[1])).collect()
}

fn linear(name: &str, inputs: usize, outputs: usize) -> StateDict {
    let scale = 1.5 / (inputs as f32).sqrt();
    let number = |i: usize| scale * (((i * 7_919 + name.len() * 31) % 211) as f32 / 105.0 - 1.0);
    vec![
        (format!("{name}.weight"), vec![outputs, inputs], (0..inputs * outputs).map(number).collect()),
        (format!("{name}.bias"), vec![outputs], (0..outputs).map(|i| 0.3 * number(i + 5)).collect()),
    ]
}

/// The layer `name` of `x` in f64.
fn apply(dict: &StateDict, name: &str, x: &[f64]) -> Vec<f64> {
    let of = |part: &str| &dict.iter().find(|(own, ..)| *own == format!("{name}.{part}")).expect("a tensor").2;
    let sum =
        |(row, bias): (&[f32], &f32)| f64::from(*bias) + row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>();
    of("weight").chunks(x.len()).zip(of("bias")).map(sum).collect()
}

fn relu(x: Vec<f64>) -> Vec<f64> {
    x.into_iter().map(|x| x.max(0.0)).collect()
}

fn file(dict: &StateDict, name: &str) -> std::path::PathBuf {
    let bytes: Vec<Vec<u8>> =
        dict.iter().map(|(.., data)| data.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let views = dict.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).expect("its size"))
    });
    let path = std::env::temp_dir().join(format!("gleaner-actors-{}-{name}.safetensors", std::process::id()));
    std::fs::write(&path, serialize(views, None).expect("legal")).expect("a folder to write to");
    path
}

/// The actor in the file of `dict`, and what it says of a circle of states of the pendulum, whose actions go from -2 to 2.
fn says(dict: &StateDict, names: &str, head: HeadSpec, backend: Backend) -> (Vec<[f32; 3]>, Evaluation<Pendulum>) {
    let names = format!("{}/assets/names/{names}.ron", env!("CARGO_MANIFEST_DIR"));
    let path = file(dict, &format!("{}{backend:?}", dict.len()));
    let names = NameMap::from_ron_file(names).expect("an asset");
    let mut source = WeightsFile::new(&path).names(names.clone());
    let weights = source.load().expect("fits");
    source.save(&weights).expect("can be written");
    // What was ignored was not written.
    let mut source = source.names(NameMap { ignore: vec![], ..names });
    assert_eq!(source.load().expect("its own file"), weights);
    std::fs::remove_file(path).expect("was there");
    let relu = gleaner::policy::plan::Activation::Relu;
    let spec = NetworkSpec { critic: None, head, ..NetworkSpec::mlp(&[HIDDEN, HIDDEN], relu) };
    let states: Vec<_> =
        (0..40).map(|i| 0.16 * i as f32).map(|angle| [angle.cos(), angle.sin(), 3.0 - angle]).collect();
    let policy = Policy::network(spec).weights(weights).backend(backend);
    let said = policy.evaluate(&states).expect("fits the task");
    (states, said)
}

fn close(got: f32, want: f64, what: &str) {
    assert!((f64::from(got) - want).abs() <= 1e-4 * want.abs().max(1.0), "{what}: {got} is not {want}");
}

fn hidden(dict: &StateDict, name: &str, state: &[f32; 3]) -> Vec<f64> {
    let x = relu(apply(dict, &format!("{name}.0"), &state.map(f64::from)));
    relu(apply(dict, &format!("{name}.2"), &x))
}

/// Means and deviations are two layers in the file.
pub fn an_actor_of_sac_acts_unchanged(backend: Backend) {
    let mut dict = sequential("actor.latent_pi", &[3, HIDDEN, HIDDEN]);
    dict.extend(linear("actor.mu", HIDDEN, 1));
    dict.extend(linear("actor.log_std", HIDDEN, 1));
    for critic in ["critic.qf0", "critic_target.qf0"] {
        dict.extend(sequential(critic, &[4, HIDDEN, 1]));
    }
    let head = HeadSpec::TanhGaussian { log_std: gleaner::policy::head::LogStd::NETWORK };
    let (states, said) = says(&dict, "stable_baselines3_sac", head, backend);
    for (i, state) in states.iter().enumerate() {
        let x = hidden(&dict, "actor.latent_pi", state);
        let (mean, log_std) = (apply(&dict, "actor.mu", &x)[0], apply(&dict, "actor.log_std", &x)[0]);
        close(said.params[2 * i], mean, "mean");
        close(said.params[2 * i + 1], log_std, "log_std");
        close(said.actions[i][0], 2.0 * mean.tanh(), "action");
        let normal = -log_std.clamp(-20.0, 2.0) - 0.5 * std::f64::consts::TAU.ln();
        close(said.log_probs[i], normal - (2.0 * (1.0 - mean.tanh().powi(2))).ln(), "log-prob");
    }
}

/// A tanh behind the last layer, scaled to the box.
pub fn an_actor_of_td3_acts_unchanged(backend: Backend) {
    let mut dict = sequential("actor.mu", &[3, HIDDEN, HIDDEN, 1]);
    for other in ["actor_target.mu", "critic.qf0", "critic_target.qf0"] {
        dict.extend(sequential(other, &[4, HIDDEN, 1]));
    }
    let head = HeadSpec::TanhDeterministic { noise: gleaner::policy::head::Noise::None };
    let (states, said) = says(&dict, "stable_baselines3_td3", head, backend);
    for (state, action) in states.iter().zip(&said.actions) {
        let x = apply(&dict, "actor.mu.4", &hidden(&dict, "actor.mu", state))[0];
        close(action[0], 2.0 * x.tanh(), "action");
    }
}
