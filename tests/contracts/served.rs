//! Collectors that let a server act give the data that they give alone.

use std::{sync::Barrier, time::Duration};

use gleaner::{
    env::GridWorld,
    policy::{InferenceServer, ServerConfig, plan::Activation},
    prelude::*,
};

fn policy<T: Task>(server: Option<&InferenceServer>) -> Policy<T> {
    let policy = Policy::network(NetworkSpec::mlp(&[16], Activation::Tanh)).backend(Backend::Cpu);
    server.map_or(policy.clone(), |server| policy.served_by(server))
}

/// What a collector of this seed yields while another set is published before every second batch.
fn run<E: Env + Default>(seed: u64, workers: usize, policy: Policy<E>) -> Vec<String> {
    let builder = Collector::<E>::builder().rows(6).frames_per_batch(120).total_frames(1_200).seed(seed);
    let builder = builder.record_distribution(true).workers(workers);
    let collector = builder.policy(policy).build().unwrap();
    let weights = collector.weights().unwrap();
    let mut batches = Vec::new();
    for batch in collector {
        let batch = batch.unwrap();
        let values = batch.bootstrap_values().unwrap();
        let acted = (batch.actions(), batch.log_probs(), batch.values(), batch.versions(), values);
        batches.push(format!("{:?} {acted:?} {:?}", batch.observations(), batch.array::<f32>("logits").unwrap()));
        if batches.len() % 2 == 0 {
            let (_, mut set) = weights.latest();
            let set = std::sync::Arc::make_mut(&mut set);
            set.0.values_mut().for_each(|tensor| tensor.data.iter_mut().for_each(|number| *number *= 0.9));
            weights.publish(set.clone()).unwrap();
        }
    }
    batches
}

fn same_as_alone<E: Env + Default>(config: ServerConfig, workers: usize) -> InferenceServer {
    let server = InferenceServer::new(config).unwrap();
    let alone = [1, 2, 3].map(|seed| run::<E>(seed, 0, policy(None)));
    let all = Barrier::new(3);
    let served: Vec<_> = std::thread::scope(|scope| {
        let (server, all) = (&server, &all);
        let threads = [1, 2, 3].map(|seed| {
            scope.spawn(move || {
                all.wait();
                run::<E>(seed, workers, policy(Some(server)))
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (served, alone) in served.iter().zip(&alone) {
        assert_eq!(served.len(), 10);
        assert!(served == alone, "the data have the same bits");
    }
    assert_eq!(server.stats().rows, 3 * 1_200);
    server
}

#[test]
fn is09_several_collectors_share_batches() {
    let stats = same_as_alone::<CartPole>(ServerConfig::default(), 0).stats();
    assert!(stats.requests == 600 && stats.batches <= stats.requests, "{stats:?}");
    // All wait for each other, unless one adopts a set before the others do.
    let patient = ServerConfig { min_rows: 18, window: Duration::from_millis(20), ..ServerConfig::default() };
    let stats = same_as_alone::<CartPole>(patient, 0).stats();
    assert!(stats.batches < stats.requests, "{stats:?}");
}

#[test]
fn is09_workers_share_batches() {
    same_as_alone::<CartPole>(ServerConfig::default(), 2);
}

#[test]
fn masks_go_along() {
    same_as_alone::<GridWorld>(ServerConfig::default(), 0);
}

#[test]
fn what_remembers_is_not_served() {
    let server = InferenceServer::new(ServerConfig::default()).unwrap();
    let spec = NetworkSpec { trunk: vec![gleaner::policy::Layer::Gru(8)], ..NetworkSpec::default() };
    let builder = Collector::<CartPole>::builder().policy(Policy::network(spec).served_by(&server));
    let error = builder.build().unwrap_err().to_string();
    assert!(error.contains("served_by") && error.contains("remembers"), "{error}");
}
