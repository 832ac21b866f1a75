//! `gae/…` of `tests/data/forward.safetensors`, and wrong arguments.

use gleaner::{
    Error,
    components::{End, Flags, Truncation},
    rollout::{Chain, VTrace},
};
use safetensors::SafeTensors;

#[test]
fn gae_is_pytorchs() {
    let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/forward.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |name: &str| -> Vec<f32> {
        let view = file.tensor(&format!("gae/{name}")).unwrap();
        view.data().chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
    };
    let rows = file.tensor("gae/reward").unwrap().shape()[1];
    let (terminated, truncated) = (tensor("terminated"), tensor("truncated"));
    let ends: Vec<End> = terminated.iter().zip(&truncated).map(|(t, c)| End::from_env(*t != 0.0, *c != 0.0)).collect();
    assert!(ends.iter().any(|end| end.terminated()) && ends.iter().any(|end| end.truncated()));
    let chain = Chain::new(&ends, &vec![Flags::VALID; ends.len()], rows).unwrap();
    let (values, next) = (tensor("value"), tensor("next_value"));
    let (gamma, lambda) = (tensor("gamma")[0], tensor("lambda_")[0]);
    let got = chain.gae(&tensor("reward"), &values, &next, gamma, lambda).unwrap();
    for (i, (got, want)) in got.advantages.iter().zip(tensor("advantage")).enumerate() {
        let error = f64::from(got - want).abs() / f64::from(want).abs().max(1.0);
        assert!(error <= 1e-5, "slot {i}: {got}, not {want}");
    }
}

#[test]
fn wrong_arguments_are_named() {
    let ends = [End::RUNNING, End::truncated_by(Truncation::Env)];
    let chain = Chain::new(&ends, &[Flags::VALID; 2], 1).unwrap();
    let two = [0.0; 2];
    let wide = VTrace { rho_clip: f32::NAN, ..VTrace::default() };
    let refused: [(Result<(), Error>, &str); 6] = [
        (Chain::new(&ends, &[Flags::VALID; 2], 0).map(drop), "stride is 0; legal: a divisor of 2"),
        (Chain::new(&ends, &[], 1).map(drop), "flags is 0 elements; legal: 2"),
        (chain.gae(&two, &two, &two[..1], 0.9, 0.9).map(drop), "next_values is 1 elements; legal: 2"),
        (chain.gae(&two, &two, &two, 1.5, 0.9).map(drop), "gamma is 1.5; legal: 0 to 1"),
        (chain.n_step(&two, &two, 0, f32::NAN).map(drop), "gamma is NaN; legal: 0 to 1"),
        (chain.vtrace(&two, &two, &two, &two, &wide).map(drop), "rho_clip is NaN; legal: a number above 0"),
    ];
    for (result, message) in refused {
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let error = chain.n_step(&two, &two, 0, 1.0).unwrap_err().to_string();
    assert_eq!(error, "n is 0; legal: 1 or more");
}
