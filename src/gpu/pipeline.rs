//! Kernels, their bindings, and the shape of a dispatch.

use std::sync::PoisonError;

use super::{Gpu, shader};
use crate::error::Error;

/// Threads of a workgroup, in every shader.
pub const GROUP: u32 = 64;

/// Workgroups that every adapter takes in one dimension.
pub const MAX_GROUPS: u32 = 65_535;

/// Workgroups of a dispatch over `items`, folded into two dimensions; `shaders/shared/grid.wgsl` unfolds them. `None`
/// if the items cannot be numbered with 32 bits.
pub fn grid(items: u64) -> Option<[u32; 2]> {
    let groups = items.div_ceil(u64::from(GROUP));
    let columns = groups.div_ceil(u64::from(MAX_GROUPS)).max(1);
    let x = groups.div_ceil(columns);
    // The threads of the last, partly filled column are numbered too.
    let last = x * columns * u64::from(GROUP);
    (columns <= u64::from(MAX_GROUPS) && last <= u64::from(u32::MAX)).then_some([x as u32, columns as u32])
}

/// A compute pipeline; clones share it. Its bindings are numbered from 0 in group 0, its entry point is `main`.
#[derive(Clone)]
pub struct Kernel {
    name: String,
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

impl Kernel {
    /// The kernel called `name` in `shaders/`, with values for its `override` constants.
    ///
    /// # Errors
    /// [`Error::Gpu`] if there is no such shader or the adapter refuses it.
    pub fn new(gpu: &Gpu, name: &str, constants: &[(&str, f64)]) -> Result<Self, Error> {
        Self::with_imports(gpu, name, &[], constants)
    }

    /// The same, with another shader in place of some that it imports: pairs of a name and the name that replaces it.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_imports(
        gpu: &Gpu,
        name: &str,
        swaps: &[(&str, &str)],
        constants: &[(&str, f64)],
    ) -> Result<Self, Error> {
        Self::from_text(gpu, name, &shader::expand_with(shader::find(name)?, swaps)?, constants)
    }

    /// A kernel from WGSL text, which may hold `#import` lines. Compiled once a device, which keeps it.
    ///
    /// # Errors
    /// [`Error::Gpu`] if an import is unknown or the adapter refuses the shader.
    pub fn from_text(gpu: &Gpu, name: &str, text: &str, constants: &[(&str, f64)]) -> Result<Self, Error> {
        let text = shader::expand(text)?;
        let key = format!("{constants:?} {text}");
        let mut kernels = gpu.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(&key) {
            gpu.check()?;
            return Ok(kernel.clone());
        }
        let (pipeline, layout) = gpu.scoped(&format!("shader {name:?}"), || {
            let source = wgpu::ShaderSource::Wgsl(text.into());
            let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(name), source });
            let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(name),
                layout: None,
                module: &module,
                entry_point: Some("main"),
                // Kernels write the workgroup memory that they read.
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants,
                    zero_initialize_workgroup_memory: false,
                },
                cache: None,
            });
            let layout = pipeline.get_bind_group_layout(0);
            (pipeline, layout)
        })?;
        let kernel = Self { name: name.into(), pipeline, layout };
        kernels.insert(key, kernel.clone());
        Ok(kernel)
    }

    /// Binds buffers or parts of them, in the order of their numbers.
    ///
    /// # Errors
    /// [`Error::Gpu`] if they do not fit the shader.
    pub fn bind(&self, gpu: &Gpu, buffers: &[wgpu::BufferBinding<'_>]) -> Result<wgpu::BindGroup, Error> {
        let numbered = buffers.iter().enumerate().map(|(binding, buffer)| wgpu::BindGroupEntry {
            binding: binding as u32,
            resource: wgpu::BindingResource::Buffer(buffer.clone()),
        });
        let entries: Vec<_> = numbered.collect();
        gpu.scoped(&format!("bindings of shader {:?}", self.name), || {
            let (label, layout) = (Some(self.name.as_str()), &self.layout);
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor { label, layout, entries: &entries })
        })
    }

    /// Records a dispatch over `items`.
    ///
    /// # Errors
    /// [`Error::Gpu`] if there are more items than can be numbered.
    pub fn dispatch(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        bindings: &wgpu::BindGroup,
        items: u64,
    ) -> Result<(), Error> {
        let name = &self.name;
        let [x, y] = grid(items).ok_or_else(|| {
            Error::Gpu(format!(
                "{items} items for shader {name:?}; legal: 0 to about {}; use fewer rows a call",
                u32::MAX
            ))
        })?;
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, bindings, &[]);
        pass.dispatch_workgroups(x, y, 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_covered_and_no_dimension_is_too_long() {
        for items in [0, 1, 63, 64, 65, 4_194_240, 4_194_241, 8_388_481, 1 << 30, 4_000_000_000] {
            let [x, y] = grid(items).unwrap();
            let threads = u64::from(x) * u64::from(y) * u64::from(GROUP);
            assert!(threads >= items && x <= MAX_GROUPS && y <= MAX_GROUPS, "{items}: {x} × {y}");
            assert!(threads < items + u64::from(GROUP) * (u64::from(y) + 1), "{items}: {x} × {y} is wasteful");
        }
        assert_eq!(grid(u64::from(u32::MAX) + 1), None);
    }
}
