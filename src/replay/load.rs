//! A file becomes a buffer and its samplers. It is not trusted: a wrong one is an error, and changes nothing.

use std::{fs::File, io::Read, path::Path};

use super::{
    Replay, ReplayConfig, Saved,
    index::Index,
    limiter::LimiterStats,
    ragged::List,
    ring::{Kept, Ring},
    sampling::Staged,
    save::{Head, KIND},
    view::View,
};
use crate::{
    checkpoint::BlockReader,
    components::{ColumnSpec, RaggedSpec, column},
    data::Dtype,
    error::Error,
    task::Task,
};

impl<T: Task> Replay<T> {
    /// Fills a new buffer and new samplers of it, with the options of those that were [saved](Self::save) and in their
    /// order, from a file. Storage and deadlines may be others. They go on exactly where the saved ones stood. Errors: a
    /// buffer with frames, another capacity, other columns than the task's, other samplers, a file that is not whole or
    /// contradicts itself; then buffer and samplers are as they were.
    pub fn load(&self, path: impl AsRef<Path>, samplers: &mut [&mut dyn Saved<T>]) -> Result<(), Error> {
        let path = path.as_ref();
        let mut file = File::open(path).map_err(|source| Error::Io { path: path.into(), source })?;
        self.load_from(&mut file, samplers).map_err(|error| match error {
            Error::Checkpoint(problem) => Error::Checkpoint(format!("{}: {problem}", path.display())),
            error => error,
        })
    }

    /// Reads what [`save_to`](Self::save_to) has written, to its end. Memory: no more than the buffer itself and a few
    /// times what is there to be read. Errors: those of [`load`](Self::load), but for the file's.
    pub fn load_from(&self, from: &mut dyn Read, samplers: &mut [&mut dyn Saved<T>]) -> Result<(), Error> {
        let frozen: Vec<_> = samplers.iter().map(|sampler| sampler.freeze()).collect();
        self.check_writable("load")?;
        let writers = self.writer();
        if self.ring().is_some() {
            return Err(Error::State { call: "load", problem: "the buffer holds frames; load into a new one".into() });
        }
        if frozen.iter().any(|frozen| !frozen.draws_from(self)) {
            return Err(Error::config("samplers", "one of another buffer", "those of this buffer"));
        }
        let mut from = BlockReader::new(from, KIND)?;
        let head: Option<Head> = from.part()?;
        let parts = head.map(|head| self.load_index(head, &mut from)).transpose()?;
        let count: u64 = from.part()?;
        if count != frozen.len() as u64 {
            return Err(Error::config("samplers", frozen.len(), format!("those of the checkpoint, {count}")));
        }
        let limiter = parts.as_ref().map(|(head, _)| (head.limiter, head.window));
        let capacity = parts.as_ref().map_or(1, |(head, _)| head.capacity);
        let staged =
            frozen.iter().map(|frozen| frozen.stage(&mut from, self, capacity)).collect::<Result<Vec<_>, _>>()?;
        drop(frozen);
        let ring = parts.map(|(head, index)| load_frames(head, index, self.config(), &mut from)).transpose()?;
        from.finish()?;
        check(ring.as_ref(), &staged)?;
        if let (Some(gate), Some((limiter, window))) = (self.gate(), limiter) {
            gate.restore(limiter, window);
        }
        if let Some(ring) = ring {
            self.set_ring(&writers, ring);
        }
        samplers.iter_mut().zip(staged).for_each(|(sampler, staged)| sampler.restore(staged));
        Ok(())
    }

    fn load_index(&self, head: Head, from: &mut BlockReader<'_>) -> Result<(Head, Index), Error> {
        check_columns::<T>(&head.specs)?;
        check_ragged(&head)?;
        let (own, elements) = self.sizes(&head.specs, &head.ragged)?;
        if !head.ragged.is_empty() && elements != head.elements {
            return Err(Error::config(
                "ragged_elements",
                elements,
                format!("that of the checkpoint, {}", head.elements),
            ));
        }
        if own != head.capacity {
            return Err(Error::config("capacity", own, format!("that of the checkpoint, {}", head.capacity)));
        }
        let frames = head.window.head.checked_sub(head.window.tail).filter(|frames| *frames <= own);
        if frames.is_none() || head.chunk == 0 || head.uncounted > head.window.head {
            return Err(Error::Checkpoint(format!("it holds {:?} in chunks of {}", head.window, head.chunk)));
        }
        if head.edits.len() != head.specs.len() || head.edits.iter().any(|edits| *edits >= 1 << 62) {
            return Err(Error::Checkpoint(format!("{:?} edits of {} columns", head.edits, head.specs.len())));
        }
        if !head.limiter.as_ref().is_none_or(LimiterStats::is_sound) {
            return Err(Error::Checkpoint(format!("its limiter has counted {:?}", head.limiter)));
        }
        let mut index: Index = from.part()?;
        let (width, mut observations) = (head.specs[column::OBSERVATION].stride, Vec::new());
        from.raw(index.last_observations_len(width), &mut observations)?;
        index.set_last_observations(observations, width);
        Ok((head, index))
    }
}

/// The columns that every block of this task has, in their order.
pub(super) fn task_columns<T: Task>() -> [ColumnSpec; 8] {
    [
        ColumnSpec::of::<T::Observation>("observation").leading(),
        ColumnSpec::of::<T::Action>("action"),
        ColumnSpec::scalar("reward", Dtype::F32),
        ColumnSpec::scalar("end", Dtype::U8),
        ColumnSpec::scalar("step", Dtype::U32),
        ColumnSpec::scalar("trajectory", Dtype::U64),
        ColumnSpec::scalar("flags", Dtype::U8),
        ColumnSpec::scalar("version", Dtype::U64),
    ]
}

/// Those that every block of this task has come first; all have the size of their fields, and a name of their own.
pub(super) fn check_columns<T: Task>(specs: &[ColumnSpec]) -> Result<(), Error> {
    let wrong = |problem: String| Error::Checkpoint(format!("columns: {problem}"));
    for (i, own) in task_columns::<T>().iter().enumerate() {
        match specs.get(i) {
            Some(spec) if spec == own => {}
            Some(spec) => return Err(wrong(format!("{spec:?}; legal for this task: {own:?}"))),
            None => return Err(wrong(format!("{:?} is missing", own.name))),
        }
    }
    for (i, spec) in specs.iter().enumerate() {
        if specs[..i].iter().any(|other| other.name == spec.name) {
            return Err(wrong(format!("{:?} is there twice", spec.name)));
        }
        let bytes = spec.fields.iter().try_fold(0_usize, |bytes, field| {
            let elements = field.shape.iter().try_fold(field.dtype.size(), |size, n| size.checked_mul(*n))?;
            bytes.checked_add(elements)
        });
        if bytes != Some(spec.stride) || u32::try_from(spec.stride).is_err() {
            return Err(wrong(format!(
                "{:?} has a stride of {} bytes, its fields have {bytes:?}",
                spec.name, spec.stride
            )));
        }
    }
    Ok(())
}

/// Names of ragged columns are their own.
fn check_ragged(head: &Head) -> Result<(), Error> {
    for (i, RaggedSpec { name, .. }) in head.ragged.iter().enumerate() {
        let taken = head.specs.iter().any(|spec| spec.name == *name);
        if taken || head.ragged[..i].iter().any(|other| other.name == *name) {
            return Err(Error::Checkpoint(format!("columns: {name:?} is there twice")));
        }
    }
    Ok(())
}

/// Reads lists of `frames` frames from number `at` on, behind those before of their columns, which have `ends` elements.
fn load_lists(
    ring: &mut Ring,
    at: u64,
    frames: u64,
    ends: &mut [u64],
    from: &mut BlockReader<'_>,
) -> Result<(), Error> {
    let (mut lens, mut elements) = (Vec::new(), Vec::new());
    for (column, end) in ring.ragged.iter().zip(ends) {
        from.raw(frames.max(1).saturating_mul(8), &mut lens)?;
        let lens = || lens.as_chunks().0.iter().map(|len| u64::from_le_bytes(*len));
        let sum = lens().try_fold(0_u64, u64::checked_add).filter(|sum| *sum <= column.keeps - *end);
        let Some(sum) = sum.filter(|sum| frames > 0 || *sum == 0) else {
            return Err(Error::Checkpoint(format!("{:?} has more than {} elements", column.spec.name, column.keeps)));
        };
        let size = column.spec.dtype.size();
        from.raw(sum.saturating_mul(size as u64), &mut elements)?;
        let mut left = &elements[..];
        for (len, frame) in lens().take(frames as usize).zip(at..) {
            let (own, rest) = left.split_at(len as usize * size);
            ring.write_list(column, frame, List { first: *end, len }, own);
            *end += len;
            left = rest;
        }
    }
    Ok(())
}

fn load_frames(head: Head, index: Index, config: &ReplayConfig, from: &mut BlockReader<'_>) -> Result<Ring, Error> {
    let Head { specs, ragged, elements, capacity, window, uncounted, edits, chunk, .. } = head;
    let mut ends = vec![0; ragged.len()];
    let (mut ring, mut at, mut values) = (None, window.tail, vec![Vec::new(); specs.len() + 1]);
    loop {
        let len = u64::from(chunk).min(window.head - at);
        let strides = specs.iter().map(|spec| spec.stride).chain([size_of::<u32>()]);
        for (stride, values) in strides.zip(&mut values) {
            // The buffer is allocated once it was seen that its columns are as wide as they say.
            from.raw((stride as u64).saturating_mul(len.max(1)), values)?;
        }
        let ring: &mut Ring = match &mut ring {
            Some(ring) => ring,
            None => ring.insert(Ring::new(&specs, &ragged, (capacity, elements), &config.storage)?),
        };
        if len > 0 {
            values.iter().enumerate().for_each(|(i, values)| ring.restore(i, values, at));
        }
        load_lists(ring, at, len, &mut ends, from)?;
        at += len;
        if at == window.head {
            break;
        }
    }
    let mut ring = ring.ok_or_else(|| Error::Checkpoint("it has no chunk".into()))?;
    ring.set_state(window, Kept { index, edits, uncounted });
    Ok(ring)
}

/// Nothing in it fails later.
fn check<T: Task>(ring: Option<&Ring>, samplers: &[Staged<T>]) -> Result<(), Error> {
    let wrong = |part: &str, problem: String| Error::Checkpoint(format!("{part}: {problem}"));
    let state = ring.map(|ring| (ring, ring.lock()));
    let view = state.as_ref().map(|(ring, state)| View { ring, state });
    if let Some(View { ring, state }) = &view {
        let found = state.index.check(state.window, |frame| ring.record_of(state, frame));
        found.map_err(|problem| wrong("index", problem))?;
    }
    for (i, staged) in samplers.iter().enumerate() {
        staged.check(view.as_ref()).map_err(|problem| wrong(&format!("sampler {i}"), problem))?;
    }
    Ok(())
}
