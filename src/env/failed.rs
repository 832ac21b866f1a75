//! What becomes of a strip in which user code failed: its rows end the tick with an error, or those that failed start anew.
//! Nothing here runs in a tick in which none does, but for the notes of where user code is.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    cmp::Ordering,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{
    Env,
    faults::Start,
    step::Tick,
    strip::{Rows, settle},
};
use crate::{
    components::{End, Reward},
    data::Data,
    error::{Error, panic_message},
};

/// Where user code is, and what was found on the way.
pub(super) struct Place {
    pub call: Cell<&'static str>,
    /// The strip's first row.
    pub first: Cell<usize>,
    /// The row of the strip. Not a `usize`: the loop over steps writes it in every turn, and the widest number that a loop
    /// writes bounds how many rows a register holds.
    pub row: Cell<u32>,
    /// Rows that were stepped, of all strips.
    pub stepped: Cell<usize>,
    /// Rows of the strip that failed without a panic.
    pub faults: RefCell<Vec<(usize, Error)>>,
}

impl Place {
    pub(super) fn new() -> Self {
        Self {
            call: Cell::new("step"),
            first: Cell::new(0),
            row: Cell::new(0),
            stepped: Cell::new(0),
            faults: RefCell::default(),
        }
    }

    /// The steps of the strip from row `first` on.
    #[inline(always)]
    pub(super) fn begin(&self, first: usize) {
        self.call.set("step");
        self.first.set(first);
        self.row.set(0);
    }

    /// User code is called for this row of the strip.
    #[inline(always)]
    pub(super) fn at(&self, row: usize) {
        self.row.set(row as u32);
    }

    /// The steps of so many more rows are done.
    #[inline(always)]
    pub(super) fn stepped(&self, rows: usize) {
        self.stepped.set(self.stepped.get() + rows);
    }
}

impl<E: Env> Tick<'_, E> {
    /// User code panicked in this strip. Whether the rows behind it are to be stepped.
    #[cold]
    pub(super) fn failed(&self, mut strip: Rows<'_, E>, at: &Place, payload: Box<dyn Any + Send>) -> bool {
        if at.call.get() != "step" {
            return self.start_failed(&mut strip, at, payload);
        }
        let (panicked, message) = (at.row.get() as usize, panic_message(payload));
        let wanted = self.settings.rebuild.is_wanted();
        // Row by row. If this ends the tick, those before go on as well: one of them may have an error of its own, and the
        // lowest row's is the one that counts, however rows are spread over threads.
        for i in 0..if wanted { strip.envs.len() } else { panicked + 1 } {
            let mut row = strip.split_off(1);
            if i > panicked {
                self.guarded(row);
            } else if row.ends[0] != End::IDLE {
                settle(self, &mut row);
                self.finish_guarded(&mut row, at);
            } else if wanted || i == panicked {
                // An environment that steps many rows side by side may lose some together.
                at.stepped(usize::from(wanted));
                row.ends[0] = End::RUNNING;
                let error = self.error("step", message.clone(), &row, 0);
                self.lose(&mut row, vec![(0, error)]);
                self.close(&mut row);
            }
        }
        wanted
    }

    /// Finishes rows that were stepped. Whether the rows behind are to be stepped.
    fn finish_guarded(&self, rows: &mut Rows<'_, E>, at: &Place) -> bool {
        match catch_unwind(AssertUnwindSafe(|| self.finish(rows, at))) {
            Ok(()) => {
                self.close(rows);
                true
            }
            Err(payload) => self.start_failed(rows, at, payload),
        }
    }

    /// A reset or a mask panicked. Whether the rows behind are to be stepped.
    fn start_failed(&self, rows: &mut Rows<'_, E>, at: &Place, payload: Box<dyn Any + Send>) -> bool {
        let (i, call, mut faults) = (at.row.get() as usize, at.call.get(), at.faults.take());
        faults.push((i, self.error(call, panic_message(payload), rows, i)));
        let wanted = self.settings.rebuild.is_wanted();
        if call == "reset" {
            self.find_broken(rows, i, &mut faults);
        }
        if wanted {
            self.start_others(rows, i, call, &mut faults);
        }
        self.lose(rows, faults);
        self.close(rows);
        wanted
    }

    /// Goes on behind a panic of row `panicked` in a reset or a mask: the rows have their turn that have not had it.
    fn start_others(&self, rows: &mut Rows<'_, E>, panicked: usize, call: &str, faults: &mut Vec<(usize, Error)>) {
        let resets = call == "reset";
        for i in 0..rows.envs.len() {
            let begun = match i.cmp(&panicked) {
                Ordering::Greater if resets && rows.ends[i].done() => {
                    // Resets side by side may have drawn for it already.
                    rows.streams[i].start_episode(rows.episodes[i].0);
                    self.settings.start(&mut start_of(rows, i))
                }
                Ordering::Less if !resets => continue,
                Ordering::Equal => continue,
                _ => {
                    let step = if rows.ends[i].done() { 0 } else { rows.steps[i].0 + 1 };
                    let place = (rows.rows[i].0, rows.episodes[i].0, step);
                    self.settings.look(&rows.envs[i], &mut rows.masks[i], place)
                }
            };
            faults.extend(begun.err().map(|error| (i, error)));
        }
    }

    /// Rows that failed in this tick: their frames are lost and they start anew, or the tick ends with an error.
    #[cold]
    pub(super) fn lose(&self, rows: &mut Rows<'_, E>, mut faults: Vec<(usize, Error)>) {
        // Of one row the first one counts.
        faults.sort_by_key(|(i, _)| *i);
        faults.dedup_by_key(|(i, _)| *i);
        for (i, error) in faults {
            if !self.settings.rebuild.is_wanted() {
                self.report.fail(rows.rows[i].0, error);
                continue;
            }
            let end = std::mem::replace(&mut rows.ends[i], End::QUARANTINED);
            rows.rewards[i] = Reward(0.0);
            if end != End::QUARANTINED {
                self.report.quarantined(1);
            }
            // Behind an end the next episode has its number already.
            let since = (rows.episodes[i].0.wrapping_sub(u32::from(end.done())), rows.steps[i].0);
            if let Err(error) = self.settings.restart(&mut start_of(rows, i), since, error) {
                self.report.fail(rows.rows[i].0, error);
            }
        }
        if let Some(frames) = &mut rows.frames {
            frames.observations.copy_from_slice(rows.observations);
            frames.rewards.copy_from_slice(rows.rewards);
        }
    }

    /// Those of the first `n` rows that have reset to an observation that is not finite.
    #[cold]
    pub(super) fn find_broken(&self, rows: &Rows<'_, E>, n: usize, faults: &mut Vec<(usize, Error)>) {
        for i in (0..n).filter(|i| rows.ends[*i].done() && !rows.observations[*i].is_finite()) {
            let (row, episode, seed) = (rows.rows[i].0, rows.episodes[i].0, self.settings.seed.0);
            faults.push((i, Error::reset_not_finite(&rows.observations[i], row, episode, seed)));
        }
    }

    fn error(&self, call: &'static str, message: String, rows: &Rows<'_, E>, i: usize) -> Error {
        Error::EnvPanic {
            call,
            message,
            worker: self.settings.worker,
            row: rows.rows[i].0,
            episode: rows.episodes[i].0,
            step: match call {
                "step" => rows.steps[i].0,
                // The mask is that of the coming frame.
                "action_mask" if !rows.ends[i].done() => rows.steps[i].0 + 1,
                _ => 0,
            },
            seed: self.settings.seed.0,
        }
    }
}

/// The columns of row `i`.
fn start_of<'r, E: Env>(rows: &'r mut Rows<'_, E>, i: usize) -> Start<'r, E> {
    Start {
        row: rows.rows[i].0,
        env: &mut rows.envs[i],
        stream: &mut rows.streams[i],
        episode: &mut rows.episodes[i].0,
        observation: &mut rows.observations[i],
        mask: &mut rows.masks[i],
    }
}
