//! Carries TT-Metal's chip numbers from one sample to the next: numbers proven by ledgers, and a cluster descriptor that was found.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ttmon_model::Sample;
use ttmon_model::cluster::Cluster;
use ttmon_model::sample::Proven;

use crate::cluster::search::search;
use crate::reads::Sampling;
use crate::root::Root;

/// If no cluster descriptor was found, the next search starts after this time.
const SEARCH_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Numbers {
    cluster: Option<Cluster>,
    search: Option<Receiver<Option<Cluster>>>,
    /// When the last search started.
    searched: Option<Duration>,
    proven: Vec<Proven>,
}

impl Numbers {
    /// Adds the known numbers to a sample. Searches for a descriptor while some number is missing. A descriptor that the user named takes
    /// precedence. A search that takes longer than `timeout` continues, and a later sample has its result, because the file system of a
    /// home directory may never answer.
    pub(super) fn complete(&mut self, sample: &mut Sample, root: &Root, sampling: Sampling, timeout: Duration) {
        if sample.cluster.is_some() {
            return;
        }
        let is_due = self.searched.is_none_or(|at| sample.at.saturating_sub(at) >= SEARCH_PAUSE);
        // Another card may have replaced one of the described cards.
        self.cluster.take_if(|cluster| is_due && !ttmon_model::describes(cluster, sample));
        sample.proven.clone_from(&self.proven);
        sample.cluster.clone_from(&self.cluster);
        if sampling == Sampling::Repeated {
            self.proven = ttmon_model::proven(sample);
        }
        let is_wanted = sample.cluster.is_none() && ttmon_model::lacks_numbers(sample);
        let timeout = if is_due && is_wanted && self.search.is_none() {
            self.searched = Some(sample.at);
            self.search = start(root, sample);
            timeout
        } else {
            Duration::ZERO
        };
        match self.search.as_ref().map(|search| search.recv_timeout(timeout)) {
            Some(Ok(found)) => {
                self.search = None;
                self.cluster = found.filter(|_| is_wanted);
                sample.cluster.clone_from(&self.cluster);
            }
            Some(Err(RecvTimeoutError::Disconnected)) => self.search = None,
            Some(Err(RecvTimeoutError::Timeout)) | None => {}
        }
    }
}

fn start(root: &Root, sample: &Sample) -> Option<Receiver<Option<Cluster>>> {
    let (sender, receiver) = channel();
    let (root, devices) = (root.clone(), sample.of_devices());
    // The result is not needed if the machine was dropped meanwhile.
    let search = move || _ = sender.send(search(&root, &devices));
    // If no thread can be started, the search starts again after the pause.
    thread::Builder::new().name("clusters".to_owned()).spawn(search).ok().map(|_| receiver)
}

#[cfg(test)]
mod tests {
    use super::super::{Isolation, Machine, Options};
    use super::*;

    /// The file system of a home directory may never answer.
    #[test]
    fn search_that_hangs_delays_no_sample() {
        const FOR_EVER: Duration = Duration::from_secs(86_400);
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("sys/class/tenstorrent/tenstorrent!0")).unwrap();
        let root = Root::at(directory.path());
        let mut machine = Machine::new(root.clone(), Options { isolation: Isolation::Threads, ..Options::default() }).unwrap();
        let mut sample = machine.sample().unwrap();
        let (sender, receiver) = channel();
        let mut numbers = Numbers { search: Some(receiver), ..Numbers::default() };
        numbers.complete(&mut sample, &root, Sampling::Repeated, FOR_EVER);
        assert!(numbers.search.is_some(), "no second one is started");
        sender.send(None).unwrap();
        numbers.complete(&mut sample, &root, Sampling::Repeated, FOR_EVER);
        assert!(numbers.search.is_none());
    }
}
