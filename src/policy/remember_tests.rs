use std::sync::Arc;

use super::*;
use crate::{
    error::Error,
    policy::{
        Backend, Duty, Exploration, Layer, NetworkSpec, Policy,
        packing::{PackedWeights, Packer},
        plan::{Forward, Network, Outcome},
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

/// Its states are on a device that is gone.
struct Gone(Box<dyn Network>);

impl Network for Gone {
    fn packer(&self) -> Arc<dyn Packer> {
        self.0.packer()
    }

    fn adopt(&mut self, packed: &PackedWeights) -> Result<(), Error> {
        self.0.adopt(packed)
    }

    fn forward(&mut self, input: &Forward<'_>, out: &mut Outcome<'_>) -> Result<(), Error> {
        self.0.forward(input, out)
    }

    fn pull_states(&mut self, _: &States) -> Result<(), Error> {
        Err(Error::Gpu("gone".into()))
    }
}

/// A world with a recurrent policy for one row, and its plan.
fn world(replace: fn(Box<dyn Network>) -> Box<dyn Network>) -> (World, Plan) {
    let spec = NetworkSpec { trunk: vec![Layer::Gru(2)], ..NetworkSpec::default() };
    let duty = Duty {
        policy: 0,
        rows: 0..u32::MAX,
        slots: 1,
        all_rows: 1,
        exploration: Exploration::Sample,
        threads: 1,
        record_params: false,
    };
    let (actor, _) = Actor::<Toy>::open(Policy::network(spec).backend(Backend::Cpu), duty).unwrap();
    let ActorKind::Network(network) = &actor.kind else { unreachable!("the policy is a network") };
    let plan = network.plan.clone();
    let mut lane = network.networks[0].lock().unwrap();
    let own = std::mem::replace(&mut lane.network, Box::new(crate::policy::CpuNetwork::new(plan.clone())));
    lane.network = replace(own);
    drop(lane);
    let mut world = World::new();
    world.init_resource::<TickReport<Toy>>();
    world.spawn(actor);
    (world, plan)
}

#[test]
fn states_that_cannot_be_had_fail_the_tick() {
    for (replace, message) in [
        ((|network| network) as fn(Box<dyn Network>) -> Box<dyn Network>, None),
        (|network| Box::new(Gone(network)) as _, Some("gone")),
    ] {
        let error =
            |world: &mut World| world.resource_mut::<TickReport<Toy>>().take_error().map(|error| error.to_string());
        let (mut world, plan) = world(replace);
        let mut memory = remembered::<Toy>(&mut world, [&plan].into_iter()).unwrap();
        let (_, mut column) = state_column::<Toy>(&mut world, [&plan].into_iter()).unwrap();
        let fails = |got: Option<String>| match message {
            Some(message) => assert!(got.is_some_and(|got| got.contains(message))),
            None => assert_eq!(got, None),
        };
        memory.before(&world, &mut [0.0; 2]);
        fails(error(&mut world));
        memory.after(&world, &mut [0.0; 2]);
        fails(error(&mut world));
        column.record(&world, true, &mut [0; 8]);
        fails(error(&mut world));
    }
}
