//! Convolution as a linear layer on patches.

use candle_core::{Result, Tensor};
use gleaner::{
    data::{Data, Dtype},
    prelude::*,
};

use super::ops;

/// How a row of numbers is an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Image {
    /// Channels, height and width.
    pub shape: [usize; 3],
    /// What its elements are multiplied by before they are convolved.
    pub scale: f64,
}

impl Image {
    /// A task's observation, whose bytes stand for 0 to 1.
    pub fn observed<T: Task>() -> Self {
        let field = &T::Observation::fields()[0];
        let shape = <[usize; 3]>::try_from(&field.shape[..]).unwrap_or_default();
        Self { shape, scale: if field.dtype == Dtype::U8 { 1.0 / 255.0 } else { 1.0 } }
    }
}

/// Convolves images without padding; also says how the results are images.
pub fn conv2d(x: &Tensor, image: Image, weight: &Tensor, bias: &Tensor, stride: usize) -> Result<(Tensor, Image)> {
    let (filters, _, kernel, _) = weight.dims4()?;
    let [height, width] = [1, 2].map(|side| (image.shape[side] - kernel) / stride + 1);
    let (frames, places) = (x.dim(0)?, height * width);
    let indices = Tensor::new(patches(image.shape, [height, width], kernel, stride), x.device())?;
    let x = if image.scale == 1.0 { x.clone() } else { (x * image.scale)? };
    // With frames last, whole runs of numbers are picked.
    let patches = x.t()?.contiguous()?.index_select(&indices, 0)?.reshape(((), places * frames))?;
    let y = ops::linear(&patches.t()?, &weight.flatten_from(1)?, bias)?;
    let y = y.reshape((places, frames, filters))?.permute((1, 2, 0))?.reshape((frames, ()))?;
    Ok((y, Image { shape: [filters, height, width], scale: 1.0 }))
}

/// Where each element of a patch is in an image, place by place.
fn patches([channels, height, width]: [usize; 3], places: [usize; 2], kernel: usize, stride: usize) -> Vec<u32> {
    let mut indices = Vec::new();
    for element in 0..channels * kernel * kernel {
        let [channel, y, x] = [element / kernel / kernel, element / kernel % kernel, element % kernel];
        for place in 0..places[0] * places[1] {
            let [row, column] = [place / places[1] * stride + y, place % places[1] * stride + x];
            indices.push(((channel * height + row) * width + column) as u32);
        }
    }
    indices
}
