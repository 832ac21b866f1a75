//! An index that was loaded is believed once it agrees with itself and with the ring.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{ById, Index, Piece, Record, Span, Window};

/// No frame number is as high, and no trajectory as long, so that sums do not overflow.
const MOST: u64 = 1 << 62;
const LONGEST: u64 = u32::MAX as u64;

/// In an order, so that the same state is the same bytes.
pub(super) fn by_id<S: Serializer>(open: &ById<u32>, to: S) -> Result<S::Ok, S::Error> {
    open.iter().collect::<BTreeMap<_, _>>().serialize(to)
}

impl Index {
    /// Observations that follow the newest frames, by record.
    pub(in crate::replay) fn last_observations(&self) -> &[u8] {
        &self.finals
    }

    /// Bytes that [`set_last_observations`](Self::set_last_observations) takes, for observations of `width` bytes.
    pub(in crate::replay) fn last_observations_len(&self, width: usize) -> u64 {
        (self.records.len() as u64).saturating_mul(width as u64)
    }

    pub(in crate::replay) fn set_last_observations(&mut self, observations: Vec<u8>, width: usize) {
        (self.finals, self.width) = (observations, width);
    }

    /// Looks at everything that is used without a look later: each frame of the window is in exactly the record that
    /// `record_of` says, and every place is that of a record. The error says what is wrong.
    pub(in crate::replay) fn check(&self, window: Window, record_of: impl Fn(u64) -> u32) -> Result<(), String> {
        if window.tail > window.head || window.head > MOST {
            return Err(format!("it holds frames {} to {}", window.tail, window.head));
        }
        self.check_places(window.head)?;
        let mut frames = 0;
        for at in &self.live {
            let record = &self.records[*at as usize];
            record.check(window).map_err(|problem| format!("trajectory {:?}: {problem}", record.id))?;
            if self.deaths.binary_search(&(record.newest.piece.last(), *at)).is_err() {
                return Err(format!("trajectory {:?} never goes", record.id));
            }
            for position in record.positions(window) {
                let frame = record.at(position);
                if record_of(frame) != *at {
                    return Err(format!("trajectory {:?} has a frame of another, {frame}", record.id));
                }
                frames += 1;
            }
        }
        match window.head - window.tail {
            all if all == frames => Ok(()),
            all => Err(format!("its trajectories have {frames} of {all} frames")),
        }
    }

    /// Each record is in use, at the place that it says, or free; what else names records names such.
    fn check_places(&self, head: u64) -> Result<(), String> {
        let mut used = vec![false; self.records.len()];
        for at in self.live.iter().chain(&self.free) {
            match used.get_mut(*at as usize) {
                Some(used @ false) => *used = true,
                _ => return Err(format!("record {at} is missing, or there twice")),
            }
        }
        if used.contains(&false) {
            return Err("a record is neither in use nor free".into());
        }
        let here = |(place, at): (usize, &u32)| self.records[*at as usize].place as usize == place;
        if !self.live.iter().enumerate().all(here) {
            return Err("a trajectory is at another place than it says".into());
        }
        let live = |at: u32| {
            let record = self.records.get(at as usize);
            record.filter(|record| self.live.get(record.place as usize) == Some(&at))
        };
        if !self.open.iter().all(|(id, at)| live(*at).is_some_and(|record| record.id.0 == *id)) {
            return Err("a trajectory goes on that is not there".into());
        }
        let blank = |at: &u32| {
            self.records[*at as usize].newest.piece.len == 0 && self.records[*at as usize].earlier.is_empty()
        };
        if !self.free.iter().all(blank) {
            return Err("a record that is free has frames".into());
        }
        if self.deaths.iter().any(|(_, at)| *at as usize >= self.records.len()) {
            return Err("a trajectory is to go that is not there".into());
        }
        if self.deaths.iter().zip(self.deaths.iter().skip(1)).any(|(a, b)| a.0 >= b.0) {
            return Err("trajectories go out of order".into());
        }
        if self.deaths.back().is_some_and(|(frame, _)| *frame >= head) {
            return Err("a trajectory is to go with a frame that is not there yet".into());
        }
        Ok(())
    }
}

impl Record {
    /// Its pieces follow each other, at the positions that they say, end where frames were written, and the newest
    /// reaches into the window.
    fn check(&self, window: Window) -> Result<(), String> {
        let (mut behind, mut position) = (0, self.earlier.front().unwrap_or(&self.newest).at);
        for Span { at, piece } in self.earlier.iter().chain([&self.newest]) {
            let end = piece.end().filter(|end| piece.first >= behind && *end <= window.head && *at == position);
            let (Some(end), Some(next)) = (end, position.checked_add(piece.len)) else {
                return Err(format!("it has frames {piece:?} at {at}"));
            };
            (behind, position) = (end, next);
        }
        if behind <= window.tail {
            return Err("all its frames are gone".into());
        }
        match u64::from(self.frames) {
            all if all != u64::from(position) || all > window.head.min(LONGEST) => {
                Err(format!("it has {position} of {all} frames"))
            }
            _ => Ok(()),
        }
    }
}

impl Piece {
    /// The frame number behind its last; none if it has no frames, or numbers that cannot be.
    fn end(&self) -> Option<u64> {
        let steps = u64::from(self.step).checked_mul(u64::from(self.len.checked_sub(1)?))?;
        let last = self.first.checked_add(steps).filter(|_| self.step > 0)?;
        last.checked_add(1)
    }
}
