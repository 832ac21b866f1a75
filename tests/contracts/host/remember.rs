//! A recurrent policy for a host's rows: what a row remembers follows it, whatever slots and tables it comes to.

use gleaner::policy::Layer;

use super::*;

const HIDDEN: usize = 5;

fn policy() -> Policy<Tag> {
    let trunk = vec![Layer::Gru(HIDDEN)];
    let spec = NetworkSpec { trunk, actor: vec![], critic: Some(vec![]), ..NetworkSpec::default() };
    Policy::network(spec).backend(Backend::Cpu).seed(3)
}

#[derive(Component)]
struct Marker;

#[test]
fn a_state_follows_its_row_through_any_coming_and_going() {
    let evaluator = policy().evaluator().unwrap();
    for seed in 0..20 {
        let config =
            HostConfig { ticks_per_batch: 5, max_arenas: 64, max_frames_per_traj: Some(7), ..HostConfig::default() };
        let mut world = World::new();
        HostBuilder::<Tag>::new(policy()).config(config).install(&mut world).expect("legal options");
        let mut random = Stream::new(gleaner::seed::Seed(seed), 0, gleaner::seed::Purpose::Env, 0);
        let mut rows = Vec::new();
        for tag in 0..60 {
            // Many of them in the middle of a rollout, without a slot until the next.
            if rows.len() < 3 || random.below(4) == 0 {
                rows.push(spawn(&mut world, tag, random.below(9)));
                if random.below(3) == 0 {
                    world.entity_mut(rows[rows.len() - 1]).insert(Marker);
                }
            }
            if random.below(7) == 0 {
                let row = rows.swap_remove(random.below(rows.len() as u32) as usize);
                world.despawn(row);
            }
            step(&mut world);
        }
        let mut states: HashMap<TrajectoryId, Vec<f32>> = HashMap::new();
        let mut compared = 0;
        for batch in batches(&mut world) {
            let rows = batch.rows().len();
            for i in (0..batch.len()).filter(|i| batch.flags()[*i].valid()) {
                let state = states.entry(batch.trajectory_ids()[i]).or_insert_with(|| vec![0.0; HIDDEN]);
                if i < rows {
                    assert_eq!(batch.initial_states()[i * HIDDEN..(i + 1) * HIDDEN], state[..], "seed {seed}, row {i}");
                }
                let value = evaluator.evaluate_from(&batch.observations()[i..=i], state).unwrap().values[0];
                assert_eq!(batch.values().unwrap()[i].to_bits(), value.to_bits(), "seed {seed}, frame {i}");
                compared += 1;
            }
            batch.bootstrap_values().expect("every state that is needed is kept");
        }
        assert!(compared > 100, "{compared} frames");
    }
}
