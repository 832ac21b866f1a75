//! Which adapter to open: hardware first, then software.

use std::{fmt, sync::OnceLock};

use crate::error::Error;

/// What kind of machine an adapter is. The order is the order of choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// Hardware with memory of its own.
    Discrete,
    /// Hardware that shares the CPU's memory.
    Integrated,
    /// A part of a host's hardware.
    Virtual,
    /// The driver does not tell.
    Unknown,
    /// The CPU, by a driver such as Mesa's lavapipe.
    Software,
}

impl AdapterKind {
    /// Whether it is worth running on for speed.
    pub fn is_hardware(self) -> bool {
        self != Self::Software
    }
}

impl From<wgpu::DeviceType> for AdapterKind {
    fn from(kind: wgpu::DeviceType) -> Self {
        match kind {
            wgpu::DeviceType::DiscreteGpu => Self::Discrete,
            wgpu::DeviceType::IntegratedGpu => Self::Integrated,
            wgpu::DeviceType::VirtualGpu => Self::Virtual,
            wgpu::DeviceType::Other => Self::Unknown,
            wgpu::DeviceType::Cpu => Self::Software,
        }
    }
}

/// Name, backend and kind of an adapter, for logs, statistics and checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// The adapter's name, as its driver gives it.
    pub name: String,
    /// Name and version of the driver.
    pub driver: String,
    /// "vulkan", "metal" or "dx12".
    pub backend: String,
    /// What it is.
    pub kind: AdapterKind,
}

impl From<wgpu::AdapterInfo> for AdapterInfo {
    fn from(info: wgpu::AdapterInfo) -> Self {
        Self {
            name: info.name,
            driver: format!("{} {}", info.driver, info.driver_info).trim().into(),
            backend: info.backend.to_str().into(),
            kind: info.device_type.into(),
        }
    }
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {:?})", self.name, self.backend, self.kind)
    }
}

/// Indices of the adapters to try, best first: by kind, among equals as the system lists them. Software ones only if
/// `software` is true.
pub fn choose(kinds: &[AdapterKind], software: bool) -> Vec<usize> {
    let mut order: Vec<_> = (0..kinds.len()).filter(|i| software || kinds[*i].is_hardware()).collect();
    order.sort_by_key(|i| kinds[*i]);
    order
}

/// The error for a machine on which no adapter of `kinds` serves.
pub fn none_found(kinds: &[AdapterKind], software: bool) -> Error {
    let what = if !software && !kinds.is_empty() {
        "only software adapters, which this call excludes; allow them, or".into()
    } else {
        "no adapter (looked for Vulkan, Metal and DX12);".to_string()
    };
    Error::Gpu(format!(
        "{what} install a driver: the vendor's Vulkan driver for hardware, or Mesa's software Vulkan \
         (Debian, Ubuntu, Fedora: mesa-vulkan-drivers; Arch: vulkan-swrast), or use Backend::Cpu"
    ))
}

/// Whether this machine has a hardware adapter. Looked up once a process, in milliseconds; then free.
pub(super) fn hardware_available() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| list().iter().any(|adapter| AdapterKind::from(adapter.get_info().device_type).is_hardware()))
}

/// Adapters that can run compute shaders.
pub(super) fn list() -> Vec<wgpu::Adapter> {
    let Some(instance) = instance() else { return Vec::new() };
    let mut adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    adapters
        .retain(|adapter| adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS));
    adapters
}

/// Those whose name has `part` in it, in either case. Errors: [`Error::Gpu`] with all names, if there are none.
pub(super) fn named(adapters: Vec<wgpu::Adapter>, part: &str) -> Result<Vec<wgpu::Adapter>, Error> {
    let names: Vec<_> = adapters.iter().map(|adapter| adapter.get_info().name).collect();
    let fits = |name: &String| name.to_lowercase().contains(&part.to_lowercase());
    if !names.is_empty() && !names.iter().any(fits) {
        return Err(Error::Gpu(format!("no adapter is called {part}; legal: a part of {}", names.join(", "))));
    }
    Ok(adapters.into_iter().zip(&names).filter(|(_, name)| fits(name)).map(|(adapter, _)| adapter).collect())
}

/// The process's instance: loading drivers takes long, and an instance outlives a lost device. `None` where wgpu has no
/// backend for the platform.
pub(super) fn instance() -> Option<&'static wgpu::Instance> {
    static INSTANCE: OnceLock<Option<wgpu::Instance>> = OnceLock::new();
    let open = || {
        // The driver's validation layers are for wgpu's own errors; `WGPU_VALIDATION` and `WGPU_BACKEND` still work.
        let flags = wgpu::InstanceFlags::empty();
        let descriptor = wgpu::InstanceDescriptor { flags, ..wgpu::InstanceDescriptor::new_without_display_handle() };
        (!wgpu::Instance::enabled_backend_features().is_empty()).then(|| wgpu::Instance::new(descriptor.with_env()))
    };
    INSTANCE.get_or_init(open).as_ref()
}
