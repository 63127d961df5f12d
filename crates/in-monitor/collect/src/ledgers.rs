//! Finds the ledgers of processes, checks their owners, and reads them.
//!
//! A ledger is a memfd that its process has mapped. The process also has it open, unless it closed all its files. Root and the same user
//! may read it. Other users get `no_permission`, which means that there may be a ledger.

mod free_blocks;
mod lead;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, StatxFlags};
use rustix::process::geteuid;

use ttmon_ledger::layout::{Coverage, KINDS, WriterKind, flag, kind, origin, status};
use ttmon_ledger_reader::{
    Allocator, Chip, Circular, Entry, Exactness, Feature, Live, ReadError, Region, Row, SelfCheck, SharedChip, SharedPeak, Totals,
};
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::{
    BufferKind, BufferLayout, FeatureState, Ledger, LedgerAllocator, LedgerBuffer, LedgerChip, LedgerCircular, LedgerFeature,
    LedgerGeometry, LedgerLaunches, LedgerRow, LedgerSelfCheck, LedgerShared, LedgerSharedPeak, LedgerWriter, VisibleDevices,
};
use ttmon_model::order::{BufferOrder, FirstBuffers};
use ttmon_model::sample::ProcessSample;
use ttmon_model::units::UnixTime;
use ttmon_model::{KernelType, KernelTypes, KernelUse, Kind, Missing, PerKind, Reading, Source};

use crate::Lines;
use crate::budget::{Budget, Resource};

pub(crate) use free_blocks::FreeBlocks;
pub(crate) use lead::{Lead, maps_request, names_ledger};

/// How much of a ledger is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Allocators and their totals.
    Totals,
    /// Totals and every live buffer.
    Buffers,
    /// Totals, every live buffer, and the tables of blocks.
    Blocks,
    /// Totals and the first buffers of each allocator in this order, at most this many.
    First(BufferOrder, usize),
}

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
pub fn read(found: &OpenLedger, detail: Detail, budget: &mut Budget) -> Reading<Ledger> {
    read_granted(&found.region, detail, &mut |resource, amount| budget.take_or_cut(resource, amount, found.uid))
}

/// Returns whether a list of this length may be read.
type Granted<'a> = &'a mut dyn FnMut(Resource, u64) -> bool;

fn read_granted(region: &Region, detail: Detail, granted: Granted<'_>) -> Reading<Ledger> {
    let counted = region.totals_if(|entries| granted(Resource::Buffers, entries)).map_err(|_| Missing::Unparsable)?;
    let Some(totals) = counted else { return Err(Missing::NotTracked) };
    let chips: usize = totals.allocators.iter().map(|allocator| allocator.chips.len()).sum();
    if !granted(Resource::Allocators, totals.allocators.len() as u64) || !granted(Resource::Chips, chips as u64) {
        return Err(Missing::NotTracked);
    }
    // All buffers are needed to compare those on shared chips.
    let wanted = match detail {
        Detail::Totals if totals.live_entries <= COMPARED_MAX && shares_chips(&totals) => Some(Detail::Blocks),
        Detail::Totals => None,
        Detail::First(..) if shares_chips(&totals) => Some(Detail::Buffers),
        Detail::Buffers | Detail::Blocks | Detail::First(..) => Some(detail),
    };
    if (wanted.is_none() && !has_kernels(&totals)) || !granted(Resource::Buffers, totals.live_entries) {
        return ledger(region, &totals, granted);
    }
    let Live { totals, entries, tags } = match region.live(listed_most(totals.live_entries)) {
        Ok(live) => live,
        Err(ReadError::TooMany) => {
            // A ledger that lists more than it counts exceeds any limit.
            granted(Resource::Buffers, u64::MAX);
            return ledger(region, &totals, granted);
        }
        Err(_) => return Err(Missing::Unparsable),
    };
    let kernels = kernel_types(&totals, &entries);
    let mut ledger = ledger(region, &totals, granted)?;
    for allocator in &mut ledger.allocators {
        for row in allocator.rows.iter_mut().filter(|row| row.kind == BufferKind::Of(Kind::Kernel)) {
            row.kernel_types = kernels.get(&allocator.slot).cloned();
        }
    }
    if let Some(detail) = wanted {
        // Lines that cannot be read are treated as missing.
        let lines = if totals.stacks.0 > 0 { Lines::read(region).unwrap_or_default() } else { Lines::default() };
        add_buffers(&mut ledger, &totals, detail, (entries, tags), &lines);
    }
    Ok(ledger)
}

/// A buffer fits into the memory of its entry, so a million buffers are collected in place.
const _: () = assert!(size_of::<LedgerBuffer>() <= size_of::<Entry>());

/// Adds the wanted buffers, and the figures of each row that need the list.
fn add_buffers(ledger: &mut Ledger, totals: &Totals, detail: Detail, (entries, tags): (Vec<Entry>, Vec<String>), lines: &Lines) {
    let places = places(totals);
    let tags: Vec<Arc<String>> = tags.into_iter().map(Arc::new).collect();
    // By allocator and kind: whether any buffer is per core, and whether the bytes per bank of any other buffer are unknown.
    let mut seen = vec![[(false, false); KINDS as usize]; ledger.allocators.len()];
    let buffers = entries.into_iter().filter_map(|entry| {
        let buffer = buffer(&entry, &places, &tags, lines)?;
        let seen = seen.get_mut(usize::from(buffer.allocator))?.get_mut(usize::from(entry.kind))?;
        seen.0 |= buffer.is_per_core;
        seen.1 |= !buffer.is_per_core && buffer.per_bank.is_none();
        Some(buffer)
    });
    match detail {
        Detail::First(order, most) => {
            let mut first: Vec<FirstBuffers> = ledger.allocators.iter().map(|_| FirstBuffers::new(order, most)).collect();
            buffers.for_each(|buffer| first[usize::from(buffer.allocator)].add(buffer));
            for (allocator, first) in ledger.allocators.iter_mut().zip(first) {
                let (kept, left_out) = first.finish();
                ledger.buffers.extend(kept);
                allocator.buffers_left_out = left_out;
            }
        }
        Detail::Buffers | Detail::Blocks | Detail::Totals => {
            ledger.buffers = buffers.collect();
            ledger.is_listed = true;
            ledger.has_blocks = detail == Detail::Blocks;
        }
    }
    for (allocator, seen) in ledger.allocators.iter_mut().zip(seen) {
        for (number, seen) in (0..).zip(seen) {
            for row in allocator.rows.iter_mut().filter(|row| row.kind == buffer_kind(number)) {
                (row.has_per_core, row.has_unknown_blocks) = seen;
            }
        }
    }
}

/// Returns the maximum number of entries that are listed if the ledger counted `counted`. The ledger may have grown meanwhile.
fn listed_most(counted: u64) -> u64 {
    counted.saturating_add(counted / 8).saturating_add(4096)
}

/// Returns whether the ledger has kernels. Only the list shows their types.
fn has_kernels(totals: &Totals) -> bool {
    let has_some = |allocator: &Allocator| allocator.rows.iter().any(|row| row.kind == kind::KERNEL && row.count > 0);
    totals.live_entries <= COMPARED_MAX && totals.allocators.iter().any(|allocator| allocator.is_open && has_some(allocator))
}

/// Returns the number of live kernels of each allocator by type. Returns nothing if some kernels are not in the list.
fn kernel_types(totals: &Totals, entries: &[Entry]) -> HashMap<u16, Box<KernelTypes>> {
    let mut types: HashMap<u16, Box<KernelTypes>> = HashMap::new();
    let is_unlisted = |row: &Row| row.kind == kind::KERNEL && row.unlisted_count > 0;
    let is_partial = totals.allocators.iter().any(|allocator| allocator.rows.iter().any(is_unlisted));
    if is_partial || totals.exactness == Exactness::Changing {
        return types;
    }
    for entry in entries {
        if let Some(kernel_type) = kernel_type(entry) {
            types.entry(entry.allocator).or_default().add(kernel_type, KernelUse { used: entry.size, count: 1 });
        }
    }
    types
}

/// Returns the type of a kernel, or `None` for an entry of another kind.
pub fn kernel_type(entry: &Entry) -> Option<KernelType> {
    let number = ttmon_ledger::report::kernel_type(entry.flags);
    (entry.kind == kind::KERNEL).then(|| KernelType::from_number(number))
}

/// Returns a ledger without its buffers, from totals that were already read.
pub fn without_buffers(region: &Region, totals: &Totals) -> Reading<Ledger> {
    ledger(region, totals, &mut |_, _| true)
}

fn ledger(region: &Region, totals: &Totals, granted: Granted<'_>) -> Reading<Ledger> {
    let has_circulars = totals.circulars_used == 0 || granted(Resource::Circulars, totals.circulars_used.into());
    let circulars = if has_circulars { region.circulars(totals).map_err(|_| Missing::Unparsable)? } else { Vec::new() };
    let environment = &totals.environment;
    let places = places(totals);
    Ok(Ledger {
        is_exact: totals.status & status::INEXACT == 0,
        is_changing: totals.exactness == Exactness::Changing,
        is_listed: false,
        has_blocks: false,
        writer: region.identity().writer.map_or(LedgerWriter::Unknown, writer),
        is_mock: environment.is_mock,
        visible_devices: match (&environment.visible_devices, environment.is_visible_cut) {
            (_, true) => VisibleDevices::Cut,
            (Some(text), false) => VisibleDevices::Only(text.clone()),
            (None, false) => VisibleDevices::All,
        },
        events: totals.events,
        allocators: totals.allocators.iter().map(allocator).collect(),
        shared: totals.shared.iter().map(shared).collect(),
        buffers: Vec::new(),
        circulars: circulars.iter().filter_map(|one| circular(one, &places)).collect(),
        has_circulars,
        launches: totals
            .launches
            .iter()
            .map(|chip| LedgerLaunches { metal_id: chip.metal_id, programs: chip.programs, last: UnixTime(chip.last_time) })
            .collect(),
        coverage: totals.coverage.iter().map(feature).collect(),
    })
}

/// Returns whether two allocators have buffers on the same chip. Such buffers may overlap.
fn shares_chips(totals: &Totals) -> bool {
    let holds = |allocator: &&Allocator| allocator.is_open && allocator.rows.iter().any(|row| row.count > 0 && row.geometry.is_some());
    let holders: Vec<&Allocator> = totals.allocators.iter().filter(holds).collect();
    // The first allocator with each chip.
    let mut seen: HashMap<(Option<u32>, Option<u64>), u16> = HashMap::new();
    let mut is_shared = |slot: u16, chip: &Chip| *seen.entry((chip.metal_id, chip.unique_id)).or_insert(slot) != slot;
    holders.len() > 1 && holders.iter().any(|allocator| allocator.chips.iter().any(|chip| is_shared(allocator.slot, chip)))
}

/// The index of each slot among the allocators.
type Places = [Option<usize>; 256];

fn places(totals: &Totals) -> Places {
    let mut places = [None; 256];
    for (index, allocator) in totals.allocators.iter().enumerate() {
        if let Some(place) = places.get_mut(usize::from(allocator.slot)) {
            *place = Some(index);
        }
    }
    places
}

fn writer(kind: WriterKind) -> LedgerWriter {
    match kind {
        WriterKind::Client => LedgerWriter::Client,
        WriterKind::Hook => LedgerWriter::Hook,
        WriterKind::Service => LedgerWriter::Service,
    }
}

fn feature(feature: &Feature) -> LedgerFeature {
    LedgerFeature {
        name: feature.name.clone(),
        hits: feature.hits,
        state: match feature.state {
            Coverage::Found => FeatureState::Found,
            Coverage::SteppedAside => FeatureState::SteppedAside,
            Coverage::Missing => FeatureState::Missing,
        },
        reason: Some(feature.reason.clone()).filter(|reason| !reason.is_empty()),
    }
}

fn allocator(allocator: &Allocator) -> LedgerAllocator {
    LedgerAllocator {
        slot: allocator.slot,
        generation: allocator.generation,
        is_open: allocator.is_open,
        mesh: allocator.mesh,
        given_id: allocator.given_id,
        origin: origin(allocator.origin),
        chips: allocator.chips.iter().map(|chip: &Chip| LedgerChip { metal_id: chip.metal_id, unique_id: chip.unique_id }).collect(),
        geometry: PerKind::from_fn(|kind| {
            let geometry = allocator.geometry.get(kind as usize).copied().flatten()?;
            Some(LedgerGeometry { banks: u64::from(geometry.banks), bank_bytes: geometry.bank_bytes, base: geometry.base })
        }),
        self_check: self_check(allocator.self_check),
        rows: allocator.rows.iter().map(row).collect(),
        buffers_left_out: 0,
    }
}

fn origin(number: u32) -> LedgerWriter {
    match number {
        origin::CLIENT => LedgerWriter::Client,
        origin::HOOK => LedgerWriter::Hook,
        origin::SOCKET => LedgerWriter::Service,
        _ => LedgerWriter::Unknown,
    }
}

fn shared(chip: &SharedChip) -> LedgerShared {
    let peak = |kind: Kind| {
        // A kind without a shared peak has none.
        let SharedPeak { used, time, allocated, .. } = chip.peaks.get(kind as usize).copied().unwrap_or_default();
        LedgerSharedPeak { used, time: UnixTime(time), allocated }
    };
    LedgerShared { metal_id: chip.metal_id, origin: origin(chip.origin), peaks: PerKind::from_fn(peak) }
}

fn self_check(check: SelfCheck) -> LedgerSelfCheck {
    let SelfCheck { is_inexact, is_restored, is_per_core, l1_lower_end, checks, differences } = check;
    LedgerSelfCheck { is_inexact, is_restored, is_per_core, l1_lower_end, checks, differences }
}

fn row(row: &Row) -> LedgerRow {
    LedgerRow {
        used: row.used,
        allocated: row.geometry.as_ref().map(|_| row.allocated),
        count: row.count,
        refused: row.failed,
        peak: row.peak,
        peak_time: UnixTime(row.peak_time),
        unlisted_count: row.unlisted_count,
        unlisted_bytes: row.unlisted_bytes,
        capacity: row.geometry.as_ref().map(|geometry| u64::from(geometry.banks).saturating_mul(geometry.bank_bytes)),
        ..LedgerRow::empty(buffer_kind(row.kind))
    }
}

fn circular(circular: &Circular, places: &Places) -> Option<LedgerCircular> {
    Some(LedgerCircular {
        allocator: (*places.get(usize::from(circular.allocator))?)?,
        chip: circular.chip.map(usize::from),
        program: circular.program,
        address: u64::from(circular.address),
        size: u64::from(circular.size),
        cores: circular.cores,
        is_global: circular.is_global,
    })
}

fn buffer(entry: &Entry, places: &Places, tags: &[Arc<String>], lines: &Lines) -> Option<LedgerBuffer> {
    Some(LedgerBuffer {
        allocator: u16::try_from((*places.get(usize::from(entry.allocator))?)?).ok()?,
        kind: buffer_kind(entry.kind),
        address: entry.address,
        size: entry.size,
        per_bank: NonZeroU32::new(entry.per_bank),
        page_size: NonZeroU32::new(entry.page),
        layout: BufferLayout::from_number(entry.layout),
        cores: NonZeroU32::new(entry.cores.into()),
        refs: entry.refs,
        time: UnixTime(entry.time),
        tag: tag(tags, entry.tag).cloned(),
        operation: tag(tags, entry.operation).cloned(),
        stack: lines.stack(entry.stack).cloned(),
        is_per_core: entry.flags & flag::PER_CORE != 0,
        kernel_type: kernel_type(entry),
    })
}

/// Returns the text of a tag by its number in the ledger. Number 0 means no tag.
pub fn tag<T>(tags: &[T], number: u32) -> Option<&T> {
    usize::try_from(number).ok().filter(|number| *number > 0).and_then(|number| tags.get(number))
}

/// Returns the kind for a number in the ledger.
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
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::thread;
    use std::time::Duration;

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use ttmon_ledger::layout::header;
    use ttmon_ledger::writer::{ClockChoice, Config, Writer};
    use ttmon_model::sample::{ProcessFacts, Workload};

    use super::lead::parse_mapping;
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
            Lead::Mapping(start, end).open(&Root::at(directory.path()), &process, 0).is_some()
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
        let read = read_granted(&region, Detail::Totals, &mut |resource, _| {
            asked.push(resource);
            false
        });
        assert_eq!((read.err(), asked.as_slice()), (Some(Missing::NotTracked), &[Resource::Buffers][..]));
        assert!(read_granted(&region, Detail::Totals, &mut |_, _| true).is_ok());
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
        assert_eq!(Lead::among(files), Lead::Files(vec![thread.join("5")]));
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
