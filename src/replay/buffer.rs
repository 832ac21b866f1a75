//! The buffer as users hold it.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    claim::{Claim, Claims},
    incoming::{Incoming, WriteTransform},
    limiter::{Gate, Limiter, LimiterStats, Room, Turn},
    ring::{Ring, spare},
    sampler::Sampling,
    sampling::SamplerBuilder,
    write::{self, Writer, Written},
};
use crate::{
    components::{ColumnSpec, Frames, RaggedSpec},
    error::{BoxError, Error},
    task::Task,
};

/// How much a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Capacity {
    /// So many frames.
    Frames(u64),
    /// As many frames as columns of so many bytes hold.
    Bytes(u64),
}

/// Where the columns of a buffer lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storage {
    /// In memory.
    #[default]
    Memory,
    /// In a memory-mapped file, so that a buffer may be larger than the memory. It is scratch: made at the first write,
    /// an error if it exists or the disk has no room for all of it, and removed with the buffer (not by a process that is
    /// killed). Nothing else may touch it meanwhile. To keep a buffer, [save](Replay::save) it.
    File(PathBuf),
}

/// Options of a replay buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayConfig {
    /// What the buffer holds before it overwrites the oldest frames. Default: 1,000,000 frames.
    pub capacity: Capacity,
    /// Where the columns lie. Default: in memory.
    pub storage: Storage,
    /// How long a writer waits for a sampler that reads the frames it is about to overwrite, and a sampler or writer for
    /// the limiter, before that is an error. Default: 10 s.
    pub deadline: Duration,
    /// Keeps what is drawn in step with what is written. Default: none, nobody waits.
    pub limiter: Option<Limiter>,
    /// Elements that each ragged column holds at most, of all frames together: a frame whose elements have no room any
    /// more goes, though the buffer could hold it. Default: 64 for each frame of the capacity.
    pub ragged_elements: Option<u64>,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self {
            capacity: Capacity::Frames(1_000_000),
            storage: Storage::Memory,
            deadline: Duration::from_secs(10),
            limiter: None,
            ragged_elements: None,
        }
    }
}

/// Elements of a ragged column for each frame, unless options say how many in all.
const ELEMENTS: u64 = 64;

impl ReplayConfig {
    fn check(&self) -> Result<(), Error> {
        let mut errors = Vec::new();
        let most = match self.capacity {
            Capacity::Frames(frames) => frames,
            Capacity::Bytes(_) => u64::MAX,
        };
        match self.capacity {
            Capacity::Frames(0) => errors.push(Error::config("capacity", "0 frames", "1 or more")),
            Capacity::Bytes(0) => errors.push(Error::config("capacity", "0 bytes", "1 or more")),
            _ => errors.extend(self.limiter.iter().flat_map(|limiter| limiter.problems(most))),
        }
        if self.ragged_elements == Some(0) {
            errors.push(Error::config("ragged_elements", 0, "1 or more, or none"));
        }
        if self.deadline.is_zero() {
            errors.push(Error::config("deadline", "0", "more than 0"));
        }
        Error::all(errors)
    }
}

/// Counters of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayStats {
    /// Gauge: frames that are there.
    pub frames: u64,
    /// Gauge: trajectories of which frames are there.
    pub trajectories: u64,
    /// Frames ever written, or since the count began anew.
    pub write_count: u64,
    /// Frames that the buffer holds at most; 0 before the first write if it was given in bytes.
    pub capacity: u64,
    /// Bytes held.
    pub memory: u64,
    /// Of the limiter, if there is one.
    #[serde(default)]
    pub limiter: Option<LimiterStats>,
}

/// A ring of frames in columns, with an index of their trajectories: writers and samplers use it at the same time, from
/// any thread. Clones are the same buffer.
///
/// ```
/// use gleaner::{prelude::*, replay::Replay};
///
/// let replay = Replay::<CartPole>::new(10_000)?;
/// for batch in Collector::<CartPole>::builder().rows(4).total_frames(2_000).build()? {
///     replay.extend(&batch?)?;
/// }
/// let mut sampler = replay.sampler().batch_size(32).build()?;
/// let sample = sampler.sample()?;
/// assert_eq!((replay.len(), sample.rewards().len()), (2_000, 32));
/// # Ok::<(), gleaner::Error>(())
/// ```
pub struct Replay<T: Task> {
    shared: Arc<Shared<T>>,
    /// Whether this handle may not change anything.
    read_only: bool,
}

struct Shared<T: Task> {
    config: ReplayConfig,
    /// There from the first write on.
    ring: OnceLock<Ring>,
    writer: Mutex<Writer>,
    claims: Arc<Claims>,
    gate: Option<Gate>,
    /// What changes blocks, and its scratch. Taken before the writer's turn.
    transforms: Mutex<(Vec<WriteTransform<T>>, Incoming<T>)>,
}

impl<T: Task> Clone for Replay<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), read_only: self.read_only }
    }
}

impl<T: Task> Replay<T> {
    /// A buffer of `frames` frames in memory, which is taken at the first write. Errors: [`Error::Config`] for an
    /// illegal number of them.
    pub fn new(frames: u64) -> Result<Self, Error> {
        Self::with_config(ReplayConfig { capacity: Capacity::Frames(frames), ..ReplayConfig::default() })
    }

    /// A buffer with these options. Errors: illegal ones.
    pub fn with_config(config: ReplayConfig) -> Result<Self, Error> {
        config.check()?;
        let gate = config.limiter.map(Gate::new);
        let (ring, writer, claims, transforms) = Default::default();
        let shared = Shared { config, ring, writer, claims, gate, transforms };
        Ok(Self { shared: Arc::new(shared), read_only: false })
    }

    /// The options.
    pub fn config(&self) -> &ReplayConfig {
        &self.shared.config
    }

    /// The same buffer by a handle that looks and draws; what would change it is an error, also of its clones.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self { read_only: true, ..self.clone() }
    }

    /// An error if this handle may not change anything.
    pub(super) fn check_writable(&self, call: &'static str) -> Result<(), Error> {
        if self.read_only {
            let problem = "the handle is read-only; legal: the one that it was made of".into();
            return Err(Error::State { call, problem });
        }
        Ok(())
    }

    /// The place of a collector that writes here as worker `worker`, until it is dropped. Errors: a taken one, as
    /// trajectories of two collectors would have the same ids; a read-only handle.
    pub(crate) fn claim(&self, worker: u16) -> Result<Claim, Error> {
        self.check_writable("replay")?;
        Claims::take(&self.shared.claims, worker)
    }

    /// Changes every block in place before it is stored, whoever writes it, behind the transforms before: what
    /// [`SamplerBuilder::transform`] undoes. It works on a copy of the block, while other writers wait, and so must not
    /// write to the buffer itself. An error, or a panic, is that of the write, [`Error::Hook`], which stores nothing. They
    /// are no part of what is [saved](Self::save). Errors: a read-only handle.
    pub fn transform_writes(
        &self,
        f: impl FnMut(&mut Incoming<T>) -> Result<(), BoxError> + Send + 'static,
    ) -> Result<(), Error> {
        self.with_write_transforms(|transforms| transforms.push(Box::new(f)))
    }

    /// Lets `change` add transforms of writes, in any place, or take them out. Errors: a read-only handle.
    pub fn with_write_transforms<R>(&self, change: impl FnOnce(&mut Vec<WriteTransform<T>>) -> R) -> Result<R, Error> {
        self.check_writable("transform_writes")?;
        Ok(change(&mut self.write_transforms().0))
    }

    fn write_transforms(&self) -> MutexGuard<'_, (Vec<WriteTransform<T>>, Incoming<T>)> {
        self.shared.transforms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the frames of a batch, or any block of frames: whole, before any of them is drawn. The first block gives the
    /// columns. Errors: other columns than those, a block that does not agree with itself, [`Error::Timeout`] if a sampler reads the oldest frames all the while,
    /// a read-only handle, a [transform](Self::transform_writes)'s.
    pub fn extend(&self, frames: &dyn Frames) -> Result<Written, Error> {
        self.check_writable("extend")?;
        write::check::<T>(frames, self.ring().is_none())?;
        let deadline = self.shared.config.deadline;
        let room = self.gate().map(|gate| gate.begin_write(frames.frames() as u64, deadline)).transpose()?;
        let mut transforms = self.write_transforms();
        if transforms.0.is_empty() {
            drop(transforms);
            return self.store(frames, room);
        }
        let (transforms, block) = &mut *transforms;
        self.store(&block.transform(frames, transforms)?, room)
    }

    fn store(&self, frames: &dyn Frames, room: Option<Room<'_>>) -> Result<Written, Error> {
        let mut writer = self.writer();
        let ring = match self.shared.ring.get() {
            Some(ring) => ring,
            None => {
                let (specs, ragged) = (frames.columns(), frames.ragged());
                let sizes = self.sizes(specs, ragged)?;
                let ring = Ring::new(specs, ragged, sizes, &self.shared.config.storage)?;
                self.shared.ring.get_or_init(|| ring)
            }
        };
        check_columns(&ring.specs, frames.columns())?;
        check_ragged(ring.ragged.iter().map(|column| &column.spec), frames.ragged())?;
        let written = writer.extend(ring, frames, self.shared.config.deadline)?;
        if let Some(room) = room {
            room.written(ring.lock().window);
        }
        Ok(written)
    }

    /// Lets one writer at a time in.
    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limiter's, if there is one.
    pub(super) fn gate(&self) -> Option<&Gate> {
        self.shared.gate.as_ref()
    }

    /// The limiter's leave to draw `frames`, if there is a limiter.
    pub(super) fn begin_draw(&self, frames: usize, given_up: impl Fn() -> bool) -> Result<Option<Turn<'_>>, Error> {
        self.gate().map(|gate| gate.begin_draw(frames, self.config().deadline, given_up)).transpose()
    }

    /// How many frames a buffer of such columns holds, and how many elements of each ragged one.
    pub(super) fn sizes(&self, specs: &[ColumnSpec], ragged: &[RaggedSpec]) -> Result<(u64, u64), Error> {
        let elements = self.shared.config.ragged_elements;
        let sizes = ragged.iter().map(|spec| spec.dtype.size() as u64).sum::<u64>();
        let lists = ragged.len() as u64 * 16 + elements.map_or(ELEMENTS * sizes, |_| 0);
        let width = Ring::frame_bytes(specs) as u64 + lists;
        // One frame, and room for another.
        let least = 2 * width;
        let frames = match self.shared.config.capacity {
            Capacity::Frames(frames) => frames,
            Capacity::Bytes(bytes) => {
                let left = bytes.saturating_sub(elements.unwrap_or(0).saturating_mul(sizes));
                if left < least {
                    let legal = format!("at least {} bytes, for one frame", least + bytes - left);
                    return Err(Error::config("capacity", format!("{bytes} bytes"), legal));
                }
                let slots = left / width;
                let frames = slots - spare(slots);
                let problems = self.shared.config.limiter.iter().flat_map(|limiter| limiter.problems(frames));
                Error::all(problems.collect())?;
                frames
            }
        };
        Ok((frames, elements.unwrap_or(frames.saturating_mul(ELEMENTS))))
    }

    /// A sampler of this buffer: how frames are drawn is set on it. Any number of them may be made.
    pub fn sampler(&self) -> SamplerBuilder<T> {
        SamplerBuilder::new(self.clone(), Sampling::default())
    }

    /// Whether it is the same buffer.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Gives a buffer that has no columns yet what was loaded.
    pub(super) fn set_ring(&self, _: &MutexGuard<'_, Writer>, ring: Ring) {
        self.shared.ring.get_or_init(|| ring);
    }

    pub(super) fn ring(&self) -> Option<&Ring> {
        self.shared.ring.get()
    }

    /// Frames that are there.
    pub fn len(&self) -> u64 {
        self.ring().map_or(0, |ring| ring.lock().window.len())
    }

    /// Whether no frame is there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frames ever written, or since the count began anew.
    pub fn write_count(&self) -> u64 {
        self.ring().map_or(0, |ring| ring.lock().write_count())
    }

    /// The counters now.
    pub fn stats(&self) -> ReplayStats {
        let limiter = self.gate().map(Gate::stats);
        let Some(ring) = self.ring() else {
            let capacity = match self.shared.config.capacity {
                Capacity::Frames(frames) => frames,
                Capacity::Bytes(_) => 0,
            };
            return ReplayStats { capacity, limiter, ..ReplayStats::default() };
        };
        let memory = ring.memory() as u64;
        let state = ring.lock();
        ReplayStats {
            frames: state.window.len(),
            trajectories: state.index.live().len() as u64,
            write_count: state.write_count(),
            capacity: ring.capacity(),
            memory,
            limiter,
        }
    }
}

/// The columns of a buffer never change. Errors: columns that are missing, unknown or of another layout, by name.
pub(super) fn check_columns(own: &[ColumnSpec], given: &[ColumnSpec]) -> Result<(), Error> {
    if own == given {
        return Ok(());
    }
    let names = |specs: &[ColumnSpec]| specs.iter().map(|spec| &*spec.name).collect::<Vec<_>>().join(", ");
    let differs = own.iter().find(|spec| given.iter().any(|other| other.name == spec.name && other != *spec));
    let value = match differs {
        Some(spec) => format!("{} with {:?} of other shapes or dtypes", names(given), spec.name),
        None => names(given),
    };
    Err(Error::config("columns", value, format!("those of the first write: {}", names(own))))
}

/// Ragged columns do not change either.
pub(super) fn check_ragged<'r>(
    own: impl Iterator<Item = &'r RaggedSpec> + Clone,
    given: &[RaggedSpec],
) -> Result<(), Error> {
    if own.clone().eq(given) {
        return Ok(());
    }
    let list = |specs: &mut dyn Iterator<Item = &RaggedSpec>| {
        let told: Vec<_> = specs.map(|spec| format!("{} of {}", spec.name, spec.dtype)).collect();
        if told.is_empty() { "none".into() } else { told.join(", ") }
    };
    let legal = format!("those of the first write: {}", list(&mut own.clone()));
    Err(Error::config("ragged columns", list(&mut given.iter()), legal))
}

impl<T: Task> fmt::Debug for Replay<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("Replay")
            .field("frames", &stats.frames)
            .field("capacity", &stats.capacity)
            .field("write_count", &stats.write_count)
            .field("trajectories", &stats.trajectories)
            .finish_non_exhaustive()
    }
}
