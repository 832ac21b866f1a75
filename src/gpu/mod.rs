//! Compute on a GPU: the device, its memory, its kernels, and the way there and back.
//!
//! ```text
//! Upload (mapped) ─copy→ device buffers ─kernels→ device buffers ─copy→ Readback (mapped)      one submit
//! ```
//!
//! Staging memory belongs to its user and is mapped again after each submit, so a submit creates no buffer. No call
//! waits without a deadline, and the first fault of a device is latched: every later call fails with it at once.

pub mod adapter;
mod buffer;
mod device;
mod fault;
mod pipeline;
pub mod shader;
mod transfer;

pub use adapter::{AdapterInfo, AdapterKind};
pub use device::{Gpu, GpuConfig, GpuStats, WeightMemory};
pub use pipeline::{GROUP, Kernel, MAX_GROUPS, grid};
pub use transfer::{Readback, Upload};
