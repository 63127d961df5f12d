//! The peak of each row, and the buffers that were live at the peak.
//!
//! The members of a row's peak are the entries with peak epoch < creation <= peak event. While they are in the table, they are found there.
//! Before a member is freed, it is copied to a table of peak copies, with the event of the peak. A new peak makes the old copies obsolete
//! at no cost.

use std::sync::atomic::Ordering::Relaxed;

use crate::layout::{PEAK_COPIES, entry, row};

use super::event::{Event, creation_of, row_of, stack_of};
use super::memory::{Record, Row, low, pair};
use super::state::WriterState;

/// Number of positions that are tried for a record before it is dropped, and number of members that are then dropped without a search. A
/// full table of copies must not slow down the program.
const TRIES: u32 = 4;
const REST: u32 = 16;

impl WriterState {
    /// Updates the peaks after a row has grown to these figures.
    #[inline]
    pub(super) fn raise_peaks(&self, event: Event, row: Row<'_>, live: u64, allocated: u64) {
        if allocated > row.get(row::PEAK_ALLOCATED) {
            row.set(row::PEAK_ALLOCATED_TIME, event.time);
            row.set(row::PEAK_ALLOCATED_EVENT, event.n);
            row.publish(row::PEAK_ALLOCATED, allocated);
        }
        // The inner peak is never above the other, and is in the cache line that the event uses already.
        if live <= row.get(row::INNER_PEAK) {
            return;
        }
        if live > row.get(row::PEAK) {
            // The figure itself is stored last. After a kill, a reader that finds the old figure finds it below the recount, and uses the
            // live entries as the peak. A reader that finds the new figure finds everything that belongs to it.
            row.publish(row::PEAK_EVENT, event.n);
            row.set(row::PEAK_TIME, event.time);
            row.set(row::PEAK_EPOCH, row.get(row::EPOCH));
            row.set(row::PEAK_UNLISTED_BYTES, row.get(row::UNLISTED_BYTES));
            row.set(row::PEAK_UNLISTED_COUNT, row.get(row::UNLISTED_COUNT));
            row.set(row::PEAK_LOST_BYTES, 0);
            row.set(row::PEAK_LOST_COUNT, 0);
            row.publish(row::PEAK, live);
        }
        row.publish(row::INNER_PEAK, live);
    }

    /// Copies a listed entry before it is freed, if it belongs to its row's peak.
    #[inline]
    pub(super) fn copy_for_peak(&self, record: Record<'_>) {
        let row = self.region.row(row_of(record));
        let peak_event = row.get(row::PEAK_EVENT);
        let Some(creation) = creation_of(record) else { return };
        if creation > peak_event || creation <= row.get(row::PEAK_EPOCH) {
            return;
        }
        let Some(copy) = self.free_peak_copy() else {
            // Only its bytes and count are recorded. If the process is killed between these stores and the entry's FREE, the entry is
            // counted twice. A reader of an odd ledger detects this: the sum exceeds the peak by this entry.
            row.add(row::PEAK_LOST_BYTES, record.get(entry::SIZE));
            row.add(row::PEAK_LOST_COUNT, 1);
            return;
        };
        copy.withdraw(entry::PEAK_EVENT, 0);
        for offset in [entry::STATE, entry::ADDRESS, entry::SIZE, entry::TIME, entry::PER_BANK, entry::ROW] {
            copy.set(offset, record.get(offset));
        }
        // The peak event replaces the stack, and the stack replaces the references.
        copy.set(entry::TAG, pair(low(record.get(entry::TAG)), stack_of(record)));
        copy.publish(entry::PEAK_EVENT, peak_event);
    }

    /// Returns a copy that no peak needs, if one is found quickly.
    fn free_peak_copy(&self) -> Option<Record<'_>> {
        if let Some(rest) = self.peak_copy_rest.load(Relaxed).checked_sub(1) {
            self.peak_copy_rest.store(rest, Relaxed);
            return None;
        }
        let first = self.peak_copy_cursor.load(Relaxed);
        for number in (0..TRIES).map(|step| first.wrapping_add(step)) {
            let copy = self.region.record(PEAK_COPIES, number as usize);
            let peak_event = copy.get(entry::PEAK_EVENT);
            if peak_event == 0 || peak_event != self.region.row(row_of(copy)).get(row::PEAK_EVENT) {
                self.peak_copy_cursor.store(number.wrapping_add(1), Relaxed);
                return Some(copy);
            }
        }
        self.peak_copy_cursor.store(first.wrapping_add(TRIES), Relaxed);
        self.peak_copy_rest.store(REST, Relaxed);
        None
    }
}
