//! What the loops record.

/// An episode that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    pub id: u64,
    pub row: u32,
    pub tick: u32,
    pub length: u32,
    pub total: f32,
    pub first_version: u64,
    pub last_version: u64,
    pub end: u8,
}

/// Columns of frames, and what belongs to them.
#[derive(Clone, Default)]
pub struct Columns {
    pub observations: Vec<[f32; 4]>,
    pub actions: Vec<i32>,
    pub rewards: Vec<f32>,
    pub ends: Vec<u8>,
    pub steps: Vec<u32>,
    pub ids: Vec<u64>,
    pub flags: Vec<u8>,
    pub versions: Vec<u64>,
    /// Frames at which an episode ended, with its real last observation.
    pub finals: Vec<(usize, [f32; 4])>,
    pub episodes: Vec<Episode>,
}

/// Calls a macro for each column with one value a frame.
macro_rules! each_column {
    ($call:ident) => {
        $call!(observations, actions, rewards, ends, steps, ids, flags, versions)
    };
}
pub(super) use each_column;

impl Columns {
    /// Room for `frames` frames, and for one observation more of each of `rows` rows.
    pub fn new(frames: usize, rows: usize) -> Self {
        Self {
            observations: vec![[0.0; 4]; frames + rows],
            actions: vec![0; frames],
            rewards: vec![0.0; frames],
            ends: vec![0; frames],
            steps: vec![0; frames],
            ids: vec![0; frames],
            flags: vec![0; frames],
            versions: vec![0; frames],
            ..Default::default()
        }
    }

    /// Forgets all frames; keeps the memory.
    pub fn clear(&mut self) {
        macro_rules! clear {
            ($($column:ident),*) => { $( self.$column.clear(); )* };
        }
        each_column!(clear);
        self.finals.clear();
        self.episodes.clear();
    }
}
