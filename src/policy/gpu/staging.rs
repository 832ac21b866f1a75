//! Weights on their way to the device: written to staging memory on any thread, copied in front of the next forward.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{fused::Fused, weights::Tensors};
use crate::{
    components::Weights,
    error::Error,
    gpu::{Gpu, Upload},
    policy::plan::{PackedWeights, Packer, Plan},
};

/// Writes the weights of one network to staging memory. Clones are the same.
#[derive(Clone)]
pub(super) struct GpuPacker(Arc<Kit>);

struct Kit {
    gpu: Arc<Gpu>,
    plan: Plan,
    fused: Option<Fused>,
    tensors: Tensors,
    /// Staging memory that is not in use.
    spare: Mutex<Upload>,
}

/// A checked set, until its network adopts it.
pub(super) struct Staged {
    kit: Arc<Kit>,
    staging: Mutex<Option<Staging>>,
    /// The tensor `log_std`, if there is one.
    pub(super) log_std: Vec<f32>,
}

/// A set in staging memory.
pub(super) struct Staging {
    pub(super) upload: Upload,
    pub(super) buffer: wgpu::Buffer,
    /// Bytes of the tensors, one behind the other, and of the fused form if there is one.
    pub(super) sizes: Vec<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuPacker {
    pub(super) fn new(gpu: Arc<Gpu>, plan: Plan, fused: Option<Fused>, tensors: Tensors) -> Self {
        Self(Arc::new(Kit { gpu, plan, fused, tensors, spare: Mutex::default() }))
    }

    /// Takes what was packed here out of `packed`, with the tensor `log_std`. Errors: [`Error::State`].
    pub(super) fn take(&self, packed: &PackedWeights) -> Result<(Staging, Vec<f32>), Error> {
        let staged = packed.downcast_ref::<Staged>().filter(|staged| Arc::ptr_eq(&staged.kit, &self.0));
        let staging = staged.and_then(|staged| Some((lock(&staged.staging).take()?, staged.log_std.clone())));
        staging.ok_or_else(|| {
            let problem = "the weights are packed for another network, or were adopted; legal: newly packed ones";
            Error::State { call: "adopt", problem: problem.into() }
        })
    }

    /// Takes staging memory back for the next set.
    pub(super) fn give_back(&self, upload: Upload) {
        *lock(&self.0.spare) = upload;
    }
}

impl Packer for GpuPacker {
    fn pack(&self, weights: &Weights) -> Result<PackedWeights, Error> {
        let Kit { gpu, plan, fused, tensors, spare } = &*self.0;
        gpu.check()?;
        weights.check(&plan.tensors())?;
        let data = |name: &str| weights.get(name).map_or(&[][..], |tensor| &tensor.data);
        let mut parts: Vec<&[u8]> = tensors.iter().map(|(name, _)| bytemuck::cast_slice(data(name))).collect();
        let network = fused.as_ref().map(|fused| fused.pack(plan, weights));
        parts.extend(network.as_deref());
        let mut upload = std::mem::take(&mut *lock(spare));
        let buffer = upload.fill(gpu, "weights upload", &parts)?;
        let sizes = parts.iter().map(|part| part.len() as u64).collect();
        let staging = Mutex::new(Some(Staging { upload, buffer, sizes }));
        Ok(Arc::new(Staged { kit: self.0.clone(), staging, log_std: data("log_std").to_vec() }))
    }
}
