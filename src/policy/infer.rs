//! The Infer stage: an action for every active row.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bevy_ecs::{prelude::*, query::QueryFilter};

use super::{
    actor::{Actor, ActorKind},
    check::check_actions,
    plan::Exploration,
    policy::ActFunction,
    random::random_actions,
    rows::Rows,
};
use crate::{
    components::{
        Action, ActionKey, ActionMask, Episode, EpisodeStep, Lane, LogProb, Masks, Observation, Parallelism, RowIndex,
        Slot, Threads, TickPlan, TickReport, Value,
    },
    error::{Error, panic_message},
    task::Task,
};

type InferColumns<T> = (
    (&'static Observation<T>, &'static ActionMask<T>),
    (&'static ActionKey, &'static Episode, &'static EpisodeStep, &'static RowIndex, &'static Slot),
    (&'static mut Action<T>, &'static mut LogProb, &'static mut Value),
);

/// Acts for all active rows of a lane, each policy for its own.
pub(crate) fn infer<T: Task, L: Lane>(
    mut actors: Query<&mut Actor<T>>,
    mut rows: Query<InferColumns<T>, L::Rows>,
    plan: Res<TickPlan<T>>,
    report: Res<TickReport<T>>,
) {
    for mut actor in &mut actors {
        infer_with::<T, L>(&mut actor, &mut rows, &plan, &report);
    }
}

fn infer_with<T: Task, L: Lane>(
    actor: &mut Actor<T>,
    rows: &mut Query<InferColumns<T>, L::Rows>,
    plan: &TickPlan<T>,
    report: &TickReport<T>,
) {
    if L::FIRST {
        actor.ticks += 1;
        actor.acted = 0;
    }
    actor.follow(rows, plan);
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
        let is_done = L::FIRST && !L::LAST && actor.recall(&mut rest, plan);
        if !is_done {
            actor.act_by_role(rest, Acting::of(plan), plan, report);
        }
    }
    if L::LAST {
        // Only now, so that all rows of a tick have acted after as many frames.
        actor.frames += actor.acted;
    }
}

/// Which slots act in a tick.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Acting {
    /// Those below this one.
    pub active: u32,
    /// Of them at random those below this one.
    pub random: u32,
}

impl Acting {
    pub(super) fn of<T>(plan: &TickPlan<T>) -> Self {
        Self { active: plan.active, random: plan.random }
    }

    fn role(&self, slot: Slot, own: &Range<u32>) -> Role {
        if slot.0 >= self.active || !own.contains(&slot.0) {
            Role::Idle
        } else if slot.0 < self.random {
            Role::Random
        } else {
            Role::Policy
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Random,
    Policy,
    Idle,
}

impl<T: Task> Actor<T> {
    /// Lets the states of its rows follow them to the slots that they have now.
    fn follow<F: QueryFilter>(&mut self, rows: &Query<InferColumns<T>, F>, plan: &TickPlan<T>) {
        let own = &self.duty.rows;
        if let ActorKind::Network(network) = &mut self.kind
            && network.states.width() > 0
        {
            let all = rows.iter().map(|(_, (key, episode, step, _, slot), _)| ((slot, key, episode), step));
            // A newcomer has no slot yet.
            network.states.follow(all.filter(|((slot, ..), _)| slot.0 < plan.active && own.contains(&slot.0)));
        }
    }

    /// Acts for the own rows among `rest`, as `acting` says. Rows of one role are one run; with rows in slot order that is
    /// at most four.
    pub(super) fn act_by_role(
        &mut self,
        mut rest: Rows<'_, T>,
        acting: Acting,
        plan: &TickPlan<T>,
        report: &TickReport<T>,
    ) {
        let own = self.rows();
        let all = acting == Acting { active: u32::MAX, random: 0 } && own.end == u32::MAX;
        while !rest.slots.is_empty() {
            let role = acting.role(rest.slots[0], &own);
            let same = if all { None } else { rest.slots.iter().position(|slot| acting.role(*slot, &own) != role) };
            let end = same.unwrap_or(rest.slots.len());
            let (run, behind) = rest.split_at(end);
            match role {
                Role::Random => self.act_at_random(run),
                Role::Policy => {
                    self.acted += run.slots.len() as u64;
                    Threads::enter(plan.threads.as_ref(), || self.act(run, report, &plan.parallelism));
                }
                Role::Idle => {}
            }
            rest = behind;
        }
    }

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
        let frames = self.all_frames();
        match &mut self.kind {
            ActorKind::System => {}
            ActorKind::Random => self.act_at_random(rows),
            ActorKind::Network(network) if network.exploration == Exploration::Random => self.act_at_random(rows),
            ActorKind::Function(act) => {
                let act = act.clone();
                self.call(&act, rows, pieces, report);
            }
            ActorKind::Network(network) => network.act(rows, frames, pieces, report),
        }
    }

    /// Calls a function policy for each of `pieces` parts of the rows.
    fn call(&self, act: &ActFunction<T>, rows: Rows<'_, T>, pieces: usize, report: &TickReport<T>) {
        if pieces > 1 {
            let mid = rows.slots.len() * (pieces / 2) / pieces;
            let (left, right) = rows.split_at(mid);
            Threads::join(
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
