//! Everything one ledger's writer has: the region, the lock, and what only it needs to know.
//!
//! The books lie in private mapped memory behind one page that a fork wipes (MADV_WIPEONFORK): its first word is the
//! fork detector, found without another pointer.

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
    allocators::FIGURES_EACH,
    circulars::Circulars,
    index::Index,
    lock::Lock,
    memory::{self, Backing, PAGE, Region, Words, position},
    slots::Overflow,
    stacks::Stacks,
    tags::Tags,
};

/// Detector word: this process made the books, and a fork would wipe the word.
pub(super) const ALIVE: u64 = 1;
/// This process made them, but the kernel does not wipe: ask for the pid each time.
pub(super) const ASK_PID: u64 = 2;

/// Words of private figures about allocators and rows.
pub(super) const FIGURES: usize = layout::ALLOCATORS.records as usize * FIGURES_EACH;

/// In this order: what every event needs takes three lines of the CPU's cache.
#[repr(C)]
pub(super) struct Books {
    pub(super) lock: Lock,
    pub(super) region: Region,
    pub(super) index: Index,
    /// See `allocators`.
    pub(super) figures: Words,
    /// Entries whose row was freed as a whole since: see `sweep`.
    pub(super) dead: AtomicU64,
    pub(super) clock: Clock,
    pub(super) pid: libc::pid_t,
    pub(super) descriptor: RawFd,
    pub(super) inode: u64,
    /// See `shared`.
    pub(super) sharing: Words,
    pub(super) overflow: Overflow,
    pub(super) tags: Tags,
    pub(super) stacks: Stacks,
    pub(super) circulars: Circulars,
    pub(super) sweep_cursor: AtomicU32,
    pub(super) grave_cursor: AtomicU32,
    pub(super) grave_rest: AtomicU32,
}

/// Before the books, what a fork wipes: one word is used, and a page of any kernel we may run on, which is what it wipes at least.
const WIPED: usize = 64 * 1024;
/// Of the mapping that the books are in.
const BYTES: usize = WIPED + size_of::<Books>().next_multiple_of(PAGE);

impl Books {
    /// Places the books into memory of their own; the detector still reads 0.
    pub(super) fn place(self) -> Option<NonNull<Self>> {
        let Some(start) = memory::map(BYTES, Backing::Private) else {
            // SAFETY: nobody has used them.
            unsafe { self.release_private() };
            return None;
        };
        // SAFETY: inside the mapping just made, page aligned and long enough for the books.
        let books = unsafe {
            let books = start.add(WIPED).cast::<Self>();
            books.write(self);
            books
        };
        // SAFETY: whole pages of that mapping, before the books.
        let wipes = unsafe { libc::madvise(start.as_ptr().cast(), WIPED, libc::MADV_WIPEONFORK) } == 0;
        // SAFETY: just placed; nobody else has it.
        let placed = unsafe { books.as_ref() };
        // SAFETY: nobody else knows the lock, and the books never move from here.
        if !unsafe { placed.lock.start() } {
            // SAFETY: nobody else knows the books.
            unsafe {
                placed.release_private();
                memory::unmap(start, BYTES);
            }
            return None;
        }
        placed.detector().store(if wipes { ALIVE } else { ASK_PID }, Release);
        Some(books)
    }

    /// The word that a fork wipes.
    #[inline]
    pub(super) fn detector(&self) -> &AtomicU64 {
        // SAFETY: `place` put the books WIPED bytes behind the start of their mapping, whose first word this is; both
        // stay mapped together; the kernel may zero it, in a child only; access is atomic.
        unsafe { &*std::ptr::from_ref(self).cast::<u8>().sub(WIPED).cast::<AtomicU64>() }
    }

    /// Whether this process made the books.
    #[inline]
    pub(super) fn are_ours(&self) -> bool {
        self.detector().load(Acquire) == ALIVE || self.asks_and_is_ours()
    }

    #[cold]
    fn asks_and_is_ours(&self) -> bool {
        // SAFETY: getpid has no conditions.
        self.detector().load(Acquire) == ASK_PID && self.pid == unsafe { libc::getpid() }
    }

    /// Whether it lies in a file of the service. There only tables for which [`Hosted`](super::Hosted) asks for memory may be
    /// written: nothing is kept of what free-alls left, and what only a hook knows is refused.
    pub(super) fn is_hosted(&self) -> bool {
        self.descriptor < 0
    }

    /// Counts what did not get into the figures, or was odd; with or without the lock.
    pub(super) fn lose(&self, reason: Lost) {
        self.region.count(header::LOST + reason as u64 * 8);
        if makes_inexact(reason) {
            self.mark_status(status::INEXACT);
        }
    }

    /// Adds to a word of the header that only the holder of the lock changes.
    pub(super) fn add_to_header(&self, field: u64, by: u64) {
        let word = self.region.header(field);
        word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    }

    pub(super) fn subtract_from_header(&self, field: u64, by: u64) {
        let word = self.region.header(field);
        word.store(word.load(Relaxed).saturating_sub(by), Relaxed);
    }

    /// Sets a status bit once; the word is shared with [`Books::lose`], which needs no lock.
    pub(super) fn mark_status(&self, bit: u64) {
        let word = self.region.header(header::STATUS);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Gives back what is mapped beside the books and the region.
    ///
    /// # Safety
    /// Nobody uses it any more.
    unsafe fn release_private(&self) {
        // SAFETY: the caller's promise, for each of the mappings.
        unsafe {
            self.index.release();
            self.overflow.release();
            self.tags.release();
            self.stacks.release();
            self.circulars.release();
            self.figures.release();
            self.sharing.release();
        }
    }

    /// Releases all memory.
    ///
    /// # Safety
    /// Nobody uses the books any more.
    pub(super) unsafe fn release(books: NonNull<Self>) {
        // SAFETY: the caller's promise, for each of the mappings; the books' own goes last.
        unsafe {
            let this = books.as_ref();
            let owns_region = this.are_ours();
            this.release_private();
            if owns_region {
                memory::unmap(this.region.start, this.region.bytes);
                super::start::close_own(this.descriptor, this.inode);
            }
            memory::unmap(books.cast::<u8>().sub(WIPED), BYTES);
        }
    }
}

/// Whether it means that something happened which is not in the figures.
pub(super) const fn makes_inexact(reason: Lost) -> bool {
    matches!(reason, Lost::Reentry | Lost::LockTimeout | Lost::NoAllocator | Lost::NoMemory)
}

const _: () = assert!(std::mem::offset_of!(Books, pid) <= 3 * 64);
const _: () = assert!(position(header::LOST) + layout::LOST_KINDS * 8 == position(header::REPAIRS));
