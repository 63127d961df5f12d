//! Free slots: first the returned ones, which the index chains, then the unused ones. Also private records for buffers that the table
//! cannot list.
//!
//! A slot below the capacity is an entry of the region. A slot from the capacity on is *unlisted*: a record of the same format in private
//! memory, so that totals stay exact when the table is full.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::{entry, header};

use super::index::{Index, SLOTS_MAX};
use super::memory::{Lazy, Record, Words, low};
use super::state::WriterState;

/// Unlisted records that are mapped together: 16 MiB, of which only touched pages use memory.
const CHUNK_RECORDS: usize = 1 << 18;
const CHUNKS: usize = SLOTS_MAX as usize / CHUNK_RECORDS;

/// Records in private memory.
#[derive(Debug)]
pub(super) struct Overflow {
    chunks: [Lazy<[AtomicU64; 8], CHUNK_RECORDS>; CHUNKS],
    /// Number of records that were ever used.
    pub(super) used: AtomicU32,
    /// First free record + 1; 0 for none. The address field of a free record has the next one.
    free: AtomicU32,
}

impl Overflow {
    pub(super) const fn new() -> Self {
        Self { chunks: [const { Lazy::new() }; CHUNKS], used: AtomicU32::new(0), free: AtomicU32::new(0) }
    }

    /// Returns the record, if it was ever used.
    pub(super) fn record(&self, number: u32) -> Option<Record<'_>> {
        self.chunks.get(number as usize / CHUNK_RECORDS)?.get(number as usize).map(Words)
    }

    /// Takes a free record with a number below `end`; `None` if there is no memory.
    fn take(&self, end: u32) -> Option<u32> {
        if let Some(number) = self.free.load(Relaxed).checked_sub(1) {
            let next = self.record(number).map_or(0, |record| low(record.get(entry::ADDRESS)));
            self.free.store(next, Relaxed);
            return Some(number);
        }
        let number = self.used.load(Relaxed);
        if number >= end {
            return None;
        }
        self.chunks.get(number as usize / CHUNK_RECORDS)?.reserve()?;
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
}

impl WriterState {
    #[inline]
    pub(super) fn is_listed(&self, slot: u32) -> bool {
        slot < self.region.capacity
    }

    /// Returns the record in a slot, listed or not.
    #[inline]
    pub(super) fn record_in(&self, slot: u32) -> Record<'_> {
        match slot.checked_sub(self.region.capacity) {
            None => self.region.entry(slot),
            // For an invalid number this returns the entry of the masked slot, which is at least our own memory.
            Some(number) => self.overflow.record(number).unwrap_or_else(|| self.region.entry(slot)),
        }
    }

    /// Takes a slot for a new entry: a returned, an unused or an unlisted one. `None` if there is no memory.
    #[inline]
    pub(super) fn take_slot(&self) -> Option<u32> {
        if let Some(slot) = self.index.take_free() {
            return Some(slot);
        }
        let used = self.region.header(header::ENTRIES_USED);
        let next = low(used.load(Relaxed));
        if next < self.region.capacity {
            // A reader copies this many slots, so it is published before the slot's first use.
            used.store(u64::from(next + 1), Release);
            return Some(next);
        }
        if self.sweep_for_a_slot() {
            return self.index.take_free();
        }
        let unlisted = Index::slots(self.region.capacity).min(SLOTS_MAX) - self.region.capacity;
        self.overflow.take(unlisted).map(|number| number + self.region.capacity)
    }

    /// Returns the slot of an entry that was freed.
    #[inline]
    pub(super) fn give_slot(&self, slot: u32) {
        match slot.checked_sub(self.region.capacity) {
            None => self.index.give_free(slot),
            Some(number) => self.overflow.give(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_records_are_used_again() {
        let overflow = Overflow::new();
        assert_eq!([overflow.take(9), overflow.take(9)], [Some(0), Some(1)]);
        overflow.give(0);
        overflow.give(1);
        assert_eq!([overflow.take(9), overflow.take(9), overflow.take(3), overflow.take(3)], [Some(1), Some(0), Some(2), None]);
        assert!(overflow.record(u32::MAX).is_none());
    }
}
