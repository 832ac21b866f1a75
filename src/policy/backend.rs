//! Where a network runs.

#[cfg(feature = "gpu")]
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    cpu::CpuNetwork,
    plan::{Network, Plan},
    served::ServedNetwork,
    server::InferenceServer,
};
use crate::error::Error;
#[cfg(feature = "gpu")]
use crate::gpu::Gpu;

/// Where a network runs. The choice is a fixed rule, never a measurement, so that a run can be reproduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Backend {
    /// The CPU kernels.
    Cpu,
    /// A compute shader; an error without an adapter. Software adapters count.
    Gpu,
    /// A hardware adapter if there is one and a tick has at least [`AUTO_OPERATIONS`] operations, else the CPU.
    #[default]
    Auto,
}

/// Floating-point operations of one tick (rows × operations of a row) from which [`Backend::Auto`] takes a hardware
/// adapter: 2²⁶. One AVX2 core needs about a millisecond for them, several times what a dispatch with its readback
/// costs. The network 4-64-64-2 reaches it at 7,282 rows.
pub const AUTO_OPERATIONS: usize = 1 << 26;

impl Backend {
    /// The backend that runs: [`Cpu`](Self::Cpu) or [`Gpu`](Self::Gpu). `rows` act in a tick, each takes
    /// [`operations`](super::plan::Plan::operations).
    pub fn resolve(self, hardware_adapter: bool, rows: usize, operations: usize) -> Self {
        match self {
            Self::Auto if hardware_adapter && rows.saturating_mul(operations) >= AUTO_OPERATIONS => Self::Gpu,
            Self::Auto => Self::Cpu,
            chosen => chosen,
        }
    }
}

/// Why [`Backend::Auto`] is the CPU for a tick of `rows` rows.
fn why_cpu(rows: usize, operations: usize) -> String {
    if Backend::Auto.resolve(true, rows, operations) == Backend::Cpu {
        let tick = rows.saturating_mul(operations);
        format!("{rows} rows take {tick} operations a tick, fewer than the {AUTO_OPERATIONS} that are worth a GPU")
    } else if cfg!(feature = "gpu") {
        "there is no hardware adapter".into()
    } else {
        "gleaner was built without its feature `gpu`".into()
    }
}

/// Where a policy's network is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    pub backend: Backend,
    /// A device of the caller's; else the process's.
    #[cfg(feature = "gpu")]
    pub device: Option<Arc<Gpu>>,
    /// What runs it there together with others, if anything does.
    pub server: Option<InferenceServer>,
}

impl Site {
    /// Whether both are the same place.
    pub fn is(&self, other: &Self) -> bool {
        #[cfg(feature = "gpu")]
        if self.device.as_ref().map(Arc::as_ptr) != other.device.as_ref().map(Arc::as_ptr) {
            return false;
        }
        self.backend == other.backend
    }

    /// The same without a server.
    pub fn alone(&self) -> Self {
        Self { server: None, ..self.clone() }
    }

    /// The same with the backend that the rule chooses for `rows` rows and without a server, and what it is in words.
    fn resolved(&self, plan: &Plan, rows: usize) -> Result<(Self, String), Error> {
        #[cfg(feature = "gpu")]
        {
            // Looked for only where the answer matters: it costs the start of a driver.
            let enough = Backend::Auto.resolve(true, rows, plan.operations()) == Backend::Gpu;
            let hardware = self.backend == Backend::Auto && enough && Gpu::hardware_available();
            if self.backend.resolve(hardware, rows, plan.operations()) == Backend::Gpu {
                let gpu = self.device.clone().map_or_else(Gpu::shared, Ok)?;
                let name = gpu.adapter().to_string();
                return Ok((Self { backend: Backend::Gpu, device: Some(gpu), server: None }, name));
            }
        }
        #[cfg(not(feature = "gpu"))]
        if self.backend.resolve(false, rows, plan.operations()) == Backend::Gpu {
            return Err(Error::Gpu("gleaner was built without its feature `gpu`".into()));
        }
        if self.backend == Backend::Auto {
            let why = why_cpu(rows, plan.operations());
            tracing::info!("the policy acts on the CPU: {why}");
        }
        Ok((Self { backend: Backend::Cpu, ..self.alone() }, "cpu".into()))
    }

    /// Opens a network for `rows` rows on the backend that the rule chooses; returns also the place by itself, and in
    /// words. Errors: those of the device; those of a server that cannot act for this network.
    pub fn open(&self, plan: &Plan, rows: usize) -> Result<(Box<dyn Network>, Self, String), Error> {
        let (site, name) = self.resolved(plan, rows)?;
        let Some(server) = &self.server else { return Ok((site.network(plan)?, site, name)) };
        let network = ServedNetwork::new(server.clone(), site.clone(), plan.clone())?;
        Ok((Box::new(network), site, format!("{name}, by an inference server")))
    }

    /// Opens a network where [`open`](Self::open) has found a place. Errors: those of the device.
    pub fn network(&self, plan: &Plan) -> Result<Box<dyn Network>, Error> {
        #[cfg(feature = "gpu")]
        if let Some(gpu) = self.device.as_ref().filter(|_| self.backend == Backend::Gpu) {
            return Ok(Box::new(super::gpu::GpuNetwork::new(gpu.clone(), plan.clone())?));
        }
        Ok(Box::new(CpuNetwork::new(plan.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_follows_the_documented_rule() {
        let operations = 2 * (4 * 64 + 64 * 64 + 64 * 2 + 64 * 2);
        assert_eq!(Backend::Auto.resolve(true, 7_282, operations), Backend::Gpu);
        assert_eq!(Backend::Auto.resolve(true, 7_281, operations), Backend::Cpu);
        assert_eq!(Backend::Auto.resolve(false, usize::MAX, operations), Backend::Cpu);
        assert_eq!(Backend::Auto.resolve(true, usize::MAX, operations), Backend::Gpu);
    }

    #[test]
    fn l10_the_reason_for_the_cpu_is_told() {
        assert!(why_cpu(2, 100).contains("2 rows take 200 operations") && why_cpu(2, 100).contains("67108864"));
        let why = if cfg!(feature = "gpu") { "no hardware adapter" } else { "without its feature `gpu`" };
        assert!(why_cpu(1 << 20, 100).contains(why));
    }

    #[test]
    fn an_explicit_choice_stands() {
        assert_eq!(Backend::Gpu.resolve(false, 1, 1), Backend::Gpu);
        assert_eq!(Backend::Cpu.resolve(true, usize::MAX, 1), Backend::Cpu);
        assert_eq!(Backend::default(), Backend::Auto);
    }
}
