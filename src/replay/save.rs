//! A buffer and its samplers become a file, while others write and draw.

use std::{io::Write, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    Replay, Saved,
    index::{Index, Piece, Window},
    lap::Lap,
    limiter::{Gate, LimiterStats},
    ragged::List,
    ring::{Pin, Ring},
};
use crate::{
    bytes::Bytes,
    checkpoint::{self, BlockWriter, Kind},
    components::{ColumnSpec, RaggedSpec},
    error::Error,
    task::Task,
};

pub(super) const KIND: Kind = Kind { magic: *b"glnrplay", version: 2 };
/// Bytes of a chunk of frames, which is a frame at least.
const CHUNK: usize = 1 << 18;

/// What stands first.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    pub specs: Vec<ColumnSpec>,
    pub ragged: Vec<RaggedSpec>,
    /// Elements that each ragged column keeps.
    pub elements: u64,
    pub capacity: u64,
    pub window: Window,
    /// Frames that were written before the count of them began anew.
    pub uncounted: u64,
    /// By column: values that were edited.
    pub edits: Vec<u64>,
    pub limiter: Option<LimiterStats>,
    /// Frames of a chunk.
    pub chunk: u32,
}

impl<T: Task> Replay<T> {
    /// Saves the buffer as it is now, with samplers of it: [`load`](Self::load) with samplers in the same order goes on
    /// exactly here. Writers wait for a copy of the index; they go on while frames are written to the file, except that
    /// they do not overtake it. Extra memory: a copy of the index and a chunk of 256 KiB.
    ///
    /// ```
    /// use gleaner::{prelude::*, replay::Replay};
    ///
    /// # let path = std::env::temp_dir().join(format!("gleaner-save-{}", std::process::id()));
    /// let replay = Replay::<CartPole>::new(10_000)?;
    /// replay.extend(&Collector::<CartPole>::builder().frames_per_batch(500).build()?.next().unwrap()?)?;
    /// let mut sampler = replay.sampler().batch_size(32).build()?;
    /// sampler.sample()?;
    /// replay.save(&path, &[&sampler])?;
    ///
    /// let later = Replay::<CartPole>::new(10_000)?;
    /// let mut again = later.sampler().batch_size(32).build()?;
    /// later.load(&path, &mut [&mut again])?;
    /// assert_eq!(again.sample()?.frames(), sampler.sample()?.frames());
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), gleaner::Error>(())
    /// ```
    ///
    /// The file at `path` is the old one until the new one is whole and on the disk, also if the process or the machine
    /// dies meanwhile. What it leaves beside it then, `.NAME.….new`, goes with the next save.
    ///
    /// A [`Mixture`](super::sampler::Mixture) is saved with each of its buffers, without a draw in between: every file has
    /// its shares and random numbers, and its samplers of that buffer. Errors: the file system's, a sampler of another
    /// buffer.
    pub fn save(&self, path: impl AsRef<Path>, samplers: &[&dyn Saved<T>]) -> Result<(), Error> {
        checkpoint::replace(path.as_ref(), |to| self.save_to(to, samplers))
    }

    /// Writes what [`save`](Self::save) writes. Errors: [`Error::Config`] for a sampler of another buffer;
    /// [`Error::Checkpoint`] for what `to` does not take.
    pub fn save_to(&self, to: &mut dyn Write, samplers: &[&dyn Saved<T>]) -> Result<(), Error> {
        // Samplers first: none may know of frames that come after the cursor.
        let frozen: Vec<_> = samplers.iter().map(|sampler| sampler.freeze()).collect();
        if let Some(i) = frozen.iter().position(|frozen| !frozen.draws_from(self)) {
            return Err(Error::config(
                "samplers",
                format!("one of another buffer, number {i}"),
                "those of this buffer",
            ));
        }
        let mut to = BlockWriter::new(to, KIND)?;
        let snapshot = self.ring().map(|ring| self.snapshot(ring)).transpose()?;
        match &snapshot {
            Some(snapshot) => snapshot.save_index(&mut to)?,
            None => to.part(&None::<Head>)?,
        }
        to.part(&(frozen.len() as u64))?;
        frozen.iter().try_for_each(|frozen| frozen.save(&mut to, self))?;
        drop(frozen);
        if let Some(snapshot) = snapshot {
            snapshot.save_frames(&mut to)?;
        }
        to.finish()
    }

    fn snapshot<'r>(&self, ring: &'r Ring) -> Result<Snapshot<'r>, Error> {
        // A block that is being written is in the index but not in the window.
        let _none = self.writer();
        let state = ring.lock_to_read(self.config().deadline)?;
        let (window, index, uncounted) = (state.window, state.index.clone(), state.uncounted);
        let edits = state.edits.clone();
        let limiter = self.gate().map(Gate::stats);
        Ok(Snapshot { ring, window, index, uncounted, edits, limiter, pin: ring.hold(state, window.tail) })
    }
}

/// The buffer at one moment: its frames stay where they are as long as the pin holds them.
struct Snapshot<'r> {
    ring: &'r Ring,
    window: Window,
    index: Index,
    uncounted: u64,
    edits: Vec<u64>,
    limiter: Option<LimiterStats>,
    pin: Pin<'r>,
}

impl Snapshot<'_> {
    fn chunk(&self) -> u32 {
        (CHUNK / Ring::frame_bytes(&self.ring.specs)).max(1) as u32
    }

    fn save_index(&self, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        let Self { window, uncounted, limiter, .. } = *self;
        let (specs, capacity, chunk) = (self.ring.specs.to_vec(), self.ring.capacity(), self.chunk());
        let ragged: Vec<_> = self.ring.ragged.iter().map(|column| column.spec.clone()).collect();
        let elements = self.ring.ragged.first().map_or(0, |column| column.keeps);
        let edits = self.edits.clone();
        let head = Head { specs, ragged, elements, capacity, window, uncounted, edits, limiter, chunk };
        to.part(&Some(head))?;
        to.part(&self.index)?;
        to.raw(self.index.last_observations())
    }

    fn save_frames(mut self, to: &mut BlockWriter<'_>) -> Result<(), Error> {
        let Self { ring, window, .. } = self;
        if window.tail == window.head {
            ring.specs.iter().try_for_each(|spec| to.raw(&vec![0; spec.stride]))?;
            to.raw(&[0; size_of::<u32>()])?;
            return ring.ragged.iter().try_for_each(|_| to.raw(&[0; size_of::<u64>()]));
        }
        let (mut at, mut values) = (window.tail, Bytes::default());
        while at < window.head {
            let len = u64::from(self.chunk()).min(window.head - at);
            let piece = Piece { first: at, step: 1, len: len as u32 };
            for (i, spec) in ring.specs.iter().enumerate() {
                values.resize(len as usize * spec.stride);
                ring.gather(&self.pin, i, &[piece], values.bytes_mut());
                to.raw(values.bytes())?;
            }
            values.resize(len as usize * size_of::<u32>());
            ring.gather_records(&self.pin, piece, values.bytes_mut());
            to.raw(values.bytes())?;
            self.save_lists(piece, to, &mut values)?;
            at += len;
            self.pin.advance(at);
        }
        Ok(())
    }

    fn save_lists(&self, piece: Piece, to: &mut BlockWriter<'_>, values: &mut Bytes) -> Result<(), Error> {
        let (mut moves, mut lists) = (Vec::new(), vec![List::default(); piece.len as usize]);
        self.ring.moves(Lap::new(piece.first, self.ring.turns.slots), piece, 0, |part| moves.push(part));
        for (i, column) in self.ring.ragged.iter().enumerate() {
            self.ring.lists(&self.pin, i, &[], &moves, &mut lists);
            lists.iter().try_for_each(|list| to.raw(&list.len.to_le_bytes()))?;
            for list in &lists {
                values.resize(list.len as usize * column.spec.dtype.size());
                self.ring.elements(&self.pin, i, *list, values.bytes_mut());
                to.raw(values.bytes())?;
            }
        }
        Ok(())
    }
}
