//! An owned log of what a collector yielded, which checkers read and mutations corrupt.

use std::sync::Arc;

use bytemuck::Zeroable;
use gleaner::{
    components::{End, Trajectory, TrajectoryId},
    prelude::{Batch, Layout, Stats, Task},
};

use super::{Case, Seen};

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Which collector of the log it comes from.
    pub run: u32,
    /// Position in [`Log::notes`].
    pub batch: usize,
    /// Tick within a time-major batch.
    pub tick: Option<usize>,
    pub observation: Seen,
    pub action: f32,
    pub reward: f32,
    pub end: End,
    pub step: u32,
    pub is_init: bool,
    pub id: TrajectoryId,
    pub version: u64,
    pub random: bool,
    pub log_prob: Option<f32>,
    pub value: Option<f32>,
    pub next: Seen,
    pub last: Option<Seen>,
}

impl Frame {
    /// What of a frame must not depend on how batches were cut.
    pub fn essence(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let outputs = (self.action.to_bits(), self.log_prob.map(f32::to_bits), self.value.map(f32::to_bits));
        (self.observation, self.next, self.end, self.step, self.version, self.random, outputs)
    }
}

/// A batch, as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub layout: Layout,
    pub frames: usize,
    /// Slots that minibatches gave, sorted.
    pub drawn: Vec<usize>,
    /// Slots that hold a frame.
    pub valid: Vec<usize>,
    /// Slots without a frame that hold something, or a value to bootstrap from.
    pub dirty: Vec<usize>,
    /// Counters right after the batch.
    pub stats: Stats,
}

/// What was collected.
#[derive(Clone, Debug)]
pub struct Log {
    pub case: Arc<Case>,
    pub frames: Vec<Frame>,
    pub trajectories: Vec<Trajectory>,
    pub notes: Vec<Note>,
    /// Counters when iteration had ended.
    pub finished: Option<Stats>,
    /// Frames that were stepped before this log's collector began.
    pub run: u32,
    /// Batches that the collector said at its start it would yield.
    pub announced: Option<u64>,
    /// What the policy outside of the tick says of each frame's observation: its value. Empty unless one set of weights
    /// acted all the time.
    pub evaluated: Vec<f32>,
}

impl Log {
    pub fn new(case: Case) -> Self {
        let case = Arc::new(case);
        Self {
            case,
            frames: Vec::new(),
            trajectories: Vec::new(),
            notes: Vec::new(),
            finished: None,
            run: 0,
            announced: None,
            evaluated: Vec::new(),
        }
    }

    /// Takes a batch in.
    pub fn read<T>(&mut self, batch: &Batch<T>, stats: Stats)
    where
        T: Task<Observation = Seen, Action = f32>,
    {
        let slots = 0..batch.len();
        let valid: Vec<usize> = slots.clone().filter(|i| batch.flags()[*i].valid()).collect();
        let bootstrap = batch.values().and_then(|_| batch.bootstrap_values().ok());
        let dirty =
            |i: &usize| !batch.flags()[*i].valid() && (!blank(batch, *i) || bootstrap.iter().any(|b| b[*i] != 0.0));
        let mut drawn: Vec<usize> = batch.minibatches(3, 1).flatten().collect();
        drawn.sort_unstable();
        let batches = self.notes.len();
        self.frames.extend(valid.iter().map(|i| frame(batch, *i, self.run, batches)));
        self.trajectories.extend_from_slice(batch.trajectories());
        let dirty = slots.filter(dirty).collect();
        let (layout, frames) = (batch.layout(), batch.frames());
        self.notes.push(Note { layout, frames, drawn, valid, dirty, stats });
    }

    /// Positions of the frames of each row of the last run, in order of time.
    pub fn by_row(&self) -> Vec<Vec<usize>> {
        let mut rows = vec![Vec::new(); self.case.rows];
        for (i, frame) in self.frames.iter().enumerate() {
            rows[frame.observation.place().0 as usize].push(i);
        }
        for row in &mut rows {
            row.sort_by_key(|i| {
                let frame = &self.frames[*i];
                (frame.run, frame.observation.resets as u32, frame.step)
            });
        }
        rows
    }

    /// The essence of all frames, by row and time.
    pub fn essence(&self) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
        self.by_row().into_iter().flatten().map(|i| self.frames[i].essence()).collect()
    }
}

fn frame<T: Task<Observation = Seen, Action = f32>>(batch: &Batch<T>, i: usize, run: u32, number: usize) -> Frame {
    let tick = match batch.layout() {
        Layout::TimeMajor { rows, .. } => Some(i / rows),
        _ => None,
    };
    Frame {
        run,
        batch: number,
        tick,
        observation: batch.observations()[i],
        action: batch.actions()[i],
        reward: batch.rewards()[i],
        end: batch.ends()[i],
        step: batch.steps()[i].0,
        is_init: batch.is_init(i),
        id: batch.trajectory_ids()[i],
        version: batch.versions()[i],
        random: batch.flags()[i].random(),
        log_prob: batch.log_probs().map(|column| column[i]),
        value: batch.values().map(|column| column[i]),
        next: *batch.next_observation(i),
        last: batch.final_observation(i).copied(),
    }
}

/// Whether every column of slot `i` is zeros.
fn blank<T: Task<Observation = Seen, Action = f32>>(batch: &Batch<T>, i: usize) -> bool {
    let outputs = [batch.log_probs(), batch.values()].into_iter().flatten().all(|column| column[i].to_bits() == 0);
    let numbers = batch.actions()[i].to_bits() == 0 && batch.rewards()[i].to_bits() == 0 && batch.versions()[i] == 0;
    let zeros = batch.observations()[i] == Seen::zeroed() && batch.steps()[i].0 == 0;
    outputs && numbers && zeros && batch.ends()[i] == End::RUNNING && batch.trajectory_ids()[i].0 == 0
}

/// The identity that [`Stats`] documents.
pub fn balance(stats: &Stats) -> Result<(), String> {
    let fates = stats.frames - stats.discarded.post_processing + stats.in_flight_frames + stats.discarded.total();
    if fates == stats.stepped_frames { Ok(()) } else { Err(format!("fates sum to {fates}: {stats:?}")) }
}
