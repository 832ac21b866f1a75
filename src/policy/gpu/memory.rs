//! Recurrent states in device memory. They stay there: a tick sends places and beginnings only.

use crate::{
    error::Error,
    gpu::{Gpu, Readback, Upload},
    policy::plan::States,
};

/// States by place, `[places, width]`; grows to the most places seen and keeps what it holds.
pub(super) struct DeviceStates {
    width: usize,
    /// Columns before this one are the head's noise, which the host makes and keeps.
    first: usize,
    places: usize,
    buffer: wgpu::Buffer,
    upload: Upload,
    readback: Readback,
}

impl DeviceStates {
    pub(super) fn new(gpu: &Gpu, width: usize, first: usize) -> Result<Self, Error> {
        let (upload, readback) = (Upload::default(), Readback::default());
        Ok(Self { width, first, places: 0, buffer: create(gpu, 0)?, upload, readback })
    }

    pub(super) fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    fn bytes(&self, places: usize) -> u64 {
        (places as u64).saturating_mul(self.width as u64 * 4)
    }

    /// Makes room for `places` places, new ones with zeros; whether the buffer is another one now.
    pub(super) fn reserve(&mut self, gpu: &Gpu, places: usize) -> Result<bool, Error> {
        if places <= self.places || self.width == 0 {
            return Ok(false);
        }
        let buffer = create(gpu, self.bytes(places))?;
        if self.places > 0 {
            let mut encoder = gpu.device().create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(&self.buffer, 0, &buffer, 0, self.bytes(self.places));
            gpu.run(encoder.finish(), 0, &mut [], None)?;
        }
        (self.buffer, self.places) = (buffer, places);
        Ok(true)
    }

    /// Overwrites the first places with `states`, for which there is room.
    pub(super) fn push(&mut self, gpu: &Gpu, states: &States) -> Result<(), Error> {
        let mut words = vec![0.0; states.len() * self.width];
        for (place, state) in words.chunks_exact_mut(self.width.max(1)).enumerate() {
            states.read(place, 0, state);
        }
        if words.is_empty() {
            return Ok(());
        }
        let from = self.upload.fill(gpu, "states upload", &[bytemuck::cast_slice(&words)])?;
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&from, 0, &self.buffer, 0, self.bytes(states.len()));
        gpu.run(encoder.finish(), 0, &mut [&mut self.upload], None)
    }

    /// Overwrites `states` with the first places; those that were never seen keep what they have.
    pub(super) fn pull(&mut self, gpu: &Gpu, states: &States) -> Result<(), Error> {
        let places = self.places.min(states.len());
        let size = self.bytes(places);
        if size == 0 {
            return Ok(());
        }
        let to = self.readback.reserve(gpu, "states readback", size)?;
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&self.buffer, 0, &to, 0, size);
        gpu.run(encoder.finish(), 0, &mut [], Some(&mut self.readback))?;
        let (width, first) = (self.width, self.first);
        self.readback.read(|bytes| {
            let words: &[f32] = bytemuck::cast_slice(&bytes[..size as usize]);
            words
                .chunks_exact(width)
                .enumerate()
                .for_each(|(place, state)| states.write(place, first, &state[first..]));
        })
    }
}

fn create(gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer, Error> {
    use wgpu::BufferUsages as Usage;
    gpu.buffer("states", bytes, Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC)
}
