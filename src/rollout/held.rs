//! What a checkpoint holds of episodes whose frames wait for their end or their batch.

use serde::{Deserialize, Serialize};

use super::{
    chunks::EMPTY,
    pieces::{Assembly, Complete},
    ready::Ready,
};
use crate::{
    checkpoint::{BlockReader, BlockWriter},
    components::{ColumnSpec, End, EpisodeStep, Flags, RowIndex, Trajectory, TrajectoryId, column},
    error::Error,
    task::Task,
};

#[derive(Serialize, Deserialize)]
struct State {
    seats: Vec<RowIndex>,
    /// By slot: frames of the running episode that are held, and that were let go before.
    open: Vec<(u64, u64)>,
    complete: Vec<(RowIndex, u64, Option<Trajectory>)>,
}

impl<T: Task> Assembly<T> {
    /// Writes all frames that are held.
    pub(crate) fn save(&self, specs: &[ColumnSpec], to: &mut BlockWriter<'_>) -> Result<(), Error> {
        let open = self.open.iter().zip(&self.gone).map(|(piece, gone)| (piece.frames as u64, *gone as u64));
        let complete = self.complete.iter().map(|one| (one.row, one.frames as u64, one.trajectory));
        to.part(&State { seats: self.seats.clone(), open: open.collect(), complete: complete.collect() })?;
        self.complete.iter().try_for_each(|complete| to.raw(bytemuck::bytes_of(&complete.last)))?;
        self.ready.save(specs, to)?;
        self.open.iter().try_for_each(|piece| self.chunks.save(piece, specs, to))
    }

    /// Reads what was [saved](Self::save), of columns `specs`.
    pub(crate) fn load(specs: &[ColumnSpec], from: &mut BlockReader<'_>) -> Result<Self, Error> {
        let State { seats, open, complete } = from.part()?;
        let mut assembly = Self::new(specs);
        let (mut bytes, mut ready) = (Vec::new(), 0_u64);
        for (row, frames, trajectory) in complete {
            from.raw(size_of::<T::Observation>() as u64, &mut bytes)?;
            ready = ready.saturating_add(frames);
            let last = bytemuck::pod_read_unaligned(&bytes);
            assembly.complete.push_back(Complete { row, frames: frames as usize, last, trajectory });
        }
        assembly.ready = Ready::load(ready, specs, from)?;
        if seats.len() != open.len() {
            return Err(wrong(format!("{} of {} rows", open.len(), seats.len())));
        }
        assembly.seats = seats;
        for (frames, gone) in open {
            let piece = assembly.chunks.load(frames, specs, from)?;
            assembly.open_frames += piece.frames;
            assembly.open.push(piece);
            assembly.gone.push(gone as usize);
        }
        Ok(assembly)
    }

    /// Whether rows have seats: not before the first rollout.
    pub(crate) fn is_seated(&self) -> bool {
        !self.seats.is_empty()
    }

    /// Whether frames and episodes go together; `rows` are ids and steps of the episodes that run, by slot. Errors: a
    /// file that contradicts itself.
    pub(crate) fn check(&self, rows: impl Iterator<Item = (TrajectoryId, EpisodeStep)>) -> Result<(), Error> {
        let mut at = 0;
        for complete in &self.complete {
            let frames = at..at + complete.frames;
            if frames.is_empty() {
                return Err(wrong("an episode without frames".into()));
            }
            at = frames.end;
            let (ready, id) = (&self.ready, complete.trajectory.map(|trajectory| trajectory.id));
            let steps =
                ready.values(column::STEP, frames.clone()).zip(ready.values(column::TRAJECTORY, frames.clone()));
            let ends = ready.values(column::END, frames.clone()).zip(ready.values(column::FLAGS, frames));
            check_frames(steps.zip(ends), None, id, true)?;
        }
        let seated = self.open.iter().zip(&self.gone).zip(&self.seats);
        let mut slots = 0;
        for (slot, ((id, step), ((piece, gone), seat))) in rows.zip(seated).enumerate() {
            let frames = piece.frames.saturating_add(*gone);
            if seat.0 as usize != slot || frames != step.0 as usize {
                return Err(wrong(format!("row {} at step {} has {frames} frames in slot {slot}", seat.0, step.0)));
            }
            let steps = self.chunks.values(piece, column::STEP).zip(self.chunks.values(piece, column::TRAJECTORY));
            let ends = self.chunks.values(piece, column::END).zip(self.chunks.values(piece, column::FLAGS));
            check_frames(steps.zip(ends), Some(*gone as u32), Some(id), false)?;
            slots += 1;
        }
        if slots == self.seats.len() { Ok(()) } else { Err(wrong(format!("{} rows", self.seats.len()))) }
    }

    /// Lets the running episode of a row end where it stands, to wait with the complete ones; whether any of its frames
    /// are held or were let go.
    pub(crate) fn end(
        &mut self,
        slot: usize,
        trajectory: Trajectory,
        last: T::Observation,
        specs: &[ColumnSpec],
    ) -> bool {
        let Some(open) = self.open.get_mut(slot) else { return false };
        let (piece, gone) = (std::mem::replace(open, EMPTY), std::mem::take(&mut self.gone[slot]));
        let frames = piece.frames;
        if frames == 0 {
            return gone > 0;
        }
        self.open_frames -= frames;
        let place = self.ready.reserve(specs, frames);
        self.chunks.move_to(piece, &mut self.ready, specs, place);
        self.complete.push_back(Complete { row: trajectory.row, frames, last, trajectory: Some(trajectory) });
        true
    }
}

fn wrong(problem: String) -> Error {
    Error::Checkpoint(format!("episodes: {problem}"))
}

type Frame<'f> = ((&'f EpisodeStep, &'f TrajectoryId), (&'f End, &'f Flags));

/// Whether frames follow each other in one episode: from step `first` and of id `id`, if these are given. Only where
/// `ends` holds may the last one be its end.
fn check_frames<'f>(
    frames: impl Iterator<Item = Frame<'f>>,
    first: Option<u32>,
    id: Option<TrajectoryId>,
    ends: bool,
) -> Result<(), Error> {
    let (mut next, mut own, mut over) = (first, id, false);
    for ((step, id), (end, flags)) in frames {
        let follows = next.is_none_or(|next| next == step.0) && own.is_none_or(|own| own == *id);
        if over || !follows || !flags.valid() {
            return Err(wrong(format!("step {} of trajectory {id:?} follows no frame of its own", step.0)));
        }
        (next, own, over) = (step.0.checked_add(1), Some(*id), end.ends_episode());
    }
    if over && !ends {
        return Err(wrong(format!("trajectory {own:?} has ended, and runs")));
    }
    Ok(())
}
