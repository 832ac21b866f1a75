use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::{
    components::{ActionKey, Episode, LogProb, RowIndex, Value},
    policy::{
        Backend, Exploration, InferenceServer, NetworkSpec, Policy, ServerConfig,
        actor::Duty,
        packing::{Packer, Packing},
        plan::Activation,
    },
    space::Space,
};

struct Toy;

impl Task for Toy {
    type Observation = [f32; 3];
    type Action = i32;
    type Mask = ();

    fn observation_space() -> Space {
        Space::unbounded(3)
    }

    fn action_space() -> Space {
        Space::discrete(2)
    }
}

const ROWS: usize = 4;

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

/// A policy, all of whose rows began under version 0 and go on under it while 1 is the newest, whose weights are zeros; and
/// its packings from now on.
fn old_and_new(server: Option<&InferenceServer>, can_repeat: bool) -> (Actor<Toy>, Arc<AtomicUsize>) {
    let policy = Policy::network(NetworkSpec::mlp(&[8], Activation::Tanh)).backend(Backend::Cpu);
    let policy = server.map_or(policy.clone(), |server| policy.served_by(server));
    let duty = Duty {
        policy: 0,
        rows: 0..u32::MAX,
        slots: ROWS,
        all_rows: ROWS,
        exploration: Exploration::Mode,
        threads: 1,
        record_params: false,
    };
    let (mut actor, weights) = Actor::<Toy>::open(policy, duty).unwrap();
    assert_eq!(tick(&mut actor, 0, [0; ROWS]), [0; ROWS]);
    let mut zeros = (*weights.unwrap()).clone();
    zeros.0.values_mut().for_each(|tensor| tensor.data.fill(0.0));
    let network = network(&mut actor);
    network.keep_for_episodes(0);
    let packed = network.packing.pack(&zeros).unwrap();
    network.adopt(Arc::new(zeros), packed).unwrap();
    let (inner, packs) = (network.networks[0].lock().unwrap().network.packer(), Arc::<AtomicUsize>::default());
    network.packing = Packing::new(Arc::new(Counted { inner, packs: packs.clone(), can_repeat }));
    (actor, packs)
}

fn network(actor: &mut Actor<Toy>) -> &mut NetworkActor<Toy> {
    let ActorKind::Network(network) = &mut actor.kind else { unreachable!("the policy is a network") };
    network
}

/// Acts for rows of these steps, and notes them. The versions that they acted by.
fn tick(actor: &mut Actor<Toy>, newest: u64, steps: [u32; ROWS]) -> [u64; ROWS] {
    let (slots, steps) = ([0, 1, 2, 3].map(Slot), steps.map(EpisodeStep));
    let (report, mut values) = (TickReport::default(), [Value(f32::NAN); ROWS]);
    let rows = Rows {
        observations: &[[0.5, -1.0, 2.0]; ROWS],
        masks: &[(); ROWS],
        keys: &[ActionKey::default(); ROWS],
        episodes: &[Episode(0); ROWS],
        steps: &steps,
        rows: &[0, 1, 2, 3].map(RowIndex),
        slots: &slots,
        actions: &mut [0; ROWS],
        log_probs: &mut [LogProb(0.0); ROWS],
        values: &mut values,
    };
    network(actor).act(rows, 0, 1, &report);
    assert!(!report.failed());
    actor.note_episodes(newest, slots.into_iter().zip(steps));
    assert!(values.iter().all(|value| value.0.is_finite()));
    values.map(|value| u64::from(value.0 == 0.0))
}

#[test]
fn kept_weights_are_not_packed_again_where_they_can_be_adopted_again() {
    let server = InferenceServer::new(ServerConfig::default()).unwrap();
    for server in [None, Some(&server)] {
        let (mut actor, packs) = old_and_new(server, true);
        assert_eq!(tick(&mut actor, 1, [0, 1, 0, 1]), [1, 0, 1, 0]);
        assert_eq!(tick(&mut actor, 1, [1, 2, 1, 2]), [1, 0, 1, 0]);
        assert_eq!(packs.load(Relaxed), 0, "served: {}", server.is_some());
    }
}

#[test]
fn a_device_is_sent_only_weights_that_a_row_acts_by() {
    let (mut actor, packs) = old_and_new(None, false);
    for (steps, versions, sent) in [
        ([1; ROWS], [0; ROWS], 1),
        ([2, 0, 2, 2], [0, 1, 0, 0], 2),
        ([3, 1, 3, 3], [0, 1, 0, 0], 2),
        ([0, 2, 0, 0], [1; ROWS], 1),
        ([1, 3, 1, 1], [1; ROWS], 0),
    ] {
        assert_eq!(tick(&mut actor, 1, steps), versions);
        assert_eq!(packs.swap(0, Relaxed), sent, "{steps:?}");
    }
}

#[test]
fn networks_return_to_the_newest_weights_though_all_rows_of_others_left() {
    let (mut actor, _) = old_and_new(None, true);
    assert_eq!(tick(&mut actor, 1, [1; ROWS]), [0; ROWS]);
    assert!(!actor.note_episodes(1, std::iter::empty()), "no row acts by others");
    assert_eq!(tick(&mut actor, 1, [2; ROWS]), [1; ROWS]);
}
