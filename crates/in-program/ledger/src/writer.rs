//! Writes the ledger of this process.
//!
//! A [`Writer`] is a static of the process. A [`Session`] holds its lock and records events. docs/ledger.md sections 3 and 5 define the
//! order of stores, and explain why a kill leaves the ledger exact. The code runs inside another program. It never prints, panics, calls
//! malloc or changes errno, and it waits at most one second for a thread that makes no progress.

mod allocators;
mod checks;
mod circulars;
mod clock;
mod contents;
mod coverage;
mod environment;
mod event;
mod failures;
mod hosted;
mod identity;
mod index;
mod insert;
mod live_at_close;
mod lock;
mod lookup;
mod marks;
mod memory;
mod peak;
mod prefetch;
mod protocol;
mod repair;
mod shared;
mod slots;
mod stacks;
mod start;
mod state;
mod sweep;
mod tags;

use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

pub use crate::layout::Geometry as KindGeometry;
pub use checks::SelfCheck;
pub use circulars::Circular;
pub use clock::ClockChoice;
pub use environment::{Environment, VisibleDevicesVariable};
pub use failures::Failure;
pub use hosted::{Hosted, Owner};
pub use insert::{Repeated, Stored};
pub use marks::{RowFigures, TraceStep};
pub use stacks::Frame;

use crate::layout::{self, KINDS, Lost, Op, WriterKind, entry, header, status};
use crate::tsc;

use event::{flags_of, references_of};
use identity::keeping_errno;
use lock::LockState;
use state::{WriterState, makes_inexact};

/// Options of a writer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The component that writes.
    pub kind: WriterKind,
    /// The writer's version, for the header.
    pub version: &'static str,
    /// The clock to use.
    pub clock: ClockChoice,
    /// 0, or the mark of the simulated machine.
    pub machine: u64,
    /// Called once for each new ledger, with its descriptor and without the lock, for the hand-over.
    pub on_created: Option<fn(RawFd)>,
}

/// The writer of this process's ledger. It is a static and starts with the first session.
#[derive(Debug)]
pub struct Writer {
    config: Config,
    capacity_max: u32,
    is_alone: bool,
    /// One of the stages below, or the caller that starts the ledger (`identity::caller`).
    stage: AtomicU64,
    state: AtomicPtr<WriterState>,
    under_way: start::PendingStart,
    /// Number of sessions requested while there was no memory.
    refused: AtomicU64,
    /// Lost events before there was a ledger to count them.
    pending: [AtomicU64; layout::LOST_KINDS],
}

const NEW: u64 = 0;
const READY: u64 = 1;
/// No memory, no descriptor, or a limit that is too low. The start is attempted again at every 2^k-th session.
const WAITING: u64 = 2;
/// Another copy of this code writes the ledger of this process.
const OFF: u64 = 3;

/// How long a session waits for another thread that starts the ledger.
const START_WAIT_NS: u64 = 1_000_000_000;

impl Writer {
    /// Creates a writer that has not started.
    pub const fn new(config: Config) -> Self {
        Self::make(config, layout::ENTRIES_MAX, true)
    }

    /// Creates a writer next to others in one process, without a search for other copies. It lists at most `capacity` buffers (a power of
    /// two, from 2^10 to 2^20). For tests, benches and simulation.
    pub const fn beside_others(config: Config, capacity: u32) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= layout::ENTRIES_MIN && capacity <= layout::ENTRIES_MAX);
        Self::make(config, capacity, false)
    }

    const fn make(config: Config, capacity_max: u32, is_alone: bool) -> Self {
        Self {
            config,
            capacity_max,
            is_alone,
            stage: AtomicU64::new(NEW),
            state: AtomicPtr::new(ptr::null_mut()),
            under_way: start::PendingStart::new(),
            refused: AtomicU64::new(0),
            pending: [const { AtomicU64::new(0) }; layout::LOST_KINDS],
        }
    }

    /// Takes the lock for one or several events. Starts the ledger if there is none, also in a forked child. A failure is counted here.
    #[inline]
    pub fn session(&self) -> Result<Session<'_>, Lost> {
        self.session_after(|_| None)
    }

    /// `prefetch` fetches the memory that the events will use ahead of time, and guesses the position of their key.
    #[inline]
    fn session_after(&self, prefetch: impl FnOnce(&WriterState) -> Option<u32>) -> Result<Session<'_>, Lost> {
        let state = match self.state() {
            Some(state) if state.is_ours() => state,
            _ => self.started()?,
        };
        let guess = prefetch(state);
        // The time is read before the lock, so that waiting does not delay the time of an event.
        let time = clock::now(state.clock);
        match state.lock.take() {
            Ok(LockState::Clean) => {}
            Ok(LockState::AfterDeath) => state.repair(time),
            Err(reason) => {
                state.lose(reason);
                return Err(reason);
            }
        }
        Ok(Session { state, time, guess })
    }

    /// Whether this process has a ledger.
    pub fn is_started(&self) -> bool {
        self.stage.load(Acquire) == READY && self.state().is_some_and(WriterState::is_ours)
    }

    /// Whether the writer stays off because another copy of this code writes the ledger of this process.
    pub fn is_second_copy(&self) -> bool {
        self.stage.load(Acquire) == OFF
    }

    /// The descriptor of the ledger, if there is one.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.state().filter(|state| state.is_ours()).map(|state| state.descriptor)
    }

    #[inline]
    fn state(&self) -> Option<&WriterState> {
        // SAFETY: null, or a state that `start` created: aligned, and valid until the writer is dropped, which requires exclusive access.
        // A child's start publishes a new state and leaves the parent's mapped. Every field is atomic or never changes. Acquire pairs
        // with the release in `start`.
        unsafe { self.state.load(Acquire).as_ref() }
    }

    #[cold]
    fn started(&self) -> Result<&WriterState, Lost> {
        keeping_errno(|| {
            let found = self.find_or_start();
            if let Err(reason) = found
                && self.stage.load(Acquire) != OFF
            {
                self.lose_pending(reason);
            }
            found
        })
    }

    fn find_or_start(&self) -> Result<&WriterState, Lost> {
        let mut since = None;
        loop {
            let stage = self.stage.load(Acquire);
            match stage {
                READY => {
                    if let Some(state) = self.state().filter(|state| state.is_ours()) {
                        return Ok(state);
                    }
                }
                WAITING => {
                    let refused = self.refused.fetch_add(1, Relaxed) + 1;
                    if !refused.is_power_of_two() {
                        return Err(Lost::NoMemory);
                    }
                }
                OFF => return Err(Lost::NoMemory),
                _ => {}
            }
            let me = identity::caller();
            if stage == me {
                return Err(Lost::Reentry);
            }
            // Another pid: the process was forked while the parent started the ledger, and the starting thread does not exist here.
            if stage >> 32 == me >> 32 {
                sleep_before_retry(&mut since)?;
                continue;
            }
            if self.stage.compare_exchange(stage, me, AcqRel, Relaxed).is_ok() {
                return self.start();
            }
        }
    }

    /// Creates the ledger. Only the caller whose number is in `stage` runs this.
    fn start(&self) -> Result<&WriterState, Lost> {
        let parent = self.state();
        if let Some(parent) = parent {
            start::release_parent(parent);
        }
        // The process may have been forked while the parent was here. After a failed attempt of our own nothing is left.
        let was_under_way = self.under_way.release_parent();
        if parent.is_some() || was_under_way {
            // The losses of the parent do not count here.
            for count in &self.pending {
                count.store(0, Relaxed);
            }
        }
        if self.is_alone && identity::has_ledger_already() {
            self.stage.store(OFF, Release);
            return Err(Lost::NoMemory);
        }
        let Some(made) = start::start(&self.config, self.capacity_max, &self.under_way) else {
            self.state.store(ptr::null_mut(), Release);
            self.stage.store(WAITING, Release);
            return Err(Lost::NoMemory);
        };
        self.state.store(made.as_ptr(), Release);
        self.under_way.forget();
        // SAFETY: just created by `start::start`; otherwise as in `state`.
        let state = unsafe { made.as_ref() };
        self.report_pending(state);
        self.stage.store(READY, Release);
        if let Some(hand_over) = self.config.on_created {
            hand_over(state.descriptor);
        }
        Ok(state)
    }

    fn lose_pending(&self, reason: Lost) {
        // If another thread has started the ledger meanwhile, it counts the loss.
        match self.state().filter(|state| state.is_ours()) {
            Some(state) => state.lose(reason),
            None => {
                if let Some(count) = self.pending.get(reason as usize) {
                    count.fetch_add(1, Relaxed);
                }
            }
        }
    }

    fn report_pending(&self, state: &WriterState) {
        const REASONS: [Lost; 3] = [Lost::Reentry, Lost::LockTimeout, Lost::NoMemory];
        for reason in REASONS {
            let count = self.pending.get(reason as usize).map_or(0, |count| count.swap(0, Relaxed));
            state.region.header(header::LOST + reason as u64 * 8).fetch_add(count, Relaxed);
            if count > 0 && makes_inexact(reason) {
                state.mark_status(status::INEXACT);
            }
        }
    }
}

impl Drop for Writer {
    /// For tests and simulation: a static is never dropped.
    fn drop(&mut self) {
        if let Some(state) = NonNull::new(*self.state.get_mut()) {
            // SAFETY: `&mut self` means that no session borrows it.
            unsafe { WriterState::release(state) };
        }
    }
}

/// Sleeps briefly. Returns an error when the total wait is too long.
fn sleep_before_retry(since: &mut Option<u64>) -> Result<(), Lost> {
    let now = tsc::monotonic_ns();
    if now.saturating_sub(*since.get_or_insert(now)) > START_WAIT_NS {
        return Err(Lost::LockTimeout);
    }
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
    // SAFETY: the kernel reads a local struct and writes nothing.
    unsafe { libc::nanosleep(&raw const pause, ptr::null_mut()) };
    Ok(())
}

/// An open allocator, returned by [`Session::open_allocator`]. It is invalid once it is closed, and in a forked child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorId {
    slot: u16,
    generation: u32,
}

impl AllocatorId {
    fn new(slot: usize, generation: u32) -> Option<Self> {
        Some(Self { slot: u16::try_from(slot).ok()?, generation })
    }

    /// Converts to a number that can be stored without the lock. [`AllocatorId::from_number`] converts back.
    #[inline]
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 16 | u64::from(self.slot)
    }

    /// Converts from a number. Any other number becomes an allocator that is not open.
    #[inline]
    pub fn from_number(number: u64) -> Self {
        Self { slot: u16::try_from(number & 0xFFFF).unwrap_or(0), generation: memory::low(number >> 16) }
    }

    fn slot(self) -> usize {
        usize::from(self.slot)
    }

    fn row(self, kind: u8) -> usize {
        self.slot() * KINDS as usize + usize::from(kind)
    }

    fn state(self, low_byte: u8) -> u64 {
        u64::from(self.generation) << 8 | u64::from(low_byte)
    }
}

/// A chip of an allocator.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    /// TT-Metal's number, `layout::allocator::METAL_ID_UNKNOWN` if it is not known.
    pub metal_id: u32,
    /// 0 if it is not known.
    pub unique_id: u64,
    /// No flags are defined yet.
    pub flags: u32,
}

/// The properties of a new allocator.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorSpec<'a> {
    /// The number used by the program: the device id of client and socket.
    pub given_id: u32,
    /// A constant of `layout::origin`.
    pub origin: u32,
    /// Rows and columns of the mesh, 0 if there is none.
    pub mesh: (u16, u16),
    /// The geometry of the kinds below `KINDS_MAX`.
    pub kinds: [KindGeometry; layout::allocator::KINDS_MAX],
    /// At most 64 chips are recorded.
    pub chips: &'a [Chip],
}

/// Identifies a live buffer.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The allocator.
    pub allocator: AllocatorId,
    /// A constant of `layout::kind`.
    pub kind: u8,
    /// The address.
    pub address: u64,
}

/// The properties of a new buffer, besides its key.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the entry's table in docs/ledger.md says what each is")]
pub struct Buffer {
    pub size: u64,
    pub per_bank: u32,
    pub page: u32,
    pub layout: u8,
    pub cores: u16,
    pub flags: u16,
    pub tag: u32,
    pub operation: u32,
    pub stack: u32,
}

/// A live buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBuffer {
    /// The size.
    pub size: u64,
    /// Number of allocations without a free.
    pub refs: u32,
}

/// A buffer that lost a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The size.
    pub size: u64,
    /// The remaining references; 0 if the buffer was freed.
    pub refs: u32,
    /// The flags that it was reported with.
    pub flags: u16,
}

/// The lock of a ledger, and the operations under it. All events of a session have the same time.
pub struct Session<'a> {
    state: &'a WriterState,
    time: u64,
    /// The likely position of its key; see `prefetch`.
    guess: Option<u32>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Only during a panic or the cancellation of a thread.
        if self.state.is_half_done() {
            self.state.repair(self.time);
        }
        self.state.lock.give();
    }
}

impl Session<'_> {
    /// The number of the ledger. A forked child has another number.
    #[inline]
    pub fn ledger(&self) -> u64 {
        self.state.inode
    }

    /// Opens an allocator.
    pub fn open_allocator(&mut self, spec: &AllocatorSpec<'_>) -> Result<AllocatorId, Lost> {
        self.state.open(self.time, spec)
    }

    /// Returns the open allocator with this origin and id.
    pub fn allocator(&self, origin: u32, given_id: u32) -> Option<AllocatorId> {
        self.state.named(origin, given_id)
    }

    /// Frees the remaining buffers of an allocator and closes it.
    pub fn close_allocator(&mut self, allocator: AllocatorId) {
        self.state.close(self.time, allocator);
    }

    /// Frees all buffers of an allocator, with one event for each row in use.
    pub fn free_all(&mut self, allocator: AllocatorId) {
        self.state.free_rows(self.time, allocator);
    }

    /// Returns the live buffer with this key.
    pub fn find(&self, key: Key) -> Option<LiveBuffer> {
        let record = self.state.record_in(self.live(key)?.slot);
        Some(LiveBuffer { size: record.get(entry::SIZE), refs: references_of(record) })
    }

    /// Frees a buffer with any number of references, and returns its size. `None` is not counted as lost; that is the caller's policy.
    pub fn remove(&mut self, key: Key) -> Option<u64> {
        let place = self.live(key)?;
        Some(self.state.destroy(self.time, place))
    }

    /// Removes one reference. The last one frees the buffer.
    pub fn unreference(&mut self, key: Key) -> Option<Released> {
        let place = self.live(key)?;
        let record = self.state.record_in(place.slot);
        let refs = references_of(record).saturating_sub(1);
        let released = Released { size: record.get(entry::SIZE), refs, flags: flags_of(record) };
        if refs == 0 {
            self.state.destroy(self.time, place);
        } else {
            self.state.set_references(self.time, Op::Unref, place.slot, refs);
        }
        Some(released)
    }

    /// Returns the number of a text, for [`Buffer::tag`]. The same text always has the same number; it is 4,095 if the table is full.
    pub fn tag(&mut self, text: &str) -> u32 {
        self.state.intern(text)
    }

    /// Counts an event that is not included in the figures, or is unusual.
    pub fn lose(&mut self, reason: Lost) {
        self.state.lose(reason);
    }
}
