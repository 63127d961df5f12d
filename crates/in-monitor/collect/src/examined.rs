//! The processes that one scan examines. Each is charged once, and its open files are listed once.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ttmon_model::Missing;

use crate::budget::{Budget, ProcessCharge, Resource};
use crate::ledgers::names_ledger;
use crate::reads::Failure;
use crate::reads::directory;
use crate::root::Root;
use crate::users::{OpenFile, device_of};

/// Maximum number of open files named like a ledger that are tried. A program may have opened or inherited ledgers of others.
const CANDIDATES_MAX: usize = 64;
/// Maximum number of threads of a process that are searched for its files.
const THREADS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Examined(BTreeMap<u32, ExaminedProcess>);

#[derive(Debug)]
struct ExaminedProcess {
    /// The user with the exhausted limit, if the process may not be examined.
    refused: Option<u32>,
    files: Option<OpenFiles>,
}

/// The open files of a process that may be devices or ledgers.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    pub(crate) devices: Vec<OpenFile>,
    pub(crate) ledgers: Vec<PathBuf>,
    pub(crate) end: ListEnd,
    count: usize,
}

/// Whether a list of open files is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    /// The list is complete.
    Whole,
    /// The list stops because this user is at a limit.
    Cut(u32, Resource),
    /// The list cannot be read.
    Unreadable(Missing),
}

impl Examined {
    /// Returns whether a process may be examined. The first call for a process charges its user.
    pub(crate) fn admit(&mut self, root: &Root, pid: u32, budget: &mut Budget) -> bool {
        self.process(root, pid, budget).refused.is_none()
    }

    /// Returns the open files of a process. The first call for a process lists them.
    pub(crate) fn open_files(&mut self, root: &Root, pid: u32, budget: &mut Budget) -> &OpenFiles {
        let ExaminedProcess { refused, files } = self.process(root, pid, budget);
        files.get_or_insert_with(|| match refused {
            Some(uid) => OpenFiles::new(ListEnd::Cut(*uid, Resource::Processes)),
            None => OpenFiles::list(root, pid, budget),
        })
    }

    fn process(&mut self, root: &Root, pid: u32, budget: &mut Budget) -> &mut ExaminedProcess {
        self.0.entry(pid).or_insert_with(|| {
            let mut charge = ProcessCharge::new(&root.proc, pid, budget);
            let refused = if charge.take(Resource::Processes, 1).is_some() { None } else { Some(charge.uid()) };
            ExaminedProcess { refused, files: None }
        })
    }

    /// Returns the processes that were not examined completely: pid, user and limit.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = (u32, (u32, Resource))> {
        self.0.iter().filter_map(|(pid, process)| match (process.refused, &process.files) {
            (Some(uid), _) => Some((*pid, (uid, Resource::Processes))),
            (None, Some(OpenFiles { end: ListEnd::Cut(uid, resource), .. })) => Some((*pid, (*uid, *resource))),
            _ => None,
        })
    }
}

impl OpenFiles {
    fn new(end: ListEnd) -> Self {
        Self { devices: Vec::new(), ledgers: Vec::new(), end, count: 0 }
    }

    fn list(root: &Root, pid: u32, budget: &mut Budget) -> Self {
        let directory = root.proc.join(pid.to_string());
        let mut charge = ProcessCharge::new(&root.proc, pid, budget);
        let mut files = Self::new(ListEnd::Whole);
        if let Err(error) = files.add(&directory.join("fd"), pid, &mut charge) {
            return Self::new(ListEnd::Unreadable(Missing::from(Failure::from(error))));
        }
        if files.count == 0 {
            files.add_threads(&directory, pid, &mut charge);
        }
        files
    }

    fn add(&mut self, directory: &Path, pid: u32, charge: &mut ProcessCharge<'_>) -> io::Result<()> {
        directory::names(directory, |name| {
            if charge.take(Resource::Descriptors, 1).is_none() {
                self.end = ListEnd::Cut(charge.uid(), Resource::Descriptors);
                return ControlFlow::Break(());
            }
            self.count += 1;
            let path = directory.join(name);
            let Ok(target) = fs::read_link(&path) else { return ControlFlow::Continue(()) };
            if names_ledger(&target) {
                self.ledgers.extend((self.ledgers.len() < CANDIDATES_MAX).then_some(path));
            } else if let Some(device) = device_of(&target) {
                let fd = name.to_str().and_then(|name| name.parse().ok());
                self.devices.extend(fd.map(|fd| OpenFile { pid, fd, device }));
            }
            ControlFlow::Continue(())
        })
    }

    /// Adds the files of a process whose first thread has ended. The kernel shows them only under the other threads.
    fn add_threads(&mut self, directory: &Path, pid: u32, charge: &mut ProcessCharge<'_>) {
        // A directory that cannot be read belongs to a process or thread that has ended meanwhile.
        for thread in fs::read_dir(directory.join("task")).into_iter().flatten().flatten().take(THREADS_MAX) {
            let _ = self.add(&thread.path().join("fd"), pid, charge);
            if self.count > 0 || self.end != ListEnd::Whole {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::budget::exhausted;

    /// A process with three files, and a budget that has `left` of each resource for its user.
    fn process(left: u64) -> (tempfile::TempDir, Root, Budget) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        fs::create_dir_all(root.proc.join("7/fd")).unwrap();
        fs::write(root.proc.join("7/status"), "Uid:\t1000\t1000\t1000\t1000\n").unwrap();
        for (fd, target) in ["/dev/null", "/dev/tenstorrent/3", "/memfd:ttmon-ledger (deleted)"].iter().enumerate() {
            symlink(target, root.proc.join(format!("7/fd/{fd}"))).unwrap();
        }
        (directory, root, exhausted(1000, left))
    }

    #[test]
    fn open_files_are_charged_once() {
        let (_directory, root, mut budget) = process(3);
        let mut examined = Examined::default();
        for _ in 0..3 {
            assert!(examined.admit(&root, 7, &mut budget));
            let files = examined.open_files(&root, 7, &mut budget);
            assert_eq!((files.end, files.devices.len(), files.ledgers.len()), (ListEnd::Whole, 1, 1));
        }
        assert_eq!(examined.cuts().next(), None);
        assert!(!examined.admit(&root, 8, &mut exhausted(crate::process::NOBODY, 0)));
    }

    #[test]
    fn process_over_a_limit_is_named_once() {
        for (left, resource) in [(2, Resource::Descriptors), (0, Resource::Processes)] {
            let (_directory, root, mut budget) = process(left);
            let mut examined = Examined::default();
            for _ in 0..2 {
                assert_eq!(examined.open_files(&root, 7, &mut budget).end, ListEnd::Cut(1000, resource));
            }
            assert_eq!(examined.cuts().collect::<Vec<_>>(), [(7, (1000, resource))]);
        }
    }

    /// An incomplete list does not prove that a device is closed.
    #[test]
    fn process_over_a_limit_may_hold_a_device() {
        let (_directory, root, mut budget) = process(0);
        let mut users = ttmon_model::sample::Users { pids: vec![7], hidden: 0, is_complete: true };
        crate::users::verify(&root, ttmon_model::DeviceId(3), &mut users, &mut Examined::default(), &mut budget);
        assert_eq!((users.pids, users.hidden, users.is_complete), (vec![7], 0, false));
    }
}
