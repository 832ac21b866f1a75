//! The way there and back: staging memory that is reused, and the one wait of a submit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use super::Gpu;
use crate::error::{Error, panic_message};

/// Memory that the CPU writes and kernels' buffers are copied from. It grows to what was needed and stays.
#[derive(Default)]
pub struct Upload {
    /// Mapped while not `filled`.
    buffer: Option<wgpu::Buffer>,
    filled: bool,
}

/// Memory that results are copied to and the CPU reads. It grows to what was needed and stays.
#[derive(Default)]
pub struct Readback {
    buffer: Option<wgpu::Buffer>,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Reserved,
    /// Mapped.
    Brought,
}

impl Upload {
    /// Writes `parts` one behind the other, each padded to whole words, and gives the buffer to copy from. The copy
    /// must be in the next [`Gpu::run`] that is given this staging.
    ///
    /// # Errors
    /// Those of [`Gpu::buffer`].
    pub fn fill(&mut self, gpu: &Gpu, label: &str, parts: &[&[u8]]) -> Result<wgpu::Buffer, Error> {
        let size: u64 = parts.iter().map(|part| part.len().next_multiple_of(4) as u64).sum();
        let size = size.max(4).next_multiple_of(wgpu::MAP_ALIGNMENT);
        // One that was filled and never run is not mapped.
        let usable = |buffer: &wgpu::Buffer| !self.filled && buffer.size() >= size;
        let buffer = match self.buffer.take().filter(usable) {
            Some(buffer) => buffer,
            None => {
                let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
                gpu.create_buffer(label, size, usage, true)?
            }
        };
        let mut view = buffer.get_mapped_range_mut(..).map_err(|error| gpu.lost(&error.to_string()))?;
        let mut offset = 0;
        for part in parts {
            view.slice(offset..offset + part.len()).copy_from_slice(part);
            offset += part.len().next_multiple_of(4);
        }
        drop(view);
        buffer.unmap();
        gpu.bytes_up.fetch_add(offset as u64, Ordering::Relaxed);
        (self.buffer, self.filled) = (Some(buffer.clone()), true);
        Ok(buffer)
    }
}

impl Readback {
    /// The buffer to copy at most `bytes` of results to, in the next [`Gpu::run`] that is given this staging.
    ///
    /// # Errors
    /// Those of [`Gpu::buffer`].
    pub fn reserve(&mut self, gpu: &Gpu, label: &str, bytes: u64) -> Result<wgpu::Buffer, Error> {
        self.release();
        let buffer = match self.buffer.take().filter(|buffer| buffer.size() >= bytes) {
            Some(buffer) => buffer,
            None => {
                let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
                gpu.create_buffer(label, bytes.max(4).next_multiple_of(wgpu::MAP_ALIGNMENT), usage, false)?
            }
        };
        gpu.bytes_down.fetch_add(bytes, Ordering::Relaxed);
        (self.buffer, self.state) = (Some(buffer.clone()), State::Reserved);
        Ok(buffer)
    }

    /// Shows the bytes that the last [`Gpu::run`] brought, from the buffer's start; then the memory is free again.
    ///
    /// # Errors
    /// [`Error::State`] if it brought none.
    pub fn read<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Result<T, Error> {
        let none = |problem: String| Error::State { call: "Readback::read", problem };
        let Some(buffer) = self.buffer.as_ref().filter(|_| self.state == State::Brought) else {
            return Err(none("nothing was brought; call Gpu::run with this staging first".into()));
        };
        let view = buffer.get_mapped_range(..).map_err(|error| none(error.to_string()))?;
        let result = read(&view);
        drop(view);
        self.release();
        Ok(result)
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.state) == State::Brought
            && let Some(buffer) = &self.buffer
        {
            buffer.unmap();
        }
    }
}

/// What the map callbacks tell: buffers not yet mapped, and how many failed.
#[derive(Default)]
struct Mapping {
    pending: AtomicU32,
    failed: AtomicU32,
}

impl Gpu {
    /// Submits `commands` with their number of `dispatches`, waits until they are done, and maps the stagings: uploads
    /// for the next writing, the readback for reading.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] at once after a fault; [`Error::Timeout`] after the deadline. The stagings' memory is then
    /// given up, since the device may still use it.
    pub fn run(
        &self,
        commands: wgpu::CommandBuffer,
        dispatches: u64,
        uploads: &mut [&mut Upload],
        mut readback: Option<&mut Readback>,
    ) -> Result<(), Error> {
        let up: Vec<_> = uploads.iter_mut().map(|upload| upload.buffer.take_if(|_| upload.filled)).collect();
        let down = readback.as_mut().and_then(|own| own.buffer.take_if(|_| own.state == State::Reserved));
        self.check()?;
        let modes = up.iter().flatten().map(|buffer| (buffer, wgpu::MapMode::Write));
        let modes = modes.chain(down.iter().map(|buffer| (buffer, wgpu::MapMode::Read)));
        let mapping = Arc::new(Mapping::default());
        let index = self.queue.submit([commands]);
        self.submits.fetch_add(1, Ordering::Relaxed);
        for (buffer, mode) in modes {
            mapping.pending.fetch_add(1, Ordering::Relaxed);
            let mapping = mapping.clone();
            buffer.map_async(mode, .., move |result| {
                mapping.failed.fetch_add(u32::from(result.is_err()), Ordering::Relaxed);
                mapping.pending.fetch_sub(1, Ordering::Release);
            });
        }
        self.wait(&index, &mapping)?;
        self.fault.count(dispatches);
        for (upload, buffer) in uploads.iter_mut().zip(up).filter(|(_, buffer)| buffer.is_some()) {
            **upload = Upload { buffer, filled: false };
        }
        if let (Some(readback), Some(buffer)) = (readback, down) {
            *readback = Readback { buffer: Some(buffer), state: State::Brought };
        }
        Ok(())
    }

    /// Waits for the submission, then for its callbacks: some drivers report them later than the work's end.
    fn wait(&self, index: &wgpu::SubmissionIndex, mapping: &Mapping) -> Result<(), Error> {
        let start = Instant::now();
        let mut submission = Some(index.clone());
        loop {
            let left = self.deadline().saturating_sub(start.elapsed());
            let poll = wgpu::PollType::Wait { submission_index: submission.clone(), timeout: Some(left) };
            match self.poll(poll)? {
                Ok(_) => {}
                Err(wgpu::PollError::Timeout) => {
                    return Err(Error::Timeout { what: "a GPU submit", deadline: self.deadline() });
                }
                // The submit was refused. A plain poll lets a lost device call back with its reason.
                Err(wgpu::PollError::WrongSubmissionIndex(..)) => {
                    submission = None;
                    let _status = self.poll(wgpu::PollType::Poll)?;
                }
            }
            self.check()?;
            if mapping.failed.load(Ordering::Relaxed) > 0 {
                return Err(self.lost("staging memory could not be mapped"));
            }
            if mapping.pending.load(Ordering::Acquire) == 0 {
                return Ok(());
            }
            if left.is_zero() {
                return Err(Error::Timeout { what: "a GPU readback", deadline: self.deadline() });
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Latches the driver's own reason for a loss if it has one by now, else `reason`.
    fn lost(&self, reason: &str) -> Error {
        let _status = self.poll(wgpu::PollType::Poll);
        self.fault.lost(reason)
    }

    /// wgpu panics in `poll` when a driver reports the loss there; it holds no lock then.
    fn poll(&self, poll: wgpu::PollType) -> Result<Result<wgpu::PollStatus, wgpu::PollError>, Error> {
        catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))).map_err(|panic| self.fault.lost(panic_message(panic)))
    }
}
