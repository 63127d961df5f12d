//! Makes a ledger: a memfd if the process may have one, as long as its limits allow, sealed once it is mapped.
//!
//! It runs inside another program, perhaps inside one of its constructors or signal handlers: no malloc, no
//! output, and each limit is asked for first, because exceeding RLIMIT_FSIZE kills.

use std::{
    mem::MaybeUninit,
    os::fd::RawFd,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::{
    layout::{self, Clock, header, status},
    tsc,
};

use super::{
    Config,
    books::{Books, FIGURES},
    circulars::Circulars,
    clock::{self, ClockChoice},
    identity::{self, Identity},
    index::Index,
    lock::Lock,
    memory::{self, Backing, PAGE, Region, Words, pair, position},
    shared::SHARING,
    slots::Overflow,
    stacks::Stacks,
    tags::Tags,
};

/// Descriptors of the program are low; one up here is seldom in the way of a `select` or of a loop that closes a few.
const DESCRIPTOR_MIN: libc::c_int = 500;
/// Of a limited address space the ledger takes at most this part.
const ADDRESS_SPACE_SHARE: u64 = 8;

/// The word of the header with both versions and its length.
pub(super) const VERSION: u64 = layout::VERSION_MAJOR as u64 | (layout::VERSION_MINOR as u64) << 16 | (layout::HEADER_BYTES as u64) << 32;

/// A new ledger, or `None` if the process has no room for one now.
pub(super) fn start(config: &Config, capacity_max: u32, under_way: &PendingStart) -> Option<NonNull<Books>> {
    let made = region(capacity_max, under_way)?;
    let books = fill(config, made);
    if books.is_none() {
        discard(made, under_way);
    }
    books
}

/// Gives back what was made in vain.
fn discard(made: Made, under_way: &PendingStart) {
    under_way.forget();
    // SAFETY: nobody else has it.
    unsafe { memory::unmap(made.start, made.bytes) };
    close_own(made.descriptor, made.inode);
}

/// A ledger that is being made, for a child that a fork makes meanwhile: the child has the descriptor and the mapping, but
/// not the thread that would finish it.
///
/// A fork copies descriptors before memory, so that the low number stays recorded when it is closed; the inode shows whether a
/// number means the ledger.
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

    /// What was made has an owner now, or is about to go. From here on a low number may be the program's own, of the same
    /// ledger even.
    pub(super) fn forget(&self) {
        self.start.store(ptr::null_mut(), Release);
        self.inode.store(0, Release);
    }

    /// In a forked child: lets go what the parent's start had made so far. Says whether there was anything.
    pub(super) fn release_parent(&self) -> bool {
        let inode = self.inode.swap(0, Acquire);
        let start = NonNull::new(self.start.swap(ptr::null_mut(), Acquire));
        if let Some(start) = start {
            // SAFETY: a mapping of ours that no other thread of this process knows.
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

fn fill(config: &Config, made: Made) -> Option<NonNull<Books>> {
    let clock = clock::pick(config.clock);
    let identity = Identity::of_this_process();
    // Without /proc it cannot say when it started, and no reader would take the ledger for its own.
    if identity.start_ticks == 0 {
        return None;
    }
    let region = Region { start: made.start, bytes: made.bytes, capacity: made.capacity, events: layout::EVENTS.records };
    let books = books_over(region, clock, identity.pid, (made.descriptor, made.inode))?;
    let mut bits = if made.is_sealed { 0 } else { status::UNSEALED };
    if config.clock == ClockChoice::Auto && clock == Clock::Monotonic {
        bits |= status::CLOCK_FALLBACK;
    }
    books.region.header(header::STATUS).store(bits, Relaxed);
    write_header(&books.region, config, clock, &identity);
    books.place()
}

/// Books of a region that is mapped, with an empty index.
pub(super) fn books_over(region: Region, clock: Clock, pid: libc::pid_t, (descriptor, inode): (RawFd, u64)) -> Option<Books> {
    let index = Index::reserve(region.capacity)?;
    let words = Words::reserve(FIGURES).map(|figures| (figures, Words::reserve(SHARING)));
    let (figures, sharing) = match words {
        Some((figures, Some(sharing))) => (figures, sharing),
        some => {
            // SAFETY: nobody has used them.
            unsafe {
                index.release();
                some.iter().for_each(|(figures, _)| figures.release());
            }
            return None;
        }
    };
    Some(Books {
        region,
        lock: Lock::new(),
        clock,
        pid,
        descriptor,
        inode,
        sharing,
        index,
        overflow: Overflow::new(),
        tags: Tags::new(),
        stacks: Stacks::new(),
        circulars: Circulars::new(),
        figures,
        dead: AtomicU64::new(0),
        sweep_cursor: AtomicU32::new(0),
        grave_cursor: AtomicU32::new(0),
        grave_rest: AtomicU32::new(0),
    })
}

pub(super) fn write_header(region: &Region, config: &Config, clock: Clock, identity: &Identity<'_>) {
    let set = |field, value| region.header(field).store(value, Relaxed);
    set(header::VERSION_MAJOR, VERSION);
    set(header::REGION_BYTES, region.bytes as u64);
    let events = layout::Table { records: region.events, ..layout::EVENTS };
    let tables = [layout::ALLOCATORS, layout::ROWS, layout::TAGS, layout::GRAVEYARD, events, layout::entries(region.capacity)];
    let more = [layout::CIRCULARS, layout::LAUNCHES, layout::COVERAGE, layout::FAILURES, layout::LEFT];
    let places = (header::TABLES..).step_by(16).take(tables.len()).chain((header::MORE_TABLES..).step_by(16));
    let places = places.take(tables.len() + more.len()).chain([header::SHARED_TABLE]).chain((header::STACK_TABLES..).step_by(16));
    let last = [layout::SHARED, layout::STACKS, layout::FRAMES, layout::CODES];
    for (table, at) in tables.iter().chain(&more).chain(&last).zip(places) {
        set(at, table.offset);
        set(at + 8, pair(table.records, table.stride));
    }
    set(header::PID, pair(identity.pid.unsigned_abs(), config.kind as u32));
    set(header::START_TICKS, identity.start_ticks);
    set(header::PID_NAMESPACE, identity.pid_namespace);
    set(header::MACHINE, config.machine);
    set(header::CLOCK, u64::from(clock as u32));
    set(header::CREATED_MONOTONIC, tsc::monotonic_ns());
    set(header::CREATED_REALTIME, tsc::realtime_ns());
    set(header::CREATED_CLOCK, clock::now(clock));
    identity.environment.write(region);
    region.set_header_text(header::VERSION_TEXT, header::VERSION_TEXT_BYTES, config.version.as_bytes());
    region.set_header_text(header::PROGRAM, header::PROGRAM_BYTES, identity.program());
    // Everything before it is there when the magic is: pairs with the reader's first pread.
    region.header(header::MAGIC).store(layout::MAGIC, Release);
}

fn bytes_for(capacity: u32) -> usize {
    position(layout::entries(capacity).end())
}

/// The capacity whose region is at most `bytes` long, down to the smallest.
fn capacity_within(capacity_max: u32, bytes: u64) -> Option<u32> {
    let mut capacity = capacity_max;
    while bytes_for(capacity) as u64 > bytes {
        if capacity <= layout::ENTRIES_MIN {
            return None;
        }
        capacity /= 2;
    }
    Some(capacity)
}

/// Only what others can find is a ledger: where there may be no memfd, or none long enough, there is none.
fn region(capacity_max: u32, under_way: &PendingStart) -> Option<Made> {
    // A closure, since the type of a limit's name differs between C libraries. No limit is RLIM_INFINITY.
    let limit = |resource| {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the kernel writes to the struct of ours.
        unsafe { libc::getrlimit(resource, &raw mut limit) };
        limit.rlim_cur
    };
    let space = limit(libc::RLIMIT_AS);
    let share = if space == libc::RLIM_INFINITY { space } else { space / ADDRESS_SPACE_SHARE };
    // A very small space may still hold the smallest region: mmap decides.
    let capacity = capacity_within(capacity_max, share).unwrap_or(layout::ENTRIES_MIN);
    let capacity = capacity_within(capacity, limit(libc::RLIMIT_FSIZE))?;
    file(descriptor(under_way)?, capacity, under_way)
}

/// Maps as much as there is room for, halving.
fn map_halving(capacity: u32, mut map: impl FnMut(usize) -> Option<NonNull<u8>>) -> Option<(NonNull<u8>, u32)> {
    let mut capacity = capacity;
    loop {
        if let Some(start) = map(bytes_for(capacity)) {
            return Some((start, capacity));
        }
        if capacity <= layout::ENTRIES_MIN {
            return None;
        }
        capacity /= 2;
    }
}

fn file(descriptor: RawFd, capacity: u32, under_way: &PendingStart) -> Option<Made> {
    // SAFETY: our own descriptor; lengths were compared with RLIMIT_FSIZE, so that no signal comes. Mode 0400: a user who may
    // look into this process must still not write.
    let mapped = map_halving(capacity, |bytes| unsafe {
        let length = libc::off_t::try_from(bytes).ok()?;
        let is_ready = libc::fchmod(descriptor, 0o400) == 0 && libc::ftruncate(descriptor, length) == 0;
        if !is_ready {
            return None;
        }
        // The place first, and noted: a fork finds no mapping that is not.
        let place = memory::map(bytes, Backing::Private)?;
        under_way.note_mapping(place, bytes);
        memory::map(bytes, Backing::File(descriptor, place))
    });
    let Some((start, capacity)) = mapped else {
        under_way.forget();
        // SAFETY: just created, and not yet shared.
        unsafe { libc::close(descriptor) };
        return None;
    };
    // Of its length, which who is handed the ledger asks for; and against writers, which kernels before 5.1 do not know.
    const LENGTH: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: our own descriptor, already mapped: FUTURE_WRITE leaves that mapping writable.
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

/// Asks for the first page now, where the answer is an error and not a signal.
fn populated(made: Made, under_way: &PendingStart) -> Option<Made> {
    // SAFETY: the first page of our own mapping.
    let result = unsafe { libc::madvise(made.start.as_ptr().cast(), PAGE, libc::MADV_POPULATE_WRITE) };
    if result == 0 || errno() == libc::EINVAL {
        return Some(made);
    }
    discard(made, under_way);
    None
}

/// A memfd, up high if the limit allows.
fn descriptor(under_way: &PendingStart) -> Option<RawFd> {
    const FLAGS: libc::c_uint = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let name = c"ttmon-ledger".as_ptr();
    // SAFETY: a C string that lives for ever. Kernels before 6.3 do not know NOEXEC_SEAL.
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
    // SAFETY: a descriptor of ours; the low one is closed only when there is the high one.
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
    // SAFETY: the kernel fills the struct, or says that it did not.
    unsafe { (libc::fstat(descriptor, stat.as_mut_ptr()) == 0).then(|| stat.assume_init().st_ino) }
}

/// Closes our descriptor, if its number still means our ledger: the program may have closed all it found.
pub(super) fn close_own(descriptor: RawFd, inode: u64) {
    if descriptor >= 0 && inode != 0 && inode_of(descriptor) == Some(inode) {
        // SAFETY: it is ours, as the inode says.
        unsafe { libc::close(descriptor) };
    }
}

/// A forked child lets its parent's ledger go: private memory takes its place, so that an event which the fork interrupted
/// ends harmlessly, and the parent's pages are not kept alive.
pub(super) fn release_parent(parent: &Books) {
    // SAFETY: exactly the range that the parent's ledger has in this child, which nobody but the parent's books knows.
    unsafe { make_private(parent.region.start, parent.region.bytes) };
    close_own(parent.descriptor, parent.inode);
}

/// Puts zeroed private memory in the place of a mapping.
///
/// # Safety
/// The range is a mapping of ours.
unsafe fn make_private(start: NonNull<u8>, bytes: usize) {
    let start = start.as_ptr();
    const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller's promise; same length and access afterwards, so references into it stay good. Inaccessible first:
    // see `memory::map`.
    unsafe {
        if libc::mmap(start.cast(), bytes, libc::PROT_NONE, FLAGS, -1, 0) != libc::MAP_FAILED {
            libc::munlock(start.cast(), bytes);
            libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE);
        }
    }
}

fn errno() -> libc::c_int {
    identity::errno()
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
