//! An open device.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    adapter::{self, AdapterInfo, AdapterKind},
    fault::Fault,
    pipeline::Kernel,
};
use crate::error::{Error, panic_message};

/// How a device is opened and how long it is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GpuConfig {
    /// The longest wait for one submit; default 30 s, which a software adapter needs for millions of rows.
    pub deadline: Duration,
    /// Whether an adapter that runs on the CPU will do if there is no hardware; default true.
    pub software: bool,
    /// A part of the adapter's name in either case, such as "nvidia"; default none, any adapter.
    pub adapter: Option<String>,
    /// Where small networks, which run in one dispatch, keep their weights while it runs; default by the adapter.
    pub weights: WeightMemory,
    /// Whether kernels add up by subgroups where the adapter has them; default true. A sum's last bits depend on it.
    pub subgroups: bool,
    /// Whether weights are kept as halves (f16), in half the memory; default false. Arithmetic stays in f32: a weight
    /// is off by at most 2⁻¹¹ of itself (below 2⁻¹⁴ by 2⁻²⁵), and one beyond 65,504 is refused.
    pub half: bool,
}

impl Default for GpuConfig {
    fn default() -> Self {
        let deadline = Duration::from_secs(30);
        Self { deadline, software: true, adapter: None, weights: WeightMemory::Auto, subgroups: true, half: false }
    }
}

/// Where a small network, all of whose layers run in one dispatch, keeps its weights while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeightMemory {
    /// Workgroup memory on hardware, uniform memory on software adapters.
    #[default]
    Auto,
    /// Workgroup memory where the adapter has enough of it, else uniform memory.
    Workgroup,
    /// Uniform memory.
    Uniform,
}

/// Counters of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuStats {
    /// Buffers created since it was opened.
    pub buffers_created: u64,
    /// Buffers alive now, over all devices of the process.
    pub buffers_alive: usize,
    /// Dispatches submitted since it was opened.
    pub dispatches: u64,
    /// Submits since it was opened.
    pub submits: u64,
    /// Bytes sent to the device since it was opened.
    pub bytes_up: u64,
    /// Bytes asked back from it since it was opened.
    pub bytes_down: u64,
}

/// An open device with the adapter's real limits. Shared: all calls take `&self`.
pub struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) fault: Arc<Fault>,
    pub(super) created: AtomicU64,
    pub(super) submits: AtomicU64,
    pub(super) bytes_up: AtomicU64,
    pub(super) bytes_down: AtomicU64,
    limits: wgpu::Limits,
    adapter: AdapterInfo,
    config: GpuConfig,
    subgroups: bool,
    /// By constants and text.
    pub(super) kernels: Mutex<HashMap<String, Kernel>>,
}

impl Gpu {
    /// Opens a device of its own: on hardware if there is any, else on a software adapter, with a warning.
    ///
    /// # Errors
    /// [`Error::Gpu`] says what to install, or why each adapter refused.
    pub fn open(config: &GpuConfig) -> Result<Arc<Self>, Error> {
        let mut adapters = adapter::list();
        if let Some(name) = &config.adapter {
            adapters = adapter::named(adapters, name)?;
        }
        let kinds: Vec<AdapterKind> = adapters.iter().map(|adapter| adapter.get_info().device_type.into()).collect();
        let mut refusals = Vec::new();
        for i in adapter::choose(&kinds, config.software) {
            match Self::open_adapter(&adapters[i], config) {
                Ok(gpu) => {
                    if !gpu.adapter.kind.is_hardware() {
                        tracing::warn!(adapter = %gpu.adapter, "no hardware GPU: running on a software adapter");
                    }
                    return Ok(Arc::new(gpu));
                }
                Err(problem) => refusals.push(problem),
            }
        }
        if refusals.is_empty() {
            return Err(adapter::none_found(&kinds, config.software));
        }
        Err(Error::Gpu(format!("every adapter refused: {}", refusals.join("; "))))
    }

    /// The process's device, opened by the first caller with the default configuration; anew after a loss.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn shared() -> Result<Arc<Self>, Error> {
        static SHARED: Mutex<Weak<Gpu>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = shared.upgrade().filter(|gpu| gpu.check().is_ok()) {
            return Ok(gpu);
        }
        let gpu = Self::open(&GpuConfig::default())?;
        *shared = Arc::downgrade(&gpu);
        Ok(gpu)
    }

    /// Whether this machine has a hardware adapter, for `Backend::Auto`. Looked up once a process.
    pub fn hardware_available() -> bool {
        adapter::hardware_available()
    }

    fn open_adapter(adapter: &wgpu::Adapter, config: &GpuConfig) -> Result<Self, String> {
        let info = AdapterInfo::from(adapter.get_info());
        // wgpu's defaults are far below what adapters have.
        let limits = adapter.limits();
        let wanted = if config.subgroups { wgpu::Features::SUBGROUP } else { wgpu::Features::empty() };
        let features = adapter.features() & wanted;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("gleaner"),
            required_limits: limits.clone(),
            required_features: features,
            // A policy is small against the blocks that `Performance` reserves.
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        };
        // Natively the future is ready at once.
        let (device, queue) =
            pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| format!("{info}: {error}"))?;
        let fault = Arc::new(Fault::default());
        let lost = fault.clone();
        device.set_device_lost_callback(move |reason, message| {
            lost.latch(format!("{reason:?}: {message}").trim_end_matches(": "));
        });
        let uncaptured = fault.clone();
        device.on_uncaptured_error(Arc::new(move |error| uncaptured.latch(error.to_string())));
        let [created, submits, bytes_up, bytes_down] = std::array::from_fn(|_| AtomicU64::new(0));
        Ok(Self {
            device,
            queue,
            fault,
            created,
            submits,
            bytes_up,
            bytes_down,
            limits,
            adapter: info,
            config: config.clone(),
            subgroups: features.contains(wgpu::Features::SUBGROUP),
            kernels: Mutex::default(),
        })
    }

    /// The adapter it runs on.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.adapter
    }

    /// The adapter's limits, all of them requested.
    pub fn limits(&self) -> &wgpu::Limits {
        &self.limits
    }

    /// How it was opened.
    pub fn config(&self) -> &GpuConfig {
        &self.config
    }

    /// Whether kernels use subgroups: the adapter has them and the configuration allows them.
    pub fn subgroups(&self) -> bool {
        self.subgroups
    }

    /// The longest wait for one submit.
    pub fn deadline(&self) -> Duration {
        self.config.deadline
    }

    /// wgpu's device, for kernels of a host.
    pub fn device(&self) -> &wgpu::Device {
        &self.device
    }

    /// Counters.
    pub fn stats(&self) -> GpuStats {
        let report = adapter::instance().and_then(wgpu::Instance::generate_report);
        GpuStats {
            buffers_created: self.created.load(Ordering::Relaxed),
            buffers_alive: report.map_or(0, |report| report.hub_report().buffers.num_allocated),
            dispatches: self.fault.dispatches(),
            submits: self.submits.load(Ordering::Relaxed),
            bytes_up: self.bytes_up.load(Ordering::Relaxed),
            bytes_down: self.bytes_down.load(Ordering::Relaxed),
        }
    }

    /// Fails with the latched fault, if there is one.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], each time the same.
    pub fn check(&self) -> Result<(), Error> {
        self.fault.check()
    }

    /// Gives the device up: what is submitted runs to its end, every later call fails with [`Error::DeviceLost`].
    pub fn destroy(&self) {
        self.device.destroy();
    }

    /// Runs `create` and turns what wgpu reports meanwhile into an error; the device stays usable.
    pub(super) fn scoped<T>(&self, what: &str, create: impl FnOnce() -> T) -> Result<T, Error> {
        self.check()?;
        let filters = [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        // A panic in wgpu would unwind through the scopes in the wrong order.
        let created = catch_unwind(AssertUnwindSafe(create));
        let errors = scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop()));
        let error = errors.fold(None, Option::or);
        match (created, error) {
            (Ok(created), None) => Ok(created),
            (_, Some(error)) => Err(self.check().err().unwrap_or_else(|| Error::Gpu(format!("{what}: {error}")))),
            (Err(panic), None) => Err(self.fault.lost(format!("{what}: {}", panic_message(panic)))),
        }
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("adapter", &self.adapter)
            .field("fault", &self.check().err())
            .finish_non_exhaustive()
    }
}
