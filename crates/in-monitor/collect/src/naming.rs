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
use accounts::Accounts;
use workloads::Workloads;

/// Maximum time to wait for an answer of a directory service.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The same for a program that samples once. It waits for the answers.
const TIMEOUT_ONCE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct NameResolver {
    /// Started for the first user without a name.
    accounts: Option<Accounts>,
    workloads: Workloads,
}

impl NameResolver {
    /// Starts the thread that asks the directory service. Later, the calling thread may lose the right to start it.
    pub(crate) fn start(&mut self, root: &Root) -> io::Result<()> {
        self.accounts = Some(Accounts::start(root, TIMEOUT)?);
        Ok(())
    }

    /// Adds the names of users, pods and containers. Late names are in a later sample. A single sample waits up to [`TIMEOUT_ONCE`].
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
        if nameless(processes).next().is_none() {
            return;
        }
        let timeout = if sampling == Sampling::Once { TIMEOUT_ONCE } else { TIMEOUT };
        if self.accounts.is_none() {
            // Without a thread, users are shown by number.
            self.accounts = Accounts::start(root, timeout).ok();
        }
        let Some(accounts) = &mut self.accounts else { return };
        accounts.collect(now, Duration::ZERO);
        nameless(processes).for_each(|facts| facts.user = accounts.name(facts.uid, now));
        if sampling == Sampling::Once {
            // Every request ends within its timeout.
            accounts.collect(now, TIMEOUT);
            nameless(processes).for_each(|facts| facts.user = accounts.name(facts.uid, now));
        }
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
        ttmon_testing::until("the name is known", || sample(1500).is_some());
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
        names.start(&root).unwrap();
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
