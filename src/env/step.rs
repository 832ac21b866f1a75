//! The Step stage of environments that are stepped row by row.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bevy_ecs::prelude::*;

use super::{Env, clip::ActionClip};
use crate::{
    components::{
        Action, ActionMask, End, Episode, EpisodeStep, LastObservation, Observation, Parallelism, Reward, RowIndex,
        Slot, TickPlan, TickReport, Truncation,
    },
    data::Data,
    error::{Error, panic_message},
    seed::{Seed, Stream},
};

/// What all rows of an environment share.
#[derive(Resource)]
pub(crate) struct EnvSettings<E: Env> {
    /// Options of automatic resets.
    pub options: E::Options,
    /// Frames after which an episode is truncated; `u32::MAX` for none.
    pub limit: u32,
    /// Bounds of continuous actions.
    pub clip: ActionClip,
    /// Master seed, for error messages.
    pub seed: Seed,
    /// Worker, for error messages.
    pub worker: u32,
}

type StepColumns<E> = (
    (&'static mut E, &'static mut Stream, &'static mut Episode),
    (&'static Action<E>, &'static EpisodeStep, &'static RowIndex, &'static Slot),
    (&'static mut Observation<E>, &'static mut LastObservation<E>, &'static mut ActionMask<E>),
    (&'static mut Reward, &'static mut End),
);

/// Steps all active rows, applies limits, keeps real last observations and resets what ended.
pub(crate) fn step_rows<E: Env>(
    mut rows: Query<StepColumns<E>>,
    settings: Res<EnvSettings<E>>,
    plan: Res<TickPlan<E>>,
    report: Res<TickReport<E>>,
    parallelism: Res<Parallelism>,
) {
    if report.failed() {
        return;
    }
    let tick = Tick { settings: &settings, report: &report, cut: plan.cut };
    // Rows are never sparse-set components, so the query is dense.
    let Ok(chunks) = rows.contiguous_iter_mut() else { return };
    for ((mut envs, mut streams, mut episodes), (actions, steps, rows, slots), mut written, (mut rewards, mut ends)) in
        chunks
    {
        let chunk = Rows {
            envs: envs.bypass_change_detection(),
            streams: streams.bypass_change_detection(),
            episodes: episodes.bypass_change_detection(),
            actions: Action::values(actions),
            steps,
            rows,
            observations: Observation::values_mut(written.0.bypass_change_detection()),
            lasts: LastObservation::values_mut(written.1.bypass_change_detection()),
            masks: ActionMask::values_mut(written.2.bypass_change_detection()),
            rewards: rewards.bypass_change_detection(),
            ends: ends.bypass_change_detection(),
        };
        if plan.active as usize >= slots.len() && slots.iter().all(|slot| slot.0 < plan.active) {
            let least =
                if parallelism.splits(slots.len(), parallelism.step_rows) { parallelism.step_rows } else { usize::MAX };
            tick.spread(chunk, least);
        } else {
            tick.step_some(chunk, slots, plan.active);
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

/// Slices of equal length over the columns of a run of rows.
struct Rows<'a, E: Env> {
    envs: &'a mut [E],
    streams: &'a mut [Stream],
    episodes: &'a mut [Episode],
    actions: &'a [E::Action],
    steps: &'a [EpisodeStep],
    rows: &'a [RowIndex],
    observations: &'a mut [E::Observation],
    lasts: &'a mut [E::Observation],
    masks: &'a mut [E::Mask],
    rewards: &'a mut [Reward],
    ends: &'a mut [End],
}

impl<'a, E: Env> Rows<'a, E> {
    fn split_at(self, mid: usize) -> (Rows<'a, E>, Rows<'a, E>) {
        macro_rules! halves {
            (mut: $($m:ident),*; ref: $($r:ident),*) => {{
                $( let $m = self.$m.split_at_mut(mid); )*
                $( let $r = self.$r.split_at(mid); )*
                (Rows { $($m: $m.0,)* $($r: $r.0,)* }, Rows { $($m: $m.1,)* $($r: $r.1,)* })
            }};
        }
        halves!(mut: envs, streams, episodes, observations, lasts, masks, rewards, ends; ref: actions, steps, rows)
    }
}

struct Tick<'a, E: Env> {
    settings: &'a EnvSettings<E>,
    report: &'a TickReport<E>,
    cut: bool,
}

impl<E: Env> Tick<'_, E> {
    /// Halves the rows until a half would be smaller than `least`, and steps the pieces on the pool.
    fn spread(&self, rows: Rows<'_, E>, least: usize) {
        let n = rows.envs.len();
        if n / 2 < least {
            return self.guarded(rows);
        }
        let (left, right) = rows.split_at(n / 2);
        rayon::join(|| self.spread(left, least), || self.spread(right, least));
    }

    /// The budget's last tick: steps only rows whose slot is below `active`.
    fn step_some(&self, mut rows: Rows<'_, E>, slots: &[Slot], active: u32) {
        for slot in slots {
            let (mut row, rest) = rows.split_at(1);
            if slot.0 < active {
                self.guarded(row);
            } else {
                row.ends[0] = End::RUNNING;
                row.rewards[0] = Reward(0.0);
                let _idle = &mut row;
            }
            rows = rest;
        }
    }

    /// Steps a chunk; a panic of user code becomes the tick's error, with the row that it came from.
    fn guarded(&self, mut rows: Rows<'_, E>) {
        let (current, call) = (Cell::new(0), Cell::new("step"));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            if self.settings.clip.is_empty() {
                self.step(&mut rows, &current, |action| *action);
            } else {
                self.step(&mut rows, &current, |action| self.settings.clip.apply(action));
            }
            self.reset_ended(&mut rows, &current, &call);
        }));
        let stepped = if call.get() == "step" && caught.is_err() { current.get() } else { rows.envs.len() };
        self.report.stepped(stepped as u64);
        if let Err(payload) = caught {
            let i = current.get();
            let error = Error::EnvPanic {
                call: call.get(),
                message: panic_message(payload),
                worker: self.settings.worker,
                row: rows.rows[i].0,
                episode: rows.episodes[i].0,
                step: match call.get() {
                    "step" => rows.steps[i].0,
                    // The mask is that of the coming frame.
                    "action_mask" if !rows.ends[i].done() => rows.steps[i].0 + 1,
                    _ => 0,
                },
                seed: self.settings.seed.0,
            };
            self.report.fail(rows.rows[i].0, error);
        }
    }

    /// Steps every row of the chunk. Nothing is reset here, so that the loop stays free of rare branches.
    #[inline(always)]
    fn step(&self, rows: &mut Rows<'_, E>, current: &Cell<usize>, clip: impl Fn(&E::Action) -> E::Action) {
        let n = rows.envs.len();
        let (envs, streams, actions) = (&mut rows.envs[..n], &mut rows.streams[..n], &rows.actions[..n]);
        let (observations, rewards, ends) = (&mut rows.observations[..n], &mut rows.rewards[..n], &mut rows.ends[..n]);
        let steps = &rows.steps[..n];
        let last = self.settings.limit.wrapping_sub(1);
        for i in 0..n {
            current.set(i);
            let transition = envs[i].step(&clip(&actions[i]), &mut streams[i]);
            let end = End::from_env(transition.terminated, transition.truncated);
            let finite = crate::data::finite(transition.reward) & transition.observation.is_finite();
            ends[i] = close_frame(end, finite, steps[i].0 >= last, self.cut);
            rewards[i] = Reward(transition.reward);
            observations[i] = transition.observation;
        }
    }

    /// Keeps the last observation of ended rows and starts their next episode.
    #[inline(always)]
    fn reset_ended(&self, rows: &mut Rows<'_, E>, current: &Cell<usize>, call: &Cell<&'static str>) {
        for i in 0..rows.ends.len() {
            if !rows.ends[i].done() {
                continue;
            }
            current.set(i);
            if rows.ends[i] == End::QUARANTINED {
                self.report.quarantined(1);
            } else {
                rows.lasts[i] = rows.observations[i];
            }
            call.set("reset");
            rows.episodes[i].0 += 1;
            rows.streams[i].start_episode(rows.episodes[i].0);
            rows.observations[i] = rows.envs[i].reset(&self.settings.options, &mut rows.streams[i]);
            if !rows.observations[i].is_finite() {
                self.report.fail(rows.rows[i].0, self.not_finite(rows, i));
            }
        }
        if size_of::<E::Mask>() > 0 {
            call.set("action_mask");
            for i in 0..rows.envs.len() {
                current.set(i);
                rows.envs[i].action_mask(&mut rows.masks[i]);
            }
        }
    }

    fn not_finite(&self, rows: &Rows<'_, E>, i: usize) -> Error {
        Error::ResetNotFinite {
            value: format!("{:?}", rows.observations[i]),
            row: rows.rows[i].0,
            episode: rows.episodes[i].0,
            seed: self.settings.seed.0,
        }
    }
}
