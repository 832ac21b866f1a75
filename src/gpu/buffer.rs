//! Device memory, checked against the adapter's limits before wgpu sees it.

use std::sync::atomic::Ordering;

use super::Gpu;
use crate::error::Error;

impl Gpu {
    /// A buffer of `bytes`, rounded up to whole words, at least one.
    ///
    /// # Errors
    /// [`Error::Gpu`] with what is needed and what the adapter allows, or when its memory is full.
    pub fn buffer(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, Error> {
        self.check_size(label, bytes, usage)?;
        self.create_buffer(label, bytes, usage, false)
    }

    /// The same, maybe larger than one binding may be, and maybe mapped.
    pub(crate) fn create_buffer(
        &self,
        label: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
        mapped_at_creation: bool,
    ) -> Result<wgpu::Buffer, Error> {
        self.check_size(label, bytes, usage - wgpu::BufferUsages::STORAGE - wgpu::BufferUsages::UNIFORM)?;
        let size = bytes.max(4).next_multiple_of(4);
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation };
        let buffer =
            self.scoped(&format!("buffer {label:?} of {size} bytes"), || self.device.create_buffer(&descriptor))?;
        self.created.fetch_add(1, Ordering::Relaxed);
        Ok(buffer)
    }

    /// Tells whether the adapter allows a buffer of `bytes` for `usage`, without creating it.
    ///
    /// # Errors
    /// [`Error::Gpu`] with what is needed and what the adapter allows.
    pub fn check_size(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<(), Error> {
        let limits = self.limits();
        let mut allowed = ("max_buffer_size", limits.max_buffer_size);
        // Shaders number the words of a binding with 32 bits.
        let words = limits.max_storage_buffer_binding_size.min(u64::from(u32::MAX) * 4);
        let bindings = [
            (wgpu::BufferUsages::STORAGE, "max_storage_buffer_binding_size", words),
            (wgpu::BufferUsages::UNIFORM, "max_uniform_buffer_binding_size", limits.max_uniform_buffer_binding_size),
        ];
        for (kind, name, limit) in bindings {
            if usage.contains(kind) && limit < allowed.1 {
                allowed = (name, limit);
            }
        }
        if bytes <= allowed.1 {
            return Ok(());
        }
        Err(Error::Gpu(format!(
            "buffer {label:?} needs {bytes} bytes, {} allows {} ({}); use fewer rows a call, a smaller network, or \
             Backend::Cpu",
            self.adapter(),
            allowed.1,
            allowed.0
        )))
    }
}
