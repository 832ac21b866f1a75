//! The learner against the engine: what it computes must be what the collector computed.

use bevy_ecs::prelude::Component;
use candle_core::{Device, Shape, Tensor, Var};
use gleaner::{policy::plan::Activation, prelude::*};

use super::{
    convolution::{Image, conv2d},
    frames::{Frames, Memory, matrix},
    network::ActorCritic,
    ops,
    recurrent::Gru,
};

/// Log-probabilities and values of a batch, recorded and computed anew.
fn agrees<E: Env + Default>(spec: NetworkSpec) {
    let mut collector = Collector::<E>::builder()
        .policy(Policy::network(spec.clone()).backend(Backend::Cpu).seed(5))
        .rows(3)
        .frames_per_batch(96)
        .build()
        .unwrap();
    let weights = collector.weights().unwrap().latest().1;
    let network = ActorCritic::new::<E>(spec, &weights).unwrap();
    assert_eq!(network.weights().unwrap(), *weights);

    // The second batch, so that what is remembered comes from the one before.
    collector.next().unwrap().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let slots: Vec<_> = (0..batch.len()).collect();
    let (distribution, values) =
        network.forward(&Frames::new(&batch, &slots, network.is_recurrent()).unwrap()).unwrap();
    let log_probs = distribution.log_prob(&matrix(batch.actions(), &slots).unwrap()).unwrap();
    let same = |ours: Tensor, recorded: &[f32]| {
        for (ours, recorded) in ours.to_vec1::<f32>().unwrap().iter().zip(recorded) {
            assert!((ours - recorded).abs() < 1e-4 * (1.0 + recorded.abs()), "{ours}, recorded {recorded}");
        }
    };
    same(log_probs, batch.log_probs().unwrap());
    same(values, batch.values().unwrap());
}

#[test]
fn network_and_distribution_are_the_collectors() {
    agrees::<CartPole>(NetworkSpec::mlp(&[64, 64], Activation::Tanh));
    agrees::<Pendulum>(NetworkSpec::mlp(&[32], Activation::Relu));
    agrees::<Pendulum>(
        NetworkSpec::from_ron_str("(trunk: [Linear(16), Tanh], actor: [], critic: Some([Linear(8), Tanh]))").unwrap(),
    );
    agrees::<CartPole>(NetworkSpec::from_ron_str("(trunk: [Linear(16), Tanh, Gru(8)], actor: [])").unwrap());
    let convolution = "Conv2d(filters: 4, kernel: 2, stride: 1), Relu";
    let text = format!("(trunk: [{convolution}, {convolution}, Flatten, Linear(16), Tanh], actor: [])");
    agrees::<Picture>(NetworkSpec::from_ron_str(&text).unwrap());
}

/// The gradient of each operation against differences.
#[test]
fn gradients_are_those_of_differences() {
    let (x, weight, bias) = (var((2, 2), 1), var((3, 2), 2), var(3, 3));
    check(&[&x, &weight, &bias], || ops::tanh(&ops::linear(&x, &weight, &bias)?));
}

#[test]
fn gradients_of_convolutions_are_those_of_differences() {
    let (x, weight, bias) = (var((2, 40), 1), var((3, 2, 3, 3), 2), var(3, 3));
    check(&[&x, &weight, &bias], || {
        let (y, image) = conv2d(&x, Image { shape: [2, 4, 5], scale: 0.5 }, &weight, &bias, 1)?;
        assert_eq!((image, y.dims()), (Image { shape: [3, 2, 3], scale: 1.0 }, &[2, 18][..]));
        Ok(y)
    });
}

#[test]
fn gradients_through_time_are_those_of_differences() {
    let (x, states) = (var((6, 2), 1), var((2, 3), 2));
    let (weight_ih, weight_hh, bias_ih, bias_hh) = (var((9, 2), 3), var((9, 3), 4), var(9, 5), var(9, 6));
    // Three ticks of two rows; the second row starts anew at the second tick.
    let going_on = Tensor::new(&[[1.0_f32], [1.0], [1.0], [0.0], [1.0], [1.0]], &Device::Cpu).unwrap();
    let memory = Memory { states: states.as_tensor().clone(), going_on };
    let gru = Gru { weight_ih: &weight_ih, weight_hh: &weight_hh, bias_ih: &bias_ih, bias_hh: &bias_hh };
    check(&[&x, &states, &weight_ih, &weight_hh, &bias_ih, &bias_hh], || gru.forward(&x, &memory));
}

/// Something to differentiate by.
fn var(shape: impl Into<Shape>, seed: u32) -> Var {
    let shape = shape.into();
    let mut stream = Stream::from_key([seed, 0], 0, 0);
    let data: Vec<f32> = (0..shape.elem_count()).map(|_| stream.uniform(-1.0, 1.0)).collect();
    Var::from_vec(data, shape, &Device::Cpu).unwrap()
}

/// Compares the gradients of the sum of squares of `y`.
fn check(vars: &[&Var], y: impl Fn() -> candle_core::Result<Tensor>) {
    let loss = || y().unwrap().sqr().unwrap().sum_all().unwrap();
    let gradients = loss().backward().unwrap();
    for var in vars {
        let gradient = gradients.get(var).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let at = var.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for i in 0..at.len() {
            let value = |shift: f32| {
                let mut moved = at.clone();
                moved[i] += shift;
                var.set(&Tensor::from_vec(moved, var.shape(), &Device::Cpu).unwrap()).unwrap();
                loss().to_scalar::<f32>().unwrap()
            };
            let difference = (value(0.01) - value(-0.01)) / 0.02;
            value(0.0);
            let near = (gradient[i] - difference).abs() < 2e-3 * (1.0 + difference.abs());
            assert!(near, "{i}: {} against {difference}", gradient[i]);
        }
    }
}

/// Two channels of noise, for convolutions to look at.
#[derive(Component, Default)]
struct Picture;

impl Task for Picture {
    type Observation = [[[u8; 5]; 4]; 2];
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        Space::uniform(0.0, 255.0, 40)
    }

    fn action_space() -> Space {
        Space::discrete(3)
    }
}

impl Env for Picture {
    type Options = ();

    fn reset(&mut self, (): &(), stream: &mut Stream) -> Self::Observation {
        [[[0; 5]; 4]; 2].map(|channel| channel.map(|line| line.map(|_: u8| stream.below(256) as u8)))
    }

    fn step(&mut self, _: &i32, stream: &mut Stream) -> Transition<Self::Observation> {
        Transition { observation: self.reset(&(), stream), reward: 0.0, terminated: false, truncated: false }
    }
}
