//! A file that was read and found right; nothing of it is in the collector yet.

use super::{
    head::{Fit, Head},
    rows::{self, Row},
};
use crate::{
    checkpoint::BlockReader,
    collector::Collector,
    components::TickPlan,
    error::Error,
    policy::{Actor, SavedActor, SavedFormer, SavedNetwork, SavedStates, packing::PackedWeights},
    receipts::Receipt,
    rollout::{Assembly, SavedRollout},
    stats::Ledger,
    task::Task,
};

/// What is to be installed.
pub(super) struct Staged<T: Task> {
    pub seed: u64,
    pub ledger: Ledger,
    /// By policy: frames that it acted for, and its network with the weights in packed form.
    pub policies: Vec<(u64, Option<(SavedNetwork, PackedWeights)>)>,
    pub rows: Option<Rows<T>>,
    /// What was left out.
    pub skipped: Vec<String>,
}

/// All that runs or waits.
pub(super) struct Rows<T: Task> {
    pub rollout: SavedRollout<T>,
    pub receipts: Vec<Receipt>,
    pub rows: Vec<Row<T>>,
    /// By policy.
    pub states: Vec<Option<SavedStates>>,
    /// By policy: weights of before that running episodes act by; empty where all act by the newest.
    pub former: Vec<Vec<SavedFormer>>,
    /// None if the episodes cannot go on.
    pub envs: Option<Vec<Vec<u8>>>,
    pub assembly: Option<Assembly<T>>,
}

impl<T: Task> Staged<T> {
    /// Reads a file to its end and checks it against the collector, which it leaves alone.
    pub(super) fn read(collector: &Collector<T>, mut from: BlockReader<'_>, fit: Fit) -> Result<Self, Error> {
        let (head, own): (Head, _) = (from.part()?, Head::of(collector));
        if head.task != own.task {
            return Err(Error::Checkpoint(format!("it is of task {}; legal: {}", head.task, own.task)));
        }
        let mut skipped = Vec::new();
        let takes_rows = match head.check_rows(&own).and_then(|()| head.check_options_for(&own, fit)) {
            Err(error) if fit == Fit::Whole => return Err(error),
            Err(error) => {
                skipped.push(format!("rows: {error}"));
                false
            }
            Ok(()) => true,
        };
        if head.backend != own.backend {
            tracing::warn!(
                "checkpoint of a policy on {}, which runs on {} here: other bits",
                head.backend,
                own.backend
            );
        }
        let ledger: Ledger = from.part()?;
        if let Some(problem) = ledger.problem() {
            return Err(Error::Checkpoint(format!("counters: {problem}")));
        }
        let actors = super::actors::<T>(&collector.drive.world);
        let saved = head.policies.iter().map(|_| SavedActor::load(&mut from)).collect::<Result<Vec<_>, _>>()?;
        let policies = networks(&actors, saved, fit, &mut skipped)?;
        let rows = match takes_rows {
            true => Some(Rows::read(collector, &head, &ledger, (&actors, &policies), &mut from)?),
            false => {
                std::io::copy(&mut from, &mut std::io::sink()).map_err(|error| Error::Checkpoint(error.to_string()))?;
                None
            }
        };
        from.finish()?;
        Ok(Self { seed: head.seed, ledger, policies, rows, skipped })
    }
}

impl Head {
    /// [`check_options`](Self::check_options), unless parts are enough.
    fn check_options_for(&self, own: &Self, fit: Fit) -> Result<(), Error> {
        if fit == Fit::Whole { self.check_options(own) } else { Ok(()) }
    }
}

/// Checks the policies of a file against those that act, by number; packs the weights of networks.
fn networks<T: Task>(
    actors: &[&Actor<T>],
    saved: Vec<SavedActor>,
    fit: Fit,
    skipped: &mut Vec<String>,
) -> Result<Vec<(u64, Option<(SavedNetwork, PackedWeights)>)>, Error> {
    let mut absent = |problem: String| match fit {
        Fit::Whole => Err(Error::Checkpoint(problem)),
        Fit::Parts => {
            skipped.push(problem);
            Ok(())
        }
    };
    if saved.len() != actors.len() {
        absent(format!("policies: it has {}; legal: {}", saved.len(), actors.len()))?;
    }
    let mut policies = Vec::new();
    for (actor, SavedActor { frames, network }) in actors.iter().zip(saved) {
        let (number, is_network) = (actor.number(), actor.plan().is_some());
        let network = match network {
            Some(network) if is_network => {
                if network.norm.is_some() != actor.normalization().is_some() {
                    let (saved, own) = (network.norm.is_some(), actor.normalization().is_some());
                    absent(format!("policy {number}: normalises {saved}; legal: {own}"))?;
                }
                let packed = actor.prepare(&network)?;
                Some((network, packed))
            }
            saved => {
                if saved.is_some() != is_network {
                    absent(format!("policy {number}: is a network {}; legal: {is_network}", saved.is_some()))?;
                }
                None
            }
        };
        policies.push((frames, network));
    }
    Ok(policies)
}

impl<T: Task> Rows<T> {
    fn read(
        collector: &Collector<T>,
        head: &Head,
        ledger: &Ledger,
        (actors, policies): (&[&Actor<T>], &[(u64, Option<(SavedNetwork, PackedWeights)>)]),
        from: &mut BlockReader<'_>,
    ) -> Result<Self, Error> {
        let world = &collector.drive.world;
        let rollout = SavedRollout::load(from, collector.config.rows)?;
        let receipts: Vec<Receipt> = from.part()?;
        let saved = (0..collector.config.rows).map(|_| Row::load(from)).collect::<Result<Vec<Row<T>>, _>>()?;
        rows::check(&saved, head.worker, ledger.counters.trajectory_serial, ledger.pending)?;
        let (mut states, mut former) = (Vec::new(), Vec::new());
        for (actor, (_, network)) in actors.iter().zip(policies) {
            states.push(actor.load_states(from)?);
            if let (true, Some((network, _))) = (collector.config.one_version_per_trajectory, network) {
                let sets = actor.load_former(network.acts.0, from)?;
                check_episodes(actor, network.acts.0, &sets, running(&saved, &rollout))?;
                former.push(sets);
            } else {
                former.push(Vec::new());
            }
        }
        let envs = envs(from)?;
        let assembly = head.joins.then(|| Assembly::load(&collector.drive.specs, from)).transpose()?;
        let wrong = |problem: String| Err(Error::Checkpoint(problem));
        if !receipts.is_empty() && collector.replay().is_none() {
            return wrong(format!("{} writes to a replay buffer wait; legal: a collector with one", receipts.len()));
        }
        let held = assembly.as_ref().map_or(0, Assembly::held) as u64;
        if held != ledger.in_flight {
            return wrong(format!("episodes: {held} frames are held, the counters say {}", ledger.in_flight));
        }
        if let Some(assembly) = &assembly {
            if rollout.lists_cut() {
                return wrong("rollout: it lists episodes whose frames are joined".into());
            }
            // No row has a seat before the first rollout, nor behind the budget's end.
            let seated = saved.iter().filter(|_| assembly.is_seated());
            assembly.check(seated.map(|row| (row.id, row.step)))?;
        }
        let versions = world.resource::<TickPlan<T>>().versions.iter().count();
        if !ledger.versions.is_empty() && ledger.versions.len() != versions {
            return wrong(format!("counters: versions of {} policies; legal: {versions}", ledger.versions.len()));
        }
        Ok(Self { rollout, receipts, rows: saved, states, former, envs, assembly })
    }
}

/// The slots of rows whose episodes run, and the versions that these began under.
pub(super) fn running<T: Task>(rows: &[Row<T>], rollout: &SavedRollout<T>) -> Vec<(u32, u64)> {
    let episodes = (0..).zip(rows.iter().zip(rollout.first_versions()));
    episodes.filter(|(_, (row, _))| row.step.0 > 0).map(|(slot, (_, version))| (slot, *version)).collect()
}

/// Whether the weights are there that running episodes act by.
fn check_episodes<T: Task>(
    actor: &Actor<T>,
    newest: u64,
    sets: &[SavedFormer],
    running: Vec<(u32, u64)>,
) -> Result<(), Error> {
    let is_there = |version| version == newest || sets.iter().any(|set| set.version() == version);
    let own = running.into_iter().filter(|(slot, _)| actor.rows().contains(slot));
    match own.into_iter().find(|(_, version)| !is_there(*version)) {
        Some((slot, version)) => {
            let problem = format!("the episode of slot {slot} acts by version {version}, which is not there");
            Err(Error::Checkpoint(format!("policy {}: {problem}", actor.number())))
        }
        None => Ok(()),
    }
}

/// Reads the states of environments.
fn envs(from: &mut BlockReader<'_>) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let Some(count) = from.part::<Option<u64>>()? else { return Ok(None) };
    let mut states = Vec::new();
    for _ in 0..count {
        let (len, mut state) = (from.part()?, Vec::new());
        from.raw(len, &mut state)?;
        states.push(state);
    }
    Ok(Some(states))
}
