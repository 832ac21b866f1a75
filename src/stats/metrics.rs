//! Counters by name, for loggers.

use serde_json::{Map, Value};

use super::{Monitor, Stats};

/// Whose counters [`Monitor::metrics`] gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum StatsOf {
    /// Of all workers together.
    #[default]
    Aggregate,
    /// Of each worker; inline there is none.
    PerWorker,
    /// First of all together, then of each.
    Both,
}

impl Monitor {
    /// The counters as a flat map of numbers, words and truth values: `frames`, `discarded/fault`,
    /// `episodes/mean_return`, `policy_versions/0` as in [`Stats`], those of worker 3 under `worker_3/frames` and so on. What
    /// does not apply is absent. No worker is asked for anything.
    ///
    /// ```
    /// use gleaner::{prelude::*, stats::StatsOf};
    /// let mut collector = Collector::<CartPole>::builder().rows(8).workers(2).frames_per_batch(80).build()?;
    /// collector.next().expect("endless")?;
    /// let metrics = collector.monitor().metrics(StatsOf::Both);
    /// assert_eq!((&metrics["frames"], &metrics["worker_1/stepped_frames"]), (&80.into(), &40.into()));
    /// # Ok::<(), gleaner::Error>(())
    /// ```
    pub fn metrics(&self, of: StatsOf) -> Map<String, Value> {
        let mut metrics = Map::new();
        if of != StatsOf::PerWorker {
            add("", &self.stats(), &mut metrics);
        }
        if of != StatsOf::Aggregate {
            let workers = self.worker_stats();
            workers.iter().enumerate().for_each(|(i, stats)| add(&format!("worker_{i}/"), stats, &mut metrics));
        }
        metrics
    }
}

fn add(prefix: &str, stats: &Stats, metrics: &mut Map<String, Value>) {
    let Ok(Value::Object(fields)) = serde_json::to_value(stats) else { return };
    fields.into_iter().for_each(|(name, value)| flatten(format!("{prefix}{name}"), value, metrics));
}

fn flatten(name: String, value: Value, metrics: &mut Map<String, Value>) {
    match value {
        Value::Object(parts) => {
            parts.into_iter().for_each(|(part, value)| flatten(format!("{name}/{part}"), value, metrics));
        }
        Value::Array(parts) => {
            parts.into_iter().enumerate().for_each(|(i, value)| flatten(format!("{name}/{i}"), value, metrics));
        }
        // A mean that is no number.
        Value::Null => {}
        scalar => drop(metrics.insert(name, scalar)),
    }
}
