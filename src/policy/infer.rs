//! The Infer stage: an action for every active row.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
};

use bevy_ecs::prelude::*;

use super::{
    actor::{Actor, ActorKind, Lane, NetworkActor},
    check::check_actions,
    evaluate::encode,
    plan::{Exploration, Forward, Memory, Outcome, States},
    policy::ActFunction,
    random::random_actions,
};
use crate::{
    components::{
        Action, ActionKey, ActionMask, Episode, EpisodeStep, LogProb, Masks, Observation, Parallelism, RowIndex, Slot,
        Threads, TickPlan, TickReport, Value,
    },
    error::{Error, panic_message},
    seed::Streams,
    task::Task,
};

type InferColumns<T> = (
    (&'static Observation<T>, &'static ActionMask<T>),
    (&'static ActionKey, &'static Episode, &'static EpisodeStep, &'static RowIndex, &'static Slot),
    (&'static mut Action<T>, &'static mut LogProb, &'static mut Value),
);

/// Slices of equal length over the columns of a run of rows.
pub(super) struct Rows<'a, T: Task> {
    pub observations: &'a [T::Observation],
    pub masks: &'a [T::Mask],
    pub keys: &'a [ActionKey],
    pub episodes: &'a [Episode],
    pub steps: &'a [EpisodeStep],
    pub rows: &'a [RowIndex],
    pub slots: &'a [Slot],
    pub actions: &'a mut [T::Action],
    pub log_probs: &'a mut [LogProb],
    pub values: &'a mut [Value],
}

impl<'a, T: Task> Rows<'a, T> {
    pub(super) fn split_at(self, mid: usize) -> (Rows<'a, T>, Rows<'a, T>) {
        macro_rules! halves {
            (mut: $($m:ident),*; ref: $($r:ident),*) => {{
                $( let $m = self.$m.split_at_mut(mid); )*
                $( let $r = self.$r.split_at(mid); )*
                (Rows { $($m: $m.0,)* $($r: $r.0,)* }, Rows { $($m: $m.1,)* $($r: $r.1,)* })
            }};
        }
        halves!(mut: actions, log_probs, values; ref: observations, masks, keys, episodes, steps, rows, slots)
    }

    fn streams(&self) -> Streams<'a> {
        Streams::new(self.keys, self.episodes, self.steps)
    }
}

/// Acts for all active rows of a task.
pub(crate) fn infer<T: Task>(
    actor: Single<&mut Actor<T>>,
    mut rows: Query<InferColumns<T>>,
    plan: Res<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    let mut actor = actor.into_inner();
    actor.ticks += 1;
    if let ActorKind::Network(network) = &mut actor.kind
        && network.states.width() > 0
    {
        let all = rows.iter().map(|(_, (key, episode, step, _, slot), _)| ((slot, key, episode), step));
        network.states.follow(all);
    }
    let Ok(chunks) = rows.contiguous_iter_mut() else { return };
    for ((observations, masks), (keys, episodes, steps, rows, slots), (mut actions, mut log_probs, mut values)) in
        chunks
    {
        let mut rest = Rows {
            observations: Observation::values(observations),
            masks: ActionMask::values(masks),
            keys,
            episodes,
            steps,
            rows,
            slots,
            actions: Action::values_mut(actions.bypass_change_detection()),
            log_probs: log_probs.bypass_change_detection(),
            values: values.bypass_change_detection(),
        };
        // Rows of one role are one run; with rows in slot order that is at most three.
        while !rest.slots.is_empty() {
            let role = role(rest.slots[0], &plan);
            let all = plan.random == 0 && plan.active == u32::MAX;
            let same = if all { None } else { rest.slots.iter().position(|slot| self::role(*slot, &plan) != role) };
            let end = same.unwrap_or(rest.slots.len());
            let (run, behind) = rest.split_at(end);
            match role {
                Role::Random => actor.act_at_random(run),
                Role::Policy => Threads::enter(plan.threads.as_ref(), || actor.act(run, &report, &plan.parallelism)),
                Role::Idle => {}
            }
            rest = behind;
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Random,
    Policy,
    Idle,
}

fn role<T>(slot: Slot, plan: &TickPlan<T>) -> Role {
    if slot.0 >= plan.active {
        Role::Idle
    } else if slot.0 < plan.random {
        Role::Random
    } else {
        Role::Policy
    }
}

impl<T: Task> Actor<T> {
    fn act_at_random(&self, rows: Rows<'_, T>) {
        random_actions::<T>(&self.space, &self.fields, Masks::new(rows.masks), &rows.streams(), rows.actions);
        // Only a network writes anything else there.
        if matches!(self.kind, ActorKind::Network(_)) {
            rows.log_probs.fill(LogProb(0.0));
            rows.values.fill(Value(0.0));
        }
    }

    fn act(&mut self, rows: Rows<'_, T>, report: &TickReport<T>, parallelism: &Parallelism) {
        let pieces = pieces(rows.slots.len(), parallelism);
        match &mut self.kind {
            ActorKind::System => {}
            ActorKind::Random => self.act_at_random(rows),
            ActorKind::Network(network) if network.exploration == Exploration::Random => self.act_at_random(rows),
            ActorKind::Function(act) => {
                let act = act.clone();
                self.call(&act, rows, pieces, report);
            }
            ActorKind::Network(network) => network.act(rows, pieces, report),
        }
    }

    /// Calls a function policy for each of `pieces` parts of the rows.
    fn call(&self, act: &ActFunction<T>, rows: Rows<'_, T>, pieces: usize, report: &TickReport<T>) {
        if pieces > 1 {
            let mid = rows.slots.len() * (pieces / 2) / pieces;
            let (left, right) = rows.split_at(mid);
            rayon::join(
                || self.call(act, left, pieces / 2, report),
                || self.call(act, right, pieces - pieces / 2, report),
            );
            return;
        }
        let (masks, mut streams) = (Masks::new(rows.masks), rows.streams());
        let (Some(first), Some(last)) = (rows.rows.first(), rows.rows.last()) else { return };
        let caught = catch_unwind(AssertUnwindSafe(|| act(rows.observations, &masks, &mut streams, rows.actions)));
        if let Err(payload) = caught {
            let message = panic_message(payload);
            let error = Error::PolicyPanic { message, first_row: first.0, last_row: last.0, tick: self.ticks - 1 };
            return report.fail(first.0, error);
        }
        self.check(masks, rows.actions, rows.rows, report);
    }

    /// Checks actions that a user's policy gave.
    pub(super) fn check(&self, masks: Masks<'_>, actions: &[T::Action], rows: &[RowIndex], report: &TickReport<T>) {
        if self.trusted {
            return;
        }
        if let Err((i, value, legal)) = check_actions::<T>(&self.space, &self.fields, masks, actions) {
            let row = rows[i].0;
            report.fail(row, Error::IllegalAction { row, tick: self.ticks - 1, value, legal });
        }
    }
}

/// Parts that a thread's share of the rows is cut into: a thread that is held up leaves some of its own to the others,
/// and no thread waits long for the last part.
const PIECES: usize = 16;

/// Parts that `rows` are cut into, so that none has fewer than a thread is worth.
fn pieces(rows: usize, parallelism: &Parallelism) -> usize {
    if parallelism.splits(rows, parallelism.infer_rows) {
        (PIECES * parallelism.threads).min(rows / parallelism.infer_rows)
    } else {
        1
    }
}

impl<T: Task> NetworkActor<T> {
    fn act(&mut self, rows: Rows<'_, T>, pieces: usize, report: &TickReport<T>) {
        let width = self.plan.head.params();
        let n = rows.slots.len();
        if self.params.len() < n * width {
            self.params.resize(n * width, 0.0);
        }
        let slots = rows.slots;
        self.places.clear();
        self.fresh.clear();
        if self.states.width() > 0 {
            let identities = slots.iter().zip(rows.keys).zip(rows.episodes).map(|((a, b), c)| (a, b, c));
            self.states.claim(identities.zip(rows.steps), &mut self.places, &mut self.fresh);
        }
        let pieces = if self.networks.len() > 1 { pieces } else { 1 };
        let shared = Shared {
            networks: &self.networks,
            inputs: self.plan.inputs,
            width,
            raw: self.raw && self.normalizer.is_none(),
            normalizer: self.normalizer.as_ref(),
            exploration: self.exploration,
            states: &self.states,
        };
        shared.spread(pieces, &mut self.params[..n * width], (&self.places, &self.fresh), rows, report);
        if let Some(recorded) = &mut self.recorded {
            for (params, slot) in self.params.chunks_exact(width).zip(slots) {
                let at = slot.0 as usize * width;
                if let Some(place) = recorded.get_mut(at..at + width) {
                    place.copy_from_slice(params);
                }
            }
        }
    }
}

/// What all parts of a network's rows share.
struct Shared<'a> {
    networks: &'a [Mutex<Lane>],
    inputs: usize,
    width: usize,
    /// Observations are the input as they lie.
    raw: bool,
    normalizer: Option<&'a super::normalize::Normalizer>,
    exploration: Exploration,
    states: &'a States,
}

impl Shared<'_> {
    fn spread<T: Task>(
        &self,
        pieces: usize,
        params: &mut [f32],
        memory: (&[u32], &[u8]),
        rows: Rows<'_, T>,
        report: &TickReport<T>,
    ) {
        if pieces > 1 {
            let half = pieces / 2;
            let mid = rows.slots.len() * half / pieces;
            let (left, right) = rows.split_at(mid);
            let (left_params, right_params) = params.split_at_mut(mid * self.width);
            let known = mid.min(memory.1.len());
            let ((left_places, right_places), (left_fresh, right_fresh)) =
                (memory.0.split_at(known), memory.1.split_at(known));
            rayon::join(
                || self.spread(half, left_params, (left_places, left_fresh), left, report),
                || self.spread(pieces - half, right_params, (right_places, right_fresh), right, report),
            );
            return;
        }
        let thread = rayon::current_thread_index().unwrap_or(0);
        let Some(lane) = self.networks.get(thread).or(self.networks.first()) else { return };
        let row = rows.rows.first().map_or(0, |row| row.0);
        let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.forward(&mut lane, params, memory, rows) {
            report.fail(row, error);
        }
    }

    fn forward<T: Task>(
        &self,
        lane: &mut Lane,
        params: &mut [f32],
        (places, fresh): (&[u32], &[u8]),
        rows: Rows<'_, T>,
    ) -> Result<(), Error> {
        let Lane { network, inputs } = lane;
        let encoded: &[f32] = if self.raw {
            bytemuck::cast_slice(rows.observations)
        } else {
            let len = rows.observations.len() * self.inputs;
            if inputs.len() < len {
                inputs.resize(len, 0.0);
            }
            encode(rows.observations, self.normalizer, &mut inputs[..len]);
            &inputs[..len]
        };
        let input = Forward {
            inputs: encoded,
            masks: Masks::new(rows.masks),
            keys: rows.keys,
            episodes: rows.episodes,
            steps: rows.steps,
            exploration: self.exploration,
            memory: (self.states.width() > 0).then_some(Memory { states: self.states, places, fresh }),
        };
        let mut out = Outcome {
            params,
            actions: bytemuck::cast_slice_mut(rows.actions),
            log_probs: bytemuck::cast_slice_mut(rows.log_probs),
            values: bytemuck::cast_slice_mut(rows.values),
        };
        network.forward(&input, &mut out)
    }
}
