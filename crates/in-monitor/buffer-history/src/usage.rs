//! The memory of each chip that a command used: peaks, and what was not freed.

use std::collections::{BTreeMap, BTreeSet};

use ttmon_model::ledger::{
    Buffer, BufferKind, LedgerAllocator, LedgerChip, LedgerRow, LedgerShared, LedgerSharedPeak, LedgerWriter, PeakGroup,
};
use ttmon_model::{Sample, Snapshot};

use crate::chips::ChipName;
use crate::ledger_summary::LedgerSummary;

/// The memory of one chip.
#[derive(Clone, Debug, Default)]
pub struct ChipUsage {
    /// The memory of each kind.
    pub kinds: BTreeMap<BufferKind, KindUsage>,
    /// Buffers that were not freed: count and bytes.
    pub leaked: (u64, u64),
    /// Buffers of the program cache that were not freed: count and bytes.
    pub cached: (u64, u64),
}

/// One kind of memory on one chip.
#[derive(Clone, Debug, Default)]
pub struct KindUsage {
    /// Highest live bytes, as requested.
    pub peak: u64,
    /// Time of the peak, in nanoseconds since 1970.
    pub peak_time: u64,
    /// Highest live bytes, as allocated, if the banks are known.
    pub peak_allocated: Option<u64>,
    /// Live bytes when the allocator was closed, or when the process ended.
    pub at_end: u64,
    /// Live bytes when a process ended, as requested and as allocated. The peak is at least this high.
    live: (u64, u64),
    /// The sum of the peaks of all allocators, which is an upper bound for their common peak.
    pub peak_at_most: u64,
    /// The allocator's limit.
    capacity: Option<u64>,
    /// The capacity of the chip.
    total: Option<u64>,
    /// The live buffers at the peak.
    pub groups: Vec<PeakGroup>,
    /// Whether several allocators held memory at the same time and their total was not recorded. The peak of the total may be higher than
    /// the peak of each allocator.
    pub is_at_least: bool,
    lifetimes: Vec<Lifetime>,
}

/// The lifetime of an allocator.
#[derive(Clone, Copy, Debug)]
struct Lifetime {
    span: (u64, u64),
    /// The ledger and the origin, if the ledger records the total of all allocators of that origin on the chip.
    sharing: Option<(usize, LedgerWriter)>,
}

impl Lifetime {
    /// Returns whether the two lifetimes overlap and the total of both allocators was not recorded.
    fn hides(&self, other: &Self) -> bool {
        let is_noted = self.sharing.is_some() && self.sharing == other.sharing;
        !is_noted && other.span.0 < self.span.1 && self.span.0 < other.span.1
    }
}

/// Returns the memory of each chip. The chips of the ledgers have their names.
pub(crate) fn chip_usage(summaries: &[LedgerSummary], machine: Option<&Sample>) -> BTreeMap<ChipName, ChipUsage> {
    let snapshot = machine.map(|sample| Snapshot::derive(sample, None));
    let mut chips: BTreeMap<ChipName, ChipUsage> = BTreeMap::new();
    for (number, summary) in summaries.iter().enumerate() {
        // The bytes of one process at its end were live at the same time. The bytes of other processes may have been live at another time.
        chips.values_mut().flat_map(|chip| chip.kinds.values_mut()).for_each(|usage| usage.live = (0, 0));
        for (allocator, names) in summary.ledger.allocators.iter().zip(&summary.chips) {
            for (at, name) in names.iter().enumerate() {
                let shared = chip_at(allocator, names, at).and_then(|chip| summary.ledger.shared_on(chip, allocator.origin));
                let lifetime = Lifetime { span: summary.lifetime(allocator), sharing: shared.map(|_| (number, allocator.origin)) };
                let chip = chips.entry(*name).or_default();
                for row in &allocator.rows {
                    chip.add(allocator, row, lifetime, shared, total(snapshot.as_ref(), *name, row.kind));
                }
            }
        }
    }
    summaries.iter().for_each(|summary| raise_to_leftovers(&mut chips, summary));
    chips
}

/// Adds two figures each. The figures of a hostile program are of any size.
pub(crate) fn add(sum: (u64, u64), more: (u64, u64)) -> (u64, u64) {
    (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1))
}

impl KindUsage {
    /// Returns the allocator's limit if known, else the capacity of the chip.
    pub fn limit(&self) -> Option<u64> {
        self.capacity.or(self.total)
    }

    /// Raises the peak to the common peak of several allocators, if that is higher. The buffers at that peak are unknown.
    fn raise(&mut self, together: LedgerSharedPeak, has_banks: bool) {
        if together.used > self.peak {
            (self.peak, self.peak_time) = (together.used, together.time.0);
            self.groups.clear();
        }
        if has_banks {
            self.peak_allocated = self.peak_allocated.max(Some(together.allocated));
        }
    }
}

impl ChipUsage {
    fn add(&mut self, allocator: &LedgerAllocator, row: &LedgerRow, lifetime: Lifetime, shared: Option<&LedgerShared>, total: Option<u64>) {
        let usage = self.kinds.entry(row.kind).or_default();
        let has_banks = row.capacity.is_some();
        (usage.capacity, usage.total) = (usage.capacity.max(row.capacity), total);
        usage.at_end = usage.at_end.saturating_add(row.at_end(allocator));
        usage.live = add(usage.live, (row.used, row.allocated.unwrap_or(row.used)));
        usage.peak_at_most = usage.peak_at_most.saturating_add(if has_banks { row.peak_allocated } else { row.peak });
        if has_banks {
            usage.peak_allocated = usage.peak_allocated.max(Some(row.peak_allocated)).max(Some(usage.live.1));
        }
        if row.peak > 0 {
            usage.is_at_least |= usage.lifetimes.iter().any(|other| lifetime.hides(other));
            usage.lifetimes.push(lifetime);
        }
        let Some(end) = &row.end else { return };
        if row.peak > usage.peak {
            (usage.peak, usage.peak_time) = (row.peak, row.peak_time.0);
            usage.groups.clone_from(&end.at_peak);
        }
        if let (Some(shared), BufferKind::Of(kind)) = (shared, row.kind) {
            usage.raise(shared.peaks[kind], has_banks);
        }
        usage.peak = usage.peak.max(usage.live.0);
        if row.kind.is_banked() {
            self.leaked = add(self.leaked, end.leaked);
            self.cached = add(self.cached, end.cached);
        }
    }
}

/// Raises the peak to the bytes that were not freed. At the end of an allocator, all buffers that were allocated before and never freed
/// were live, so the peak is at least their sum. This matters only if several allocators share a chip.
fn raise_to_leftovers(chips: &mut BTreeMap<ChipName, ChipUsage>, summary: &LedgerSummary) {
    let mut left: BTreeMap<(ChipName, BufferKind), Vec<&Buffer>> = BTreeMap::new();
    for leftover in &summary.left {
        for chip in summary.chips_of(leftover).into_iter().flatten() {
            left.entry((*chip, leftover.kind)).or_default().push(leftover);
        }
    }
    let allocator_of = |leftover: &Buffer| summary.ledger.allocators.get(usize::from(leftover.allocator));
    let end_of = |leftover: &Buffer| allocator_of(leftover).map_or(0, |allocator| summary.lifetime(allocator).1);
    for ((chip, kind), left) in left {
        let Some(usage) = chips.get_mut(&chip).and_then(|chip| chip.kinds.get_mut(&kind)).filter(|usage| usage.is_at_least) else {
            continue;
        };
        for moment in left.iter().map(|leftover| end_of(leftover)).collect::<BTreeSet<u64>>() {
            let there = left.iter().filter(|leftover| leftover.time.0 <= moment && end_of(leftover) >= moment);
            usage.peak = usage.peak.max(there.map(|leftover| leftover.size).fold(0, u64::saturating_add));
        }
    }
}

/// Returns the capacity of a chip for a kind, if known.
fn total(snapshot: Option<&Snapshot>, chip: ChipName, kind: BufferKind) -> Option<u64> {
    let (ChipName::Device(id), BufferKind::Of(kind)) = (chip, kind) else { return None };
    snapshot?.device(id)?.memory.kinds[kind].total.ok()
}

/// Returns the chip of an allocator at index `at` of its names. Names are in the order of the chips, unless only some of the chips are
/// devices.
fn chip_at<'a>(allocator: &'a LedgerAllocator, names: &[ChipName], at: usize) -> Option<&'a LedgerChip> {
    let is_device = |name: &ChipName| matches!(name, ChipName::Device(_));
    let is_in_order = names.len() == allocator.chips.len() && names.iter().all(|name| is_device(name) == is_device(&names[0]));
    allocator.chips.get(at).filter(|_| is_in_order)
}
