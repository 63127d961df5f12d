//! A ledger in a file, written by the service for a process that reports over its socket.
//!
//! The bytes and the order of stores are those of a process's own ledger. So the ledger is exact after the service was killed, and the next
//! service [takes it over](Hosted::adopt). docs/ledger.md lists the differences. Two decide the code. First, a store to a page that a full
//! tmpfs cannot provide raises a signal that ends the service. So memory is [allocated](Hosted::make_room) before it is used, where a
//! failure is an error. Second, no buffer is unlisted: private memory would be lost with the service, so the caller stops at the capacity.
//!
//! If another process truncates the file while it is mapped, this process is killed. The caller must protect the file from others.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::{fmt, io, process};

use crate::layout::{self, ALLOCATORS, Clock, KINDS, Lost, PEAK_COPIES, ROWS, TAGS, Table, allocator, header, row};

use super::environment::{Environment, VisibleDevicesVariable};
use super::lock::LockState;
use super::memory::{self, Backing, PAGE, Region, low, pair, position};
use super::state::WriterState;
use super::{AllocatorId, AllocatorSpec, Config, Session, clock, identity, start};

/// The process that a ledger is written for.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The pid, as the service sees it.
    pub pid: u32,
    /// The start time, field 22 of its stat.
    pub start_ticks: u64,
    /// The name of the program.
    pub program: &'a [u8],
    /// The devices that the process sees.
    pub seen: VisibleDevicesVariable<'a>,
    /// Whether its chips are mock or simulated by TT-Metal.
    pub is_mock: bool,
}

/// The writer of one ledger in a file. Only one thread uses it at a time.
pub struct Hosted {
    state: NonNull<WriterState>,
    file: File,
    room: BackedRecords,
}

/// Number of records of each table with allocated memory. Recorder and peak copies are allocated completely.
#[derive(Clone, Copy, Debug, Default)]
struct BackedRecords {
    entries: u32,
    allocators: u32,
    tags: u32,
}

// SAFETY: the state is in separate memory that belongs to no thread. Every field is atomic or never changes. The lock is not held between
// two calls, because a session borrows the writer.
unsafe impl Send for Hosted {}

/// A shorter flight recorder than in a process's own ledger, where it would be a quarter of a ledger with 100,000 entries.
const EVENTS: Table = Table { records: 16_384, ..layout::EVENTS };
/// Number of records that are allocated together at first. Later it is the number of existing records, up to [`STEP_MAX`].
const STEP_MIN: u32 = 1024;
const STEP_MAX: u32 = 16_384;

impl Hosted {
    /// Creates a ledger in an empty file. `config` has the machine and the version.
    pub fn create(file: File, config: &Config, owner: &Owner<'_>) -> io::Result<Self> {
        let capacity = layout::ENTRIES_MAX;
        let bytes = position(layout::entries(capacity).end());
        file.set_len(bytes as u64)?;
        let region = map(&file, bytes, capacity)?;
        let clock = clock::pick(config.clock);
        let hosted = Self::over(file, region, clock)?;
        hosted.populate_always()?;
        let environment = Environment { seen: owner.seen, is_mock: owner.is_mock };
        let state = hosted.state();
        let set = |field, value| state.region.header(field).store(value, Relaxed);
        start::write_header(&state.region, config, clock, identity::start_ticks(), &environment, owner.program);
        set(header::CLOCK, pair(clock as u32, owner.pid));
        set(header::OWNER_START_TICKS, owner.start_ticks);
        Ok(hosted)
    }

    /// Takes over the ledger of an ended service. Its incomplete event is completed or undone, and the figures are counted again from the
    /// entries. If the service was killed while it replaced a buffer, both may be missing. A file that this version would not have written
    /// is rejected.
    pub fn adopt(file: File, config: &Config) -> io::Result<Self> {
        let (capacity, clock) = check(&file, config)?;
        let region = map(&file, position(layout::entries(capacity).end()), capacity)?;
        let mut hosted = Self::over(file, region, clock)?;
        hosted.populate_always()?;
        let used = |field| low(hosted.state().region.header(field).load(Relaxed));
        let (entries, tags) = (used(header::ENTRIES_USED).max(1), used(header::TAGS_USED));
        let allocators = used(header::ALLOCATORS_USED).saturating_add(1);
        hosted.make_room_for(BackedRecords { entries, allocators, tags })?;
        let state = hosted.state();
        state.region.header(header::PID).store(pair(process::id(), config.kind as u32), Relaxed);
        state.region.header(header::START_TICKS).store(identity::start_ticks(), Relaxed);
        state.take_over_allocators();
        state.take_over_tags();
        state.rebuild(clock::now(clock));
        Ok(hosted)
    }

    fn over(file: File, region: Region, clock: Clock) -> io::Result<Self> {
        let (start, bytes) = (region.start, region.bytes);
        match start::state_over(region, clock, (-1, 0)).and_then(WriterState::place) {
            Some(state) => Ok(Self { state, file, room: BackedRecords::default() }),
            None => {
                // SAFETY: just mapped by the caller; nothing points into it.
                unsafe { memory::unmap(start, bytes) };
                Err(io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    fn state(&self) -> &WriterState {
        // SAFETY: created by `over`, aligned, and alive until `self` is dropped. Every field is atomic or never changes.
        unsafe { self.state.as_ref() }
    }

    /// Takes the lock for changes that have [room](Hosted::has_room).
    pub fn session(&mut self) -> Session<'_> {
        let state = self.state();
        let time = clock::now(state.clock);
        // No other thread has the lock, because `self` is borrowed. A thread may have panicked while it held it.
        if state.lock.take() == Ok(LockState::AfterDeath) {
            state.repair(time);
        }
        Session { state, time, guess: None }
    }

    /// Whether the memory for one more allocation exists. Frees need no memory.
    #[inline]
    pub fn has_room(&self) -> bool {
        let state = self.state();
        let used = low(state.region.header(header::ENTRIES_USED).load(Relaxed));
        // A returned slot has its memory.
        used < self.room.entries || self.room.entries == state.region.capacity || state.index.first_free().is_some()
    }

    /// Allocates memory for the next allocations, for a thousand or more.
    pub fn make_room(&mut self) -> io::Result<()> {
        let used = low(self.state().region.header(header::ENTRIES_USED).load(Relaxed));
        self.make_room_for(BackedRecords { entries: used.saturating_add(1), ..BackedRecords::default() })
    }

    fn make_room_for(&mut self, wanted: BackedRecords) -> io::Result<()> {
        let capacity = self.state().region.capacity;
        self.room.entries = self.reach(layout::entries(capacity), self.room.entries, wanted.entries)?;
        let rows = Table { records: ROWS.records / KINDS, stride: ROWS.stride * KINDS, ..ROWS };
        let allocators = wanted.allocators.min(ALLOCATORS.records);
        if allocators > self.room.allocators {
            self.grow(ALLOCATORS, self.room.allocators, allocators)?;
            self.grow(rows, self.room.allocators, allocators)?;
            self.room.allocators = allocators;
        }
        self.room.tags = self.reach(TAGS, self.room.tags, wanted.tags)?;
        Ok(())
    }

    /// Allocates header, recorder and peak copies. With these complete, a free never needs memory. A free that failed would leave the
    /// figures wrong permanently.
    fn populate_always(&self) -> io::Result<()> {
        self.populate(0, layout::HEADER_BYTES.into())?;
        self.grow(EVENTS, 0, EVENTS.records)?;
        self.grow(PEAK_COPIES, 0, PEAK_COPIES.records)
    }

    /// Allocates memory for at least the first `wanted` records of a table that has it for `have`. Returns the new number.
    fn reach(&self, table: Table, have: u32, wanted: u32) -> io::Result<u32> {
        let wanted = wanted.min(table.records);
        if wanted <= have {
            return Ok(have);
        }
        let step = have.clamp(STEP_MIN, STEP_MAX);
        let to = wanted.max(have.saturating_add(step)).min(table.records);
        self.grow(table, have, to)?;
        Ok(to)
    }

    fn grow(&self, table: Table, from: u32, to: u32) -> io::Result<()> {
        let stride = u64::from(table.stride);
        self.populate(table.offset + u64::from(from) * stride, u64::from(to.saturating_sub(from)) * stride)
    }

    /// Allocates memory for these bytes of the file. Existing content is unchanged.
    fn populate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let page = PAGE as u64;
        let start = offset / page * page;
        let end = (offset + bytes).next_multiple_of(page).min((self.state().region.bytes as u64).next_multiple_of(page));
        let number = |value: u64| libc::off_t::try_from(value).map_err(|_| io::ErrorKind::InvalidInput);
        loop {
            // SAFETY: our own descriptor, and a range within the file's length, so that no length limit applies.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), 0, number(start)?, number(end - start)?) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Returns the open allocator with this origin and id, or opens a new one after allocating its memory.
    pub fn open_allocator(&mut self, spec: &AllocatorSpec<'_>) -> Result<AllocatorId, Lost> {
        if let Some(known) = self.state().named(spec.origin, spec.given_id) {
            return Ok(known);
        }
        let used = low(self.state().region.header(header::ALLOCATORS_USED).load(Relaxed));
        let has_room =
            self.make_room().and_then(|()| self.make_room_for(BackedRecords { allocators: used + 1, ..BackedRecords::default() }));
        if has_room.is_err() {
            self.state().lose(Lost::NoMemory);
            return Err(Lost::NoMemory);
        }
        self.session().open_allocator(spec)
    }

    /// Returns the number of a text, for `Buffer::tag`; 0 if there is no memory.
    pub fn tag(&mut self, text: &str) -> u32 {
        let used = low(self.state().region.header(header::TAGS_USED).load(Relaxed));
        // The last tag, "(other)", is written when all others are used.
        let wanted = if used + 2 >= TAGS.records { TAGS.records } else { used + 2 };
        if self.make_room_for(BackedRecords { tags: wanted, ..BackedRecords::default() }).is_err() {
            return 0;
        }
        self.session().tag(text)
    }

    /// The file, for readers that must find it even if its name was removed.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Number of live entries.
    #[inline]
    pub fn live_entries(&self) -> u64 {
        self.state().region.header(header::LIVE_ENTRIES).load(Relaxed)
    }

    /// Live bytes and entries of one kind of an open allocator's memory.
    pub fn live_of(&self, id: AllocatorId, kind: u8) -> (u64, u64) {
        if id.slot() >= self.room.allocators as usize || u32::from(kind) >= KINDS {
            return (0, 0);
        }
        let row = self.state().region.row(id.row(kind));
        (row.get(row::LIVE_BYTES), row.count())
    }

    /// Whether this kind of memory ever had a buffer.
    pub fn is_used(&self, id: AllocatorId, kind: u8) -> bool {
        id.slot() < self.room.allocators as usize && self.state().rows_in_use(id).any(|number| number == id.row(kind))
    }

    /// The open allocators and their given ids.
    pub fn allocators(&self) -> Vec<(AllocatorId, u32)> {
        let state = self.state();
        let of = |slot: usize| {
            let word = state.region.allocator(slot, allocator::STATE).load(Relaxed);
            let is_open = word & 0xFF == u64::from(allocator::OPEN);
            let id = AllocatorId::new(slot, low(word >> 8)).filter(|_| is_open)?;
            Some((id, low(state.region.allocator(slot, allocator::GIVEN_ID).load(Relaxed))))
        };
        (0..state.allocators_used()).filter_map(of).collect()
    }

    /// The owner's pid and start time in the header.
    pub fn owner(&self) -> (u32, u64) {
        let header = |field| self.state().region.header(field).load(Relaxed);
        (memory::high(header(header::CLOCK)), header(header::OWNER_START_TICKS))
    }

    /// Number of lost or unusual events with this reason.
    pub fn lost(&self, reason: Lost) -> u64 {
        self.state().region.header(header::LOST + reason as u64 * 8).load(Relaxed)
    }

    /// Bytes in use: the file's allocated memory, and the index.
    pub fn memory_bytes(&self) -> u64 {
        let room = &self.room;
        let part = |records: u32, stride: u32| u64::from(records) * u64::from(stride);
        part(EVENTS.records, EVENTS.stride)
            + part(PEAK_COPIES.records, PEAK_COPIES.stride)
            + part(room.entries, 64 + 8)
            + part(room.allocators, ALLOCATORS.stride + ROWS.stride * KINDS)
            + part(room.tags, TAGS.stride)
    }

    /// Ends the ledger and frees its memory, in small steps so that other threads of this process do not wait long. The file has no content
    /// afterwards; it was unlinked before.
    pub fn remove(self) {
        const PIECE: usize = 1 << 20;
        let region = &self.state().region;
        for offset in (0..region.bytes).step_by(PIECE) {
            let bytes = PIECE.min(region.bytes - offset);
            // SAFETY: whole pages of our own mapping, which is no longer used: `self` is dropped after this.
            unsafe { libc::madvise(region.start.add(offset).as_ptr().cast(), bytes, libc::MADV_REMOVE) };
        }
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // SAFETY: `&mut self` means that no session borrows it.
        unsafe { WriterState::release(self.state) };
    }
}

impl fmt::Debug for Hosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosted").field("owner", &self.owner()).finish_non_exhaustive()
    }
}

fn map(file: &File, bytes: usize, capacity: u32) -> io::Result<Region> {
    let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
    let place = memory::map(bytes, Backing::Private).ok_or_else(out_of_memory)?;
    let start = memory::map(bytes, Backing::File(file.as_raw_fd(), place)).ok_or_else(out_of_memory)?;
    Ok(Region { start, bytes, capacity, events: EVENTS.records })
}

/// Checks that this version of the service would have written the file. Returns its capacity and clock.
fn check(file: &File, config: &Config) -> io::Result<(u32, Clock)> {
    let mut bytes = [0; PAGE];
    file.read_exact_at(&mut bytes, 0)?;
    let word = |field: u64| {
        let at = position(field);
        u64::from_le_bytes(std::array::from_fn(|index| bytes.get(at + index).copied().unwrap_or(0)))
    };
    let refuse = |why: &'static str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if word(header::MAGIC) != layout::MAGIC {
        return refuse("no ledger");
    }
    if word(header::VERSION_MAJOR) != start::VERSION {
        return refuse("a ledger of another version");
    }
    let entries = word(header::ENTRY_TABLE + 8);
    let capacity = low(entries);
    let is_ours = capacity.is_power_of_two()
        && (layout::ENTRIES_MIN..=layout::ENTRIES_MAX).contains(&capacity)
        && word(header::ENTRY_TABLE) == layout::entries(capacity).offset
        && word(header::EVENT_TABLE + 8) == pair(EVENTS.records, EVENTS.stride)
        && word(header::REGION_BYTES) == layout::entries(capacity).end()
        && file.metadata()?.len() == layout::entries(capacity).end();
    if !is_ours {
        return refuse("a ledger of another shape");
    }
    if memory::high(word(header::PID)) != config.kind as u32 || word(header::MACHINE) != config.machine {
        return refuse("a ledger of another writer");
    }
    Ok((capacity, Clock::from_number(low(word(header::CLOCK))).unwrap_or(Clock::Monotonic)))
}
