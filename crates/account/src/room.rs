//! What was live when a request was refused: the list at the end, with the recorder's later events taken back.

use std::collections::HashMap;

use ttmon_ledger::layout::Op;
use ttmon_ledger::reader::{Failure, Geometry, Listing, Recorded};
use ttmon_model::room::{Occupied, Window, cheapest_window};
use ttmon_source::Lines;

/// What a bank had, and the fewest bytes whose release would have made room; `None` where it is not known.
pub(crate) fn window(failure: &Failure, listing: &Listing, recorded: &Recorded, lines: &Lines) -> Option<Window> {
    let geometry = geometry(failure, listing)?;
    let live = live_then(failure, listing, recorded)?;
    let taken = live.values().fold(0_u64, |sum, (bytes, _)| sum.saturating_add(*bytes));
    // Only what agrees with the allocator's own statistics is believed.
    if taken.checked_add(failure.free_per_bank) != Some(geometry.bank_bytes) {
        return None;
    }
    let occupied = live.into_iter().map(|(address, (bytes, stack))| {
        Some(Occupied { start: address.checked_sub(geometry.base)?, bytes, line: lines.line(stack).cloned() })
    });
    cheapest_window(occupied.collect::<Option<Vec<_>>>()?, geometry.bank_bytes, failure.per_bank)
}

/// How large a bank was; `None` where the allocator's slot was taken again since.
pub(crate) fn geometry(failure: &Failure, listing: &Listing) -> Option<Geometry> {
    let allocator = listing.totals.allocators.iter().find(|allocator| allocator.slot == failure.allocator)?;
    let row = allocator.rows.iter().find(|row| row.kind == failure.kind)?;
    row.geometry.filter(|_| allocator.generation == failure.generation)
}

/// By address: bytes in a bank and stack.
type Then = HashMap<u64, (u64, u32)>;

fn live_then(failure: &Failure, listing: &Listing, recorded: &Recorded) -> Option<Then> {
    let (allocator, kind, then) = (failure.allocator, failure.kind, failure.event);
    // Every event since must be there.
    let first = recorded.events.first()?.number;
    if first > then.checked_add(1)? {
        return None;
    }
    let of_row = |row: (u16, u8)| row == (allocator, kind);
    let entries = listing.entries.iter().filter(|entry| of_row((entry.allocator, entry.kind)) && entry.event <= then);
    let mut live: Then = entries.map(|entry| (entry.address, (u64::from(entry.per_bank), entry.stack))).collect();
    let events = || recorded.events.iter().filter(|event| of_row((event.allocator, event.kind)));
    let mut since: HashMap<u64, ()> = HashMap::new();
    for event in events().filter(|event| event.number > then) {
        match event.op {
            Op::Alloc => {
                since.insert(event.address, ());
            }
            Op::Free if since.remove(&event.address).is_none() => {
                live.insert(event.address, (u64::from(event.per_bank), event.stack));
            }
            Op::FreeAll => {
                since.clear();
                let before = events().filter(|event| event.op == Op::FreeAll && event.number <= then).map(|event| event.number).max();
                let left = listing.left.iter().filter(|entry| of_row((entry.allocator, entry.kind)));
                let left = left.filter(|entry| entry.event <= then && before.is_none_or(|before| entry.event > before));
                live.extend(left.map(|entry| (entry.address, (u64::from(entry.per_bank), entry.stack))));
            }
            // What is in no list cannot be told.
            Op::UnlistedAlloc | Op::UnlistedFree => return None,
            _ => {}
        }
    }
    Some(live)
}
