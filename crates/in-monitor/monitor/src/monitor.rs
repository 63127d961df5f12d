//! Reads the machine for other programs. The machine is opened once, and read on request if the last sample is too old.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ttmon_collect::budget::Budget;
use ttmon_collect::ledgers::{self, LedgerDetail, OpenLedger};
use ttmon_collect::{Isolation, LedgerScope, Ledgers, Machine, Options, Root};
use ttmon_model::ledger::LedgerSample;
use ttmon_model::snapshot::DeviceUse;
use ttmon_model::{DeviceId, Sample, Snapshot};

use crate::signals;
use crate::stats::{DetailedStats, ProcessStats, SystemStats};

/// How long a sample is used by default. Successive calls then see the same sample.
pub const MAX_AGE: Duration = Duration::from_millis(100);

/// Reads the machine for other programs. Threads may share a monitor, and then also share its samples.
#[derive(Debug)]
pub struct Monitor {
    /// The process that opened the monitor. Its threads and locks do not survive a fork.
    pid: u32,
    max_age_ms: AtomicU64,
    holders: ManuallyDrop<Mutex<Watch>>,
    /// Reads one process that holds no device.
    one: ManuallyDrop<Mutex<Watch>>,
}

/// Why the machine could not be read.
#[derive(Debug)]
pub enum Error {
    /// The directory that should be used as `/` cannot be read.
    Root {
        /// The path of the directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The machine cannot be read.
    Machine(ttmon_collect::Error),
    /// The monitor was opened before a fork, by another process.
    Forked,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root { path, error } => write!(f, "cannot look below {}: {error}", path.display()),
            // The usual message is for the command line, where a flag selects a simulated machine.
            Self::Machine(ttmon_collect::Error::NoDevice) => f.write_str("no Tenstorrent device found: none is on the PCI bus"),
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
    /// Opens this machine. A machine without devices is not an error, because programs on mock chips are tracked there too.
    pub fn new() -> Result<Self, Error> {
        Self::below(&Root::real())
    }

    /// Opens a machine below a directory. No file outside is read.
    pub fn at(root: &Path) -> Result<Self, Error> {
        match std::fs::read_dir(root) {
            Ok(_) => Self::below(&Root::at(root)),
            Err(error) => Err(Error::Root { path: root.to_owned(), error }),
        }
    }

    fn below(root: &Root) -> Result<Self, Error> {
        let watch = |scope| Watch::new(root.clone(), scope).map(|watch| ManuallyDrop::new(Mutex::new(watch)));
        Ok(Self {
            pid: std::process::id(),
            max_age_ms: AtomicU64::new(millis(MAX_AGE)),
            holders: watch(LedgerScope::Holders)?,
            one: watch(LedgerScope::Process(0))?,
        })
    }

    /// Sets how long a sample is used after it was taken. With zero, every call takes its own sample.
    pub fn set_max_age(&self, max_age: Duration) {
        // Relaxed is enough, because no other data depends on the number.
        self.max_age_ms.store(millis(max_age), Ordering::Relaxed);
    }

    /// Returns the ids of the devices, in order. There may be gaps.
    pub fn device_ids(&self) -> Result<Vec<u32>, Error> {
        Ok(self.devices()?.map_or_else(Vec::new, |snapshot| snapshot.devices.iter().map(|device| device.id.0).collect()))
    }

    /// Returns the number of devices.
    pub fn device_count(&self) -> Result<usize, Error> {
        Ok(self.devices()?.map_or(0, |snapshot| snapshot.devices.len()))
    }

    /// Returns the figures of a device, over all processes. Returns `None` if the device does not exist.
    pub fn system_stats(&self, device: u32) -> Result<Option<SystemStats>, Error> {
        Ok(self.devices()?.and_then(|snapshot| SystemStats::of(&snapshot, DeviceId(device))))
    }

    /// Returns all memory figures of a device. Returns `None` if the device does not exist.
    pub fn detailed_stats(&self, device: u32) -> Result<Option<DetailedStats>, Error> {
        Ok(self.listed()?.and_then(|snapshot| DetailedStats::of(&snapshot, DeviceId(device))))
    }

    /// Returns a process, by its pid on this host. Returns `None` if it neither holds a device nor tracks its memory. If this user may not
    /// read the process, its status is "no permission".
    pub fn process_stats(&self, pid: u32) -> Result<Option<ProcessStats>, Error> {
        let of_holder = match self.devices() {
            Ok(snapshot) => snapshot.and_then(|snapshot| ProcessStats::of(&snapshot, pid)),
            // Without a driver, a program may still track memory of mock chips.
            Err(Error::Machine(ttmon_collect::Error::DriverNotLoaded { .. })) => None,
            Err(error) => return Err(error),
        };
        match of_holder {
            Some(stats) => Ok(Some(stats)),
            None => {
                let snapshot = self.read(&self.one, |watch, max_age| {
                    watch.include_process(pid);
                    watch.snapshot(max_age)
                })?;
                let denied = (snapshot.denied_processes > 0).then(|| ProcessStats::denied(pid));
                Ok(ProcessStats::of(&snapshot, pid).or(denied))
            }
        }
    }

    /// Returns the memory of a process on one device. Returns `None` if the process does not use the device.
    pub fn process_stats_on(&self, pid: u32, device: u32) -> Result<Option<DeviceUse>, Error> {
        Ok(self.process_stats(pid)?.and_then(|stats| stats.devices.into_iter().find(|use_of| use_of.device.0 == device)))
    }

    /// Returns the devices and their holders, or `None` on a machine without devices.
    pub(crate) fn devices(&self) -> Result<Option<Arc<Snapshot>>, Error> {
        self.holders(Watch::snapshot)
    }

    /// Returns the same snapshot with the blocks of banks, which needs the live buffers of all ledgers.
    pub(crate) fn listed(&self) -> Result<Option<Arc<Snapshot>>, Error> {
        self.holders(Watch::listed)
    }

    fn holders(&self, take: impl FnOnce(&mut Watch, Duration) -> Result<Arc<Snapshot>, Error>) -> Result<Option<Arc<Snapshot>>, Error> {
        match self.read(&self.holders, take) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(Error::Machine(ttmon_collect::Error::NoDevice)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read<T>(&self, watch: &Mutex<Watch>, take: impl FnOnce(&mut Watch, Duration) -> Result<T, Error>) -> Result<T, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let max_age = Duration::from_millis(self.max_age_ms.load(Ordering::Relaxed));
        // The lock is held while files are read, because concurrent callers want the same sample.
        take(&mut lock(watch), max_age)
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }
}

impl Drop for Monitor {
    /// Frees the machines, except after a fork: threads that no longer exist may hold their locks.
    fn drop(&mut self) {
        if !self.is_forked() {
            // SAFETY: neither field is used again, and nothing else drops them.
            unsafe {
                ManuallyDrop::drop(&mut self.holders);
                ManuallyDrop::drop(&mut self.one);
            }
        }
    }
}

/// One way to read the machine, with its latest sample.
#[derive(Debug)]
struct Watch {
    root: Root,
    scope: LedgerScope,
    machine: Machine,
    newest: Option<Newest>,
}

#[derive(Debug)]
struct Newest {
    taken: Instant,
    sample: Sample,
    snapshot: Arc<Snapshot>,
    /// Whether the snapshot has the live buffers, and so the blocks of banks.
    is_listed: bool,
}

impl Watch {
    fn new(root: Root, scope: LedgerScope) -> Result<Self, Error> {
        let ledgers = Ledgers { scope, ..Options::default().ledgers };
        // With the default sampling, files are opened, read and closed, because the program may have few descriptors. Threads read the
        // files, because a program with threads must not be forked.
        let options = Options { isolation: Isolation::Threads, ledgers, ..Options::default() };
        let machine = Machine::new(root.clone(), options).map_err(Error::Machine)?;
        Ok(Self { root, scope, machine, newest: None })
    }

    /// Includes this process besides the holders from now on. Drops an older sample without it.
    fn include_process(&mut self, pid: u32) {
        if self.scope != LedgerScope::Process(pid) {
            self.scope = LedgerScope::Process(pid);
            self.machine.include_process(pid);
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

    /// Returns the snapshot with the live buffers. Only the buffers are read again, so everything else is from the same sample.
    fn listed(&mut self, max_age: Duration) -> Result<Arc<Snapshot>, Error> {
        let snapshot = self.snapshot(max_age)?;
        let Some(newest) = self.newest.as_mut().filter(|newest| !newest.is_listed) else { return Ok(snapshot) };
        let mut budget = Budget::default();
        let read = |found: &Arc<OpenLedger>| {
            let content = ledgers::read(found, LedgerDetail::Blocks, &mut budget);
            LedgerSample { owner: found.owner, content }
        };
        newest.sample.ledgers.retain(|ledger| ledger.content.is_err());
        newest.sample.ledgers.extend(self.machine.ledgers().iter().map(read));
        newest.snapshot = Arc::new(Snapshot::derive(&newest.sample, None));
        newest.is_listed = true;
        // The age starts again, so that successive calls see this list even if reading it took long.
        newest.taken = Instant::now();
        Ok(Arc::clone(&newest.snapshot))
    }
}

/// Locks a watch. After a panic during a sample its state is unreliable, so it is created again.
fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(|poisoned| {
        let mut guard = poisoned.into_inner();
        if let Ok(fresh) = Watch::new(guard.root.clone(), guard.scope) {
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
        let tree = ttmon_testing::directory();
        let machine = ttmon_sim::Machine::new(&ttmon_sim::Spec::parse("n150,idle").unwrap(), 1).unwrap();
        machine.write(tree.path(), 0, &[]).unwrap();
        let monitor = Monitor::at(tree.path()).unwrap();
        monitor.set_max_age(Duration::from_secs(3600));
        let handle = &mut Handle { monitor };
        let is_listed = |handle: &Handle| lock(&handle.monitor.holders).newest.as_ref().map(|newest| newest.is_listed);
        let mut count = 0;
        // SAFETY: the monitor is open, and the structs are local and consist of numbers.
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
