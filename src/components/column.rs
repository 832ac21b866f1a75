//! What a recorded column is, for everything that iterates columns.

use bevy_ecs::prelude::World;

use crate::data::{Data, Dtype, Field};

/// Name and layout of a recorded column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSpec {
    /// Unique name.
    pub name: &'static str,
    /// Fields of one value; a single unnamed one for a bare tensor.
    pub fields: Vec<Field>,
    /// Bytes of one value.
    pub stride: usize,
    /// Whether it belongs to the time before the action, as observations do: time-major blocks then hold one tick more.
    pub leads: bool,
}

impl ColumnSpec {
    /// The column `name` of values of `D`.
    pub fn of<D: Data>(name: &'static str) -> Self {
        Self { name, fields: D::fields(), stride: size_of::<D>(), leads: false }
    }

    /// The column, as one that belongs to the time before the action.
    #[must_use]
    pub fn leading(self) -> Self {
        Self { leads: true, ..self }
    }

    /// The column `name` of scalars of `dtype`.
    pub fn scalar(name: &'static str, dtype: Dtype) -> Self {
        Self { name, fields: vec![Field { name: "", dtype, shape: Vec::new() }], stride: dtype.size(), leads: false }
    }
}

/// What rows remember from tick to tick, for rollouts that keep it.
pub trait Remembered: Send + Sync {
    /// Numbers of a row's state.
    fn width(&self) -> usize;

    /// Writes the states that the coming frames begin with, `[rows, width]` by slot; zeros where an episode begins.
    fn before(&mut self, world: &World, out: &mut [f32]);

    /// Writes the states behind the newest frames, `[rows, width]` by slot, also where they ended an episode.
    fn after(&mut self, world: &World, out: &mut [f32]);
}

/// Where the values of a recorded column come from, each tick.
pub trait Source: Send + Sync {
    /// Writes one value a row into `out`, by slot. `in_order` says that the rows are tables of consecutive slots.
    fn record(&mut self, world: &World, in_order: bool, out: &mut [u8]);
}
