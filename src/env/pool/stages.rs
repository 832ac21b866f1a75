//! The pool within a tick: what came is written, rows that are ready are chosen, actions are sent.

use bevy_ecs::prelude::*;

use super::{
    PoolOptions,
    job::Seen,
    rows::{Arrival, Pool},
};
use crate::{
    components::{
        Acted, Action, ActionMask, End, Episode, EpisodeStep, LastObservation, Observation, ReadyRow, Reward, Slot,
        TickPlan, TickReport,
    },
    env::Env,
    seed::Stream,
};

type Written<E> = (
    (&'static mut Observation<E>, &'static mut LastObservation<E>, &'static mut ActionMask<E>),
    (&'static mut Reward, &'static mut End, &'static mut Episode, &'static mut Stream),
);

/// Writes what came since the last tick; all other rows have no frame in this one.
pub(super) fn write_arrived<E: Env>(
    mut rows: Query<Written<E>>,
    mut pool: ResMut<Pool<E>>,
    report: Res<TickReport<E>>,
) {
    for (_, (.., mut end, _, _)) in &mut rows {
        *end = End::IDLE;
    }
    let pool = &mut *pool;
    for (slot, arrival) in pool.arrived.drain(..) {
        let row = &mut pool.rows[slot];
        let Ok(((mut observation, mut last, mut mask), (mut reward, mut end, mut episode, mut stream))) =
            rows.get_mut(row.entity)
        else {
            // A host despawned it; its environment goes with it.
            continue;
        };
        match arrival {
            Arrival::Lost(lost) => {
                report.stepped(1);
                report.quarantined(1);
                (*reward, *end) = (Reward(0.0), lost);
            }
            Arrival::Seen(seen) => {
                let Seen { env, stream: drawn, episode: now, observation: next, mask: legal, frame } = *seen;
                if let Some(frame) = frame {
                    report.stepped(1);
                    report.quarantined(u64::from(frame.end == End::QUARANTINED));
                    (*reward, *end) = (Reward(frame.reward), frame.end);
                    last.0 = frame.last;
                }
                (observation.0, mask.0, episode.0, *stream) = (next, legal, now, drawn);
                row.env = Some(env);
            }
        }
    }
}

/// Chooses the rows that act now, in row order: those that wait for it, as far as the budget and `max_ready` go.
///
/// They become a table of their own, so that the policy acts for all of them in one run.
pub(super) fn choose_rows<E: Env>(
    world: &mut World,
    marked: &mut QueryState<(Entity, &Slot), (With<ReadyRow>, With<Observation<E>>)>,
    mut chosen: Local<Vec<(u32, Entity)>>,
    mut before: Local<Vec<Entity>>,
) {
    let pool = world.resource::<Pool<E>>();
    chosen.clear();
    if !world.resource::<TickReport<E>>().failed() {
        let waiting = (0..).zip(&pool.rows).filter(|(_, row)| row.env.is_some() && row.out.is_none());
        chosen.extend(waiting.map(|(slot, row)| (slot, row.entity)));
    }
    let sent = pool.sent();
    let left = pool.share.total_frames.map_or(u64::MAX, |total| total.saturating_sub(sent));
    let most = pool.share.options.max_ready.unwrap_or(usize::MAX);
    chosen.truncate(most.min(usize::try_from(left).unwrap_or(usize::MAX)));
    pool.share.monitor.ledger().dispatches += u64::from(!chosen.is_empty());
    let random = pool.share.random_frames.saturating_sub(sent).min(chosen.len() as u64) as usize;
    before.clear();
    let stays = |slot: &Slot| chosen.binary_search_by_key(&slot.0, |(slot, _)| *slot).is_ok();
    before.extend(marked.iter(world).filter(|(_, slot)| !stays(slot)).map(|(entity, _)| entity));
    for entity in before.drain(..) {
        world.entity_mut(entity).remove::<ReadyRow>();
    }
    let mut plan = world.resource_mut::<TickPlan<E>>();
    plan.random = chosen.get(random).map_or(u32::MAX, |(slot, _)| *slot);
    let versions = plan.versions.clone();
    for (i, (slot, entity)) in chosen.iter().enumerate() {
        let Ok(mut row) = world.get_entity_mut(*entity) else { continue };
        if let Some(mut acted) = row.get_mut::<Acted>() {
            (acted.version, acted.random) = (versions.of(*slot), i < random);
        }
        if !row.contains::<ReadyRow>() {
            row.insert(ReadyRow);
        }
    }
}

type Sent<E> = (&'static Action<E>, &'static Stream, &'static Episode, &'static EpisodeStep, &'static Slot);

/// Gives the environments of the rows that acted to the threads.
pub(super) fn send_actions<E: Env>(
    rows: Query<Sent<E>, With<ReadyRow>>,
    mut pool: ResMut<Pool<E>>,
    options: Res<PoolOptions<E>>,
    report: Res<TickReport<E>>,
    mut order: Local<Vec<(u32, E::Action, Stream, u32, u32)>>,
) {
    if report.failed() {
        return;
    }
    order.clear();
    order.extend(
        rows.iter().map(|(action, stream, episode, step, slot)| (slot.0, action.0, *stream, episode.0, step.0)),
    );
    order.sort_unstable_by_key(|(slot, ..)| *slot);
    for (slot, action, stream, episode, step) in order.drain(..) {
        pool.send(slot as usize, (stream, episode, step), Some(action), options.0.clone());
    }
}
