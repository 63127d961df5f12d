//! Memory that is mapped, never from malloc, and accessed only as atomic words.
//!
//! Every view is an `AtomicU64`, also of private memory: a signal handler may interrupt an event at any instruction, and a child may
//! inherit an incomplete event. Relaxed access costs as much as plain access.

use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use crate::layout::{self, Table};

use super::identity::keeping_errno;
use super::protocol::{self, Word};

/// Bytes of a page on supported machines; used only for rounding up.
pub(super) const PAGE: usize = 4096;

pub(super) const fn low(word: u64) -> u32 {
    (word & 0xFFFF_FFFF) as u32
}

pub(super) const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Combines two halves as the layout stores them, the first one low.
pub(super) const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// A u64 of the layout as an offset in memory.
#[allow(clippy::cast_possible_truncation, reason = "the region is 80 MiB long; numbers beyond it are masked or refused before use")]
pub(super) const fn position(number: u64) -> usize {
    number as usize
}

/// The source of a mapping's memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Backing {
    Private,
    /// Replaces our own mapping of the same length, at an address that is known before the file is mapped.
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
    // SAFETY: without an address, or with that of our own mapping, no mapping of the program is affected. The kernel checks length and
    // descriptor.
    let start = unsafe { libc::mmap(at, bytes, libc::PROT_NONE, flags, fd, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: exactly the new mapping, which no other code knows yet. Under mlockall(MCL_FUTURE) a writable mapping would be populated
    // immediately. A mapping that is created inaccessible, unlocked and then made accessible is not populated.
    let is_open = unsafe {
        libc::munlock(start, bytes);
        libc::madvise(start, bytes, libc::MADV_DONTDUMP);
        // If huge pages are always on, the first word of a table would cost 2 MiB.
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

/// Unmaps a mapping.
///
/// # Safety
/// `start` and `bytes` are (whole pages of) our own mapping, which is no longer used.
pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller guarantees this.
    keeping_errno(|| unsafe { libc::munmap(start.as_ptr().cast(), bytes) });
}

/// A type for memory that several threads share.
///
/// # Safety
/// Any bits are a valid value, and all access is atomic.
pub(super) unsafe trait Atomic {}

// SAFETY: as the trait demands.
unsafe impl Atomic for AtomicU32 {}
// SAFETY: as the trait demands.
unsafe impl Atomic for AtomicU64 {}
// SAFETY: as the trait demands.
unsafe impl<const COUNT: usize> Atomic for [AtomicU64; COUNT] {}

/// Private zeroed elements, mapped until they are dropped.
#[derive(Debug)]
pub(super) struct Mapped<T> {
    start: NonNull<T>,
    mask: u32,
}

impl<T: Atomic> Mapped<T> {
    /// `count` is a power of two.
    pub(super) fn reserve(count: u32) -> Option<Self> {
        debug_assert!(count.is_power_of_two());
        Some(Self { start: map(count as usize * size_of::<T>(), Backing::Private)?.cast(), mask: count - 1 })
    }
}

impl<T> Mapped<T> {
    pub(super) fn count(&self) -> u32 {
        self.mask + 1
    }

    /// Returns the element at `index`, which wraps, so that it is always in bounds.
    #[inline]
    pub(super) fn at(&self, index: usize) -> &T {
        // SAFETY: aligned, because mmap returned a page; in bounds by the mask (`count` elements were mapped); alive until `self` is
        // dropped. Any bits are valid. Only this process maps it, and every access is atomic. A thread that dies in between leaves complete
        // words.
        unsafe { &*self.start.as_ptr().add(index & self.mask as usize) }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the length that `reserve` mapped. `&mut self` means that nothing borrows an element.
        unsafe { unmap(self.start.cast(), self.count() as usize * size_of::<T>()) };
    }
}

/// Private zeroed elements, mapped at the first use and until they are dropped.
#[derive(Debug)]
pub(super) struct Lazy<T, const COUNT: usize>(AtomicPtr<T>);

impl<T: Atomic, const COUNT: usize> Lazy<T, COUNT> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Maps the elements at the first use; `None` if there is no memory. Only under the lock.
    pub(super) fn reserve(&self) -> Option<()> {
        if self.0.load(Acquire).is_null() {
            self.0.store(map(COUNT * size_of::<T>(), Backing::Private)?.as_ptr().cast(), Release);
        }
        Some(())
    }

    /// Returns the element at `index`, which wraps; `None` before the first use.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        let start = self.0.load(Acquire);
        // SAFETY: as in `Mapped::at`, for COUNT elements.
        if start.is_null() { None } else { Some(unsafe { &*start.add(index % COUNT) }) }
    }
}

impl<T, const COUNT: usize> Drop for Lazy<T, COUNT> {
    fn drop(&mut self) {
        if let Some(start) = NonNull::new(*self.0.get_mut()) {
            // SAFETY: as in `Mapped`.
            unsafe { unmap(start.cast(), COUNT * size_of::<T>()) };
        }
    }
}

/// The words of a record, by their byte offsets in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a, const COUNT: usize>(pub(super) &'a [AtomicU64; COUNT]);

/// An entry, a peak copy or an overflow record.
pub(super) type Record<'a> = Words<'a, 8>;
pub(super) type Row<'a> = Words<'a, { layout::row::WORDS }>;

impl<'a, const COUNT: usize> Words<'a, COUNT> {
    fn word(self, offset: u64) -> &'a AtomicU64 {
        &self.0[position(offset / 8) % COUNT]
    }

    pub(super) fn get(self, offset: u64) -> u64 {
        self.word(offset).load(Relaxed)
    }

    pub(super) fn set(self, offset: u64, value: u64) {
        self.word(offset).store(value, Relaxed);
    }

    /// Stores the state word, which makes the other words valid. Pairs with the reader's `pread`, which sees stores in order.
    pub(super) fn publish(self, offset: u64, value: u64) {
        self.word(offset).publish(value);
    }

    /// Invalidates the other words before they change.
    pub(super) fn withdraw(self, offset: u64, value: u64) {
        protocol::withdraw(self.word(offset), value);
    }

    pub(super) fn add(self, offset: u64, by: u64) -> u64 {
        let sum = self.get(offset).wrapping_add(by);
        self.set(offset, sum);
        sum
    }

    pub(super) fn subtract(self, offset: u64, by: u64) {
        self.set(offset, self.get(offset).saturating_sub(by));
    }
}

impl Row<'_> {
    /// Number of live buffers.
    pub(super) fn count(self) -> u64 {
        self.get(layout::row::ALLOCS).saturating_sub(self.get(layout::row::FREES))
    }
}

/// The shared ledger, mapped in this process.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
    pub(super) capacity: u32,
    /// Number of records of the flight recorder, a power of two.
    pub(super) events: u32,
}

impl Region {
    /// Returns words of the region. All callers mask the index to its table.
    #[inline]
    fn at<const COUNT: usize>(&self, offset: usize) -> &[AtomicU64; COUNT] {
        debug_assert!(offset.is_multiple_of(8) && offset + COUNT * 8 <= self.bytes);
        // SAFETY: aligned, because mmap returned a page and all offsets are of whole words. In bounds, because each caller masks its index
        // to a table that the layout puts inside `bytes`. Alive, because a region is unmapped only with its writer, and replaced, not
        // unmapped, in a forked child. Any bits are a valid u64. No other process maps it for writing (it is sealed; a forked child of an
        // unsealed one replaces it), and all access is atomic. A thread that dies in between leaves complete words.
        unsafe { &*self.start.as_ptr().add(offset).cast() }
    }

    #[inline]
    pub(super) fn header(&self, field: u64) -> &AtomicU64 {
        let [word] = self.at(position(field) & 0xFF8);
        word
    }

    pub(super) fn allocator(&self, slot: usize, field: u64) -> &AtomicU64 {
        self.word(layout::ALLOCATORS, slot, field)
    }

    #[inline]
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        self.record(layout::ROWS, row)
    }

    /// A record of a table with records of `COUNT` words. The index wraps inside the table.
    #[inline]
    pub(super) fn record<const COUNT: usize>(&self, table: Table, index: usize) -> Words<'_, COUNT> {
        debug_assert!(table.stride as usize == COUNT * 8);
        Words(self.at(position(table.offset) + index % table.records as usize * COUNT * 8))
    }

    /// Returns the word at `field` of a record. Both wrap inside the table.
    #[inline]
    pub(super) fn word(&self, table: Table, record: usize, field: u64) -> &AtomicU64 {
        let word = position(field / 8) % (table.stride as usize / 8);
        let [word] = self.at(position(table.offset) + record % table.records as usize * table.stride as usize + word * 8);
        word
    }

    pub(super) fn circular(&self, slot: u32, field: u64) -> &AtomicU64 {
        self.word(layout::CIRCULARS, slot as usize, field)
    }

    #[inline]
    pub(super) fn event(&self, n: u64) -> &[AtomicU64; 6] {
        self.at(position(layout::EVENTS.offset) + position(n & u64::from(self.events - 1)) * 48)
    }

    /// The entry in `slot`. The capacity is a power of two, so the masked slot is always in bounds.
    #[inline]
    pub(super) fn entry(&self, slot: u32) -> Record<'_> {
        Words(self.at(position(layout::entries(0).offset) + (slot & (self.capacity - 1)) as usize * 64))
    }

    /// Writes a text into the field of a record, truncated to the field and padded with zeros.
    pub(super) fn set_text(&self, table: Table, record: usize, field: u64, bytes_max: usize, text: &[u8]) {
        for (at, word) in words_of(text, bytes_max) {
            self.word(table, record, field + at).store(word, Relaxed);
        }
    }

    pub(super) fn has_text(&self, table: Table, record: usize, field: u64, bytes_max: usize, text: &[u8]) -> bool {
        words_of(text, bytes_max).all(|(at, word)| self.word(table, record, field + at).load(Relaxed) == word)
    }

    /// Increments a header counter that may also change without the lock.
    pub(super) fn count(&self, field: u64) {
        self.header(field).fetch_add(1, Relaxed);
    }
}

/// At most `bytes_max` bytes of a text, up to a character boundary.
pub(super) fn beginning(text: &str, bytes_max: usize) -> &[u8] {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // `end` is within the text. The user's program must not panic anyway.
    text.as_bytes().get(..end).unwrap_or_default()
}

/// The words of a text, truncated to its field and padded with zeros: at least one NUL.
pub(super) fn words_of(text: &[u8], bytes_max: usize) -> impl Iterator<Item = (u64, u64)> {
    let text = text.get(..bytes_max - 1).unwrap_or(text);
    (0..bytes_max).step_by(8).map(move |at| {
        let mut word = [0; 8];
        // Words behind the end of the text are zeros.
        word.iter_mut().zip(text.get(at..).unwrap_or_default()).for_each(|(to, from)| *to = *from);
        (at as u64, u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_wraps_instead_of_leading_outside() {
        let words = Mapped::<AtomicU64>::reserve(512).expect("4 KiB");
        words.at(3).store(7, Relaxed);
        assert_eq!(words.at(512 + 3).load(Relaxed), 7);
        assert!(ptr::eq(words.at(usize::MAX), words.at(511)));
    }

    #[test]
    fn a_pair_has_both_halves() {
        assert_eq!((low(pair(1, 2)), high(pair(1, 2))), (1, 2));
    }
}
