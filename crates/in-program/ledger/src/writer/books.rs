//! The state of one ledger's writer: the region, the lock, and private data.
//!
//! The books are in private mapped memory after one page that a fork wipes (MADV_WIPEONFORK). The first word of this page detects a fork
//! without another pointer.

use std::{
    os::fd::RawFd,
    ptr::NonNull,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::layout::{self, Clock, Lost, header, status};

use super::{
    circulars::Circulars,
    index::Index,
    lock::Lock,
    memory::{self, Backing, Mapped, PAGE, Region, position},
    slots::Overflow,
    stacks::Stacks,
    tags::Tags,
};

/// Detector word: this process created the books, and a fork would wipe the word.
pub(super) const ALIVE: u64 = 1;
/// Detector word: this process created the books, but the kernel does not wipe it. The pid is checked each time.
pub(super) const ASK_PID: u64 = 2;

/// The order of the fields puts those that every event needs into three cache lines.
#[repr(C)]
pub(super) struct Books {
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
    pub(super) grave_cursor: AtomicU32,
    pub(super) grave_rest: AtomicU32,
}

/// Bytes before the books that a fork wipes. Only one word is used; the size is a multiple of the page size of any supported kernel.
const WIPED: usize = 64 * 1024;
/// Size of the mapping that contains the books.
const BYTES: usize = WIPED + size_of::<Books>().next_multiple_of(PAGE);

impl Books {
    /// Moves the books into their own mapping. The detector word is still 0.
    pub(super) fn place(self) -> Option<NonNull<Self>> {
        let start = memory::map(BYTES, Backing::Private)?;
        // SAFETY: within the new mapping, page-aligned and long enough for the books.
        let books = unsafe {
            let books = start.add(WIPED).cast::<Self>();
            books.write(self);
            books
        };
        // SAFETY: whole pages of this mapping, before the books.
        let wipes = unsafe { libc::madvise(start.as_ptr().cast(), WIPED, libc::MADV_WIPEONFORK) } == 0;
        // SAFETY: just written; no other thread has it.
        let placed = unsafe { books.as_ref() };
        // SAFETY: no other thread knows the lock, and the books do not move from here.
        if !unsafe { placed.lock.start() } {
            // SAFETY: no other thread knows the books.
            unsafe { Self::release(books) };
            return None;
        }
        placed.detector().store(if wipes { ALIVE } else { ASK_PID }, Release);
        Some(books)
    }

    /// The word that a fork wipes.
    #[inline]
    pub(super) fn detector(&self) -> &AtomicU64 {
        // SAFETY: `place` put the books WIPED bytes after the start of their mapping, and this is its first word. Both stay mapped
        // together. The kernel may zero the word, but only in a child. Access is atomic.
        unsafe { &*std::ptr::from_ref(self).cast::<u8>().sub(WIPED).cast::<AtomicU64>() }
    }

    /// Whether this process created the books.
    #[inline]
    pub(super) fn are_ours(&self) -> bool {
        self.detector().load(Acquire) == ALIVE || self.asks_and_is_ours()
    }

    #[cold]
    fn asks_and_is_ours(&self) -> bool {
        self.detector().load(Acquire) == ASK_PID && self.pid == std::process::id()
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

    /// Sets a status bit once. [`Books::lose`] changes the same word without the lock.
    pub(super) fn mark_status(&self, bit: u64) {
        let word = self.region.header(header::STATUS);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Releases all memory. The region stays unless [`Books::place`] has completed in this process.
    ///
    /// # Safety
    /// The books are no longer used.
    pub(super) unsafe fn release(books: NonNull<Self>) {
        // SAFETY: the caller guarantees this, for each of the mappings. The books' own mapping is last.
        unsafe {
            let this = books.as_ref();
            if this.are_ours() {
                memory::unmap(this.region.start, this.region.bytes);
                super::start::close_own(this.descriptor, this.inode);
            }
            books.drop_in_place();
            memory::unmap(books.cast::<u8>().sub(WIPED), BYTES);
        }
    }
}

/// Whether a loss means that the figures do not include an event.
pub(super) const fn makes_inexact(reason: Lost) -> bool {
    matches!(reason, Lost::Reentry | Lost::LockTimeout | Lost::NoAllocator | Lost::NoMemory)
}

const _: () = assert!(std::mem::offset_of!(Books, pid) <= 3 * 64);
const _: () = assert!(position(header::LOST) + layout::LOST_KINDS * 8 == position(header::REPAIRS));
