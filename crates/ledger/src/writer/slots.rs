//! Which slots are free: those given back, then those never used; and private records for what the table cannot list.
//!
//! A slot below the capacity is an entry of the region. One from the capacity on is *unlisted*: a record of the same form
//! in private memory, so that totals stay exact when the table is full.

use std::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::layout::{entry, header};

use super::{
    books::Books,
    memory::{self, Backing, Record, Words, high, low, pair},
};

/// Unlisted records mapped together: 16 MiB, of which only touched pages cost.
const CHUNK_RECORDS: u32 = 1 << 18;
const CHUNKS: usize = 64;

/// Slots given back, newest on top: 32 bits each.
#[derive(Debug)]
pub(super) struct FreeList {
    slots: Words,
    length: AtomicU32,
}

impl FreeList {
    pub(super) fn reserve(capacity: u32) -> Option<Self> {
        Some(Self { slots: Words::reserve(capacity as usize / 2)?, length: AtomicU32::new(0) })
    }

    pub(super) fn push(&self, slot: u32) {
        let length = self.length.load(Relaxed);
        let word = self.slots.get(length as usize / 2);
        let changed = if length.is_multiple_of(2) { pair(slot, high(word)) } else { pair(low(word), slot) };
        self.slots.set(length as usize / 2, changed);
        self.length.store(length + 1, Relaxed);
    }

    pub(super) fn pop(&self) -> Option<u32> {
        let last = self.length.load(Relaxed).checked_sub(1)?;
        self.length.store(last, Relaxed);
        let word = self.slots.get(last as usize / 2);
        Some(if last.is_multiple_of(2) { low(word) } else { high(word) })
    }

    pub(super) fn clear(&self) {
        self.length.store(0, Relaxed);
    }

    pub(super) fn words(&self) -> &Words {
        &self.slots
    }
}

/// Records in private memory.
#[derive(Debug)]
pub(super) struct Overflow {
    chunks: [AtomicPtr<[AtomicU64; 8]>; CHUNKS],
    /// Records ever used.
    pub(super) used: AtomicU32,
    /// First free one + 1; each free one names the next in its address. 0: none.
    free: AtomicU32,
}

impl Overflow {
    pub(super) const fn new() -> Self {
        Self { chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS], used: AtomicU32::new(0), free: AtomicU32::new(0) }
    }

    /// The record, if it was ever used.
    pub(super) fn record(&self, number: u32) -> Option<Record<'_>> {
        let chunk = self.chunks.get((number / CHUNK_RECORDS) as usize)?.load(Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a chunk is a mapping of CHUNK_RECORDS aligned records and the index is below that; it stays mapped while its
        // writer lives; any bits are valid; access is atomic, and private to the holder of the lock.
        Some(Record(unsafe { &*chunk.add((number % CHUNK_RECORDS) as usize) }))
    }

    /// A free record's number; `None`: no memory.
    fn take(&self) -> Option<u32> {
        if let Some(number) = self.free.load(Relaxed).checked_sub(1) {
            let next = self.record(number).map_or(0, |record| low(record.get(entry::ADDRESS)));
            self.free.store(next, Relaxed);
            return Some(number);
        }
        let number = self.used.load(Relaxed);
        let chunk = self.chunks.get((number / CHUNK_RECORDS) as usize)?;
        if chunk.load(Relaxed).is_null() {
            chunk.store(memory::map(CHUNK_RECORDS as usize * 64, Backing::Private)?.as_ptr().cast(), Release);
        }
        self.used.store(number + 1, Relaxed);
        Some(number)
    }

    fn give(&self, number: u32) {
        if let Some(record) = self.record(number) {
            record.set(entry::ADDRESS, u64::from(self.free.load(Relaxed)));
            self.free.store(number + 1, Relaxed);
        }
    }

    pub(super) fn clear_free(&self) {
        self.free.store(0, Relaxed);
    }

    /// Unmaps it all.
    ///
    /// # Safety
    /// Nobody uses a record any more.
    pub(super) unsafe fn release(&self) {
        for chunk in &self.chunks {
            if let Some(start) = ptr::NonNull::new(chunk.swap(ptr::null_mut(), Relaxed)) {
                // SAFETY: a whole chunk as `take` mapped it; the caller's promise.
                unsafe { memory::unmap(start.cast(), CHUNK_RECORDS as usize * 64) };
            }
        }
    }
}

impl Books {
    pub(super) fn is_listed(&self, slot: u32) -> bool {
        slot < self.region.capacity
    }

    /// The record in a slot, listed or not.
    pub(super) fn record_in(&self, slot: u32) -> Record<'_> {
        match slot.checked_sub(self.region.capacity) {
            None => self.region.entry(slot),
            // A number that was never used is nobody's: the masked entry is at least memory of ours.
            Some(number) => self.overflow.record(number).unwrap_or_else(|| self.region.entry(slot)),
        }
    }

    /// A slot for a new entry: given back, never used, unlisted. `None`: no memory.
    pub(super) fn take_slot(&self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let used = self.region.header(header::ENTRIES_USED);
        let next = low(used.load(Relaxed));
        if next < self.region.capacity {
            // A reader copies up to here: published before the slot's first use.
            used.store(u64::from(next + 1), Release);
            return Some(next);
        }
        if self.sweep_for_a_slot() {
            return self.free.pop();
        }
        self.overflow.take().map(|number| number + self.region.capacity)
    }

    /// The slot's entry is gone.
    pub(super) fn give_slot(&self, slot: u32) {
        match slot.checked_sub(self.region.capacity) {
            None => self.free.push(slot),
            Some(number) => self.overflow.give(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_slot_comes_first() {
        let list = FreeList::reserve(1024).expect("4 KiB");
        for slot in [5, 9, 1023] {
            list.push(slot);
        }
        assert_eq!(list.pop(), Some(1023));
        list.push(7);
        assert_eq!([list.pop(), list.pop(), list.pop(), list.pop()], [Some(7), Some(9), Some(5), None]);
        // SAFETY: the last use.
        unsafe { list.words().release() };
    }

    #[test]
    fn unlisted_records_are_used_again() {
        let overflow = Overflow::new();
        assert_eq!([overflow.take(), overflow.take()], [Some(0), Some(1)]);
        overflow.give(0);
        overflow.give(1);
        assert_eq!([overflow.take(), overflow.take(), overflow.take()], [Some(1), Some(0), Some(2)]);
        assert!(overflow.record(u32::MAX).is_none());
        // SAFETY: the last use.
        unsafe { overflow.release() };
    }
}
