//! The space in a bank: the free blocks at an event, and the buffers that prevented a refused request.

use ttmon_collect::Lines;
use ttmon_ledger::layout::{Refused, kind};
use ttmon_ledger_reader::{Failure, Geometry, Totals};
use ttmon_model::event::clash_addresses;
use ttmon_model::room::{HeldByLine, Occupied, SmallRegion, Window, cheapest_window};

use crate::live::{LiveSet, RowKey};

/// Additional information about a refused request, besides the ledger's own record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes of a bank, or `None` if the allocator is gone.
    pub bank_bytes: Option<u64>,
    /// The buffers to release, if the live buffers are known.
    pub window: Option<Window>,
    /// For a clash: the part of L1 for small buffers.
    pub l1_small: Option<SmallRegion>,
}

/// Returns the buffers that prevented a refused request. `live` has the buffers at that event.
pub(crate) fn room(failure: &Failure, live: &LiveSet, totals: &Totals, lines: &Lines) -> Room {
    let geometry = geometry(totals, (failure.allocator, failure.kind), Some(failure.generation));
    let bank_bytes = geometry.map(|geometry| geometry.bank_bytes);
    match failure.what {
        Refused::OutOfMemory => {
            let window = geometry.and_then(|geometry| window(failure, live, geometry, lines));
            Room { bank_bytes, window, l1_small: None }
        }
        Refused::Clash => clash(failure, live, totals, lines),
    }
}

/// Returns the memory layout of a row. Returns `None` if it is unknown, or if the slot now belongs to another generation.
pub(crate) fn geometry(totals: &Totals, (slot, kind): RowKey, generation: Option<u32>) -> Option<Geometry> {
    let allocator = totals.allocators.iter().find(|allocator| allocator.slot == slot)?;
    // A kind without buffers has no row.
    let geometry = allocator.geometry.get(usize::from(kind)).copied().flatten();
    geometry.filter(|_| generation.is_none_or(|generation| allocator.generation == generation))
}

fn window(failure: &Failure, live: &LiveSet, geometry: Geometry, lines: &Lines) -> Option<Window> {
    let mut occupied = Vec::new();
    let mut taken = 0_u64;
    for (address, buffer) in live.row((failure.allocator, failure.kind))? {
        let bytes = u64::from(buffer.per_bank);
        taken = taken.saturating_add(bytes);
        occupied.push(Occupied { start: address.checked_sub(geometry.base)?, bytes, line: lines.line(buffer.stack).cloned() });
    }
    // The result is used only if it agrees with the allocator's own statistics.
    if taken.checked_add(failure.free_per_bank) != Some(geometry.bank_bytes) {
        return None;
    }
    cheapest_window(occupied, geometry.bank_bytes, failure.per_bank)
}

/// Returns the buffers that prevented circular buffers: those below their end, because addresses are the same on every core.
fn clash(failure: &Failure, live: &LiveSet, totals: &Totals, lines: &Lines) -> Room {
    let geometry_of = |kind| geometry(totals, (failure.allocator, kind), Some(failure.generation));
    let l1 = geometry_of(kind::L1);
    let l1_small = geometry_of(kind::L1_SMALL).and_then(|small| {
        let used = live.row((failure.allocator, kind::L1_SMALL))?.map(|(_, buffer)| u64::from(buffer.per_bank));
        Some(SmallRegion { bytes: small.bank_bytes, used: used.fold(0, u64::saturating_add) })
    });
    let in_the_way = clash_addresses(&failure.message).and_then(|(first, end)| {
        let rows = [kind::L1, kind::L1_SMALL].map(|kind| live.row((failure.allocator, kind)));
        let [Some(large), Some(small)] = rows else { return None };
        let below = large.chain(small).filter(|(address, _)| *address < end);
        let found = HeldByLine::collect(below.map(|(_, buffer)| (lines.line(buffer.stack), 1, buffer.per_bank.into())));
        let bytes = found.iter().fold(0_u64, |sum, line| sum.saturating_add(line.bytes));
        let start = l1.and_then(|l1| first.checked_sub(l1.base)).unwrap_or(first);
        (!found.is_empty()).then_some(Window { start, bytes, lines: found })
    });
    Room { bank_bytes: l1.map(|l1| l1.bank_bytes), window: in_the_way, l1_small }
}

/// Returns the largest free block of a bank with these buffers (address, bytes), or `None` if they do not fit into the bank.
pub fn largest_free(buffers: impl Iterator<Item = (u64, u64)>, geometry: Geometry) -> Option<u64> {
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for (address, bytes) in buffers {
        let start = address.checked_sub(geometry.base)?;
        taken.push((start, start.checked_add(bytes).filter(|end| *end <= geometry.bank_bytes && bytes > 0)?));
    }
    taken.sort_unstable();
    let (mut largest, mut free_from) = (0, 0);
    for (start, end) in taken {
        largest = largest.max(start.checked_sub(free_from)?);
        free_from = end;
    }
    Some(largest.max(geometry.bank_bytes - free_from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_free_block_is_the_widest_gap() {
        let bank = Geometry { banks: 8, alignment: 1, bank_bytes: 100, base: 1000 };
        let largest = |buffers: &[(u64, u64)]| largest_free(buffers.iter().copied(), bank);
        assert_eq!(largest(&[]), Some(100));
        assert_eq!(largest(&[(1030, 10), (1000, 10)]), Some(60));
        assert_eq!(largest(&[(1020, 70), (1000, 5)]), Some(15));
        assert_eq!(largest(&[(1000, 100)]), Some(0));
        assert_eq!(largest(&[(999, 10)]), None, "before the bank");
        assert_eq!(largest(&[(1090, 11)]), None, "behind the bank");
        assert_eq!(largest(&[(1000, 20), (1010, 5)]), None, "two on the same bytes");
        assert_eq!(largest(&[(1000, 0)]), None, "the bytes in a bank are not known");
    }
}
