//! Entries that were live at a free-all: those still in their slots, and those that the writer copied before it cleared the slots.

use std::collections::{HashMap, HashSet};

use super::bytes::u8_at;
use super::entry::Entry;
use super::header::Counters;
use super::rows::row_index;
use super::totals::Frame;
use super::{ReadError, Region};
use crate::layout::entry;

/// Adds the table's records to those found in the entries, each once. Reads the table after the entries, because cleared entries are moved
/// there.
pub(super) fn complete(region: &Region, frame: &mut Frame, left: &mut Vec<Entry>) -> Result<(), ReadError> {
    let counters = Counters::read(&region.source, &region.header.tables)?;
    if counters.left_used > 0 {
        let table = region.header.tables.left;
        let mut seen: HashSet<u64> = left.iter().map(|entry| entry.event).collect();
        region.source.chunks(table, 0, counters.left_used, &mut Vec::new(), |_, chunk| {
            for record in chunk.chunks_exact(table.stride as usize).filter(|record| u8_at(record, entry::STATE) == entry::LIVE) {
                let Some(mut entry) = Entry::decode(u32::MAX, record, &frame.converter) else { continue };
                let row = frame.rows.get(row_index(entry.allocator, entry.kind));
                let belongs = row.is_some_and(|row| row.is_used && row.begun < entry.event && entry.event <= row.epoch);
                if belongs && seen.insert(entry.event) {
                    entry.drop_unknown_names(&frame.counters);
                    left.push(entry);
                }
            }
        })?;
    }
    if !frame.is_exact {
        at_least(frame, left);
    }
    Ok(())
}

/// Raises the counts, because an incomplete free-all may not have counted its entries.
fn at_least(frame: &mut Frame, left: &[Entry]) {
    let mut sums = HashMap::<usize, (u64, u64)>::new();
    for entry in left {
        let sum = sums.entry(row_index(entry.allocator, entry.kind)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(entry.size));
    }
    for allocator in &mut frame.totals.allocators {
        for row in &mut allocator.rows {
            let listed = sums.get(&row_index(allocator.slot, row.kind)).copied().unwrap_or_default();
            if row.left.0 < listed.0 || row.left.1 < listed.1 {
                row.left = listed;
            }
        }
    }
}
