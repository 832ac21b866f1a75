use super::*;
use crate::{
    data::Data,
    policy::plan::{Annealed, Head, Kind, LogStd, Noise, Place},
};

fn plan(spec: &NetworkSpec, space: &Space) -> Result<Plan, Error> {
    match space {
        Space::Box { low, .. } if low.len() == 3 => for_actions(spec, space, &<[f32; 3]>::fields()),
        _ => for_actions(spec, space, &i32::fields()),
    }
}

fn for_actions(spec: &NetworkSpec, space: &Space, fields: &[Field]) -> Result<Plan, Error> {
    spec.plan_for((&Space::unbounded(4), &<[f32; 4]>::fields()), (space, fields))
}

fn refused(text: &str) -> String {
    NetworkSpec::from_ron_str(text).unwrap_err().to_string()
}

#[test]
fn a_file_is_read_and_written() {
    let text = "(trunk: [Linear(8), Relu], actor: [Linear(64), Tanh], critic: Some([]), head: Gaussian(log_std: Free(-0.5)), \
                normalize: Some((clip: 5.0)))";
    let spec = NetworkSpec::from_ron_str(text).unwrap();
    assert_eq!(spec.trunk, [Layer::Linear(8), Layer::Relu]);
    assert_eq!(spec.critic, Some(vec![]));
    assert_eq!(spec.head, HeadSpec::Gaussian { log_std: LogStd::Free(-0.5) });
    assert_eq!(spec.running_norm(3).unwrap().clip, 5.0);
    assert_eq!(NetworkSpec::from_ron_str(&ron::to_string(&spec).unwrap()).unwrap(), spec);
    assert_eq!(NetworkSpec::from_ron_str("()").unwrap(), NetworkSpec::default());
}

#[test]
fn errors_of_a_file_have_a_place() {
    let message = refused("(\n  actor: [Linear(64), Tanhh],\n)");
    assert!(message.starts_with("network:2:") && message.contains("Tanhh"), "{message}");
    assert!(refused("(actr: [])").contains("actr"));
    assert!(refused("(actor: [Linear(-1)])").starts_with("network:1:"));
    assert!(refused(&format!("({}", "[".repeat(100_000))).starts_with("network:1:"));
    let folder = std::env::temp_dir().join(format!("gleaner-network-{}", std::process::id()));
    std::fs::write(&folder, "(actor: 3)").unwrap();
    let message = NetworkSpec::from_ron_file(&folder).unwrap_err().to_string();
    std::fs::remove_file(&folder).unwrap();
    assert!(message.contains("gleaner-network-") && message.contains(":1:"), "{message}");
    assert!(matches!(NetworkSpec::from_ron_file(&folder), Err(Error::Io { .. })));
}

#[test]
fn illegal_values_are_named_with_what_is_legal() {
    for (text, parts) in [
        ("(actor: [Linear(0)])", ["actor[0]", "Linear(0)", "1 to 65536"]),
        ("(trunk: [Linear(65537)])", ["trunk[0]", "Linear(65537)", "1 to 65536"]),
        ("(actor: [Tanh])", ["actor[0]", "Tanh", "at the start"]),
        ("(critic: Some([Linear(2), Tanh, Relu]))", ["critic[2]", "Relu after Tanh", "after Linear(…)"]),
        ("(head: Gaussian(log_std: Free(NaN)))", ["head.log_std", "NaN", "-20 to 20"]),
        ("(normalize: Some((clip: 0)))", ["normalize.clip", "0", "above 0"]),
    ] {
        let message = refused(text);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    let long = format!("(actor: [{}])", "Linear(2),".repeat(MAX_LAYERS + 1));
    assert!(refused(&long).contains("at most 64 entries"));
    let huge = format!("(actor: [{}])", "Linear(65536),".repeat(MAX_LAYERS));
    let message = plan(&NetworkSpec::from_ron_str(&huge).unwrap(), &Space::discrete(2)).unwrap_err().to_string();
    assert!(message.contains("parameters"), "{message}");
}

#[test]
fn heads_follow_from_the_action_space() {
    let spec = NetworkSpec::default();
    assert_eq!(plan(&spec, &Space::discrete(5)).unwrap().head, Head::Categorical { n: 5 });
    let gaussian = Head::Gaussian { n: 3, log_std: LogStd::Free(0.0) };
    assert_eq!(plan(&spec, &Space::uniform(-1.0, 1.0, 3)).unwrap().head, gaussian);
    let numbers = Space::MultiDiscrete { n: vec![2, 4] };
    let head = for_actions(&spec, &numbers, &<[i32; 2]>::fields()).unwrap().head;
    assert_eq!((head.params(), head.action_bytes(), head.mask()), (6, 8, 6));
    assert_eq!(head, Head::MultiDiscrete { n: vec![2, 4] });
    let head = for_actions(&spec, &Space::MultiBinary { n: 3 }, &<[u8; 3]>::fields()).unwrap().head;
    assert_eq!((head.params(), head.action_bytes(), head.mask()), (3, 3, 0));
    // A struct of one field is that field.
    let one = Space::Fields(vec![("turn".into(), Space::discrete(4))]);
    let turn = Field { name: "turn".into(), ..i32::fields().remove(0) };
    assert_eq!(for_actions(&spec, &one, std::slice::from_ref(&turn)).unwrap().head, Head::Categorical { n: 4 });
    let two = Space::Fields(vec![("turn".into(), Space::discrete(4)), ("go".into(), Space::discrete(4))]);
    let go = Field { name: "go".into(), ..turn.clone() };
    let heads = ["turn", "go"].map(|name| (name.to_string(), Head::Categorical { n: 4 })).to_vec();
    let head = for_actions(&spec, &two, &[turn, go]).unwrap().head;
    assert_eq!((head.params(), head.action_bytes(), head.mask(), head.elements()), (8, 8, 8, 2));
    assert_eq!(head, Head::Fields { heads });
    let bytes = for_actions(&spec, &Space::uniform(0.0, 9.0, 1), &u8::fields());
    assert!(matches!(bytes, Err(Error::Network { .. })));
    let wide = for_actions(&spec, &Space::unbounded(129), &<[f32; 129]>::fields()).unwrap_err().to_string();
    assert!(wide.contains("1 to 128 elements"), "{wide}");
}

#[test]
fn a_head_that_does_not_fit_the_action_space_is_named_with_those_that_do() {
    let log_std = LogStd::Free(0.0);
    let specs = [
        HeadSpec::Categorical,
        HeadSpec::MultiDiscrete,
        HeadSpec::MultiBinary,
        HeadSpec::Gaussian { log_std },
        HeadSpec::TanhGaussian { log_std },
        HeadSpec::Deterministic { noise: Noise::None },
        HeadSpec::Q { epsilon: Annealed { from: 1.0, to: 0.1, frames: 10 } },
        HeadSpec::TanhDeterministic { noise: Noise::None },
    ];
    let spaces = [
        (Space::discrete(3), i32::fields(), "Auto, Categorical or Q(…) for discrete(3)", &[0, 6][..]),
        (Space::MultiDiscrete { n: vec![2, 2] }, <[i32; 2]>::fields(), "Auto or MultiDiscrete for", &[1]),
        (Space::MultiBinary { n: 2 }, <[u8; 2]>::fields(), "Auto or MultiBinary for", &[2]),
        (Space::uniform(-1.0, 1.0, 2), <[f32; 2]>::fields(), "Deterministic(…) or TanhDeterministic(…)", &[3, 4, 5, 7]),
    ];
    for (space, fields, legal, fitting) in spaces {
        for (i, head) in specs.into_iter().enumerate() {
            let name = format!("{head:?}");
            let name = name.split([' ', '{']).next().unwrap();
            match for_actions(&NetworkSpec { head, ..Default::default() }, &space, &fields) {
                Ok(plan) => assert!(fitting.contains(&i) && plan.head.elements() == space.len(), "{name} for {space}"),
                Err(error) => {
                    let message = error.to_string();
                    assert!(!fitting.contains(&i) && message.contains(&format!("head is {name}")), "{message}");
                    assert!(message.contains(legal), "{message}");
                }
            }
        }
    }
    for head in [HeadSpec::TanhGaussian { log_std }, HeadSpec::TanhDeterministic { noise: Noise::None }] {
        for space in [Space::unbounded(3), Space::bounded([0.0, 0.0, 1.0], [1.0; 3])] {
            let message = plan(&NetworkSpec { head, ..Default::default() }, &space).unwrap_err().to_string();
            assert!(message.contains("at element") && message.contains("finite bounds that differ"), "{message}");
        }
    }
}

#[test]
fn heads_are_read_from_files_with_their_defaults() {
    let head = |text: &str| NetworkSpec::from_ron_str(&format!("(head: {text})")).unwrap().head;
    assert_eq!(head("TanhGaussian(log_std: Network())"), HeadSpec::TanhGaussian { log_std: LogStd::NETWORK });
    let process = Noise::OrnsteinUhlenbeck { theta: 0.15, sigma: 0.2, dt: 0.01 };
    let text = "Deterministic(noise: OrnsteinUhlenbeck(theta: 0.15, sigma: 0.2, dt: 0.01))";
    assert_eq!(head(text), HeadSpec::Deterministic { noise: process });
    let noise = Noise::Gaussian { std: 0.1 };
    assert_eq!(head("TanhDeterministic(noise: Gaussian(std: 0.1))"), HeadSpec::TanhDeterministic { noise });
    let epsilon = Annealed { from: 1.0, to: 0.05, frames: 100_000 };
    assert_eq!(head("Q(epsilon: (from: 1.0, to: 0.05, frames: 100000))"), HeadSpec::Q { epsilon });
    for (text, parts) in [
        ("Gaussian(log_std: Network(min: 3.0))", ["head.log_std", "3 to 2", "min up to max"]),
        ("Deterministic(noise: Gaussian(std: -1.0))", ["head.noise.std", "-1", "at least 0"]),
        (
            "Deterministic(noise: OrnsteinUhlenbeck(theta: 4, sigma: 1, dt: 1))",
            ["head.noise.dt", "1", "below 2 / theta"],
        ),
        ("Deterministic(noise: OrnsteinUhlenbeck(theta: 0, sigma: 1, dt: 0))", ["head.noise.dt", "0", "above 0"]),
        ("Q(epsilon: (from: 1.5, to: 0, frames: 1))", ["head.epsilon.from", "1.5", "0 to 1"]),
        ("Q(epsilon: (from: 1, to: NaN, frames: 1))", ["head.epsilon.to", "NaN", "0 to 1"]),
    ] {
        let message = refused(&format!("(head: {text})"));
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn tensors_are_called_as_in_pytorch() {
    let text = "(trunk: [Linear(8), Linear(7)], actor: [Linear(6), Tanh, Linear(5), Relu], critic: Some([]))";
    let plan = plan(&NetworkSpec::from_ron_str(text).unwrap(), &Space::unbounded(3)).unwrap();
    let layers: Vec<_> = plan.layers.iter().map(|l| (l.name.as_str(), l.inputs, l.outputs, l.kind)).collect();
    let linear = |activation| Kind::Linear { activation };
    let [identity, relu, tanh] = [Activation::Identity, Activation::Relu, Activation::Tanh].map(linear);
    assert_eq!(
        layers,
        [
            ("trunk.0", 4, 8, identity),
            ("trunk.1", 8, 7, identity),
            ("actor.0", 7, 6, tanh),
            ("actor.2", 6, 5, relu),
            ("action", 5, 3, identity),
            ("value", 7, 1, identity),
        ]
    );
    assert_eq!(plan.layers[5].from, Place::Hidden(1));
    assert_eq!(plan.tensors().last().unwrap().name, "log_std");
    assert_eq!(plan.operations(), 2 * (32 + 56 + 42 + 30 + 15 + 7));
}

#[test]
fn initial_weights_fit_and_depend_on_the_seed_alone() {
    let spec = NetworkSpec { head: HeadSpec::Gaussian { log_std: LogStd::Free(-0.7) }, ..NetworkSpec::default() };
    let plan = plan(&spec, &Space::unbounded(3)).unwrap();
    let weights = spec.initial_weights(&plan, Seed(1));
    weights.check(&plan.tensors()).unwrap();
    assert_eq!(weights, spec.initial_weights(&plan, Seed(1)));
    assert_ne!(weights, spec.initial_weights(&plan, Seed(2)));
    assert_ne!(weights.get("actor.0.weight"), weights.get("critic.0.weight"));
    assert_eq!(weights.get("log_std").unwrap().data, [-0.7; 3]);
    let norm = |name: &str| weights.get(name).unwrap().data.iter().map(|x| x * x).sum::<f32>();
    assert!((norm("action.weight") - 3.0 * 1e-4).abs() < 1e-8);
    assert!((norm("value.weight") - 1.0).abs() < 1e-5);
    assert!((norm("actor.2.weight") - 128.0).abs() < 1e-3);
    assert_eq!(norm("actor.2.bias"), 0.0);
}
