//! Creates a ledger: a memfd if the process may have one, as long as its limits allow, sealed once it is mapped.
//!
//! The code runs inside another program, perhaps in a constructor or signal handler. It uses no malloc and prints nothing. It checks each
//! limit first, because exceeding RLIMIT_FSIZE kills the process.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::{iter, process};

use crate::layout::{self, Clock, header, status};
use crate::tsc;

use super::Config;
use super::allocators::FIGURES;
use super::circulars::Circulars;
use super::clock::{self, ClockChoice};
use super::environment::Environment;
use super::identity::{self, errno};
use super::index::Index;
use super::lock::Lock;
use super::memory::{self, Backing, Lazy, Mapped, PAGE, Region, pair, position};
use super::shared::SHARING;
use super::slots::Overflow;
use super::stacks::Stacks;
use super::state::WriterState;

/// Minimum number of the ledger's descriptor. A program's descriptors are low; a high one rarely disturbs `select` or a loop that closes
/// descriptors.
const DESCRIPTOR_MIN: libc::c_int = 500;
/// The ledger uses at most 1/8 of a limited address space.
const ADDRESS_SPACE_SHARE: u64 = 8;

/// The header word with both versions and the header's length.
pub(super) const VERSION: u64 = layout::VERSION_MAJOR as u64 | (layout::VERSION_MINOR as u64) << 16 | (layout::HEADER_BYTES as u64) << 32;

/// Creates a ledger; `None` if the process has no room for one now.
pub(super) fn start(config: &Config, capacity_max: u32, under_way: &PendingStart) -> Option<NonNull<WriterState>> {
    let made = region(capacity_max, under_way)?;
    let state = fill(config, made);
    if state.is_none() {
        discard(made, under_way);
    }
    state
}

/// Releases a region that could not be completed.
fn discard(made: Made, under_way: &PendingStart) {
    under_way.forget();
    // SAFETY: no other thread has it.
    unsafe { memory::unmap(made.start, made.bytes) };
    close_own(made.descriptor, made.inode);
}

/// A ledger that is being created. A child that is forked meanwhile has the descriptor and the mapping, but not the thread that would
/// complete it.
///
/// A fork copies descriptors before memory, so the low number stays recorded after it is closed. The inode shows whether a number refers to
/// the ledger.
#[derive(Debug)]
pub(super) struct PendingStart {
    low: AtomicI32,
    high: AtomicI32,
    inode: AtomicU64,
    start: AtomicPtr<u8>,
    bytes: AtomicUsize,
}

impl PendingStart {
    pub(super) const fn new() -> Self {
        Self {
            low: AtomicI32::new(-1),
            high: AtomicI32::new(-1),
            inode: AtomicU64::new(0),
            start: AtomicPtr::new(ptr::null_mut()),
            bytes: AtomicUsize::new(0),
        }
    }

    fn note_descriptor(&self, low: RawFd) {
        self.low.store(low, Relaxed);
        self.high.store(-1, Relaxed);
        self.inode.store(inode_of(low).unwrap_or(0), Release);
    }

    fn note_mapping(&self, start: NonNull<u8>, bytes: usize) {
        self.bytes.store(bytes, Relaxed);
        self.start.store(start.as_ptr(), Release);
    }

    /// Called when the region has an owner or is about to be released. From now on, a low number may belong to the program, even for the
    /// same ledger.
    pub(super) fn forget(&self) {
        self.start.store(ptr::null_mut(), Release);
        self.inode.store(0, Release);
    }

    /// In a forked child, releases what the parent's start had created so far. Returns whether there was anything.
    pub(super) fn release_parent(&self) -> bool {
        let inode = self.inode.swap(0, Acquire);
        let start = NonNull::new(self.start.swap(ptr::null_mut(), Acquire));
        if let Some(start) = start {
            // SAFETY: our own mapping, which no other thread of this process knows.
            unsafe { make_private(start, self.bytes.load(Relaxed)) };
        }
        close_own(self.low.swap(-1, Relaxed), inode);
        close_own(self.high.swap(-1, Relaxed), inode);
        start.is_some() || inode != 0
    }
}

#[derive(Clone, Copy)]
struct Made {
    start: NonNull<u8>,
    bytes: usize,
    capacity: u32,
    descriptor: RawFd,
    inode: u64,
    is_sealed: bool,
}

fn fill(config: &Config, made: Made) -> Option<NonNull<WriterState>> {
    let clock = clock::pick(config.clock);
    let start_ticks = identity::start_ticks();
    // Without /proc the start time is unknown, and no reader would accept the ledger.
    if start_ticks == 0 {
        return None;
    }
    let region = Region { start: made.start, bytes: made.bytes, capacity: made.capacity, events: layout::EVENTS.records };
    let state = state_over(region, clock, (made.descriptor, made.inode))?;
    let mut bits = if made.is_sealed { 0 } else { status::UNSEALED };
    if config.clock == ClockChoice::Auto && clock == Clock::Monotonic {
        bits |= status::CLOCK_FALLBACK;
    }
    state.region.header(header::STATUS).store(bits, Relaxed);
    let program = &mut [0; 256];
    write_header(&state.region, config, clock, start_ticks, &Environment::of_this_process(), identity::program(program));
    state.place()
}

/// Creates the state of a mapped region, with an empty index.
pub(super) fn state_over(region: Region, clock: Clock, (descriptor, inode): (RawFd, u64)) -> Option<WriterState> {
    Some(WriterState {
        index: Index::reserve(region.capacity)?,
        figures: Mapped::reserve(FIGURES)?,
        sharing: Mapped::reserve(SHARING)?,
        region,
        lock: Lock::new(),
        clock,
        pid: process::id(),
        descriptor,
        inode,
        overflow: Overflow::new(),
        tags: Lazy::new(),
        stacks: Stacks::new(),
        circulars: Circulars::new(),
        dead: AtomicU64::new(0),
        sweep_cursor: AtomicU32::new(0),
        peak_copy_cursor: AtomicU32::new(0),
        peak_copy_rest: AtomicU32::new(0),
    })
}

pub(super) fn write_header(
    region: &Region,
    config: &Config,
    clock: Clock,
    start_ticks: u64,
    environment: &Environment<'_>,
    program: &[u8],
) {
    let set = |field, value| region.header(field).store(value, Relaxed);
    set(header::VERSION_MAJOR, VERSION);
    set(header::REGION_BYTES, region.bytes as u64);
    for (at, table) in layout::TABLES {
        let records = match at {
            header::EVENT_TABLE => region.events,
            header::ENTRY_TABLE => region.capacity,
            _ => table.records,
        };
        set(at, table.offset);
        set(at + 8, pair(records, table.stride));
    }
    set(header::PID, pair(process::id(), config.kind as u32));
    set(header::START_TICKS, start_ticks);
    set(header::PID_NAMESPACE, identity::pid_namespace());
    set(header::MACHINE, config.machine);
    set(header::CLOCK, u64::from(clock as u32));
    set(header::CREATED_MONOTONIC, tsc::monotonic_ns());
    set(header::CREATED_REALTIME, tsc::realtime_ns());
    set(header::CREATED_CLOCK, clock::now(clock));
    environment.write(region);
    let text = |field, bytes_max, text| region.set_text(layout::HEADER, 0, field, bytes_max, text);
    text(header::VERSION_TEXT, header::VERSION_TEXT_BYTES, config.version.as_bytes());
    text(header::PROGRAM, header::PROGRAM_BYTES, program);
    // The magic is stored last: everything before it is visible then. Pairs with the reader's first `pread`.
    region.header(header::MAGIC).store(layout::MAGIC, Release);
}

fn bytes_for(capacity: u32) -> usize {
    position(layout::entries(capacity).end())
}

/// Returns the largest capacity, at most `capacity_max`, with a region of at most `bytes`; `None` if even the smallest is longer.
fn capacity_within(capacity_max: u32, bytes: u64) -> Option<u32> {
    halved(capacity_max).find(|capacity| bytes_for(*capacity) as u64 <= bytes)
}

/// A capacity, its half and so on, down to the smallest.
fn halved(capacity: u32) -> impl Iterator<Item = u32> {
    iter::successors(Some(capacity), |capacity| (*capacity > layout::ENTRIES_MIN).then_some(capacity / 2))
}

/// Creates the region. Only a memfd can be found by other processes, so without one that is long enough there is no ledger.
fn region(capacity_max: u32, under_way: &PendingStart) -> Option<Made> {
    // A closure, because the type of a limit's name differs between C libraries. RLIM_INFINITY means no limit.
    let limit = |resource| {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the kernel writes to a local struct.
        unsafe { libc::getrlimit(resource, &raw mut limit) };
        limit.rlim_cur
    };
    let space = limit(libc::RLIMIT_AS);
    let share = if space == libc::RLIM_INFINITY { space } else { space / ADDRESS_SPACE_SHARE };
    // A very small address space may still have room for the smallest region; mmap decides.
    let capacity = capacity_within(capacity_max, share).unwrap_or(layout::ENTRIES_MIN);
    let capacity = capacity_within(capacity, limit(libc::RLIMIT_FSIZE))?;
    file(descriptor(under_way)?, capacity, under_way)
}

fn file(descriptor: RawFd, capacity: u32, under_way: &PendingStart) -> Option<Made> {
    // SAFETY: our own descriptor. The length was compared with RLIMIT_FSIZE, so there is no signal. Mode 0400: a user who may inspect this
    // process must still not write.
    let map = |bytes: usize| unsafe {
        let length = libc::off_t::try_from(bytes).ok()?;
        let is_ready = libc::fchmod(descriptor, 0o400) == 0 && libc::ftruncate(descriptor, length) == 0;
        if !is_ready {
            return None;
        }
        // The address range is mapped and recorded first, so that a fork finds every mapping.
        let place = memory::map(bytes, Backing::Private)?;
        under_way.note_mapping(place, bytes);
        memory::map(bytes, Backing::File(descriptor, place))
    };
    let Some((start, capacity)) = halved(capacity).find_map(|capacity| Some((map(bytes_for(capacity))?, capacity))) else {
        under_way.forget();
        // SAFETY: just created, and not yet shared.
        unsafe { libc::close(descriptor) };
        return None;
    };
    // Seals for the length, which the receiver of a handed-over ledger requires. The seal against writers is unknown to kernels before 5.1.
    const LENGTH: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: our own descriptor, already mapped. FUTURE_WRITE leaves this mapping writable.
    let is_sealed = unsafe {
        let is_sealed = libc::fcntl(descriptor, libc::F_ADD_SEALS, LENGTH | libc::F_SEAL_FUTURE_WRITE) == 0;
        if !is_sealed {
            libc::fcntl(descriptor, libc::F_ADD_SEALS, LENGTH);
        }
        is_sealed
    };
    let inode = inode_of(descriptor).unwrap_or(0);
    populated(Made { start, bytes: bytes_for(capacity), capacity, descriptor, inode, is_sealed }, under_way)
}

/// Allocates the first page now, where a failure is an error and not a signal.
fn populated(made: Made, under_way: &PendingStart) -> Option<Made> {
    // SAFETY: the first page of our own mapping.
    let result = unsafe { libc::madvise(made.start.as_ptr().cast(), PAGE, libc::MADV_POPULATE_WRITE) };
    if result == 0 || errno() == libc::EINVAL {
        return Some(made);
    }
    discard(made, under_way);
    None
}

/// Creates a memfd, with a high number if the limit allows.
fn descriptor(under_way: &PendingStart) -> Option<RawFd> {
    const FLAGS: libc::c_uint = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let name = c"ttmon-ledger".as_ptr();
    // SAFETY: a static C string. Kernels before 6.3 do not support NOEXEC_SEAL.
    let low = unsafe {
        match libc::memfd_create(name, FLAGS | libc::MFD_NOEXEC_SEAL) {
            -1 if errno() == libc::EINVAL => libc::memfd_create(name, FLAGS),
            result => result,
        }
    };
    if low < 0 {
        return None;
    }
    under_way.note_descriptor(low);
    // SAFETY: our own descriptor. The low one is closed only when the high one exists.
    unsafe {
        let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, DESCRIPTOR_MIN);
        if high < 0 {
            return Some(low);
        }
        under_way.high.store(high, Release);
        libc::close(low);
        Some(high)
    }
}

fn inode_of(descriptor: RawFd) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills the struct, or reports an error.
    unsafe { (libc::fstat(descriptor, stat.as_mut_ptr()) == 0).then(|| stat.assume_init().st_ino) }
}

/// Closes our descriptor, if its number still refers to our ledger. The program may have closed all descriptors.
pub(super) fn close_own(descriptor: RawFd, inode: u64) {
    if descriptor >= 0 && inode != 0 && inode_of(descriptor) == Some(inode) {
        // SAFETY: the inode shows that it is ours.
        unsafe { libc::close(descriptor) };
    }
}

/// Releases the parent's ledger in a forked child. Private memory replaces the mapping. An event that the fork interrupted then ends
/// without effect, and the parent's pages are not kept in memory.
pub(super) fn release_parent(parent: &WriterState) {
    // SAFETY: exactly the range of the parent's ledger in this child, which only the parent's state refers to.
    unsafe { make_private(parent.region.start, parent.region.bytes) };
    close_own(parent.descriptor, parent.inode);
}

/// Replaces a mapping with zeroed private memory.
///
/// # Safety
/// The range is our own mapping.
unsafe fn make_private(start: NonNull<u8>, bytes: usize) {
    let start = start.as_ptr();
    const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller guarantees this. Length and access are the same afterwards, so references stay valid. It is inaccessible at first;
    // see `memory::map`.
    unsafe {
        if libc::mmap(start.cast(), bytes, libc::PROT_NONE, FLAGS, -1, 0) != libc::MAP_FAILED {
            libc::munlock(start.cast(), bytes);
            libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_is_halved_until_it_fits() {
        assert_eq!(capacity_within(1 << 20, u64::MAX), Some(1 << 20));
        assert_eq!(capacity_within(1 << 20, 0x4FE_8FFF), Some(1 << 19));
        assert_eq!(capacity_within(1 << 20, 0xFE_9000 + 64 * 1024), Some(1 << 10));
        assert_eq!(capacity_within(1 << 20, 0xFE_9000), None);
    }
}
