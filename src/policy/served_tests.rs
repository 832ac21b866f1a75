use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use super::*;
use crate::{
    data::Data,
    policy::{NetworkSpec, plan::Activation, server::ServerConfig},
    space::Space,
};

/// A network that fails, or takes its time, and counts its calls.
#[derive(Clone, Default)]
struct Fake {
    calls: Arc<AtomicUsize>,
    time: Duration,
    fails: bool,
    panics: bool,
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
        assert!(!self.panics, "a bad kernel");
        if self.fails {
            return Err(Error::DeviceLost { dispatch: 7, reason: "it is gone".into() });
        }
        for (value, step) in out.values.iter_mut().zip(input.steps) {
            *value = step.0 as f32;
        }
        Ok(())
    }
}

fn plan() -> Plan {
    let (observation, action) = (<[f32; 4]>::fields(), i32::fields());
    let spaces = ((&Space::unbounded(4), &observation[..]), (&Space::discrete(2), &action[..]));
    NetworkSpec::mlp(&[8], Activation::Tanh).plan_for(spaces.0, spaces.1).unwrap()
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
    // Who has the weights and never asks is not waited for.
    let _idle = member();
    // All have asked once before any asks again: then they are waited for.
    let asked = std::sync::Barrier::new(members);
    let asking = |(member, mut network): (usize, ServedNetwork)| {
        let asked = &asked;
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
                if call == 0 && members == 4 {
                    asked.wait();
                }
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
    let fake = Fake { calls: calls.clone(), ..Fake::default() };
    // Once: for those who have asked and wait for the others to have asked.
    let config = ServerConfig { min_rows: 1_000, window: Duration::from_secs(1), ..ServerConfig::default() };
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
    let fake = Fake { calls: calls.clone(), time: Duration::from_millis(5), ..Fake::default() };
    let config = ServerConfig { max_rows: 6, ..ServerConfig::default() };
    let (server, done) = ask(config, fake, 5, 4, 3);
    assert!(done.iter().all(Result::is_ok));
    let stats = server.stats();
    assert!((10..=20).contains(&stats.batches), "at most two requests each: {stats:?}");
    assert!(stats.forward_ms[0] >= 5.0 && stats.forward_ms[1] >= stats.forward_ms[0], "{stats:?}");
}

#[test]
fn is02_an_error_reaches_all_of_the_batch() {
    let config = ServerConfig { min_rows: 1_000, window: Duration::from_secs(50), ..ServerConfig::default() };
    let (_, done) = ask(config, Fake { fails: true, ..Fake::default() }, 3, 1, 2);
    assert!(done.iter().all(|result| matches!(result, Err(Error::DeviceLost { dispatch: 7, .. }))), "{done:?}");
    let (_, done) = ask(config, Fake { panics: true, ..Fake::default() }, 3, 1, 2);
    for result in done {
        assert!(result.unwrap_err().to_string().contains("a bad kernel"));
    }
}

#[test]
fn a_group_that_failed_is_not_joined() {
    let fake = Fake { fails: true, ..Fake::default() };
    let group = Arc::new(Group::new(Site::default(), plan(), Weights::new(), Box::new(fake)));
    assert!(group.is_of(&Site::default(), &plan(), &Weights::new()));
    let server = InferenceServer::new(ServerConfig::default()).unwrap();
    assert!(group.serve(&server, Box::default(), &Arc::default()).is_err());
    assert!(!group.is_of(&Site::default(), &plan(), &Weights::new()));
}

#[test]
fn q_networks_go_together_once_epsilon_stands_still() {
    use crate::policy::head::{Annealed, Head};
    let q = |from, frames| Head::Q { n: 2, epsilon: Annealed { from, to: 0.1, frames } };
    assert_eq!([q(1.0, 100).counted(7), q(1.0, 100).counted(500), q(0.1, 100).counted(7)], [7, 100, 0]);
    let both = Head::Fields { heads: vec![("a".into(), q(1.0, 100)), ("b".into(), q(1.0, 300))] };
    assert_eq!([both.counted(200), both.counted(900)], [200, 300]);
}

#[test]
fn is03_nobody_waits_for_ever() {
    let fake = Fake { time: Duration::from_millis(400), ..Fake::default() };
    let (window, deadline) = (Duration::from_millis(1), Duration::from_millis(200));
    let (_, done) = ask(ServerConfig { window, deadline, ..ServerConfig::default() }, fake, 2, 1, 1);
    // The one that runs the batch gets its answer; what comes for the other later is kept nowhere.
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
