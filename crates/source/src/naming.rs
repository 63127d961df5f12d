//! Names that the kernel does not know: of users in a directory service, of pods and of containers. None of them delays a sample of
//! the devices.

mod accounts;
mod text;
mod workloads;

use std::time::Duration;

use ttmon_model::sample::ProcessSample;

use crate::root::Root;
use accounts::Accounts;
use ttmon_reads::Pace;
use workloads::Workloads;

/// The longest wait of a program that samples once for the directory service, in all.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// What was found out so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    accounts: Accounts,
    workloads: Workloads,
}

impl Names {
    /// Adds the names of users, pods and containers. A name that the directory service has not told yet comes with a later sample;
    /// a program that samples once waits a little.
    pub(crate) fn complete(&mut self, root: &Root, processes: &mut [ProcessSample], now: Duration, pace: Pace) {
        for process in &mut *processes {
            self.workloads.complete(root, &mut process.workload, now);
        }
        self.accounts.collect(now);
        let has_asked = self.add_users(root, processes, now);
        if has_asked && pace == Pace::Once {
            self.accounts.wait(now, WAIT_MAX);
            self.add_users(root, processes, now);
        }
    }

    /// Returns whether an answer is awaited.
    fn add_users(&mut self, root: &Root, processes: &mut [ProcessSample], now: Duration) -> bool {
        let nameless = processes.iter_mut().filter_map(|process| process.facts.as_mut().ok()).filter(|facts| facts.user.is_none());
        for facts in nameless {
            facts.user = self.accounts.name(root, facts.uid, now);
        }
        self.accounts.is_waiting()
    }
}
