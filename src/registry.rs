//! Environments by name, and collectors from run files.

use std::{collections::BTreeMap, fmt, path::Path};

use crate::{
    collector::Collector,
    config::CollectorBuilder,
    env::{Acrobot, CartPole, Env, GridWorld, MountainCar, MountainCarContinuous, Pendulum, Stepper},
    erased::AnyCollector,
    error::Error,
    replay::Replay,
    run::{RunConfig, RunFile},
    task::Task,
};

/// Bytes that a collector of a run file may need, unless [`Registry::max_memory`] says otherwise: 8 GiB.
pub const MAX_MEMORY: usize = 8 << 30;

/// The environments that run files can name. A host adds its own in one line.
///
/// ```
/// use gleaner::prelude::*;
/// # type MyEnv = CartPole;
/// let mut registry = Registry::builtin();
/// registry.add::<MyEnv>("my_env");
/// # let path = std::env::temp_dir().join(format!("gleaner-registry-{}.ron", std::process::id()));
/// # std::fs::write(&path, r#"(env: "my_env", collector: (rows: 4, total_frames: 1_000))"#).unwrap();
/// for batch in registry.open(&path)? {
///     println!("{} frames", batch?.frames());
/// }
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), gleaner::Error>(())
/// ```
pub struct Registry {
    builders: BTreeMap<String, Builder>,
    max_memory: usize,
}

type Builder = Box<dyn Fn(&Request<'_>) -> Result<Box<dyn AnyCollector>, Error> + Send + Sync>;

/// What a collector is made of beside its environment.
struct Request<'a> {
    run: &'a RunConfig,
    folder: &'a Path,
    max_memory: usize,
}

impl Default for Registry {
    /// [`builtin`](Self::builtin).
    #[inline]
    fn default() -> Self {
        Self::builtin()
    }
}

impl Registry {
    /// No environment.
    pub fn empty() -> Self {
        Self { builders: BTreeMap::new(), max_memory: MAX_MEMORY }
    }

    /// gleaner's own environments: `acrobot`, `cart_pole`, `grid_world`, `mountain_car`, `mountain_car_continuous` and
    /// `pendulum`.
    // `inline`, so that most collectors are built where they are used, and not with the library.
    #[inline]
    pub fn builtin() -> Self {
        let mut registry = Self::first_choices();
        registry.add::<Acrobot>("acrobot").add::<GridWorld>("grid_world");
        registry.add::<MountainCar>("mountain_car").add::<MountainCarContinuous>("mountain_car_continuous");
        registry
    }

    /// What most programs use first: built once, with the library, in profiles that share generic code.
    fn first_choices() -> Self {
        let mut registry = Self::empty();
        registry.add::<CartPole>("cart_pole").add::<Pendulum>("pendulum");
        registry
    }

    /// Adds environment `E` under `name`; one of that name is replaced.
    pub fn add<E: Env + Default>(&mut self, name: impl Into<String>) -> &mut Self {
        self.add_with(name, Collector::<E>::builder)
    }

    /// Adds what `builder` begins under `name`: a factory with parameters, reset options, a simulator of many rows,
    /// extra columns. Options and policy are the run file's; one of that name is replaced.
    pub fn add_with<T: Task, S: Stepper<T> + 'static>(
        &mut self,
        name: impl Into<String>,
        builder: impl Fn() -> CollectorBuilder<T, S> + Send + Sync + 'static,
    ) -> &mut Self {
        let build = move |request: &Request<'_>| {
            let mut config = request.run.collector.clone();
            config.weight_sync = config.weight_sync.within(request.folder);
            let mut builder = builder();
            // Before files are read and devices opened.
            config.check(request.run.replay.is_some() || builder.replay.is_some())?;
            builder = builder.config(config).max_memory(request.max_memory);
            builder.policies = request.run.acts(request.folder, request.max_memory)?;
            let builder = match &request.run.replay {
                Some(config) => builder.replay(&Replay::with_config(config.clone())?),
                None => builder,
            };
            Ok(builder.build()?.erase())
        };
        self.builders.insert(name.into(), Box::new(build));
        self
    }

    /// Bytes that one collector may need at most: rows, one rollout and networks. It keeps a file from asking for more
    /// than the machine has. Default: [`MAX_MEMORY`].
    pub fn max_memory(&mut self, bytes: usize) -> &mut Self {
        self.max_memory = bytes;
        self
    }

    /// Legal names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.builders.keys().map(String::as_str)
    }

    /// The collector that a file describes. Errors: [`Error::Io`] if it cannot be read; [`Error::Ron`], or several in
    /// [`Error::Many`], for all that is wrong in it, also values that only building finds to be illegal.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Box<dyn AnyCollector>, Error> {
        self.build(&RunFile::read(path)?)
    }

    /// [`open`](Self::open) for a file that was read before, and maybe changed since. Errors: those of `open`, but that
    /// the run file itself is not read.
    pub fn build(&self, file: &RunFile) -> Result<Box<dyn AnyCollector>, Error> {
        let run = &file.config;
        let request = Request { run, folder: file.folder(), max_memory: self.max_memory };
        let built = match self.builders.get(&run.env) {
            Some(build) => build(&request),
            None => {
                let legal: Vec<_> = self.names().collect();
                Err(Error::config("env", format!("{:?}", run.env), legal.join(", ")))
            }
        };
        built.map_err(|error| file.locate(error))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
