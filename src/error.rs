//! What can go wrong, each message with the field or entity, the value and what is legal.

use std::{
    error::Error as StdError,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::Duration,
};

/// An error of user code: a hook, a factory, a post-processing step.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Everything gleaner reports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A builder's or configuration's field has an illegal value.
    #[error("{field} is {value}; legal: {legal}")]
    Config {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is legal.
        legal: String,
    },
    /// Two fields exclude each other, or one needs the other.
    #[error("{first} and {second}: {reason}")]
    Conflict {
        /// One field.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Why they do not go together, and what to do.
        reason: String,
    },
    /// Several configuration errors at once.
    #[error("{} configuration errors:\n{}", .0.len(), list(.0))]
    Many(Vec<Error>),
    /// A space does not describe its type.
    #[error("{what} space of {task}: {problem}")]
    Space {
        /// "observation" or "action".
        what: &'static str,
        /// The task's type.
        task: String,
        /// What is wrong, and what is legal.
        problem: String,
    },
    /// User code of an environment panicked.
    #[error(
        "environment panicked in {call}: {message} (worker {worker}, row {row}, episode {episode}, step {step}, seed {seed})"
    )]
    EnvPanic {
        /// "build", "reset", "step", "action_mask" or "drop".
        call: &'static str,
        /// The panic's message.
        message: String,
        /// Worker that stepped the row; 0 inline.
        worker: u32,
        /// The row's global number.
        row: u32,
        /// Episode of the row, from 0.
        episode: u32,
        /// Step within the episode, from 0.
        step: u32,
        /// Master seed: with row and episode it replays the fault.
        seed: u64,
    },
    /// An environment took longer for a step, with the reset behind it, or for starting an episode than it may.
    #[error(
        "environment took longer than {deadline:?} (worker {worker}, row {row}, episode {episode}, step {step}, seed {seed})"
    )]
    StepDeadline {
        /// The deadline.
        deadline: Duration,
        /// Worker that steps the row; 0 inline.
        worker: u32,
        /// The row's global number.
        row: u32,
        /// Episode of the row, from 0.
        episode: u32,
        /// Step within the episode, from 0.
        step: u32,
        /// Master seed.
        seed: u64,
    },
    /// An environment's first observation is not finite, so that the row cannot go on.
    #[error("reset gave an observation that is not finite: {value} (row {row}, episode {episode}, seed {seed})")]
    ResetNotFinite {
        /// The observation.
        value: String,
        /// The row's global number.
        row: u32,
        /// Episode of the row.
        episode: u32,
        /// Master seed.
        seed: u64,
    },
    /// An environment forbids every action, so that no policy can go on.
    #[error(
        "the mask allows no action: {mask} (row {row}, episode {episode}, step {step}); legal: at least one entry that is not 0"
    )]
    NoLegalAction {
        /// The mask.
        mask: String,
        /// The row's global number.
        row: u32,
        /// Episode of the row.
        episode: u32,
        /// Step of the coming frame.
        step: u32,
    },
    /// A row's factory failed.
    #[error("the factory of row {row} failed: {source}")]
    Factory {
        /// The row.
        row: u32,
        /// Its error.
        source: BoxError,
    },
    /// A policy panicked.
    #[error("policy panicked: {message} (rows {first_row} to {last_row}, tick {tick})")]
    PolicyPanic {
        /// The panic's message.
        message: String,
        /// First row that the call acted for.
        first_row: u32,
        /// Last row that the call acted for.
        last_row: u32,
        /// Tick since the collector was built.
        tick: u64,
    },
    /// A user's policy gave an action outside the space or the mask.
    #[error("illegal action of row {row} at tick {tick}: {value}; legal: {legal}")]
    IllegalAction {
        /// The row.
        row: u32,
        /// Tick since the collector was built.
        tick: u64,
        /// The action.
        value: String,
        /// What is legal.
        legal: String,
    },
    /// All arenas are held by batches that are alive.
    #[error("{max_arenas} batches are alive, which is max_arenas; drop one, copy what is needed, or raise max_arenas")]
    ArenasHeld {
        /// The limit.
        max_arenas: usize,
    },
    /// A hook failed.
    #[error("{hook} failed: {source}")]
    Hook {
        /// "pre_collect", "post_collect", "post_process"; of a replay buffer "transform" or "transform_writes".
        hook: &'static str,
        /// Its error.
        source: BoxError,
    },
    /// A network does not fit its task.
    #[error("network: {field} is {value}; legal: {legal}")]
    Network {
        /// Field of the RON file.
        field: String,
        /// Its value.
        value: String,
        /// What is legal.
        legal: String,
    },
    /// A set of weights was refused; nothing of it was applied.
    #[error("weights: {0}")]
    Weights(String),
    /// A tensor of a set of weights was refused; nothing of the set was applied.
    #[error("weights: tensor {name}: {problem}")]
    Tensor {
        /// Name of the tensor.
        name: String,
        /// What is wrong, and what is legal.
        problem: String,
    },
    /// The collector's source of weights failed: the weights before go on acting, and the collection goes on.
    #[error("no new weights: {0}")]
    WeightsSource(#[source] BoxError),
    /// No adapter, or one that cannot run the policy.
    #[error("GPU: {0}")]
    Gpu(String),
    /// A device was lost; the collector can be built anew.
    #[error("GPU device lost at dispatch {dispatch}: {reason}")]
    DeviceLost {
        /// Dispatches submitted before.
        dispatch: u64,
        /// The driver's words.
        reason: String,
    },
    /// A wait ran out.
    #[error("{what} took longer than {deadline:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The deadline.
        deadline: Duration,
    },
    /// A worker ended, or did not answer.
    #[error("worker {worker}: {problem}")]
    Worker {
        /// Its number.
        worker: usize,
        /// What is wrong, and what was waited for.
        problem: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A checkpoint cannot be read or written; nothing of it was taken, and an older one stays.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// A file of columns cannot be written or read; a file that was there stays, and nothing was taken of a wrong one.
    #[error("{}: {problem}", path.display())]
    Arrow {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the column, and what is legal.
        problem: String,
    },
    /// A RON file is wrong.
    #[error("{}:{line}:{column}: {problem}", path.display())]
    Ron {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong and what is legal.
        problem: String,
    },
    /// The call does not fit the collector's state.
    #[error("{call}: {problem}")]
    State {
        /// The call.
        call: &'static str,
        /// Why not now, and when.
        problem: String,
    },
    /// A schedule could not be built; the systems that conflict are named.
    #[error("schedule: {0}")]
    Schedule(String),
}

fn list(errors: &[Error]) -> String {
    errors.iter().map(|error| format!("  - {error}")).collect::<Vec<_>>().join("\n")
}

impl Error {
    /// All of `errors` as one, or none.
    pub(crate) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Many(errors)),
        }
    }

    /// Whether a collector goes on after it as if it had not happened.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::ArenasHeld { .. } | Self::WeightsSource(_))
    }

    /// Whether an environment failed, or was late.
    pub(crate) fn is_of_row(&self) -> bool {
        use Error::*;
        matches!(
            self,
            EnvPanic { .. } | StepDeadline { .. } | ResetNotFinite { .. } | NoLegalAction { .. } | Factory { .. }
        )
    }

    /// An illegal value of a field.
    pub fn config(field: &'static str, value: impl ToString, legal: impl Into<String>) -> Self {
        Self::Config { field, value: value.to_string(), legal: legal.into() }
    }

    /// What is wrong with a worker.
    pub(crate) fn worker(worker: usize, problem: impl Into<String>) -> Self {
        Self::Worker { worker, problem: problem.into() }
    }

    /// A reset whose observation is not finite.
    pub(crate) fn reset_not_finite(observation: &impl std::fmt::Debug, row: u32, episode: u32, seed: u64) -> Self {
        Self::ResetNotFinite { value: format!("{observation:?}"), row, episode, seed }
    }
}

/// The message of a caught panic.
pub(crate) fn panic_message(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload
            .downcast_ref::<&str>()
            .map_or_else(|| "a panic without a message".into(), |message| (*message).into()),
    }
}

/// Calls a hook; its panic is its error.
pub(crate) fn guarded<V>(hook: &'static str, call: impl FnOnce() -> Result<V, BoxError>) -> Result<V, Error> {
    let caught = catch_unwind(AssertUnwindSafe(call));
    let done = caught.unwrap_or_else(|payload| Err(format!("it panicked: {}", panic_message(payload)).into()));
    done.map_err(|source| Error::Hook { hook, source })
}

/// Drops what holds user code, whose drop may panic.
pub(crate) fn discard<V>(value: V) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        tracing::warn!("user code panicked when it was dropped: {}", panic_message(payload));
    }
}
