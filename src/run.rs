//! A whole run as one RON file describes it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    config::CollectorConfig,
    error::Error,
    policy::{Backend, NetworkSpec, Policy},
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
    /// A replay buffer to write to; the collector then yields receipts. Default: none, batches.
    #[serde(default)]
    pub replay: Option<ReplayConfig>,
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
        /// Seed of new weights. Default: 0.
        #[serde(default)]
        seed: u64,
    },
}

impl RunConfig {
    /// Reads RON text. Errors: [`Error::Ron`] with line and column, under the name `run`.
    pub fn from_ron_str(text: &str) -> Result<Self, Error> {
        ron_file::parse(Path::new("run"), text)
    }
}

impl PolicyConfig {
    /// The policy, for a run file in `folder`. Errors: those of [`WeightsFile::load`] and of
    /// [`NameMap::from_ron_file`]; [`Error::Conflict`] for names without weights.
    pub fn policy<T: Task>(&self, folder: &Path) -> Result<Policy<T>, Error> {
        let Self::Network { spec, weights, names, backend, seed } = self else { return Ok(Policy::random()) };
        let policy = Policy::network(spec.clone()).backend(*backend).seed(*seed);
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
            ],
            Error::Io { path, .. } | Error::Ron { path, .. } if self.is_names(path) => vec!["policy.names".into()],
            Error::Weights(_) | Error::Tensor { .. } | Error::Io { .. } => {
                vec!["policy.weights".into(), "policy".into()]
            }
            Error::Gpu(_) | Error::DeviceLost { .. } => vec!["policy.backend".into(), "policy".into()],
            _ => vec!["env".into()],
        };
        ron_file::located(&self.path, &self.text, &candidates, &error)
    }

    /// Whether this is the file of the weights' names.
    fn is_names(&self, path: &Path) -> bool {
        let PolicyConfig::Network { names: Some(names), .. } = &self.config.policy else { return false };
        self.folder().join(names) == path
    }
}

/// Where an option of the collector may stand.
fn option(field: &str) -> Vec<String> {
    let within = ["collector", "policy", "replay"].map(|part| format!("{part}.{field}"));
    [vec![field.into()], within.into()].concat()
}
