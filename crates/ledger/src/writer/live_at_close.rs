//! What a free-all found live: the candidates for leaks.
//!
//! Closing stays one event a row: the row notes how many there were, and each entry is copied to a table of its own only when
//! its slot is cleared. Where that table is full, the row's count says how many are missing there.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{LEFT, entry, header, row};

use super::{
    books::Books,
    event::{Event, creation_of, row_of},
    memory::{Record, Row, low},
};

impl Books {
    /// A row was freed as a whole; inside that event, after its epoch.
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

    /// A listed entry that died with its row is about to go.
    pub(super) fn keep_left(&self, record: Record<'_>) {
        let used = self.region.header(header::LEFT_USED);
        let next = low(used.load(Relaxed));
        let belongs = creation_of(record).is_some_and(|creation| creation > self.region.row(row_of(record)).get(row::BEGUN));
        if next >= LEFT.records || !belongs || self.is_hosted() {
            return;
        }
        let place = self.region.left(next as usize);
        for offset in (entry::STATE..=entry::THREAD).step_by(8) {
            place.set(offset, record.get(offset));
        }
        // The count publishes the record: pairs with the reader, which reads the count first. A thread that dies before the entry's
        // FREE leaves it in both places, under one creation event.
        used.store(u64::from(next) + 1, Release);
    }

    /// The row gets another allocator: what the old one left is only a number from now on.
    pub(super) fn forget_left(&self, row: Row<'_>) {
        self.add_to_header(header::LEFT_FORGOTTEN_BYTES, row.get(row::LEFT_ALL_BYTES));
        self.add_to_header(header::LEFT_FORGOTTEN_COUNT, row.get(row::LEFT_ALL_COUNT));
    }
}

const _: () = assert!(LEFT.stride == 64);
