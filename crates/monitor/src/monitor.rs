//! The machine for other programs: opened once, read on request if the last sample is too old.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ttmon_model::ledger::LedgerSample;
use ttmon_model::snapshot::DeviceUse;
use ttmon_model::{DeviceId, Sample, Snapshot};
use ttmon_source::budget::Budget;
use ttmon_source::ledgers::{self, Detail, OpenLedger};
use ttmon_source::{Isolation, Ledgers, Machine, Options, Reach, Root};

use crate::signals;
use crate::stats::{DetailedStats, ProcessStats, SystemStats};

/// How long a sample is used by default: successive calls see the same sample.
pub const MAX_AGE: Duration = Duration::from_millis(100);

/// Reads the machine for other programs. It may be shared by threads, which then share its samples too.
#[derive(Debug)]
pub struct Monitor {
    /// Of the process that opened it: its threads and locks do not survive a fork.
    pid: u32,
    max_age_ms: AtomicU64,
    holders: ManuallyDrop<Mutex<Watch>>,
    /// For a process that holds no device.
    one: ManuallyDrop<Mutex<Watch>>,
}

/// Why nothing could be said.
#[derive(Debug)]
pub enum Error {
    /// The directory that was to stand for `/` is none.
    Root {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The machine cannot be read.
    Machine(ttmon_source::Error),
    /// Another process opened it, and this is a fork of that one.
    Forked,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root { path, error } => write!(f, "cannot look below {}: {error}", path.display()),
            // The message is for the command line, where a flag gives a simulated machine.
            Self::Machine(ttmon_source::Error::NoDevice) => f.write_str("no Tenstorrent device found: none is on the PCI bus"),
            Self::Machine(error) => error.fmt(f),
            Self::Forked => f.write_str("this monitor was opened before a fork, by another process; open one in this process"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Root { error, .. } => Some(error),
            Self::Machine(error) => Some(error),
            Self::Forked => None,
        }
    }
}

impl Monitor {
    /// This machine. One without devices is none to complain about: programs on mock chips are tracked there too.
    pub fn new() -> Result<Self, Error> {
        Self::below(&Root::real())
    }

    /// A machine below a directory; nothing outside is read.
    pub fn at(root: &Path) -> Result<Self, Error> {
        match std::fs::read_dir(root) {
            Ok(_) => Self::below(&Root::at(root)),
            Err(error) => Err(Error::Root { path: root.to_owned(), error }),
        }
    }

    fn below(root: &Root) -> Result<Self, Error> {
        let watch = |reach| Watch::new(root.clone(), reach).map(|watch| ManuallyDrop::new(Mutex::new(watch)));
        Ok(Self {
            pid: std::process::id(),
            max_age_ms: AtomicU64::new(millis(MAX_AGE)),
            holders: watch(Reach::Holders)?,
            one: watch(Reach::Process(0))?,
        })
    }

    /// From now on a sample answers for this long after it was taken; with zero every call takes its own.
    pub fn set_max_age(&self, max_age: Duration) {
        // Relaxed: the number is the whole message.
        self.max_age_ms.store(millis(max_age), Ordering::Relaxed);
    }

    /// Ids of the devices, in order. They need not be without gaps.
    pub fn device_ids(&self) -> Result<Vec<u32>, Error> {
        Ok(self.devices()?.map_or_else(Vec::new, |snapshot| snapshot.devices.iter().map(|device| device.id.0).collect()))
    }

    /// How many devices there are.
    pub fn device_count(&self) -> Result<usize, Error> {
        Ok(self.devices()?.map_or(0, |snapshot| snapshot.devices.len()))
    }

    /// A device, all processes together; `None` where there is no such device.
    pub fn system_stats(&self, device: u32) -> Result<Option<SystemStats>, Error> {
        Ok(self.devices()?.and_then(|snapshot| SystemStats::of(&snapshot, DeviceId(device))))
    }

    /// Everything about the memory of a device; `None` where there is no such device.
    pub fn detailed_stats(&self, device: u32) -> Result<Option<DetailedStats>, Error> {
        Ok(self.listed()?.and_then(|snapshot| DetailedStats::of(&snapshot, DeviceId(device))))
    }

    /// A process, by its pid on this host; `None` for one that neither holds a device nor tracks its memory. One that this user
    /// may not read may do so: its status is "no permission".
    pub fn process_stats(&self, pid: u32) -> Result<Option<ProcessStats>, Error> {
        let of_holder = match self.devices() {
            Ok(snapshot) => snapshot.and_then(|snapshot| ProcessStats::of(&snapshot, pid)),
            // Without a driver a program may still track memory of mock chips.
            Err(Error::Machine(ttmon_source::Error::DriverNotLoaded { .. })) => None,
            Err(error) => return Err(error),
        };
        match of_holder {
            Some(stats) => Ok(Some(stats)),
            None => {
                let snapshot = self.read(&self.one, |watch, max_age| {
                    watch.look_at(pid);
                    watch.snapshot(max_age)
                })?;
                let denied = (snapshot.denied_processes > 0).then(|| ProcessStats::denied(pid));
                Ok(ProcessStats::of(&snapshot, pid).or(denied))
            }
        }
    }

    /// A process on one device; `None` for one that has nothing to do with it.
    pub fn process_stats_on(&self, pid: u32, device: u32) -> Result<Option<DeviceUse>, Error> {
        Ok(self.process_stats(pid)?.and_then(|stats| stats.devices.into_iter().find(|use_of| use_of.device.0 == device)))
    }

    /// The devices and their holders; `None` on a machine without a device.
    pub(crate) fn devices(&self) -> Result<Option<Arc<Snapshot>>, Error> {
        self.holders(Watch::snapshot)
    }

    /// The same with the blocks of banks, which takes the live buffers of all ledgers.
    pub(crate) fn listed(&self) -> Result<Option<Arc<Snapshot>>, Error> {
        self.holders(Watch::listed)
    }

    fn holders(&self, take: impl FnOnce(&mut Watch, Duration) -> Result<Arc<Snapshot>, Error>) -> Result<Option<Arc<Snapshot>>, Error> {
        match self.read(&self.holders, take) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(Error::Machine(ttmon_source::Error::NoDevice)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read<T>(&self, watch: &Mutex<Watch>, take: impl FnOnce(&mut Watch, Duration) -> Result<T, Error>) -> Result<T, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let max_age = Duration::from_millis(self.max_age_ms.load(Ordering::Relaxed));
        // Held while files are read: concurrent callers want this sample.
        take(&mut lock(watch), max_age)
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }
}

impl Drop for Monitor {
    /// After a fork the locks inside may be held by threads that are not there: what cannot be taken down is left alone.
    fn drop(&mut self) {
        if !self.is_forked() {
            // SAFETY: neither is used again, and nothing else drops them.
            unsafe {
                ManuallyDrop::drop(&mut self.holders);
                ManuallyDrop::drop(&mut self.one);
            }
        }
    }
}

/// One way to read the machine, with the newest that was read.
#[derive(Debug)]
struct Watch {
    root: Root,
    reach: Reach,
    machine: Machine,
    newest: Option<Newest>,
}

/// The newest sample, and what it means.
#[derive(Debug)]
struct Newest {
    taken: Instant,
    sample: Sample,
    snapshot: Arc<Snapshot>,
    /// The live buffers are in it, and so the blocks of banks.
    is_listed: bool,
}

impl Watch {
    fn new(root: Root, reach: Reach) -> Result<Self, Error> {
        let ledgers = Ledgers { reach, ..Options::default().ledgers };
        // Opened, read, closed (the default pace): descriptors are the program's, which may have few. And threads: it may
        // have some of its own, so that it must not be forked.
        let options = Options { isolation: Isolation::Threads, ledgers, ..Options::default() };
        let machine = Machine::new(root.clone(), options).map_err(Error::Machine)?;
        Ok(Self { root, reach, machine, newest: None })
    }

    /// From now on this process is read beside the holders; an older sample does not include it.
    fn look_at(&mut self, pid: u32) {
        if self.reach != Reach::Process(pid) {
            self.reach = Reach::Process(pid);
            self.machine.look_at(pid);
            self.newest = None;
        }
    }

    fn snapshot(&mut self, max_age: Duration) -> Result<Arc<Snapshot>, Error> {
        if let Some(newest) = &self.newest
            && newest.taken.elapsed() < max_age
        {
            return Ok(Arc::clone(&newest.snapshot));
        }
        let sample = signals::blocked(|| self.machine.sample()).map_err(Error::Machine)?;
        let snapshot = Arc::new(Snapshot::derive(&sample, None));
        self.newest = Some(Newest { taken: Instant::now(), sample, snapshot: Arc::clone(&snapshot), is_listed: false });
        Ok(snapshot)
    }

    /// The same with the live buffers: those alone are read anew, so that all else is of the same sample.
    fn listed(&mut self, max_age: Duration) -> Result<Arc<Snapshot>, Error> {
        let snapshot = self.snapshot(max_age)?;
        let Some(newest) = self.newest.as_mut().filter(|newest| !newest.is_listed) else { return Ok(snapshot) };
        let mut budget = Budget::default();
        let read = |found: &Arc<OpenLedger>| {
            let content = ledgers::read(found, Detail::Blocks, &mut budget);
            LedgerSample { owner: found.owner, content }
        };
        newest.sample.ledgers.retain(|ledger| ledger.content.is_err());
        newest.sample.ledgers.extend(self.machine.ledgers().iter().map(read));
        newest.snapshot = Arc::new(Snapshot::derive(&newest.sample, None));
        newest.is_listed = true;
        // Calls in a row are about this list, however long it took.
        newest.taken = Instant::now();
        Ok(Arc::clone(&newest.snapshot))
    }
}

/// A panic in the middle of a sample leaves nothing to rely on: what it happened to is made anew.
fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(|poisoned| {
        let mut guard = poisoned.into_inner();
        if let Ok(fresh) = Watch::new(guard.root.clone(), guard.reach) {
            *guard = fresh;
            watch.clear_poison();
        }
        guard
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::*;

    /// Only banks need the live buffers, of which a process may have a million.
    #[test]
    fn buffers_are_listed_for_banks_alone() {
        let tree = tempfile::tempdir().unwrap();
        let machine = ttmon_sim::Machine::new(&ttmon_sim::Spec::parse("n150,idle").unwrap(), 1).unwrap();
        machine.write(tree.path(), 0, &[]).unwrap();
        let monitor = Monitor::at(tree.path()).unwrap();
        monitor.set_max_age(Duration::from_secs(3600));
        let handle = &mut Handle { monitor };
        let is_listed = |handle: &Handle| lock(&handle.monitor.holders).newest.as_ref().map(|newest| newest.is_listed);
        let mut count = 0;
        // SAFETY: the monitor is open, and the structs are numbers and ours.
        unsafe {
            let (mut kind, mut banks): (CKindStats, CBankStats) = (std::mem::zeroed(), std::mem::zeroed());
            kind.struct_size = u32::try_from(size_of_val(&kind)).unwrap();
            banks.struct_size = u32::try_from(size_of_val(&banks)).unwrap();
            assert_eq!(ttmon_monitor_detailed_stats(handle, 0, 0, &raw mut kind), 0);
            assert_eq!(ttmon_monitor_process_ids(handle, 0, std::ptr::null_mut(), 0, &raw mut count), 0);
            assert_eq!(is_listed(handle), Some(false));
            assert_ne!(ttmon_monitor_bank_stats(handle, 0, 0, 0, &raw mut banks), 0, "no allocator");
            assert_eq!(is_listed(handle), Some(true));
        }
    }
}
