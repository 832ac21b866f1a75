//! A buffer's trajectories become a file for other programs, while others write and draw.

use std::path::Path;

use super::{
    Replay,
    index::Piece,
    load::task_columns,
    ring::{Pin, Ring},
};
use crate::{
    arrow::{self, Format, Writer},
    error::Error,
    task::Task,
};

/// The trajectories of a buffer at one moment, the one with the oldest frame first.
struct Trajectories {
    /// Number of the oldest frame, and where the pieces end.
    all: Vec<(u64, usize)>,
    pieces: Vec<Piece>,
    /// By trajectory: what followed its newest frame.
    last_observations: Vec<u8>,
}

impl<T: Task> Replay<T> {
    /// Writes the trajectories that are there to a file as [`arrow`](crate::arrow) says, the one with the oldest frame first;
    /// returns how many frames they have. Writers wait for a copy of the index; they go on while frames are written to the
    /// file, except that they do not overtake it. Extra memory: the index, 4 MiB of frames and their arrays, and for
    /// Parquet a group of 32 MiB of frames.
    ///
    /// The file at `path` is the old one until the new one is whole and on the disk, as with [`save`](Self::save). Errors:
    /// the file system's, recorded columns with names that the file needs, ragged columns, which it has no place for.
    pub fn export(&self, path: impl AsRef<Path>, format: Format) -> Result<u64, Error> {
        let path = path.as_ref();
        let Some(ring) = self.ring() else {
            return arrow::write(path, format, &task_columns::<T>(), |_| Ok(()));
        };
        if let Some(ragged) = ring.ragged.first() {
            let problem = format!("the file has no place for ragged column {:?}", ragged.spec.name);
            return Err(Error::State { call: "export", problem });
        }
        arrow::write(path, format, &ring.specs, |to| {
            let (trajectories, mut pin) = self.pinned(ring)?;
            let mut begin = 0;
            let width = trajectories.last_observations.len() / trajectories.all.len().max(1);
            for (i, (first, end)) in trajectories.all.iter().enumerate() {
                // What was written may go.
                pin.advance(*first);
                write_pieces(ring, &pin, &trajectories.pieces[begin..*end], to)?;
                to.end(None, None, &trajectories.last_observations[i * width..][..width]);
                begin = *end;
            }
            Ok(())
        })
    }

    fn pinned<'r>(&self, ring: &'r Ring) -> Result<(Trajectories, Pin<'r>), Error> {
        // A block that is being written is in the index but not in the window.
        let _none = self.writer();
        let state = ring.lock_to_read(self.config().deadline)?;
        let window = state.window;
        let mut found: Vec<_> = self.stored(&state).map(|(at, stored)| (stored.first, at)).collect();
        found.sort_unstable();
        let (mut all, mut pieces, mut last_observations) = (Vec::with_capacity(found.len()), Vec::new(), Vec::new());
        for (first, at) in found {
            let record = state.index.record(at);
            let positions = record.positions(window);
            record.pieces(positions.start, positions.len() as u32, 1, |piece| pieces.push(piece));
            last_observations.extend_from_slice(state.index.last_observation(at));
            all.push((first, pieces.len()));
        }
        Ok((Trajectories { all, pieces, last_observations }, ring.hold(state, window.tail)))
    }
}

fn write_pieces(ring: &Ring, pin: &Pin<'_>, pieces: &[Piece], to: &mut Writer<'_>) -> Result<(), Error> {
    for piece in pieces {
        let mut written = 0;
        while written < piece.len {
            let len = to.room()?.min((piece.len - written) as usize) as u32;
            let part = Piece { first: piece.frame(written), len, ..*piece };
            to.push(len as usize, |column, values| ring.gather(pin, column, &[part], values));
            written += len;
        }
    }
    Ok(())
}
