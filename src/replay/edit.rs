//! Changing frames that are there: late results, relabelled rewards, an empty buffer.

use std::collections::HashMap;

use bytemuck::Pod;

use super::{
    Replay,
    ring::{Ring, State},
};
use crate::{
    components::{ColumnSpec, column},
    data::Dtype,
    error::Error,
    task::Task,
};

/// Columns that say which frame follows which: the index of trajectories holds the same.
pub(super) const FIXED: [usize; 4] = [column::END, column::STEP, column::TRAJECTORY, column::FLAGS];

/// New values of some columns, one for each frame.
#[derive(Clone, Debug, Default)]
pub struct Patch<'a> {
    /// Name, bytes of a value, values.
    columns: Vec<(&'a str, usize, &'a [u8])>,
}

impl<'a> Patch<'a> {
    /// Nothing new.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also new values of column `name`.
    #[must_use]
    pub fn column<V: Pod>(mut self, name: &'a str, values: &'a [V]) -> Self {
        self.columns.push((name, size_of::<V>(), bytemuck::cast_slice(values)));
        self
    }
}

/// Which of the frames are to be changed: those whose stored version is older.
#[derive(Clone, Copy, Debug)]
pub struct Newer<'a> {
    /// A column of u64 with the version of each frame; a changed frame gets the new one.
    pub column: &'a str,
    /// By frame: the version of its new values.
    pub versions: &'a [u64],
    /// Whether an equal version is not new enough.
    pub require_newer: bool,
}

/// What an update did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// By frame: whether it has the new values.
    pub updated: Vec<bool>,
    /// By frame: whether it is there, but its version was not new enough, or not the newest one of the call.
    pub version_rejected: Vec<bool>,
    /// How many were updated.
    pub updated_count: usize,
    /// How many were rejected.
    pub rejected_count: usize,
}

/// A patch that fits the columns: by column its place and the values.
type Checked<'a> = Vec<(usize, &'a [u8])>;

impl<T: Task> Replay<T> {
    /// Gives frames new values in column `name`, all or none. Waits until nobody reads them. Errors: a frame that is not
    /// there, an unknown column or one that tells episodes apart, values of another size or number;
    /// [`Error::Timeout`] past the buffer's deadline; a read-only handle.
    pub fn set<V: Pod>(&self, name: &str, frames: &[u64], values: &[V]) -> Result<(), Error> {
        self.check_writable("set")?;
        let ring = self.written_ring(frames)?;
        let columns = check_patch(ring, &Patch::new().column(name, values), frames.len(), None)?;
        let mut state = ring.lock_to_edit(newest(frames), self.config().deadline)?;
        check_there(&state, frames)?;
        for (i, frame) in frames.iter().enumerate() {
            write(ring, &mut state, &columns, i, *frame);
        }
        Ok(())
    }

    /// Lets `change` see and change the values of column `name` of frames, in their order; as [`set`](Self::set), with
    /// its errors. Samplers and writers stand still meanwhile.
    pub fn update<V: Pod>(&self, name: &str, frames: &[u64], mut change: impl FnMut(u64, &mut V)) -> Result<(), Error> {
        self.check_writable("update")?;
        let ring = self.written_ring(frames)?;
        let (i, _) = column_of(ring, name, size_of::<V>())?;
        let mut state = ring.lock_to_edit(newest(frames), self.config().deadline)?;
        check_there(&state, frames)?;
        for frame in frames {
            let mut value = V::zeroed();
            ring.value(&state, i, *frame, bytemuck::bytes_of_mut(&mut value));
            change(*frame, &mut value);
            ring.edit(&mut state, i, *frame, bytemuck::bytes_of(&value));
        }
        Ok(())
    }

    /// Gives those of `frames` that are still there new values, for results that come late. Of a frame that is named more
    /// than once the highest version counts, the last of equal ones and without versions.
    ///
    /// Everything is checked before anything is changed. Errors: those of [`set`](Self::set) but for absent frames; a
    /// version column that is no u64 or in the patch, another number of versions than frames.
    pub fn update_if_present(
        &self,
        frames: &[u64],
        patch: &Patch<'_>,
        newer: Option<Newer<'_>>,
    ) -> Result<Updated, Error> {
        self.check_writable("update_if_present")?;
        let none = || vec![false; frames.len()];
        let mut done = Updated { updated: none(), version_rejected: none(), ..Updated::default() };
        let Some(ring) = self.ring() else { return Ok(done) };
        let columns = check_patch(ring, patch, frames.len(), newer.as_ref())?;
        let stamp = newer.map(|newer| version_column(ring, &newer, frames.len())).transpose()?;
        let mut state = ring.lock_to_edit(newest(frames), self.config().deadline)?;
        let winners = winners(frames, newer.as_ref());
        for (i, frame) in frames.iter().enumerate() {
            if !(state.window.tail..state.window.head).contains(frame) {
                continue;
            }
            let version = newer.map(|newer| (newer.versions[i], newer.require_newer));
            if winners[frame] != i || !stamp.zip(version).is_none_or(|(at, new)| is_new(ring, &state, at, *frame, new))
            {
                done.version_rejected[i] = newer.is_some();
                continue;
            }
            write(ring, &mut state, &columns, i, *frame);
            if let Some((at, (version, _))) = stamp.zip(version) {
                ring.edit(&mut state, at, *frame, bytemuck::bytes_of(&version));
            }
            done.updated[i] = true;
        }
        let count = |mask: &[bool]| mask.iter().filter(|is| **is).count();
        (done.updated_count, done.rejected_count) = (count(&done.updated), count(&done.version_rejected));
        Ok(done)
    }

    /// Forgets all frames; the memory stays. Numbers of frames go on. `keep_write_count` says whether the count of frames
    /// ever written goes on too. Errors: a read-only handle.
    pub fn empty(&self, keep_write_count: bool) -> Result<(), Error> {
        self.check_writable("empty")?;
        let writer = self.writer();
        if let Some(ring) = self.ring() {
            let mut state = ring.lock();
            let window = state.window;
            ring.release(&mut state, window.head);
            if !keep_write_count {
                state.uncounted = window.head;
            }
            if let Some(gate) = self.gate() {
                gate.resized(state.window);
            }
        }
        drop(writer);
        Ok(())
    }

    /// The ring; an error about the first of `frames` if nothing was written yet.
    fn written_ring(&self, frames: &[u64]) -> Result<&Ring, Error> {
        let absent =
            || Error::config("frame", frames.first().copied().unwrap_or_default(), "none: nothing was written");
        self.ring().ok_or_else(absent)
    }
}

fn newest(frames: &[u64]) -> u64 {
    frames.iter().max().copied().unwrap_or_default()
}

fn check_there(state: &State, frames: &[u64]) -> Result<(), Error> {
    let there = state.window.tail..state.window.head;
    match frames.iter().find(|frame| !there.contains(frame)) {
        Some(frame) => Err(Error::config("frame", frame, format!("those that are there, {there:?}"))),
        None => Ok(()),
    }
}

/// Place and layout of a column that may be changed and has values of `size` bytes.
fn column_of<'r>(ring: &'r Ring, name: &str, size: usize) -> Result<(usize, &'r ColumnSpec), Error> {
    let found = ring.specs.iter().position(|spec| spec.name == name);
    let Some(i) = found.filter(|i| !FIXED.contains(i)) else {
        let legal: Vec<_> = ring.specs.iter().enumerate().filter(|(i, _)| !FIXED.contains(i)).collect();
        let legal: Vec<_> = legal.iter().map(|(_, spec)| &*spec.name).collect();
        return Err(Error::config("column", name, legal.join(", ")));
    };
    let spec = &ring.specs[i];
    if spec.stride != size {
        return Err(Error::config("values", format!("{size} bytes each"), format!("{} for {name:?}", spec.stride)));
    }
    Ok((i, spec))
}

fn check_patch<'a>(
    ring: &Ring,
    patch: &Patch<'a>,
    frames: usize,
    newer: Option<&Newer<'_>>,
) -> Result<Checked<'a>, Error> {
    if let Some((name, ..)) = patch.columns.iter().find(|(name, ..)| newer.is_some_and(|newer| newer.column == *name)) {
        return Err(Error::config("patch", name, "columns other than that of the versions"));
    }
    let check = |(name, size, bytes): &(&'a str, usize, &'a [u8])| {
        let (i, spec) = column_of(ring, name, *size)?;
        if bytes.len() != frames * spec.stride {
            let given = bytes.len() / spec.stride.max(1);
            return Err(Error::config(
                "values",
                format!("{given} of {name:?}"),
                format!("one for each of {frames} frames"),
            ));
        }
        Ok((i, *bytes))
    };
    patch.columns.iter().map(check).collect()
}

fn version_column(ring: &Ring, newer: &Newer<'_>, frames: usize) -> Result<usize, Error> {
    let (i, spec) = column_of(ring, newer.column, size_of::<u64>())?;
    if spec.fields.len() != 1 || spec.fields[0].dtype != Dtype::U64 {
        return Err(Error::config("column", newer.column, "a column of one u64"));
    }
    if newer.versions.len() != frames {
        let legal = format!("one for each of {frames} frames");
        return Err(Error::config("versions", newer.versions.len(), legal));
    }
    Ok(i)
}

/// By frame: which of the entries that name it counts.
fn winners(frames: &[u64], newer: Option<&Newer<'_>>) -> HashMap<u64, usize> {
    let version = |i: usize| newer.map_or(0, |newer| newer.versions[i]);
    let mut winners = HashMap::with_capacity(frames.len());
    for (i, frame) in frames.iter().enumerate() {
        let winner = winners.entry(*frame).or_insert(i);
        if version(i) >= version(*winner) {
            *winner = i;
        }
    }
    winners
}

fn is_new(ring: &Ring, state: &State, at: usize, frame: u64, (version, require_newer): (u64, bool)) -> bool {
    let mut stored = 0_u64;
    ring.value(state, at, frame, bytemuck::bytes_of_mut(&mut stored));
    if require_newer { version > stored } else { version >= stored }
}

/// Writes entry `i` of a patch to a frame.
fn write(ring: &Ring, state: &mut State, columns: &Checked<'_>, i: usize, frame: u64) {
    for (column, values) in columns {
        let size = ring.specs[*column].stride;
        ring.edit(state, *column, frame, &values[i * size..(i + 1) * size]);
    }
}
