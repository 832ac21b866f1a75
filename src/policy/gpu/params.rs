//! Uniforms of the policy's shaders, mirrored field by field.

use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};

/// Bytes of each of them: one block of the uniform buffer holds any.
pub(super) const PARAMS_SIZE: u64 = 32;

/// Uniform of `shaders/linear.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct LinearParams {
    pub(super) rows: u32,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    pub(super) padding: u32,
}

/// Uniform of `shaders/categorical.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct CategoricalParams {
    pub(super) rows: u32,
    pub(super) actions: u32,
    pub(super) exploration: u32,
    pub(super) mask_words: u32,
}

/// Uniform of `shaders/gaussian.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct GaussianParams {
    pub(super) rows: u32,
    pub(super) actions: u32,
    pub(super) exploration: u32,
}

/// Uniform of `shaders/multi_discrete.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct MultiDiscreteParams {
    pub(super) rows: u32,
    pub(super) elements: u32,
    pub(super) width: u32,
    pub(super) exploration: u32,
    pub(super) mask_words: u32,
}

/// Uniform of `shaders/multi_binary.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct MultiBinaryParams {
    pub(super) rows: u32,
    pub(super) bits: u32,
    pub(super) exploration: u32,
}

/// Uniform of `shaders/tanh_gaussian.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TanhGaussianParams {
    pub(super) rows: u32,
    pub(super) actions: u32,
    pub(super) exploration: u32,
}

/// Uniform of `shaders/deterministic.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DeterministicParams {
    pub(super) rows: u32,
    pub(super) actions: u32,
}

/// Uniform of `shaders/q.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct QParams {
    pub(super) rows: u32,
    pub(super) actions: u32,
    pub(super) exploration: u32,
    pub(super) mask_words: u32,
    pub(super) epsilon: f32,
}

/// Memory layout of a uniform's mirror, for the test that compares it with the shader.
#[doc(hidden)]
pub struct Layout {
    /// The shader that reads it.
    pub shader: &'static str,
    /// Name of the struct, here and there.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Names and offsets of the members.
    pub members: Vec<(&'static str, usize)>,
}

macro_rules! layout {
    ($shader:literal, $name:ident { $($member:ident),* }) => {
        Layout {
            shader: $shader,
            name: stringify!($name),
            size: size_of::<$name>(),
            members: vec![$((stringify!($member), offset_of!($name, $member))),*],
        }
    };
}

/// The layouts of all uniforms.
#[doc(hidden)]
pub fn layouts() -> Vec<Layout> {
    vec![
        layout!("linear", LinearParams { rows, inputs, outputs, padding }),
        layout!("categorical", CategoricalParams { rows, actions, exploration, mask_words }),
        layout!("multi_discrete", MultiDiscreteParams { rows, elements, width, exploration, mask_words }),
        layout!("multi_binary", MultiBinaryParams { rows, bits, exploration }),
        layout!("gaussian", GaussianParams { rows, actions, exploration }),
        layout!("tanh_gaussian", TanhGaussianParams { rows, actions, exploration }),
        layout!("deterministic", DeterministicParams { rows, actions }),
        layout!("q", QParams { rows, actions, exploration, mask_words, epsilon }),
    ]
}
