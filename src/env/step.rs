//! The Step stage of environments that are stepped row by row.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bevy_ecs::{prelude::*, query::ArchetypeFilter};
use pulp::Arch;

use super::{
    Env,
    clip::ActionClip,
    mask::MaskParts,
    strip::{Rows, STRIP, StepRows},
};
use crate::{
    components::{
        Action, ActionMask, End, Episode, EpisodeStep, Lane, LastObservation, LowerRows, Observation, Recording,
        Reward, RolloutSlot, RowIndex, Slot, Threads, TickPlan, TickReport, TrajectoryId, Truncation, UpperRows,
    },
    data::Data,
    error::{Error, panic_message},
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
            frames: if all { rollout.as_mut().and_then(|rollout| rollout.lend(slots)) } else { None },
        };
        if all {
            let least = plan.parallelism.step_rows;
            let least = if plan.parallelism.splits(slots.len(), least) { least } else { usize::MAX };
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

/// Where user code is, for the message of a panic.
pub(super) struct Place {
    call: Cell<&'static str>,
    /// The strip's first row.
    first: Cell<usize>,
    /// The row of the strip. Not a `usize`: the loop over steps writes it in every turn, and the widest number that a loop
    /// writes bounds how many rows a register holds.
    row: Cell<u32>,
    /// Rows that were stepped.
    stepped: Cell<usize>,
}

impl Place {
    fn new() -> Self {
        Self { call: Cell::new("step"), first: Cell::new(0), row: Cell::new(0), stepped: Cell::new(0) }
    }

    /// The steps of the strip from row `first` on.
    #[inline(always)]
    pub(super) fn begin(&self, first: usize) {
        self.call.set("step");
        self.first.set(first);
        self.row.set(0);
    }

    /// User code is called for this row of the strip.
    #[inline(always)]
    pub(super) fn at(&self, row: usize) {
        self.row.set(row as u32);
    }

    /// The steps of so many more rows are done.
    #[inline(always)]
    fn stepped(&self, rows: usize) {
        self.stepped.set(self.stepped.get() + rows);
    }

    fn row(&self) -> usize {
        self.first.get() + self.row.get() as usize
    }
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

    /// Steps rows, until one panics; a panic of user code becomes the tick's error, with the row that it came from.
    fn guarded(&self, mut rows: Rows<'_, E>) {
        let at = Place::new();
        let stepped = catch_unwind(AssertUnwindSafe(|| {
            let (tick, rows, at, arch) = (self, &mut rows, &at, self.settings.arch);
            if self.settings.clip.is_empty() {
                let clip = |action: &E::Action| *action;
                arch.dispatch(StepRows { tick, rows, at, clip });
            } else {
                let clip = |action: &E::Action| self.settings.clip.apply(action);
                arch.dispatch(StepRows { tick, rows, at, clip });
            }
        }));
        if let Err(payload) = stepped {
            self.failed(&at, payload, &mut rows);
        }
        // Once for all rows: it waits for everything that was written to reach the caches.
        self.report.stepped(at.stepped.get() as u64);
    }

    #[cold]
    fn failed(&self, at: &Place, payload: Box<dyn Any + Send>, rows: &mut Rows<'_, E>) {
        self.fail(at, payload, rows);
        if at.call.get() == "step" {
            // The rows before it in its strip go on: one of them may have an error of its own, and the lowest row's is the
            // one that counts, however rows are spread over threads.
            let mut before = rows.part(at.first.get()..at.row());
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.finish(&mut before, at))) {
                self.fail(at, payload, rows);
            }
        }
    }

    fn fail(&self, at: &Place, payload: Box<dyn Any + Send>, rows: &Rows<'_, E>) {
        let (call, i) = (at.call.get(), at.row());
        let error = Error::EnvPanic {
            call,
            message: panic_message(payload),
            worker: self.settings.worker,
            row: rows.rows[i].0,
            episode: rows.episodes[i].0,
            step: match call {
                "step" => rows.steps[i].0,
                // The mask is that of the coming frame.
                "action_mask" if !rows.ends[i].done() => rows.steps[i].0 + 1,
                _ => 0,
            },
            seed: self.settings.seed.0,
        };
        self.report.fail(rows.rows[i].0, error);
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
    }

    #[inline(always)]
    fn reset_ended(&self, rows: &mut Rows<'_, E>, ended: &[u8], at: &Place) {
        let Rows { envs, streams, episodes, observations, lasts, ends, frames, .. } = rows;
        let ended = ended.iter().map(|place| usize::from(*place));
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
        let mut broken = None;
        let taken = ended.inspect(|i| at.at(*i));
        E::reset_many(envs, streams, &self.settings.options, taken, |i, observation| {
            observations[i] = observation;
            if let Some(frames) = frames {
                frames.observations[i] = observation;
            }
            if !observation.is_finite() && broken.is_none() {
                broken = Some(i);
            }
        });
        // The lowest row's error is the one that counts.
        if let Some(i) = broken {
            let (row, episode) = (rows.rows[i].0, rows.episodes[i].0);
            self.report.fail(row, Error::reset_not_finite(&rows.observations[i], row, episode, self.settings.seed.0));
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
                self.report.fail(row, error);
            }
        }
    }
}
