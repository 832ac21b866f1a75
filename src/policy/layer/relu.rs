//! The positive part.

use super::Elementwise;

/// `max(x, 0)`; NaN stays NaN, as in PyTorch.
pub(crate) struct Relu;

impl Elementwise for Relu {
    #[inline(always)]
    fn apply<const FUSED: bool>(x: f32) -> f32 {
        if x < 0.0 { 0.0 } else { x }
    }
}
