//! TT-Metal's numbers of chips from one sample to the next: what ledgers proved, and a cluster descriptor that was found.

use std::time::Duration;

use ttmon_model::Sample;
use ttmon_model::cluster::Cluster;
use ttmon_model::sample::Proven;

use crate::cluster::search::search;
use crate::read::Pace;
use crate::root::Root;

/// A cluster descriptor that was not found is looked for again after this long.
const SEARCH_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Numbers {
    cluster: Option<Cluster>,
    /// When the last search was.
    searched: Option<Duration>,
    /// What ledgers proved so far.
    proven: Vec<Proven>,
}

impl Numbers {
    /// Adds to a sample what is known, and looks for a descriptor while some number is not. One that the user named wins.
    pub(super) fn complete(&mut self, sample: &mut Sample, root: &Root, pace: Pace) {
        if sample.cluster.is_some() {
            return;
        }
        let is_due = self.searched.is_none_or(|at| sample.at.saturating_sub(at) >= SEARCH_PAUSE);
        // Another card may have taken the place of one that it describes.
        self.cluster.take_if(|cluster| is_due && !ttmon_model::describes(cluster, sample));
        sample.proven.clone_from(&self.proven);
        sample.cluster.clone_from(&self.cluster);
        if pace == Pace::Repeated {
            self.proven = ttmon_model::proven(sample);
        }
        if is_due && sample.cluster.is_none() && ttmon_model::lacks_numbers(sample) {
            self.searched = Some(sample.at);
            self.cluster = search(root, sample);
            sample.cluster.clone_from(&self.cluster);
        }
    }
}
