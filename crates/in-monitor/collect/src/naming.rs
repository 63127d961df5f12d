//! Resolves names of users in a directory service, of pods and of containers. None delays a sample of the devices.

mod accounts;
mod text;
mod workloads;

use std::io;
use std::time::Duration;

use ttmon_model::sample::{Problem, ProcessFacts, ProcessSample};

use crate::machine::{Error, Readers};
use crate::reads::Sampling;
use crate::root::Root;
use accounts::{Accounts, AccountsThread};
use workloads::Workloads;

/// The total time that a program that samples once waits for the directory service.
const WAIT_MAX: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct NameResolver {
    accounts: Accounts,
    /// The thread that sends the requests, if one was started.
    thread: Option<AccountsThread>,
    workloads: Workloads,
}

impl NameResolver {
    /// Starts a thread that sends requests to the directory service. The calling thread then needs no connections and starts no programs.
    pub(crate) fn ask_in_a_thread(&mut self, root: &Root) -> io::Result<()> {
        self.thread = Some(AccountsThread::spawn(root.clone())?);
        Ok(())
    }

    /// Adds the names of users, pods and containers. Late names are in a later sample. A single sample waits up to [`WAIT_MAX`].
    /// Adds the problems of files that could not be read.
    pub(crate) fn complete(
        &mut self,
        root: &Root,
        readers: &mut Readers,
        processes: &mut [ProcessSample],
        now: Duration,
        sampling: Sampling,
        problems: &mut Vec<Problem>,
    ) -> Result<(), Error> {
        for process in &mut *processes {
            self.workloads.complete(root, readers, &mut process.workload, now, problems)?;
        }
        self.complete_users(root, processes, now, sampling);
        Ok(())
    }

    fn complete_users(&mut self, root: &Root, processes: &mut [ProcessSample], now: Duration, sampling: Sampling) {
        if let Some(thread) = &mut self.thread {
            let mut nameless: Vec<_> = nameless(processes).collect();
            if !nameless.is_empty() {
                let uids: Vec<u32> = nameless.iter().map(|facts| facts.uid).collect();
                nameless.iter_mut().zip(thread.names(&uids, now)).for_each(|(facts, name)| facts.user = name);
            }
            return;
        }
        self.accounts.collect(now);
        let has_asked = self.add_users(root, processes, now);
        if has_asked && sampling == Sampling::Once {
            self.accounts.wait(now, WAIT_MAX);
            self.add_users(root, processes, now);
        }
    }

    /// Adds the names of users. Returns whether an answer is still pending.
    fn add_users(&mut self, root: &Root, processes: &mut [ProcessSample], now: Duration) -> bool {
        for facts in nameless(processes) {
            facts.user = self.accounts.name(root, facts.uid, now);
        }
        self.accounts.is_waiting()
    }
}

fn nameless(processes: &mut [ProcessSample]) -> impl Iterator<Item = &mut ProcessFacts> {
    processes.iter_mut().filter_map(|process| process.facts.as_mut().ok()).filter(|facts| facts.user.is_none())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;
    use ttmon_model::Missing;
    use ttmon_model::identity::ProcessKey;
    use ttmon_model::sample::Workload;
    use ttmon_model::units::UnixTime;

    fn process(uid: u32) -> ProcessSample {
        let (cpu_time, start_time) = (Duration::ZERO, UnixTime(0));
        ProcessSample {
            key: ProcessKey { pid: 7, start_ticks: 1 },
            namespace_pid: 7,
            facts: Ok(ProcessFacts { name: "python3".to_owned(), uid, user: None, parent: 1, start_time, cpu_time, rss: 0 }),
            command: Err(Missing::Gone),
            workload: Workload::default(),
            fdinfo: Vec::new(),
        }
    }

    /// The directory service is slow: samples continue without the name, and a later sample has it.
    #[test]
    fn slow_directory_service_delays_no_sample() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        fs::create_dir_all(root.userdb.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(&root.userdb).unwrap();
        let mut names = NameResolver::default();
        let mut sample = |millis: u64| {
            let mut processes = [process(5000)];
            names.complete_users(&root, &mut processes, Duration::from_millis(millis), Sampling::Repeated);
            let [process] = processes;
            process.facts.unwrap().user
        };
        // A sample that waited for the answer would never return.
        assert!((0..1000).all(|millis| sample(millis).is_none()));
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"{\"parameters\":{\"record\":{\"userName\":\"ana\",\"uid\":5000}}}\0").unwrap();
        assert_eq!(sample(1500).as_deref(), Some("ana"));
        drop((listener, peer));
        assert_eq!(sample(86_400_000).as_deref(), Some("ana"), "a name is asked for once");
    }

    /// The scanning thread of the service can neither connect nor start a program.
    #[test]
    fn names_come_from_a_thread_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        fs::create_dir_all(root.userdb.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(&root.userdb).unwrap();
        let mut names = NameResolver::default();
        names.ask_in_a_thread(&root).unwrap();
        let mut sample = || {
            let mut processes = [process(5000), process(5000)];
            names.complete_users(&root, &mut processes, Duration::from_secs(1), Sampling::Repeated);
            processes.map(|process| process.facts.unwrap().user)
        };
        assert_eq!(sample(), [None, None]);
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(sample(), [None, None], "no sample waits");
        peer.write_all(b"{\"parameters\":{\"record\":{\"userName\":\"ana\",\"uid\":5000}}}\0").unwrap();
        ttmon_testing::until("the name is known", || sample() != [None, None]);
        assert_eq!(sample(), [Some("ana".to_owned()), Some("ana".to_owned())]);
    }
}
