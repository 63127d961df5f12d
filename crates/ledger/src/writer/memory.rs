//! Memory: mapped, never from malloc, seen only as atomic words.
//!
//! Every view is an `AtomicU64`, private memory included: a signal handler may interrupt an event at any instruction, and
//! a child may inherit it half done. Relaxed access costs what a plain one does.

use std::{
    os::fd::RawFd,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

use crate::layout;

use super::{
    identity::keeping_errno,
    protocol::{self, Word},
};

/// Bytes of a page on the machines we know; only used for rounding up.
pub(super) const PAGE: usize = 4096;

/// The low half.
pub(super) const fn low(word: u64) -> u32 {
    (word & 0xFFFF_FFFF) as u32
}

/// The high half.
pub(super) const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Two halves as the layout stores them, the first one low.
pub(super) const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// A u64 of the layout as a position in memory.
#[allow(clippy::cast_possible_truncation, reason = "the region is 80 MiB long; numbers beyond it are masked or refused before use")]
pub(super) const fn position(number: u64) -> usize {
    number as usize
}

/// What stands behind a mapping.
#[derive(Clone, Copy, Debug)]
pub(super) enum Backing {
    Private,
    /// Over a mapping of ours of that length, whose place is known before the file is mapped.
    File(RawFd, NonNull<u8>),
}

/// Maps zeroed memory that is not populated and not in core dumps, even after `mlockall` of the program.
pub(super) fn map(bytes: usize, backing: Backing) -> Option<NonNull<u8>> {
    keeping_errno(|| map_now(bytes, backing))
}

fn map_now(bytes: usize, backing: Backing) -> Option<NonNull<u8>> {
    let (at, flags, fd) = match backing {
        Backing::Private => (ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
        Backing::File(fd, over) => (over.as_ptr().cast(), libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED, fd),
    };
    // SAFETY: no address is given, or that of a mapping of ours, so that none of the program's is touched; the kernel checks
    // length and descriptor.
    let start = unsafe { libc::mmap(at, bytes, libc::PROT_NONE, flags, fd, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: exactly the mapping just made, which nobody else knows yet. Under mlockall(MCL_FUTURE) a mapping that may be
    // written is populated as a whole at once; made inaccessible, unlocked and then opened, it is not.
    let is_open = unsafe {
        libc::munlock(start, bytes);
        libc::madvise(start, bytes, libc::MADV_DONTDUMP);
        // Where huge pages are always on, the first word of a table would cost 2 MiB.
        libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
        libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE) == 0
    };
    if !is_open {
        // SAFETY: as above; nothing points into it.
        unsafe { libc::munmap(start, bytes) };
        return None;
    }
    NonNull::new(start.cast())
}

/// Gives a mapping back.
///
/// # Safety
/// `start` and `bytes` are (whole pages of) a mapping of ours that nothing uses any more.
pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    keeping_errno(|| unsafe { libc::munmap(start.as_ptr().cast(), bytes) });
}

/// Private zeroed words, mapped once and kept until [`Words::release`].
#[derive(Debug)]
pub(super) struct Words {
    start: NonNull<u8>,
    mask: usize,
}

impl Words {
    /// `count` is a power of two.
    pub(super) fn reserve(count: usize) -> Option<Self> {
        debug_assert!(count.is_power_of_two());
        Some(Self { start: map(count * 8, Backing::Private)?, mask: count - 1 })
    }

    /// The word at `index`, which wraps: no number leads outside.
    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: aligned, as mmap gave a page; in bounds by the mask (`count` words were mapped); alive until `release`
        // takes self; any bits are a u64; only this process maps it, and every access is atomic; a thread that dies in
        // between leaves whole words.
        unsafe { &*self.start.as_ptr().cast::<AtomicU64>().add(index & self.mask) }
    }

    pub(super) fn get(&self, index: usize) -> u64 {
        self.word(index).load(Relaxed)
    }

    pub(super) fn set(&self, index: usize, value: u64) {
        self.word(index).store(value, Relaxed);
    }

    /// Unmaps it.
    ///
    /// # Safety
    /// No reference from [`Words::word`] is in use, in any thread.
    pub(super) unsafe fn release(&self) {
        // SAFETY: the length `reserve` mapped; the caller's promise for the rest.
        unsafe { unmap(self.start, (self.mask + 1) * 8) };
    }
}

/// Private zeroed links of four bytes, mapped once and kept until [`Links::release`].
#[derive(Debug)]
pub(super) struct Links {
    start: NonNull<u8>,
    mask: u32,
}

impl Links {
    /// `count` is a power of two.
    pub(super) fn reserve(count: u32) -> Option<Self> {
        debug_assert!(count.is_power_of_two());
        Some(Self { start: map(count as usize * 4, Backing::Private)?, mask: count - 1 })
    }

    pub(super) fn count(&self) -> u32 {
        self.mask + 1
    }

    /// The link at `index`, which wraps: no number leads outside.
    #[inline]
    pub(super) fn link(&self, index: u32) -> &AtomicU32 {
        // SAFETY: as in `Words::word`, for words of four bytes.
        unsafe { &*self.start.as_ptr().cast::<AtomicU32>().add((index & self.mask) as usize) }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> u32 {
        self.link(index).load(Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, index: u32, value: u32) {
        self.link(index).store(value, Relaxed);
    }

    /// Unmaps it.
    ///
    /// # Safety
    /// No reference from [`Links::link`] is in use, in any thread.
    pub(super) unsafe fn release(&self) {
        // SAFETY: the length `reserve` mapped; the caller's promise for the rest.
        unsafe { unmap(self.start, self.count() as usize * 4) };
    }
}

/// An entry, a graveyard record or an overflow record: eight words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a>(pub(super) &'a [AtomicU64; 8]);

impl Record<'_> {
    /// The word at a byte offset of `layout::entry`.
    pub(super) fn get(self, offset: u64) -> u64 {
        self.0[position(offset / 8) & 7].load(Relaxed)
    }

    pub(super) fn set(self, offset: u64, value: u64) {
        self.0[position(offset / 8) & 7].store(value, Relaxed);
    }

    /// Stores the word that makes the others count. Pairs with the reader's pread: a prefix of our stores, never another order.
    pub(super) fn publish(self, offset: u64, value: u64) {
        self.0[position(offset / 8) & 7].publish(value);
    }

    /// Makes the others not count any more before they change.
    pub(super) fn withdraw(self, offset: u64, value: u64) {
        protocol::withdraw(&self.0[position(offset / 8) & 7], value);
    }
}

/// The shared ledger as this process maps it.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
    pub(super) capacity: u32,
    /// Records of the flight recorder, a power of two.
    pub(super) events: u32,
}

const ROW_MASK: usize = layout::ROWS.records as usize - 1;
const ALLOCATOR_MASK: usize = layout::ALLOCATORS.records as usize - 1;
const TAG_MASK: usize = layout::TAGS.records as usize - 1;
const GRAVE_MASK: usize = layout::GRAVEYARD.records as usize - 1;
const CIRCULAR_MASK: usize = layout::CIRCULARS.records as usize - 1;
const LEFT_MASK: usize = layout::LEFT.records as usize - 1;
/// Words of an allocator's record.
const ALLOCATOR_WORDS: u64 = layout::ALLOCATORS.stride as u64 / 8;

impl Region {
    /// A word of the region. Callers below mask any index to its table.
    #[inline]
    fn at(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes);
        // SAFETY: aligned, since mmap gave a page and all offsets are of whole words; in bounds, since each caller masks its
        // index to a table that the layout puts inside `bytes`; alive, since a region is unmapped with its writer only, and
        // replaced, not unmapped, in a forked child; any bits are a u64; nobody else maps it for writing (sealed; a
        // forked child of an unsealed one replaces it) and all access is atomic; a thread that dies in between leaves whole words.
        unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    #[inline]
    fn record(&self, offset: usize) -> Record<'_> {
        debug_assert!(offset.is_multiple_of(64) && offset + 64 <= self.bytes);
        // SAFETY: as in `at`, for eight words in a row: tables of records of 64 bytes end inside `bytes`.
        Record(unsafe { &*self.start.as_ptr().add(offset).cast::<[AtomicU64; 8]>() })
    }

    #[inline]
    pub(super) fn header(&self, field: u64) -> &AtomicU64 {
        self.at(position(field) & 0xFF8)
    }

    pub(super) fn allocator(&self, slot: usize, field: u64) -> &AtomicU64 {
        let word = (field / 8).min(ALLOCATOR_WORDS - 1);
        self.at(position(layout::ALLOCATORS.offset) + (slot & ALLOCATOR_MASK) * layout::ALLOCATORS.stride as usize + position(word) * 8)
    }

    #[inline]
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let offset = position(layout::ROWS.offset) + (row & ROW_MASK) * layout::ROWS.stride as usize;
        debug_assert!(offset + ROW_WORDS * 8 <= self.bytes);
        // SAFETY: as in `at`, for the words of a row.
        Row(unsafe { &*self.start.as_ptr().add(offset).cast::<[AtomicU64; ROW_WORDS]>() })
    }

    pub(super) fn tag(&self, tag: usize) -> Record<'_> {
        self.record(position(layout::TAGS.offset) + (tag & TAG_MASK) * 64)
    }

    pub(super) fn grave(&self, index: usize) -> Record<'_> {
        self.record(position(layout::GRAVEYARD.offset) + (index & GRAVE_MASK) * 64)
    }

    /// The word at `field` of a record of one of the tables behind the events; both wrap inside the table.
    pub(super) fn more(&self, table: layout::Table, record: usize, field: u64) -> &AtomicU64 {
        let word = position(field / 8) % (table.stride as usize / 8);
        self.at(position(table.offset) + record % table.records as usize * table.stride as usize + word * 8)
    }

    /// The four words of a circular buffer's record.
    pub(super) fn circular(&self, slot: u32, field: u64) -> &AtomicU64 {
        self.more(layout::CIRCULARS, slot as usize & CIRCULAR_MASK, field)
    }

    pub(super) fn left(&self, index: usize) -> Record<'_> {
        self.record(position(layout::LEFT.offset) + (index & LEFT_MASK) * 64)
    }

    /// The record of event `n`.
    #[inline]
    pub(super) fn event(&self, n: u64) -> &[AtomicU64; 6] {
        let offset = position(layout::EVENTS.offset) + position(n & u64::from(self.events - 1)) * 48;
        debug_assert!(offset + 48 <= self.bytes);
        // SAFETY: as in `at`, for the words of a record.
        unsafe { &*self.start.as_ptr().add(offset).cast::<[AtomicU64; 6]>() }
    }

    /// The entry in `slot`; the capacity is a power of two, so that no slot leads outside.
    #[inline]
    pub(super) fn entry(&self, slot: u32) -> Record<'_> {
        self.record(position(layout::entries(0).offset) + (slot & (self.capacity - 1)) as usize * 64)
    }

    /// Writes a text of the header, cut to its field with a NUL behind it.
    pub(super) fn set_header_text(&self, field: u64, bytes_max: usize, text: &[u8]) {
        for (at, word) in words_of(text, bytes_max) {
            self.header(field + at).store(word, Relaxed);
        }
    }

    pub(super) fn has_header_text(&self, field: u64, bytes_max: usize, text: &[u8]) -> bool {
        words_of(text, bytes_max).all(|(at, word)| self.header(field + at).load(Relaxed) == word)
    }

    /// Adds to a counter of the header that may also change without the lock.
    pub(super) fn count(&self, field: u64) {
        self.header(field).fetch_add(1, Relaxed);
    }
}

/// As many bytes of a text at most, cut between two characters.
pub(super) fn beginning(text: &str, bytes_max: usize) -> &[u8] {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.as_bytes().get(..end).unwrap_or_default()
}

/// The words of a text that is cut to its field, with zeros behind it: at least one NUL.
pub(super) fn words_of(text: &[u8], bytes_max: usize) -> impl Iterator<Item = (u64, u64)> {
    let text = text.get(..bytes_max - 1).unwrap_or(text);
    (0..bytes_max).step_by(8).map(move |at| {
        let mut word = [0; 8];
        word.iter_mut().zip(text.get(at..).unwrap_or_default()).for_each(|(to, from)| *to = *from);
        (at as u64, u64::from_le_bytes(word))
    })
}

const ROW_WORDS: usize = layout::row::WORDS;

/// A row's words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a>(&'a [AtomicU64; ROW_WORDS]);

impl Row<'_> {
    /// Where it begins, for hints.
    pub(super) fn start(self) -> *const u8 {
        ptr::from_ref(self.0).cast()
    }

    pub(super) fn get(self, field: u64) -> u64 {
        self.0[position(field / 8) % ROW_WORDS].load(Relaxed)
    }

    pub(super) fn set(self, field: u64, value: u64) {
        self.0[position(field / 8) % ROW_WORDS].store(value, Relaxed);
    }

    pub(super) fn publish(self, field: u64, value: u64) {
        self.0[position(field / 8) % ROW_WORDS].store(value, Release);
    }

    pub(super) fn add(self, field: u64, by: u64) -> u64 {
        let sum = self.get(field).wrapping_add(by);
        self.set(field, sum);
        sum
    }

    pub(super) fn subtract(self, field: u64, by: u64) {
        self.set(field, self.get(field).saturating_sub(by));
    }

    /// Its live buffers.
    pub(super) fn count(self) -> u64 {
        self.get(layout::row::ALLOCS).saturating_sub(self.get(layout::row::FREES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_wraps_instead_of_leading_outside() {
        let words = Words::reserve(512).expect("4 KiB");
        words.set(3, 7);
        assert_eq!(words.get(512 + 3), 7);
        assert_eq!(words.get(usize::MAX), words.get(511));
        // SAFETY: no reference is left.
        unsafe { words.release() };
    }

    #[test]
    fn halves() {
        assert_eq!((low(pair(1, 2)), high(pair(1, 2))), (1, 2));
    }
}
