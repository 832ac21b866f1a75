use super::*;
use crate::{
    data::Data,
    policy::plan::{Head, Kind, Place},
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
    let text = "(trunk: [Linear(8), Relu], actor: [Linear(64), Tanh], critic: Some([]), head: Gaussian(log_std: -0.5), \
                normalize: Some((clip: 5.0)))";
    let spec = NetworkSpec::from_ron_str(text).unwrap();
    assert_eq!(spec.trunk, [Layer::Linear(8), Layer::Relu]);
    assert_eq!(spec.critic, Some(vec![]));
    assert_eq!(spec.head, HeadSpec::Gaussian { log_std: -0.5 });
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
        ("(head: Gaussian(log_std: NaN))", ["head.log_std", "NaN", "-20 to 20"]),
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
    assert_eq!(plan(&spec, &Space::uniform(-1.0, 1.0, 3)).unwrap().head, Head::Gaussian { n: 3 });
    let message = plan(&spec, &Space::MultiDiscrete { n: vec![2] }).unwrap_err().to_string();
    assert!(message.contains("multi-discrete") && message.contains("discrete(n)"), "{message}");
    let bytes = for_actions(&spec, &Space::uniform(0.0, 9.0, 1), &u8::fields());
    assert!(matches!(bytes, Err(Error::Network { .. })));
    let wide = for_actions(&spec, &Space::unbounded(129), &<[f32; 129]>::fields()).unwrap_err().to_string();
    assert!(wide.contains("1 to 128 elements"), "{wide}");
    let gaussian = NetworkSpec { head: HeadSpec::Gaussian { log_std: 0.0 }, ..spec.clone() };
    assert!(plan(&gaussian, &Space::discrete(2)).unwrap_err().to_string().contains("head is Gaussian"));
    let categorical = NetworkSpec { head: HeadSpec::Categorical, ..spec };
    assert!(plan(&categorical, &Space::unbounded(3)).unwrap_err().to_string().contains("head is Categorical"));
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
    let spec = NetworkSpec { head: HeadSpec::Gaussian { log_std: -0.7 }, ..NetworkSpec::default() };
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
