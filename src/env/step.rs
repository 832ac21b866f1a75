//! The Step stage of environments that are stepped row by row.

use std::{
    cell::Cell,
    cmp::Ordering,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bevy_ecs::{prelude::*, query::ArchetypeFilter};
use pulp::Arch;

use super::{
    Env,
    clip::ActionClip,
    faults::{Rebuild, Start},
    mask::MaskParts,
    strip::{Rows, STRIP, StepAll, close},
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

struct Tick<'a, E: Env> {
    settings: &'a EnvSettings<E>,
    report: &'a TickReport<E>,
    cut: bool,
    version: u64,
}

impl<E: Env> Tick<'_, E> {
    /// Halves the rows until a half would be smaller than `least`, and steps the pieces on the pool.
    fn spread(&self, mut rows: Rows<'_, E>, least: usize) {
        let n = rows.envs.len();
        if n / 2 < least {
            return self.step_strips(rows);
        }
        let (left, right) = (rows.split_off(n / 2), rows);
        Threads::join(|| self.spread(left, least), || self.spread(right, least));
    }

    /// Steps rows strip by strip, until one panics.
    fn step_strips(&self, mut rest: Rows<'_, E>) {
        while !rest.envs.is_empty() {
            let strip = rest.split_off(rest.envs.len().min(STRIP));
            if let Some(frames) = &rest.frames {
                frames.fetch(STRIP);
            }
            if !self.guarded(strip) {
                return;
            }
        }
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

    /// Steps a strip. A panic of user code becomes the tick's error, with the row that it came from, or that row starts
    /// anew. Whether the rows behind are to be stepped.
    fn guarded(&self, mut rows: Rows<'_, E>) -> bool {
        let current = Cell::new(0_u32);
        if let Some(frames) = &mut rows.frames {
            frames.open(rows.actions, rows.steps, rows.ids, self.version);
        }
        if self.settings.rebuild.is_wanted() {
            // So that a panic shows which rows have an outcome.
            rows.ends.fill(End::IDLE);
        }
        let stepped = catch_unwind(AssertUnwindSafe(|| {
            let (settings, cut, rows, current) = (self.settings, self.cut, &mut rows, &current);
            if self.settings.clip.is_empty() {
                let clip = |action: &E::Action| *action;
                self.settings.arch.dispatch(StepAll { settings, cut, rows, current, clip });
            } else {
                let clip = |action: &E::Action| self.settings.clip.apply(action);
                self.settings.arch.dispatch(StepAll { settings, cut, rows, current, clip });
            }
        }));
        let Err(payload) = stepped else { return self.finish(rows) };
        let (panicked, message) = (current.get() as usize, panic_message(payload));
        if self.settings.rebuild.is_wanted() {
            self.step_on(rows, panicked, &message);
            return true;
        }
        self.report.fail(rows.rows[panicked].0, self.error("step", message, &rows, panicked));
        // The rows before it go on: one of them may have an error of its own, and the lowest row's is the one that
        // counts, however rows are spread over threads.
        self.finish(rows.split_off(panicked));
        false
    }

    /// Starts the next episodes of rows that were stepped, and hands their frames over. Whether the rows behind are to be
    /// stepped.
    fn finish(&self, mut rows: Rows<'_, E>) -> bool {
        self.report.stepped(rows.envs.len() as u64);
        let (current, call, mut faults) = (Cell::new(0), Cell::new("reset"), Vec::new());
        let reset = catch_unwind(AssertUnwindSafe(|| self.reset_ended(&mut rows, &current, &call, &mut faults)));
        if let Err(payload) = reset {
            let (i, call) = (current.get() as usize, call.get());
            let error = self.error(call, panic_message(payload), &rows, i);
            if !self.settings.rebuild.is_wanted() {
                faults.into_iter().for_each(|(i, error)| self.lose(&mut rows, i, error));
                self.lose(&mut rows, i, error);
                return false;
            }
            faults.push((i, error));
            self.start_others(&mut rows, i, call, &mut faults);
        }
        if !faults.is_empty() {
            // Of one row the first one counts.
            faults.sort_by_key(|(i, _)| *i);
            faults.dedup_by_key(|(i, _)| *i);
            faults.into_iter().for_each(|(i, error)| self.lose(&mut rows, i, error));
        }
        if let Some(frames) = &mut rows.frames {
            frames.close(rows.observations, rows.rewards, rows.ends);
        }
        true
    }

    /// Goes on behind a panic in a step: row by row, so that those behind have their turn.
    #[cold]
    fn step_on(&self, mut rows: Rows<'_, E>, panicked: usize, message: &str) {
        for i in 0..rows.envs.len() {
            let mut row = rows.split_off(1);
            if i > panicked {
                self.guarded(row);
            } else if row.ends[0] != End::IDLE {
                close(self.settings, self.cut, &mut row);
                self.finish(row);
            } else {
                // An environment that steps many rows side by side may lose some together.
                self.report.stepped(1);
                row.ends[0] = End::RUNNING;
                let error = self.error("step", message.into(), &row, 0);
                self.lose(&mut row, 0, error);
                if let Some(frames) = &mut row.frames {
                    frames.close(row.observations, row.rewards, row.ends);
                }
            }
        }
    }

    /// Goes on behind a panic of row `panicked` in a reset or a mask: the rows have their turn that have not had it.
    #[cold]
    fn start_others(&self, rows: &mut Rows<'_, E>, panicked: usize, call: &str, faults: &mut Vec<(usize, Error)>) {
        let resets = call == "reset";
        if resets {
            self.find_broken(rows, panicked, faults);
        }
        for i in 0..rows.envs.len() {
            let begun = match i.cmp(&panicked) {
                Ordering::Greater if resets && rows.ends[i].done() => self.settings.start(&mut start_of(rows, i)),
                Ordering::Less if !resets => continue,
                Ordering::Equal => continue,
                _ => {
                    let step = if rows.ends[i].done() { 0 } else { rows.steps[i].0 + 1 };
                    let place = (rows.rows[i].0, rows.episodes[i].0, step);
                    self.settings.look(&rows.envs[i], &mut rows.masks[i], place)
                }
            };
            faults.extend(begun.err().map(|error| (i, error)));
        }
    }

    /// Row `i` failed in this tick: its frame is lost and it starts anew, or the tick ends with the error.
    #[cold]
    fn lose(&self, rows: &mut Rows<'_, E>, i: usize, error: Error) {
        let row = rows.rows[i].0;
        if !self.settings.rebuild.is_wanted() {
            return self.report.fail(row, error);
        }
        let end = std::mem::replace(&mut rows.ends[i], End::QUARANTINED);
        rows.rewards[i] = Reward(0.0);
        if end != End::QUARANTINED {
            self.report.quarantined(1);
        }
        // Behind an end the next episode has its number already.
        let since = (rows.episodes[i].0.wrapping_sub(u32::from(end.done())), rows.steps[i].0);
        if let Err(error) = self.settings.restart(&mut start_of(rows, i), since, error) {
            self.report.fail(row, error);
        }
    }

    #[cold]
    fn error(&self, call: &'static str, message: String, rows: &Rows<'_, E>, i: usize) -> Error {
        Error::EnvPanic {
            call,
            message,
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
        }
    }

    /// Keeps the last observation of ended rows and starts their next episode.
    #[inline(always)]
    fn reset_ended(
        &self,
        rows: &mut Rows<'_, E>,
        current: &Cell<u32>,
        call: &Cell<&'static str>,
        faults: &mut Vec<(usize, Error)>,
    ) {
        let Rows { envs, streams, episodes, observations, lasts, ends, .. } = rows;
        // First what touches columns that ticks leave alone, for all rows: the memory answers many short turns together,
        // but not many resets.
        End::each_done(ends, |i| {
            if ends[i] == End::QUARANTINED {
                self.report.quarantined(1);
            } else {
                lasts[i] = observations[i];
            }
            episodes[i].0 += 1;
            streams[i].start_episode(episodes[i].0);
        });
        let mut broken = false;
        End::each_done(ends, |i| {
            current.set(i as u32);
            observations[i] = envs[i].reset(&self.settings.options, &mut streams[i]);
            broken |= !observations[i].is_finite();
        });
        if broken {
            self.find_broken(rows, rows.envs.len(), faults);
        }
        if size_of::<E::Mask>() > 0 {
            call.set("action_mask");
            for i in 0..rows.envs.len() {
                current.set(i as u32);
                rows.envs[i].action_mask(&mut rows.masks[i]);
                let step = if rows.ends[i].done() { 0 } else { rows.steps[i].0 + 1 };
                let (row, episode) = (rows.rows[i].0, rows.episodes[i].0);
                if let Err(error) = self.settings.masks.check(&rows.masks[i], row, episode, step) {
                    faults.push((i, error));
                }
            }
        }
    }

    /// Those of the first `n` rows that have reset to an observation that is not finite.
    #[cold]
    fn find_broken(&self, rows: &Rows<'_, E>, n: usize, faults: &mut Vec<(usize, Error)>) {
        for i in (0..n).filter(|i| rows.ends[*i].done() && !rows.observations[*i].is_finite()) {
            let (row, episode, seed) = (rows.rows[i].0, rows.episodes[i].0, self.settings.seed.0);
            faults.push((i, Error::reset_not_finite(&rows.observations[i], row, episode, seed)));
        }
    }
}

/// The columns of row `i`.
fn start_of<'r, E: Env>(rows: &'r mut Rows<'_, E>, i: usize) -> Start<'r, E> {
    Start {
        row: rows.rows[i].0,
        env: &mut rows.envs[i],
        stream: &mut rows.streams[i],
        episode: &mut rows.episodes[i].0,
        observation: &mut rows.observations[i],
        mask: &mut rows.masks[i],
    }
}
