//! The first lane's coming actions, made while the second lane steps.

use bevy_ecs::prelude::*;
use bytemuck::{Pod, cast_slice};

use super::{
    actor::{Actor, ActorKind},
    infer::Acting,
    rows::{OwnRows, Rows},
};
use crate::{
    components::{
        ActionKey, ActionMask, End, Episode, EpisodeStep, Lane, LowerRows, Observation, RowIndex, Slot, TickPlan,
        TickReport,
    },
    task::Task,
};

type AheadColumns<T> = (
    (&'static Observation<T>, &'static ActionMask<T>),
    (&'static ActionKey, &'static Episode, &'static EpisodeStep, &'static RowIndex, &'static Slot),
    &'static End,
);

/// What the policy said before the tick, and of what: it is used if the tick then asks for the very same.
pub(super) struct Ahead<T: Task> {
    /// None if nothing was made.
    given: Option<Given>,
    /// Rows that the policy acted for, in difference to random ones.
    acted: u64,
    made: OwnRows<T>,
}

/// What actions depend on beside the rows.
#[derive(Clone, Copy, PartialEq)]
struct Given {
    version: u64,
    frames: u64,
    acting: Acting,
}

impl<T: Task> Default for Ahead<T> {
    fn default() -> Self {
        Self { given: None, acted: 0, made: OwnRows::default() }
    }
}

/// Acts for the rows of the first lane, which have stepped, as the coming tick will. Nothing but time is lost if that turns
/// out otherwise: by new weights, by an error, by a system that changes what the rows see.
pub(crate) fn infer_ahead<T: Task>(
    mut actors: Query<&mut Actor<T>>,
    rows: Query<AheadColumns<T>, <LowerRows as Lane>::Rows>,
    plan: Res<TickPlan<T>>,
) {
    for mut actor in &mut actors {
        infer_ahead_with(&mut actor, &rows, &plan);
    }
}

fn infer_ahead_with<T: Task>(
    actor: &mut Actor<T>,
    rows: &Query<AheadColumns<T>, <LowerRows as Lane>::Rows>,
    plan: &TickPlan<T>,
) {
    actor.ahead.given = None;
    let (Some((active, random)), Ok(chunks)) = (plan.ahead, rows.contiguous_iter()) else { return };
    if !actor.forgets() {
        return;
    }
    let mut ahead = std::mem::take(&mut actor.ahead);
    let made = &mut ahead.made;
    made.clear();
    for ((observations, masks), (keys, episodes, steps, rows, slots), ends) in chunks {
        made.observations.extend_from_slice(Observation::values(observations));
        made.masks.extend_from_slice(ActionMask::values(masks));
        made.keys.extend_from_slice(keys);
        made.episodes.extend_from_slice(episodes);
        // As Assemble will count.
        let next = |(step, end): (&EpisodeStep, &End)| EpisodeStep(if end.done() { 0 } else { step.0 + 1 });
        made.steps.extend(steps.iter().zip(ends).map(next));
        made.rows.extend_from_slice(rows);
        made.slots.extend_from_slice(slots);
    }
    ahead.make(actor, Acting { active, random }, plan);
    actor.ahead = ahead;
}

impl<T: Task> Ahead<T> {
    fn make(&mut self, actor: &mut Actor<T>, acting: Acting, plan: &TickPlan<T>) {
        // An error is met again in its own tick.
        let report = TickReport::default();
        let before = std::mem::take(&mut actor.acted);
        actor.act_by_role(self.made.lend(), acting, plan, &report);
        self.acted = std::mem::replace(&mut actor.acted, before);
        self.given = (!report.failed()).then(|| Given::of(actor, acting, plan));
    }

    fn fits(&self, given: Given, rows: &Rows<'_, T>) -> bool {
        let made = &self.made;
        self.given == Some(given)
            && bytes(&made.slots) == bytes(rows.slots)
            && bytes(&made.steps) == bytes(rows.steps)
            && bytes(&made.episodes) == bytes(rows.episodes)
            && made.keys == rows.keys
            && bytes(&made.observations) == bytes(rows.observations)
            && bytes(&made.masks) == bytes(rows.masks)
    }
}

impl Given {
    fn of<T: Task>(actor: &Actor<T>, acting: Acting, plan: &TickPlan<T>) -> Self {
        Self { version: plan.versions.get(actor.duty.policy), frames: actor.frames, acting }
    }
}

impl<T: Task> Actor<T> {
    /// Gives its own among `rows` the actions that were made ahead, if they were made of the very same; whether they were.
    pub(super) fn recall(&mut self, rows: &mut Rows<'_, T>, plan: &TickPlan<T>) -> bool {
        let (given, own) = (Given::of(self, Acting::of(plan), plan), self.rows());
        let ahead = &mut self.ahead;
        let fits = ahead.fits(given, rows);
        ahead.given = None;
        if fits {
            // Those of another policy are its to give.
            for i in (0..rows.slots.len()).filter(|i| own.contains(&rows.slots[*i].0)) {
                ahead.made.give(i, rows, i);
            }
            self.acted += ahead.acted;
        }
        fits
    }

    /// Whether acting leaves nothing behind but actions, log-probabilities and values.
    fn forgets(&self) -> bool {
        match &self.kind {
            ActorKind::Network(network) => network.states.width() == 0 && network.recorded.is_none(),
            _ => true,
        }
    }
}

/// The bytes of a column; none of one without any.
fn bytes<V: Pod>(column: &[V]) -> &[u8] {
    if size_of::<V>() == 0 { &[] } else { cast_slice(column) }
}
