//! Rows that one simulator steps together.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bevy_ecs::prelude::*;

use super::{
    BatchEnv, BatchStep,
    agents::end_together,
    clip::ActionClip,
    mask::MaskParts,
    rows::{Spawn, Stepper, check_count, row_bundle},
    step::close_frame,
};
use crate::{
    components::{
        Action, ActionMask, DropEnvs, End, Episode, EpisodeStep, LastObservation, Observation, Reward, RowIndex, Slot,
        TickPlan, TickReport,
    },
    data::{Data, finite},
    error::{Error, panic_message},
    schedule::{CollectSystems, TaskSystems},
    seed::{Seed, Stream},
};

/// The simulator, until the collector is built.
pub struct BatchStepper<S: BatchEnv> {
    pub(crate) sim: Option<S>,
    pub(crate) options: S::Options,
}

/// The simulator in the world.
#[derive(Resource)]
pub(crate) struct BatchSim<S: BatchEnv> {
    sim: S,
    /// Options of automatic resets.
    pub options: S::Options,
    limit: u32,
    /// Rows of all simulations, and of one.
    rows: usize,
    agents: usize,
    masks: MaskParts,
    clip: ActionClip,
    clipped: Vec<S::Action>,
    seed: Seed,
    worker: u32,
}

type BatchColumns<S> = (
    (&'static mut Stream, &'static mut Episode, &'static RowIndex, &'static Slot),
    (&'static Action<S>, &'static EpisodeStep),
    (&'static mut Observation<S>, &'static mut LastObservation<S>, &'static mut ActionMask<S>),
    (&'static mut Reward, &'static mut End),
);

/// Brings rows, given with their slots, in the order of their simulations, the agents of one one after the other.
fn by_simulation(rows: &mut [(u32, Entity)], simulations: usize) {
    rows.sort_unstable_by_key(|(slot, _)| (*slot as usize % simulations, *slot));
}

impl<S: BatchEnv> Stepper<S> for BatchStepper<S> {
    fn time_limit(&self) -> Option<u32> {
        S::TIME_LIMIT
    }

    fn agents(&self) -> usize {
        self.sim.as_ref().map_or(1, S::agents)
    }

    fn install(&mut self, world: &mut World, schedule: &mut Schedule, spawn: &Spawn) -> Result<Vec<Entity>, Error> {
        let Some(sim) = self.sim.take() else {
            return Err(Error::State { call: "build", problem: "the simulator is in another collector".into() });
        };
        world.insert_resource(BatchSim {
            rows: spawn.rows as usize,
            agents: sim.agents(),
            sim,
            options: self.options.clone(),
            limit: spawn.limit,
            masks: MaskParts::of(&S::action_space()),
            clip: ActionClip::of::<S>(),
            clipped: Vec::new(),
            seed: spawn.seed,
            worker: spawn.worker.unwrap_or(0),
        });
        world.insert_resource(DropEnvs(drop_sim::<S>));
        let entities: Vec<Entity> = (0..spawn.rows).map(|i| world.spawn(row_bundle::<S>(spawn, i)).id()).collect();
        schedule.add_systems(step_batch::<S>.in_set(TaskSystems::of::<S>()).in_set(CollectSystems::Step));
        self.restart(world, &entities)?;
        Ok(entities)
    }

    fn reseed(&self, world: &mut World, seed: Seed) {
        world.resource_mut::<BatchSim<S>>().seed = seed;
    }

    fn share(&self) -> Option<Box<dyn Stepper<S>>> {
        None
    }

    fn save_states(&self, world: &World, _: &[Entity]) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let Some(codec) = S::STATE else { return Ok(None) };
        codec.saved(&world.resource::<BatchSim<S>>().sim, "the simulator").map(|state| Some(vec![state]))
    }

    fn load_states(&self, world: &mut World, _: &[Entity], states: &[Vec<u8>]) -> Result<bool, Error> {
        let Some(codec) = S::STATE else { return Ok(false) };
        check_count(states.len(), 1)?;
        codec.loaded(&mut world.resource_mut::<BatchSim<S>>().sim, &states[0], "the simulator").map(|()| true)
    }

    fn restart(&self, world: &mut World, rows: &[Entity]) -> Result<(), Error> {
        let mut query =
            world.query::<(&mut Stream, &Episode, &RowIndex, &Slot, &mut Observation<S>, &mut ActionMask<S>)>();
        world.resource_scope(|world, mut sim: Mut<BatchSim<S>>| {
            let BatchSim { sim, options, masks, seed, worker, agents, rows: all, .. } = &mut *sim;
            let slot = |entity: &Entity| world.get::<Slot>(*entity).map_or(0, |slot| slot.0);
            let mut order: Vec<_> = rows.iter().map(|entity| (slot(entity), *entity)).collect();
            by_simulation(&mut order, *all / *agents);
            for (_, entity) in order {
                let Ok((mut stream, episode, row, slot, mut observation, mut mask)) = query.get_mut(world, entity)
                else {
                    continue;
                };
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    sim.reset(slot.0 as usize, options, &mut stream, &mut observation.0, &mut mask.0);
                }));
                let (row, episode, seed) = (row.0, episode.0, seed.0);
                caught.map_err(|payload| Error::EnvPanic {
                    call: "reset",
                    message: panic_message(payload),
                    worker: *worker,
                    row,
                    episode,
                    step: 0,
                    seed,
                })?;
                if !observation.0.is_finite() {
                    return Err(Error::reset_not_finite(&observation.0, row, episode, seed));
                }
                masks.check(&mask.0, row, episode, 0)?;
            }
            Ok(())
        })
    }
}

/// [`DropEnvs`] of a simulator.
fn drop_sim<S: BatchEnv>(world: &mut World) -> Result<(), Error> {
    let Some(BatchSim::<S> { sim, worker, seed, .. }) = world.remove_resource() else { return Ok(()) };
    catch_unwind(AssertUnwindSafe(|| drop(sim))).map_err(|payload| {
        let message = panic_message(payload);
        Error::EnvPanic { call: "drop", message, worker, row: 0, episode: 0, step: 0, seed: seed.0 }
    })
}

/// Steps all active rows in one call.
fn step_batch<S: BatchEnv>(
    mut rows: Query<BatchColumns<S>>,
    mut sim: ResMut<BatchSim<S>>,
    plan: Res<TickPlan<S>>,
    report: Res<TickReport<S>>,
) {
    if report.failed() {
        return;
    }
    let Ok(chunks) = rows.contiguous_iter_mut() else { return };
    let sim = &mut *sim;
    for ((mut streams, mut episodes, rows, slots), (actions, steps), mut written, (mut rewards, mut ends)) in chunks {
        if slots.is_empty() {
            continue;
        }
        let active = slots.len().min(plan.active as usize);
        let ends = ends.bypass_change_detection();
        let rewards = rewards.bypass_change_detection();
        ends[active..].fill(End::RUNNING);
        rewards[active..].fill(Reward(0.0));
        let columns = Columns::<S> {
            streams: &mut streams.bypass_change_detection()[..active],
            episodes: &mut episodes.bypass_change_detection()[..active],
            rows: &rows[..active],
            actions: &Action::values(actions)[..active],
            steps: &steps[..active],
            observations: &mut Observation::values_mut(written.0.bypass_change_detection())[..active],
            lasts: &mut LastObservation::values_mut(written.1.bypass_change_detection())[..active],
            masks: &mut ActionMask::values_mut(written.2.bypass_change_detection())[..active],
            rewards: &mut rewards[..active],
            ends: &mut ends[..active],
        };
        if slots.iter().enumerate().any(|(i, slot)| slot.0 as usize != i) {
            let problem = "rows of a BatchEnv must stay one table in row order; a system moved some".into();
            return report.fail(0, Error::State { call: "step", problem });
        }
        sim.step(columns, plan.cut_from, &report);
    }
}

struct Columns<'a, S: BatchEnv> {
    streams: &'a mut [Stream],
    episodes: &'a mut [Episode],
    rows: &'a [RowIndex],
    actions: &'a [S::Action],
    steps: &'a [EpisodeStep],
    observations: &'a mut [S::Observation],
    lasts: &'a mut [S::Observation],
    masks: &'a mut [S::Mask],
    rewards: &'a mut [Reward],
    ends: &'a mut [End],
}

impl<S: BatchEnv> BatchSim<S> {
    fn step(&mut self, mut columns: Columns<'_, S>, cut_from: u32, report: &TickReport<S>) {
        let (current, call) = (Cell::new(0), Cell::new("step"));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            self.step_all(&mut columns);
            report.stepped(columns.rows.len() as u64);
            self.close(&mut columns, cut_from, report, &current, &call);
            self.check_masks(&columns, report);
        }));
        if let Err(payload) = caught {
            let i = current.get();
            let error = Error::EnvPanic {
                call: call.get(),
                message: panic_message(payload),
                worker: self.worker,
                row: columns.rows[i].0,
                episode: columns.episodes[i].0,
                step: if call.get() == "reset" { 0 } else { columns.steps[i].0 },
                seed: self.seed.0,
            };
            report.fail(columns.rows[i].0, error);
        }
    }

    fn check_masks(&self, columns: &Columns<'_, S>, report: &TickReport<S>) {
        if size_of::<S::Mask>() == 0 {
            return;
        }
        for (i, mask) in columns.masks.iter().enumerate() {
            let step = if columns.ends[i].done() { 0 } else { columns.steps[i].0 + 1 };
            if let Err(error) = self.masks.check(mask, columns.rows[i].0, columns.episodes[i].0, step) {
                report.fail(columns.rows[i].0, error);
            }
        }
    }

    fn step_all(&mut self, columns: &mut Columns<'_, S>) {
        let mut actions = columns.actions;
        if !self.clip.is_empty() {
            self.clipped.clear();
            self.clipped.extend(columns.actions.iter().map(|action| self.clip.apply(action)));
            actions = &self.clipped;
        }
        self.sim.step(BatchStep {
            actions,
            observations: columns.observations,
            rewards: bytemuck::cast_slice_mut(columns.rewards),
            ends: columns.ends,
            masks: columns.masks,
            streams: columns.streams,
        });
    }

    /// Adds the engine's ends, keeps last observations and resets what ended.
    fn close(
        &mut self,
        columns: &mut Columns<'_, S>,
        cut_from: u32,
        report: &TickReport<S>,
        current: &Cell<usize>,
        call: &Cell<&'static str>,
    ) {
        let Columns { streams, episodes, rows, steps, observations, lasts, masks, rewards, ends, .. } = columns;
        for i in 0..rows.len() {
            let is_finite = finite(rewards[i].0) & observations[i].is_finite();
            let at_limit = steps[i].0 >= self.limit.wrapping_sub(1);
            ends[i] = close_frame(ends[i], is_finite, at_limit, i as u32 >= cut_from);
        }
        let simulations = rows.len() / self.agents;
        if self.agents > 1 {
            end_together(ends, simulations);
        }
        call.set("reset");
        // What ended for one agent ended for all.
        End::each_done(&ends[..simulations], |first| {
            for i in (first..rows.len()).step_by(simulations) {
                current.set(i);
                if ends[i] == End::QUARANTINED {
                    report.quarantined(1);
                } else {
                    lasts[i] = observations[i];
                }
                episodes[i].0 += 1;
                streams[i].start_episode(episodes[i].0);
                self.sim.reset(i, &self.options, &mut streams[i], &mut observations[i], &mut masks[i]);
                if !observations[i].is_finite() {
                    let (row, episode) = (rows[i].0, episodes[i].0);
                    report.fail(row, Error::reset_not_finite(&observations[i], row, episode, self.seed.0));
                }
            }
        });
    }
}
