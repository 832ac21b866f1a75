//! E12: an episode acts by one set of weights to its end, if that is asked for; nobody waits for it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{KINDS, of_kind, refusal};
use crate::support::{
    Case, Ending, Mode, Script, Tag, publish_until, sampling_network, stamp, stamped_network, stamped_weights, tags,
};
use bevy_ecs::entity::Entity;
use gleaner::{
    components::RowIndex,
    config::{CollectorBuilder, Delivery, TrajFormat},
    env::{AsyncBatched, RowStepper},
    policy::Exploration,
    prelude::*,
};
use proptest::prelude::*;

fn loyal(kind: (usize, Delivery), rows: usize, script: Arc<Script>) -> CollectorBuilder<Tag, RowStepper<Tag>> {
    let builder = tags(script).rows(rows).policy(stamped_network()).exploration(Exploration::Mode);
    let builder = builder.one_version_per_trajectory(true);
    if kind.0 > 0 { builder.workers(kind.0).delivery(kind.1) } else { builder }
}

/// What is wrong with a batch: a frame whose action is not its version's, an episode with two versions, a trajectory that
/// says so. `acts` are the versions of the episodes that were seen before.
fn check(batch: &Batch<Tag>, acts: &mut HashMap<TrajectoryId, u64>) -> Result<(), String> {
    for i in (0..batch.len()).filter(|i| batch.flags()[*i].valid()) {
        let (version, id) = (batch.versions()[i], batch.trajectory_ids()[i]);
        let outputs = [batch.actions()[i], batch.values().unwrap()[i]];
        if !batch.flags()[i].random() && outputs != [stamp(version); 2] {
            return Err(format!("{outputs:?} by version {version}"));
        }
        if *acts.entry(id).or_insert(version) != version {
            return Err(format!("{id:?} acts by versions {} and {version}", acts[&id]));
        }
    }
    for episode in batch.trajectories() {
        if episode.first_version != episode.last_version || acts.get(&episode.id) != Some(&episode.first_version) {
            return Err(format!("{episode:?}, by {:?}", acts.get(&episode.id)));
        }
    }
    Ok(())
}

#[test]
fn e12_an_episode_acts_by_one_version_whoever_publishes_when() {
    let script = Arc::new(Script(vec![
        vec![(1, Ending::Terminated), (40, Ending::Truncated), (3, Ending::Nan)],
        vec![(7, Ending::Terminated)],
        vec![(300, Ending::Truncated), (2, Ending::Terminated)],
    ]));
    for kind in KINDS {
        let mut collector = loyal(kind, 9, script.clone()).frames_per_batch(9 * 50).build().unwrap();
        let (weights, stop, mut acts) = (collector.weights().unwrap(), AtomicBool::new(false), HashMap::new());
        let versions = |acts: &HashMap<_, u64>| acts.values().collect::<BTreeSet<_>>().len();
        let deadline = Instant::now() + Duration::from_secs(60);
        let checked = thread::scope(|scope| {
            scope.spawn(|| publish_until(&weights, &stop));
            // On a busy machine the learner may hardly have begun.
            let (mut checked, mut batches) = (Ok(()), 0);
            while checked.is_ok() && (batches < 60 || versions(&acts) <= 20 && Instant::now() < deadline) {
                checked = check(&collector.next().unwrap().unwrap(), &mut acts);
                batches += 1;
            }
            stop.store(true, Relaxed);
            checked
        });
        assert_eq!(checked, Ok(()), "{kind:?}");
        assert!(versions(&acts) > 20, "{kind:?}: {} versions acted", versions(&acts));
    }
}

#[test]
fn e12_new_weights_act_in_the_next_episode_of_each_row() {
    // Rows of 3, 5 and 11 frames an episode; new weights in front of each of many batches of 4 ticks.
    let (lengths, ticks) = ([3, 5, 11], 4);
    for kind in &KINDS[..2] {
        let builder = loyal(*kind, 3, Script::lengths(&lengths, Ending::Terminated)).frames_per_batch(3 * ticks);
        let mut collector = builder.build().unwrap();
        let weights = collector.weights().unwrap();
        for number in 0..40_u64 {
            let batch = collector.next().unwrap().unwrap();
            for (i, version) in batch.versions().iter().enumerate() {
                let frame = number as usize * ticks + i / 3;
                let begin = frame - frame % lengths[i % 3] as usize;
                assert_eq!(*version as usize, begin / ticks, "{kind:?}, row {}, frame {frame}", i % 3);
                assert_eq!(batch.actions()[i], stamp(*version));
            }
            weights.publish(stamped_weights(number + 1)).unwrap();
        }
        assert_eq!(collector.stats().policy_version, Some(39));
    }
}

#[test]
fn e12_a_row_that_is_reset_begins_with_the_newest() {
    let builder = loyal(KINDS[0], 2, Script::all(1_000, Ending::Terminated)).frames_per_batch(20);
    let mut collector = builder.build().unwrap();
    let weights = collector.weights().unwrap();
    collector.next().unwrap().unwrap();
    weights.publish(stamped_weights(1)).unwrap();
    let batch = collector.next().unwrap().unwrap();
    assert!(batch.versions().iter().all(|version| *version == 0));
    weights.publish(stamped_weights(2)).unwrap();
    collector.reset(Rows::Some(&[1])).unwrap();
    for _ in 0..2 {
        let batch = collector.next().unwrap().unwrap();
        assert!(batch.versions().chunks(2).all(|tick| tick == [0, 2]), "{:?}", batch.versions());
        assert!(batch.actions().chunks(2).all(|tick| tick == [0.0, 2.0]));
    }
}

#[test]
fn e12_a_row_that_is_removed_keeps_no_weights() {
    let builder = loyal(KINDS[0], 3, Script::all(1_000, Ending::Terminated)).frames_per_batch(30);
    let mut collector = builder.build().unwrap();
    let weights = collector.weights().unwrap();
    weights.publish(stamped_weights(1)).unwrap();
    let old = Arc::downgrade(&weights.latest().1);
    collector.next().unwrap().unwrap();
    weights.publish(stamped_weights(2)).unwrap();
    collector.reset(Rows::Some(&[0, 2])).unwrap();
    collector.next().unwrap().unwrap();
    assert!(old.upgrade().is_some(), "row 1 acts by them");
    let world = collector.world_mut();
    let mut rows = world.query::<(Entity, &RowIndex)>();
    let row = rows.iter(world).find(|(_, row)| row.0 == 1).unwrap().0;
    world.despawn(row);
    let batch = collector.next().unwrap().unwrap();
    assert!(old.upgrade().is_none(), "no row acts by them");
    for (i, flags) in batch.flags().iter().enumerate().filter(|(_, flags)| flags.valid()) {
        assert_eq!((batch.versions()[i], batch.actions()[i]), (2, 2.0), "frame {i}: {flags:?}");
    }
}

#[test]
fn e12_what_a_row_does_does_not_depend_on_who_else_acts_by_what() {
    // Two policies, whose rows draw from distributions; new weights change what one of them does in its next episode.
    let script = Script::lengths(&[4, 9, 6, 13, 5], Ending::Terminated);
    let run = |workers: usize, threads: usize| {
        let policies = [(0..3, sampling_network()), (3..5, sampling_network())];
        let builder = loyal((workers, Delivery::Sync), 5, script.clone()).policies(policies);
        let builder = builder.exploration(Exploration::Sample).frames_per_batch(5 * 7);
        let builder = builder.threads(threads).infer_rows_per_thread(1).step_rows_per_thread(1);
        let mut collector = builder.build().unwrap();
        let models = collector.models();
        let mut frames = Vec::new();
        for epoch in 1..20 {
            let batch = collector.next().unwrap().unwrap();
            let bits = |column: &[f32]| column.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let columns = [batch.actions(), batch.values().unwrap(), batch.log_probs().unwrap()].map(bits);
            frames.push((columns, batch.versions().to_vec()));
            models.publish([(epoch as usize % 2, stamped_weights(epoch))]).unwrap();
        }
        frames
    };
    let inline = run(0, 1);
    assert!((1..4).all(|workers| run(workers, 1) == inline));
    assert!(run(0, 3) == inline);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn e12_every_trajectory_has_one_version(case in crate::support::case(), kind in 0..3_usize, gaps in prop::collection::vec(0..3_u32, 40)) {
        let Case { rows, horizon, script, mode, limit, random, reset_each, seed, .. } = case;
        let rows = rows.max(2);
        let builder = loyal(KINDS[kind], rows, script).frames_per_batch(rows * horizon).seed(seed);
        let builder = builder.init_random_frames(random).reset_at_each_iter(reset_each);
        let builder = if let Some(limit) = limit { builder.max_frames_per_traj(limit) } else { builder };
        let builder = match mode {
            Mode::Rollout => builder,
            Mode::Cat(n) => builder.trajs_per_batch(n),
            Mode::Padded(n) => builder.trajs_per_batch(n).traj_format(TrajFormat::Padded),
        };
        let mut collector = builder.total_frames(20 * (rows * horizon) as u64).build().unwrap();
        let (weights, mut acts) = (collector.weights().unwrap(), HashMap::new());
        for gap in gaps {
            let Some(batch) = collector.next() else { break };
            prop_assert_eq!(check(&batch.unwrap(), &mut acts), Ok(()));
            for _ in 0..gap {
                weights.publish(stamped_weights(weights.version() + 1)).unwrap();
            }
        }
    }
}

#[test]
fn fd05_one_version_is_for_networks_whose_rows_step_together() {
    let rule = || of_kind(KINDS[0], 4).one_version_per_trajectory(true);
    let network = || rule().policy(stamped_network());
    let first = "one_version_per_trajectory";
    assert_eq!(refusal(rule()), (first, "policy"));
    assert_eq!(refusal(network().overlap(Overlap::Two)), (first, "overlap"));
    assert_eq!(refusal(network().async_batched(AsyncBatched::default())), (first, "async_batched"));
    assert_eq!(refusal(network().record_distribution(true)), (first, "record_distribution"));
    let stale = of_kind(KINDS[2], 4).policy(stamped_network()).one_version_per_trajectory(true).max_staleness(3);
    assert_eq!(refusal(stale), (first, "max_staleness"));
}

/// What a batch says, as text.
fn told(batch: &Batch<Tag>) -> String {
    let columns = (batch.observations(), batch.actions(), batch.versions(), batch.ends(), batch.steps());
    format!("{columns:?} {:?} {:?} {:?}", batch.values(), batch.trajectory_ids(), batch.trajectories())
}

#[test]
fn i7_episodes_go_on_by_their_weights_after_a_load() {
    // New weights come in front of each batch of 4 ticks, so rows act by up to five sets.
    let script = || {
        Arc::new(Script(vec![
            vec![(3, Ending::Terminated), (2, Ending::Nan)],
            vec![(5, Ending::Truncated)],
            vec![(19, Ending::Terminated)],
            vec![(11, Ending::Terminated)],
        ]))
    };
    let spec = NetworkSpec::from_ron_str("(trunk: [Gru(3)], critic: Some([]), normalize: Some((clip: 10.0)))").unwrap();
    let networks: [&dyn Fn() -> Policy<Tag>; 3] =
        [&stamped_network, &sampling_network, &|| Policy::network(spec.clone()).backend(Backend::Cpu)];
    for ((number, network), kind) in
        networks.iter().enumerate().flat_map(|network| [KINDS[0], KINDS[1]].map(|kind| (network, kind)))
    {
        // Statistics of workers are not those of all.
        if number == 2 && kind.0 > 0 {
            continue;
        }
        let new = || {
            let builder =
                loyal(kind, 4, script()).policy(network()).exploration(Exploration::Sample).frames_per_batch(16);
            builder.total_frames(16 * 14 - 3).build().unwrap()
        };
        let next = |collector: &mut Collector<Tag>, turn: usize| {
            let batch = told(&collector.next().unwrap().unwrap());
            let weights = collector.weights().unwrap();
            let mut next = (*weights.latest().1).clone();
            for tensor in next.0.values_mut() {
                tensor.data.iter_mut().for_each(|x| *x = *x * 0.9 + turn as f32 / 64.0);
            }
            weights.publish(next).unwrap();
            batch
        };
        let (mut whole, mut files, mut batches) = (new(), Vec::new(), Vec::new());
        for turn in 0..14 {
            batches.push(next(&mut whole, turn));
            let mut file = Vec::new();
            whole.save_to(&mut file).unwrap();
            files.push(file);
        }
        for (turn, file) in files.iter().enumerate() {
            let mut later = new();
            later.load_from(&mut &file[..]).unwrap();
            for (turn, batch) in batches.iter().enumerate().skip(turn + 1) {
                assert_eq!(&next(&mut later, turn), batch, "network {number}, {kind:?}, batch {turn}");
            }
            assert!(later.next().is_none());
        }
        // Weights that episodes need belong to the rows: without the rule, none of these are taken.
        let mut file = &files[6][..];
        let without = loyal(kind, 4, script()).policy(network()).exploration(Exploration::Sample).frames_per_batch(16);
        let without =
            without.total_frames(16 * 14 - 3).one_version_per_trajectory(false).build().unwrap().load_from(&mut file);
        assert!(without.unwrap_err().to_string().contains("one_version_per_trajectory"));
    }
}
