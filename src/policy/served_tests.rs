use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use super::*;
use crate::env::CartPole;
use crate::policy::{NetworkSpec, Policy, plan::Activation, server::ServerConfig};

/// A network that fails, or takes its time, and counts its calls.
struct Fake {
    calls: Arc<AtomicUsize>,
    time: Duration,
    fails: bool,
}

impl Network for Fake {
    fn packer(&self) -> Arc<dyn Packer> {
        unreachable!("groups are made by hand")
    }

    fn adopt(&mut self, _: &PackedWeights) -> Result<(), Error> {
        Ok(())
    }

    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error> {
        self.calls.fetch_add(1, Relaxed);
        thread::sleep(self.time);
        if self.fails {
            return Err(Error::State { call: "forward", problem: "the device is lost".into() });
        }
        for (value, step) in out.values.iter_mut().zip(input.steps) {
            *value = step.0 as f32;
        }
        Ok(())
    }
}

fn plan() -> Plan {
    let policy = Policy::<CartPole>::network(NetworkSpec::mlp(&[8], Activation::Tanh));
    policy.plan().unwrap().unwrap()
}

/// `members` networks, each on a thread of its own, which asks `calls` times for `rows` rows.
fn ask(
    config: ServerConfig,
    fake: Fake,
    members: usize,
    calls: usize,
    rows: usize,
) -> (InferenceServer, Vec<Result<(), Error>>) {
    let server = InferenceServer::new(config).unwrap();
    let group = Arc::new(Group::new(Site::default(), plan(), Weights::new(), Box::new(fake)));
    let packed: PackedWeights = group;
    let member = || {
        let mut network = ServedNetwork::new(server.clone(), Site::default(), plan()).unwrap();
        network.adopt(&packed).unwrap();
        network
    };
    let networks: Vec<_> = (0..members).map(|_| member()).collect();
    let asking = |(member, mut network): (usize, ServedNetwork)| {
        move || {
            let plan = plan();
            for call in 0..calls {
                let steps: Vec<_> = (0..rows).map(|i| EpisodeStep((1_000 * member + 10 * call + i) as u32)).collect();
                let input = Forward {
                    inputs: &vec![0.0; rows * plan.inputs],
                    masks: Masks::new::<()>(&[]),
                    keys: &vec![ActionKey::default(); rows],
                    episodes: &vec![Episode::default(); rows],
                    steps: &steps,
                    exploration: Exploration::Sample,
                    frames: (member * calls) as u64,
                    memory: None,
                };
                let mut values = vec![-1.0; rows];
                let mut out = Outcome {
                    params: &mut vec![0.0; rows * plan.head.params()],
                    actions: &mut vec![0; rows * plan.head.action_bytes()],
                    log_probs: &mut vec![0.0; rows],
                    entropies: &mut [],
                    values: &mut values,
                };
                network.forward(&input, &mut out)?;
                let own: Vec<_> = steps.iter().map(|step| step.0 as f32).collect();
                assert_eq!(values, own, "each gets its own rows back");
            }
            Ok(())
        }
    };
    let done = thread::scope(|scope| {
        let threads: Vec<_> = networks.into_iter().enumerate().map(|asked| scope.spawn(asking(asked))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (server, done)
}

#[test]
fn all_who_wait_are_one_batch() {
    let calls = Arc::<AtomicUsize>::default();
    let fake = Fake { calls: calls.clone(), time: Duration::ZERO, fails: false };
    let config = ServerConfig { min_rows: 1_000, window: Duration::from_secs(50), ..ServerConfig::default() };
    let (server, done) = ask(config, fake, 4, 25, 3);
    assert!(done.iter().all(Result::is_ok));
    // None goes on before all have asked; who is through is not waited for.
    let stats = server.stats();
    assert_eq!((stats.requests, stats.rows), (100, 300));
    assert_eq!(stats.batches as usize, calls.load(Relaxed));
    assert!(stats.batches < 50, "{stats:?}");
    assert_eq!(server.take_stats(), stats);
    assert_eq!(server.stats().requests, 0);
}

#[test]
fn a_batch_has_as_many_rows_as_it_may() {
    let calls = Arc::<AtomicUsize>::default();
    let fake = Fake { calls: calls.clone(), time: Duration::from_millis(5), fails: false };
    let config = ServerConfig { max_rows: 6, ..ServerConfig::default() };
    let (server, done) = ask(config, fake, 5, 4, 3);
    assert!(done.iter().all(Result::is_ok));
    let stats = server.stats();
    assert!((10..=20).contains(&stats.batches), "at most two requests each: {stats:?}");
    assert!(stats.forward_ms[0] >= 5.0 && stats.forward_ms[1] >= stats.forward_ms[0], "{stats:?}");
}

#[test]
fn is02_an_error_reaches_all_of_the_batch() {
    let fake = Fake { calls: Arc::default(), time: Duration::ZERO, fails: true };
    let config = ServerConfig { min_rows: 1_000, window: Duration::from_secs(50), ..ServerConfig::default() };
    let (_, done) = ask(config, fake, 3, 1, 2);
    for result in done {
        assert!(result.unwrap_err().to_string().contains("the device is lost"));
    }
}

#[test]
fn is03_nobody_waits_for_ever() {
    let fake = Fake { calls: Arc::default(), time: Duration::from_millis(400), fails: false };
    let (window, deadline) = (Duration::from_millis(1), Duration::from_millis(200));
    let (_, done) = ask(ServerConfig { window, deadline, ..ServerConfig::default() }, fake, 2, 1, 1);
    // The one that runs the batch gets its answer.
    let failed: Vec<_> = done.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
    assert!(failed.len() <= 1 && failed.iter().all(|error| error.contains("200ms")), "{failed:?}");
}

#[test]
fn wrong_options_are_all_told() {
    let config = ServerConfig { min_rows: 0, max_rows: 0, deadline: Duration::ZERO, ..ServerConfig::default() };
    let error = InferenceServer::new(config).unwrap_err().to_string();
    assert!(error.contains("min_rows") && error.contains("deadline"), "{error}");
    let error = InferenceServer::new(ServerConfig { min_rows: 9, max_rows: 8, ..config }).unwrap_err().to_string();
    assert!(error.contains("max_rows") && error.contains('9'), "{error}");
}
