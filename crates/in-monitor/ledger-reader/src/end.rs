//! A ledger that is read for the last time: the buffers at the peaks, and those that were never freed.

use std::cmp::Reverse;
use std::collections::HashMap;

use ttmon_model::groups::sums;
use ttmon_model::ledger::{Buffer, Ledger, LedgerGeometry, LedgerRow, PeakGroup, RowEnd};
use ttmon_model::room::largest_free;

use super::entry::{Entry, Names};
use super::lines::Lines;
use super::list::Listing;
use super::numbers::{kind_number, row_index};
use super::peak::PeakSet;

/// Maximum number of groups for each peak. The rest is one more group.
const GROUPS_MAX: usize = 64;

/// The contents of a ledger at the end of its program. The rows have their [`RowEnd`].
#[derive(Debug)]
pub struct FinalLedger {
    /// The figures.
    pub ledger: Ledger,
    /// The buffers that were not freed, largest first: those that are live, and those that ended with their allocator.
    pub left: Vec<Buffer>,
    /// The lines of all stacks.
    pub lines: Lines,
}

/// Count and bytes.
type Sum = (u64, u64);

/// Completes a listing. Keeps only the `left_max` largest buffers that were not freed.
pub(super) fn final_ledger(listing: Listing, lines: Lines, left_max: usize) -> FinalLedger {
    let Listing { figures, entries, peak_sets, left, tags, .. } = listing;
    let mut ledger = figures.ledger;
    let names = Names::new(&ledger.allocators, &tags, &lines);
    let not_freed = NotFreed::of(entries.iter().chain(&left));
    for allocator in &mut ledger.allocators {
        let geometry: Vec<Option<LedgerGeometry>> = allocator.rows.iter().map(|row| allocator.geometry_of(row.kind)).collect();
        for (row, geometry) in allocator.rows.iter_mut().zip(geometry) {
            let kind = kind_number(row.kind);
            let peak = peak_sets.iter().find(|set| (set.allocator, set.kind) == (allocator.slot, kind));
            let (cached, leaked) = not_freed.of_row(row_index(allocator.slot, kind), row);
            row.end = Some(Box::new(RowEnd {
                at_peak: peak.map_or_else(Vec::new, |set| groups(set, &entries, &names)),
                largest_free_at_peak: peak.zip(geometry).and_then(|(set, geometry)| largest_free_at(set, &entries, geometry)),
                cached,
                leaked,
            }));
        }
    }
    let mut largest: Vec<&Entry> = entries.iter().chain(&left).collect();
    largest.sort_unstable_by_key(|entry| (Reverse(entry.size), entry.allocator, entry.address));
    largest.truncate(left_max);
    let left = largest.into_iter().filter_map(|entry| entry.buffer(&names)).collect();
    FinalLedger { ledger, left, lines }
}

/// Sums of the program cache's buffers and of the other buffers that were not freed, by row.
struct NotFreed(HashMap<usize, (Sum, Sum)>);

impl NotFreed {
    fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut sums: HashMap<usize, (Sum, Sum)> = HashMap::new();
        for entry in entries {
            let (cached, others) = sums.entry(row_index(entry.allocator, entry.kind)).or_default();
            let sum = if entry.is_cached() { cached } else { others };
            *sum = (sum.0 + 1, sum.1.saturating_add(entry.size));
        }
        Self(sums)
    }

    /// Returns the sums of the program cache's buffers and of the other buffers. Buffers that do not fit into the list count as others.
    fn of_row(&self, index: usize, row: &LedgerRow) -> (Sum, Sum) {
        // A row without buffers in the list has no sums.
        let (cached, others) = self.0.get(&index).copied().unwrap_or_default();
        let closed = row.at_close.unwrap_or_default().all;
        let all = (row.count.saturating_add(closed.0), row.used.saturating_add(closed.1));
        (cached, (others.0.max(all.0.saturating_sub(cached.0)), others.1.max(all.1.saturating_sub(cached.1))))
    }
}

/// Returns the largest free block of a bank at a peak, if all its buffers are known.
fn largest_free_at(set: &PeakSet, entries: &[Entry], geometry: LedgerGeometry) -> Option<u64> {
    let is_known = set.is_whole() && set.unlisted.0 == 0 && set.lost.0 == 0;
    is_known.then(|| largest_free(set.members(entries).map(|member| (member.address, member.per_bank.into())), geometry)).flatten()
}

fn groups(set: &PeakSet, entries: &[Entry], names: &Names<'_>) -> Vec<PeakGroup> {
    // There may be a million members, so they are first summed by numbers.
    let by_number = sums(set.members(entries).map(|member| ((member.stack, member.tag, member.operation), (1, member.size))));
    let named = by_number
        .into_iter()
        .map(|((stack, tag, operation), sum)| ((names.lines.line(stack), names.tags.get(tag), names.tags.get(operation)), sum));
    let mut groups = sums(named);
    let not_listed = (set.unlisted.0.saturating_add(set.lost.0), set.unlisted.1.saturating_add(set.lost.1));
    let cut = groups.split_off(groups.len().min(GROUPS_MAX));
    let (count, bytes) =
        cut.iter().fold(not_listed, |sum, (_, (count, bytes))| (sum.0.saturating_add(*count), sum.1.saturating_add(*bytes)));
    let named = groups.into_iter().map(|((line, tag, operation), (count, bytes))| PeakGroup {
        line: line.cloned(),
        tag: tag.cloned(),
        operation: operation.cloned(),
        bytes,
        count,
    });
    let other = PeakGroup { line: None, tag: Some(PeakGroup::OTHER.to_owned().into()), operation: None, bytes, count };
    named.chain((count > 0).then_some(other)).collect()
}
