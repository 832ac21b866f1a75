//! A whole run as one RON file describes it.

#[cfg(feature = "gpu")]
use std::sync::Arc;
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

#[cfg(feature = "gpu")]
use crate::gpu::{Gpu, GpuConfig};
use crate::{
    config::CollectorConfig,
    error::Error,
    policy::{Backend, NetworkSpec, Policies, Policy, range_problems},
    replay::ReplayConfig,
    ron_file,
    task::Task,
    weights::{NameMap, WeightsFile},
};

/// Longest run file, in bytes: 1 MiB.
pub const MAX_FILE: u64 = 1 << 20;

/// A run: which environment, how it is collected from, and what acts.
///
/// In a file `Some(…)` may be left out around the value of an optional field.
///
/// ```
/// use gleaner::run::RunConfig;
/// let run = RunConfig::from_ron_str(r#"(
///     env: "cart_pole",
///     collector: (rows: 8, frames_per_batch: 256, seed: 1),
///     policy: Network(spec: (actor: [Linear(32), Tanh])),
/// )"#)?;
/// assert_eq!(run.collector.rows, 8);
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Name of the environment in the [`Registry`](crate::registry::Registry).
    pub env: String,
    /// Options of the collector. Default: those of [`CollectorConfig::default`].
    #[serde(default)]
    pub collector: CollectorConfig,
    /// What acts. Default: at random.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// What acts for which rows, in place of one policy for all; each row has one. See
    /// [`CollectorBuilder::policies`](crate::config::CollectorBuilder::policies). Default: none.
    #[serde(default)]
    pub policies: Vec<PolicyOfRows>,
    /// A replay buffer to write to; the collector then yields receipts. Default: none, batches.
    #[serde(default)]
    pub replay: Option<ReplayConfig>,
}

/// What acts for some rows of a run.
///
/// ```
/// use gleaner::run::RunConfig;
/// let run = RunConfig::from_ron_str(r#"(
///     env: "cart_pole",
///     collector: (rows: 8),
///     policies: [
///         (rows: (start: 0, end: 6), policy: Network(weights: "best.safetensors")),
///         (rows: (start: 6, end: 8), policy: Random),
///     ],
/// )"#)?;
/// assert_eq!(run.policies[1].rows, 6..8);
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyOfRows {
    /// The rows, `(start: …, end: …)` without the end.
    pub rows: Range<usize>,
    /// What acts for them.
    pub policy: PolicyConfig,
}

/// What acts in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub enum PolicyConfig {
    /// Uniform over legal actions; see [`Policy::random`].
    #[default]
    Random,
    /// A network; see [`Policy::network`].
    Network {
        /// Its layers. Default: [`NetworkSpec::default`].
        #[serde(default)]
        spec: NetworkSpec,
        /// Safetensors file of the weights; a relative path starts at the folder of the run file. Default: none, new
        /// weights.
        #[serde(default)]
        weights: Option<PathBuf>,
        /// RON file of the names that the weights have in their file ([`NameMap`]); its path as that of the weights.
        /// Default: none, the network's names.
        #[serde(default)]
        names: Option<PathBuf>,
        /// Where it runs. Default: [`Backend::Auto`].
        #[serde(default)]
        backend: Backend,
        /// A device of its own with these options, such as `(half: true)` for weights in half the memory; policies of one
        /// file with the same options share it. Not with the backend `Cpu`. Default: none, the process's device.
        #[cfg(feature = "gpu")]
        #[serde(default)]
        gpu: Option<GpuConfig>,
        /// Seed of new weights. Default: 0.
        #[serde(default)]
        seed: u64,
    },
}

impl RunConfig {
    /// What acts, and for which rows if there are several. Errors: both `policy` and `policies`; wrong rows; those of
    /// [`PolicyConfig::policy`]; weights of several that take more than `max_memory` bytes together.
    pub(crate) fn acts<T: Task>(&self, folder: &Path, max_memory: usize) -> Result<Policies<T>, Error> {
        if self.policies.is_empty() {
            return self.policy.policy(folder).map(Policies::One);
        }
        if self.policy != PolicyConfig::Random {
            return Err(Error::Conflict {
                first: "policy",
                second: "policies",
                reason: "rows have one policy each; put it among the others, with its rows".into(),
            });
        }
        let rows = self.policies.iter().map(|own| own.rows.clone());
        Error::all(range_problems(rows.collect(), self.collector.rows))?;
        let (mut devices, mut several, mut bytes) = (Devices::default(), Vec::new(), 0);
        for own in &self.policies {
            let policy = own.policy.open(folder, &mut devices)?;
            bytes += policy.weight_bytes();
            // Building reckons with more than this, but only behind all reading.
            if bytes > max_memory {
                let legal = format!("at most {max_memory} bytes together");
                return Err(Error::config("policies", format!("weights of {bytes} bytes"), legal));
            }
            several.push((own.rows.clone(), policy));
        }
        Ok(Policies::Several(several))
    }

    /// Reads RON text. Errors: [`Error::Ron`] with line and column, under the name `run`.
    pub fn from_ron_str(text: &str) -> Result<Self, Error> {
        ron_file::parse(Path::new("run"), text)
    }
}

impl PolicyConfig {
    /// The policy, for a run file in `folder`. Errors: those of [`WeightsFile::load`], of [`NameMap::from_ron_file`] and of
    /// the device; [`Error::Conflict`] for names without weights, and for a device with the backend `Cpu`.
    pub fn policy<T: Task>(&self, folder: &Path) -> Result<Policy<T>, Error> {
        self.open(folder, &mut Devices::default())
    }

    fn open<T: Task>(&self, folder: &Path, devices: &mut Devices) -> Result<Policy<T>, Error> {
        let Self::Network { spec, weights, names, backend, seed, .. } = self else { return Ok(Policy::random()) };
        let policy = self.on_device(Policy::network(spec.clone()).backend(*backend).seed(*seed), devices)?;
        let map = names.as_ref().map(|file| NameMap::from_ron_file(folder.join(file))).transpose()?;
        match weights {
            Some(file) => {
                let mut file = WeightsFile::new(folder.join(file)).names(map.unwrap_or_default());
                Ok(policy.weights(file.load()?))
            }
            None if names.is_some() => Err(Error::Conflict {
                first: "policy.names",
                second: "policy.weights",
                reason: "the names are those of a file of weights; give one, or leave the names out".into(),
            }),
            None => Ok(policy),
        }
    }

    #[cfg(feature = "gpu")]
    fn on_device<T: Task>(&self, policy: Policy<T>, devices: &mut Devices) -> Result<Policy<T>, Error> {
        match self {
            Self::Network { gpu: Some(_), backend: Backend::Cpu, .. } => Err(Error::Conflict {
                first: "policy.gpu",
                second: "policy.backend",
                reason: "the options are those of a device; leave them out, or the backend".into(),
            }),
            Self::Network { gpu: Some(gpu), .. } => Ok(policy.device(devices.open(gpu)?)),
            _ => Ok(policy),
        }
    }

    #[cfg(not(feature = "gpu"))]
    fn on_device<T: Task>(&self, policy: Policy<T>, _: &mut Devices) -> Result<Policy<T>, Error> {
        Ok(policy)
    }
}

/// The devices of one file's policies, by their options.
#[derive(Default)]
struct Devices(#[cfg(feature = "gpu")] Vec<(GpuConfig, Arc<Gpu>)>);

#[cfg(feature = "gpu")]
impl Devices {
    fn open(&mut self, config: &GpuConfig) -> Result<Arc<Gpu>, Error> {
        if let Some((_, gpu)) = self.0.iter().find(|(known, _)| known == config) {
            return Ok(gpu.clone());
        }
        let gpu = Gpu::open(config)?;
        self.0.push((config.clone(), gpu.clone()));
        Ok(gpu)
    }
}

/// A run file: what it says, and where, so that errors found later still point into it.
///
/// [`config`](Self::config) may be changed between reading and building, to override what the file says.
#[derive(Clone, Debug)]
pub struct RunFile {
    /// What the file says.
    pub config: RunConfig,
    path: PathBuf,
    text: String,
}

impl RunFile {
    /// Reads a RON file of at most [`MAX_FILE`] bytes. Errors: [`Error::Io`]; [`Error::Ron`] with the place, the field,
    /// its value and what is legal.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = ron_file::read(path, MAX_FILE)?;
        Ok(Self { config: ron_file::parse(path, &text)?, path: path.into(), text })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that relative paths start at.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// The error at the place in the file that it is about.
    pub(crate) fn locate(&self, error: Error) -> Error {
        if let Error::Many(errors) = error {
            return Error::Many(errors.into_iter().map(|error| self.locate(error)).collect());
        }
        let candidates = match &error {
            Error::Config { field, .. } => option(field),
            Error::Conflict { first, second, .. } => [option(first), option(second)].concat(),
            Error::Network { field, .. } => vec![
                format!("policy.spec.{}", field.split('[').next().unwrap_or_default()),
                "policy.spec".into(),
                "policy".into(),
                "policies".into(),
            ],
            Error::Io { path, .. } | Error::Ron { path, .. } if self.is_names(path) => {
                vec!["policy.names".into(), "policies".into()]
            }
            Error::Weights(_) | Error::Tensor { .. } | Error::Io { .. } => {
                vec!["policy.weights".into(), "policy".into(), "policies".into()]
            }
            Error::Gpu(_) | Error::DeviceLost { .. } => {
                vec!["policy.backend".into(), "policy.gpu".into(), "policy".into(), "policies".into()]
            }
            _ => vec!["env".into()],
        };
        ron_file::located(&self.path, &self.text, &candidates, &error)
    }

    /// Whether this is the file of the weights' names.
    fn is_names(&self, path: &Path) -> bool {
        let RunConfig { policy, policies, .. } = &self.config;
        policies.iter().map(|own| &own.policy).chain([policy]).any(|policy| {
            let PolicyConfig::Network { names: Some(names), .. } = policy else { return false };
            self.folder().join(names) == path
        })
    }
}

/// Where an option of the collector may stand.
fn option(field: &str) -> Vec<String> {
    let within = ["collector", "policy", "replay"].map(|part| format!("{part}.{field}"));
    [vec![field.into()], within.into()].concat()
}
