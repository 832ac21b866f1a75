//! The learner against the engine: what it computes must be what the collector computed.

use gleaner::{policy::plan::Activation, prelude::*};

use super::{network::ActorCritic, ppo::matrix};

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

    let batch = collector.next().unwrap().unwrap();
    let slots: Vec<_> = (0..batch.len()).collect();
    let (distribution, values) = network.forward(&matrix(batch.observations(), &slots).unwrap()).unwrap();
    let log_probs = distribution.log_prob(&matrix(batch.actions(), &slots).unwrap()).unwrap();
    let same = |ours: candle_core::Tensor, recorded: &[f32]| {
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
}

/// The gradient of each operation against differences.
#[test]
fn gradients_are_those_of_differences() {
    use candle_core::{Device, Tensor, Var};
    let var = |data: &[f32], shape: (usize, usize)| {
        Var::from_tensor(&Tensor::from_slice(data, shape, &Device::Cpu).unwrap()).unwrap()
    };
    let (x, weight) = (var(&[0.3, -0.7, 1.1, 0.2], (2, 2)), var(&[0.5, -0.4, 0.9, 0.1, 0.6, -0.8], (3, 2)));
    let bias = Var::from_tensor(&Tensor::new(&[0.1_f32, -0.2, 0.3], &Device::Cpu).unwrap()).unwrap();
    let loss = || super::ops::tanh(&super::ops::linear(&x, &weight, &bias).unwrap()).unwrap().sqr().unwrap().sum_all();
    let gradients = loss().unwrap().backward().unwrap();
    for var in [&x, &weight, &bias] {
        let gradient = gradients.get(var).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let at = var.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for i in 0..at.len() {
            let value = |shift: f32| {
                let mut moved = at.clone();
                moved[i] += shift;
                var.set(&Tensor::from_vec(moved, var.shape(), &Device::Cpu).unwrap()).unwrap();
                loss().unwrap().to_scalar::<f32>().unwrap()
            };
            let difference = (value(0.01) - value(-0.01)) / 0.02;
            value(0.0);
            assert!((gradient[i] - difference).abs() < 2e-3, "{i}: {} against {difference}", gradient[i]);
        }
    }
}
