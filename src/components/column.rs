//! What a recorded column is, for everything that iterates columns.

use std::borrow::Cow;

use bevy_ecs::prelude::World;
use bytemuck::Pod;
use serde::{Deserialize, Serialize};

use crate::{
    data::{Data, Dtype, Field},
    error::Error,
};

// Indices of the columns that every block of frames has.
pub(crate) const OBSERVATION: usize = 0;
pub(crate) const ACTION: usize = 1;
pub(crate) const REWARD: usize = 2;
pub(crate) const END: usize = 3;
pub(crate) const STEP: usize = 4;
pub(crate) const TRAJECTORY: usize = 5;
pub(crate) const FLAGS: usize = 6;
pub(crate) const VERSION: usize = 7;

/// Name and layout of a recorded column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSpec {
    /// Unique name.
    pub name: Cow<'static, str>,
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
        Self { name: name.into(), fields: D::fields(), stride: size_of::<D>(), leads: false }
    }

    /// The column, as one that belongs to the time before the action.
    #[must_use]
    pub fn leading(self) -> Self {
        Self { leads: true, ..self }
    }

    /// The column `name` of scalars of `dtype`.
    pub fn scalar(name: &'static str, dtype: Dtype) -> Self {
        let field = Field { name: "".into(), dtype, shape: Vec::new() };
        Self { name: name.into(), fields: vec![field], stride: dtype.size(), leads: false }
    }

    /// The bytes of a column as values of `V`, whose size must be the column's stride.
    pub(crate) fn values<'b, V: Pod>(&self, bytes: &'b [u8]) -> Result<&'b [V], Error> {
        self.check::<V>().map(|()| bytemuck::cast_slice(bytes))
    }

    /// The same, to be changed.
    pub(crate) fn values_mut<'b, V: Pod>(&self, bytes: &'b mut [u8]) -> Result<&'b mut [V], Error> {
        self.check::<V>().map(|()| bytemuck::cast_slice_mut(bytes))
    }

    fn check<V>(&self) -> Result<(), Error> {
        let (stride, name) = (self.stride, &self.name);
        if size_of::<V>() != stride || align_of::<V>() > 16 {
            let (size, kind) = (size_of::<V>(), std::any::type_name::<V>());
            let problem = format!("values of {name:?} have {stride} bytes, {kind} has {size}");
            return Err(Error::State { call: "column", problem });
        }
        Ok(())
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
