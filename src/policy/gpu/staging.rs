//! Weights on their way to the device: written to staging memory on any thread, copied in front of the next forward.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    fused::{Form, Fused},
    weights::Part,
};
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
    tensors: Arc<[Part]>,
    /// Staging memory that is not in use.
    spare: Mutex<Upload>,
}

/// A checked set, until its network adopts it.
pub(super) struct Staged {
    kit: Arc<Kit>,
    staging: Mutex<Option<Staging>>,
    /// What the head has of its own.
    pub(super) log_std: Vec<f32>,
}

/// A set in staging memory.
pub(super) struct Staging {
    pub(super) upload: Upload,
    pub(super) buffer: wgpu::Buffer,
    /// Bytes of the tensors, one behind the other; or of the fused form.
    pub(super) sizes: Vec<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuPacker {
    pub(super) fn new(gpu: Arc<Gpu>, plan: Plan, fused: Option<Fused>, tensors: Arc<[Part]>) -> Self {
        Self(Arc::new(Kit { gpu, plan, fused, tensors, spare: Mutex::default() }))
    }

    /// The form that the network has.
    pub(super) fn form(&self) -> Form {
        self.0.fused.as_ref().map_or(Form::Layers, |fused| fused.form)
    }

    /// Takes what was packed here out of `packed`, with what the head has of its own. Errors: [`Error::State`].
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
        let half = gpu.config().half;
        let parts: Vec<Cow<'_, [u8]>> = match fused {
            Some(fused) => vec![fused.pack(plan, weights)?.into()],
            None => tensors.iter().map(|part| part.bytes(weights, half)).collect::<Result<_, _>>()?,
        };
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let mut upload = std::mem::take(&mut *lock(spare));
        let buffer = upload.fill(gpu, "weights upload", &slices)?;
        let sizes = slices.iter().map(|part| part.len() as u64).collect();
        let staging = Mutex::new(Some(Staging { upload, buffer, sizes }));
        Ok(Arc::new(Staged { kit: self.0.clone(), staging, log_std: plan.head.free_of(weights) }))
    }

    // The staging memory goes back for the next set.
    fn can_repeat(&self) -> bool {
        false
    }
}
