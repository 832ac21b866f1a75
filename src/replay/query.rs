//! Asking for trajectories by what is in them.
//!
//! ```
//! use gleaner::{prelude::*, replay::query::{column, length, total_reward}};
//!
//! let replay = Replay::<CartPole>::new(10_000)?;
//! for batch in Collector::<CartPole>::builder().rows(4).total_frames(2_000).build()? {
//!     replay.extend(&batch?)?;
//! }
//! // CartPole's observation is position, velocity, angle, angular velocity.
//! let tilted = column("observation").element(2).max().above(0.1);
//! for stored in replay.query(&length().at_least(20.0).and(total_reward().below(200.0)).and(tilted))? {
//!     assert!(stored.frames >= 20);
//! }
//! # Ok::<(), gleaner::Error>(())
//! ```

use bytemuck::pod_read_unaligned;

use super::{
    Replay, Stored,
    index::Piece,
    ring::{Pin, Ring},
    transform::find,
};
use crate::{components::ColumnSpec, data::Dtype, error::Error, task::Task};

/// Frames that are there of a trajectory.
pub fn length() -> Measure {
    Measure(Reduced::Length)
}

/// Sum of the rewards that are there of a trajectory, in 64-bit floats.
pub fn total_reward() -> Measure {
    column("reward").sum()
}

/// The numbers of a column, one a frame; of a column of several numbers see [`Steps::element`].
pub fn column(name: impl Into<String>) -> Steps {
    Steps { name: name.into(), element: None }
}

/// One number of each frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    name: String,
    element: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Sum,
    Mean,
    Max,
    Min,
    First,
    Last,
}

#[derive(Clone, Debug, PartialEq)]
enum Reduced {
    Length,
    Of(Steps, How),
}

/// One number of a trajectory.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure(Reduced);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Below,
    AtMost,
    Equal,
    AtLeast,
    Above,
}

impl Order {
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::Below => a < b,
            Self::AtMost => a <= b,
            Self::Equal => a == b,
            Self::AtLeast => a >= b,
            Self::Above => a > b,
        }
    }
}

/// What holds, or does not, at each frame.
#[derive(Clone, Debug, PartialEq)]
pub struct AtStep {
    steps: Steps,
    order: Order,
    bound: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Compare(Measure, Order, f64),
    Any(AtStep),
    All(AtStep),
    And(Box<(Predicate, Predicate)>),
    Or(Box<(Predicate, Predicate)>),
    Not(Box<Predicate>),
}

/// What holds, or does not, of a trajectory.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate(Node);

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident $order:ident)*) => {
        impl Measure {
            $($(#[$doc])* pub fn $name(self, bound: f64) -> Predicate {
                Predicate(Node::Compare(self, Order::$order, bound))
            })*
        }
        impl Steps {
            $($(#[$doc])* pub fn $name(self, bound: f64) -> AtStep {
                AtStep { steps: self, order: Order::$order, bound }
            })*
        }
    };
}
compare! {
    /// It is less.
    below Below
    /// It is less or equal.
    at_most AtMost
    /// It is equal.
    equals Equal
    /// It is equal or more.
    at_least AtLeast
    /// It is more.
    above Above
}

macro_rules! reduce {
    ($($(#[$doc:meta])* $name:ident $how:ident)*) => {
        impl Steps {
            $($(#[$doc])* pub fn $name(self) -> Measure {
                Measure(Reduced::Of(self, How::$how))
            })*
        }
    };
}
reduce! {
    /// The sum over the frames.
    sum Sum
    /// The mean over the frames.
    mean Mean
    /// The largest.
    max Max
    /// The smallest.
    min Min
    /// That of the first frame that is there.
    first First
    /// That of the last frame.
    last Last
}

impl Steps {
    /// Number `i` of a column of several, in the order in which they lie.
    #[must_use]
    pub fn element(mut self, i: usize) -> Self {
        self.element = Some(i);
        self
    }
}

impl AtStep {
    /// It holds at some frame.
    pub fn any(self) -> Predicate {
        Predicate(Node::Any(self))
    }

    /// It holds at every frame.
    pub fn all(self) -> Predicate {
        Predicate(Node::All(self))
    }
}

impl Predicate {
    /// Both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Node::And(Box::new((self, other))))
    }

    /// One of them holds, or both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(Node::Or(Box::new((self, other))))
    }

    /// It does not hold.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "one of three words that read alike")]
    pub fn not(self) -> Self {
        Self(Node::Not(Box::new(self)))
    }

    /// Reads all of the steps that it asks for, to find wrong columns though no trajectory is looked at.
    fn check(&self, specs: &[ColumnSpec]) -> Result<(), Error> {
        match &self.0 {
            Node::Compare(Measure(Reduced::Length), ..) => Ok(()),
            Node::Compare(Measure(Reduced::Of(steps, _)), ..) => steps.place(specs).map(drop),
            Node::Any(at) | Node::All(at) => at.steps.place(specs).map(drop),
            Node::And(both) | Node::Or(both) => both.0.check(specs).and_then(|()| both.1.check(specs)),
            Node::Not(other) => other.check(specs),
        }
    }
}

/// Where a number lies.
struct Place {
    column: usize,
    stride: usize,
    offset: usize,
    dtype: Dtype,
}

impl Steps {
    fn place(&self, specs: &[ColumnSpec]) -> Result<Place, Error> {
        let column = find(specs, &self.name)?;
        let spec = &specs[column];
        let count: usize = spec.fields.iter().map(|field| field.len()).sum();
        let wrong =
            |value: String| Err(Error::config("element", value, format!("0 to {} of {:?}", count - 1, self.name)));
        let mut left = match self.element {
            Some(i) if i >= count => return wrong(i.to_string()),
            None if count > 1 => return wrong("not given".into()),
            given => given.unwrap_or(0),
        };
        let mut offset = 0;
        for field in &spec.fields {
            let size = field.dtype.size();
            if left < field.len() {
                return Ok(Place { column, stride: spec.stride, offset: offset + left * size, dtype: field.dtype });
            }
            left -= field.len();
            offset += field.len() * size;
        }
        wrong(left.to_string())
    }
}

/// A trajectory that is looked at.
struct Looked<'q> {
    ring: &'q Ring,
    pin: &'q Pin<'q>,
    pieces: &'q [Piece],
    frames: usize,
    bytes: &'q mut Vec<u8>,
    numbers: &'q mut Vec<f64>,
}

impl Looked<'_> {
    fn read(&mut self, steps: &Steps) -> Result<&[f64], Error> {
        let Place { column, stride, offset, dtype } = steps.place(&self.ring.specs)?;
        self.bytes.resize(self.frames * stride, 0);
        self.ring.gather(self.pin, column, self.pieces, self.bytes);
        self.numbers.clear();
        let values = self.bytes.chunks_exact(stride).map(|value| &value[offset..offset + dtype.size()]);
        self.numbers.extend(values.map(|value| match dtype {
            Dtype::F32 => f64::from(pod_read_unaligned::<f32>(value)),
            Dtype::I32 => f64::from(pod_read_unaligned::<i32>(value)),
            Dtype::U8 => f64::from(value[0]),
            Dtype::U32 => f64::from(pod_read_unaligned::<u32>(value)),
            Dtype::U64 => pod_read_unaligned::<u64>(value) as f64,
        }));
        Ok(self.numbers)
    }

    fn measure(&mut self, measure: &Measure) -> Result<f64, Error> {
        let Reduced::Of(steps, how) = &measure.0 else { return Ok(self.frames as f64) };
        let numbers = self.read(steps)?;
        Ok(match how {
            How::Sum => numbers.iter().sum(),
            How::Mean => numbers.iter().sum::<f64>() / numbers.len() as f64,
            How::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            How::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            How::First => numbers.first().copied().unwrap_or(f64::NAN),
            How::Last => numbers.last().copied().unwrap_or(f64::NAN),
        })
    }

    fn holds(&mut self, predicate: &Predicate) -> Result<bool, Error> {
        Ok(match &predicate.0 {
            Node::Compare(measure, order, bound) => order.holds(self.measure(measure)?, *bound),
            Node::Any(at) => self.read(&at.steps)?.iter().any(|number| at.order.holds(*number, at.bound)),
            Node::All(at) => self.read(&at.steps)?.iter().all(|number| at.order.holds(*number, at.bound)),
            Node::And(both) => self.holds(&both.0)? && self.holds(&both.1)?,
            Node::Or(both) => self.holds(&both.0)? || self.holds(&both.1)?,
            Node::Not(other) => !self.holds(other)?,
        })
    }
}

impl<T: Task> Replay<T> {
    /// The trajectories of which frames are there and of which `predicate` holds, the one with the oldest frame first.
    /// Only columns that it asks for are read. The frames that were there at the call are kept until they are looked at:
    /// a writer that needs their place waits, and so does an edit of them. Errors: an unknown column, or one of several
    /// numbers without [`Steps::element`]; an edit that is not done by the buffer's deadline.
    pub fn query(&self, predicate: &Predicate) -> Result<Vec<Stored>, Error> {
        let Some(ring) = self.ring() else { return Ok(Vec::new()) };
        predicate.check(&ring.specs)?;
        let state = ring.lock_to_read(self.config().deadline)?;
        let (window, mut pieces) = (state.window, Vec::new());
        let mut found: Vec<_> = self.stored(&state).map(|(at, stored)| (stored, at, 0..0)).collect();
        found.sort_unstable_by_key(|(stored, ..)| stored.first);
        for (_, at, range) in &mut found {
            let (record, begin) = (state.index.record(*at), pieces.len());
            let positions = record.positions(window);
            record.pieces(positions.start, positions.len() as u32, 1, |piece| pieces.push(piece));
            *range = begin..pieces.len();
        }
        let mut pin = ring.hold(state, window.tail);
        let (mut bytes, mut numbers, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (stored, _, range) in found {
            // What was looked at may go.
            pin.advance(stored.first);
            let (pieces, frames) = (&pieces[range], stored.frames as usize);
            let mut looked = Looked { ring, pin: &pin, pieces, frames, bytes: &mut bytes, numbers: &mut numbers };
            if looked.holds(predicate)? {
                all.push(stored);
            }
        }
        Ok(all)
    }
}
