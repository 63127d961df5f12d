//! Entries that were live at a free-all: possible leaks.
//!
//! A free-all is still one event per row. The row records how many entries were live, and an entry is copied to a separate table only when
//! its slot is cleared. If the table is full, the row's count shows how many are missing.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{LEFT, entry, header, row};

use super::event::{Event, creation_of, row_of};
use super::memory::{Record, Row, low};
use super::state::WriterState;

impl WriterState {
    /// Records the live entries of a row that is freed as a whole. Called within this event, after the epoch was set.
    pub(super) fn note_left(&self, event: Event, row: Row<'_>, count: u64, bytes: u64) {
        if count == 0 {
            return;
        }
        row.set(row::LEFT_BYTES, bytes);
        row.set(row::LEFT_COUNT, count);
        row.set(row::LEFT_TIME, event.time);
        row.add(row::LEFT_ALL_BYTES, bytes);
        row.add(row::LEFT_ALL_COUNT, count);
    }

    /// Raises the counts of a row to those of its dead entries, if the incomplete event is the row's free-all: it may have been interrupted
    /// before it counted them. A reader of an incomplete event does the same.
    pub(super) fn raise_left(&self, event: Event, number: usize) {
        let row = self.region.row(number);
        if row.get(row::EPOCH) != event.n {
            return;
        }
        let used = |field| low(self.region.header(field).load(Relaxed));
        let listed = (0..used(header::ENTRIES_USED).min(self.region.capacity)).map(|slot| self.region.entry(slot));
        let stored = (0..used(header::LEFT_USED).min(LEFT.records)).map(|record| self.region.record(LEFT, record as usize));
        let (mut count, mut bytes) = (0, 0);
        for record in listed.chain(stored).filter(|record| row_of(*record) == number) {
            if creation_of(record).is_some_and(|creation| creation > row.get(row::BEGUN)) {
                count += 1;
                bytes += record.get(entry::SIZE);
            }
        }
        row.set(row::LEFT_ALL_COUNT, row.get(row::LEFT_ALL_COUNT).max(count));
        row.set(row::LEFT_ALL_BYTES, row.get(row::LEFT_ALL_BYTES).max(bytes));
    }

    /// Stores a listed entry that died with its row and is about to be cleared.
    pub(super) fn keep_left(&self, record: Record<'_>) {
        let used = self.region.header(header::LEFT_USED);
        let next = low(used.load(Relaxed));
        let belongs = creation_of(record).is_some_and(|creation| creation > self.region.row(row_of(record)).get(row::BEGUN));
        if next >= LEFT.records || !belongs || self.is_hosted() {
            return;
        }
        let place: Record<'_> = self.region.record(LEFT, next as usize);
        for offset in (entry::STATE..=entry::THREAD).step_by(8) {
            place.set(offset, record.get(offset));
        }
        // The count publishes the record; the reader reads the count first. If a thread dies before it frees the entry's slot, the entry is
        // in both tables, with the same creation event.
        used.store(u64::from(next) + 1, Release);
    }

    /// Reduces the records of a row to numbers, because the row gets another allocator.
    pub(super) fn forget_left(&self, row: Row<'_>) {
        self.add_to_header(header::LEFT_FORGOTTEN_BYTES, row.get(row::LEFT_ALL_BYTES));
        self.add_to_header(header::LEFT_FORGOTTEN_COUNT, row.get(row::LEFT_ALL_COUNT));
    }
}

const _: () = assert!(LEFT.stride == 64);
