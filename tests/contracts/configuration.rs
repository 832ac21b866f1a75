//! What is wrong with a configuration is said in `build()`, all of it at once, each with field, value and what is legal;
//! what columns batches will have is known there too.

use crate::support::{Ending, Script, Tag, sampling_network, tags};
use gleaner::{
    config::{CollectorConfig, TrajFormat},
    policy::{Backend, NetworkSpec, Policy},
    prelude::{CartPole, Collector, Error, GridWorld, RewardTransform, Task},
};

/// The errors of `build()`.
fn errors(config: CollectorConfig) -> Vec<String> {
    match Collector::<CartPole>::builder().config(config).build() {
        Ok(collector) => panic!("built {collector:?}"),
        Err(Error::Many(errors)) => errors.iter().map(Error::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn p1_all_violations_are_listed_at_build() {
    let config = CollectorConfig {
        rows: 0,
        frames_per_batch: Some(0),
        total_frames: Some(0),
        max_frames_per_traj: Some(0),
        threads: 0,
        max_arenas: 0,
        set_truncated: true,
        trajs_per_batch: Some(0),
        step_rows_per_thread: Some(0),
        infer_rows_per_thread: 0,
        reward: RewardTransform { scale: f32::NAN, clip: Some(-1.0) },
        ..CollectorConfig::default()
    };
    let errors = errors(config);
    let fields = [
        "rows",
        "frames_per_batch",
        "total_frames",
        "max_frames_per_traj",
        "trajs_per_batch",
        "threads",
        "max_arenas",
        "step_rows_per_thread",
        "infer_rows_per_thread",
        "reward.scale",
        "reward.clip",
        "set_truncated",
    ];
    for field in fields {
        let found = errors.iter().filter(|error| error.starts_with(&format!("{field} "))).count();
        assert_eq!(found, 1, "{field}: {errors:#?}");
    }
    assert_eq!(errors.len(), fields.len());
    assert!(errors.iter().all(|error| error.contains("legal: ") || error.contains("leave one")), "{errors:#?}");
}

#[test]
fn p1_one_violation_is_itself() {
    let limits = [
        (CollectorConfig { threads: 1_025, ..Default::default() }, "threads is 1025; legal: 1 to 1024"),
        (CollectorConfig { rows: (1 << 24) + 1, ..Default::default() }, "rows is 16777217; legal: 1 to 16777216"),
    ];
    for (config, wanted) in limits {
        assert_eq!(errors(config), [wanted]);
    }
    let huge = CollectorConfig { frames_per_batch: Some(1 << 50), rows: 1 << 24, ..Default::default() };
    assert!(errors(huge)[0].starts_with("frames_per_batch is "));
}

#[test]
fn p1_every_pair_that_excludes_each_other_is_named() {
    let format = CollectorConfig { traj_format: Some(TrajFormat::Padded), ..Default::default() };
    let edge = CollectorConfig { set_truncated: true, trajs_per_batch: Some(4), ..Default::default() };
    let logits = CollectorConfig { record_distribution: true, ..Default::default() };
    for (config, first, second) in [
        (format, "traj_format", "trajs_per_batch"),
        (edge, "set_truncated", "trajs_per_batch"),
        (logits, "record_distribution", "policy"),
    ] {
        let error = Collector::<CartPole>::builder().config(config).build().unwrap_err();
        let Error::Conflict { first: a, second: b, .. } = error else { panic!("{error}") };
        assert_eq!((a, b), (first, second));
    }
}

/// Columns of every collector.
const EVERY: [&str; 8] = ["observation", "action", "reward", "end", "step", "trajectory", "flags", "version"];

fn names<T: Task>(collector: &Collector<T>) -> Vec<&str> {
    collector.columns().iter().map(|column| &*column.name).collect()
}

#[test]
fn sc39_columns_are_those_that_the_options_say_and_no_other() {
    let random = Collector::<CartPole>::builder().build().unwrap();
    assert_eq!(names(&random), EVERY);
    let masked = Collector::<GridWorld>::builder().build().unwrap();
    assert_eq!(names(&masked), [&EVERY[..], &["action_mask"]].concat());
    let network = Policy::network(NetworkSpec::default()).backend(Backend::Cpu);
    let network = Collector::<CartPole>::builder().policy(network).record_distribution(true).build().unwrap();
    assert_eq!(names(&network), [&EVERY[..], &["log_prob", "value", "logits", "entropy"]].concat());
}

#[test]
fn p5_columns_are_declared_before_the_first_frame() {
    let builder = tags(Script::all(4, Ending::Terminated)).frames_per_batch(10).init_random_frames(20);
    let mut collector = builder.policy(sampling_network()).record_distribution(true).build().unwrap();
    assert_eq!(names(&collector), [&EVERY[..], &["log_prob", "value", "mean", "std", "entropy"]].concat());
    for number in 0..4 {
        let batch = collector.next().unwrap().unwrap();
        assert_eq!(batch.columns(), collector.columns(), "batch {number}");
        let (warm, outputs) = (number < 2, [batch.log_probs().unwrap(), batch.values().unwrap()]);
        assert!(batch.flags().iter().all(|flags| flags.random() == warm));
        assert!(outputs.iter().all(|column| column.iter().all(|x| (*x == 0.0) == warm)), "batch {number}: {outputs:?}");
    }
}

#[test]
fn p5_a_policy_without_outputs_declares_none() {
    let mut collector = tags(Script::all(4, Ending::Terminated)).policy(Policy::<Tag>::random()).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.log_probs().is_none() && batch.values().is_none() && batch.masks().is_none());
    assert!(batch.bootstrap_values().unwrap_err().to_string().contains("critic"));
    assert!(batch.column::<f32>("value").unwrap_err().to_string().contains("observation"));
    assert!(batch.column::<u64>("reward").is_err());
    assert_eq!(collector.worker(), None);
}

#[test]
fn p5_an_extra_column_has_a_name_of_its_own() {
    gleaner::data! {
        /// Fuel left.
        #[derive(bevy_ecs::component::Component)]
        pub struct Fuel { pub litres: f32 }
    }
    let builder = tags(Script::all(4, Ending::Terminated)).record::<Fuel>("reward");
    assert!(builder.build().unwrap_err().to_string().contains("reward"));
    let mut collector = tags(Script::all(4, Ending::Terminated)).record::<Fuel>("fuel").build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.column::<Fuel>("fuel").unwrap().iter().all(|fuel| fuel.litres == 0.0), "rows lack it");
}

/// A row that lacks the component has zeros, whatever the arena held before.
#[test]
fn an_extra_column_is_zero_where_the_component_is_not() {
    gleaner::data! {
        /// Mass, kilograms.
        #[derive(bevy_ecs::component::Component)]
        pub struct Mass { pub kilograms: f32 }
    }
    let builder = tags(Script::all(4, Ending::Terminated)).rows(2).frames_per_batch(8).record::<Mass>("mass");
    let mut collector = builder.build().unwrap();
    let mut rows = collector.world_mut().query::<(bevy_ecs::entity::Entity, &gleaner::components::RowIndex)>();
    let (row, _) = rows.iter(collector.world()).find(|(_, row)| row.0 == 1).unwrap();
    collector.world_mut().entity_mut(row).insert(Mass { kilograms: 7.0 });
    let masses = |collector: &mut Collector<Tag>| -> Vec<f32> {
        let batch = collector.next().unwrap().unwrap();
        assert_eq!(batch.frames(), 8);
        batch.column::<Mass>("mass").unwrap().iter().map(|mass| mass.kilograms).collect()
    };
    assert_eq!(masses(&mut collector), [0.0, 7.0].repeat(4));
    collector.world_mut().entity_mut(row).remove::<Mass>();
    assert_eq!(masses(&mut collector), [0.0; 8]);
}
