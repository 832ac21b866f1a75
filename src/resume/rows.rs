//! What a checkpoint holds of a row.

use bevy_ecs::prelude::*;
use bytemuck::{Pod, bytes_of};

use crate::{
    checkpoint::{BlockReader, BlockWriter},
    components::{
        Action, ActionKey, ActionMask, End, Episode, EpisodeReturn, EpisodeStep, LastObservation, LogProb, Observation,
        Reward, Slot, TrajectoryId, Value,
    },
    data::Data,
    env::MaskParts,
    error::Error,
    seed::{Purpose, Seed, Stream},
    task::Task,
};

/// The columns of a row between two rollouts, all but those that follow from its number and the seed.
pub(super) struct Row<T: Task> {
    observation: T::Observation,
    last: T::Observation,
    action: T::Action,
    mask: T::Mask,
    reward: Reward,
    end: End,
    pub step: EpisodeStep,
    total: EpisodeReturn,
    episode: Episode,
    /// Draws of the environment's stream.
    draws: u32,
    pub id: TrajectoryId,
    log_prob: LogProb,
    value: Value,
}

/// Largest number of an episode and a step that a row can go on from: both are counted in 32 bits.
const MOST: u32 = u32::MAX - (1 << 20);

/// A row as its policy knows it.
pub(super) type Key = (Slot, ActionKey, Episode);

/// The rows, by slot; none if one has left.
pub(super) fn of<T: Task>(world: &World, entities: &[Entity]) -> Option<Vec<Row<T>>> {
    entities.iter().map(|entity| Row::of(world.get_entity(*entity).ok()?)).collect()
}

/// The keys of rows under `seed`, of which the first is row `first`.
pub(super) fn keys<T: Task>(rows: &[Row<T>], first: u32, seed: u64) -> Vec<Key> {
    let key = |row| ActionKey(Seed(seed).row_key(row, Purpose::Action));
    rows.iter().zip(0..).map(|(row, slot)| (Slot(slot), key(first + slot), row.episode)).collect()
}

/// Keys, as policies take them.
pub(super) fn identities(keys: &[Key]) -> impl Iterator<Item = (&Slot, &ActionKey, &Episode)> {
    keys.iter().map(|(slot, key, episode)| (slot, key, episode))
}

impl<T: Task> Row<T> {
    fn of(row: EntityRef<'_>) -> Option<Self> {
        Some(Self {
            observation: row.get::<Observation<T>>()?.0,
            last: row.get::<LastObservation<T>>()?.0,
            action: row.get::<Action<T>>()?.0,
            mask: row.get::<ActionMask<T>>()?.0,
            reward: *row.get()?,
            end: *row.get()?,
            step: *row.get()?,
            total: *row.get()?,
            episode: *row.get()?,
            draws: row.get::<Stream>()?.draws(),
            id: *row.get()?,
            log_prob: *row.get()?,
            value: *row.get()?,
        })
    }

    pub(super) fn save(&self, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        [bytes_of(&self.observation), bytes_of(&self.last), bytes_of(&self.action), bytes_of(&self.mask)]
            .into_iter()
            .chain([bytes_of(&self.reward), bytes_of(&self.end), bytes_of(&self.step), bytes_of(&self.total)])
            .chain([bytes_of(&self.episode), bytes_of(&self.draws), bytes_of(&self.id)])
            .chain([bytes_of(&self.log_prob), bytes_of(&self.value)])
            .try_for_each(|bytes| to.raw(bytes))
    }

    pub(super) fn load(from: &mut BlockReader<'_>) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        fn value<V: Pod>(from: &mut BlockReader<'_>, bytes: &mut Vec<u8>) -> Result<V, Error> {
            from.raw(size_of::<V>() as u64, bytes)?;
            Ok(bytemuck::pod_read_unaligned(bytes))
        }
        let from = (from, &mut bytes);
        Ok(Self {
            observation: value(from.0, from.1)?,
            last: value(from.0, from.1)?,
            action: value(from.0, from.1)?,
            mask: value(from.0, from.1)?,
            reward: value(from.0, from.1)?,
            end: value(from.0, from.1)?,
            step: value(from.0, from.1)?,
            total: value(from.0, from.1)?,
            episode: value(from.0, from.1)?,
            draws: value(from.0, from.1)?,
            id: value(from.0, from.1)?,
            log_prob: value(from.0, from.1)?,
            value: value(from.0, from.1)?,
        })
    }

    /// Gives an entity these columns, as row `row` under `seed`.
    pub(super) fn restore(&self, mut entity: EntityWorldMut<'_>, row: u32, seed: u64) {
        let key = Seed(seed).row_key(row, Purpose::Env);
        entity.insert((
            (Observation::<T>(self.observation), LastObservation::<T>(self.last)),
            (Action::<T>(self.action), ActionMask::<T>(self.mask), self.reward, self.end),
            (self.step, self.total, self.episode, self.id),
            (ActionKey(Seed(seed).row_key(row, Purpose::Action)), Stream::from_key(key, self.episode.0, self.draws)),
            (self.log_prob, self.value),
        ));
    }
}

/// Whether rows of a file go together, with `serial` as the newest trajectory's and `pending` frames of running episodes.
/// Errors: [`Error::Checkpoint`] that names the row.
pub(super) fn check<T: Task>(rows: &[Row<T>], worker: u16, serial: u64, pending: u64) -> Result<(), Error> {
    let (masks, mut ids) = (MaskParts::of(&T::action_space()), std::collections::HashSet::new());
    let wrong = |row: usize, problem: String| Err(Error::Checkpoint(format!("row {row}: {problem}")));
    for (i, row) in rows.iter().enumerate() {
        if row.id.worker() != worker || !(1..=serial).contains(&row.id.serial()) {
            return wrong(i, format!("its trajectory is {:?}; legal: {worker}:1 to {worker}:{serial}", row.id));
        }
        if !ids.insert(row.id) {
            return wrong(i, format!("its trajectory {:?} is another row's too", row.id));
        }
        if row.episode.0.max(row.step.0) > MOST {
            return wrong(i, format!("it is at step {} of episode {}; legal: up to {MOST}", row.step.0, row.episode.0));
        }
        if !row.observation.is_finite() {
            return wrong(i, format!("it sees {:?}; legal: finite numbers", row.observation));
        }
        if size_of::<T::Mask>() > 0 && !masks.allows(&row.mask) {
            return wrong(i, format!("the mask allows no action: {:?}", row.mask));
        }
    }
    let steps: u64 = rows.iter().map(|row| u64::from(row.step.0)).sum();
    if steps != pending {
        let problem = format!("rows: their episodes have {steps} frames, the counters say {pending}");
        return Err(Error::Checkpoint(problem));
    }
    Ok(())
}
