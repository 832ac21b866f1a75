//! Convolution of images.

use pulp::Arch;

use super::{
    Block, Kernel, Tensors,
    linear::{self, Packed, TILE},
};
use crate::policy::plan::Convolution;

/// Places whose patches are gathered together, a multiple of [`TILE`].
const PLACES: usize = 96;

/// Cross-correlation: the patches under the kernel become rows of a matrix, which a linear layer reads.
#[derive(Debug)]
pub(crate) struct Conv2d {
    shapes: Convolution,
    packed: Packed,
}

impl Conv2d {
    pub(crate) fn new(shapes: Convolution, tensors: &Tensors<'_>) -> Self {
        let weight: Vec<f32> = tensors.get("weight").iter().map(|x| x * shapes.scale).collect();
        Self { shapes, packed: Packed::new(shapes.patch(), &weight, tensors.get("bias")) }
    }

    /// Floats of the patches that are gathered together, and of what the linear layer makes of them.
    fn parts(&self) -> (usize, usize) {
        let places = self.shapes.places().min(PLACES).next_multiple_of(TILE);
        (places * self.shapes.patch(), places * self.packed.padded())
    }

    /// Gathers the patches at the places from `first` on.
    fn gather(&self, image: &[f32], first: usize, patches: &mut [f32]) {
        let Convolution { input: [channels, height, width], output: [_, _, columns], kernel, stride, padding, .. } =
            self.shapes;
        // Places and lines are counted from the edge of the padding.
        let inside = |at: usize, side: usize| at.checked_sub(padding).filter(|at| *at < side);
        for (place, patch) in (first..self.shapes.places()).zip(patches.chunks_exact_mut(self.shapes.patch())) {
            let (top, left) = (place / columns * stride, place % columns * stride);
            let mut lines = patch.chunks_exact_mut(kernel);
            for channel in 0..channels {
                for (line, to) in (top..top + kernel).zip(&mut lines) {
                    if padding == 0 {
                        to.copy_from_slice(&image[(channel * height + line) * width + left..][..kernel]);
                        continue;
                    }
                    for (column, to) in (left..).zip(to) {
                        let place = inside(line, height).zip(inside(column, width));
                        *to = place.map_or(0.0, |(line, column)| image[(channel * height + line) * width + column]);
                    }
                }
            }
        }
    }
}

impl Kernel for Conv2d {
    fn run(&self, arch: Arch, block: Block<'_>, scratch: &mut [f32]) {
        let (patches, results) = self.parts();
        let (patches, results) = scratch[..patches + results].split_at_mut(patches);
        let (places, padded) = (self.shapes.places(), self.packed.padded());
        let rows = block.to.chunks_exact_mut(block.to_stride).zip(block.from.chunks(block.stride)).take(block.rows);
        for (to, image) in rows {
            for first in (0..places).step_by(PLACES) {
                self.gather(image, first, patches);
                linear::run(arch, self.shapes.activation, &self.packed, patches, self.shapes.patch(), results);
                for (place, filters) in (first..places).zip(results.chunks_exact(padded)) {
                    for (filter, x) in filters[..self.shapes.output[0]].iter().enumerate() {
                        to[filter * places + place] = *x;
                    }
                }
            }
        }
    }

    fn scratch(&self, _: usize) -> usize {
        let (patches, results) = self.parts();
        patches + results
    }
}
