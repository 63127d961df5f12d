//! Receives the ledgers of the command and its children.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{collections::HashSet, env, hash::BuildHasher, hash::RandomState};

use rustix::process::{Resource, Rlimit};
use ttmon_buffer_history::History;
use ttmon_buffer_history::LedgerSummary;
use ttmon_buffer_history::{FeedError, LedgerFeed, Trace};
use ttmon_collect::handover::{HandedLedger, Receiver};
use ttmon_collect::{ProcessStat, Root};
use ttmon_ledger_reader::Region;
use ttmon_model::phase::HostMemory;
use ttmon_os::bound_socket::remove_abandoned_datagram;

use crate::show::now;

/// Maximum number of messages received at a time.
const AT_ONCE: usize = 256;
/// With more open ledgers than this, ledgers of ended processes are read and closed while no message arrives. At `HELD_MAX` this is done
/// at once.
const HELD: usize = 128;
const HELD_MAX: usize = 4096;
/// Reserve for open files that are not ledgers: those of ttmon, and those that it inherited.
const OTHER_FILES: u64 = 64;
/// Maximum number of processes in the report; further ones are only counted.
const PROCESSES_MAX: usize = 16_384;

/// Maximum number of buffers listed per process that were never freed; the rest is counted. After `PROCESSES_IN_FULL` processes the limit
/// is lower.
const LEFT_MAX: usize = 1000;
const LEFT_MAX_OF_MANY: usize = 16;
const PROCESSES_IN_FULL: usize = 64;

const DIRECTORY: &str = "ttmon-run-";
/// The temporary first name of the socket.
const BOUND: &str = "bound";

/// Variable with the socket to which a process sends its ledger.
pub(crate) const HANDOVER: &str = "TTMON_HANDOVER";
/// Variable with the sockets of the outer runs, one per line.
pub(crate) const OUTER: &str = "TTMON_HANDOVER_OUTER";

/// Receives ledgers on a socket in its own directory.
#[derive(Debug)]
pub(crate) struct Collector {
    receiver: Receiver,
    // Dropped after the receiver, which removes its socket first.
    _directory: Directory,
    held: Vec<CollectedLedger>,
    summaries: Vec<LedgerSummary>,
    seen: HashSet<(u64, u64)>,
    /// Number of ledgers that could not be read, or that exceeded the limit.
    unread: u64,
    /// Whether a process of another user sent a ledger.
    has_foreign: bool,
    held_max: usize,
    tracer: Option<Tracer>,
}

#[derive(Debug)]
struct CollectedLedger {
    region: Region,
    pid: Option<u32>,
    feed: Option<LedgerFeed>,
    /// Events of the ledger, if they are followed.
    history: History,
    host: Option<HostMemory>,
}

#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) summaries: Vec<LedgerSummary>,
    pub(crate) unread: u64,
    /// Whether a process of another user sent a ledger.
    pub(crate) has_foreign: bool,
    /// The events of the ledgers, or why they could not be recorded; `None` if no snapshot was requested.
    pub(crate) trace: Option<io::Result<Trace>>,
}

/// Maximum number of ledgers whose events are read while their programs run. For the others, only the last events are read at the end.
const FOLLOWED: usize = 16;
/// Interval between two reads of events. `FOLLOW_BUSY` applies if a read returned at least `BUSY_EVENTS`.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
const FOLLOW_BUSY: Duration = Duration::from_millis(10);
/// Interval with `--snapshot`. The ring has room for the events of a program in this time.
const FOLLOW_TRACED: Duration = Duration::from_millis(20);
const BUSY_EVENTS: u64 = 8192;

/// A directory that is removed when this is dropped.
#[derive(Debug)]
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // A directory that stays is removed by `sweep` of a later run.
        let _ = fs::remove_dir(&self.0);
    }
}

impl Collector {
    /// Creates the socket. A child may run as another user (`su`), in a container, or as an orphan, so every process that knows the path
    /// may send. The path is secret: it is only in the environment of the command and of its children.
    pub(crate) fn open() -> io::Result<Self> {
        let places = [env::var_os("TMPDIR").filter(|value| !value.is_empty()).map(PathBuf::from), Some(PathBuf::from("/tmp"))];
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in places.into_iter().flatten() {
            match Self::open_in(&place) {
                Ok(collector) => return Ok(collector),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn open_in(place: &Path) -> io::Result<Self> {
        let place = std::path::absolute(place)?;
        sweep(&place);
        let path = place.join(format!("{DIRECTORY}{}", random()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let directory = Directory(path);
        let admit = |mode| fs::set_permissions(&directory.0, Permissions::from_mode(mode));
        // Set the mode again, because the umask may have reduced it.
        admit(0o700)?;
        // All users can read the name under which the socket was bound. So it is renamed before other processes may enter the directory.
        let mut receiver = Receiver::bind(&directory.0.join(BOUND), 0o600)?;
        receiver.hide(&directory.0.join(random()), 0o666)?;
        admit(0o711)?;
        Ok(Self {
            receiver,
            _directory: directory,
            held: Vec::new(),
            summaries: Vec::new(),
            seen: HashSet::new(),
            unread: 0,
            has_foreign: false,
            held_max: HELD,
            tracer: None,
        })
    }

    /// Follows the events of every ledger from now on.
    pub(crate) fn trace_into(&mut self, trace: Trace) {
        self.tracer = Some(Tracer { trace, failed: None, has_new: false });
    }

    /// Reads new events. Returns when to do so again, or `None` if there is no ledger.
    pub(crate) fn follow(&mut self) -> Option<Duration> {
        self.follow_trace();
        let most = self.held.iter_mut().take(FOLLOWED).map(CollectedLedger::follow).max()?;
        let is_traced = self.tracer.as_ref().is_some_and(|tracer| tracer.failed.is_none());
        Some(match most {
            BUSY_EVENTS.. => FOLLOW_BUSY,
            _ if is_traced => FOLLOW_TRACED,
            _ => FOLLOW_EVERY,
        })
    }

    /// Reads new events for `--snapshot`.
    pub(crate) fn follow_trace(&mut self) {
        if let Some(tracer) = &mut self.tracer {
            tracer.follow(&mut self.held);
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.receiver.path()
    }

    /// Raises the limit of open files, because each open ledger is one. Called after the command was started, so that its own limit
    /// does not change.
    pub(crate) fn make_room(&mut self) {
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let raised = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        let files = if raised.is_ok() { limit.maximum } else { limit.current };
        let room = files.map_or(HELD_MAX, |files| usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(HELD_MAX));
        self.held_max = room.clamp(1, HELD_MAX);
    }

    /// Receives all waiting ledgers. A sender waits only for a short time, and if a hundred programs start together, ttmon gets only a
    /// hundredth of the CPU. So this does no other work unless it must.
    pub(crate) fn take(&mut self) {
        loop {
            let handed = self.receiver.receive(AT_ONCE);
            let is_idle = handed.is_empty();
            for ledger in handed {
                self.keep(ledger);
            }
            if is_idle && (self.held.len() < self.held_max || !self.close_one()) {
                return;
            }
        }
    }

    /// Whether ledgers should be closed while no message arrives.
    pub(crate) fn is_behind(&self) -> bool {
        self.held.len() > HELD
    }

    /// Whether further ledgers can be received. False if a process sent something that blocks the receiver.
    pub(crate) fn is_listening(&self) -> bool {
        !self.receiver.is_stuck()
    }

    fn keep(&mut self, ledger: HandedLedger) {
        // Simulated processes use no memory of this machine.
        let is_simulated = ledger.region.identity().machine != 0;
        if is_simulated || !self.seen.insert(ledger.identity) {
            return;
        }
        if self.summaries.len() + self.held.len() >= PROCESSES_MAX {
            self.unread += 1;
            return;
        }
        self.has_foreign |= ledger.uid != rustix::process::geteuid().as_raw();
        let pid = ledger.sender.map(|sender| sender.pid);
        let feed = self.tracer.as_mut().map(|tracer| tracer.begin(&ledger.region, pid));
        self.held.push(CollectedLedger { region: ledger.region, pid, feed, history: History::default(), host: None });
    }

    /// Reads and closes the ledger of an ended process. Returns false if all processes are still running.
    pub(crate) fn close_one(&mut self) -> bool {
        let Some(index) = self.held.iter().position(|held| !held.is_running()) else { return false };
        let held = self.held.swap_remove(index);
        self.read(held, false);
        true
    }

    fn read(&mut self, mut held: CollectedLedger, is_running: bool) {
        if let Some(tracer) = &mut self.tracer {
            tracer.finish(&mut held, is_running);
        }
        let left_max = if self.summaries.len() < PROCESSES_IN_FULL { LEFT_MAX } else { LEFT_MAX_OF_MANY };
        match LedgerSummary::read(&held.region, held.history, held.pid, is_running, left_max) {
            Ok(summary) => self.summaries.push(LedgerSummary { host_rss: held.host, ..summary }),
            Err(_) => self.unread += 1,
        }
    }

    /// Reads all ledgers after the command has ended.
    pub(crate) fn finish(mut self) -> Collected {
        self.take();
        self.follow();
        for held in std::mem::take(&mut self.held) {
            let is_running = held.is_running();
            self.read(held, is_running);
        }
        let unread = self.unread + self.receiver.refused();
        let trace = self.tracer.map(|tracer| tracer.failed.map_or(Ok(tracer.trace), Err));
        Collected { summaries: self.summaries, unread, has_foreign: self.has_foreign, trace }
    }
}

impl AsFd for Collector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl CollectedLedger {
    /// Reads new events and the host memory of the process. Returns how many events there were.
    fn follow(&mut self) -> u64 {
        let before = self.history.seen();
        // Events that cannot be read now are read later, at the latest at the end.
        let _ = self.history.follow(&self.region);
        if let Some((now, peak)) = self.is_running().then(|| host_memory(self.pid.unwrap_or(self.region.identity().pid))).flatten() {
            let first = self.host.map_or(now, |host| host.first);
            self.host = Some(HostMemory { first, peak, last: now });
        }
        self.history.seen().saturating_sub(before)
    }

    /// Whether the process of this ledger is still running: same pid and same start time.
    fn is_running(&self) -> bool {
        let identity = self.region.identity();
        let pid = self.pid.unwrap_or(identity.pid);
        ProcessStat::of(&Root::real().proc, pid).is_some_and(|stat| !stat.has_ended && stat.start_ticks == identity.start_ticks)
    }
}

#[derive(Debug)]
struct Tracer {
    trace: Trace,
    /// Why no more events are kept.
    failed: Option<io::Error>,
    /// Whether a ledger arrived since the last call. Other processes may have ended before it was created.
    has_new: bool,
}

impl Tracer {
    fn begin(&mut self, region: &Region, pid: Option<u32>) -> LedgerFeed {
        self.has_new = true;
        LedgerFeed::new(&mut self.trace, region, pid.unwrap_or(region.identity().pid))
    }

    fn follow(&mut self, held: &mut [CollectedLedger]) {
        if self.failed.is_some() {
            return;
        }
        if std::mem::take(&mut self.has_new) {
            // Finish ended processes before the events of the new one, because their memory on a chip is free then.
            held.iter_mut().filter(|held| !held.is_running()).for_each(|held| self.finish(held, false));
        }
        // Use the same end time for all ledgers. Later events come in the next call.
        let until = now().0;
        for held in held.iter_mut() {
            let Some(feed) = &mut held.feed else { continue };
            if let Err(error) = feed.take(&mut self.trace, &held.region, until) {
                self.failed = Some(error);
                return;
            }
        }
    }

    fn finish(&mut self, held: &mut CollectedLedger, is_running: bool) {
        let Some(mut feed) = held.feed.take().filter(|_| self.failed.is_none()) else { return };
        match feed.finish(&mut self.trace, &held.region, is_running) {
            Ok(()) => {}
            // The ledger is counted as unread.
            Err(FeedError::Ledger(_)) => self.trace.record_loss(1, now().0),
            Err(FeedError::Spool(error)) => self.failed = Some(error),
        }
    }
}

/// Current and highest resident bytes of a process; `None` if it has ended.
fn host_memory(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(Root::real().proc.join(pid.to_string()).join("status")).ok()?;
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((kilobytes("VmRSS:")?, kilobytes("VmHWM:")?))
}

/// Removes the directories of killed runs. A directory without a socket may be new, and is kept. What cannot be removed now is tried again
/// by the next run.
fn sweep(place: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(DIRECTORY.as_bytes())
            && entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own);
        let files = if is_ours { fs::read_dir(entry.path()).ok() } else { None };
        for file in files.into_iter().flatten().flatten() {
            if remove_abandoned_datagram(&file.path()) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// The sockets of the outer runs, which receive the same ledgers; `None` if there is no outer run.
pub(crate) fn outer(next: Option<OsString>, others: Option<OsString>) -> Option<OsString> {
    let all: Vec<OsString> = [next, others].into_iter().flatten().filter(|places| !places.is_empty()).collect();
    (!all.is_empty()).then(|| all.join(OsStr::new("\n")))
}

/// Returns a name that cannot be guessed, not even from another name: the hasher's keys are 128 random bits of the system.
fn random() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_around_this_one() {
        let check = |next: Option<&str>, others: Option<&str>, expected: Option<&str>| {
            assert_eq!(outer(next.map(OsString::from), others.map(OsString::from)), expected.map(OsString::from));
        };
        check(None, None, None);
        check(Some(""), Some(""), None);
        check(Some("/a/b"), None, Some("/a/b"));
        check(Some("/a/b"), Some("/c\n/d"), Some("/a/b\n/c\n/d"));
    }

    #[test]
    fn host_memory_is_that_of_the_process() {
        let (now, peak) = host_memory(std::process::id()).unwrap();
        assert!(now > 100_000 && peak >= now / 2, "{now} {peak}");
        assert_eq!(host_memory(0), None);
    }

    #[test]
    fn the_place_is_private_and_is_removed() {
        let collector = Collector::open().unwrap();
        let directory = collector.path().parent().unwrap().to_owned();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&directory), mode(collector.path())), (0o711, 0o666));
        let name = collector.path().file_name().unwrap().to_str().unwrap().to_owned();
        let bound = fs::read_to_string("/proc/net/unix").unwrap();
        assert!(bound.contains(directory.to_str().unwrap()) && !bound.contains(&name), "{bound}");
        assert_eq!(collector.finish().summaries.len(), 0);
        assert!(!directory.exists());
    }
}
