//! The state of one ledger's writer: the region, the lock, and private data.
//!
//! The state is in private mapped memory after one page that a fork wipes (MADV_WIPEONFORK). The first word of this page detects a fork
//! without another pointer.

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::{self, Clock, Lost, header, status};

use super::circulars::Circulars;
use super::index::Index;
use super::lock::Lock;
use super::memory::{self, Backing, Mapped, PAGE, Region, position};
use super::slots::Overflow;
use super::stacks::Stacks;
use super::tags::Tags;

/// Detector word: this process created the state, and a fork would wipe the word.
pub(super) const ALIVE: u64 = 1;
/// Detector word: this process created the state, but the kernel does not wipe it. The pid is checked each time.
pub(super) const CHECK_PID: u64 = 2;

/// The order of the fields puts those that every event needs into three cache lines.
#[repr(C)]
pub(super) struct WriterState {
    pub(super) lock: Lock,
    pub(super) region: Region,
    pub(super) index: Index,
    /// See `allocators`.
    pub(super) figures: Mapped<AtomicU64>,
    /// Entries whose row was freed as a whole since; see `sweep`.
    pub(super) dead: AtomicU64,
    pub(super) clock: Clock,
    pub(super) pid: u32,
    pub(super) descriptor: RawFd,
    pub(super) inode: u64,
    /// See `shared`.
    pub(super) sharing: Mapped<AtomicU64>,
    pub(super) overflow: Overflow,
    pub(super) tags: Tags,
    pub(super) stacks: Stacks,
    pub(super) circulars: Circulars,
    pub(super) sweep_cursor: AtomicU32,
    pub(super) peak_copy_cursor: AtomicU32,
    pub(super) peak_copy_rest: AtomicU32,
}

/// Bytes before the state that a fork wipes. Only one word is used; the size is a multiple of the page size of any supported kernel.
const WIPED: usize = 64 * 1024;
/// Size of the mapping that contains the state.
const BYTES: usize = WIPED + size_of::<WriterState>().next_multiple_of(PAGE);

impl WriterState {
    /// Moves the state into its own mapping. The detector word is still 0.
    pub(super) fn place(self) -> Option<NonNull<Self>> {
        let start = memory::map(BYTES, Backing::Private)?;
        // SAFETY: within the new mapping, page-aligned and long enough for the state.
        let state = unsafe {
            let state = start.add(WIPED).cast::<Self>();
            state.write(self);
            state
        };
        // SAFETY: whole pages of this mapping, before the state.
        let wipes = unsafe { libc::madvise(start.as_ptr().cast(), WIPED, libc::MADV_WIPEONFORK) } == 0;
        // SAFETY: just written; no other thread has it.
        let placed = unsafe { state.as_ref() };
        // SAFETY: no other thread knows the lock, and the state does not move from here.
        if !unsafe { placed.lock.start() } {
            // SAFETY: no other thread knows the state.
            unsafe { Self::release(state) };
            return None;
        }
        placed.detector().store(if wipes { ALIVE } else { CHECK_PID }, Release);
        Some(state)
    }

    /// The word that a fork wipes.
    #[inline]
    pub(super) fn detector(&self) -> &AtomicU64 {
        // SAFETY: `place` put the state WIPED bytes after the start of its mapping, and this is its first word. Both stay mapped
        // together. The kernel may zero the word, but only in a child. Access is atomic.
        unsafe { &*std::ptr::from_ref(self).cast::<u8>().sub(WIPED).cast::<AtomicU64>() }
    }

    /// Whether this process created the state.
    #[inline]
    pub(super) fn is_ours(&self) -> bool {
        self.detector().load(Acquire) == ALIVE || self.has_own_pid()
    }

    #[cold]
    fn has_own_pid(&self) -> bool {
        self.detector().load(Acquire) == CHECK_PID && self.pid == std::process::id()
    }

    /// Whether the ledger is a file of the service. Then only tables with memory from [`Hosted`](super::Hosted) may be written: entries
    /// that were live at free-alls are not stored, and the hook's data is refused.
    pub(super) fn is_hosted(&self) -> bool {
        self.descriptor < 0
    }

    /// Counts an event that is not included in the figures, or is unusual. Works with or without the lock.
    pub(super) fn lose(&self, reason: Lost) {
        self.region.count(header::LOST + reason as u64 * 8);
        if makes_inexact(reason) {
            self.mark_status(status::INEXACT);
        }
    }

    /// Adds to a header word that only the holder of the lock changes.
    pub(super) fn add_to_header(&self, field: u64, by: u64) {
        let word = self.region.header(field);
        word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    }

    pub(super) fn subtract_from_header(&self, field: u64, by: u64) {
        let word = self.region.header(field);
        word.store(word.load(Relaxed).saturating_sub(by), Relaxed);
    }

    /// Sets a status bit once. [`WriterState::lose`] changes the same word without the lock.
    pub(super) fn mark_status(&self, bit: u64) {
        let word = self.region.header(header::STATUS);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Releases all memory. The region stays unless [`WriterState::place`] has completed in this process.
    ///
    /// # Safety
    /// The state is no longer used.
    pub(super) unsafe fn release(state: NonNull<Self>) {
        // SAFETY: the caller guarantees this, for each of the mappings. The state's own mapping is last.
        unsafe {
            let this = state.as_ref();
            if this.is_ours() {
                memory::unmap(this.region.start, this.region.bytes);
                super::start::close_own(this.descriptor, this.inode);
            }
            state.drop_in_place();
            memory::unmap(state.cast::<u8>().sub(WIPED), BYTES);
        }
    }
}

/// Whether a loss means that the figures do not include an event.
pub(super) const fn makes_inexact(reason: Lost) -> bool {
    matches!(reason, Lost::Reentry | Lost::LockTimeout | Lost::NoAllocator | Lost::NoMemory)
}

const _: () = assert!(std::mem::offset_of!(WriterState, pid) <= 3 * 64);
const _: () = assert!(position(header::LOST) + layout::LOST_KINDS * 8 == position(header::REPAIRS));
