use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::{
    env::Pendulum,
    policy::{
        Backend, Exploration, InferenceServer, NetworkSpec, Policy, ServerConfig,
        packing::{Packer, Packing},
        plan::Activation,
    },
    prelude::{Collector, Rows as Which},
};

const ROWS: usize = 4;
const TICKS: usize = 10;

/// Counts what it has packed by another.
struct Counted {
    inner: Arc<dyn Packer>,
    packs: Arc<AtomicUsize>,
    can_repeat: bool,
}

impl Packer for Counted {
    fn pack(&self, weights: &Weights) -> Result<PackedWeights, Error> {
        self.packs.fetch_add(1, Relaxed);
        self.inner.pack(weights)
    }

    fn can_repeat(&self) -> bool {
        self.can_repeat && self.inner.can_repeat()
    }
}

/// A collector, all of whose episodes began under version 0 and go on under 1, and its packings from now on. The weights of
/// version 1 are zeros.
fn old_and_new(server: Option<&InferenceServer>, can_repeat: bool) -> (Collector<Pendulum>, Arc<AtomicUsize>) {
    let policy = Policy::network(NetworkSpec::mlp(&[8], Activation::Tanh)).backend(Backend::Cpu);
    let policy = server.map_or(policy.clone(), |server| policy.served_by(server));
    let builder = Collector::<Pendulum>::builder().rows(ROWS).frames_per_batch(ROWS * TICKS).policy(policy);
    let builder = builder.exploration(Exploration::Mode).one_version_per_trajectory(true);
    let mut collector = builder.build().unwrap();
    take(&mut collector);
    let handle = collector.weights().unwrap();
    let mut zeros = (*handle.latest().1).clone();
    zeros.0.values_mut().for_each(|tensor| tensor.data.fill(0.0));
    handle.publish(zeros).unwrap();
    take(&mut collector);
    let packs = Arc::<AtomicUsize>::default();
    with_actor(&mut collector, |actor| {
        let ActorKind::Network(network) = &mut actor.kind else { unreachable!("it has a network") };
        let inner = network.networks[0].lock().unwrap().network.packer();
        network.packing = Packing::new(Arc::new(Counted { inner, packs: packs.clone(), can_repeat }));
    });
    (collector, packs)
}

fn with_actor(collector: &mut Collector<Pendulum>, f: impl FnOnce(&mut Actor<Pendulum>)) {
    let world = collector.world_mut();
    f(&mut world.query::<&mut Actor<Pendulum>>().single_mut(world).unwrap());
}

/// The versions of a batch's rows, which act by them.
fn take(collector: &mut Collector<Pendulum>) -> Vec<u64> {
    let batch = collector.next().unwrap().unwrap();
    for (version, value) in batch.versions().iter().zip(batch.values().unwrap()) {
        assert_eq!(*value == 0.0, *version == 1, "{value} by version {version}");
    }
    assert!(batch.versions().chunks(ROWS).all(|tick| *tick == batch.versions()[..ROWS]));
    batch.versions()[..ROWS].to_vec()
}

#[test]
fn kept_weights_are_not_packed_again_where_they_can_be_adopted_again() {
    let server = InferenceServer::new(ServerConfig::default()).unwrap();
    for server in [None, Some(&server)] {
        let (mut collector, packs) = old_and_new(server, true);
        collector.reset(Which::Some(&[0, 2])).unwrap();
        assert_eq!(take(&mut collector), [1, 0, 1, 0]);
        assert_eq!(packs.load(Relaxed), 0, "served: {}", server.is_some());
    }
}

#[test]
fn a_device_is_sent_only_weights_that_a_row_acts_by() {
    let (mut collector, packs) = old_and_new(None, false);
    assert_eq!(take(&mut collector), [0; ROWS]);
    assert_eq!(packs.swap(0, Relaxed), TICKS, "nothing acts by the newest");
    collector.reset(Which::Some(&[1])).unwrap();
    assert_eq!(take(&mut collector), [0, 1, 0, 0]);
    assert_eq!(packs.swap(0, Relaxed), 2 * TICKS);
    collector.reset(Which::All).unwrap();
    assert_eq!(take(&mut collector), [1; ROWS]);
    assert_eq!(packs.load(Relaxed), 1, "the newest stay");
}

#[test]
fn networks_return_to_the_newest_weights_though_all_rows_of_others_left() {
    let (mut collector, _) = old_and_new(None, true);
    with_actor(&mut collector, |actor| assert!(!actor.note_episodes(1, std::iter::empty())));
    assert_eq!(take(&mut collector), [1; ROWS]);
}
