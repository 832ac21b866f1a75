//! What brings a collector new weights, and when it is asked for them.

use crate::{
    collector::Collector,
    error::{Error, guarded},
    task::Task,
    weights::{FileSource, WeightSync, WeightsSource},
};

/// What a collector asks for weights.
#[derive(Default)]
pub(crate) struct Feed {
    source: Option<Box<dyn WeightsSource>>,
    /// Whether it failed at the last look, and there was no rollout since.
    failed: bool,
    /// Batches after which it is asked again.
    next: u64,
}

impl Feed {
    /// What `sync` describes, or the host's `source`, for the policies that are `networks`. Errors:
    /// [`Error::Conflict`] if there is no network, or both; [`Error::Config`] for a policy that is none; those of a file
    /// of names.
    pub(crate) fn open(
        sync: &WeightSync,
        source: Option<Box<dyn WeightsSource>>,
        networks: &[usize],
    ) -> Result<Self, Error> {
        let conflict = |first, second, reason: &str| Err(Error::Conflict { first, second, reason: reason.into() });
        if source.is_some() && *sync != WeightSync::Shared {
            return conflict("weights_source", "weight_sync", "weights come from one place; leave weight_sync out");
        }
        if networks.is_empty() && (source.is_some() || *sync != WeightSync::Shared) {
            let first = if source.is_some() { "weights_source" } else { "weight_sync" };
            return conflict(first, "policy", "only a network takes weights; leave this out");
        }
        if let WeightSync::File { policy, .. } = sync
            && !networks.contains(policy)
        {
            return Err(Error::config("weight_sync", format!("policy {policy}"), format!("a network, {networks:?}")));
        }
        let file = FileSource::open(sync)?.map(|file| Box::new(file) as _);
        Ok(Self { source: source.or(file), failed: false, next: 0 })
    }

    /// Whether there is something to look at every so many batches. Errors: [`Error::Conflict`].
    pub(crate) fn check_interval(&self, interval: Option<u64>) -> Result<(), Error> {
        if interval.is_none() || self.source.is_some() {
            return Ok(());
        }
        let reason = "nothing is looked at for weights; leave this out, or set a File or a weights_source".into();
        Err(Error::Conflict { first: "weight_sync_interval", second: "weight_sync", reason })
    }
}

impl<T: Task> Collector<T> {
    /// Where new weights come from. With a [source](Self::set_weights_source) of the host's: [`WeightSync::Shared`].
    pub fn weight_sync(&self) -> &WeightSync {
        &self.config.weight_sync
    }

    /// Gets new weights from elsewhere from the next rollout on; a source of the host's is let go of. After
    /// [`WeightSync::Off`] handles that were given out before are of use again. Errors: as in building.
    pub fn set_weight_sync(&mut self, sync: WeightSync) -> Result<(), Error> {
        self.stays_apart("set_weight_sync", sync == WeightSync::PerWorker)?;
        self.feed = Feed::open(&sync, None, &self.networks())?;
        self.config.weight_sync = sync;
        self.open_handles();
        Ok(())
    }

    /// Gets new weights from `source` from the next rollout on, and as with [`WeightSync::Shared`]. Errors: as in
    /// building.
    pub fn set_weights_source(&mut self, source: impl WeightsSource + 'static) -> Result<(), Error> {
        self.stays_apart("set_weights_source", false)?;
        self.feed = Feed::open(&WeightSync::Shared, Some(Box::new(source)), &self.networks())?;
        self.config.weight_sync = WeightSync::Shared;
        self.open_handles();
        Ok(())
    }

    pub(crate) fn fed_by(mut self, feed: Feed) -> Self {
        self.feed = feed;
        self.open_handles();
        self
    }

    /// Whether workers that have weights of their own, or share them, may go on so.
    fn stays_apart(&self, call: &'static str, apart: bool) -> Result<(), Error> {
        if (self.config.weight_sync == WeightSync::PerWorker) == apart {
            return Ok(());
        }
        let problem =
            "whether each worker has weights of its own is for good; legal: PerWorker in the builder, or never";
        Err(Error::State { call, problem: problem.into() })
    }

    /// Lets handles take weights, or not.
    fn open_handles(&self) {
        let open = self.config.weight_sync != WeightSync::Off;
        self.policies.iter().filter_map(|seat| seat.weights.as_ref()).for_each(|weights| weights.set_open(open));
    }

    fn networks(&self) -> Vec<usize> {
        let networks = self.policies.iter().enumerate().filter(|(_, seat)| seat.weights.is_some());
        networks.map(|(number, _)| number).collect()
    }

    /// Has the source look for new weights now, as it does before each rollout. Errors: [`Error::State`] if there is
    /// none; [`Error::WeightsSource`].
    pub fn receive_weights(&mut self) -> Result<(), Error> {
        let models = self.models();
        match &mut self.feed.source {
            Some(source) => guarded("weights_source", || source.poll(&models)).map_err(|error| match error {
                Error::Hook { source, .. } => Error::WeightsSource(source),
                error => error,
            }),
            None => {
                let problem =
                    "there is nothing to receive from; legal: with a File as weight_sync, or a weights_source";
                Err(Error::State { call: "receive_weights", problem: problem.into() })
            }
        }
    }

    /// Has the source look, if there is one and it is time. After an error a rollout comes first.
    pub(crate) fn look_for_weights(&mut self) -> Result<(), Error> {
        if self.feed.source.is_none() || std::mem::take(&mut self.feed.failed) {
            return Ok(());
        }
        let batches = self.drive.monitor.ledger().counters.batches;
        if batches < self.feed.next {
            return Ok(());
        }
        self.receive_weights().inspect_err(|_| self.feed.failed = true)?;
        // A look that failed costs no interval.
        self.feed.next = self.config.weight_sync_interval.map_or(0, |interval| batches.saturating_add(interval));
        Ok(())
    }
}
