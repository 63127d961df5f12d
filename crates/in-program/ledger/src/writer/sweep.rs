//! Frees a whole row in one event, and sweeps its dead entries afterwards.
//!
//! An entry is dead if its creation is not later than its row's epoch. Dead entries keep their slots and index cells until an allocation
//! sweeps them. Each allocation checks [`SWEEP_PER_ALLOCATION`] slots. An index hit on a dead entry counts as a miss.

use std::sync::atomic::Ordering::Relaxed;

use crate::layout::{Op, entry, header, row};

use super::event::{EventBody, creation_of, row_of};
use super::index;
use super::memory::{Record, low};
use super::repair::COUNTED;
use super::state::WriterState;

/// Slots that each allocation checks while there are dead entries.
const SWEEP_PER_ALLOCATION: u32 = 2;
/// Slots that are checked when the table is full, before a buffer becomes unlisted. A service's ledger checks all slots.
const SWEEP_WHEN_FULL: u32 = 1024;

impl WriterState {
    /// Whether the entry is live: by its state and by its row's epoch.
    pub(super) fn is_live(&self, record: Record<'_>) -> bool {
        creation_of(record).is_some_and(|creation| creation > self.region.row(row_of(record)).get(row::EPOCH))
    }

    /// Frees all entries of a row with one event.
    pub(super) fn free_row(&self, time: u64, number: usize) {
        let event = self.begin(time);
        let row = self.region.row(number);
        let (count, bytes) = (row.count(), row.get(row::LIVE_BYTES));
        let fact = EventBody { row: number, size: bytes, ..EventBody::default() };
        self.dead.store(self.dead.load(Relaxed).wrapping_add(count), Relaxed);
        // This store makes all entries dead. The figures follow; if they are missing, they are counted again.
        row.publish(row::EPOCH, event.n);
        self.note_dead_circulars(number);
        self.note_left(event, row, count, bytes);
        for field in COUNTED {
            row.set(field, 0);
        }
        row.add(row::FREES, count);
        self.subtract_from_header(header::LIVE_ENTRIES, count);
        self.subtract_from_header(header::LIVE_BYTES, bytes);
        self.end(event, Op::FreeAll, &fact);
    }

    /// Does one allocation's share of the sweep, within an event.
    #[inline]
    pub(super) fn sweep_some(&self) {
        if self.dead.load(Relaxed) != 0 {
            for _ in 0..SWEEP_PER_ALLOCATION {
                self.sweep_next();
            }
        }
    }

    /// Sweeps further because the table is full. Returns whether a slot became free.
    pub(super) fn sweep_for_a_slot(&self) -> bool {
        let slots = if self.is_hosted() { self.region.capacity } else { SWEEP_WHEN_FULL };
        self.dead.load(Relaxed) != 0 && (0..slots).any(|_| self.sweep_next().is_some_and(|slot| self.is_listed(slot)))
    }

    /// Checks the next slot, and returns it if a dead entry was cleared from it.
    fn sweep_next(&self) -> Option<u32> {
        let listed = low(self.region.header(header::ENTRIES_USED).load(Relaxed));
        let all = listed.saturating_add(self.overflow.used.load(Relaxed));
        let cursor = self.sweep_cursor.load(Relaxed);
        let at = if cursor < all { cursor } else { 0 };
        self.sweep_cursor.store(at + 1, Relaxed);
        // Unlisted slots start at the capacity, independent of the number of used listed slots.
        let slot = if at < listed { at } else { at - listed + self.region.capacity };
        let record = self.record_in(slot);
        if creation_of(record).is_none() || self.is_live(record) {
            return None;
        }
        self.clear_dead(slot);
        Some(slot)
    }

    /// Clears the slot of a dead entry, within an event.
    pub(super) fn clear_dead(&self, slot: u32) {
        let record = self.record_in(slot);
        let hash = index::hash(row_of(record), record.get(entry::ADDRESS));
        self.index.remove(hash, slot);
        if self.is_listed(slot) {
            self.keep_left(record);
        }
        self.clear_slot(slot, record);
        self.dead.store(self.dead.load(Relaxed).saturating_sub(1), Relaxed);
    }
}
