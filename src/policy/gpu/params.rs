//! Uniforms of the policy's shaders, mirrored field by field.

use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};

use super::fused::{LAYERS, NETWORK_SIZE};

/// Bytes of the largest of them: one block of the uniform buffer holds any. Each begins with the number of rows.
pub(super) const PARAMS_SIZE: u64 = 64;

/// Uniform of `shaders/linear.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct LinearParams {
    pub(super) rows: u32,
    pub(super) start: u32,
    pub(super) stride: u32,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
}

/// Uniform of `shaders/layer_norm.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct LayerNormParams {
    pub(super) rows: u32,
    pub(super) start: u32,
    pub(super) stride: u32,
    pub(super) columns: u32,
}

/// Uniform of `shaders/conv2d.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Conv2dParams {
    pub(super) rows: u32,
    pub(super) start: u32,
    pub(super) stride: u32,
    pub(super) channels: u32,
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) filters: u32,
    pub(super) places: u32,
    pub(super) columns: u32,
    pub(super) side: u32,
    pub(super) step: u32,
    pub(super) scale: f32,
}

/// Uniform of `shaders/embedding.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct EmbeddingParams {
    pub(super) rows: u32,
    pub(super) start: u32,
    pub(super) stride: u32,
    pub(super) outputs: u32,
    pub(super) entries: u32,
}

/// Uniform of `shaders/gru.wgsl` and `shaders/lstm.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct RecurrentParams {
    pub(super) rows: u32,
    pub(super) start: u32,
    pub(super) stride: u32,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    pub(super) state: u32,
    pub(super) width: u32,
}

/// Uniform of `shaders/copy.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct CopyParams {
    pub(super) rows: u32,
    pub(super) start: u32,
    pub(super) stride: u32,
    pub(super) columns: u32,
    pub(super) at: u32,
    pub(super) width: u32,
}

/// Uniform of `shaders/fused.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct FusedParams {
    pub(super) rows: u32,
    pub(super) layers: u32,
    pub(super) inputs: u32,
    pub(super) params: u32,
    pub(super) params_width: u32,
    pub(super) value: u32,
    pub(super) value_width: u32,
}

/// A layer in the second uniform of `shaders/fused.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct FusedLayer {
    pub(super) start: u32,
    pub(super) to_: u32,
    pub(super) inputs: u32,
    pub(super) tiles: u32,
    pub(super) first: u32,
    pub(super) activated: u32,
    pub(super) padding: [u32; 2],
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

/// Memory layout of a struct as it is filled, for the test that compares it with the shader.
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

/// The layouts of all structs that kernels read.
#[doc(hidden)]
pub fn layouts() -> Vec<Layout> {
    vec![
        layout!("linear", LinearParams { rows, start, stride, inputs, outputs }),
        layout!("layer_norm", LayerNormParams { rows, start, stride, columns }),
        layout!(
            "conv2d",
            Conv2dParams { rows, start, stride, channels, height, width, filters, places, columns, side, step, scale }
        ),
        layout!("embedding", EmbeddingParams { rows, start, stride, outputs, entries }),
        layout!("gru", RecurrentParams { rows, start, stride, inputs, outputs, state, width }),
        layout!("lstm", RecurrentParams { rows, start, stride, inputs, outputs, state, width }),
        layout!("copy", CopyParams { rows, start, stride, columns, at, width }),
        layout!("fused", FusedParams { rows, layers, inputs, params, params_width, value, value_width }),
        layout!("fused", FusedLayer { start, to_, inputs, tiles, first, activated, padding }),
        Layout {
            shader: "fused",
            name: "FusedNetwork",
            size: NETWORK_SIZE as usize,
            members: vec![("layers", 0), ("weights", LAYERS * size_of::<FusedLayer>())],
        },
        layout!("categorical", CategoricalParams { rows, actions, exploration, mask_words }),
        layout!("multi_discrete", MultiDiscreteParams { rows, elements, width, exploration, mask_words }),
        layout!("multi_binary", MultiBinaryParams { rows, bits, exploration }),
        layout!("gaussian", GaussianParams { rows, actions, exploration }),
        layout!("tanh_gaussian", TanhGaussianParams { rows, actions, exploration }),
        layout!("deterministic", DeterministicParams { rows, actions }),
        layout!("q", QParams { rows, actions, exploration, mask_words, epsilon }),
    ]
}
