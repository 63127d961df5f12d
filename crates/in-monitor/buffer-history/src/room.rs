//! The space in a bank: the buffers that prevented a refused request.

use ttmon_ledger_reader::Lines;
use ttmon_model::Kind;
use ttmon_model::event::{Refused, clash_addresses};
use ttmon_model::ledger::{BufferKind, Ledger, LedgerGeometry, LedgerRefusal};
use ttmon_model::room::{HeldByLine, Occupied, SmallRegion, Window, cheapest_window};

use crate::live::{LiveSet, RowKey};

/// Adds the buffers that prevented a refused request to its details. `live` has the buffers at that event.
pub(crate) fn add_room(refused: &mut LedgerRefusal, live: &LiveSet, ledger: &Ledger, lines: &Lines) {
    match refused.refusal.what {
        Refused::OutOfMemory => {
            let geometry = geometry(ledger, (refused.slot, refused.refusal.kind), Some(refused.generation));
            refused.refusal.bank_bytes = geometry.map_or(0, |geometry| geometry.bank_bytes);
            refused.refusal.window = geometry.and_then(|geometry| window(refused, live, geometry, lines));
        }
        Refused::Clash => add_clash(refused, live, ledger, lines),
    }
}

/// Returns the memory layout of a row. Returns `None` if it is unknown, or if the slot now belongs to another generation.
pub(crate) fn geometry(ledger: &Ledger, (slot, kind): RowKey, generation: Option<u32>) -> Option<LedgerGeometry> {
    let allocator = ledger.allocators.iter().find(|allocator| allocator.slot == slot)?;
    allocator.geometry_of(kind).filter(|_| generation.is_none_or(|generation| allocator.generation == generation))
}

fn window(refused: &LedgerRefusal, live: &LiveSet, geometry: LedgerGeometry, lines: &Lines) -> Option<Window> {
    let refusal = &refused.refusal;
    let mut occupied = Vec::new();
    let mut taken = 0_u64;
    for (address, buffer) in live.row((refused.slot, refusal.kind))? {
        let bytes = u64::from(buffer.per_bank);
        taken = taken.saturating_add(bytes);
        occupied.push(Occupied { start: address.checked_sub(geometry.base)?, bytes, line: lines.line(buffer.stack).cloned() });
    }
    // The result is used only if it agrees with the allocator's own statistics.
    if taken.checked_add(refusal.free_per_bank) != Some(geometry.bank_bytes) {
        return None;
    }
    cheapest_window(occupied, geometry.bank_bytes, refusal.per_bank)
}

/// Adds the buffers that prevented circular buffers: those below their end, because addresses are the same on every core.
fn add_clash(refused: &mut LedgerRefusal, live: &LiveSet, ledger: &Ledger, lines: &Lines) {
    let (slot, generation) = (refused.slot, refused.generation);
    let row = |kind| (slot, BufferKind::Of(kind));
    let geometry_of = |kind| geometry(ledger, row(kind), Some(generation));
    let l1 = geometry_of(Kind::L1);
    let l1_small = geometry_of(Kind::L1Small).and_then(|small| {
        let used = live.row(row(Kind::L1Small))?.map(|(_, buffer)| u64::from(buffer.per_bank));
        Some(SmallRegion { bytes: small.bank_bytes, used: used.fold(0, u64::saturating_add) })
    });
    let window = clash_addresses(&refused.refusal.message).and_then(|(first, end)| {
        let rows = [Kind::L1, Kind::L1Small].map(|kind| live.row(row(kind)));
        let [Some(large), Some(small)] = rows else { return None };
        let below = large.chain(small).filter(|(address, _)| *address < end);
        let found = HeldByLine::collect(below.map(|(_, buffer)| (lines.line(buffer.stack), 1, buffer.per_bank.into())));
        let bytes = found.iter().fold(0_u64, |sum, line| sum.saturating_add(line.bytes));
        let start = l1.and_then(|l1| first.checked_sub(l1.base)).unwrap_or(first);
        (!found.is_empty()).then_some(Window { start, bytes, lines: found })
    });
    let bank_bytes = l1.map_or(0, |l1| l1.bank_bytes);
    (refused.refusal.bank_bytes, refused.refusal.window, refused.refusal.l1_small) = (bank_bytes, window, l1_small);
}
