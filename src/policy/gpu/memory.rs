//! Recurrent states in device memory. They stay there: a tick sends slots and beginnings only.

use crate::{
    error::Error,
    gpu::{Gpu, Readback, Upload},
    policy::plan::States,
};

/// States by slot, `[slots, width]`; grows to the most slots seen and keeps what it holds.
pub(super) struct DeviceStates {
    width: usize,
    slots: usize,
    buffer: wgpu::Buffer,
    upload: Upload,
    readback: Readback,
}

impl DeviceStates {
    pub(super) fn new(gpu: &Gpu, width: usize) -> Result<Self, Error> {
        let (upload, readback) = (Upload::default(), Readback::default());
        Ok(Self { width, slots: 0, buffer: create(gpu, 0)?, upload, readback })
    }

    pub(super) fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    fn bytes(&self, slots: usize) -> u64 {
        (slots as u64).saturating_mul(self.width as u64 * 4)
    }

    /// Makes room for `slots` slots, new ones with zeros; whether the buffer is another one now.
    pub(super) fn reserve(&mut self, gpu: &Gpu, slots: usize) -> Result<bool, Error> {
        if slots <= self.slots || self.width == 0 {
            return Ok(false);
        }
        let buffer = create(gpu, self.bytes(slots))?;
        if self.slots > 0 {
            let mut encoder = gpu.device().create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(&self.buffer, 0, &buffer, 0, self.bytes(self.slots));
            gpu.run(encoder.finish(), 0, &mut [], None)?;
        }
        (self.buffer, self.slots) = (buffer, slots);
        Ok(true)
    }

    /// Overwrites the first slots with `states`, for which there is room.
    pub(super) fn push(&mut self, gpu: &Gpu, states: &States) -> Result<(), Error> {
        let mut words = vec![0.0; states.slots() * self.width];
        for (slot, state) in words.chunks_exact_mut(self.width.max(1)).enumerate() {
            states.read(slot, 0, state);
        }
        if words.is_empty() {
            return Ok(());
        }
        let from = self.upload.fill(gpu, "states upload", &[bytemuck::cast_slice(&words)])?;
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&from, 0, &self.buffer, 0, self.bytes(states.slots()));
        gpu.run(encoder.finish(), 0, &mut [&mut self.upload], None)
    }

    /// Overwrites `states` with the first slots; those that were never seen keep what they have.
    pub(super) fn pull(&mut self, gpu: &Gpu, states: &States) -> Result<(), Error> {
        let slots = self.slots.min(states.slots());
        let size = self.bytes(slots);
        if size == 0 {
            return Ok(());
        }
        let to = self.readback.reserve(gpu, "states readback", size)?;
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&self.buffer, 0, &to, 0, size);
        gpu.run(encoder.finish(), 0, &mut [], Some(&mut self.readback))?;
        let width = self.width;
        self.readback.read(|bytes| {
            let words: &[f32] = bytemuck::cast_slice(&bytes[..size as usize]);
            words.chunks_exact(width).enumerate().for_each(|(slot, state)| states.write(slot, 0, state));
        })
    }
}

fn create(gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer, Error> {
    use wgpu::BufferUsages as Usage;
    gpu.buffer("states", bytes, Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC)
}
