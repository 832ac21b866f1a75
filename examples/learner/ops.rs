//! The two operations that training spends its time in, in place of candle's.
//!
//! candle spreads products of matrices as small as these over threads, which costs more than it saves, and reads the
//! number of cores from the system before each one; its tanh asks the C library for each element.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Error, Layout, Result, Shape, Tensor};
use gleaner::math;
use ndarray::{Array2, ArrayView2, ShapeBuilder, linalg::general_mat_mul};

/// `x · weightᵀ + bias`.
pub fn linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    x.apply_op3(weight, bias, Linear)
}

/// The collector's own tanh.
pub fn tanh(x: &Tensor) -> Result<Tensor> {
    x.apply_op1(Tanh)
}

/// `a · b`, not differentiable.
fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.apply_op2_no_bwd(b, &Product)
}

struct Linear;

impl CustomOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, weight) = (matrix(x, x_layout)?, matrix(weight, weight_layout)?);
        let bias = elements(bias, bias_layout)?;
        let mut out = Vec::with_capacity(x.nrows() * bias.len());
        (0..x.nrows()).for_each(|_| out.extend_from_slice(bias));
        multiply_onto(out, &x, &weight.t())
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let ones = Tensor::ones((1, x.dim(0)?), x.dtype(), x.device())?;
        // What is given, rather than computed, needs no gradient.
        let by_x = x.track_op().then(|| product(gradient, weight)).transpose()?;
        let by_weight = product(&gradient.t()?, x)?;
        let by_bias = product(&ones, gradient)?.squeeze(0)?;
        Ok((by_x, Some(by_weight), Some(by_bias)))
    }
}

struct Product;

impl CustomOp2 for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (a, b) = (matrix(a, a_layout)?, matrix(b, b_layout)?);
        multiply_onto(vec![0.0; a.nrows() * b.ncols()], &a, &b)
    }
}

struct Tanh;

impl CustomOp1 for Tanh {
    fn name(&self) -> &'static str {
        "tanh"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let out = elements(x, layout)?.iter().map(|x| math::tanh(*x)).collect();
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, result: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some((gradient * result.sqr()?.affine(-1.0, 1.0)?)?))
    }
}

/// `out + a · b`.
fn multiply_onto(out: Vec<f32>, a: &ArrayView2<'_, f32>, b: &ArrayView2<'_, f32>) -> Result<(CpuStorage, Shape)> {
    let mut sum = Array2::from_shape_vec((a.nrows(), b.ncols()), out).map_err(Error::wrap)?;
    general_mat_mul(1.0, a, b, 1.0, &mut sum);
    let shape = Shape::from(sum.dim());
    Ok((CpuStorage::F32(sum.into_raw_vec_and_offset().0), shape))
}

fn matrix<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<ArrayView2<'a, f32>> {
    let (rows, columns) = layout.shape().dims2()?;
    let strides = (layout.stride()[0], layout.stride()[1]);
    let data = &storage.as_slice::<f32>()?[layout.start_offset()..];
    ArrayView2::from_shape((rows, columns).strides(strides), data).map_err(Error::wrap)
}

fn elements<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (start, end) = layout.contiguous_offsets().ok_or(Error::RequiresContiguous { op: "elements" })?;
    Ok(&storage.as_slice::<f32>()?[start..end])
}
