//! The Step stage of environments that are stepped row by row.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bevy_ecs::{prelude::*, query::ArchetypeFilter};
use pulp::Arch;

use super::{
    Env,
    clip::ActionClip,
    failed::Place,
    faults::Rebuild,
    mask::MaskParts,
    strip::{Rows, STRIP, StepRows},
};
use crate::{
    components::{
        Action, ActionMask, End, Episode, EpisodeStep, Lane, LastObservation, LowerRows, Observation, Recording,
        Reward, RolloutSlot, RowIndex, Slot, Threads, TickPlan, TickReport, TrajectoryId, Truncation, UpperRows,
    },
    data::Data,
    schedule::{LaneSystems, TaskSystems},
    seed::{Seed, Stream},
};

/// What all rows of an environment share.
#[derive(Resource)]
pub(crate) struct EnvSettings<E: Env> {
    /// Options of automatic resets.
    pub options: E::Options,
    /// Frames after which an episode is truncated; `u32::MAX` for none.
    pub limit: u32,
    /// Parts of the action mask.
    pub masks: MaskParts,
    /// Bounds of continuous actions.
    pub clip: ActionClip,
    /// Master seed, for error messages.
    pub seed: Seed,
    /// Worker, for error messages.
    pub worker: u32,
    /// The instruction set that steps are compiled for.
    pub arch: Arch,
    /// Whether observations are floats and nothing else.
    pub floats: bool,
    /// What rows that fail are built anew of.
    pub(super) rebuild: Rebuild<E>,
}

type StepColumns<E> = (
    (&'static mut E, &'static mut Stream, &'static mut Episode),
    (&'static Action<E>, &'static EpisodeStep, &'static RowIndex, &'static Slot, &'static TrajectoryId),
    (&'static mut Observation<E>, &'static mut LastObservation<E>, &'static mut ActionMask<E>),
    (&'static mut Reward, &'static mut End),
);

/// Steps all active rows.
pub(crate) fn step_rows<E: Env>(
    rows: Query<StepColumns<E>>,
    settings: Res<EnvSettings<E>>,
    plan: Res<TickPlan<E>>,
    report: Res<TickReport<E>>,
    mut rollout: ResMut<RolloutSlot<E>>,
) {
    step(rows, &settings, &plan, &report, rollout.0.as_deref_mut());
}

/// Adds the systems that step two lanes.
pub(super) fn install_lanes<E: Env>(schedule: &mut Schedule) {
    let lower = step_lane::<E, LowerRows>.in_set(LaneSystems::StepLower);
    let upper = step_lane::<E, UpperRows>.in_set(LaneSystems::StepUpper);
    schedule.add_systems((lower, upper).in_set(TaskSystems::of::<E>()));
}

/// Steps all active rows of a lane. Two of them step side by side, so neither holds the rollout: Record writes it.
fn step_lane<E: Env, L: Lane>(
    rows: Query<StepColumns<E>, L::Rows>,
    settings: Res<EnvSettings<E>>,
    plan: Res<TickPlan<E>>,
    report: Res<TickReport<E>>,
) {
    step(rows, &settings, &plan, &report, None);
}

/// Steps all active ones of `rows`, applies limits, keeps real last observations and resets what ended.
fn step<E: Env, F: ArchetypeFilter>(
    mut rows: Query<StepColumns<E>, F>,
    settings: &EnvSettings<E>,
    plan: &TickPlan<E>,
    report: &TickReport<E>,
    mut rollout: Option<&mut dyn Recording<E>>,
) {
    if report.failed() {
        return;
    }
    let tick = Tick { settings, report, cut: plan.cut_from == 0, version: plan.versions.get(0) };
    // Rows are never sparse-set components, so the query is dense.
    let Ok(chunks) = rows.contiguous_iter_mut() else { return };
    for (
        (mut envs, mut streams, mut episodes),
        (actions, steps, rows, slots, ids),
        mut written,
        (mut rewards, mut ends),
    ) in chunks
    {
        let all = plan.active == u32::MAX || slots.iter().all(|slot| slot.0 < plan.active);
        let all = all && matches!(plan.cut_from, 0 | u32::MAX);
        let least = plan.parallelism.step_rows;
        let split = plan.parallelism.splits(slots.len(), least);
        let chunk = Rows {
            envs: envs.bypass_change_detection(),
            streams: streams.bypass_change_detection(),
            episodes: episodes.bypass_change_detection(),
            actions: Action::values(actions),
            steps,
            rows,
            ids,
            observations: Observation::values_mut(written.0.bypass_change_detection()),
            lasts: LastObservation::values_mut(written.1.bypass_change_detection()),
            masks: ActionMask::values_mut(written.2.bypass_change_detection()),
            rewards: rewards.bypass_change_detection(),
            ends: ends.bypass_change_detection(),
            frames: if all {
                rollout.as_mut().and_then(|rollout| rollout.lend(slots, tick.version, split))
            } else {
                None
            },
        };
        if all {
            let least = if split { least } else { usize::MAX };
            Threads::enter(plan.threads.as_ref(), || tick.spread(chunk, least));
        } else {
            tick.step_some(chunk, slots, plan);
        }
    }
}

/// The end of a frame, with what the engine adds to the environment's flags.
#[inline(always)]
pub(super) fn close_frame(own: End, finite: bool, at_limit: bool, cut: bool) -> End {
    let limited = if at_limit { own.or_truncated(Truncation::StepLimit) } else { own };
    let end = if cut { limited.or_truncated(Truncation::ForcedReset) } else { limited };
    if finite { end } else { End::QUARANTINED }
}

/// What the rows of a tick share.
pub(super) struct Tick<'a, E: Env> {
    pub settings: &'a EnvSettings<E>,
    pub report: &'a TickReport<E>,
    /// Whether every episode is cut.
    pub cut: bool,
    pub version: u64,
}

impl<E: Env> Tick<'_, E> {
    /// Halves the rows until a half would be smaller than `least`, and steps the pieces on the pool.
    fn spread(&self, mut rows: Rows<'_, E>, least: usize) {
        let n = rows.envs.len();
        if n / 2 < least {
            return self.guarded(rows);
        }
        let (left, right) = (rows.split_off(n / 2), rows);
        Threads::join(|| self.spread(left, least), || self.spread(right, least));
    }

    /// The budget's last ticks: not all rows act, or not all are cut.
    fn step_some(&self, mut rows: Rows<'_, E>, slots: &[Slot], plan: &TickPlan<E>) {
        for slot in slots {
            let row = rows.split_off(1);
            if slot.0 < plan.active {
                Tick { cut: slot.0 >= plan.cut_from, ..*self }.guarded(row);
            } else {
                row.ends[0] = End::RUNNING;
                row.rewards[0] = Reward(0.0);
            }
        }
    }

    /// Steps rows; a panic of user code becomes the tick's error, with the row that it came from, or that row starts anew.
    pub(super) fn guarded(&self, mut rows: Rows<'_, E>) {
        let (at, n) = (Place::new(), rows.envs.len());
        let mut next = 0;
        while next < n {
            let stepped = catch_unwind(AssertUnwindSafe(|| {
                let (tick, rows, at, arch) = (self, &mut rows, &at, self.settings.arch);
                if self.settings.clip.is_empty() {
                    let clip = |action: &E::Action| *action;
                    arch.dispatch(StepRows { tick, rows, next, at, clip });
                } else {
                    let clip = |action: &E::Action| self.settings.clip.apply(action);
                    arch.dispatch(StepRows { tick, rows, next, at, clip });
                }
            }));
            let Err(payload) = stepped else { break };
            let first = at.first.get();
            next = (first + STRIP).min(n);
            if !self.failed(rows.part(first..next), &at, payload) {
                break;
            }
        }
        // Once for all rows: it waits for everything that was written to reach the caches.
        self.report.stepped(at.stepped.get() as u64);
    }

    /// What follows the steps of a strip: keeps the last observation of ended rows and starts their next episode.
    #[inline(always)]
    pub(super) fn finish(&self, rows: &mut Rows<'_, E>, at: &Place) {
        at.stepped(rows.envs.len());
        let mut places = [0_u8; STRIP];
        let mut count = 0;
        End::each_done(rows.ends, |i| {
            places[count] = i as u8;
            count += 1;
        });
        let ended = &places[..count];
        if !ended.is_empty() {
            self.reset_ended(rows, ended, at);
        }
        if size_of::<E::Mask>() > 0 {
            self.write_masks(rows, at);
        }
        if !at.faults.borrow().is_empty() {
            self.lose(rows, at.faults.take());
        }
    }

    /// Writes what is missing of a strip's frames.
    #[inline(always)]
    pub(super) fn close(&self, rows: &mut Rows<'_, E>) {
        if let Some(frames) = &mut rows.frames {
            frames.close(rows.actions, rows.ends, rows.steps, rows.ids, self.version);
        }
    }

    #[inline(always)]
    fn reset_ended(&self, rows: &mut Rows<'_, E>, ended: &[u8], at: &Place) {
        let Rows { envs, streams, episodes, observations, lasts, ends, frames, .. } = rows;
        let mut ended = ended.iter().map(|place| usize::from(*place));
        // First what touches columns that ticks leave alone, for all rows: the memory answers many short turns together,
        // but not many resets.
        for i in ended.clone() {
            if ends[i] == End::QUARANTINED {
                self.report.quarantined(1);
            } else {
                lasts[i] = observations[i];
            }
            episodes[i].0 += 1;
            streams[i].start_episode(episodes[i].0);
        }
        at.call.set("reset");
        let (all, mut broken) = (ended.clone(), false);
        ended.next().into_iter().for_each(|first| at.at(first));
        E::reset_many(envs, streams, &self.settings.options, all, |i, observation| {
            observations[i] = observation;
            if let Some(frames) = frames {
                frames.observations[i] = observation;
            }
            broken |= !observation.is_finite();
            ended.next().into_iter().for_each(|next| at.at(next));
        });
        if broken {
            self.find_broken(rows, rows.envs.len(), &mut at.faults.borrow_mut());
        }
    }

    #[inline(always)]
    fn write_masks(&self, rows: &mut Rows<'_, E>, at: &Place) {
        at.call.set("action_mask");
        for i in 0..rows.envs.len() {
            at.at(i);
            rows.envs[i].action_mask(&mut rows.masks[i]);
            let step = if rows.ends[i].done() { 0 } else { rows.steps[i].0 + 1 };
            let (row, episode) = (rows.rows[i].0, rows.episodes[i].0);
            if let Err(error) = self.settings.masks.check(&rows.masks[i], row, episode, step) {
                at.faults.borrow_mut().push((i, error));
            }
        }
    }
}
