//! Sums over the entries, to check or replace the writer's figures.

use ttmon_model::ledger::LedgerRow;

use super::entry::Entry;
use super::numbers::{kind_number, row_index};
use super::peak::Span;
use super::totals::Figures;

/// The sums of the entries of a row.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    count: u64,
    bytes: u64,
}

impl Sum {
    #[inline]
    pub(super) fn add(&mut self, entry: &Entry) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(entry.size);
    }
}

/// Whether the sums of the entries equal the writer's figures.
pub(super) fn agree(figures: &Figures, sums: &[Sum]) -> bool {
    let of_row = |allocator: u16, row: &LedgerRow| {
        // A row without entries may have no sum.
        let sum = sums.get(row_index(allocator, kind_number(row.kind))).copied().unwrap_or_default();
        row.used == sum.bytes.saturating_add(row.unlisted_bytes) && row.count == sum.count.saturating_add(row.unlisted_count)
    };
    figures.ledger.allocators.iter().all(|allocator| allocator.rows.iter().all(|row| of_row(allocator.slot, row)))
}

/// Replaces inconsistent figures by the sums of the entries.
pub(super) fn count(figures: &mut Figures, sums: &[Sum], entries: &[Entry]) {
    let allocated = allocated(figures, entries);
    let (events, last_time) = (figures.ledger.events, figures.ledger.last_time);
    for allocator in &mut figures.ledger.allocators {
        for row in &mut allocator.rows {
            let index = row_index(allocator.slot, kind_number(row.kind));
            let record = &mut figures.rows[index];
            // As above.
            let sum = sums.get(index).copied().unwrap_or_default();
            row.used = sum.bytes.saturating_add(row.unlisted_bytes);
            row.count = sum.count.saturating_add(row.unlisted_count);
            let occupied = allocated.get(index).map_or(0, |bytes| bytes.saturating_add(record.unlisted_allocated));
            row.allocated = row.allocated.map(|_| occupied);
            row.peak_allocated = row.peak_allocated.max(occupied);
            if row.used < row.peak || row.used == 0 {
                continue;
            }
            if !figures.is_stalled {
                row.peak = row.used;
                continue;
            }
            // Only the incomplete event can have made this peak, and it may have recorded it in part. The peak set is the live entries.
            if row.used > row.peak {
                row.peak_time = last_time;
            }
            row.peak = row.used;
            record.peak_unlisted = (row.unlisted_count, row.unlisted_bytes);
            record.peak_lost = (0, 0);
            record.peak_span = Span { epoch: record.epoch, event: events + 1 };
            record.peak_live = (sum.count, sum.bytes);
        }
    }
    figures.settle_marks();
}

/// Allocated bytes of the listed entries, by row.
fn allocated(figures: &Figures, entries: &[Entry]) -> Vec<u64> {
    let mut geometries = vec![None; figures.rows.len()];
    for allocator in &figures.ledger.allocators {
        for row in &allocator.rows {
            geometries[row_index(allocator.slot, kind_number(row.kind))] = allocator.geometry_of(row.kind);
        }
    }
    let mut allocated = vec![0_u64; figures.rows.len()];
    for entry in entries {
        let index = row_index(entry.allocator, entry.kind);
        allocated[index] = allocated[index].saturating_add(entry.allocated(geometries[index]));
    }
    allocated
}
