//! Finds the ledgers of processes, checks whose they are, and reads them.
//!
//! A ledger is a memfd that its process has mapped and, unless it closed all its files, open. Root and the same user
//! may look; whoever may not, learns that there may be something (`no_permission`), not that there is nothing.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use ttmon_ledger::layout::{NAME, kind, status};
use ttmon_ledger::reader::{Allocator, Chip, Entry, Exactness, Region, Row, Totals};
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerAllocator, LedgerBuffer, LedgerChip, LedgerRow, VisibleDevices};
use ttmon_model::sample::ProcessSample;
use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, Missing, Reading};

use crate::read::{Pace, Reply, Request, Want};
use crate::root::Root;

/// Longest list of mappings looked through; TT-Metal under Python has some 1,500 lines.
const MAPS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Open files named like a ledger that are tried: a program may hold others' to read them, or inherit its parent's.
const CANDIDATES_MAX: usize = 64;

/// How much of a ledger is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Allocators and their figures.
    Totals,
    /// Every live buffer too.
    Buffers,
}

/// A ledger that was found, and where.
#[derive(Debug)]
pub struct Found {
    /// The process it belongs to.
    pub owner: ProcessKey,
    /// The ledger.
    pub region: Region,
    path: PathBuf,
    identity: (u64, u64),
}

impl Found {
    /// Device and inode of the ledger: after `exec` a process has another one.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Whether the process still has it: `exec` keeps pid and start time, and takes the ledger away.
    pub(crate) fn is_still_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity)
    }
}

/// Where a process's ledger may be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lead {
    /// Open files with the right name; one of them may be its own.
    Files(Vec<PathBuf>),
    /// A mapping with the right name, from one address to another: the program closed its files.
    Mapping(u64, u64),
    /// None among its open files; its mappings have not been looked at.
    NoFile,
    /// Nowhere.
    Nothing,
    /// This user may not look.
    Denied,
}

/// Looks among the open files of a process.
pub(crate) fn look(root: &Root, pid: u32) -> Lead {
    let entries = match fs::read_dir(root.proc.join(pid.to_string()).join("fd")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Lead::Denied,
        Err(_) => return Lead::Nothing,
    };
    let is_ledger = |path: &PathBuf| fs::read_link(path).is_ok_and(|target| names_ledger(&target));
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_ledger).take(CANDIDATES_MAX).collect();
    if files.is_empty() { Lead::NoFile } else { Lead::Files(files) }
}

/// The mappings of a process: reading them may wait for it, so they go with its other files.
pub(crate) fn maps_request(root: &Root, pid: u32) -> Request {
    let path = root.proc.join(pid.to_string()).join("maps");
    Request { path, want: Want::Beginning, bytes_max: MAPS_BYTES_MAX, pace: Pace::Once }
}

impl Lead {
    /// With the mappings looked at, where they had to be.
    pub(crate) fn with_maps(self, reply: Option<&Reply>) -> Self {
        match (self, reply) {
            (Self::NoFile, Some(Ok(bytes))) => {
                let text = String::from_utf8_lossy(bytes);
                text.lines().find_map(parse_mapping).map_or(Self::Nothing, |(start, end)| Self::Mapping(start, end))
            }
            (Self::NoFile, _) => Self::Nothing,
            (lead, _) => lead,
        }
    }

    /// Whether there is something to open.
    pub(crate) fn is_promising(&self) -> bool {
        matches!(self, Self::Files(_) | Self::Mapping(..))
    }

    /// Opens the ledger, if it is this process's own.
    pub(crate) fn open(&self, root: &Root, process: &ProcessSample, machine: u64) -> Option<Found> {
        match self {
            Self::Files(paths) => paths.iter().find_map(|path| open(path, process, machine)),
            Self::Mapping(start, end) => {
                let directory = root.proc.join(process.key.pid.to_string());
                let path = directory.join(format!("map_files/{start:x}-{end:x}"));
                open(&path, process, machine).or_else(|| open_memory(&directory, *start, *end, process, machine))
            }
            Self::NoFile | Self::Nothing | Self::Denied => None,
        }
    }
}

/// A memfd has no name in any directory, which the kernel shows as deleted; a file that is really called so has one.
fn names_ledger(target: &Path) -> bool {
    target.to_str().and_then(|text| text.strip_prefix("/memfd:")?.strip_suffix(" (deleted)")) == Some(NAME)
}

/// `7f00-7f40 rw-s 00000000 00:01 1234  /memfd:ttmon-ledger (deleted)`
fn parse_mapping(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    names_ledger(Path::new(&rest[rest.find("/memfd:")?..])).then_some(())?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (start < end).then_some((start, end))
}

fn open(path: &Path, process: &ProcessSample, machine: u64) -> Option<Found> {
    let file = open_tmpfs_file(path)?;
    let metadata = file.metadata().ok()?;
    let region = Region::open(file).ok()?;
    let identity = (metadata.dev(), metadata.ino());
    belongs(&region, process, machine).then(|| Found { owner: process.key, region, path: path.to_owned(), identity })
}

/// For the same user when the program closed all its files: what the kernel shows of its memory.
fn open_memory(directory: &Path, start: u64, end: u64, process: &ProcessSample, machine: u64) -> Option<Found> {
    let path = directory.join("mem");
    let region = Region::open_at(open_file(&path).ok()?, start, end - start).ok()?;
    let metadata = fs::metadata(&path).ok()?;
    let identity = (metadata.dev(), metadata.ino());
    belongs(&region, process, machine).then_some(Found { owner: process.key, region, path, identity })
}

/// A regular file on tmpfs, as memfds are. What it is is looked at before it is opened: another file system may not answer.
fn open_tmpfs_file(path: &Path) -> Option<File> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let is_regular = rustix::fs::fstatfs(&place).is_ok_and(|system| system.f_type == TMPFS_MAGIC)
        && rustix::fs::fstat(&place).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
    if !is_regular {
        return None;
    }
    open_file(&PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()))).ok()
}

/// The kernel's number of tmpfs, on which memfds live.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(path)
}

/// A forked child has its parent's ledger too; only the one that made it owns it. A simulated machine's ledgers are its own.
fn belongs(region: &Region, process: &ProcessSample, machine: u64) -> bool {
    let identity = region.identity();
    identity.pid == process.namespace_pid && identity.start_ticks == process.key.start_ticks && identity.machine == machine
}

/// What a ledger says now.
pub(crate) fn read(region: &Region, detail: Detail) -> Reading<Ledger> {
    let unreadable = |_| Missing::Unparsable;
    let (totals, entries, tags) = match detail {
        Detail::Totals => (region.totals().map_err(unreadable)?, Vec::new(), Vec::new()),
        Detail::Buffers => {
            let listing = region.list().map_err(unreadable)?;
            (listing.totals, listing.entries, listing.tags)
        }
    };
    let identity = region.identity();
    let buffers = entries.iter().filter_map(|entry| buffer(entry, &totals, &tags)).collect();
    Ok(Ledger {
        is_exact: totals.status & status::INEXACT == 0,
        is_changing: totals.exactness == Exactness::Changing,
        is_mock: identity.is_mock,
        visible_devices: match (&identity.visible_devices, identity.is_visible_cut) {
            (_, true) => VisibleDevices::Cut,
            (Some(text), false) => VisibleDevices::Only(text.clone()),
            (None, false) => VisibleDevices::All,
        },
        events: totals.events,
        allocators: totals.allocators.iter().map(allocator).collect(),
        buffers,
    })
}

fn allocator(allocator: &Allocator) -> LedgerAllocator {
    LedgerAllocator {
        slot: allocator.slot,
        generation: allocator.generation,
        is_open: allocator.is_open,
        mesh: allocator.mesh,
        given_id: allocator.given_id,
        chips: allocator.chips.iter().map(|chip: &Chip| LedgerChip { metal_id: chip.metal_id, unique_id: chip.unique_id }).collect(),
        rows: allocator.rows.iter().map(row).collect(),
    }
}

fn row(row: &Row) -> LedgerRow {
    LedgerRow {
        kind: buffer_kind(row.kind),
        used: row.used,
        allocated: row.geometry.as_ref().map(|_| row.allocated),
        count: row.count,
        peak: row.peak,
        peak_time: UnixTime(row.peak_time),
        unlisted_count: row.unlisted_count,
        unlisted_bytes: row.unlisted_bytes,
        capacity: row.geometry.as_ref().map(|geometry| u64::from(geometry.banks).saturating_mul(geometry.bank_bytes)),
    }
}

fn buffer(entry: &Entry, totals: &Totals, tags: &[String]) -> Option<LedgerBuffer> {
    let known = |value: u32| Some(u64::from(value)).filter(|value| *value > 0);
    Some(LedgerBuffer {
        allocator: totals.allocators.iter().position(|allocator| allocator.slot == entry.allocator)?,
        kind: buffer_kind(entry.kind),
        address: entry.address,
        size: entry.size,
        per_bank: known(entry.per_bank),
        page_size: known(entry.page),
        layout: match entry.layout {
            1 => Some("interleaved"),
            2 => Some("height_sharded"),
            3 => Some("width_sharded"),
            4 => Some("block_sharded"),
            _ => None,
        },
        cores: known(u32::from(entry.cores)),
        refs: u64::from(entry.refs),
        time: UnixTime(entry.time),
        tag: usize::try_from(entry.tag).ok().filter(|tag| *tag > 0).and_then(|tag| tags.get(tag).cloned()),
    })
}

/// The kind of a number in the ledger.
pub fn buffer_kind(number: u8) -> BufferKind {
    match number {
        kind::DRAM => BufferKind::Of(Kind::Dram),
        kind::L1 => BufferKind::Of(Kind::L1),
        kind::L1_SMALL => BufferKind::Of(Kind::L1Small),
        kind::TRACE => BufferKind::Of(Kind::Trace),
        kind::CB => BufferKind::Of(Kind::Cb),
        kind::KERNEL => BufferKind::Of(Kind::Kernel),
        kind::HOST => BufferKind::Host,
        _ => BufferKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert_eq!(parse_mapping(other), None, "{other}");
        }
        assert!(!names_ledger(Path::new("/tmp/memfd:ttmon-ledger")));
    }
}
