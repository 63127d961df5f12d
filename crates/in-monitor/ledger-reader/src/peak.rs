//! The buffers that were live at the peak of a row: those still live, those freed with the whole row and still in the entry table, and
//! those that the writer copied when they were freed.

use std::collections::HashSet;

use ttmon_ledger::layout::entry;

use super::bytes::u64_at;
use super::entry::Entry;
use super::numbers::{kind_number, row_index};
use super::totals::Figures;
use super::{ReadError, Region};

/// The buffers that were live at the peak of a row: [members](Self::members), and sums of those that are not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeakSet {
    /// The allocator's slot.
    pub(super) allocator: u16,
    /// The kind of memory.
    pub(super) kind: u8,
    /// Bytes at the peak.
    pub(super) peak: u64,
    /// Count and bytes of the members that are still live.
    pub(super) live: (u64, u64),
    /// The members that were freed.
    pub(super) gone: Vec<Entry>,
    /// Count and bytes of buffers that were never listed.
    pub(super) unlisted: (u64, u64),
    /// Count and bytes of buffers that were listed, but are no longer stored.
    pub(super) lost: (u64, u64),
    span: Span,
}

/// The events of a peak's members: after the last free-all before the peak, up to the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) epoch: u64,
    pub(super) event: u64,
}

impl Span {
    /// Whether an entry of the row with this allocation event was live at the peak, if it was not freed before.
    #[inline]
    pub(super) fn contains(self, event: u64) -> bool {
        self.epoch < event && event <= self.event
    }
}

impl PeakSet {
    /// Returns the members. `entries` are those of the listing that has this set. They are not copied, because there may be a million.
    pub(super) fn members<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = &'a Entry> {
        entries.iter().filter(|entry| self.has(entry)).chain(&self.gone)
    }

    /// Whether the parts add up to the peak exactly. They may not while the list is [changing](ttmon_model::ledger::Exactness::Changing).
    pub(super) fn is_whole(&self) -> bool {
        self.sum() == self.peak
    }

    fn has(&self, entry: &Entry) -> bool {
        entry.allocator == self.allocator && entry.kind == self.kind && self.span.contains(entry.event)
    }

    fn sum(&self) -> u64 {
        [self.live.1, self.unlisted.1, self.lost.1].into_iter().fold(bytes(&self.gone), u64::saturating_add)
    }

    /// Adds members from the peak copies. An entry may be in both tables if its free is incomplete or happened after the copy.
    fn add_copies(&mut self, mut copies: Vec<Entry>, entries: &[Entry]) {
        let mut seen = HashSet::new();
        copies.retain(|entry| seen.insert(entry.event));
        if self.sum().saturating_add(bytes(&copies)) > self.peak {
            let in_both: HashSet<u64> = self.members(entries).map(|entry| entry.event).filter(|event| seen.contains(event)).collect();
            copies.retain(|entry| !in_both.contains(&entry.event));
        }
        self.gone.append(&mut copies);
    }

    /// Corrects a member that is counted twice: the writer stopped after it counted the member as lost and before it freed it.
    fn take_back_lost(&mut self) {
        let excess = self.sum().saturating_sub(self.peak);
        if excess > 0 && excess <= self.lost.1 {
            self.lost = (self.lost.0.saturating_sub(1), self.lost.1 - excess);
        }
    }
}

/// Returns the peak sets of all rows that were ever used. `gone` are entries that were freed with their row.
pub(super) fn sets(region: &Region, figures: &Figures, entries: &[Entry], gone: &[Entry]) -> Result<Vec<PeakSet>, ReadError> {
    let mut sets = Vec::new();
    let mut set_of_row = vec![None; figures.rows.len()];
    for allocator in &figures.ledger.allocators {
        for row in allocator.rows.iter().filter(|row| row.peak > 0) {
            let kind = kind_number(row.kind);
            let index = row_index(allocator.slot, kind);
            let record = &figures.rows[index];
            set_of_row[index] = Some(sets.len());
            sets.push(PeakSet {
                allocator: allocator.slot,
                kind,
                peak: row.peak,
                live: record.peak_live,
                gone: Vec::new(),
                unlisted: record.peak_unlisted,
                lost: record.peak_lost,
                span: record.peak_span,
            });
        }
    }
    let set_of = |entry: &Entry| set_of_row.get(row_index(entry.allocator, entry.kind)).copied().flatten();
    for entry in gone {
        if let Some(set) = set_of(entry).filter(|&set: &usize| sets[set].has(entry)) {
            sets[set].gone.push(*entry);
        }
    }
    if sets.iter().any(|set| set.sum() < set.peak) {
        let mut copies = vec![Vec::new(); sets.len()];
        each_peak_copy(region, figures, |entry, peak_event| {
            if let Some(set) = set_of(&entry).filter(|&set| sets[set].has(&entry) && sets[set].span.event == peak_event) {
                copies[set].push(entry);
            }
        })?;
        for (set, copies) in sets.iter_mut().zip(copies) {
            set.add_copies(copies, entries);
        }
    }
    if figures.is_stalled {
        sets.iter_mut().for_each(PeakSet::take_back_lost);
    }
    Ok(sets)
}

fn bytes(entries: &[Entry]) -> u64 {
    entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.size))
}

/// Passes each peak copy to `each`, with the event of its peak.
fn each_peak_copy(region: &Region, figures: &Figures, mut each: impl FnMut(Entry, u64)) -> Result<(), ReadError> {
    let table = region.header.tables.peak_copies;
    region.source.each(table, 0, table.records, |_, record| {
        if let Some(mut entry) = Entry::decode(u32::MAX, record, &figures.converter) {
            // The stack of a peak copy is at the position of an entry's references.
            (entry.stack, entry.refs) = (entry.refs, 1);
            entry.drop_unknown_names(&figures.counters);
            each(entry, u64_at(record, entry::PEAK_EVENT));
        }
        Ok(())
    })
}
