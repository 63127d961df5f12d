//! Finds the ledgers of processes, checks their owners, and reads them.
//!
//! A ledger is a memfd that its process has mapped. The process also has it open, unless it closed all its files. Root and the same user
//! may read it. Other users get `no_permission`, which means that there may be a ledger.

mod free_blocks;
mod hint;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, StatxFlags};
use rustix::process::geteuid;

use ttmon_ledger_reader::{LedgerPart, MayRead, Region};
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerAllocator, LedgerChip};
use ttmon_model::sample::ProcessSample;
use ttmon_model::{Kind, Missing, Reading, Source};

use crate::budget::{Budget, Resource};

pub use ttmon_ledger_reader::LedgerDetail;

pub(crate) use free_blocks::FreeBlocks;
pub(crate) use hint::{LedgerHint, maps_request, names_ledger};

/// An open ledger and its path.
#[derive(Debug)]
pub struct OpenLedger {
    /// The process that owns the ledger.
    pub owner: ProcessKey,
    /// The user who runs the owner.
    pub uid: u32,
    /// What writes the ledger: the owner itself, or the service on its behalf.
    pub source: Source,
    /// The ledger.
    pub region: Arc<Region>,
    path: PathBuf,
    identity: (u64, u64),
}

impl OpenLedger {
    pub(crate) fn new(process: &ProcessSample, source: Source, region: Region, path: PathBuf, metadata: &fs::Metadata) -> Self {
        let (owner, uid) = (process.key, process.facts.as_ref().map_or(u32::MAX, |facts| facts.uid));
        Self { owner, uid, source, region: Arc::new(region), path, identity: (metadata.dev(), metadata.ino()) }
    }

    /// Creates a ledger that its process sent over a socket. It has no path that could be checked again.
    pub fn handed(owner: ProcessKey, uid: u32, region: Arc<Region>, identity: (u64, u64)) -> Self {
        Self { owner, uid, source: Source::Ledger, region, path: PathBuf::new(), identity }
    }

    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Returns device and inode of the ledger. They differ after `exec`.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Returns whether the process still has the ledger. `exec` keeps pid and start time, but drops the ledger. The descriptor number may
    /// then belong to any other file, so only the kernel's cached metadata is read: the file system of another user may never answer.
    pub(crate) fn is_still_there(&self) -> bool {
        let seen = rustix::fs::statx(rustix::fs::CWD, &self.path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO);
        seen.is_ok_and(|seen| (rustix::fs::makedev(seen.stx_dev_major, seen.stx_dev_minor), seen.stx_ino) == self.identity)
    }
}

/// Returns the ledger in a file if this process created it. Programs may have any memory of that name, so a file that cannot be read as a
/// ledger is none.
fn found(file: File, path: &Path, process: &ProcessSample, machine: u64) -> Option<OpenLedger> {
    let metadata = file.metadata().ok()?;
    let region = Region::open(file).ok()?;
    belongs(&region, process, machine).then(|| OpenLedger::new(process, Source::Ledger, region, path.to_owned(), &metadata))
}

fn is_own(process: &ProcessSample) -> bool {
    process.facts.as_ref().is_ok_and(|facts| facts.uid == geteuid().as_raw())
}

/// Opens a ledger through `/proc/PID/mem`. This works for the same user, if the program closed all its files. Memory that cannot be read as
/// a ledger is none.
fn open_memory(directory: &Path, start: u64, end: u64, process: &ProcessSample, machine: u64) -> Option<OpenLedger> {
    let path = directory.join("mem");
    let region = Region::open_at(open_file(&path).ok()?, start, end - start).ok()?;
    let metadata = fs::metadata(&path).ok()?;
    belongs(&region, process, machine).then(|| OpenLedger::new(process, Source::Ledger, region, path, &metadata))
}

/// Opens a memfd, recognized by its device number, which the kernel has cached. Another file system may never answer.
fn open_memfd(path: &Path) -> io::Result<File> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let is_memfd = what_is(&place).is_some_and(|(device, kind)| kind.is_file() && Some(device) == memfd_device());
    if !is_memfd {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    open_file(&PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd())))
}

/// Returns the device number and the type of a file from the kernel's cached metadata.
fn what_is(file: impl AsFd) -> Option<((u32, u32), FileType)> {
    let seen = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some(((seen.stx_dev_major, seen.stx_dev_minor), FileType::from_raw_mode(seen.stx_mode.into())))
}

/// Returns the device number of the single file system that contains all memfds. The first call must precede the restriction of a thread.
pub(crate) fn memfd_device() -> Option<(u32, u32)> {
    static DEVICE: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *DEVICE.get_or_init(|| Some(what_is(rustix::fs::memfd_create("ttmon", MemfdFlags::CLOEXEC).ok()?)?.0))
}

pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Returns whether the process created this ledger. A forked child also has its parent's. `machine` marks those of a simulation.
fn belongs(region: &Region, process: &ProcessSample, machine: u64) -> bool {
    let identity = region.identity();
    identity.pid == process.namespace_pid && identity.start_ticks == process.key.start_ticks && identity.machine == machine
}

/// Maximum number of buffers that are listed for a comparison when the caller wants only totals.
const COMPARED_MAX: u64 = 100_000;

/// Reads a ledger within the limits of its user. If a list is over a limit, only the totals are returned.
pub fn read(found: &OpenLedger, detail: LedgerDetail, budget: &mut Budget) -> Reading<Ledger> {
    read_granted(&found.region, detail, &mut |part, amount| budget.take_or_cut(resource(part), amount, found.uid))
}

fn read_granted(region: &Region, detail: LedgerDetail, may_read: MayRead<'_>) -> Reading<Ledger> {
    // All buffers are needed to compare those on shared chips. Only the list shows the types of kernels.
    let choose = |figures: &Ledger| match detail {
        LedgerDetail::Totals | LedgerDetail::Kernels if figures.live_entries() > COMPARED_MAX => LedgerDetail::Totals,
        LedgerDetail::Totals | LedgerDetail::Kernels if shares_chips(figures) => LedgerDetail::Blocks,
        LedgerDetail::Totals | LedgerDetail::Kernels if has_kernels(figures) => LedgerDetail::Kernels,
        LedgerDetail::Totals | LedgerDetail::Kernels => LedgerDetail::Totals,
        LedgerDetail::First(..) if shares_chips(figures) => LedgerDetail::Buffers,
        LedgerDetail::Buffers | LedgerDetail::Blocks | LedgerDetail::First(..) => detail,
    };
    // Lines that cannot be read are treated as missing.
    let ledger = region.ledger(choose, || region.lines().unwrap_or_default(), may_read).map_err(|_| Missing::Unparsable)?;
    ledger.ok_or(Missing::NotTracked)
}

fn resource(part: LedgerPart) -> Resource {
    match part {
        LedgerPart::Allocators => Resource::Allocators,
        LedgerPart::Chips => Resource::Chips,
        LedgerPart::Buffers => Resource::Buffers,
        LedgerPart::Circulars => Resource::Circulars,
    }
}

/// Returns whether the ledger has kernels.
fn has_kernels(ledger: &Ledger) -> bool {
    let has_some = |allocator: &LedgerAllocator| allocator.rows.iter().any(|row| row.kind == BufferKind::Of(Kind::Kernel) && row.count > 0);
    ledger.allocators.iter().any(|allocator| allocator.is_open() && has_some(allocator))
}

/// Returns whether two allocators have buffers on the same chip. Such buffers may overlap.
fn shares_chips(ledger: &Ledger) -> bool {
    let holds =
        |allocator: &&LedgerAllocator| allocator.is_open() && allocator.rows.iter().any(|row| row.count > 0 && row.capacity.is_some());
    let holders: Vec<&LedgerAllocator> = ledger.allocators.iter().filter(holds).collect();
    // The first allocator with each chip.
    let mut seen: HashMap<(Option<u32>, Option<u64>), u16> = HashMap::new();
    let mut is_shared = |slot: u16, chip: &LedgerChip| *seen.entry((chip.metal_id, chip.unique_id)).or_insert(slot) != slot;
    holders.len() > 1 && holders.iter().any(|allocator| allocator.chips.iter().any(|chip| is_shared(allocator.slot, chip)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::thread;
    use std::time::Duration;

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use ttmon_ledger::layout::{WriterKind, header};
    use ttmon_ledger::writer::{ClockChoice, Config, Writer};
    use ttmon_model::sample::{ProcessFacts, Workload};
    use ttmon_model::units::UnixTime;

    use super::hint::parse_mapping;
    use super::*;
    use crate::examined::Examined;
    use crate::root::Root;

    /// The ledger of the test process. A process has only one.
    static WRITER: Writer =
        Writer::new(Config { kind: WriterKind::Client, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None });

    #[test]
    fn only_memfds_are_opened() {
        let memfd = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC).unwrap();
        assert!(open_memfd(&PathBuf::from(format!("/proc/self/fd/{}", memfd.as_raw_fd()))).is_ok());
        let elsewhere = tempfile::tempfile_in("/dev/shm").unwrap();
        for path in [format!("/proc/self/fd/{}", elsewhere.as_raw_fd()), "/dev/zero".into(), "/proc/self/stat".into(), "/".into()] {
            assert!(open_memfd(Path::new(&path)).is_err(), "{path}");
        }
    }

    /// The ledger of this process, listed under another process that has closed its files. The ledger is found by its mapping. It is not
    /// found if `map_files` leads to another file, or if the process belongs to another user and the link cannot be followed.
    #[test]
    fn memory_is_not_read_of_what_may_be_no_memfd() {
        drop(WRITER.session().unwrap());
        let ledger = Region::open(File::open(format!("/proc/self/fd/{}", WRITER.descriptor().unwrap())).unwrap()).unwrap();
        let (start, end) = fs::read_to_string("/proc/self/maps").unwrap().lines().find_map(parse_mapping).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mapping = directory.path().join(format!("proc/7/map_files/{start:x}-{end:x}"));
        fs::create_dir_all(mapping.parent().unwrap()).unwrap();
        symlink("/proc/self/mem", directory.path().join("proc/7/mem")).unwrap();
        symlink(format!("/proc/self/map_files/{start:x}-{end:x}"), &mapping).unwrap();
        let is_found = |uid: u32| {
            let process = ProcessSample {
                key: ProcessKey { pid: 7, start_ticks: ledger.identity().start_ticks },
                namespace_pid: std::process::id(),
                facts: Ok(ProcessFacts {
                    name: String::new(),
                    uid,
                    user: None,
                    parent: 0,
                    start_time: UnixTime(0),
                    cpu_time: Duration::ZERO,
                    rss: 0,
                }),
                command: Err(Missing::Gone),
                workload: Workload::default(),
                fdinfo: Vec::new(),
            };
            LedgerHint::Mapping(start, end).open(&Root::at(directory.path()), &process, 0).is_some()
        };
        let own = geteuid().as_raw();
        assert!(is_found(own));
        let without_the_link = || {
            // This changes only this thread.
            let mut held = capabilities(None).unwrap();
            held.effective -= CapabilitySet::SYS_ADMIN | CapabilitySet::CHECKPOINT_RESTORE;
            set_capabilities(None, held).unwrap();
            (is_found(own), is_found(own + 1))
        };
        assert_eq!(thread::scope(|scope| scope.spawn(without_the_link).join().unwrap()), (true, false));
        fs::remove_file(&mapping).unwrap();
        fs::write(&mapping, "").unwrap();
        assert!(!is_found(own));
    }

    /// The owner of a ledger can leave the event counter odd forever.
    #[test]
    fn ledger_in_the_middle_of_an_event_is_counted_within_the_limits() {
        drop(WRITER.session().unwrap());
        let mut bytes = fs::read(format!("/proc/self/fd/{}", WRITER.descriptor().unwrap())).unwrap();
        let seq = usize::try_from(header::SEQ).unwrap();
        bytes[seq] |= 1;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let region = Region::open(file).unwrap();
        let mut asked = Vec::new();
        let read = read_granted(&region, LedgerDetail::Totals, &mut |part, _| {
            asked.push(part);
            false
        });
        assert_eq!((read.err(), asked.as_slice()), (Some(Missing::NotTracked), &[LedgerPart::Buffers][..]));
        assert!(read_granted(&region, LedgerDetail::Totals, &mut |_, _| true).is_ok());
    }

    #[test]
    fn the_first_thread_of_a_process_may_have_ended() {
        let directory = tempfile::tempdir().unwrap();
        let thread = directory.path().join("proc/7/task/9/fd");
        fs::create_dir_all(&thread).unwrap();
        fs::create_dir_all(directory.path().join("proc/7/task/7/fd")).unwrap();
        fs::create_dir(directory.path().join("proc/7/fd")).unwrap();
        symlink("/memfd:ttmon-ledger (deleted)", thread.join("5")).unwrap();
        let mut examined = Examined::default();
        let files = examined.open_files(&Root::at(directory.path()), 7, &mut Budget::new(0));
        assert_eq!(LedgerHint::among(files), LedgerHint::Files(vec![thread.join("5")]));
    }

    #[test]
    fn mappings() {
        let line = "7f3a00000000-7f3a04491000 rw-s 00000000 00:01 1234                       /memfd:ttmon-ledger (deleted)";
        assert_eq!(parse_mapping(line), Some((0x7f3a_0000_0000, 0x7f3a_0449_1000)));
        for other in [
            "",
            "x",
            "7f-80 rw-s 0 00:01 1 /memfd:other (deleted)",
            "80-7f rw-s 0 00:01 1 /memfd:ttmon-ledger (deleted)",
            "7f-80 rw-p 0 00:00 0",
            "7f-80 rw-s 0 00:01 1 /tmp/memfd:ttmon-ledger (deleted)",
        ] {
            assert_eq!(parse_mapping(other), None, "{other}");
        }
        assert!(!names_ledger(Path::new("/tmp/memfd:ttmon-ledger")));
    }
}
