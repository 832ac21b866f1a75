//! Agents of one simulation: rows with policies of their own that begin and end together.

use std::sync::{Arc, Mutex};

use crate::support::{Ending, balance};
use gleaner::{
    collector::Rows,
    components::{End, Truncation},
    config::CollectorBuilder,
    env::{BatchEnv, BatchStep, BatchStepper},
    prelude::*,
};

/// An episode: its length, the agent that ends it, and how.
type Episode = (u32, usize, Ending);

/// Simulations of several agents that see their simulation, agent, episode and step.
struct Squad {
    agents: usize,
    /// By simulation: the episode that runs, and its steps.
    simulations: Vec<(u32, u32)>,
    script: Vec<Episode>,
    /// Rows in the order in which they were reset.
    resets: Arc<Mutex<Vec<usize>>>,
}

impl Squad {
    fn new(simulations: usize, agents: usize, script: &[Episode]) -> Self {
        let resets = Arc::default();
        Self { agents, simulations: vec![(0, 0); simulations], script: script.to_vec(), resets }
    }

    fn builder(self) -> CollectorBuilder<Self, BatchStepper<Self>> {
        let rows = self.agents * self.simulations.len();
        Collector::with_simulator(self).rows(rows)
    }

    fn see(&self, row: usize) -> [f32; 4] {
        let n = self.simulations.len();
        let (episode, step) = self.simulations[row % n];
        [row % n, row / n, episode as usize, step as usize].map(|x| x as f32)
    }
}

impl Task for Squad {
    type Observation = [f32; 4];
    type Action = i32;
    type Mask = ();
    fn observation_space() -> Space {
        Space::unbounded(4)
    }
    fn action_space() -> Space {
        Space::discrete(3)
    }
}

impl BatchEnv for Squad {
    type Options = ();

    fn agents(&self) -> usize {
        self.agents
    }

    fn reset(&mut self, row: usize, _: &(), _: &mut Stream, observation: &mut [f32; 4], _: &mut ()) {
        let n = self.simulations.len();
        if row < n {
            self.simulations[row] = (self.simulations[row].0 + 1, 0);
        }
        self.resets.lock().unwrap().push(row);
        *observation = self.see(row);
    }

    fn step(&mut self, rows: BatchStep<'_, Self>) {
        let n = self.simulations.len();
        self.simulations.iter_mut().for_each(|simulation| simulation.1 += 1);
        for row in 0..rows.actions.len() {
            let (episode, step) = self.simulations[row % n];
            let (length, agent, ending) = self.script[(row % n + episode as usize) % self.script.len()];
            rows.observations[row] = self.see(row);
            rows.rewards[row] = 1.0;
            rows.ends[row] = End::RUNNING;
            if step == length && agent == row / n {
                rows.ends[row] = ending.end();
                if ending == Ending::Nan {
                    rows.rewards[row] = f32::NAN;
                }
            }
        }
    }
}

#[test]
fn p6_agent_steps_and_env_steps_are_counted_by_name() {
    let mut collector = Squad::new(1, 3, &[(4, 1, Ending::Terminated)]).builder().frames_per_batch(30).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    let stats = collector.stats();
    assert_eq!((stats.env_frames, stats.agent_frames), (10, 30));
    assert_eq!((batch.frames(), stats.frames, stats.stepped_frames), (30, 30, 30));
    assert_eq!((collector.rows(), collector.horizon()), (3, 10));
    // Every agent's episode is one.
    assert_eq!(stats.completed_trajectories, 6);
}

#[test]
fn p6_simulations_of_one_agent_count_alike() {
    let mut collector = Collector::<CartPole>::builder().rows(3).frames_per_batch(30).build().unwrap();
    collector.next().unwrap().unwrap();
    let stats = collector.stats();
    assert_eq!((stats.env_frames, stats.agent_frames, stats.frames), (30, 30, 30));
}

/// Checks that the agents of `n` simulations have frames, steps and ends together.
fn check_together(batch: &Batch<Squad>, n: usize) {
    let rows = batch.rows().len();
    for i in 0..batch.len() {
        let (tick, row) = (i / rows, i % rows);
        let leader = tick * rows + row % n;
        assert_eq!(batch.flags()[i].valid(), batch.flags()[leader].valid(), "slot {i}");
        assert_eq!(batch.steps()[i], batch.steps()[leader], "slot {i}");
        assert_eq!(batch.ends()[i].ends_episode(), batch.ends()[leader].ends_episode(), "slot {i}");
        let seen = batch.observations()[i];
        assert_eq!([seen[2], seen[3]], [batch.observations()[leader][2], batch.observations()[leader][3]]);
        if batch.flags()[i].valid() {
            assert_eq!([seen[0], seen[1]], [(row % n) as f32, (row / n) as f32], "slot {i}");
        }
    }
}

#[test]
fn one_agents_end_ends_its_simulation_and_no_other() {
    let script = [(3, 0, Ending::Terminated), (5, 2, Ending::Truncated), (4, 1, Ending::Both)];
    let squad = Squad::new(4, 3, &script);
    let resets = squad.resets.clone();
    let mut collector = squad.builder().frames_per_batch(12 * 20).threads(2).step_rows_per_thread(1).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    check_together(&batch, 4);
    let mut ended = [0; 3];
    for i in (0..batch.len()).filter(|i| batch.ends()[*i].done()) {
        let [simulation, agent, episode, _] = batch.observations()[i].map(|x| x as usize);
        let (length, by, ending) = script[(simulation + episode) % 3];
        assert_eq!(batch.steps()[i].0 + 1, length);
        let want = if agent == by { ending.end() } else { End::truncated_by(Truncation::Env) };
        assert_eq!(batch.ends()[i], want, "agent {agent}");
        // What followed is its own last observation.
        assert_eq!(batch.next_observation(i)[..3], batch.observations()[i][..3]);
        assert_eq!(batch.next_observation(i)[3], length as f32);
        ended[by] += 1;
    }
    assert!(ended.iter().all(|count| *count > 3 && count % 3 == 0), "{ended:?}");
    for simulation in resets.lock().unwrap().chunks_exact(3) {
        assert_eq!(
            simulation,
            [0, 4, 8].map(|agent| simulation[0] % 4 + agent),
            "agents are reset one after the other"
        );
    }
}

#[test]
fn a_step_limit_ends_all_agents() {
    let mut collector =
        Squad::new(2, 2, &[(u32::MAX, 0, Ending::Both)]).builder().max_frames_per_traj(6).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    check_together(&batch, 2);
    let ends: Vec<_> = batch.ends().iter().filter(|end| end.done()).collect();
    assert_eq!(ends.len(), 64 / 6 * 4);
    assert!(ends.iter().all(|end| end.truncation() == Some(Truncation::StepLimit)));
}

#[test]
fn a_fault_of_one_agent_discards_the_frames_of_all() {
    let mut collector = Squad::new(2, 3, &[(4, 1, Ending::Nan)]).builder().frames_per_batch(6 * 10).build().unwrap();
    let batch = collector.next().unwrap().unwrap();
    check_together(&batch, 2);
    // Ticks 3 and 7 of both simulations.
    assert_eq!(batch.frames(), 6 * 8);
    for tick in [2, 6] {
        let ends = &batch.ends()[tick * 6..(tick + 1) * 6];
        assert!(ends.iter().all(|end| *end == End::truncated_by(Truncation::Fault)), "{ends:?}");
    }
    let stats = collector.stats();
    assert_eq!((stats.discarded.fault, stats.agent_frames, stats.env_frames), (12, 60, 20));
    assert!(batch.trajectories().iter().all(|trajectory| trajectory.length == 3));
    balance(&stats).unwrap();
}

#[test]
fn a_reset_of_one_agent_resets_its_simulation() {
    let squad = Squad::new(3, 2, &[(u32::MAX, 0, Ending::Both)]);
    let resets = squad.resets.clone();
    let mut collector = squad.builder().frames_per_batch(6 * 5).build().unwrap();
    drop(collector.next().unwrap().unwrap());
    resets.lock().unwrap().clear();
    collector.reset(Rows::Some(&[4])).unwrap();
    assert_eq!(*resets.lock().unwrap(), [1, 4]);
    let batch = collector.next().unwrap().unwrap();
    check_together(&batch, 3);
    let cut: Vec<_> = batch.trajectories().iter().map(|trajectory| (trajectory.row.0, trajectory.length)).collect();
    assert_eq!(cut, [(1, 5), (4, 5)]);
    assert!(batch.trajectories().iter().all(|one| one.end == End::truncated_by(Truncation::ForcedReset)));
    let steps: Vec<_> = batch.steps()[..6].iter().map(|step| step.0).collect();
    assert_eq!(steps, [5, 0, 5, 5, 0, 5]);
    resets.lock().unwrap().clear();
    collector.set_seed(9).unwrap();
    assert_eq!(*resets.lock().unwrap(), [0, 3, 1, 4, 2, 5]);
}

#[test]
fn agents_have_policies_of_their_own() {
    let act = |choice: i32| Policy::function(move |_, _, _, actions| actions.fill(choice));
    let squad = Squad::new(4, 3, &[(3, 0, Ending::Terminated), (7, 2, Ending::Nan)]);
    let builder =
        squad.builder().policies([(0..4, act(0)), (4..12, act(2))]).trajs_per_batch(10).total_frames(12 * 100);
    let mut collector = builder.build().unwrap();
    let mut frames = 0;
    while let Some(batch) = collector.next() {
        let batch = batch.unwrap();
        frames += batch.frames();
        for (seen, action) in batch.observations().iter().zip(batch.actions()) {
            assert_eq!(*action, if seen[1] == 0.0 { 0 } else { 2 });
        }
        balance(&collector.stats()).unwrap();
    }
    let stats = collector.stats();
    assert_eq!((stats.agent_frames, stats.env_frames, stats.frames), (1_200, 400, frames as u64));
}

#[test]
fn a_reset_at_each_batch_ends_all() {
    let builder =
        Squad::new(2, 2, &[(u32::MAX, 0, Ending::Both)]).builder().frames_per_batch(4 * 5).total_frames(4 * 12);
    let mut collector = builder.reset_at_each_iter(true).build().unwrap();
    for ticks in [5, 5, 2] {
        let batch = collector.next().unwrap().unwrap();
        check_together(&batch, 2);
        assert_eq!(batch.frames(), 4 * ticks);
        assert!(batch.ends()[4 * (ticks - 1)..].iter().all(|end| end.truncation() == Some(Truncation::ForcedReset)));
    }
    assert!(collector.next().is_none());
}

#[test]
fn rows_and_budgets_are_whole_simulations() {
    let squad = || Squad::new(2, 3, &[(4, 0, Ending::Both)]);
    let error = |builder: CollectorBuilder<Squad, BatchStepper<Squad>>| builder.build().unwrap_err().to_string();
    assert!(error(Collector::with_simulator(squad()).rows(7)).starts_with("rows is 7; legal: a multiple of 3"));
    assert!(error(squad().builder().total_frames(13)).starts_with("total_frames is 13; legal: a multiple of 6 rows"));
    assert!(error(Squad::new(2, 0, &[]).builder().rows(2)).starts_with("rows is 2; legal: a multiple of 0"));
    let mut other = Collector::<CartPole>::builder().rows(4).frames_per_batch(8).build().unwrap();
    drop(other.next().unwrap().unwrap());
    let refused = squad().builder().build().unwrap().load_counters(&other.counters()).unwrap_err().to_string();
    assert!(refused.contains("8 frames are no whole steps of 6 rows"), "{refused}");
}
