//! Entries that were live at a free-all: those still in their slots, and those that the writer copied before it cleared the slots.

use std::collections::{HashMap, HashSet};

use ttmon_ledger::layout::entry;
use ttmon_model::ledger::AtClose;

use super::bytes::u8_at;
use super::entry::Entry;
use super::header::Counters;
use super::numbers::{kind_number, row_index};
use super::totals::Figures;
use super::{ReadError, Region};

/// Adds the table's records to those found in the entries, each once. Reads the table after the entries, because cleared entries are moved
/// there.
pub(super) fn complete(region: &Region, figures: &mut Figures, left: &mut Vec<Entry>) -> Result<(), ReadError> {
    let counters = Counters::read(&region.source, &region.header.tables)?;
    if counters.left_used > 0 {
        let mut seen: HashSet<u64> = left.iter().map(|entry| entry.event).collect();
        let decode = |record: &[u8]| {
            let mut entry = Entry::decode(u32::MAX, record, &figures.converter).filter(|_| u8_at(record, entry::STATE) == entry::LIVE)?;
            entry.drop_unknown_names(&figures.counters);
            let row = figures.rows.get(row_index(entry.allocator, entry.kind))?;
            (row.is_used && row.begun < entry.event && entry.event <= row.epoch).then_some(entry)
        };
        let stored = region.source.decoded(region.header.tables.left, counters.left_used, decode)?;
        left.extend(stored.into_iter().filter(|entry| seen.insert(entry.event)));
    }
    if !figures.is_exact {
        at_least(figures, left);
    }
    Ok(())
}

/// Raises the counts, because an incomplete free-all may not have counted its entries.
fn at_least(figures: &mut Figures, left: &[Entry]) {
    let mut sums = HashMap::<usize, (u64, u64)>::new();
    for entry in left {
        let sum = sums.entry(row_index(entry.allocator, entry.kind)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(entry.size));
    }
    for allocator in &mut figures.ledger.allocators {
        for row in &mut allocator.rows {
            // A row without entries has no sum.
            let listed = sums.get(&row_index(allocator.slot, kind_number(row.kind))).copied().unwrap_or_default();
            let counted = row.at_close.unwrap_or_default();
            if counted.all.0 < listed.0 || counted.all.1 < listed.1 {
                row.at_close = Some(AtClose { all: listed, ..counted });
            }
        }
    }
}
