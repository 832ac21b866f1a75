//! A number of whole episodes, chosen without a bias.

use crate::{
    collector::Collector,
    components::{Trajectory, WorkerStatus},
    error::Error,
    task::Task,
};

/// Which episodes count when so many are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EpisodeQuota {
    /// Each row's next ones, as many of each row as go evenly, the first rows one more: which count is known before they
    /// start, so long ones count as often as short ones.
    #[default]
    PerRow,
    /// Those that end first. Quicker, but biased: where episodes of different lengths run side by side, short ones are
    /// among the first more often than they are played.
    FirstFinished,
}

impl<T: Task> Collector<T> {
    /// Collects until `n` more episodes have ended that started from now on, and returns them in the order in which they
    /// ended. Episodes that run are first waited for and do not count; what else is collected meanwhile is delivered to
    /// hooks and dropped. Errors: those of iteration; [`Error::State`] if the budget ends
    /// before, and with a replay buffer.
    ///
    /// ```
    /// use gleaner::{episodes::EpisodeQuota, prelude::*};
    ///
    /// let mut collector = Collector::<CartPole>::builder().rows(4).build()?;
    /// let episodes = collector.episodes(10, EpisodeQuota::PerRow)?;
    /// let mean = episodes.iter().map(|episode| episode.total_reward).sum::<f32>() / 10.0;
    /// assert!(mean > 8.0);
    /// # Ok::<(), gleaner::Error>(())
    /// ```
    pub fn episodes(&mut self, n: usize, quota: EpisodeQuota) -> Result<Vec<Trajectory>, Error> {
        let rows = self.rows();
        let fresh = self.stats().stepped_frames == 0;
        let own = |row: usize| n / rows + usize::from(row < n % rows);
        let mut left: Vec<usize> = match quota {
            EpisodeQuota::PerRow => (0..rows).map(own).collect(),
            EpisodeQuota::FirstFinished => vec![n; rows],
        };
        // Of each row the episode that runs, unless none has begun.
        let mut running = vec![!fresh; rows];
        let mut ended = Vec::new();
        while ended.len() < n {
            let trajectories = self.next_trajectories()?;
            for trajectory in trajectories {
                let row = trajectory.row.0 as usize;
                if std::mem::take(&mut running[row]) || left[row] == 0 || ended.len() == n {
                    continue;
                }
                left[row] -= 1;
                ended.push(trajectory);
            }
            self.check_owed(&left)?;
        }
        Ok(ended)
    }

    /// Whether rows whose worker is lost still owe episodes.
    fn check_owed(&self, left: &[usize]) -> Result<(), Error> {
        let lost = |status| matches!(status, WorkerStatus::Dead | WorkerStatus::Abandoned);
        let mut workers = self.workers().into_iter().enumerate().zip(self.config.ranges());
        let owes = workers.find(|((_, status), rows)| {
            lost(*status) && left[rows.start as usize..rows.end as usize].iter().any(|left| *left > 0)
        });
        match owes {
            Some(((worker, _), _)) => Err(Error::worker(worker, "it is lost, and its rows owe episodes yet")),
            None => Ok(()),
        }
    }

    /// The episodes that ended in the next batch.
    fn next_trajectories(&mut self) -> Result<Vec<Trajectory>, Error> {
        if self.replay().is_some() {
            let problem = "what is collected is written to a replay buffer; ask a collector without one".into();
            return Err(Error::State { call: "episodes", problem });
        }
        match self.next() {
            Some(batch) => Ok(batch?.trajectories().to_vec()),
            None => {
                let problem = "the collection ended before the episodes did; legal: no total_frames, or more".into();
                Err(Error::State { call: "episodes", problem })
            }
        }
    }
}
